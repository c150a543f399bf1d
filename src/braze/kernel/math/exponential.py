"""Exponentials.

Source: the reduction of W. Cody and W. Waite 1980, with FMA as in M. Daumas et al. 2005.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.kernel.ir import Operand
from braze.kernel.math.formats import FORMATS, LOG2E, Format, horner, nearest

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
