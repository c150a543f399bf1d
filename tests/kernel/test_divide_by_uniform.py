"""Division by a value of all lanes equals IEEE division bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braze as bz

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3.0)


def _numerators(dtype: Any, count: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(3)
    kind: Any = np.uint32 if dtype == np.float32 else np.uint64
    bits = rng.integers(0, np.iinfo(kind).max, count, dtype=kind, endpoint=True).view(dtype)
    plain = rng.standard_normal(count).astype(dtype)
    sparse = np.where(rng.random(count) < 0.5, dtype(0), plain)
    return np.stack([bits, plain, sparse, -np.abs(sparse), np.resize(np.array(SPECIAL, dtype), count)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_divided_by_their_own_number(dtype: Any) -> None:
    x = np.tile(_numerators(dtype, 4096), (12, 1))
    rng = np.random.default_rng(4)
    y = np.concatenate([SPECIAL, [1e-42, 1e38, 1e-30], 1 + rng.random(49)]).astype(dtype)[:60]
    found = np.asarray(bz.jit(lambda x, y: x / y[:, None])(x, y))
    with np.errstate(all="ignore"):
        wanted = x / y[:, None]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quotients_near_the_middle_of_two_numbers(dtype: Any) -> None:
    """Numerators chosen as rounded products of the divisor and midpoints, the hardest to round."""
    rng = np.random.default_rng(5)
    y = (1 + rng.random(64)).astype(dtype)
    middle = (1 + rng.random((64, 20_000))).astype(dtype).astype(np.longdouble)
    middle += np.spacing(middle.astype(dtype)).astype(np.longdouble) / 2
    x = (middle * y[:, None]).astype(dtype)
    found = np.asarray(bz.jit(lambda x, y: x / y[:, None])(x, y))
    np.testing.assert_array_equal(found, x / y[:, None])
