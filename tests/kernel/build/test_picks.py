"""Reducers that pick the better of two elements run along the lanes; others do not, and both are right."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import lax
from braze.hlo import parse
from braze.ops.sorting import picks_either
from braze.stages import compile_hlo

RNG = np.random.default_rng(4)
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0], np.float32)
SHAPES = [(1,), (7,), (64,), (65,), (1000,), (5, 33), (33, 5), (3, 700), (700, 3), (4, 5, 6)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_positions_of_extremes(shape: tuple[int, ...]) -> None:
    def positions(m: Any, x: Any) -> list[Any]:
        return [f(x, axis=a) for f in (m.argmax, m.argmin) for a in (*range(len(shape)), None)]

    f = bz.jit(lambda xs: [positions(bnp, x) for x in xs])
    xs = [RNG.standard_normal(shape), RNG.choice(SPECIAL, shape), RNG.choice(SPECIAL[:2], shape),
          np.full(shape, -np.inf, np.float32), RNG.integers(-2, 3, shape).astype(np.int32), RNG.random(shape) < 0.5]  # fmt: skip
    for found, x in zip(f(xs), xs, strict=True):
        for have, want in zip(found, positions(np, x), strict=True):
            np.testing.assert_array_equal(np.asarray(have), want)


def region_of(module: Any) -> Any:
    return next(i.regions[0] for i in module.main.region.instructions if i.op.hlo == "reduce")


def reducer_of(f: Any) -> Any:
    x, i = np.zeros(5, np.float32), np.zeros(5, np.int32)
    return region_of(
        bz.jit(lambda x, i: lax.reduce((x, i), (np.float32(0), np.int32(0)), f, (0,))).lower(x, i).module
    )


def better(x: Any, y: Any) -> Any:
    first = (x[0] < y[0]) | ((x[0] == y[0]) & (x[1] < y[1]))
    return lax.select(first, x[0], y[0]), lax.select(first, x[1], y[1])


def first_of_equals(x: Any, y: Any) -> Any:
    first = x[0] <= y[0]
    return lax.select(first, x[0], y[0]), lax.select(first, x[1], y[1])


def mixed(x: Any, y: Any) -> Any:
    first = x[1] < y[1]
    return lax.select(first, x[0], y[0]), lax.select(first, y[1], x[1])


def negated(x: Any, y: Any) -> Any:
    first = x[1] < y[1]
    return -lax.select(first, -x[0], -y[0]), lax.select(first, x[1], y[1])


@pytest.mark.parametrize(
    "f, wanted", [(better, True), (first_of_equals, False), (mixed, False), (negated, False)]
)
def test_what_picks_one_of_two(f: Any, wanted: bool) -> None:
    """`better` forgets a NaN on the left, so it is not one of these until its values are no floats."""
    ints = np.zeros(5, np.int32)
    traced = bz.jit(lambda x, i: lax.reduce((x, i), (np.int32(0), np.int32(0)), f, (0,))).lower(ints, ints)
    assert picks_either(region_of(traced.module)) is wanted
    assert not picks_either(reducer_of(f))


def test_the_first_of_equals_is_first_along_any_axis() -> None:
    x = RNG.integers(0, 3, (40, 70)).astype(np.float32)
    i = np.broadcast_to(np.arange(70, dtype=np.int32), x.shape)
    inits = np.float32(9), np.int32(-1)
    found = bz.jit(lambda x, i: lax.reduce((x, i), inits, first_of_equals, (1,)))(x, i.copy())
    np.testing.assert_array_equal(np.asarray(found[1]), x.argmin(1))


def test_jax_text_of_positions() -> None:
    x = RNG.choice(SPECIAL, (6, 150))
    f = jax.jit(lambda x: (jax.numpy.argmax(x, 1), jax.numpy.argmin(x, 0), jax.numpy.nanargmax(x, 1)))
    module = parse(f.lower(x).as_text())
    for have, want in zip(compile_hlo(module, "cpu")(x), f(x), strict=True):
        np.testing.assert_array_equal(np.asarray(have), np.asarray(want))
