"""The math library: elementary functions written once against the kernel builder.

`FUNCTIONS[name](b, x)` writes the statements that compute a function in the dtype of `x`, f32 or f64, and
returns the result. There are no branches but for the reduction of huge angles (`trigonometric`).

Worst errors are in the operations' records (`ops/transcendental`): 1 ulp in f32 and 2 in f64, but for a few.
Zeros, infinities and NaN follow the Array API's special cases; -0.0 keeps its sign.

Invariants:
- Only opcodes that every target has; FMA appears here on purpose, since an error bound depends on it.
- Coefficients come from `coefficients.py`, which `tools/fit_math.py` writes.
"""

from __future__ import annotations

from collections.abc import Callable

from braze.kernel.ir import Operand
from braze.kernel.math.division import divide_by_uniform
from braze.kernel.math.error import erf, erfc
from braze.kernel.math.exponential import exp, exp2, expm1, logistic
from braze.kernel.math.formats import FORMATS
from braze.kernel.math.gamma import digamma, lgamma
from braze.kernel.math.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from braze.kernel.math.inverse_error import erf_inv
from braze.kernel.math.logarithm import log, log1p, log2, log10
from braze.kernel.math.power import pow
from braze.kernel.math.roots import cbrt, rsqrt, sqrt
from braze.kernel.math.trigonometric import HUGE, acos, asin, atan, atan2, cos, sin, tan

__all__ = ["FORMATS", "FUNCTIONS", "HUGE", "divide_by_uniform"]

FUNCTIONS: dict[str, Callable[..., Operand]] = {
    f.__name__: f
    for f in (
        exp, exp2, expm1, log, log1p, log2, log10, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh, asinh,
        acosh, atanh, pow, sqrt, rsqrt, cbrt, erf, erfc, erf_inv, logistic, lgamma, digamma,
    )
}  # fmt: skip
