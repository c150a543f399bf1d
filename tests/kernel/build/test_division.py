"""Division by what is the same along a row is written without dividing, and is the quotient to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import braze as bz

ROWS, WIDTH = 600, 256
DTYPES = {np.float32: np.uint32, np.float64: np.uint64}


def floats(rng: np.random.Generator, dtype: type, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Of all bit patterns; near each other; or with few bits, whose quotients lie on and near middles."""
    bits = DTYPES[dtype]
    info = np.finfo(dtype)
    if kind == "all":
        return rng.integers(0, np.iinfo(bits).max, shape, bits, endpoint=True).view(dtype)
    if kind == "plain":
        return rng.uniform(1, 2, shape).astype(dtype)
    few = rng.integers(1, 1 << 9, shape).astype(dtype)
    return np.ldexp(few, rng.integers(info.minexp - info.nmant, info.minexp + 8, shape)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["all", "plain", "few"])
def test_quotients_along_rows_are_exact(dtype: type, kind: str) -> None:
    rng = np.random.default_rng(7)
    x = floats(rng, dtype, (ROWS, WIDTH), kind)
    y = floats(rng, dtype, (ROWS, 1), "plain" if kind == "few" else kind)
    specials = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 3.0, np.finfo(dtype).smallest_subnormal], dtype
    )
    y[: len(specials), 0] = specials
    x[:, : len(specials)] = specials
    if kind == "few":
        y[len(specials) :, 0] = rng.integers(1, 600, ROWS - len(specials))
    with np.errstate(all="ignore"):
        wanted = x / y
    found = np.asarray(bz.jit(lambda x, y: x / y)(x, y))
    bits = DTYPES[dtype]
    wrong = (found.view(bits) != wanted.view(bits)) & ~(np.isnan(found) & np.isnan(wanted))
    assert not wrong.any(), [(x[i, j], y[i, 0], found[i, j], wanted[i, j]) for i, j in np.argwhere(wrong)[:5]]
