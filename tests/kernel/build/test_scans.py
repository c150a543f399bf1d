"""Scans and windows as machine code: sizes around vectors, both directions, shared-out rows, any reducer."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax as jlax

import braze as bz
import braze.numpy as bnp
from braze import lax
from braze.hlo.ir import Instruction
from braze.kernel.build import build
from braze.kernel.check import check
from braze.target import Target

RNG = np.random.default_rng(21)
HOST = Target("cpu", vector_bytes=64, masked_memory=True, has_fma=True)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "shape, axis",
    [
        ((15,), 0),
        ((16,), 0),
        ((17,), 0),
        ((513,), 0),
        ((3, 1025), 1),
        ((1025, 3), 0),
        ((2, 70, 129), 1),
        ((4, 1), 1),
    ],
)
def test_running_sums_and_extremes(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    def flipped(x: Any) -> Any:
        return np.flip(x, axis) if reverse else x

    f = bz.jit(lambda x: (lax.cumsum(x, axis, reverse), lax.cummax(x, axis, reverse)))
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        x = (RNG.standard_normal(shape) * 100).astype(dtype)
        total, most = f(x)
        exact = np.cumsum(flipped(x), axis, dtype=np.float64 if x.dtype.kind == "f" else dtype)
        scale = np.cumsum(np.abs(flipped(x)).astype(np.float64), axis)
        eps = np.finfo(dtype).eps if x.dtype.kind == "f" else 0
        assert (np.abs(flipped(np.asarray(total)) - exact) <= 12 * eps * scale).all()
        np.testing.assert_array_equal(flipped(np.asarray(most)), np.maximum.accumulate(flipped(x), axis))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(300_001,), (2, 150_000)])
def test_long_rows_are_shared_out_and_keep_their_accuracy(shape: tuple[int, ...], reverse: bool) -> None:
    x = RNG.random(shape).astype(np.float32)
    axis = len(shape) - 1
    compiled = bz.jit(lambda v: lax.cumsum(v, axis, reverse)).lower(x).compile()
    assert [k.grid > 1 for k in compiled.kernels] == [True, True]
    found = np.asarray(compiled(x))
    ordered = np.flip(x, axis) if reverse else x
    exact = np.cumsum(ordered.astype(np.float64), axis)
    found = np.flip(found, axis) if reverse else found
    assert np.max(np.abs(found - exact) / exact) < 4e-7  # one after another would be off by 1e-4
    np.testing.assert_array_equal(
        np.asarray(bz.jit(lambda v: lax.cumsum(v, axis, reverse))((x * 8).astype(np.int32))),
        np.asarray(jlax.cumsum(jax.numpy.asarray((x * 8).astype(np.int32)), axis, reverse)),
    )


def test_nan_and_infinity_run_on() -> None:
    x = np.array([1, -0.0, np.nan, 5, np.inf, -np.inf], np.float32)
    for name in ("cumsum", "cummax", "cummin", "cumprod", "cumlogsumexp"):
        for v in (x, x[:2], x[[0, 4, 5, 1]], x[[5, 5, 0]]):
            found, wanted = (
                np.asarray(getattr(m, name)(w))
                for m, w in ((lax, bnp.asarray(v)), (jlax, jax.numpy.asarray(v)))
            )
            np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_reducer_that_does_not_commute() -> None:
    """Matrices of two rows as four arrays: x then y is not y then x."""

    def compose(x: Any, y: Any) -> Any:
        (a, b, c, d), (e, f, g, h) = x, y
        return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h

    parts = tuple((RNG.integers(-2, 3, (3, 37))).astype(np.int64) for _ in range(4))
    one = tuple(np.int64(v) for v in (1, 0, 0, 1))
    window = {"window_dimensions": (1, 37), "window_strides": (1, 1), "padding": ((0, 0), (36, 0))}
    found = bz.jit(lambda p: lax.reduce_window(p, one, compose, **window))(parts)
    total = [np.array(v) for v in (1, 0, 0, 1)]
    for k in range(37):
        total = compose(total, [p[:, k] for p in parts])
        for have, want in zip(found, total, strict=True):
            np.testing.assert_array_equal(np.asarray(have)[:, k], want)
    whole = bz.jit(lambda p: lax.reduce(p, one, compose, (1,)))(parts)
    for have, want in zip(whole, total, strict=True):
        np.testing.assert_array_equal(np.asarray(have), want)


WINDOWS = [
    ((9, 33), (3, 3), (1, 1), "SAME", None, None),
    ((9, 33), (2, 5), (3, 2), ((1, 0), (2, 3)), None, (2, 1)),
    ((4, 9, 6, 3), (1, 2, 2, 1), (1, 2, 2, 1), "VALID", None, None),
    ((5, 7), (2, 3), (1, 2), ((1, 1), (0, 4)), (2, 3), (1, 2)),
    ((130,), (100,), (1,), "SAME", None, None),
    ((40, 40), (12, 12), (5, 5), ((-1, 3), (2, -2)), None, None),
]


@pytest.mark.parametrize("shape, window, strides, padding, base, spread", WINDOWS)
def test_windows_beside_jax(shape, window, strides, padding, base, spread) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    options = {"base_dilation": base, "window_dilation": spread}

    def call(l: Any, x: Any) -> Any:
        return (
            l.reduce_window(x, 0.0, l.add, window, strides, padding, **options),
            l.reduce_window(x, -np.inf, l.max, window, strides, padding, **options),
            l.reduce_window(x, np.inf, l.min, window, strides, padding, **options),
        )

    wanted = jax.jit(lambda x: call(jlax, x))(x)
    for target in ("cpu", "numpy"):
        for have, want in zip(bz.jit(lambda x: call(lax, x), target=target)(x), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(have), np.asarray(want), rtol=1e-5, atol=2e-5)


def products(l: Any, x: Any) -> Any:
    """Products of squares of four; JAX has no gradient of windows with a reducer of their own."""
    if l is jlax:
        return x[:-1, :-1] * x[:-1, 1:] * x[1:, :-1] * x[1:, 1:]
    return l.reduce_window(x, 1.0, lambda u, v: u * v, (2, 2), (1, 1), "VALID")


def gradients(module: Any, l: Any, x: Any) -> list[Any]:
    def pooled(x: Any) -> Any:
        y = (
            l.reduce_window(x, -np.inf, l.max, (2, 3), (2, 1), "SAME")
            + l.reduce_window(x, 0.0, l.add, (3, 2), (1, 2), ((1, 1), (0, 1)), None, (1, 2))[
                : (x.shape[0] + 1) // 2
            ].sum()
        )
        return (y * y).sum()

    functions = [
        pooled,
        lambda x: (l.cumprod(x, 1) * x).sum(),
        lambda x: (l.cumsum(x, 0, reverse=True) ** 2).sum(),
        lambda x: (l.cummax(x, 0) * x).sum(),
        lambda x: (l.cummin(x, 1, reverse=True) * x).sum(),
        lambda x: (l.cumlogsumexp(x, 1) * x).sum(),
        lambda x: l.reduce(x, 1.0, lambda u, v: u * v + u * 0.5 * v, (1,)).sum(),
        lambda x: products(l, x).sum(),
    ]
    found = [module.jit(module.grad(f))(x) for f in functions]
    found.append(module.jit(module.grad(lambda x: (module.grad(pooled)(x) ** 2).sum()))(x))
    found += [module.jit(module.vmap(module.grad(f)))(module.numpy.stack([x, x + 1])) for f in functions]
    return found


def test_gradients_beside_jax() -> None:
    x = RNG.standard_normal((4, 6)).astype(np.float32)
    x[1, 2] = x[1, 3] = 3  # a tie
    for have, want in zip(gradients(bz, lax, x), gradients(jax, jlax, x), strict=True):
        np.testing.assert_allclose(np.asarray(have), np.asarray(want), rtol=2e-5, atol=1e-5)


def test_batches_of_init_values() -> None:
    x, starts = RNG.standard_normal((3, 5)).astype(np.float32), np.arange(1.0, 4.0, dtype=np.float32)
    whole, pairs = bz.vmap(
        lambda x, s: (
            lax.reduce(x, s, lambda u, v: u * v, (0,)),
            lax.reduce_window(x, s, lambda u, v: u * v, (2,), (1,), "VALID"),
        )
    )(x, starts)
    np.testing.assert_allclose(np.asarray(whole), starts * x.prod(1), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(pairs), starts[:, None] * x[:, :-1] * x[:, 1:], rtol=1e-6)


def test_kernels_keep_the_rules_of_the_ir() -> None:
    def f(x: Any) -> Any:
        return (
            lax.cumsum(x, 0), lax.cumsum(x, 1, True), lax.cumlogsumexp(x, 1, True), lax.cummax(x, 1),
            lax.reduce_window(x, -np.inf, lax.max, (3, 3), (1, 2), "SAME"),
            lax.reduce_window(x, 0.0, lax.add, (3, 40), (1, 1), "VALID", (2, 1), (1, 3)),
            bz.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "SAME").sum())(x),
            lax.cumsum(x.reshape(-1)),
        )  # fmt: skip

    x = np.ones((300, 1000), np.float32)
    module = bz.jit(f).lower(x).module
    families = {"reduce_window", "select_and_scatter"}
    found: list[Instruction] = [i for i in module.main.region.instructions if i.op.hlo in families]
    assert len(found) == 8
    for k, instruction in enumerate(found):
        for launch in build(instruction, f"k{k}", HOST).launches:
            check(launch.kernel)
