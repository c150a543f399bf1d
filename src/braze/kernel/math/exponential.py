"""Exponentials and the logistic function.

Source: the reduction of W. Cody and W. Waite 1980, with FMA as in M. Daumas et al. 2005.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import DType
from braze.kernel.ir import Operand
from braze.kernel.math.formats import (
    FORMATS,
    INFINITY,
    LOG2E,
    Format,
    fast_sum,
    horner,
    keep_small,
    nearest,
)

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


def exp_parts(b: Builder, x: Operand, form: Format) -> tuple[Operand, Operand]:
    """n and e**r for x = n·ln2 + r, |r| ≤ ln2/2; e**r is 1 + r·(1 + r·Q(r))."""
    n, _ = nearest(b, x, LOG2E, form)
    r = b.fma(n, -form.ln2[0], x)
    r = b.fma(n, -form.ln2[1], r)
    return n, horner(b, r, (1.0, 1.0, *form.polynomial("exp")))


def exp(b: Builder, x: Operand) -> Operand:
    """e**x: x = n·ln2 + r, 2**n · e**r."""
    form = FORMATS[x.dtype]
    # Clamped so that n stays finite; the bound stands first, so that a NaN x passes through both.
    bounded = b.max_fast(form.exp_low, b.min_fast(form.exp_high + 1.0, x))
    n, power = exp_parts(b, bounded, form)
    return b.scale_fast(power, n)


def reduced(b: Builder, x: Operand, form: Format) -> tuple[Operand, Operand, Operand]:
    """n, r and the rounding error of r for x = n·ln2 + r, |r| ≤ ln2/2."""
    n, _ = nearest(b, x, LOG2E, form)
    first = b.fma(n, -form.ln2[0], x)
    r = b.fma(n, -form.ln2[1], first)
    return n, r, b.fma(n, -form.ln2[1], b.sub(first, r))


def exp_of_sum(b: Builder, r: Operand, low: Operand, accuracy: DType) -> Operand:
    """e**(r + low) for |r| ≤ ln2/2 and a low below 2**-10, which is not only the rounding error of r."""
    tail = b.mul(b.mul(r, r), horner(b, r, FORMATS[accuracy].polynomial("exp")))
    one, lost = fast_sum(b, b.lift(1.0, r.dtype), r)
    tail = b.fma(low, b.add(one, tail), tail)
    return b.add(one, b.add(lost, tail))


def exp2(b: Builder, x: Operand) -> Operand:
    """2**x: x = n + r, 2**n · (1 + r·P(r)); whole powers are exact."""
    form = FORMATS[x.dtype]
    low, high = (-151.0, 129.0) if form.name == "f32" else (-1076.0, 1025.0)
    bounded = b.max_fast(low, b.min_fast(high, x))
    n, _ = nearest(b, bounded, 1.0, form)
    r = b.sub(bounded, n)
    power = b.fma(r, horner(b, r, form.polynomial("exp2")), 1.0)
    return b.scale_fast(power, n)


def expm1(b: Builder, x: Operand) -> Operand:
    """e**x - 1 as 2·(2**(n-1)·(1 + r + r²Q(r)) - ½), the two large parts first, with their rounding error."""
    form = FORMATS[x.dtype]
    bounded = b.max_fast(-form.exp_high, b.min_fast(form.exp_high, x))
    n, r, low = reduced(b, bounded, form)
    tail = b.fma(b.mul(r, r), horner(b, r, form.polynomial("exp")), low)
    half_power = b.scale_fast(b.lift(1.0, x.dtype), b.sub(n, 1.0))
    base = b.sub(half_power, 0.5)
    lost = b.sub(b.sub(half_power, base), 0.5)
    main = b.fma(half_power, r, base)
    error = b.add(b.fma(half_power, r, b.sub(base, main)), lost)
    half = b.add(main, b.fma(half_power, tail, error))
    result = b.select(b.gt(x, form.exp_high), INFINITY, b.mul(half, 2.0))
    return keep_small(b, x, result, form.epsilon / 4)


def logistic(b: Builder, x: Operand) -> Operand:
    """1/(1 + e**-x) as N/(1 + a) with a = e**-|x| and N = a for negative x, so that nothing overflows.

    a is 2**n·(p + low); in f32 the rounding errors of p, of 1 + a and of the division enter.
    """
    form = FORMATS[x.dtype]
    size = b.max_fast(form.exp_low, b.neg(b.abs(x)))
    n, r, low = reduced(b, size, form)
    negative = b.lt(x, 0.0)
    power_of_two = b.scale_fast(b.lift(1.0, x.dtype), n)
    p, lost = fast_sum(b, b.lift(1.0, x.dtype), r)
    tail = b.fma(b.mul(r, r), horner(b, r, form.polynomial("exp")), b.add(low, lost))
    p, p_low = fast_sum(b, p, tail)
    a = b.mul(p, power_of_two)
    divisor, divisor_low = fast_sum(b, b.lift(1.0, x.dtype), a)
    above = b.select(negative, p, b.lift(1.0, x.dtype))
    if form.name == "f32":
        inverse = b.div(1.0, divisor)
        q = b.mul(above, inverse)
        above_low = b.select(negative, p_low, b.lift(0.0, x.dtype))
        divisor_low = b.fma(p_low, power_of_two, divisor_low)
        rest = b.add(b.fma(b.neg(q), divisor, above), b.fma(b.neg(q), divisor_low, above_low))
        q = b.fma(rest, inverse, q)
    else:
        q = b.div(above, divisor)
    # doubled, so that it lies in [½, 4)
    steps = b.select(negative, n, b.lift(0.0, x.dtype))
    return b.scale_fast(b.mul(q, 2.0), b.sub(steps, 1.0))
