"""Arrays that show what equations hide: zeros of both signs, infinities, NaN, the ends of integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from braze import dtypes
from braze.hlo.ir import Module
from braze.types import TensorType

FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    7.25,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e-40,
    -1e-310,
    3e38,
)


def array(type: TensorType, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Random values, half of them special."""
    if type.dtype == dtypes.BOOL:
        return rng.integers(0, 2, type.shape).astype(bool)
    if type.dtype in dtypes.INTEGERS:
        limits = np.iinfo(type.dtype)
        overflows_when_squared = math.isqrt(limits.max) + 1
        ends = [0, 1, -1, 2, overflows_when_squared, limits.min, limits.max]
        special = rng.choice(np.array(ends, type.dtype), type.shape)
        common = rng.integers(-9, 10, type.shape).astype(type.dtype)
    else:
        with np.errstate(over="ignore", under="ignore"):
            special = rng.choice(np.array(FLOATS).astype(type.dtype), type.shape)
        common = rng.normal(0, 3, type.shape).astype(type.dtype)
    return np.where(rng.random(type.shape) < 0.5, special, common)


def arguments(module: Module, rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    return [array(t, rng) for t in module.main.region.parameter_types]


def same_bits(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether arrays are equal bit for bit, where any NaN equals any NaN."""
    return len(first) == len(second) and all(map(_same, first, second))


def _same(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return False
    if x.dtype in dtypes.FLOATS:
        x, y = np.where(x != x, x.dtype.type(np.nan), x), np.where(y != y, y.dtype.type(np.nan), y)
    return x.tobytes() == y.tobytes()
