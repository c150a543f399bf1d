"""Elementary functions: exponentials, logarithms, trigonometric and hyperbolic functions, powers, erf, gamma.

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
from braze.ops.elementwise import (
    INEXACT,
    Facet,
    add,
    binary,
    div,
    eq,
    integer_pow,
    mul,
    neg,
    select_n,
    splat,
    square,
    sub,
    unary,
)
from braze.ops.facets import (
    LOWERED,
    NOT_LINEAR,
    Array,
    check_dtype,
    elementwise_cost,
    elementwise_samples,
    rounded_once,
    scalar_like,
)
from braze.ops.table import ELEMENTWISE, Absent, Op, Ulp
from braze.types import TensorType

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


USUAL = Ulp(1, 2)


def _function(name: str, hlo: str, numpy: Facet, jvp: Any, *, error: Ulp = USUAL) -> Op:
    """A function of real numbers that the math library has under the primitive's name."""
    return unary(
        name,
        hlo,
        FLOATS,
        rounded_once(numpy),
        jvp,
        lambda b, x: b.math(name, x),
        error=error,
        transcendentals=1,
    )


# --- exponentials and logarithms ------------------------------------------------------------------------
def _exp2_infer(x: TensorType) -> TensorType:
    check_dtype("exp2", "operand", x, FLOATS, "I1")
    return x


exp2: Op = Op(
    "exp2", hlo=None,
    infer=_exp2_infer, numpy=rounded_once(np.exp2), error=Ulp(1, 2),
    jvp=(lambda t, x: mul(t, mul(scalar_like(x, math.log(2)), exp2(x))),), transpose=NOT_LINEAR,
    batch=ELEMENTWISE, lower=lambda b, x: b.emit(pow, splat(b, x.type, 2), x),
    kernel=LOWERED, cost=elementwise_cost("exp2", 0, 1), samples=elementwise_samples(FLOATS),
)  # fmt: skip
expm1: Op = _function("expm1", "exponential_minus_one", np.expm1,
                      lambda t, x: mul(t, add(expm1(x), scalar_like(x, 1.0))))  # fmt: skip
log1p: Op = _function("log1p", "log_plus_one", np.log1p, lambda t, x: div(t, add(x, scalar_like(x, 1.0))))
log2: Op = _function("log2", "braze.log2", np.log2, lambda t, x: div(t, mul(x, scalar_like(x, math.log(2)))))
log10: Op = _function("log10", "braze.log10", np.log10,
                      lambda t, x: div(t, mul(x, scalar_like(x, math.log(10)))))  # fmt: skip


def _logistic_numpy(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def _logistic_jvp(t: Any, x: Any) -> Any:
    y = logistic(x)
    return mul(t, mul(y, sub(scalar_like(x, 1.0), y)))


logistic: Op = _function("logistic", "logistic", _logistic_numpy, _logistic_jvp)


# --- angles ---------------------------------------------------------------------------------------------
def _one_and_square(x: Any) -> Any:
    return add(scalar_like(x, 1.0), square(x))


def _rest_of_square(x: Any) -> Any:
    return sub(scalar_like(x, 1.0), square(x))


tan: Op = _function("tan", "tan", angles.tan, lambda t, x: mul(t, _one_and_square(tan(x))))
asin: Op = _function("asin", "chlo.asin", np.arcsin, lambda t, x: mul(t, rsqrt(_rest_of_square(x))))
acos: Op = _function("acos", "chlo.acos", np.arccos, lambda t, x: mul(t, neg(rsqrt(_rest_of_square(x)))))
atan: Op = _function("atan", "chlo.atan", np.arctan, lambda t, x: div(t, _one_and_square(x)))
atan2: Op = binary(
    "atan2", "atan2", FLOATS, rounded_once(np.arctan2),
    (lambda t, x, y: mul(t, div(y, add(square(x), square(y)))),
     lambda t, x, y: mul(t, div(neg(x), add(square(x), square(y))))),
    lambda b, x, y: b.math("atan2", x, y), error=Ulp(1, 2), transcendentals=1,
)  # fmt: skip

# --- hyperbolic functions -------------------------------------------------------------------------------
sinh: Op = _function("sinh", "chlo.sinh", np.sinh, lambda t, x: mul(t, cosh(x)))
cosh: Op = _function("cosh", "chlo.cosh", np.cosh, lambda t, x: mul(t, sinh(x)))
asinh: Op = _function("asinh", "chlo.asinh", np.arcsinh, lambda t, x: mul(t, rsqrt(_one_and_square(x))))


def _less_and_more(x: Any) -> tuple[Any, Any]:
    """x - 1 and x + 1."""
    return sub(x, scalar_like(x, 1.0)), add(x, scalar_like(x, 1.0))


def _acosh_jvp(t: Any, x: Any) -> Any:
    less, more = _less_and_more(x)
    return mul(t, rsqrt(mul(less, more)))


def _atanh_jvp(t: Any, x: Any) -> Any:
    less, more = _less_and_more(x)
    return div(div(t, neg(less)), more)


acosh: Op = _function("acosh", "chlo.acosh", np.arccosh, _acosh_jvp)
atanh: Op = _function("atanh", "chlo.atanh", np.arctanh, _atanh_jvp)


# --- powers ---------------------------------------------------------------------------------------------
def _pow_base_jvp(t: Any, x: Any, y: Any) -> Any:
    """y·x^(y-1), and 0 where y is 0, also for a base of 0."""
    zero = eq(y, scalar_like(y, 0.0))
    less = select_n(zero, sub(y, scalar_like(y, 1.0)), scalar_like(y, 1.0))
    slope = select_n(zero, mul(y, pow(x, less)), scalar_like(y, 0.0))
    return mul(t, slope)


def _pow_exponent_jvp(t: Any, x: Any, y: Any) -> Any:
    """log x · x^y, with log 0 taken as 0."""
    safe = select_n(eq(x, scalar_like(x, 0.0)), x, scalar_like(x, 1.0))
    return mul(t, mul(log(safe), pow(x, y)))


pow: Op = binary(
    "pow", "power", FLOATS, rounded_once(np.power), (_pow_base_jvp, _pow_exponent_jvp),
    lambda b, x, y: b.math("pow", x, y), error=Ulp(1, 2), transcendentals=2,
)  # fmt: skip
cbrt: Op = _function("cbrt", "cbrt", np.cbrt,
                     lambda t, x: mul(t, mul(scalar_like(x, 1 / 3), integer_pow(cbrt(x), y=-2))))  # fmt: skip


# --- the error function and gamma -----------------------------------------------------------------------
def _of_scipy(name: str) -> Facet:
    """A function of scipy.special, imported when it is first called."""

    def function(x: Array) -> Array:
        from scipy import special

        return np.asarray(getattr(special, name)(x))

    return function


def _of_python(function: Any) -> Facet:
    """A function of Python floats on every element."""
    return np.vectorize(function, otypes=[np.float64])


def _bell(x: Any) -> Any:
    """2/√π · e^(-x²), the derivative of erf."""
    return mul(scalar_like(x, 2 / math.sqrt(math.pi)), exp(neg(square(x))))


erf: Op = _function("erf", "chlo.erf", _of_python(math.erf), lambda t, x: mul(t, _bell(x)))
erfc: Op = _function(
    "erfc", "chlo.erfc", _of_python(math.erfc), lambda t, x: neg(mul(t, _bell(x))), error=Ulp(1, 3)
)


def _lgamma_of_float(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


def _digamma_numpy(x: Array) -> Array:
    """SciPy's for positive numbers, by reflection for negative ones: its own is off near the poles."""
    size = np.abs(x)
    found = np.asarray(_of_scipy("psi")(size))
    part = size - np.rint(size)
    reflected = found + 1 / size + np.pi / np.tan(np.pi * part)
    return np.where(x > 0, found, np.where((part == 0) | np.isnan(part), np.nan, reflected))


# Where results are sums of larger terms, f64 loses digits of them: more than the usual error, of 1 at least.
lgamma: Op = _function("lgamma", "chlo.lgamma", _of_python(_lgamma_of_float), lambda t, x: mul(t, digamma(x)),
                       error=Ulp(1, 12, 1.0))  # fmt: skip
digamma: Op = _function("digamma", "chlo.digamma", _digamma_numpy,
                        Absent("its derivative, the trigamma function, is not available"), error=Ulp(1, 24, 1.0))  # fmt: skip
