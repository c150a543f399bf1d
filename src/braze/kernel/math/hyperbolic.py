"""Hyperbolic functions and their inverses.

sinh and cosh split x = n·ln2 + r as exponentials do: with hc = cosh(n·ln2) and hs = sinh(n·ln2), both sums of two
powers of two, sinh x = hs·cosh r + hc·sinh r, which needs no case of its own near zero.

The inverses are logarithms of sums; in f32 they are computed in f64, where no rounding errors have to be carried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F32, F64, DType
from braze.kernel.ir import Operand
from braze.kernel.math.exponential import exp_parts, reduced
from braze.kernel.math.formats import (
    FORMATS,
    INFINITY,
    NAN,
    Format,
    exact_product,
    exact_sum,
    fast_sum,
    horner,
    in_f64,
    keep_small,
)
from braze.kernel.math.logarithm import log1p_of_sum, log_of_sum

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


def tanh(b: Builder, x: Operand) -> Operand:
    """Hyperbolic tangent: x + x³·T(x²) near zero, ±(1 - 2/(e**2|x| + 1)) beyond."""
    form = FORMATS[x.dtype]
    size = b.abs(x)
    z = b.mul(x, x)
    near = b.fma(b.mul(z, x), horner(b, z, form.polynomial("tanh")), x)
    twice = b.mul(b.min_fast(size, form.tanh_one), 2.0)
    n, power = exp_parts(b, twice, form)
    grown = b.add(b.scale_fast(power, n), 1.0)
    far = b.copysign(b.sub(1.0, b.div(2.0, grown)), x)
    result = b.select(b.lt(size, form.tanh_series), near, far)
    # x itself where x² underflows (the series would lose -0.0 and subnormals) and for NaN.
    keep = b.or_(b.lt(size, form.smallest_normal), b.ne(x, x))
    return b.select(keep, x, result)


def _sinh_cosh(b: Builder, size: Operand, form: Format) -> tuple[Operand, ...]:
    """hs/2 and hc/2 with their rounding errors, r, cosh r - 1 and sinh r - r for size = n·ln2 + r."""
    n, r, low = reduced(b, size, form)
    one = b.lift(1.0, size.dtype)
    grown, shrunk = b.scale_fast(one, b.sub(n, 2.0)), b.scale_fast(one, b.sub(-2.0, n))
    z = b.mul(r, r)
    cosine = b.mul(z, horner(b, z, form.polynomial("cosh")))
    sine = b.fma(b.mul(z, r), horner(b, z, form.polynomial("sinh")), low)
    return *fast_sum(b, grown, b.neg(shrunk)), *fast_sum(b, grown, shrunk), r, cosine, sine


def _bounded(b: Builder, x: Operand, form: Format) -> Operand:
    """|x|, held where the results are infinite and the powers of two are not."""
    return b.min_fast(form.exp_high + 0.75, b.abs(x))


def sinh(b: Builder, x: Operand) -> Operand:
    """Hyperbolic sine: hs + hc·r + (hs·(cosh r - 1) + hc·(sinh r - r)), large parts first."""
    form = FORMATS[x.dtype]
    hs, hs_low, hc, _, r, cosine, sine = _sinh_cosh(b, _bounded(b, x, form), form)
    main = b.fma(hc, r, hs)
    lost = b.add(b.fma(hc, r, b.sub(hs, main)), hs_low)
    half = b.add(main, b.fma(hs, cosine, b.fma(hc, sine, lost)))
    result = b.copysign(b.mul(half, 2.0), x)
    return keep_small(b, x, result, form.epsilon / 4)


def cosh(b: Builder, x: Operand) -> Operand:
    """Hyperbolic cosine: hc + hs·r + (hc·(cosh r - 1) + hs·(sinh r - r)), large parts first."""
    form = FORMATS[x.dtype]
    hs, _, hc, hc_low, r, cosine, sine = _sinh_cosh(b, _bounded(b, x, form), form)
    main = b.fma(hs, r, hc)
    lost = b.add(b.fma(hs, r, b.sub(hc, main)), hc_low)
    return b.mul(b.add(main, b.fma(hc, cosine, b.fma(hs, sine, lost))), 2.0)


def _odd_series(b: Builder, x: Operand, name: str, accuracy: DType) -> Operand:
    z = b.mul(x, x)
    return b.fma(b.mul(z, x), horner(b, z, FORMATS[accuracy].polynomial(name)), x)


def _root(b: Builder, square: Operand, low: Operand, accuracy: DType) -> tuple[Operand, Operand]:
    """√(square + low), and what it lost by rounding, where the accuracy calls for it."""
    root = b.sqrt(b.add(square, low) if accuracy == F32 else square)
    zero = b.lift(0.0, F64)
    if accuracy == F32:
        return root, zero
    lost = b.div(b.add(b.fma(b.neg(root), root, square), low), b.add(root, root))
    usual = b.and_(b.gt(root, 0.0), b.lt(root, INFINITY))
    return root, b.select(usual, lost, zero)


HUGE = 2.0**500
"""Beyond, squares overflow; there asinh and acosh are log 2|x|."""


def _asinh(b: Builder, x: Operand, accuracy: DType) -> Operand:
    size = b.abs(x)
    square, low = exact_product(b, size, size)
    total, lost = exact_sum(b, square, 1.0)
    root, root_low = _root(b, total, b.add(lost, low), accuracy)
    w, w_low = fast_sum(b, root, size)
    huge = b.gt(size, HUGE)
    w = b.select(huge, size, w)
    w_low = b.select(huge, b.lift(0.0, F64), b.add(w_low, root_low))
    more = b.select(huge, b.lift(1.0, F64), b.lift(0.0, F64))
    far = log_of_sum(b, w, w_low, accuracy, more)
    far = b.select(b.eq(size, INFINITY), size, far)
    result = b.select(b.lt(size, 0.5), _odd_series(b, x, "asinh", accuracy), b.copysign(far, x))
    result = keep_small(b, x, result, FORMATS[F64].epsilon / 4)
    return b.select(b.ne(x, x), x, result)


def _acosh(b: Builder, x: Operand, accuracy: DType) -> Operand:
    square, low = exact_product(b, x, x)
    total, lost = exact_sum(b, square, -1.0)
    total, low = fast_sum(b, total, b.add(lost, low))
    root, root_low = _root(b, total, low, accuracy)
    above, above_low = exact_sum(b, x, -1.0)
    w, w_low = exact_sum(b, root, above)
    huge = b.gt(x, HUGE)
    w = b.select(huge, x, w)
    w_low = b.select(huge, b.lift(0.0, F64), b.add(w_low, b.add(root_low, above_low)))
    more = b.select(huge, b.lift(1.0, F64), b.lift(0.0, F64))
    result = log1p_of_sum(b, w, w_low, accuracy, more)
    return b.select(b.ge(x, 1.0), b.select(b.eq(x, INFINITY), x, result), NAN)


def _atanh(b: Builder, x: Operand, accuracy: DType) -> Operand:
    size = b.abs(x)
    above, above_low = fast_sum(b, b.lift(1.0, F64), size)
    inverse = b.div(1.0, b.sub(1.0, size))
    ratio = b.mul(above, inverse)
    rest = b.fma(b.neg(ratio), b.sub(1.0, size), above)
    low = b.mul(b.add(rest, above_low), inverse)
    far = b.mul(log_of_sum(b, ratio, low, accuracy), 0.5)
    far = b.select(b.eq(size, 1.0), INFINITY, b.select(b.lt(size, 1.0), far, NAN))
    result = b.select(b.lt(size, 0.5), _odd_series(b, x, "atanh", accuracy), b.copysign(far, x))
    return keep_small(b, x, result, FORMATS[F64].epsilon / 4)


def asinh(b: Builder, x: Operand) -> Operand:
    """log(|x| + √(x² + 1)) with the sign of x; below ½ its series."""
    return in_f64(b, x, _asinh)


def acosh(b: Builder, x: Operand) -> Operand:
    """log1p(x - 1 + √(x² - 1)); NaN below 1."""
    return in_f64(b, x, _acosh)


def atanh(b: Builder, x: Operand) -> Operand:
    """log((1 + |x|)/(1 - |x|))/2 with the sign of x; below ½ its series; NaN outside [-1, 1]."""
    return in_f64(b, x, _atanh)
