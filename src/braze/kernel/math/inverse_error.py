"""The inverse of the error function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F32, F64, DType
from braze.kernel.ir import Operand
from braze.kernel.math.formats import FORMATS, INFINITY, horner
from braze.kernel.math.logarithm import log

if TYPE_CHECKING:
    from braze.kernel.builder import Builder

ERF_INV: dict[DType, tuple[float, float, float, float]] = {
    F32: (5.0, 2.5, 3.25, 0.0),
    F64: (6.25, 3.125, 3.25, 5.0),
}
"""Where the parts end and are centred: the first part's end and middle, the middles of the later ones."""


def erf_inv(b: Builder, x: Operand) -> Operand:
    """The inverse of the error function: x·P(w), w = -log(1 - x²); by √w away from zero.

    Source: M. Giles, "Approximating the erfinv function", 2010, for the variable; coefficients are fitted.
    """
    form = FORMATS[x.dtype]
    end, middle, far_middle, last_middle = ERF_INV[x.dtype]
    w = b.neg(log(b, b.mul(b.sub(1.0, x), b.add(1.0, x))))
    root = b.sqrt(w)
    near = horner(b, b.sub(w, middle), form.polynomial("erf_inv_near"))
    far = horner(b, b.sub(root, far_middle), form.polynomial("erf_inv_far"))
    if x.dtype == F64:
        last = horner(b, b.sub(root, last_middle), form.polynomial("erf_inv_end"))
        far = b.select(b.lt(w, 16.0), far, last)
    result = b.mul(x, b.select(b.lt(w, end), near, far))
    return b.select(b.eq(b.abs(x), 1.0), b.mul(x, INFINITY), result)
