"""Affine index expressions: a constant plus multiples of symbols, with the range they lie in.

A symbol stands for a kernel value: the index of a loop, the number of the lane, or any i64 value that is
not taken apart further. How an address depends on the lane decides the kind of access: not at all is
uniform, with coefficient 1 is unit-stride, all else is a gather. The range decides whether a load needs a
bounds mask.

Invariant: equal expressions have equal keys, so that a value at an index is computed once.
"""

from __future__ import annotations

from braze.dtypes import I64
from braze.kernel.ir import Value

UNBOUNDED = 1 << 62
"""A bound that says nothing; larger than any index."""


class Symbol:
    """A kernel value inside index expressions.

    Attributes:
        number: identity, in order of creation.
        value: the kernel value.
        depth: the nesting depth at which it is defined; an expression is computed there, not deeper.
        low, high: what it lies between, both included.
        is_lane: whether it is the lane's number, so that its coefficient is the stride between lanes.
    """

    __slots__ = ("depth", "high", "is_lane", "low", "number", "value")

    def __init__(
        self, number: int, value: Value, depth: int, low: int, high: int, is_lane: bool = False
    ) -> None:
        self.number = number
        self.value = value
        self.depth = depth
        self.low = low
        self.high = high
        self.is_lane = is_lane


class Affine:
    """constant + sum of coefficient * symbol; an i64."""

    __slots__ = ("constant", "depth", "high", "key", "low", "terms")

    dtype = I64

    def __init__(self, constant: int, terms: tuple[tuple[Symbol, int], ...] = ()) -> None:
        self.constant = constant
        self.terms = terms
        self.key = (constant, *[(s.number, c) for s, c in terms])
        low = high = constant
        depth = 0
        for symbol, c in terms:
            low += c * (symbol.low if c > 0 else symbol.high)
            high += c * (symbol.high if c > 0 else symbol.low)
            depth = max(depth, symbol.depth)
        self.low, self.high = max(low, -UNBOUNDED), min(high, UNBOUNDED)
        self.depth = depth

    @property
    def varying(self) -> bool:
        return any(s.value.varying for s, _ in self.terms)

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def plus(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return self if other == 0 else Affine(self.constant + other, self.terms)
        if not other.terms:
            return self.plus(other.constant)
        if not self.terms:
            return other.plus(self.constant)
        sums: dict[int, tuple[Symbol, int]] = {s.number: (s, c) for s, c in self.terms}
        for symbol, c in other.terms:
            sums[symbol.number] = (symbol, c + sums.get(symbol.number, (symbol, 0))[1])
        terms = tuple(sums[n] for n in sorted(sums) if sums[n][1])
        return Affine(self.constant + other.constant, terms)

    def times(self, factor: int) -> Affine:
        if factor == 1:
            return self
        if factor == 0:
            return Affine(0)
        return Affine(self.constant * factor, tuple((s, c * factor) for s, c in self.terms))

    def lies_within(self, size: int) -> bool:
        """Whether it is proven to be an index of an axis of that size."""
        return self.low >= 0 and self.high < size


ZERO = Affine(0)
Index = tuple[Affine, ...]


def linear(index: Index, shape: tuple[int, ...]) -> Affine:
    """The row-major position of an index."""
    position = ZERO
    stride = 1
    for i, size in zip(reversed(index), reversed(shape), strict=True):
        position = position.plus(i.times(stride))
        stride *= size
    return position
