"""Logarithms.

Source: in f64 after K. Ng's fdlibm, s = f/(2+f).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F32
from braze.kernel.ir import Operand
from braze.kernel.math.formats import FORMATS, INFINITY, NAN, Format, horner

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


def log(b: Builder, x: Operand) -> Operand:
    """Natural logarithm: x = 2**k · (1 + f) with 1 + f in [√½, √2)."""
    form = FORMATS[x.dtype]
    tiny = b.lt(x, form.smallest_normal)
    up = form.mantissa + 2
    normal = b.select(tiny, b.mul(x, float(2**up)), x)
    offset = b.sub(b.bitcast(normal, form.integer), form.root_half_bits)
    k = b.sar_fast(offset, form.mantissa)
    bits = b.sub(b.bitcast(normal, form.integer), b.shl_fast(k, form.mantissa))
    f = b.sub(b.bitcast(bits, x.dtype), 1.0)
    k = b.sub(k, b.select(tiny, b.lift(up, form.integer), b.lift(0, form.integer)))
    result = (_log_f32 if x.dtype == F32 else _log_f64)(b, f, b.cast(k, x.dtype), form)
    result = b.select(b.eq(x, INFINITY), x, result)
    result = b.select(b.ge(x, 0.0), result, NAN)  # negative and NaN
    return b.select(b.eq(x, 0.0), -INFINITY, result)


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
