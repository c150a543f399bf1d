"""Reductions that pass over NaN, and averages, beside JAX's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_functions import beside_jax, operand

import braze.numpy as bnp
from braze import errors

NAMES = ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd")


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
def test_nan_is_passed_over(axis: Any) -> None:
    x = operand((3, 5, 4), np.float32)
    x[0, 1:3, 2] = np.nan
    x[1] = np.nan
    x[:, 2, :] = np.nan
    keep = operand((5, 4), np.bool_)
    for options in ({}, {"keepdims": True}):
        beside_jax(lambda m, x, o=options: {n: getattr(m, n)(x, axis=axis, **o) for n in NAMES}, x)
    beside_jax(
        lambda m, x, w: [
            getattr(m, n)(x, axis=axis, where=w) for n in NAMES if "nanm" not in n or n == "nanmean"
        ],
        x,
        keep,
    )
    beside_jax(lambda m, x, w: (m.nanmax(x, axis, initial=0.5, where=w), m.nanvar(x, axis, ddof=2)), x, keep)
    if axis is None or isinstance(axis, int):
        beside_jax(
            lambda m, x: (m.nanargmax(x, axis), m.nanargmin(x, axis), m.nanargmax(x, axis, keepdims=True)), x
        )


def test_integers_have_no_nan() -> None:
    beside_jax(
        lambda m, x: {n: getattr(m, n)(x, axis=0) for n in (*NAMES, "nanargmax", "nanargmin")},
        operand((3, 4), np.int32),
    )


def test_averages() -> None:
    x, w = operand((3, 4), np.float32), np.abs(operand((3, 4), np.float32)) + 1
    beside_jax(
        lambda m, x, w: (
            m.average(x),
            m.average(x, 0, returned=True),
            m.average(x, 1, w),
            m.average(x, None, w, True),
        ),
        x,
        w,
    )
    beside_jax(lambda m, x, w: (m.average(x, 0, w[:, 0]), m.average(x, -1, w[0], True, True)), x, w)
    with pytest.raises(errors.ShapeError, match=r"average: weights of shape \(3,\) are neither"):
        bnp.average(x, 1, w[:, 0])
