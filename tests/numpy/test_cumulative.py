"""Running sums and products of `braze.numpy` beside JAX's and NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_functions import SHAPES, beside_jax, beside_numpy, operand

import braze.numpy as bnp
from braze import errors

NAMES = ("cumsum", "cumprod", "nancumsum", "nancumprod")


@pytest.mark.parametrize("dtype", (np.float32, np.int32, np.bool_))
@pytest.mark.parametrize("shape", SHAPES)
def test_running_functions_beside_jax(dtype: Any, shape: tuple[int, ...]) -> None:
    x = operand(shape, dtype)
    if dtype is np.float32 and x.size > 2:
        x.reshape(-1)[2] = np.nan
    axes = (None, *range(-1, len(shape)))[: None if shape else 1]
    beside_jax(lambda m, x: {n: [getattr(m, n)(x, axis=a) for a in axes] for n in NAMES}, x)
    if shape:
        standard = ("cumulative_sum", "cumulative_prod")
        beside_jax(
            lambda m, x: [
                getattr(m, n)(x, axis=-1, include_initial=i) for n in standard for i in (False, True)
            ],
            x,
        )


def test_running_functions_in_another_dtype() -> None:
    x = operand((3, 4), np.int32)
    for dtype in ("float32", "bool", "int32"):
        beside_jax(
            lambda m, x, d=dtype: (m.cumsum(x, 1, dtype=d), m.cumprod(x, dtype=d), m.asarray(x).cumsum(0)), x
        )


@pytest.mark.parametrize("dtype", (np.float64, np.int64))
def test_running_functions_keep_64_bits(dtype: Any) -> None:
    x = operand((3, 40), dtype)
    beside_numpy(lambda m, x: [m.cumsum(x, 0), m.cumprod(x, 0), m.cumsum(x, 1), m.nancumsum(x)], x)


def test_an_axis_is_wanted() -> None:
    with pytest.raises(errors.ShapeError, match="cumulative_sum: an axis is wanted for an array of 2 axes"):
        bnp.cumulative_sum(bnp.ones((2, 3)))
    with pytest.raises(errors.ShapeError, match="axis"):
        bnp.cumsum(bnp.ones(3), 1)
