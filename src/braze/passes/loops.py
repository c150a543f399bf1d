"""Loops: state that never changes leaves the loop, state that nobody reads goes, invariant work moves out.

What never changes becomes a value captured from outside, so that rules and folding see it in the body.

Invariant: only what cannot fail or have an effect moves; every op of HLO is total, so work moved out of a loop
that runs no round costs time, never a fault. Cheap work stays, since outside it would have to be stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from braze.hlo.ir import Instruction, Module, Region, Value, cost_of
from braze.ops.table import Contraction, Family, ProgramStep
from braze.passes.copying import Env, Walk, remade, used_values
from braze.passes.log import Log


def loops(module: Module, *, log: Log | None = None) -> Module:
    """Slim the state of `while` loops and move invariant work before them."""
    return _Walk(log or Log()).run(module)


class _Walk(Walk):
    """Inner loops first, so that what leaves an inner loop may leave the outer one too."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.used: set[Value] = set()

    def region(self, region: Region, env: Env) -> Region:
        if not any(i.regions for i in region.instructions):
            return super().region(region, env)
        outer, self.used = self.used, used_values(region)
        made = super().region(region, env)
        self.used = outer
        return made

    def instruction(
        self, new: Instruction, old: Instruction, made: list[Instruction]
    ) -> Sequence[Value | None]:
        if new.op.hlo != "while" or self.log.exhausted:
            return super().instruction(new, old, made)
        read = [v in self.used for v in old.results]
        kept, results = _kept_slots(new, read, self.log)
        loop = new if all(kept) else _with_slots(new, kept, results)
        moved, loop = _hoisted(loop, self.log)
        made.extend(moved)
        made.append(loop)
        if loop is old:
            return old.results
        left = iter(loop.results)
        return [next(left) if keep else value for keep, value in zip(kept, results, strict=True)]


# State ------------------------------------------------------------------------------------------------


def _kept_slots(loop: Instruction, read: Sequence[bool], log: Log) -> tuple[list[bool], list[Value | None]]:
    """Which slots stay, and what stands for the results of those that go: the initial value, or nothing."""
    body = loop.regions[1]
    slots = range(len(read))
    constant = [slot for slot in slots if body.parameters[slot] is body.results[slot]][: log.fuel]
    live = _live_slots(loop, [r and slot not in constant for slot, r in enumerate(read)])
    if slots and not any(live[slot] for slot in slots if slot not in constant):
        # Nothing but effects keeps such a loop, and StableHLO's text has no loop without state.
        constant = [slot for slot in constant if slot > 0]
        live[:1] = [True]
    kept = [slot not in constant for slot in slots]
    for _ in constant:
        log.count("constant_state")
    if any(kept[slot] and not live[slot] for slot in slots) and not log.exhausted:
        log.count("dead_state")
        kept = [k and l for k, l in zip(kept, live, strict=True)]
    return kept, [loop.operands[slot] if slot in constant else None for slot in slots]


def _live_slots(loop: Instruction, read: Sequence[bool]) -> list[bool]:
    """Slots that a read result, the condition, an effect or a live slot's next value depends on."""
    condition, body = loop.regions
    slot_of = {p: i for region in loop.regions for i, p in enumerate(region.parameters)}
    inputs = {v: i for region in loop.regions for i in region.instructions for v in i.results}
    live = [False] * len(read)
    pending = list(condition.results)
    pending += [body.results[slot] for slot, is_read in enumerate(read) if is_read]
    for region in loop.regions:
        pending += [v for i in region.instructions if i.has_effects for v in _inputs(i)]
    reached: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in reached:
            continue
        reached.add(value)
        if value in slot_of:
            slot = slot_of[value]
            live[slot] = True
            pending.append(body.results[slot])
        elif value in inputs:
            pending.extend(_inputs(inputs[value]))
    return [alive or is_read for alive, is_read in zip(live, read, strict=True)]


def _inputs(instruction: Instruction) -> list[Value]:
    """Operands and all values used in its regions."""
    values = list(instruction.operands)
    for region in instruction.regions:
        values.extend(used_values(region))
    return values


def _with_slots(loop: Instruction, kept: Sequence[bool], stands: Sequence[Value | None]) -> Instruction:
    """The loop with some of its slots; parameters of others are what stands for their results, if anything."""
    condition, body = loop.regions
    slots = [slot for slot, keep in enumerate(kept) if keep]
    returned = [body.results[slot] for slot in slots]
    regions = []
    for region, wanted in ((condition, condition.results), (body, returned)):
        env = {p: v for p, v in zip(region.parameters, stands, strict=True) if v is not None}
        regions.append(_narrowed(region, slots, wanted, env))
    types = [loop.results[slot].type for slot in slots]
    operands = [loop.operands[slot] for slot in slots]
    return Instruction(loop.op, operands, types, loop.attrs, regions, loop.source)


def _narrowed(region: Region, slots: Sequence[int], wanted: Sequence[Value], env: Env) -> Region:
    """A region with some of its parameters, and only the instructions that what it returns now needs."""
    used = set(wanted)
    alive = []
    for instruction in reversed(region.instructions):
        if any(v in used for v in instruction.results) or instruction.has_effects:
            used.update(_inputs(instruction))
            alive.append(instruction)
    inner = Region([region.parameters[slot] for slot in slots], alive[::-1], wanted)
    return Walk().region(inner, env)


# Invariant work ---------------------------------------------------------------------------------------


def _hoisted(loop: Instruction, log: Log) -> tuple[list[Instruction], Instruction]:
    """Invariant instructions of the body that are worth it, with what they need, and the loop without them."""
    condition, body = loop.regions
    inside = set(body.parameters)
    invariant: dict[Value, Instruction] = {}
    moved: set[Instruction] = set()
    for instruction in body.instructions:
        if instruction.has_effects or any(v in inside for v in _inputs(instruction)):
            inside.update(instruction.results)
            continue
        invariant.update(dict.fromkeys(instruction.results, instruction))
        if _is_costly(instruction) and not log.exhausted:
            log.count("hoisted")
            _gather(instruction, invariant, moved)
    if not moved:
        return [], loop
    rest = [i for i in body.instructions if i not in moved]
    inner = Region(body.parameters, rest, body.results)
    before = [i for i in body.instructions if i in moved]
    return before, remade(loop, loop.operands, (condition, inner))


def _gather(root: Instruction, invariant: dict[Value, Instruction], moved: set[Instruction]) -> None:
    """Add an instruction, and those of the body that it needs, to what moves."""
    pending = [root]
    while pending:
        instruction = pending.pop()
        if instruction not in moved:
            moved.add(instruction)
            pending.extend([invariant[v] for v in _inputs(instruction) if v in invariant])


def _is_costly(instruction: Instruction) -> bool:
    """Whether computing it once saves more than storing its result and reading it back costs."""
    match instruction.op.kernel:
        case ProgramStep():
            return False
        case Contraction() | Family():
            return True
    return cost_of(instruction).transcendentals > 0
