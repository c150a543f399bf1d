"""Sine, cosine, tangent, and the inverse functions.

The only branch of them is here: arguments too large for the short reduction send their lanes, one by one,
to an external function (`HUGE`), in blocks that hold such a lane.

Source: W. Cody and W. Waite 1980, with FMA as in M. Daumas et al. 2005; exact products by FMA, T. Dekker 1971.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F32, F64, DType
from braze.kernel.ir import Operand
from braze.kernel.math.formats import (
    FORMATS,
    INFINITY,
    NAN,
    TWO_OVER_PI,
    Format,
    fast_sum,
    horner,
    in_f64,
    is_nan,
    keep_small,
    nearest,
)

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


def trig_reduced(b: Builder, x: Operand, form: Format) -> tuple[Operand, Operand, Operand]:
    """r, its rounding error and the quadrant, for x = q·π/2 + r.

    The first step is exact (both terms are multiples of one small power of two and cancel); the second
    carries its error along, so that a result near zero keeps its relative accuracy.
    """
    first, second, third = form.half_pi
    n, quadrant = nearest(b, x, TWO_OVER_PI, form)
    exact = b.fma(n, -first, x)
    product = b.mul(n, second)
    product_error = b.fma(n, -second, product)
    r = b.sub(exact, product)
    # Fast two-sum: the bits that the subtraction lost, where the product is not the larger one. It is at most
    # 0.001; r is then as small, and what is lost less than half an ulp of it.
    lost = b.sub(b.sub(exact, r), product)
    low = b.fma(n, -third, b.add(lost, product_error))
    return r, low, quadrant


def _sin_cos(b: Builder, x: Operand, shift: int, symbol: str) -> Operand:
    """Sine for shift 0, cosine for shift 1: quadrant q + shift chooses series and sign."""
    form = FORMATS[x.dtype]
    size = b.abs(x)
    large = b.gt(size, form.trig_limit)
    r, low, quadrant = trig_reduced(b, x, form)
    quadrant = b.add(quadrant, shift)
    z = b.mul(r, r)
    # sin(r + low) = r + (r³·S(z) + low·cos r), cos(r + low) = 1 - z/2 + (z²·C(z) - low·r)
    sine = b.add(r, b.fma(b.mul(z, r), horner(b, z, form.polynomial("sin")), low))
    half = b.mul(z, 0.5)
    main = b.sub(1.0, half)
    error = b.sub(b.sub(1.0, main), half)
    tail = b.fma(b.mul(z, z), horner(b, z, form.polynomial("cos")), b.fma(b.neg(r), low, error))
    cosine = b.add(main, tail)
    odd = b.ne(b.and_(quadrant, 1), 0)
    sign = b.shl_fast(b.and_(quadrant, 2), form.mantissa + (7 if x.dtype == F32 else 10))
    value = b.bitcast(b.xor(b.bitcast(b.select(odd, cosine, sine), form.integer), sign), x.dtype)
    if shift == 0:
        value = b.select(b.eq(x, 0.0), x, value)  # keeps -0.0
    return redo_huge(b, x, large, value, symbol)


def redo_huge(b: Builder, x: Operand, large: Operand, value: Operand, symbol: str) -> Operand:
    """Replace the lanes marked `large` by an external function of each, if there is any."""
    any_large = b.lane_reduce("or", large) if large.varying else large

    def redo() -> tuple[Operand, ...]:
        (exact,) = b.call_lanes(symbol, (b.cast(x, F64),), (F64,), large)
        return (b.select(large, b.cast(exact, x.dtype), value),)

    (result,) = b.if_(any_large, redo, lambda: (value,))
    return result


HUGE = ("braze_sin_huge", "braze_cos_huge", "braze_tan_huge")
"""External symbols, `double(double)`: the functions of arguments of any size; NaN for infinities."""


def sin(b: Builder, x: Operand) -> Operand:
    """Sine of x in radians."""
    return _sin_cos(b, x, 0, HUGE[0])


def cos(b: Builder, x: Operand) -> Operand:
    """Cosine of x in radians."""
    return _sin_cos(b, x, 1, HUGE[1])


def tan(b: Builder, x: Operand) -> Operand:
    """Tangent: tan r for even quadrants, -1/tan r for odd ones, tan r as a sum of two numbers."""
    form = FORMATS[x.dtype]
    large = b.gt(b.abs(x), form.trig_limit)
    r, low, quadrant = trig_reduced(b, x, form)
    z = b.mul(r, r)
    small = b.fma(b.mul(z, r), horner(b, z, form.polynomial("tan")), b.fma(b.mul(low, z), 0.4, low))
    if x.dtype == F32:
        # what z lost by rounding and by leaving out `low`, times the slope of r·(1 + z·T(z)) in z
        z_low = b.fma(b.add(r, r), low, b.fma(r, r, b.neg(z)))
        small = b.fma(b.mul(r, z_low), b.fma(z, 0.43, 1.0 / 3.0), small)
    t, t_low = fast_sum(b, r, small)
    inverse = b.div(1.0, t)
    rest = b.fma(b.neg(t_low), inverse, b.fma(b.neg(t), inverse, 1.0))
    turned = b.neg(b.fma(inverse, rest, inverse))
    value = b.select(b.ne(b.and_(quadrant, 1), 0), turned, t)
    value = keep_small(b, x, value, form.epsilon / 4)
    return redo_huge(b, x, large, value, HUGE[2])


def _arc(b: Builder, size: Operand, form: Format) -> tuple[Operand, Operand, Operand]:
    """For |x|: whether it is above ½, and asin of x, or of √((1 - x)/2) above, as a sum of two numbers."""
    above = b.gt(size, 0.5)
    half = b.fma(size, -0.5, 0.5)
    z = b.select(above, half, b.mul(size, size))
    root = b.sqrt(half)
    s = b.select(above, root, size)
    low = b.mul(b.mul(z, s), horner(b, z, form.polynomial("asin")))
    if form.name == "f32":
        # what the root lost by rounding; 0/0 at 1
        lost = b.div(b.fma(b.neg(root), root, half), b.add(root, root))
        low = b.select(b.and_(above, b.gt(half, 0.0)), b.add(low, lost), low)
    return above, s, low


def asin(b: Builder, x: Operand) -> Operand:
    """Arc sine: x + x³·A(x²), above ½ as π/2 - 2·asin √((1 - |x|)/2); NaN outside [-1, 1]."""
    form = FORMATS[x.dtype]
    size = b.abs(x)
    above, s, low = _arc(b, size, form)
    base = b.select(above, b.lift(form.half_pi[0], x.dtype), b.lift(0.0, x.dtype))
    base_low = b.select(above, b.lift(form.half_pi[1], x.dtype), b.lift(0.0, x.dtype))
    factor = b.select(above, b.lift(-2.0, x.dtype), b.lift(1.0, x.dtype))
    total, lost = fast_sum(b, base, b.mul(factor, s))
    result = b.add(total, b.fma(factor, low, b.add(lost, base_low)))
    result = b.select(b.le(size, 1.0), b.copysign(result, x), NAN)
    return keep_small(b, x, result, form.epsilon / 4)


def acos(b: Builder, x: Operand) -> Operand:
    """Arc cosine: π/2 - asin x, above ½ as 2·asin √((1 - x)/2), below -½ as π less that; NaN outside [-1, 1]."""
    form = FORMATS[x.dtype]
    size = b.abs(x)
    above, s, low = _arc(b, size, form)
    negative = b.lt(x, 0.0)
    quarters = b.select(
        above, b.select(negative, b.lift(2.0, x.dtype), b.lift(0.0, x.dtype)), b.lift(1.0, x.dtype)
    )
    factor = b.select(above, b.lift(2.0, x.dtype), b.lift(-1.0, x.dtype))
    factor = b.select(negative, b.neg(factor), factor)
    total, lost = fast_sum(b, b.mul(quarters, form.half_pi[0]), b.mul(factor, s))
    small = b.fma(quarters, form.half_pi[1], lost)
    return b.select(b.le(size, 1.0), b.add(total, b.fma(factor, low, small)), NAN)


def _angle(
    b: Builder, above: Operand, below: Operand, quarters: Operand, sign: Operand, accuracy: DType
) -> Operand:
    """quarters·π/2 + sign·atan(above/below) for 0 ≤ above ≤ below, below neither 0 nor infinite."""
    half_pi = FORMATS[F64].half_pi
    a = b.div(above, below)
    z = b.mul(a, a)
    low = b.mul(b.mul(z, a), horner(b, z, FORMATS[accuracy].polynomial("atan")))
    total, error = fast_sum(b, b.mul(quarters, half_pi[0]), b.mul(sign, a))
    return b.add(total, b.fma(sign, low, b.fma(quarters, half_pi[1], error)))


def _atan(b: Builder, x: Operand, accuracy: DType) -> Operand:
    one = b.lift(1.0, F64)
    size = b.min_fast(2.0**100, b.abs(x))
    beyond = b.gt(size, 1.0)
    quarters = b.select(beyond, one, b.lift(0.0, F64))
    sign = b.select(beyond, b.lift(-1.0, F64), one)
    result = _angle(b, b.select(beyond, one, size), b.select(beyond, size, one), quarters, sign, accuracy)
    return keep_small(b, x, b.copysign(result, x), FORMATS[F64].epsilon / 4)


def atan(b: Builder, x: Operand) -> Operand:
    """Arc tangent: by a polynomial up to 1, as π/2 - atan(1/|x|) beyond; f32 is computed in f64."""
    return in_f64(b, x, _atan)


def atan2(b: Builder, y: Operand, x: Operand) -> Operand:
    """The angle of the point (x, y), in the quadrant that the signs say, those of zeros too; f32 in f64."""
    narrow = x.dtype
    x, y = b.cast(x, F64), b.cast(y, F64)
    one, zero = b.lift(1.0, F64), b.lift(0.0, F64)
    width, height = b.abs(x), b.abs(y)
    steep = b.gt(height, width)
    left = b.lt(b.bitcast(x, FORMATS[F64].integer), 0)
    below = b.select(steep, height, width)
    above = b.select(steep, width, height)
    # Both infinite is 1, both zero is 0.
    infinite = b.eq(below, INFINITY)
    above = b.select(infinite, b.select(b.eq(above, INFINITY), one, zero), above)
    below = b.select(b.or_(infinite, b.eq(below, 0.0)), one, below)
    quarters = b.select(steep, one, b.select(left, b.lift(2.0, F64), zero))
    sign = b.select(b.ne(steep, left), b.lift(-1.0, F64), one)
    result = b.copysign(_angle(b, above, below, quarters, sign, narrow), y)
    return b.cast(b.select(b.or_(is_nan(b, x), is_nan(b, y)), NAN, result), narrow)


def quarter_sin_cos(b: Builder, x: Operand, accuracy: DType) -> tuple[Operand, Operand]:
    """Sine and cosine for |x| ≤ π/2, without a reduction; the series are good to π/4, so half the angle is taken."""
    form = FORMATS[accuracy]
    half = b.mul(x, 0.5)
    z = b.mul(half, half)
    sine = b.fma(b.mul(z, half), horner(b, z, form.polynomial("sin")), half)
    # 1 - cos, of which 1 - 2 sin² needs no more
    cosine = b.sub(1.0, b.fma(b.mul(z, z), b.neg(horner(b, z, form.polynomial("cos"))), b.mul(z, 0.5)))
    return b.mul(b.mul(sine, cosine), 2.0), b.sub(1.0, b.mul(b.mul(sine, sine), 2.0))
