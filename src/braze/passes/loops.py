"""Loops: state that never changes leaves the loop, state that nobody reads goes, invariant work moves out.

Invariant: only what cannot fail or have an effect moves; every op of HLO is total, so work moved out of a loop
that runs no round costs time, never a fault. Cheap work stays, since outside it would have to be stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from braze.hlo.ir import Instruction, Module, Region, Value
from braze.ops.table import Effect
from braze.passes.copying import Env, each_function, remade
from braze.passes.log import Log


def loops(module: Module, *, log: Log | None = None) -> Module:
    """Slim the state of `while` loops and move invariant work before them."""
    counter = log or Log()
    return each_function(module, lambda region: _region(region, {}, counter))


def _region(region: Region, env: Env, log: Log) -> Region:
    used = _uses(region)
    instructions: list[Instruction] = []
    changed = False
    for instruction in region.instructions:
        operands = [env.get(v, v) for v in instruction.operands] if env else instruction.operands
        regions = instruction.regions
        if instruction.op.hlo in ("while", "case"):
            regions = tuple(_region(r, env, log) for r in regions)
        made = remade(instruction, operands, regions)
        if made.op.hlo == "while" and not log.exhausted:
            needed = [v in used for v in instruction.results]
            hoisted, made, results = _slimmed(made, needed, log)
            instructions.extend(hoisted)
            if hoisted or made is not instruction:
                changed = True
                env.update({old: new for old, new in zip(instruction.results, results) if new is not None})
        elif made is not instruction:
            changed = True
            env.update(zip(instruction.results, made.results, strict=True))
        instructions.append(made)
    if not changed:
        return region
    return Region(region.parameters, instructions, [env.get(v, v) for v in region.results])


def _uses(region: Region) -> set[Value]:
    found: set[Value] = set()
    pending = [region]
    while pending:
        one = pending.pop()
        found.update(one.results)
        for instruction in one.instructions:
            found.update(instruction.operands)
            pending.extend(instruction.regions)
    return found


def _slimmed(
    loop: Instruction, needed: Sequence[bool], log: Log
) -> tuple[list[Instruction], Instruction, list[Value | None]]:
    """Instructions to put before the loop, the loop, and its results (None for those that went)."""
    constant = [r is p for p, r in zip(loop.regions[1].parameters, loop.regions[1].results)]
    kept = _live_slots(loop, [n and not c for n, c in zip(needed, constant)], constant)
    results: list[Value | None] = [o if c else None for o, c in zip(loop.operands, constant)]
    places = [i for i, keep in enumerate(kept) if keep]
    if len(places) < len(kept):
        for name, count in (
            ("constant_state", sum(constant)),
            ("dead_state", len(kept) - len(places) - sum(constant)),
        ):
            for _ in range(count):
                log.count(name)
        loop = _with_slots(loop, places, constant)
    hoisted, loop = _hoisted(loop, log)
    for place, value in zip(places, loop.results, strict=True):
        results[place] = value
    return hoisted, loop, results


def _live_slots(loop: Instruction, needed: Sequence[bool], constant: Sequence[bool]) -> list[bool]:
    """Slots that a result, the condition, an effect or a live slot's next value depends on."""
    condition, body = loop.regions
    parameters = {p: i for region in (condition, body) for i, p in enumerate(region.parameters)}
    reached: set[Value] = set()
    live = list(needed)

    def reach(region: Region, roots: list[Value]) -> None:
        producers = _containing(region)
        pending = list(roots)
        while pending:
            value = pending.pop()
            if value in reached:
                continue
            reached.add(value)
            if value in parameters:
                slot = parameters[value]
                if not constant[slot] and not live[slot]:
                    live[slot] = True
                    pending.append(body.results[slot])
            elif value in producers:
                pending.extend(producers[value])

    reach(condition, list(condition.results))
    effects = [v for i in body.instructions if i.has_effects for v in _inputs(i)]
    roots = [body.results[i] for i, l in enumerate(live) if l]
    reach(body, [*effects, *roots])
    return live


def _inputs(instruction: Instruction) -> list[Value]:
    """Operands and all values used in its regions."""
    values = list(instruction.operands)
    for region in instruction.regions:
        values.extend(_uses(region))
    return values


def _containing(region: Region) -> dict[Value, list[Value]]:
    return {v: _inputs(i) for i in region.instructions for v in i.results}


def _with_slots(loop: Instruction, places: Sequence[int], constant: Sequence[bool]) -> Instruction:
    """The loop with these slots only; constant ones are captured from outside."""
    regions = []
    for index, region in enumerate(loop.regions):
        env: Env = {p: loop.operands[i] for i, p in enumerate(region.parameters) if constant[i]}
        wanted = region.results if index == 0 else [region.results[i] for i in places]
        live = _needed_by(region, wanted)
        instructions = [i for i in region.instructions if i in live]
        inner = _replaced(instructions, env)
        parameters = [region.parameters[i] for i in places]
        regions.append(Region(parameters, inner, [env.get(v, v) for v in wanted]))
    types = [loop.results[i].type for i in places]
    operands = [loop.operands[i] for i in places]
    return Instruction(loop.op, operands, types, loop.attrs, regions, loop.source)


def _needed_by(region: Region, wanted: Sequence[Value]) -> set[Instruction]:
    used = set(wanted)
    live: set[Instruction] = set()
    for instruction in reversed(region.instructions):
        if instruction.has_effects or any(v in used for v in instruction.results):
            live.add(instruction)
            used.update(_inputs(instruction))
    return live


def _replaced(instructions: Sequence[Instruction], env: Env) -> list[Instruction]:
    made = []
    for old in instructions:
        operands = [env.get(v, v) for v in old.operands]
        regions = [
            Region(r.parameters, _replaced(r.instructions, env), [env.get(v, v) for v in r.results])
            if env
            else r
            for r in old.regions
        ]
        new = remade(old, operands, regions)
        if new is not old:
            env.update(zip(old.results, new.results, strict=True))
        made.append(new)
    return made


def _worth_moving(instruction: Instruction) -> bool:
    """Whether computing it once saves more than storing its result costs."""
    if instruction.op.hlo in ("dot_general", "reduce"):
        return True
    cost = instruction.op.cost(*[v.type for v in instruction.operands], **instruction.attrs)
    return cost.transcendentals > 0


def _hoisted(loop: Instruction, log: Log) -> tuple[list[Instruction], Instruction]:
    """Invariant instructions of the body that are worth it, with what they need, and the loop without them."""
    condition, body = loop.regions
    inside = set(body.parameters) | {v for i in body.instructions for v in i.results}
    invariant: list[Instruction] = []
    outside: set[Value] = set()
    for instruction in body.instructions:
        pure = not instruction.has_effects and instruction.op.effects is Effect.NONE
        closed = not instruction.regions or instruction.op.hlo == "reduce"
        if pure and closed and all(v not in inside or v in outside for v in instruction.operands):
            invariant.append(instruction)
            outside.update(instruction.results)
    wanted = {v for i in invariant if _worth_moving(i) for v in i.results}
    moved: list[Instruction] = []
    for instruction in reversed(invariant):
        if any(v in wanted for v in instruction.results) and not log.exhausted:
            moved.append(instruction)
            wanted.update(instruction.operands)
            log.count("hoisted")
    if not moved:
        return [], loop
    moved.reverse()
    gone = set(moved)
    rest = [i for i in body.instructions if i not in gone]
    types = [v.type for v in loop.results]
    inner = Region(body.parameters, rest, body.results)
    return moved, Instruction(loop.op, loop.operands, types, loop.attrs, (condition, inner), loop.source)
