"""Sine and cosine.

The only branch of the library is here: arguments too large for the short reduction send their lanes, one by one,
to an external function (`HUGE`), in blocks that hold such a lane.

Source: W. Cody and W. Waite 1980, with FMA as in M. Daumas et al. 2005; exact products by FMA, T. Dekker 1971.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F32, F64
from braze.kernel.ir import Operand
from braze.kernel.math.formats import FORMATS, TWO_OVER_PI, Format, horner, nearest

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


HUGE = ("braze_sin_huge", "braze_cos_huge")
"""External symbols, `double(double)`: sine and cosine of arguments of any size; NaN for infinities."""


def sin(b: Builder, x: Operand) -> Operand:
    """Sine of x in radians."""
    return _sin_cos(b, x, 0, HUGE[0])


def cos(b: Builder, x: Operand) -> Operand:
    """Cosine of x in radians."""
    return _sin_cos(b, x, 1, HUGE[1])
