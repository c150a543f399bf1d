"""x**y, as e**(y·log|x|) with the logarithm in more digits than the result has.

In f64 the logarithm is a sum of two numbers, good to 2**-65 of it; f32 is computed in f64.

Source: sums and products of two numbers after T. Dekker 1971.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F32, F64
from braze.kernel.ir import Constant, Operand
from braze.kernel.math.exponential import exp2, exp_of_sum, reduced
from braze.kernel.math.formats import (
    FORMATS,
    INFINITY,
    NAN,
    exact_product,
    fast_sum,
    horner,
    is_nan,
    nearest,
)
from braze.kernel.math.logarithm import split

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


def _magnitude_f32(b: Builder, size: Operand, y: Operand) -> Operand:
    """2**(y·log2 |x|) in f64, rounded to f32 at the end."""
    form = FORMATS[F64]
    wide = b.cast(size, F64)
    k, f = split(b, wide, form, subnormal=False)
    logarithm = b.fma(f, horner(b, f, FORMATS[F32].polynomial("log2")), k)
    logarithm = _ends(b, wide, logarithm)
    exponent = b.mul(b.cast(y, F64), logarithm)
    bounded = b.max_fast(-160.0, b.min_fast(140.0, exponent))
    n, _ = nearest(b, bounded, 1.0, form)
    r = b.sub(bounded, n)
    power = b.fma(r, horner(b, r, FORMATS[F32].polynomial("exp2")), 1.0)
    return b.cast(b.scale_fast(power, n), F32)


def _ends(b: Builder, size: Operand, logarithm: Operand) -> Operand:
    """The logarithm, infinite at 0 and infinity, NaN for NaN."""
    ended = b.select(b.lt(size, INFINITY), logarithm, size)
    return b.select(b.eq(size, 0.0), -INFINITY, ended)


def _logarithm(b: Builder, size: Operand) -> tuple[Operand, Operand]:
    """log |x| as a sum of two numbers: k·ln2 + 2s + s·z·(2/3 + z·R(z)), s = f/(2 + f), z = s²."""
    form = FORMATS[F64]
    k, f = split(b, size, form)
    below, below_low = fast_sum(b, b.lift(2.0, F64), f)
    inverse = b.div(1.0, below)
    s = b.mul(f, inverse)
    rest = b.fma(b.neg(s), below_low, b.fma(b.neg(s), below, f))
    s_low = b.mul(rest, inverse)
    z, z_low = exact_product(b, s, s)
    z_low = b.fma(b.add(s, s), s_low, z_low)
    third, third_low = fast_sum(
        b, b.lift(2.0 / 3.0, F64), b.mul(z, horner(b, z, form.polynomial("log_twice")))
    )
    third_low = b.add(third_low, 3.700743415417188e-17)
    p, p_low = exact_product(b, z, third)
    p_low = b.fma(z, third_low, b.fma(z_low, third, p_low))
    q, q_low = exact_product(b, s, p)
    q_low = b.fma(s, p_low, b.fma(s_low, p, q_low))
    total, lost = fast_sum(b, b.mul(k, form.ln2[0]), b.add(s, s))
    total, lost_too = fast_sum(b, total, q)
    small = b.add(b.add(lost, lost_too), b.add(b.fma(k, form.ln2[1], b.add(s_low, s_low)), q_low))
    return fast_sum(b, total, small)


def _magnitude_f64(b: Builder, size: Operand, y: Operand) -> Operand:
    form = FORMATS[F64]
    high, low = _logarithm(b, size)
    high = _ends(b, size, high)
    product = b.mul(y, high)
    rest = b.fma(y, low, b.fma(y, high, b.neg(product)))
    bounded = b.max_fast(form.exp_low, b.min_fast(form.exp_high + 1.0, product))
    rest = b.select(b.lt(b.abs(product), 1000.0), rest, b.lift(0.0, F64))  # else of no use, or NaN
    n, r, r_low = reduced(b, bounded, form)
    return b.scale_fast(exp_of_sum(b, r, b.add(r_low, rest), F64), n)


def pow(b: Builder, x: Operand, y: Operand) -> Operand:
    """x to the power y, with the special cases of IEEE 754's pow; a constant base 2 is `exp2`."""
    if isinstance(x, Constant) and x == b.lift(2.0, x.dtype):
        return exp2(b, y)
    form = FORMATS[x.dtype]
    size = b.abs(x)
    one = b.lift(1.0, x.dtype)
    value = (_magnitude_f32 if x.dtype == F32 else _magnitude_f64)(b, size, y)
    # 1 to an infinite power
    value = b.select(b.and_(b.eq(size, 1.0), b.eq(b.abs(y), INFINITY)), one, value)
    whole = b.eq(b.rint(y), y)
    half = b.mul(y, 0.5)
    odd = b.and_(whole, b.ne(b.rint(half), half))
    negative = b.lt(b.bitcast(x, form.integer), 0)
    value = b.select(b.and_(negative, odd), b.neg(value), value)
    root = b.and_(b.and_(b.lt(x, 0.0), b.gt(x, -INFINITY)), b.not_(whole))
    value = b.select(b.or_(root, b.or_(is_nan(b, x), is_nan(b, y))), NAN, value)
    return b.select(b.or_(b.eq(y, 0.0), b.eq(x, 1.0)), one, value)
