"""The `numpy` facets of math functions against mpmath: each meets the op's stated error on its own."""

from __future__ import annotations

import numpy as np
import pytest
from tools.elementary import FUNCTIONS, arguments, worst_of_mpmath

from braze import dtypes
from braze.dtypes import F32, F64
from braze.ops.table import PRIMITIVES, Ulp

BINARY = {"pow", "atan2"}
"""Tested for both targets in `tests/kernel/test_math_accuracy.py`."""


@pytest.mark.parametrize("dtype", [F32, F64], ids=dtypes.short)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_worst_error(name: str, dtype: dtypes.DType) -> None:
    function = FUNCTIONS[name]
    x = arguments(function, dtype.type, 200 if name == "erf_inv" else 1500)
    worst, where = worst_of_mpmath(function, x, PRIMITIVES[name].numpy(x))
    assert worst <= (function.error.f32 if dtype == F32 else function.error.f64), (
        f"{name}({where!r}): {worst} ulp"
    )


def test_all_functions_are_here() -> None:
    with_error = {op.name for op in PRIMITIVES.values() if isinstance(op.error, Ulp)}
    assert with_error - BINARY == set(FUNCTIONS) - {"sqrt"}


def test_zero_and_no_elements() -> None:
    for name in FUNCTIONS:
        assert PRIMITIVES[name].numpy(np.zeros((0, 3), F32)).shape == (0, 3)
