"""Logarithms.

All rest on x = 2**k · (1 + f) with 1 + f in [√½, √2) and log(1 + f) = f + tail(f). Functions that take a low part
compute the logarithm of a sum of two numbers.

Source: in f64 after K. Ng's fdlibm, s = f/(2 + f).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F32, F64, DType
from braze.kernel.ir import Operand
from braze.kernel.math.formats import (
    FORMATS,
    INFINITY,
    NAN,
    Format,
    exact_product,
    exact_sum,
    fast_sum,
    horner,
    keep_small,
)

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


def split(b: Builder, x: Operand, form: Format, subnormal: bool = True) -> tuple[Operand, Operand]:
    """k as a number and f, for positive x; wrong for 0, infinity and NaN, and unless asked, for subnormals."""
    normal = x
    if subnormal:
        tiny = b.lt(x, form.smallest_normal)
        up = form.mantissa + 2
        normal = b.select(tiny, b.mul(x, float(2**up)), x)
    pattern = b.bitcast(normal, form.integer)
    k = b.sar_fast(b.sub(pattern, form.root_half_bits), form.mantissa)
    f = b.sub(b.bitcast(b.sub(pattern, b.shl_fast(k, form.mantissa)), x.dtype), 1.0)
    if subnormal:
        k = b.sub(k, b.select(tiny, b.lift(up, form.integer), b.lift(0, form.integer)))
    return b.cast(k, x.dtype), f


def tail(b: Builder, f: Operand, accuracy: DType) -> Operand:
    """log(1 + f) - f: by a polynomial in f for f32, by one in s = f/(2 + f) for f64."""
    coefficients = FORMATS[accuracy].polynomial("log")
    square = b.mul(f, f)
    if accuracy == F32:
        return b.fma(square, -0.5, b.mul(b.mul(square, f), horner(b, f, coefficients)))
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    rest = b.mul(z, horner(b, z, coefficients))
    half_square = b.mul(square, 0.5)
    return b.fma(s, b.add(half_square, rest), b.neg(half_square))


def specials(b: Builder, x: Operand, result: Operand) -> Operand:
    """The result with -infinity at 0, infinity at infinity, NaN below 0 and for NaN."""
    result = b.select(b.eq(x, INFINITY), x, result)
    result = b.select(b.ge(x, 0.0), result, NAN)  # negative and NaN
    return b.select(b.eq(x, 0.0), -INFINITY, result)


def log(b: Builder, x: Operand) -> Operand:
    """Natural logarithm, small parts first."""
    form = FORMATS[x.dtype]
    k, f = split(b, x, form)
    result = (_log_f32 if x.dtype == F32 else _log_f64)(b, f, k, form)
    return specials(b, x, result)


def _log_f32(b: Builder, f: Operand, k: Operand, form: Format) -> Operand:
    """f - f²/2 + f³·P(f) + k·ln2, small parts first."""
    square = b.mul(f, f)
    small = b.mul(b.mul(square, f), horner(b, f, form.polynomial("log")))
    small = b.fma(k, form.ln2[1], small)
    small = b.fma(square, -0.5, small)
    return b.fma(k, form.ln2[0], b.add(f, small))


def _log_f64(b: Builder, f: Operand, k: Operand, form: Format) -> Operand:
    """log(1 + f) = f - f²/2 + s·(f²/2 + s²·R(s²)), s = f/(2 + f)."""
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    rest = b.mul(z, horner(b, z, form.polynomial("log")))
    half_square = b.mul(b.mul(f, f), 0.5)
    small = b.fma(s, b.add(half_square, rest), b.mul(k, form.ln2[1]))
    return b.fma(k, form.ln2[0], b.sub(f, b.sub(half_square, small)))


def sum_log(b: Builder, k: Operand, f: Operand, low: Operand, accuracy: DType) -> Operand:
    """k·ln2 + log(1 + f + low) for a low that is at most an ulp of 1 + f."""
    form = FORMATS[f.dtype]
    # low/(1 + f), to second order in f
    small = b.fma(low, b.fma(f, b.sub(f, 1.0), 1.0), tail(b, f, accuracy))
    small = b.fma(k, form.ln2[1], small)
    return b.fma(k, form.ln2[0], b.add(f, small))


def log_of_sum(b: Builder, x: Operand, low: Operand, accuracy: DType, more: Operand | None = None) -> Operand:
    """log(x + low) for normal x, plus `more` times ln2."""
    form = FORMATS[x.dtype]
    k, f = split(b, x, form, subnormal=False)
    low = b.mul(low, b.scale_fast(b.lift(1.0, x.dtype), b.neg(k)))
    return sum_log(b, k if more is None else b.add(k, more), f, low, accuracy)


def log1p_of_sum(
    b: Builder, x: Operand, low: Operand | None, accuracy: DType, more: Operand | None = None
) -> Operand:
    """log(1 + x + low), plus `more` times ln2; -infinity and NaN where 1 + x is 0 and less."""
    form = FORMATS[x.dtype]
    total, lost = exact_sum(b, x, 1.0)
    if low is not None:
        lost = b.add(lost, low)
    k, f = split(b, total, form, subnormal=False)
    lost = b.mul(lost, b.scale_fast(b.lift(1.0, x.dtype), b.neg(k)))
    near = b.eq(k, 0.0)
    f = b.select(near, x, f)
    lost = b.select(near, b.lift(0.0, x.dtype) if low is None else low, lost)
    result = sum_log(b, k if more is None else b.add(k, more), f, lost, accuracy)
    return specials(b, total, result)


def log1p(b: Builder, x: Operand) -> Operand:
    """log(1 + x), as accurate near 0 as elsewhere: f is x itself where k is 0."""
    form = FORMATS[x.dtype]
    return keep_small(b, x, log1p_of_sum(b, x, None, x.dtype), form.epsilon / 4)


BASES = {
    "log2": (1.4426950408889634, 2.0355273740931033e-17, 1.0, 0.0),
    "log10": (0.4342944819032518, 1.098319650216765e-17, 0.30102999566361177, 3.694239077158931e-13),
}
"""1/ln(base) and log(2) to the base, each as a sum of two doubles; k times the third is exact."""


def _to_base(b: Builder, x: Operand, name: str) -> Operand:
    """k·unit + (f + tail)·factor, the rounding errors of product and sum carried along.

    f32 is computed in f64, by a polynomial of log2(1 + f).
    """
    factor, factor_low, unit, unit_low = BASES[name]
    wide = b.cast(x, F64)
    k, f = split(b, wide, FORMATS[F64], subnormal=x.dtype == F64)
    if x.dtype == F32:
        result = b.fma(f, horner(b, f, FORMATS[F32].polynomial("log2")), k)
        result = b.cast(result if name == "log2" else b.mul(result, unit + unit_low), F32)
        return specials(b, x, result)
    product, error = exact_product(b, f, factor)
    small = b.fma(tail(b, f, F64), factor, b.fma(f, factor_low, error))
    if unit_low:
        small = b.fma(k, unit_low, small)
    total, lost = fast_sum(b, b.mul(k, unit), product)
    return specials(b, x, b.add(total, b.add(lost, small)))


def log2(b: Builder, x: Operand) -> Operand:
    """Logarithm to base 2, exact for powers of two."""
    return _to_base(b, x, "log2")


def log10(b: Builder, x: Operand) -> Operand:
    """Logarithm to base 10."""
    return _to_base(b, x, "log10")
