"""The logarithm of the gamma function, and digamma; f32 is computed in f64.

Small arguments are brought to u in [2, 3) by Γ(x + 1) = x·Γ(x), where a polynomial in u - 2 takes over; large ones
take Stirling's formula with fitted terms, negative ones the reflection formula, in blocks that hold any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F64, DType
from braze.kernel.ir import Operand
from braze.kernel.math.formats import FORMATS, INFINITY, NAN, horner, in_f64
from braze.kernel.math.logarithm import specials, split, sum_log
from braze.kernel.math.trigonometric import quarter_sin_cos

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


PI = 3.141592653589793
LOG_ROOT_TWO_PI = 0.9189385332046728


def _log(b: Builder, x: Operand, accuracy: DType) -> Operand:
    """log of x in f64, to an accuracy."""
    k, f = split(b, x, FORMATS[F64])
    return specials(b, x, sum_log(b, k, f, b.lift(0.0, F64), accuracy))


def _positive(b: Builder, x: Operand, accuracy: DType) -> Operand:
    """log Γ(x) for x ≥ 0."""
    form = FORMATS[accuracy]
    one = b.lift(1.0, F64)
    # u = x + 2, x + 1, x, x - 1 … x - 5; log of the product of what lies between is added or taken off
    up = b.mul(b.select(b.lt(x, 1.0), b.add(x, 1.0), one), b.select(b.lt(x, 2.0), x, one))
    u = b.add(x, b.select(b.lt(x, 1.0), b.lift(2.0, F64), b.select(b.lt(x, 2.0), one, b.lift(0.0, F64))))
    product = up
    for step in range(1, 6):
        inside = b.ge(x, float(step + 2))
        less = b.sub(x, float(step))
        product = b.mul(product, b.select(inside, less, one))
        u = b.select(inside, less, u)
    v = b.sub(u, 2.0)
    near = b.mul(v, horner(b, v, form.polynomial("lgamma")))
    large = b.ge(x, 8.0)
    logarithm = _log(b, b.select(large, x, product), accuracy)
    near = b.add(near, b.select(b.lt(x, 2.0), b.neg(logarithm), logarithm))
    inverse = b.div(1.0, x)
    term = b.mul(inverse, horner(b, b.mul(inverse, inverse), form.polynomial("stirling")))
    far = b.fma(b.sub(x, 0.5), b.sub(logarithm, 1.0), b.add(term, LOG_ROOT_TWO_PI - 0.5))
    far = b.select(b.eq(x, INFINITY), x, far)
    return b.select(large, far, near)


def _lgamma(b: Builder, x: Operand, accuracy: DType) -> Operand:
    size = b.abs(x)
    value = _positive(b, size, accuracy)
    negative = b.lt(x, 0.0)
    any_negative = b.lane_reduce("or", negative) if negative.varying else negative

    def reflect() -> tuple[Operand, ...]:
        """log(π/|x·sin πx|) - log Γ(|x|); infinite at whole numbers."""
        part = b.sub(size, b.rint(size))
        sine, _ = quarter_sin_cos(b, b.mul(part, PI), F64)
        logarithm = _log(b, b.div(PI, b.abs(b.mul(size, sine))), accuracy)
        reflected = b.select(b.eq(part, 0.0), INFINITY, b.sub(logarithm, value))
        reflected = b.select(b.eq(size, INFINITY), INFINITY, reflected)
        # Next to 0 both sides are -log |x|, and the product could underflow.
        reflected = b.select(b.lt(size, FORMATS[F64].epsilon / 4), value, reflected)
        return (b.select(negative, reflected, value),)

    (result,) = b.if_(any_negative, reflect, lambda: (value,))
    return result


def lgamma(b: Builder, x: Operand) -> Operand:
    """log |Γ(x)|; infinite at 0, -1, -2 …"""
    return in_f64(b, x, _lgamma)


def _digamma_positive(b: Builder, x: Operand, accuracy: DType) -> Operand:
    form = FORMATS[accuracy]
    one, zero = b.lift(1.0, F64), b.lift(0.0, F64)
    first, second = b.lt(x, 1.0), b.lt(x, 2.0)
    third, fourth = b.ge(x, 3.0), b.ge(x, 4.0)
    u = b.add(x, b.select(first, b.lift(2.0, F64), b.select(second, one, zero)))
    u = b.sub(u, b.select(fourth, b.lift(2.0, F64), b.select(third, one, zero)))
    v = b.sub(u, 2.0)
    near = horner(b, v, form.polynomial("digamma"))
    # -1/x - 1/(x + 1), -1/x, nothing, 1/(x - 1), 1/(x - 1) + 1/(x - 2)
    start = b.select(second, x, b.sub(x, 1.0))
    other = b.select(first, b.add(x, 1.0), b.sub(x, 2.0))
    two = b.or_(first, fourth)
    above = b.select(two, b.add(start, other), one)
    below = b.select(two, b.mul(start, other), start)
    large = b.ge(x, 5.0)
    quotient = b.div(b.select(large, one, above), b.select(large, x, below))
    step = b.select(second, b.neg(quotient), b.select(third, quotient, zero))
    near = b.add(near, step)
    w = b.mul(quotient, quotient)
    tail = b.fma(w, horner(b, w, form.polynomial("digamma_far")), b.mul(quotient, 0.5))
    far = b.sub(_log(b, b.select(large, x, one), accuracy), tail)
    return b.select(large, b.select(b.eq(x, INFINITY), x, far), near)


def _digamma(b: Builder, x: Operand, accuracy: DType) -> Operand:
    size = b.abs(x)
    value = _digamma_positive(b, size, accuracy)
    negative = b.le(x, 0.0)
    any_negative = b.lane_reduce("or", negative) if negative.varying else negative

    def reflect() -> tuple[Operand, ...]:
        """ψ(|x|) + 1/|x| + π/tan(π|x|); NaN at whole numbers."""
        part = b.sub(size, b.rint(size))
        sine, cosine = quarter_sin_cos(b, b.mul(part, PI), F64)
        turned = b.div(b.mul(cosine, PI), sine)
        reflected = b.add(turned, b.add(value, b.div(1.0, size)))
        reflected = b.select(b.lt(b.abs(part), 1.0), reflected, NAN)
        reflected = b.select(b.eq(part, 0.0), NAN, reflected)
        return (b.select(negative, reflected, value),)

    (result,) = b.if_(any_negative, reflect, lambda: (value,))
    return result


def digamma(b: Builder, x: Operand) -> Operand:
    """The derivative of log Γ; NaN at 0, -1, -2 …"""
    return in_f64(b, x, _digamma)
