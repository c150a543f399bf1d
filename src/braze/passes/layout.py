"""Layout: explicit transposes are absorbed where the reader can index its operand in another order.

Values are dense and row-major, so a transpose is a copy through memory. A contraction names its axes and can
take them from the operand as it was; a transpose of a matrix product exchanges the operands instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from braze.hlo.ir import Instruction, Module, Region, Value, walk
from braze.passes.copying import Walk, each_function
from braze.passes.log import Log

_KINDS = ("batching", "contracting")


def layout(module: Module, *, log: Log | None = None) -> Module:
    """Take transposes into the dimension numbers of contractions."""
    counter = log or Log()
    return each_function(module, lambda region: _Walk(_uses(region), counter).region(region, {}))


def _uses(region: Region) -> Counter[Instruction]:
    """How often the results of each contraction are used."""
    uses: Counter[Instruction] = Counter()

    def count(values: Sequence[Value]) -> None:
        uses.update([v.producer for v in values if v.producer and v.producer.op.hlo == "dot_general"])

    count(region.results)
    for instruction in walk(region):
        count(instruction.operands)
        for inner in instruction.regions:
            count(inner.results)
    return uses


class _Walk(Walk):
    """Attributes: uses: of contractions, by the instruction as it was and as it became."""

    def __init__(self, uses: Counter[Instruction], log: Log) -> None:
        self.uses = uses
        self.log = log

    def instruction(
        self, new: Instruction, old: Instruction, made: list[Instruction]
    ) -> Sequence[Value | None]:
        if new.op.hlo == "dot_general":
            new = self.absorbed(new)
            self.uses[new] = self.uses[old]
        elif new.op.hlo == "transpose":
            new = self.exchanged(new)
        return super().instruction(new, old, made)

    def absorbed(self, dot: Instruction) -> Instruction:
        """The contraction on the operands of its transposes, where the order of free axes allows."""
        operands = list(dot.operands)
        attrs = dict(dot.attrs)
        for side, name in enumerate(("lhs", "rhs")):
            producer = operands[side].producer
            if producer is None or producer.op.hlo != "transpose" or self.log.exhausted:
                continue
            permutation = producer.attrs["permutation"]
            if not _free_axes_in_order(attrs, name, permutation):
                continue
            for kind in _KINDS:
                key = f"{name}_{kind}_dimensions"
                attrs[key] = tuple(permutation[i] for i in attrs[key])
            operands[side] = producer.operands[0]
            self.log.count("transpose_into_dot")
        if operands == list(dot.operands):
            return dot
        return Instruction(dot.op, operands, [v.type for v in dot.results], attrs, (), dot.source)

    def exchanged(self, transpose: Instruction) -> Instruction:
        """The contraction of exchanged operands, where that is what a transpose makes of one."""
        dot = transpose.operands[0].producer
        if dot is None or dot.op.hlo != "dot_general" or self.uses[dot] != 1 or self.log.exhausted:
            return transpose
        if list(transpose.attrs["permutation"]) != _exchange(dot):
            return transpose
        self.log.count("transpose_of_dot")
        types = [v.type for v in transpose.results]
        return Instruction(dot.op, dot.operands[::-1], types, _exchanged(dot.attrs), (), dot.source)


def _free_axes_in_order(attrs: Mapping[str, Any], name: str, permutation: Sequence[int]) -> bool:
    """Whether free axes keep their order in the operand of the transpose (the result lists them by it)."""
    taken = {axis for kind in _KINDS for axis in attrs[f"{name}_{kind}_dimensions"]}
    free = [permutation[i] for i in range(len(permutation)) if i not in taken]
    return free == sorted(free)


def _exchange(dot: Instruction) -> list[int]:
    """The permutation of a contraction's result that exchanging its operands amounts to.

    Result axes are the batch axes, then the free axes of lhs, then those of rhs.
    """
    batch = len(dot.attrs["lhs_batching_dimensions"])
    contracted = len(dot.attrs["lhs_contracting_dimensions"])
    left, right = (v.type.ndim - batch - contracted for v in dot.operands)
    first = batch + left
    return [*range(batch), *range(first, first + right), *range(batch, first)]


def _exchanged(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Dimension numbers and precision with the sides exchanged."""
    made = dict(attrs)
    for kind in _KINDS:
        made[f"lhs_{kind}_dimensions"] = attrs[f"rhs_{kind}_dimensions"]
        made[f"rhs_{kind}_dimensions"] = attrs[f"lhs_{kind}_dimensions"]
    precision = attrs.get("precision")
    if precision is not None:
        made["precision"] = tuple(reversed(precision))
    return made
