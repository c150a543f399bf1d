"""Dead code: instructions that no result and no effect needs go."""

from __future__ import annotations

from braze.hlo.ir import Instruction, Module, Region, Value
from braze.ops.table import Effect
from braze.passes.copying import Env, each_function, remade
from braze.passes.log import Log


def dce(module: Module, *, log: Log | None = None) -> Module:
    """Remove what has no use."""
    counter = log or Log()

    def change(region: Region) -> Region:
        used: set[Value] = set()
        _mark(region, used)
        return _sweep(region, used, {}, counter)

    return each_function(module, change)


def _must_run(instruction: Instruction) -> bool:
    if instruction.regions:
        return instruction.has_effects
    return instruction.op.effects in (Effect.ORDERED, Effect.UNORDERED)


def _mark(region: Region, used: set[Value]) -> None:
    """Gather the values that results and effects need, walking from the end."""
    used.update(region.results)
    for instruction in reversed(region.instructions):
        if _must_run(instruction) or any(v in used for v in instruction.results):
            used.update(instruction.operands)
            for inner in instruction.regions:
                _mark(inner, used)


def _sweep(region: Region, used: set[Value], env: Env, log: Log) -> Region:
    kept: list[Instruction] = []
    changed = False
    for instruction in region.instructions:
        needed = _must_run(instruction) or any(v in used for v in instruction.results)
        if not needed and not log.exhausted:
            log.count(instruction.op.title)
            changed = True
            continue
        operands = [env.get(v, v) for v in instruction.operands] if env else instruction.operands
        regions = [_sweep(r, used, env, log) for r in instruction.regions]
        made = remade(instruction, operands, regions)
        if made is not instruction:
            env.update(zip(instruction.results, made.results, strict=True))
            changed = True
        kept.append(made)
    return Region(region.parameters, kept, [env.get(v, v) for v in region.results]) if changed else region
