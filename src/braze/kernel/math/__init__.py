"""The math library: elementary functions written once against the kernel builder.

`function(name)(b, x)` writes the statements that compute a function in the dtype of `x`, f32 or f64, and
returns the result. There are no branches but for the reduction of huge angles (`trigonometric`).

Worst errors are in the operations' records (`ops/transcendental`): 1 ulp in f32 and 2 in f64, but for a few.
Zeros, infinities and NaN follow the Array API's special cases; -0.0 keeps its sign.

Invariants:
- Only opcodes that every target has; FMA appears here on purpose, since an error bound depends on it.
- Coefficients come from `coefficients.py`, which `tools/fit_math.py` writes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from braze.kernel.ir import Operand
from braze.kernel.math.formats import FORMATS

__all__ = ["FORMATS", "function"]

_FILES = {
    "error": ("erf", "erfc"),
    "exponential": ("exp", "exp2", "expm1", "logistic"),
    "gamma": ("digamma", "lgamma"),
    "hyperbolic": ("acosh", "asinh", "atanh", "cosh", "sinh", "tanh"),
    "inverse_error": ("erf_inv",),
    "logarithm": ("log", "log1p", "log2", "log10"),
    "power": ("pow",),
    "roots": ("cbrt", "rsqrt", "sqrt"),
    "trigonometric": ("acos", "asin", "atan", "atan2", "cos", "sin", "tan"),
}
"""Where each function is; a file is read when a program wants one of its functions."""
_FILE_OF = {name: file for file, names in _FILES.items() for name in names}


def function(name: str) -> Callable[..., Operand]:
    """The function that writes an elementary function: `(b, *operands) -> result`."""
    module = importlib.import_module(f"braze.kernel.math.{_FILE_OF[name]}")
    return cast("Callable[..., Operand]", getattr(module, name))
