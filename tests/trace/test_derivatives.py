"""What the transformations promise beyond numbers: structure, errors, zeros, sharing."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from worlds import BRAZE as w

from braze import core, dtypes
from braze.errors import ArgumentError, ConcretizationError, DifferentiationError, DTypeError, ShapeError
from braze.ops import control
from braze.trace import jaxpr as ir
from braze.trace.derive import batch_jaxpr, jvp_jaxpr, linearize_jaxpr, transpose_jaxpr
from braze.trace.make_jaxpr import make_jaxpr
from braze.trace.transpose import linear_transpose

X = np.float32(0.7)
XS = np.linspace(0.1, 0.9, 4, dtype=np.float32)
Point = collections.namedtuple("Point", "x y")


def same(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def names(closed):
    return [eqn.op.name for eqn in closed.eqns]


def test_python_control_flow_on_concrete_values():
    f = lambda x: w.sin(x) if w.lt(x, 1.0) else w.mul(x, x)
    same(w.grad(f)(0.5), np.cos(0.5))
    same(w.grad(w.grad(f))(3.0), 2.0)
    same(w.jvp(f, (3.0,), (1.0,))[1], 6.0)

    def powers(x):
        y, n = x, 0
        while w.lt(y, 100.0):
            y, n = w.mul(y, x), n + 1
        return w.mul(y, float(n))

    same(w.grad(powers)(3.0), 4 * 5 * 3.0**4)
    same(w.grad(lambda x: w.mul(x, [1.0, 10.0][w.to_int(w.lt(x, 1.0))]))(0.5), 10.0)


def test_conversions_that_would_lose_a_derivative_are_errors():
    for convert in (float, np.asarray, complex):
        with pytest.raises(ConcretizationError, match="derivative zero"):
            w.grad(lambda x, convert=convert: w.mul(x, convert(x)))(X)
    assert int(np.asarray(w.grad(lambda x: w.mul(x, float(int(x))))(2.5))) == 2


def test_pytrees_keep_their_classes():
    f = lambda p, q: w.add(w.mul(p.x, q["a"][0]), w.sin(p.y))
    found = w.grad(f, argnums=(0, 1))(Point(X, X), {"a": [X]})
    assert isinstance(found[0], Point) and isinstance(found[1]["a"], list)
    same(found[0].y, np.cos(X))
    _, tangent = w.jvp(lambda p: {"s": w.mul(p.x, p.y)}, (Point(X, X),), (Point(X, X),))
    same(tangent["s"], 2 * X * X)


def test_auxiliary_values_need_not_be_arrays():
    f = lambda x: (w.mul(x, x), {"half": w.mul(x, np.float32(0.5)), "note": "text", "n": 3})
    (value, aux), gradient = w.value_and_grad(f, has_aux=True)(X)
    same(value, X * X), same(gradient, 2 * X), same(aux["half"], X / 2)
    assert aux["note"] == "text" and not isinstance(aux["half"], core.Tracer)
    assert w.grad(f, has_aux=True)(X)[1]["n"] == 3
    assert w.jvp(f, (X,), (X,), has_aux=True)[2]["note"] == "text"
    _, pull_back, aux = w.vjp(f, X, has_aux=True)
    same(pull_back(np.float32(1))[0], 2 * X)
    with pytest.raises(ArgumentError, match="must return a pair"):
        w.grad(lambda x: x, has_aux=True)(X)


def test_integers_have_float0_tangents():
    f = lambda x, n: w.mul(x, x)
    found = w.grad(f, argnums=(0, 1), allow_int=True)(X, np.int32(3))
    assert found[1].dtype == dtypes.FLOAT0 and found[1].shape == ()
    _, pull_back = w.vjp(f, X, np.int32(3))
    assert pull_back(np.float32(1))[1].dtype == dtypes.FLOAT0
    zero = np.zeros((), dtypes.FLOAT0)
    same(w.jvp(f, (X, np.int32(3)), (X, zero))[1], 2 * X * X)
    _, tangent = w.jvp(lambda x: w.to_int(w.lt(x, 1.0)), (X,), (X,))
    assert tangent.dtype == dtypes.FLOAT0


def test_gradient_of_what_does_not_depend_is_zero():
    found = w.grad(lambda x, y: w.mul(x, x), argnums=(0, 1))(X, XS)
    assert np.asarray(found[1]).shape == (4,) and not np.asarray(found[1]).any()
    same(w.grad(lambda x: 3.0)(X), 0)


@pytest.mark.parametrize(
    "use, error, words",
    [
        (lambda: w.grad(lambda x: x)(XS), DifferentiationError, "must return a scalar, <lambda> returned f32[4]"),
        (lambda: w.grad(lambda x: (x, x))(X), DifferentiationError, "must return one scalar"),
        (lambda: w.grad(lambda x: w.to_int(w.lt(x, X)))(X), DifferentiationError, "a real float"),
        (lambda: w.grad(lambda x: x)(3), DifferentiationError, "argument 0 is i32[], a float is wanted"),
        (lambda: w.grad(lambda p: p["a"][1])({"a": [X, 1]}), DifferentiationError, "argument 0['a'][1] is i32[]"),
        (lambda: w.grad(lambda x: x)(1j), DifferentiationError, "a real value is wanted"),
        (lambda: w.grad(lambda x: x, argnums=2)(X), ArgumentError, "at least 3 positional arguments, 1 were given"),
        (lambda: w.jvp(w.sin, (X,), (1,)), DTypeError, "has dtype f32, i32 was given"),
        (lambda: w.jvp(w.sin, (XS,), (X,)), ShapeError, "has shape (4,), () was given"),
        (lambda: w.jvp(w.sin, X, X), ArgumentError, "must be tuples or lists"),
        (lambda: w.jvp(w.sin, (X,), (X, X)), ArgumentError, "length 1 is wanted, one of length 2"),
        (lambda: w.vjp(w.sin, X)[1](XS), ShapeError, "of type f32[] is wanted, f32[4] was given"),
        (lambda: w.vjp(lambda x: (x, x), X)[1](X), ArgumentError, "a tuple is wanted"),
        (lambda: w.linearize(w.sin, X)[1](XS), ShapeError, "has shape (), (4,) was given"),
        (lambda: w.vmap(lambda x, y: x)(XS, XS[:3]), ShapeError, "3: axis 0 of argument y of type f32[3]; 4: axis 0"),
        (lambda: w.vmap(lambda x: x, in_axes=1)(XS), ShapeError, "argument x of type f32[4] has 1 axes"),
        (lambda: w.vmap(lambda x: x)(X), ShapeError, "argument x of type f32[] has 0 axes"),
        (lambda: w.vmap(lambda x: x, in_axes=None)(XS), ArgumentError, "no argument has a batch axis"),
        (lambda: w.vmap(lambda x: x, in_axes=(0, 0))(XS), ArgumentError, "2 entries for 1 positional"),
        (lambda: w.vmap(lambda x: x, in_axes=({"a": 0},))([XS]), ArgumentError, "in_axes is no prefix"),
        (lambda: w.vmap(lambda x: x, in_axes="a"), ArgumentError, "str was given"),
        (lambda: w.vmap(lambda x: x, in_axes=("a",))(XS), ArgumentError, "'a', an int or None is wanted"),
        (lambda: w.vmap(lambda x: x, out_axes=None)(XS), ArgumentError, "out_axes is None for a result that depends"),
        (lambda: w.vmap(lambda x: x, out_axes=2)(XS), ShapeError, "out_axes has axis 2 for a result with 1 axes"),
        (lambda: w.vmap(lambda x: x, axis_size=3)(XS), ShapeError, "3: axis_size"),
    ],
)  # fmt: skip
def test_errors_say_what_holds_and_what_is_wanted(use, error, words):
    with pytest.raises(error) as caught:
        use()
    assert words in str(caught.value)
    if "str was given" not in words:  # that one is raised before anything is called
        assert "test_derivatives.py" in str(caught.value)


def test_batch_axes_and_prefixes():
    m = np.arange(12, dtype=np.float32).reshape(3, 4)
    f = lambda p, q: {"s": w.mul(p["a"], q), "t": p["b"]}
    found = w.vmap(f, in_axes=({"a": -1, "b": None}, 0), out_axes={"s": 1, "t": None})({"a": m, "b": X}, XS)
    same(found["s"], m * XS)
    same(found["t"], X)
    same(w.vmap(lambda x: X, out_axes=0)(XS), np.full(4, X))
    same(w.vmap(lambda x, *, k: w.mul(x, k))(XS, k=XS), XS * XS)
    same(w.vmap(lambda x: x, in_axes=None, axis_size=2)(XS), np.stack([XS, XS]))
    same(w.vmap(w.vmap(w.mul, in_axes=(0, None)), in_axes=(None, 0))(XS, XS), np.outer(XS, XS))


def test_operands_of_other_ranks_are_aligned():
    m = np.arange(12, dtype=np.float32).reshape(4, 3)
    same(w.vmap(lambda s, v: w.mul(v, s))(XS, m), m * XS[:, None])
    same(w.vmap(lambda s, v: w.mul(v, s), in_axes=(0, None))(XS, m[0]), np.outer(XS, m[0]))
    same(w.vmap(lambda s, v: w.mul(s, v), in_axes=(None, 1))(X, m), (m * X).T)


def test_broadcast_operands_get_gradients_of_their_shape():
    m = np.arange(6, dtype=np.float32).reshape(2, 3)
    row = np.ones((1, 3), np.float32)
    f = lambda s, r, m: w.total(w.mul(w.add(m, s), r))
    found = w.grad(f, argnums=(0, 1, 2))(X, row, m)
    same(found[0], 6), same(found[1], (m + X).sum(0, keepdims=True)), same(found[2], np.ones((2, 3)))
    same(w.jvp(lambda s: w.add(m, s), (X,), (X,))[1], np.full((2, 3), X))


def test_jit_stays_one_call_with_a_linear_one():
    f = w.jit(lambda x: w.total(w.sin(w.mul(x, x))))
    closed = make_jaxpr(w.grad(lambda x: f(x)))(XS)
    assert names(closed) == ["jit", "jit"]
    ir.check(closed)


def test_derived_jaxprs_are_the_same_objects_again():
    closed = make_jaxpr(lambda x: w.sin(w.mul(x, x)))(XS)
    assert jvp_jaxpr(closed, (True,), (False,)) is jvp_jaxpr(closed, (True,), (False,))
    assert batch_jaxpr(closed, 3, (True,), (False,)) is batch_jaxpr(closed, 3, (True,), (False,))
    split = linearize_jaxpr(closed, (True,), (False,))
    assert split is linearize_jaxpr(closed, (True,), (False,))
    flags = (False,) * len(split.residuals) + (True,)
    once = transpose_jaxpr(split.linear, flags, (True,))
    assert once is transpose_jaxpr(split.linear, flags, (True,))
    for derived in (split.known, split.linear, once[0]):
        ir.check(derived)


def test_loop_invariant_residuals_are_not_stacked():
    def f(a, x):
        k = w.exp(a)
        c, _ = w.scan(lambda c, y: (w.mul(w.mul(c, w.sin(k)), y), c), x, XS)
        return c

    closed = make_jaxpr(w.grad(f, argnums=(0, 1)))(X, X)
    ir.check(closed)
    forward, back = [eqn for eqn in closed.eqns if eqn.op.name == "scan"]
    stacked = [v for v in forward.outputs if v.type.shape == (4,)]
    assert len(stacked) <= 3  # ys, and what each step needs: neither sin(k) nor cos(k) nor xs
    outside = [eqn.op.name for eqn in closed.eqns]
    assert outside.index("sin") < len(outside) - 1 - outside[::-1].index("scan")  # before the scan back
    assert back.attrs["reverse"] is True
    rows = list(back.inputs[back.attrs["num_consts"] + back.attrs["num_carry"] :])
    assert closed.jaxpr.invars[0] not in rows


def test_reverse_through_while_names_the_way_out():
    f = lambda x: w.while_loop(lambda c: w.lt(c, np.float32(9)), lambda c: w.mul(c, c), x)
    with pytest.raises(DifferentiationError, match="not known in advance") as caught:
        w.grad(f)(np.float32(2))
    assert "lax.scan" in str(caught.value)
    same(w.jvp(f, (np.float32(2),), (np.float32(1),))[1], 4 * 2.0**3)


def test_callbacks_run_once_per_evaluation_and_once_per_example():
    seen = []

    def f(x):
        control.debug_callback(x, callback=lambda v: seen.append(float(v)), ordered=True)
        return w.mul(x, x)

    w.grad(f)(X)
    assert seen == [pytest.approx(X)]
    seen.clear()
    w.vmap(w.grad(f))(XS)
    assert seen == pytest.approx(list(XS))
    seen.clear()
    w.grad(w.jit(f))(X)
    assert seen == [pytest.approx(X)]


def test_linear_transpose_is_the_adjoint():
    f = lambda x: w.mul(w.add(x, x), XS)
    ct, t = np.float32([1, 2, 3, 4]), np.float32([4, 3, 2, 1])
    (found,) = linear_transpose(f, XS)(ct)
    same(np.dot(np.asarray(found), t), np.dot(ct, np.asarray(f(t))))
    with pytest.raises(DifferentiationError, match="sin"):
        linear_transpose(w.sin, XS)(ct)


def test_linearized_function_does_no_work_on_primals():
    counted = []

    def f(x):
        control.debug_callback(x, callback=lambda v: counted.append(1), ordered=True)
        return w.sin(x)

    _, derivative = w.linearize(f, X)
    same(derivative(np.float32(2)), 2 * np.cos(X))
    same(derivative(np.float32(3)), 3 * np.cos(X))
    assert len(counted) == 1


def test_jacobians_of_trees_have_blocks():
    f = lambda p: {"u": w.mul(p["a"], p["b"]), "v": w.total(p["a"])}
    p = {"a": XS, "b": X}
    for jacobian in (w.jacfwd(f)(p), w.jacrev(f)(p)):
        same(jacobian["u"]["a"], np.eye(4) * X)
        same(jacobian["u"]["b"], XS)
        same(jacobian["v"]["a"], np.ones(4))
        same(jacobian["v"]["b"], 0)
    with pytest.raises(DifferentiationError, match="real floats"):
        w.jacfwd(lambda x: x)(3)
    _, aux = w.jacrev(lambda x: (w.mul(x, x), "aux"), has_aux=True)(X)
    assert aux == "aux"


def test_gradients_of_long_chains_meet_no_recursion_limit():
    def f(x):
        for _ in range(3000):
            x = w.sin(x)
        return x

    closed = make_jaxpr(w.grad(f))(X)
    assert names(closed).count("cos") == 3000 and names(closed).count("mul") == 3000
    ir.check(closed)
    assert np.isfinite(np.asarray(w.jit(w.grad(f))(X)))
