"""Loops and branches: results, gradients and batches as JAX gives them, on both targets and outside jit."""

from __future__ import annotations

from typing import Any

import jax
import jax.lax
import jax.numpy as jnp
import numpy as np
import pytest

import braze as bz
import braze.lax
import braze.numpy as bnp
from braze import lax

RNG = np.random.default_rng(7)
X = np.asarray(RNG.standard_normal((5, 3)), np.float32)
V = X[0]


class Braze:
    """The names that programs below use, of braze."""

    lax, np = braze.lax, bnp
    grad, vmap, jvp, vjp, value_and_grad = bz.grad, bz.vmap, bz.jvp, bz.vjp, bz.value_and_grad


class Jax:
    """The same of JAX."""

    lax, np = jax.lax, jnp
    grad, vmap, jvp, vjp, value_and_grad = jax.grad, jax.vmap, jax.jvp, jax.vjp, jax.value_and_grad


def check(program: Any, *args: Any, eager: bool = True) -> None:
    wanted, in_tree = jax.tree.flatten(jax.jit(lambda *a: program(Jax, *a))(*args))
    runs = [bz.jit(lambda *a: program(Braze, *a), target=t) for t in ("cpu", "numpy")]
    if eager:
        runs.append(lambda *a: program(Braze, *map(bnp.asarray, a)))
    for run in runs:
        found, out_tree = bz.tree.flatten(run(*args))
        assert len(found) == len(wanted) and str(out_tree).count("*") == str(in_tree).count("*")
        for x, y in zip(found, wanted, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-5, atol=1e-5)


def collatz(m: Any, n: Any) -> Any:
    def body(carry: Any) -> Any:
        steps, n = carry
        return steps + 1, m.np.where(n % 2 == 0, n // 2, 3 * n + 1)

    return m.lax.while_loop(lambda c: c[1] != 1, body, (0, n))


def rnn(m: Any, w: Any, xs: Any, **options: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = m.np.tanh(w @ h + x)
        return h, {"h": h * 2, "s": m.np.sum(h)}

    return m.lax.scan(step, m.np.zeros(3), xs, **options)


W = np.asarray(RNG.standard_normal((3, 3)), np.float32) / 2


# Loops -----------------------------------------------------------------------------------------------


def test_while_loop() -> None:
    check(collatz, np.int32(27))
    check(lambda m, x: m.lax.while_loop(lambda c: m.np.sum(c) < 100, lambda c: c * 1.5 + 1, x), np.abs(V))
    check(lambda m, x: m.lax.while_loop(lambda c: False, lambda c: c + 1, x), V)


def test_while_loop_over_containers_and_captured_values() -> None:
    def program(m: Any, x: Any, limit: Any) -> Any:
        def body(s: Any) -> Any:
            return {"i": s["i"] + 1, "pair": (s["pair"][1], s["pair"][0] + x), "none": None}

        return m.lax.while_loop(lambda s: s["i"] < limit, body, {"i": 0, "pair": (x, x * 2), "none": None})

    check(program, V, np.int32(5))


def test_fori_loop_with_static_and_dynamic_bounds() -> None:
    check(lambda m, x: m.lax.fori_loop(0, 5, lambda i, s: s * 0.5 + i, x), V)
    check(lambda m, x: m.lax.fori_loop(3, 1, lambda i, s: s + 1, x), V)
    check(lambda m, x, n: m.lax.fori_loop(0, n, lambda i, s: s * 0.5 + i, x), V, np.int32(4))
    check(
        lambda m, x, n: m.lax.fori_loop(n, n + 3, lambda i, s: (s[0] + i, s[1] * 2), (x, 1.0)), V, np.int32(4)
    )
    check(lambda m, x: m.lax.fori_loop(np.int32(0), 5, lambda i, s: s + i, x), V)


def test_fori_loop_indexes_by_its_counter() -> None:
    check(lambda m, x: m.lax.fori_loop(0, 5, lambda i, s: s + x[i] * i, m.np.zeros(3)), X)
    check(
        lambda m, x: m.lax.fori_loop(
            0, 5, lambda i, s: m.lax.dynamic_update_slice(s, m.np.reshape(x[4 - i], (1, 3)), (i, 0)), x
        ),
        X,
    )


@pytest.mark.parametrize(
    "options", [{}, {"reverse": True}, {"length": 5}, {"unroll": 2}, {"unroll": True}], ids=str
)
def test_scan(options: dict[str, Any]) -> None:
    check(lambda m, w, xs: rnn(m, w, xs, **options), W, X)


def test_scan_of_containers_without_xs_and_over_nothing() -> None:
    check(lambda m, x: m.lax.scan(lambda c, _: (c * 2, c), x, None, length=4), V)
    check(lambda m, x: m.lax.scan(lambda c, _: (c + 1, None), 0, length=3)[0] + x, V)
    check(lambda m, x: m.lax.scan(lambda c, r: (c + r["a"] * r["b"][0], r), V, {"a": x, "b": (x[:, 0],)}), X)
    check(lambda m, x: m.lax.scan(lambda c, r: (c + r, c), m.np.zeros(3), x), X[:0])
    check(lambda m, x: m.lax.scan(lambda c, r: ((), r * 2), (), x)[1], X)


def test_scan_settles_weak_types() -> None:
    check(lambda m, x: m.lax.scan(lambda c, r: (c + m.np.sum(r), c), 0.0, x), X)
    check(
        lambda m, x: m.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + m.np.sum(x)), (0, 0.0)),
        X,
    )


def test_map() -> None:
    check(lambda m, x: m.lax.map(lambda r: (m.np.sum(r), r * 2), x), X)


def test_swapped_and_repeated_state() -> None:
    check(lambda m, a, b: m.lax.fori_loop(0, 7, lambda i, s: (s[1], s[0], s[0] + s[1]), (a, b, a)), V, V * 2)


# Branches --------------------------------------------------------------------------------------------


def test_cond() -> None:
    for p in (True, False, np.bool_(True), np.int32(0), np.float32(2)):
        check(lambda m, p, x: m.lax.cond(p, lambda x: (x + 1, 2), lambda x: (x * 2, 3), x), p, V)
    check(lambda m, x: m.lax.cond(m.np.sum(x) > 0, lambda: x, lambda: -x), V)
    check(lambda m, x: m.lax.cond(m.np.sum(x) > 0, lambda x: 1.0, lambda x: m.np.float32(2), x), V)


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_switch_clamps(index: int) -> None:
    branches = [lambda x: x, lambda x: x * 2, lambda x: -x]
    check(lambda m, i, x: m.lax.switch(i, branches, x), np.int32(index), V)
    check(lambda m, x: m.lax.switch(index, branches, x), V)
    check(lambda m, i, x: m.lax.switch(i, branches[:1], x), np.int32(index), V)


def test_branches_in_loops_and_loops_in_branches() -> None:
    def program(m: Any, x: Any) -> Any:
        def body(i: Any, s: Any) -> Any:
            return m.lax.cond(
                i % 2 == 0, lambda s: m.lax.fori_loop(0, 3, lambda j, s: s + j, s), lambda s: s * 0.5, s
            )

        return m.lax.fori_loop(0, 6, body, x)

    check(program, V)


def test_only_the_chosen_branch_runs() -> None:
    seen = []

    @bz.jit
    def f(p):
        return lax.cond(
            p, lambda: bz.debug.callback(seen.append, "yes"), lambda: bz.debug.callback(seen.append, "no")
        )

    f(True), f(False)
    assert seen == ["yes", "no"]


# Derivatives and batches -----------------------------------------------------------------------------


def test_gradients_through_scan() -> None:
    loss = lambda m: lambda w, xs: m.np.sum(rnn(m, w, xs)[1]["h"] ** 2)
    check(lambda m, w, xs: m.grad(loss(m), (0, 1))(w, xs), W, X)
    check(lambda m, w, xs: m.grad(lambda w: m.np.sum(rnn(m, w, xs, reverse=True)[1]["s"]))(w), W, X)
    check(lambda m, w, xs: m.jvp(lambda w: loss(m)(w, xs), (w,), (w,)), W, X)
    check(lambda m, w, xs: m.grad(lambda w: m.np.sum(m.grad(lambda w: loss(m)(w, xs))(w) ** 2))(w), W, X)


def test_gradients_through_fori_loop_and_cond() -> None:
    check(
        lambda m, x: m.grad(lambda x: m.np.sum(m.lax.fori_loop(0, 4, lambda i, s: m.np.sin(s) * i + s, x)))(
            x
        ),
        V,
    )
    for sign in (1, -1):
        check(
            lambda m, x: m.value_and_grad(
                lambda x: m.lax.cond(m.np.sum(x) > 0, lambda x: m.np.sum(x * x), lambda x: m.np.sum(x) * 3, x)
            )(x),
            np.asarray(V * sign, np.float32),
        )
    check(
        lambda m, i, x: m.grad(lambda x: m.lax.switch(i, [m.np.sin, lambda x: x * x], x))(x),
        np.int32(1),
        np.float32(2),
    )


def test_forward_derivative_of_while() -> None:
    check(
        lambda m, x: m.jvp(
            lambda x: m.lax.while_loop(lambda c: m.np.sum(c) < 50, lambda c: c * 2, x), (x,), (x,)
        ),
        np.abs(V),
    )


def test_batches() -> None:
    counts, picks = np.arange(5, dtype=np.int32), np.array([0, 1, 5, -1, 0], np.int32)
    double = lambda i, s: s * 2
    branches = [lambda x: x, lambda x: -x]
    check(lambda m, n: m.vmap(lambda n: collatz(m, n))(n), np.array([1, 6, 27, 9], np.int32))
    check(lambda m, x, w: m.vmap(lambda x: rnn(m, w, x)[0])(x), np.stack([X, X * 2]), W)
    check(lambda m, x, n: m.vmap(lambda x, n: m.lax.fori_loop(0, n, double, x))(x, n), X, counts)
    check(lambda m, p, x: m.vmap(lambda p, x: m.lax.cond(p, *branches, x))(p, x), X[:, 0] > 0, X)
    check(lambda m, i, x: m.vmap(lambda i, x: m.lax.switch(i, branches, x))(i, x), picks, X)


def test_batch_of_gradient_of_scan() -> None:
    check(
        lambda m, w, x: m.vmap(m.grad(lambda w, x: m.np.sum(rnn(m, w, x)[0])), (None, 0))(w, x),
        W,
        np.stack([X, X * 2]),
    )
    check(
        lambda m, w, x: m.grad(lambda w: m.np.sum(m.vmap(lambda x: rnn(m, w, x)[0])(x)))(w),
        W,
        np.stack([X, X * 2]),
    )


# Effects ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "numpy"])
def test_prints_come_in_order(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    @bz.jit
    def f(x):
        def outer(i, s):
            bz.debug.print("outer {}", i)

            def inner(c, j):
                bz.debug.print("inner {} {}", i, j)
                return c + j, None

            s, _ = lax.scan(inner, s, bnp.arange(2))
            return lax.cond(
                i > 0, lambda s: (bz.debug.print("yes"), s)[1], lambda s: (bz.debug.print("no"), s)[1], s
            )

        bz.debug.print("begin")
        x = lax.fori_loop(0, 2, outer, x)
        bz.debug.print("end {}", x)
        return x

    with bz.config(target=target):
        f(0)
    lines = [
        "begin",
        "outer 0",
        "inner 0 0",
        "inner 0 1",
        "no",
        "outer 1",
        "inner 1 0",
        "inner 1 1",
        "yes",
        "end 2",
    ]
    assert capsys.readouterr().out.splitlines() == lines


def test_an_exception_in_a_loop_ends_it() -> None:
    seen = []

    def stop(i: Any) -> None:
        seen.append(int(i))
        if i == 2:
            raise RuntimeError("enough")

    f = bz.jit(lambda x: lax.fori_loop(0, 10, lambda i, s: (bz.debug.callback(stop, i), s + 1)[1], x))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="enough"):
            f(0.0)
    assert seen == [0, 1, 2] * 2


def test_bodies_are_traced_once_or_twice() -> None:
    traces = []

    def body(c: Any, x: Any) -> Any:
        traces.append(1)
        return c + x, c

    lax.scan(body, bnp.float32(0), bnp.ones(50))
    assert len(traces) == 1
    lax.scan(body, 0.0, bnp.ones(50))
    assert len(traces) <= 3
