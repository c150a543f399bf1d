"""Elementary functions: exponentials, logarithms, trigonometric and hyperbolic functions, roots.

Each facet meets the op's error on its own: the kernel with the math library of `kernel/math`, NumPy's with NumPy
in f64 (`rounded_once`) or with functions of `angles`. Special values are those of the Array API's tables, derivatives
those of JAX.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from braze.dtypes import FLOATS
from braze.ops import angles
from braze.ops.elementwise import INEXACT, add, div, mul, neg, sub, unary
from braze.ops.facets import Array, rounded_once, scalar_like
from braze.ops.table import Op, Ulp

exp: Op = unary("exp", "exponential", INEXACT, rounded_once(np.exp), lambda t, x: mul(t, exp(x)),
            lambda b, x: b.math("exp", x), error=Ulp(1, 2), transcendentals=1)  # fmt: skip
log: Op = unary("log", "log", INEXACT, rounded_once(np.log), lambda t, x: div(t, x),
            lambda b, x: b.math("log", x), error=Ulp(1, 2), transcendentals=1)  # fmt: skip
sin: Op = unary("sin", "sine", INEXACT, rounded_once(angles.sin), lambda t, x: mul(t, cos(x)),
            lambda b, x: b.math("sin", x), error=Ulp(1, 2), transcendentals=1)  # fmt: skip
cos: Op = unary("cos", "cosine", INEXACT, rounded_once(angles.cos), lambda t, x: neg(mul(t, sin(x))),
            lambda b, x: b.math("cos", x), error=Ulp(1, 2), transcendentals=1)  # fmt: skip


def _tanh_jvp(t: Any, x: Any) -> Any:
    y = tanh(x)
    return mul(
        add(t, mul(t, y)), sub(scalar_like(x, 1.0), y)
    )  # (1 + y)(1 - y) keeps digits where y is near 1


tanh: Op = unary("tanh", "tanh", INEXACT, rounded_once(np.tanh), _tanh_jvp,
             lambda b, x: b.math("tanh", x), error=Ulp(1, 2), transcendentals=1)  # fmt: skip


def _erf_inv_numpy(x: Array) -> Array:
    from scipy import special

    return np.asarray(np.copysign(special.erfinv(x), x))  # SciPy's has no -0.0


def _erf_inv_jvp(t: Any, x: Any) -> Any:
    y = erf_inv(x)
    return mul(t, mul(exp(mul(y, y)), scalar_like(x, math.sqrt(math.pi) / 2)))


erf_inv: Op = unary("erf_inv", "chlo.erf_inv", FLOATS, rounded_once(_erf_inv_numpy), _erf_inv_jvp,
                    lambda b, x: b.math("erf_inv", x), error=Ulp(3, 3), transcendentals=2)  # fmt: skip
sqrt: Op = unary("sqrt", "sqrt", INEXACT, np.sqrt, lambda t, x: div(mul(t, scalar_like(x, 0.5)), sqrt(x)),
             lambda b, x: b.sqrt(x))  # fmt: skip
rsqrt: Op = unary("rsqrt", "rsqrt", INEXACT, rounded_once(lambda x: 1.0 / np.sqrt(x)),
              lambda t, x: mul(t, mul(scalar_like(x, -0.5), div(rsqrt(x), x))),
              lambda b, x: b.math("rsqrt", x), error=Ulp(1, 2), transcendentals=1)  # fmt: skip
