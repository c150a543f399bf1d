"""Elementwise functions of `braze.numpy`: operands are promoted and broadcast, then one operation or a few."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from braze import dtypes, errors
from braze.core import typeof
from braze.lax import lax
from braze.numpy.promotion import (
    check_arrays,
    promote,
    promote_dtypes,
    promote_shapes,
    result_type,
    without_out,
)
from braze.stages import composed

Array = Any
ArrayLike = Any
Named = TypeVar("Named", bound=Callable[..., Any])


def _named(function: Named, name: str, doc: str) -> Named:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(
    name: str, of: Callable[[ArrayLike], Array], doc: str, *, inexact: bool = False
) -> Callable[[ArrayLike], Array]:
    def function(x: ArrayLike, /) -> Array:
        (value,) = promote(name, x, inexact=inexact)
        return of(value)

    return _named(function, name, doc)


def _binary(
    name: str, of: Callable[[ArrayLike, ArrayLike], Array], doc: str, *, inexact: bool = False
) -> Callable[[ArrayLike, ArrayLike], Array]:
    def function(x: ArrayLike, y: ArrayLike, /) -> Array:
        return of(*promote(name, x, y, inexact=inexact))

    return _named(function, name, doc)


exp = _unary("exp", lax.exp, "e**x, elementwise.", inexact=True)
log = _unary("log", lax.log, "Natural logarithm, elementwise; -inf at 0, NaN below.", inexact=True)
sin = _unary("sin", lax.sin, "Sine of x in radians, elementwise.", inexact=True)
cos = _unary("cos", lax.cos, "Cosine of x in radians, elementwise.", inexact=True)
tanh = _unary("tanh", lax.tanh, "Hyperbolic tangent, elementwise.", inexact=True)
sqrt = _unary("sqrt", lax.sqrt, "Square root, elementwise; NaN below 0.", inexact=True)
exp2 = _unary("exp2", lax.exp2, "2**x, elementwise; whole powers are exact.", inexact=True)
expm1 = _unary("expm1", lax.expm1, "e**x - 1, elementwise, accurate near 0.", inexact=True)
log1p = _unary(
    "log1p", lax.log1p, "log(1 + x), elementwise, accurate near 0; -inf at -1, NaN below.", inexact=True
)
tan = _unary("tan", lax.tan, "Tangent of x in radians, elementwise.", inexact=True)
sinh = _unary("sinh", lax.sinh, "Hyperbolic sine, elementwise.", inexact=True)
cosh = _unary("cosh", lax.cosh, "Hyperbolic cosine, elementwise.", inexact=True)
cbrt = _unary("cbrt", lax.cbrt, "Cube root, elementwise, of negative numbers too.", inexact=True)
arcsin = _unary(
    "arcsin", lax.asin, "Arc sine in [-π/2, π/2], elementwise; NaN outside [-1, 1].", inexact=True
)
asin = _unary("asin", lax.asin, "Arc sine in [-π/2, π/2], elementwise; NaN outside [-1, 1].", inexact=True)
arccos = _unary("arccos", lax.acos, "Arc cosine in [0, π], elementwise; NaN outside [-1, 1].", inexact=True)
acos = _unary("acos", lax.acos, "Arc cosine in [0, π], elementwise; NaN outside [-1, 1].", inexact=True)
arctan = _unary("arctan", lax.atan, "Arc tangent in [-π/2, π/2], elementwise.", inexact=True)
atan = _unary("atan", lax.atan, "Arc tangent in [-π/2, π/2], elementwise.", inexact=True)
arcsinh = _unary("arcsinh", lax.asinh, "Inverse hyperbolic sine, elementwise.", inexact=True)
asinh = _unary("asinh", lax.asinh, "Inverse hyperbolic sine, elementwise.", inexact=True)
arccosh = _unary("arccosh", lax.acosh, "Inverse hyperbolic cosine, elementwise; NaN below 1.", inexact=True)
acosh = _unary("acosh", lax.acosh, "Inverse hyperbolic cosine, elementwise; NaN below 1.", inexact=True)
arctanh = _unary(
    "arctanh",
    lax.atanh,
    "Inverse hyperbolic tangent, elementwise; infinite at ±1, NaN outside.",
    inexact=True,
)
atanh = _unary(
    "atanh", lax.atanh, "Inverse hyperbolic tangent, elementwise; infinite at ±1, NaN outside.", inexact=True
)
log2 = _unary("log2", lax.log2, "Logarithm to base 2, elementwise; exact for powers of two.", inexact=True)
log10 = _unary("log10", lax.log10, "Logarithm to base 10, elementwise.", inexact=True)
negative = _unary("negative", lax.neg, "-x, elementwise.")
positive = _unary("positive", lax.as_array, "x itself, elementwise.")
invert = _unary("invert", lax.bitwise_not, "Bits flipped; logical not of bools.")
bitwise_not = _unary("bitwise_not", lax.bitwise_not, "Bits flipped; logical not of bools.")
bitwise_invert = _unary("bitwise_invert", lax.bitwise_not, "Bits flipped; logical not of bools.")

add = _binary("add", lax.add, "x + y, elementwise; logical or of bools.")
subtract = _binary("subtract", lax.sub, "x - y, elementwise.")
multiply = _binary("multiply", lax.mul, "x * y, elementwise; logical and of bools.")
true_divide = _binary("true_divide", lax.div, "x / y in floating point, elementwise.", inexact=True)
divide = _binary("divide", lax.div, "x / y in floating point, elementwise.", inexact=True)
_ANGLE = "The angle of the point (x2, x1) in [-π, π], elementwise, in the quadrant that both signs say."
arctan2 = _binary("arctan2", lax.atan2, _ANGLE, inexact=True)
atan2 = _binary("atan2", lax.atan2, _ANGLE, inexact=True)
maximum = _binary("maximum", lax.max, "The larger of x and y, elementwise; NaN if either is NaN.")
minimum = _binary("minimum", lax.min, "The smaller of x and y, elementwise; NaN if either is NaN.")
equal = _binary("equal", lax.eq, "x == y, elementwise.")
not_equal = _binary("not_equal", lax.ne, "x != y, elementwise.")
less = _binary("less", lax.lt, "x < y, elementwise.")
less_equal = _binary("less_equal", lax.le, "x <= y, elementwise.")
greater = _binary("greater", lax.gt, "x > y, elementwise.")
greater_equal = _binary("greater_equal", lax.ge, "x >= y, elementwise.")
bitwise_and = _binary("bitwise_and", lax.bitwise_and, "Bitwise and, elementwise.")
bitwise_or = _binary("bitwise_or", lax.bitwise_or, "Bitwise or, elementwise.")
bitwise_xor = _binary("bitwise_xor", lax.bitwise_xor, "Bitwise exclusive or, elementwise.")
left_shift = _binary("left_shift", lax.shift_left, "x << y, elementwise; 0 by the width or more.")


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 >> x2, elementwise; the sign is shifted in for signed integers."""
    x, y = promote("right_shift", x1, x2)
    unsigned = typeof(x).dtype.kind == "u"
    return (lax.shift_right_logical if unsigned else lax.shift_right_arithmetic)(x, y)


def abs(x: ArrayLike, /) -> Array:
    """Magnitude, elementwise."""
    (x,) = promote("abs", x)
    t = typeof(x)
    return lax.as_array(x) if t.dtype == dtypes.BOOL or t.dtype.kind == "u" else lax.abs(x)


absolute = abs


def fabs(x: ArrayLike, /) -> Array:
    """Magnitude in floating point, elementwise."""
    (x,) = promote("fabs", x, inexact=True)
    return lax.abs(x)


def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 by the sign of x, elementwise; NaN stays."""
    (x,) = promote("sign", x)
    return lax.sign(x)


def _rounding(name: str, of: Callable[[ArrayLike], Array], doc: str) -> Callable[[ArrayLike], Array]:
    def function(x: ArrayLike, /) -> Array:
        (x,) = promote(name, x)
        return of(x) if dtypes.is_inexact(typeof(x).dtype) else lax.as_array(x)

    return _named(function, name, doc)


floor = _rounding("floor", lax.floor, "The largest integer not above x, elementwise.")
ceil = _rounding("ceil", lax.ceil, "The smallest integer not below x, elementwise.")


def rint(x: ArrayLike, /) -> Array:
    """To the nearest integer in floating point, halves to even."""
    (x,) = promote("rint", x)
    if not dtypes.is_inexact(typeof(x).dtype):
        return lax.convert_element_type(x, dtypes.default_float())
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


def square(x: ArrayLike, /) -> Array:
    """x*x, elementwise; bools become integers."""
    (x,) = promote("square", x)
    return lax.square(lax.as_dtype(x, dtypes.default_int()) if typeof(x).dtype == dtypes.BOOL else x)


def trunc(x: ArrayLike) -> Array:
    """Towards zero, elementwise."""
    (x,) = promote("trunc", x)
    if not dtypes.is_inexact(typeof(x).dtype):
        return lax.as_array(x)
    return lax.select(lax.lt(x, 0), lax.ceil(x), lax.floor(x))


def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """To so many decimals, halves to even."""
    without_out("round", out)
    (a,) = promote("round", a)
    if not dtypes.is_inexact(typeof(a).dtype):
        if decimals < 0:
            raise errors.UnsupportedError(
                "round: integers round to units only.", hint="convert to a float first."
            )
        return lax.as_array(a)
    if decimals == 0:
        return rint(a)
    factor = 10.0**decimals
    return lax.div(rint(lax.mul(a, factor)), factor)


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The floor of x1 / x2; integers stay integers."""
    return _floor_divide(*promote("floor_divide", x1, x2))


@composed()
def _floor_divide(x: Array, y: Array) -> Array:
    t = typeof(x)
    if t.dtype.kind == "u":
        return lax.div(x, y)
    if t.dtype.kind == "i":
        quotient = lax.div(x, y)
        inexact = lax.ne(lax.sign(lax.rem(x, y)), 0)
        down = lax.bitwise_and(lax.ne(lax.sign(x), lax.sign(y)), inexact)
        return lax.select(down, lax.sub(quotient, lax.full_like(quotient, 1)), quotient)
    return _float_divmod(x, y)[0]


def _float_divmod(x: Array, y: Array) -> tuple[Array, Array]:
    """Quotient and modulus as Python's: the modulus has the divisor's sign, the quotient is whole."""
    modulus = lax.rem(x, y)
    quotient = lax.div(lax.sub(x, modulus), y)
    differs = lax.bitwise_and(lax.ne(modulus, 0), lax.ne(lax.sign(y), lax.sign(modulus)))
    modulus = lax.select(differs, lax.add(modulus, y), modulus)
    quotient = lax.select(differs, lax.sub(quotient, lax.full_like(quotient, 1)), quotient)
    return lax.round(quotient), modulus


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 modulo x2 with the sign of x2, as Python's %; integers modulo 0 give 0."""
    return _remainder(*promote("remainder", x1, x2))


@composed()
def _remainder(x: Array, y: Array) -> Array:
    rest = lax.rem(x, y)
    if typeof(x).dtype.kind == "u":
        return rest
    differs = lax.bitwise_and(lax.ne(lax.lt(rest, 0), lax.lt(y, 0)), lax.ne(rest, 0))
    found = lax.select(differs, lax.add(rest, y), rest)
    if typeof(x).dtype.kind == "i":  # NumPy's and JAX's choice; lax.rem gives x
        found = lax.select(lax.eq(y, 0), lax.full_like(found, 0), found)
    return found


mod = remainder


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:
    """Floor quotient and modulus."""
    return floor_divide(x1, x2), remainder(x1, x2)


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Remainder with the sign of x1, as C's fmod."""
    return lax.rem(*promote("fmod", x1, x2))


def power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1**x2, elementwise. A Python int exponent multiplies by repeated squaring, exactly as written."""
    if isinstance(x2, int | np.integer) and not isinstance(x2, bool):
        check_arrays("power", x1)
        t = typeof(x1)
        if not dtypes.is_inexact(t.dtype) and x2 < 0:
            raise errors.ArgumentError(
                f"power: integers to the negative power {x2} are not integers.",
                values=f"base {t}",
                hint="convert the base to a float first.",
            )
        (base,) = promote("power", x1)
        return lax.integer_pow(base, int(x2))
    x, y = promote("power", x1, x2)
    if dtypes.is_inexact(typeof(x).dtype):
        return lax.pow(x, y)
    return _integer_power(x, y)


@composed()
def _integer_power(x: Array, y: Array) -> Array:
    """Integers to the power of integers, wrapping; negative exponents count as unsigned ones."""
    t = typeof(x)
    if t.dtype == dtypes.BOOL:
        return lax.bitwise_or(x, lax.bitwise_not(y))
    result = lax.full_like(x, 1)
    base, power = x, y
    for _ in range(8 * t.dtype.itemsize):
        result = lax.select(lax.ne(lax.bitwise_and(power, 1), 0), lax.mul(result, base), result)
        base, power = lax.mul(base, base), lax.shift_right_logical(power, 1)
    return result


pow = power


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """√(x1² + x2²), elementwise, without overflow in between; infinite if either is, even beside NaN."""
    return _hypot(*promote("hypot", x1, x2, inexact=True))


@composed()
def _hypot(x: Array, y: Array) -> Array:
    x, y = lax.abs(x), lax.abs(y)
    infinite = lax.bitwise_or(lax.eq(x, math.inf), lax.eq(y, math.inf))
    large, small = lax.max(x, y), lax.min(x, y)
    divisor = lax.select(lax.eq(large, 0), lax.full_like(large, 1), large)
    length = lax.mul(large, lax.sqrt(lax.add(lax.square(lax.div(small, divisor)), 1)))
    return lax.select(infinite, lax.full_like(length, math.inf), length)


def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x and y as truth values, elementwise."""
    return lax.bitwise_and(*promote_shapes("logical_and", _truth(x), _truth(y)))


def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x or y as truth values, elementwise."""
    return lax.bitwise_or(*promote_shapes("logical_or", _truth(x), _truth(y)))


def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Exactly one of x and y as truth values, elementwise."""
    return lax.bitwise_xor(*promote_shapes("logical_xor", _truth(x), _truth(y)))


def logical_not(x: ArrayLike, /) -> Array:
    """The opposite truth value, elementwise."""
    return lax.bitwise_not(_truth(x))


def _truth(x: ArrayLike) -> Array:
    check_arrays("logical", x)
    return x if typeof(x).dtype == dtypes.BOOL else lax.ne(x, 0)


def isnan(x: ArrayLike, /) -> Array:
    """Whether x is NaN, elementwise."""
    (x,) = promote("isnan", x)
    return lax.ne(x, x)


def isfinite(x: ArrayLike, /) -> Array:
    """Whether x is neither NaN nor infinite, elementwise."""
    (x,) = promote("isfinite", x)
    if dtypes.is_inexact(typeof(x).dtype):
        return lax.is_finite(x)
    return lax.full_like(x, True, dtype=dtypes.BOOL)


def isinf(x: ArrayLike, /) -> Array:
    """Whether x is infinite, elementwise."""
    (x,) = promote("isinf", x)
    if dtypes.is_inexact(typeof(x).dtype):
        return lax.eq(lax.abs(x), builtins.float("inf"))
    return lax.full_like(x, False, dtype=dtypes.BOOL)


def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /) -> Array:
    """x where the condition holds, else y; all three broadcast."""
    if x is None or y is None:
        raise errors.ArgumentError(
            "where: x and y are wanted; the form with a condition alone has a shape that depends on values."
        )
    check_arrays("where", condition, x, y)
    x, y = promote_dtypes(x, y)
    condition, x, y = promote_shapes("where", _truth(condition), x, y)
    return _where(condition, x, y)


@composed()
def _where(condition: Array, x: Array, y: Array) -> Array:
    from braze.numpy.shape import broadcast_arrays

    if not typeof(condition).shape:
        x, y = broadcast_arrays(x, y)
    else:
        condition, x, y = broadcast_arrays(condition, x, y)
    return lax.select(condition, x, y)


def clip(arr: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """x held between bounds; a missing bound does not hold it."""
    if min is not None:
        arr = maximum(min, arr)
    if max is not None:
        arr = minimum(max, arr)
    return lax.as_array(arr)


def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x, elementwise."""
    (x,) = promote("reciprocal", x, inexact=True)
    return lax.integer_pow(x, -1)


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether |a - b| <= atol + rtol·|b|, elementwise; equal infinities are close."""
    a, b = promote("isclose", a, b, inexact=True)
    bound = lax.add(lax.mul(lax.abs(b), rtol), atol)
    near = lax.bitwise_and(lax.le(lax.abs(lax.sub(a, b)), bound), lax.is_finite(b))
    close = lax.bitwise_or(near, lax.eq(a, b))
    return lax.bitwise_or(close, lax.bitwise_and(lax.ne(a, a), lax.ne(b, b))) if equal_nan else close


def result_dtype(*args: ArrayLike) -> np.dtype[Any]:
    """The dtype at which values meet (`braze.numpy.result_type`)."""
    return result_type(*args)[0]
