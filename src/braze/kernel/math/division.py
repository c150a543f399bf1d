"""Division by a number that all lanes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from braze.dtypes import F32, U32, U64
from braze.kernel.ir import Operand

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


def divide_by_uniform(b: Builder, x: Operand, y: Operand, divide: Callable[[], Operand]) -> Operand:
    """x / y for a y that is the same in every lane, to the last bit, without dividing in every lane.

    The reciprocal of y in two parts gives a neighbour of the quotient or itself, and its exact remainder the
    quotient rounded once. That needs remainders without underflow, so blocks with an x too small (zero too) or too
    large, or such a y, are divided.
    Args:
        divide: writes the division itself, for such blocks.
    Source: P. Markstein 1990: for the correctly rounded reciprocal r of y and a faithful quotient q,
        q + (x - q·y)·r rounds to the quotient.
    """
    low, high, spread = (2.0**-60, 2.0**80, 2.0**40) if x.dtype == F32 else (2.0**-800, 2.0**800, 2.0**150)
    size = b.abs(y)
    plain_y = b.and_(b.ge(size, 1.0 / spread), b.le(size, spread))
    # The bits of |x| are ordered as |x| is; twice them, modulo their width, have no sign.
    bits = U32 if x.dtype == F32 else U64
    twice = [2 * int(np.array(bound, x.dtype).view(bits)) for bound in (low, high)]
    pattern = b.bitcast(x, bits)
    odd = b.gt(b.sub(b.add(pattern, pattern), twice[0]), twice[1] - twice[0])
    first = b.div(1.0, y)
    second = b.mul(b.fma(b.neg(first), y, 1.0), first)

    def correct() -> tuple[Operand, ...]:
        q = b.fma(x, first, b.mul(x, second))
        return (b.fma(b.fma(b.neg(q), y, x), first, q),)

    (result,) = b.if_(b.and_(plain_y, b.not_(b.lane_reduce("or", odd))), correct, lambda: (divide(),))
    return result
