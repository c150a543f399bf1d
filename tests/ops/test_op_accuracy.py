"""The `numpy` facets of math functions against mpmath: each meets the op's stated error on its own."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from op_values import key

from braze import dtypes
from braze.dtypes import F32, F64
from braze.ops.table import PRIMITIVES, Ulp

FUNCTIONS = [op for op in PRIMITIVES.values() if isinstance(op.error, Ulp)]
REFERENCE = {"rsqrt": lambda x: 1 / mpmath.sqrt(x)}
REFERENCE["erf_inv"] = mpmath.erfinv
RANGES = {"exp": (-745.0, 709.7), "tanh": (-20.0, 20.0), "erf_inv": (-1.0, 1.0)}
HARD = {
    # Close to multiples of pi/2, to 1, and to the limits of the range.
    "sin": [3.141592653589793, 1e22, 6381956970095103.0 * 2.0**797, 5.319372648326541e255, 0.5, 355.0],
    "cos": [1.5707963267948966, 1e22, 6381956970095103.0 * 2.0**797, 5.319372648326541e255, 355.0 / 2],
    "log": [1.0 + 2.0**-52, 1.0 - 2.0**-53, 0.9999, 1.0001, 5e-324, 1.797e308],
    "exp": [709.782712893384, -708.3964185322641, -745.1, 1e-17, 2.0**-30],
    "tanh": [1e-300, 2.0**-28, 0.5493061443340548, 19.06, 22.0],
    "erf_inv": [1.0 - 2.0**-53, 0.9999, 0.9, 0.5, 1e-5],
    "rsqrt": [5e-324, 1.797e308, 1.0 - 2.0**-53, 4.0],
}


def stratified(name: str, dtype: dtypes.DType) -> np.ndarray:
    """Arguments over all exponents, over the range in which the function moves, and the hard ones."""
    rng = key("accuracy", name, dtype)
    limits = np.finfo(dtype)
    exponents = rng.uniform(
        np.log2(float(limits.smallest_subnormal)) + 1, np.log2(float(limits.max)) - 0.01, 600
    )
    x = [2.0**exponents, rng.uniform(*RANGES.get(name, (-30.0, 30.0)), 600), np.array(HARD[name])]
    both = np.concatenate(x)
    if name in ("log", "rsqrt"):
        both = np.abs(both)
    else:
        both = np.concatenate([both, -both])
    with np.errstate(over="ignore"):
        found = both.astype(dtype)
    if name in ("exp", "tanh"):  # beyond, results are 0, 1 or infinite, and mpmath takes seconds
        found = found[np.abs(found) < 800]
    if name == "erf_inv":
        found = found[np.abs(found) < 1]
        found = found[(np.abs(found) > 1e-30)][::4]  # mpmath's takes a millisecond for each of 1,200 bits
    return found[np.isfinite(found) & (found != 0)]


@pytest.mark.parametrize("dtype", [F32, F64], ids=dtypes.short)
@pytest.mark.parametrize("op", FUNCTIONS, ids=str)
def test_worst_error(op, dtype: dtypes.DType) -> None:
    x = stratified(op.name, dtype)
    found = op.numpy(x)
    reference = REFERENCE.get(op.name) or getattr(mpmath, op.name)
    limits = np.finfo(dtype)
    largest, smallest = mpmath.mpf(float(limits.max)), mpmath.mpf(float(limits.smallest_subnormal))
    worst = 0.0
    with mpmath.workprec(1200):  # enough bits of pi for the largest argument
        for argument, have in zip(x.tolist(), found.astype(np.float64).tolist()):
            exact = reference(mpmath.mpf(argument))
            if not np.isfinite(have):
                assert abs(exact) > largest * (1 - 2.0**-24), argument
                continue
            unit = (
                max(mpmath.mpf(2) ** (mpmath.frexp(exact)[1] - limits.nmant - 1), smallest)
                if exact
                else smallest
            )
            worst = max(worst, float(abs(mpmath.mpf(have) - exact) / unit))
    assert worst <= (op.error.f32 if dtype == F32 else op.error.f64), worst


def test_all_functions_are_here() -> None:
    assert {op.name for op in FUNCTIONS} == {"exp", "log", "sin", "cos", "tanh", "rsqrt", "erf_inv"}
