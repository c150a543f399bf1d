"""Making changed copies of regions: what inlining, CSE, folding and loop passes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from braze.hlo.ir import Function, Instruction, Module, Region, Value

Env = dict[Value, Value]


def remade(instruction: Instruction, operands: Sequence[Value], regions: Sequence[Region]) -> Instruction:
    """The instruction on other operands and regions; itself if they are the same."""
    if tuple(operands) == instruction.operands and tuple(regions) == instruction.regions:
        return instruction
    types = [v.type for v in instruction.results]
    return Instruction(instruction.op, operands, types, instruction.attrs, regions, instruction.source)


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


def each_function(module: Module, change: Callable[[Region], Region]) -> Module:
    """The module with every function's region changed; itself if none was."""
    changed = {}
    for function in module.functions.values():
        region = change(function.region)
        if region is not function.region:
            changed[function.name] = with_region(function, region)
    return Module({**module.functions, **changed}, module.name, module.attrs) if changed else module


def with_region(function: Function, region: Region) -> Function:
    return Function(function.name, region, function.public, function.parameter_attrs, function.result_attrs)
