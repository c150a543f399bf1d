"""What a strategy is asked to build: the instruction, and what is known of it when somebody looks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from braze.hlo.ir import Instruction, Region, Value
from braze.kernel.build.graph import Graph
from braze.kernel.build.launch import Built
from braze.ops.table import Axes, Fused, Immediate
from braze.target import Target

Build = Callable[[Instruction, str, Target], Built]


class Task:
    """One fusion, or one operation, that is to become kernels.

    Attributes:
        name: the symbol of the kernel; further launches get a suffix.
        build: builds the kernels of another instruction, for strategies that take a region apart.
    """

    def __init__(self, instruction: Instruction, name: str, target: Target, build: Build) -> None:
        self.instruction = instruction
        self.name = name
        self.target = target
        self.build = build

    @cached_property
    def region(self) -> Region:
        """The region of a fusion; a single operation as a region of one."""
        instruction = self.instruction
        if isinstance(instruction.op.kernel, Fused):
            return instruction.regions[0]
        parameters = [Value(v.type) for v in instruction.operands]
        inner = Instruction(
            instruction.op,
            parameters,
            [r.type for r in instruction.results],
            instruction.attrs,
            instruction.regions,
            instruction.source,
        )
        return Region(parameters, (inner,), inner.results)

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.region)

    @property
    def overwrites(self) -> dict[int, int]:
        """Results that take over the memory of an operand of which they change a part."""
        return self.instruction.overwrites

    @property
    def ops(self) -> tuple[str, ...]:
        """The operations by their HLO names, for the kernel's record."""
        return tuple(i.op.hlo or i.op.title for i in self.region.instructions if not _is_immediate(i))


def _is_immediate(instruction: Instruction) -> bool:
    """Whether it is a number, or one number in every element: no operation of the kernel."""
    kernel = instruction.op.kernel
    return isinstance(kernel, Immediate) or (
        isinstance(kernel, Axes) and instruction.operands[0].type.size == 1
    )
