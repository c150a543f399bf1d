"""Operations on random values of every dtype that kernels have: machine code gives the NumPy target's values."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braze as bz
from braze import dtypes, errors, lax
from braze.dtypes import DType

UNARY = ("neg", "abs", "sign", "bitwise_not", "is_finite", "floor", "ceil", "sqrt")
BINARY = (
    "add", "sub", "mul", "div", "rem", "max", "min", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left",
    "shift_right_logical", "shift_right_arithmetic", "eq", "lt", "ge",
)  # fmt: skip
DTYPES = [d for d in dtypes.ALL if d not in dtypes.COMPLEX]
SIZE = 37  # whole vectors and a rest


def _values(rng: np.random.Generator, dtype: DType) -> np.ndarray[Any, Any]:
    if dtype == dtypes.BOOL:
        return rng.integers(0, 2, SIZE).astype(dtype)
    if dtype in dtypes.INTEGERS:
        limits = dtypes.integer_limits(dtype)
        drawn = rng.integers(limits.min, limits.max, SIZE, dtype=dtype, endpoint=True)
        drawn[:7] = [0, 1, 2, 3, 7, limits.min, limits.max]
    else:
        with np.errstate(over="ignore"):
            drawn = (rng.standard_normal(SIZE) * 10.0 ** rng.integers(-4, 5, SIZE)).astype(dtype)
        drawn[:5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
    return rng.permutation(drawn)


def _agree(name: str, function: Callable[..., Any], arity: int) -> int:
    """Compare both targets on each dtype that the operation takes; how many those are."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    taken = 0
    for dtype in DTYPES:
        operands = [_values(rng, dtype) for _ in range(arity)]
        try:
            bz.eval_shape(function, *operands)
        except errors.DTypeError:
            continue
        got, want = (np.asarray(bz.jit(function, target=t)(*operands)) for t in ("cpu", "numpy"))
        assert got.dtype == want.dtype
        if got.dtype == dtypes.BF16:  # whose NaN NumPy's comparison does not know
            got, want = (x.astype(np.float32) for x in (got, want))
        np.testing.assert_array_equal(got, want, err_msg=f"{name} {dtype}", strict=True)
        taken += 1
    return taken


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    assert _agree(name, getattr(lax, name), 1) >= len(dtypes.FLOATS)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    assert _agree(name, getattr(lax, name), 2) >= len(dtypes.INTEGERS)


@pytest.mark.parametrize("result", DTYPES, ids=str)
def test_convert(result: DType) -> None:
    def convert(x: Any) -> Any:
        return lax.convert_element_type(x, result)

    assert _agree(f"to {result}", convert, 1) == len(DTYPES)
