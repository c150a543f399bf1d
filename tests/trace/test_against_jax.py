"""Values, derivatives and batches of the same programs in braze and in JAX."""

from __future__ import annotations

import random

import numpy as np
import pytest
from worlds import BRAZE, jax_world

JAX = jax_world()
pytestmark = pytest.mark.skipif(JAX is None, reason="jax is not installed")

A, X = np.float32(0.3), np.float32(0.7)
XS = np.linspace(0.1, 0.9, 5, dtype=np.float32)
AB, XB, XSB = np.stack([A, A + 1]), np.stack([X, 2 * X]), np.stack([XS, XS + 1])


def agree(ours, theirs, tolerance=2e-5):
    from braze import tree

    ours, theirs = tree.leaves(ours), tree.leaves(theirs)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        mine, other = np.asarray(mine), np.asarray(other)
        assert mine.shape == other.shape and mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance)


def loop(w):
    """A scan with a captured value (its exponential is loop-invariant), a state, and a stacked result."""

    def f(a, x, xs):
        k = w.exp(w.mul(a, np.float32(-1)))  # below 1, so that the loop does not amplify rounding

        def step(c, y):
            return w.add(w.mul(w.mul(w.sin(c), w.mul(k, k)), y), np.float32(0.5)), w.mul(c, y)

        c, ys = w.scan(step, x, xs)
        return w.add(c, w.total(ys))

    return f


def backwards(w):
    def f(a, x, xs):
        c, ys = w.scan(lambda c, y: (w.mul(w.cos(c), w.add(y, a)), w.tanh(c)), x, xs, reverse=True)
        return w.mul(c, w.total(w.mul(ys, xs)))

    return f


def branches(w):
    def f(a, x, xs):
        def choose(i):
            return w.switch(
                np.int32(i),
                [lambda a, x: w.mul(w.sin(a), x), lambda a, x: w.exp(w.mul(a, x)), lambda a, x: x],
                a,
                x,
            )

        return w.add(w.mul(choose(0), choose(1)), w.mul(choose(2), w.total(xs)))

    return f


def data_branch(w):
    """The branch depends on the data: under vmap both run and each example selects."""

    def f(a, x, xs):
        index = w.to_int(w.lt(x, np.float32(1.0)))
        picked = w.switch(index, [lambda a, x: w.sin(w.mul(a, x)), lambda a, x: w.mul(x, x)], a, x)
        return w.mul(picked, w.total(w.mul(xs, xs)))

    return f


def called(w):
    def f(a, x, xs):
        inner = w.jit(lambda x, y: w.mul(w.sin(x), w.mul(y, a)))  # captures a
        return w.add(w.total(w.mul(inner(x, x), xs)), inner(a, x))

    return f


def kinks(w):
    def f(a, x, xs):
        return w.total(w.max(w.mul(xs, a), w.where(w.lt(xs, w.mul(xs, x)), xs, w.power(xs, 3))))

    return f


def nested_loops(w):
    def f(a, x, xs):
        def outer(c, y):
            inner, zs = w.scan(lambda d, z: (w.mul(w.sin(d), z), w.mul(d, a)), w.add(c, y), xs)
            return w.mul(inner, y), w.total(zs)

        c, ys = w.scan(outer, x, xs)
        return w.add(c, w.total(ys))

    return f


PROGRAMS = [loop, backwards, branches, data_branch, called, kinks, nested_loops]
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)


def compare(program, *uses):
    def results(w):
        f = program(w)
        return [use(w, f) for use in uses]

    agree(results(BRAZE), JAX.jit(lambda: results(JAX))())


@each_program
def test_values_and_forward_derivatives(program):
    compare(
        program,
        lambda w, f: f(A, X, XS),
        lambda w, f: w.jvp(f, (A, X, XS), (X, A, XS)),
        lambda w, f: w.linearize(f, A, X, XS)[1](X, A, XS),
        lambda w, f: w.jvp(lambda a: f(a, X, XS), (A,), (A,)),
        lambda w, f: w.jvp(lambda x: f(A, x, XS), (X,), (A,)),
        lambda w, f: w.jvp(lambda xs: f(A, X, xs), (XS,), (XS,)),
    )


@each_program
def test_gradients(program):
    compare(
        program,
        lambda w, f: w.value_and_grad(f, argnums=(0, 1, 2))(A, X, XS),
        lambda w, f: [w.grad(f, argnums=n)(A, X, XS) for n in range(3)],
        lambda w, f: w.jit(w.grad(f, argnums=(0, 2)))(A, X, XS),
    )


@each_program
def test_batches_of_gradients(program):
    def use(axes):
        args = [batch if a == 0 else one for a, batch, one in zip(axes, (AB, XB, XSB), (A, X, XS))]
        return lambda w, f: w.vmap(w.value_and_grad(f, argnums=(0, 1, 2)), in_axes=axes)(*args)

    none = None
    compare(program, *map(use, [(0, 0, 0), (0, none, none), (none, 0, none), (none, none, 0), (0, none, 0)]))


@each_program
def test_second_derivatives(program):
    compare(
        program,
        lambda w, f: w.hessian(f, argnums=(0, 1))(A, X, XS),
        lambda w, f: w.jacrev(w.jacfwd(f, 2), 2)(A, X, XS),
        lambda w, f: w.grad(w.jit(w.grad(f, argnums=1)), argnums=0)(A, X, XS),
    )


@each_program
def test_gradient_of_a_batch(program):
    def use(w, f):
        summed = lambda *t: w.total(w.vmap(f, in_axes=(0, None, 0))(*t))
        return w.jit(w.grad(summed, argnums=(0, 1, 2)))(AB, X, XSB)

    compare(program, use)


def test_while_forward_and_batched():
    def program(w):
        def f(x, n):
            return w.sin(w.while_loop(lambda c: w.lt(c, n), lambda c: w.mul(w.add(c, np.float32(0.5)), x), x))

        return f

    x, n = np.float32(2.5), np.float32(30)
    xs, ns = np.array([2.5, 1.7, 40], np.float32), np.array([30, 90, 8], np.float32)
    compare(
        program,
        lambda w, f: w.jvp(f, (x, n), (x, n)),
        lambda w, f: w.linearize(f, x, n)[1](x, n),
        *[
            lambda w, f, axes=axes, args=args, derive=derive: w.vmap(derive(w, f), in_axes=axes)(*args)
            for axes, args in (((0, 0), (xs, ns)), ((0, None), (xs, n)), ((None, 0), (x, ns)))
            for derive in (lambda w, f: f, lambda w, f: w.jacfwd(f))
        ],
    )


# Random compositions: a function from f32[3] to f32[] is transformed into another one.


def _jit(w, f, rng):
    return w.jit(f)


def _grad(w, f, rng):
    return lambda x: w.total(w.sin(w.grad(f)(x)))


def _vmap(w, f, rng):
    axis = rng.choice([0, 1])
    return lambda x: w.total(w.vmap(f, in_axes=axis)(w.stack(x, w.cos(x), w.mul(x, x))))


def _jvp(w, f, rng):
    return lambda x: w.add(*w.jvp(f, (x,), (w.cos(x),)))


def _linearize(w, f, rng):
    return lambda x: w.linearize(f, x)[1](w.sin(x))


def _vjp(w, f, rng):
    return lambda x: w.total(w.vjp(f, x)[1](f(x))[0])


def _jacfwd(w, f, rng):
    return lambda x: w.total(w.mul(w.jacfwd(f)(x), x))


def _scan(w, f, rng):
    def run(x):
        c, ys = w.scan(lambda c, y: (w.tanh(w.add(w.mul(c, y), f(c))), f(w.mul(c, y))), x, XS[:3])
        return w.add(w.total(c), w.total(w.mul(ys, ys)))

    return run


def _cond(w, f, rng):
    def run(x):
        y = f(w.mul(x, np.float32(0.5)))
        index = w.to_int(w.lt(y, np.float32(rng_bound)))
        return w.switch(index, [f, lambda x: w.mul(w.total(x), y)], x)

    rng_bound = rng.choice([-10.0, 0.3, 10.0])
    return run


STEPS = [_jit, _grad, _vmap, _jvp, _linearize, _vjp, _jacfwd, _scan, _cond]


def _base(w, rng):
    parts = [
        lambda x: w.total(w.sin(w.mul(x, x))),
        lambda x: w.total(w.tanh(w.mul(w.exp(x), np.float32(0.3)))),
        lambda x: w.div(w.total(w.mul(w.sin(x), x)), w.add(w.total(w.mul(x, x)), np.float32(1.0))),
    ]
    return rng.choice(parts)


def _compose(w, seed):
    rng = random.Random(seed)
    f = _base(w, rng)
    for step in [rng.choice(STEPS) for _ in range(3)]:
        f = step(w, f, rng)
    return f


@pytest.mark.parametrize("seed", range(24))
def test_random_compositions_to_depth_three(seed):
    x = np.array([0.4, -0.7, 0.2], np.float32)
    expected = JAX.jit(_compose(JAX, seed))(x)
    agree(_compose(BRAZE, seed)(x), expected, 2e-4)
    agree(BRAZE.jit(_compose(BRAZE, seed))(x), expected, 2e-4)
