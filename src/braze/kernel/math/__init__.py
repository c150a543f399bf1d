"""The math library: elementary functions written once against the kernel builder.

`FUNCTIONS[name](b, x)` writes the statements that compute a function in the dtype of `x`, f32 or f64, and
returns the result. There are no branches but for the reduction of huge angles (`trigonometric`).

Worst errors (ulp) that the tests hold them to: exp, log, sin, cos, tanh, rsqrt 1 in f32 and 2 in f64; erf_inv 3;
sqrt is exact to half an ulp. Zeros, infinities and NaN follow the Array API's special cases; -0.0 keeps its sign.

Invariants:
- Only opcodes that every target has; FMA appears here on purpose, since an error bound depends on it.
- Coefficients come from `coefficients.py`, which `tools/fit_math.py` writes.
"""

from __future__ import annotations

from collections.abc import Callable

from braze.kernel.ir import Operand
from braze.kernel.math.division import divide_by_uniform
from braze.kernel.math.exponential import exp
from braze.kernel.math.formats import FORMATS
from braze.kernel.math.hyperbolic import tanh
from braze.kernel.math.inverse_error import erf_inv
from braze.kernel.math.logarithm import log
from braze.kernel.math.roots import rsqrt, sqrt
from braze.kernel.math.trigonometric import HUGE, cos, sin

__all__ = ["FORMATS", "FUNCTIONS", "HUGE", "divide_by_uniform"]

FUNCTIONS: dict[str, Callable[..., Operand]] = {
    f.__name__: f for f in (exp, log, sin, cos, tanh, erf_inv, sqrt, rsqrt)
}
