"""Reducers as code: a region of scalars written out, and what is known about one that is a single operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braze.dtypes import BOOL, DType
from braze.hlo.axes import is_move
from braze.hlo.ir import Region
from braze.kernel.builder import Builder, constant
from braze.kernel.ir import Operand
from braze.ops.table import Immediate

_OPCODES = {
    "add": "add", "multiply": "mul", "maximum": "max", "minimum": "min", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip


def inline(b: Builder, region: Region, arguments: Sequence[Operand]) -> list[Operand]:
    """The lane code of a small closed region of scalars, such as a reducer or a comparator."""
    values: dict[Any, Operand] = dict(zip(region.parameters, arguments, strict=True))
    for instruction in region.instructions:
        attrs = instruction.attrs
        if isinstance(instruction.op.kernel, Immediate):
            values[instruction.result] = constant(
                instruction.result.type.dtype, attrs["value"].reshape(-1)[0]
            )
            continue
        operands = [values[v] for v in instruction.operands]
        if is_move(instruction):
            values[instruction.result] = operands[0]
        else:
            found = instruction.op.lane_code(b, *operands, **attrs)
            lanes = found if instruction.op.multiple_results else [found]
            for result, lane in zip(instruction.results, lanes, strict=True):
                values[result] = b.lift(lane, result.type.dtype)
    return [values[v] for v in region.results]


def reducer_opcode(region: Region | None) -> str | None:
    """The opcode of a reducer that is one commutative operation on its two parameters, else None."""
    if region is None or len(region.instructions) != 1 or len(region.results) != 1:
        return None
    (instruction,) = region.instructions
    if set(instruction.operands) != set(region.parameters) or region.results[0] is not instruction.results[0]:
        return None
    return _OPCODES.get(instruction.op.hlo or "")


def identity(opcode: str, dtype: DType) -> Operand:
    """What changes nothing; -0.0 for sums, since +0.0 would turn -0.0 round."""
    floating = dtype.kind == "f" or dtype.name == "bfloat16"
    if dtype == BOOL:
        return constant(BOOL, opcode in ("and", "min", "mul"))
    match opcode:
        case "add":
            return constant(dtype, -0.0 if floating else 0)
        case "mul":
            return constant(dtype, 1)
        case "max" | "min" if floating:
            return constant(dtype, -np.inf if opcode == "max" else np.inf)
        case "max" | "min":
            limits = np.iinfo(dtype)
            return constant(dtype, int(limits.min if opcode == "max" else limits.max))
        case "and":
            return constant(dtype, -1)
    return constant(dtype, 0)


def bool_opcode(opcode: str, dtype: DType) -> str:
    """The opcode that does on bools what this one does on numbers."""
    if dtype != BOOL:
        return opcode
    return {"add": "or", "max": "or", "mul": "and", "min": "and"}.get(opcode, opcode)


class Reducer:
    """A reducer of one or several values for code that scans or slides.

    Attributes:
        opcode: the one operation that it is, else None.
        identity: what changes nothing, where that is known.
        reassociates: whether it is a float sum, whose error grows with the length of a chain.
    """

    def __init__(self, region: Region) -> None:
        self.region = region
        self.dtypes = [t.dtype for t in region.result_types]
        self.opcode = reducer_opcode(region)
        self.identity: list[Operand] | None = None
        self.reassociates = False
        if self.opcode is not None:
            (dtype,) = self.dtypes
            self.identity = [identity(self.opcode, dtype)]
            self.reassociates = self.opcode == "add" and self.dtypes[0].kind not in "biu"

    def combine(self, b: Builder, x: Sequence[Operand], y: Sequence[Operand]) -> list[Operand]:
        """x ⊕ y, x being earlier."""
        if self.opcode is not None:
            return [b.compute(bool_opcode(self.opcode, self.dtypes[0]), x[0], y[0])]
        return inline(b, self.region, [*x, *y])

    @property
    def operations(self) -> int:
        """About how many instructions one application takes."""
        return 1 if self.opcode is not None else sum(callable(i.op.kernel) for i in self.region.instructions)
