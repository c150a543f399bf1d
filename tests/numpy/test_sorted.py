"""Sorting and quantiles of `braze.numpy` beside JAX's and NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_functions import beside_jax, beside_numpy, operand

import braze as bz
import braze.numpy as bnp
from braze import errors, lax

SHAPES = ((3,), (1,), (2, 3), (0, 3), (2, 1, 4))


@pytest.mark.parametrize("dtype", (np.float32, np.int32, np.bool_))
@pytest.mark.parametrize("shape", SHAPES)
def test_sorting_beside_jax(dtype: Any, shape: tuple[int, ...]) -> None:
    x = operand(shape, dtype)
    if dtype is np.float32 and x.size > 2:
        x.reshape(-1)[1] = np.nan
    axes = (None, *range(-1, len(shape)))
    beside_jax(
        lambda m, x: [
            (m.sort(x, a), m.argsort(x, a), m.sort(x, a, descending=True), m.argsort(x, a, descending=True))
            for a in axes
        ],
        x,
    )
    beside_jax(
        lambda m, x: (
            m.lexsort((x, -x if x.dtype != bool else ~x)),
            m.asarray(x).sort(),
            m.asarray(x).argsort(0),
        ),
        x,
    )


@pytest.mark.parametrize("dtype", (np.float64, np.int64))
def test_sorting_keeps_64_bits(dtype: Any) -> None:
    x = operand((3, 40), dtype)
    beside_numpy(lambda m, x: [m.sort(x, 0), m.sort(x, 1), m.sort(x, None)], x)


def test_partitions() -> None:
    x = operand((3, 50), np.float32)
    for axis, kth in ((1, 7), (0, -1), (1, 0)):
        found = np.asarray(bz.jit(lambda x, k=kth, a=axis: bnp.partition(x, k, a))(x))
        places = np.asarray(bnp.argpartition(x, kth, axis))
        np.testing.assert_array_equal(found.take(kth, axis), np.sort(x, axis).take(kth, axis))
        taken = np.take_along_axis(x, places, axis)
        np.testing.assert_array_equal(taken.take(kth, axis), np.sort(x, axis).take(kth, axis))


@pytest.mark.parametrize(
    "axis, keepdims", [(None, False), (0, True), (-1, False), ((0, 2), True), ((1, 0), False)]
)
def test_quantiles_beside_jax(axis: Any, keepdims: bool) -> None:
    x = operand((3, 5, 4), np.float32)
    y = x.copy()
    y[1, 2, 3] = np.nan
    y[0] = np.nan
    q = np.array([0.0, 0.3, 1.0], np.float32)

    def call(m: Any, x: Any, q: Any) -> Any:
        options = {"axis": axis, "keepdims": keepdims}
        return {
            "median": m.median(x, **options),
            "nanmedian": m.nanmedian(x, **options),
            "quantile": [
                m.quantile(x, q, method=k, **options) for k in ("linear", "lower", "higher", "nearest")
            ],
            "one": m.quantile(x, 0.5, method="midpoint", **options),
            "percentile": (m.percentile(x, q * 100, **options), m.nanpercentile(x, 25, **options)),
            "nanquantile": m.nanquantile(x, q, **options),
        }

    beside_jax(call, x, q)
    beside_jax(call, y, q)


def test_statistics_of_integers_and_doubles() -> None:
    beside_jax(lambda m, x: (m.median(x, 0), m.percentile(x, 30)), operand((5, 4), np.int32))
    beside_numpy(lambda m, x: [m.median(x, axis=0), m.quantile(x, 0.25, axis=1)], operand((5, 4), np.float64))


def test_largest_elements_beside_jax() -> None:
    import jax

    x = operand((3, 7), np.float32)
    x[0, 1:3] = np.nan
    x[1] = 0
    for k in (0, 1, 3, 7):
        for axis in (0, 1) if k < 4 else (1,):
            for have, want in zip(lax.top_k(x, k, axis=axis), jax.lax.top_k(x, k, axis=axis), strict=True):
                np.testing.assert_array_equal(np.asarray(have), np.asarray(want))


def test_errors() -> None:
    with pytest.raises(errors.ArgumentError, match="sort: kind and order must be None"):
        bnp.sort(bnp.ones(3), kind="quicksort")
    with pytest.raises(errors.ShapeError, match="top_k: k is 4, which must be from 0 to the 3 elements"):
        lax.top_k(bnp.ones(3), 4)
    with pytest.raises(errors.ShapeError, match="num_keys is 2, which must be from 1 to the 1 operands"):
        lax.sort(bnp.ones(3), num_keys=2)
    with pytest.raises(errors.ArgumentError, match="quantile: method 'hazen' is none of linear"):
        bnp.quantile(bnp.ones(3), 0.5, method="hazen")
    with pytest.raises(errors.ShapeError, match="an empty array has no median"):
        bnp.median(bnp.ones(0))
