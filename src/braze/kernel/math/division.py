"""Division by a number that all lanes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from braze.dtypes import F32
from braze.kernel.ir import Operand

if TYPE_CHECKING:
    from braze.kernel.builder import Builder


def divide_by_uniform(b: Builder, x: Operand, y: Operand, divide: Callable[[], Operand]) -> Operand:
    """x / y for a y that is the same in every lane, to the last bit, without dividing in every lane.

    With the correctly rounded reciprocal of y, each correction by the exact remainder halves what can be wrong:
    the first gives a neighbour of the quotient, the second the quotient rounded correctly. That needs
    remainders that are exact, so blocks with an x too small or too large, or such a y, are divided.
    Args:
        divide: writes the division itself, for such blocks.
    Source: P. Markstein 1990.
    """
    low, high, spread = (2.0**-60, 2.0**80, 2.0**40) if x.dtype == F32 else (2.0**-800, 2.0**800, 2.0**150)
    inverse = b.div(1.0, y)
    size = b.abs(y)
    plain_y = b.and_(b.ge(size, 1.0 / spread), b.le(size, spread))
    magnitude = b.abs(x)
    tiny = b.and_(b.lt(magnitude, low), b.gt(magnitude, 0.0))
    odd = b.lane_reduce("or", b.or_(tiny, b.gt(magnitude, high)))

    def correct() -> tuple[Operand, ...]:
        first = b.mul(x, inverse)
        q = first
        for _ in range(2):
            q = b.fma(b.fma(b.neg(q), y, x), inverse, q)
        return (b.copysign(q, first),)  # a zero quotient has lost its sign in the corrections

    (result,) = b.if_(b.and_(plain_y, b.not_(odd)), correct, lambda: (divide(),))
    return result
