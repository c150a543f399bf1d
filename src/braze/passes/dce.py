"""Dead code: instructions that no result and no effect needs go.

The walk begins at the end, so that what only dead instructions use is dead when it is reached. A dead
instruction that fuel keeps is alive to everything before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from braze.hlo.ir import Instruction, Module, Region, Value
from braze.ops.table import Effect
from braze.passes.copying import Walk, each_function
from braze.passes.log import Log


def dce(module: Module, *, log: Log | None = None) -> Module:
    """Remove what has no use."""
    counter = log or Log()

    def change(region: Region) -> Region:
        dead: set[Instruction] = set()
        _find(region, set(), dead, counter)
        return _Sweep(dead).region(region, {}) if dead else region

    return each_function(module, change)


def _find(region: Region, used: set[Value], dead: set[Instruction], log: Log) -> None:
    """Gather the dead instructions, and in `used` the values that the others need."""
    used.update(region.results)
    for instruction in reversed(region.instructions):
        needed = any(v in used for v in instruction.results) or _must_run(instruction)
        if needed or log.exhausted:
            used.update(instruction.operands)
            for inner in instruction.regions:
                _find(inner, used, dead, log)
        else:
            dead.add(instruction)
            log.count(instruction.op.title)


def _must_run(instruction: Instruction) -> bool:
    """Effects are for others to see, all but reading; a call may have any."""
    return instruction.has_effects and instruction.op.effect(instruction.attrs) is not Effect.READ


class _Sweep(Walk):
    def __init__(self, dead: set[Instruction]) -> None:
        self.dead = dead

    def instruction(
        self, new: Instruction, old: Instruction, made: list[Instruction]
    ) -> Sequence[Value | None]:
        if old in self.dead:
            return [None] * len(old.results)
        return super().instruction(new, old, made)
