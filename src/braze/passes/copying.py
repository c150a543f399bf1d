"""Making changed copies of regions: what all passes that rewrite HLO share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from braze.hlo.ir import Function, Instruction, Module, Region, Value
from braze.ops.table import Fused

Env = dict[Value, Value]


def remade(instruction: Instruction, operands: Sequence[Value], regions: Sequence[Region]) -> Instruction:
    """The instruction on other operands and regions; itself if they are the same."""
    if tuple(operands) == instruction.operands and tuple(regions) == instruction.regions:
        return instruction
    types = [v.type for v in instruction.results]
    return Instruction(instruction.op, operands, types, instruction.attrs, regions, instruction.source)


def is_open(instruction: Instruction) -> bool:
    """Whether its regions may use values from outside, which then have to follow every replacement."""
    return bool(instruction.regions) and not isinstance(instruction.op.kernel, Fused)


class Walk:
    """One walk over a region and those inside it, producers first, that replaces values on its way.

    A pass overrides `instruction`, and `inner` where it treats some regions differently.

    Invariant: a region in which nothing changed is returned as the same object.
    """

    def run(self, module: Module) -> Module:
        return each_function(module, lambda region: self.region(region, {}))

    def region(self, region: Region, env: Env) -> Region:
        """The region rewritten; `env` maps values that were replaced, of outer regions too."""
        made: list[Instruction] = []
        changed = False
        for old in region.instructions:
            operands = [env.get(v, v) for v in old.operands] if env else old.operands
            regions: Sequence[Region] = old.regions
            if is_open(old):
                regions = [self.inner(old, r, env) for r in regions]
            results = self.instruction(remade(old, operands, regions), old, made)
            if results is not old.results:
                env.update({v: new for v, new in zip(old.results, results, strict=True) if new is not None})
                changed = True
        returned = tuple([env.get(v, v) for v in region.results])
        if not changed and returned == region.results:
            return region
        return Region(region.parameters, made, returned)

    def inner(self, owner: Instruction, region: Region, env: Env) -> Region:
        """A region of `owner`, which has not been rewritten yet."""
        return self.region(region, env)

    def instruction(
        self, new: Instruction, old: Instruction, made: list[Instruction]
    ) -> Sequence[Value | None]:
        """Append to `made` what `new`, which is `old` on rewritten operands and regions, becomes.

        Returns: what stands for the results; None where nothing does, because nothing needs it.
        """
        made.append(new)
        return new.results


def copy_region(region: Region, env: Env) -> Region:
    """A region with fresh values throughout; captured values go through `env`."""
    inner = dict(env)
    parameters = [Value(p.type) for p in region.parameters]
    inner.update(zip(region.parameters, parameters, strict=True))
    instructions = copy_instructions(region.instructions, inner)
    return Region(parameters, instructions, [inner.get(v, v) for v in region.results])


def copy_instructions(instructions: Iterable[Instruction], env: Env) -> list[Instruction]:
    """Fresh copies of instructions; `env` maps their operands and gains their results."""
    made = []
    for old in instructions:
        operands = [env.get(v, v) for v in old.operands]
        regions = [copy_region(r, env) for r in old.regions]
        new = Instruction(old.op, operands, [v.type for v in old.results], old.attrs, regions, old.source)
        env.update(zip(old.results, new.results, strict=True))
        made.append(new)
    return made


def used_values(region: Region) -> set[Value]:
    """All values that a region and the regions inside it read or return."""
    found: set[Value] = set()
    pending = [region]
    while pending:
        one = pending.pop()
        found.update(one.results)
        for instruction in one.instructions:
            found.update(instruction.operands)
            pending.extend(instruction.regions)
    return found


def each_function(module: Module, change: Callable[[Region], Region]) -> Module:
    """The module with every function's region changed; itself if none was."""
    changed = {}
    for function in module.functions.values():
        region = change(function.region)
        if region is not function.region:
            changed[function.name] = with_region(function, region)
    return Module({**module.functions, **changed}, module.name, module.attrs) if changed else module


def with_region(function: Function, region: Region) -> Function:
    """The function with another body."""
    return Function(function.name, region, function.public, function.parameter_attrs, function.result_attrs)
