"""Layout: explicit transposes are absorbed where the reader can index its operand in another order.

Values are dense and row-major, so a transpose is a copy through memory. A contraction names its axes and can
take them from the operand as it was; a transpose of a matrix product exchanges the operands instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from braze.hlo.ir import Instruction, Module, Region
from braze.passes.copying import Env, each_function, remade
from braze.passes.log import Log

_SIDES = ("lhs", "rhs")


def layout(module: Module, *, log: Log | None = None) -> Module:
    """Take transposes into the dimension numbers of contractions."""
    counter = log or Log()
    return each_function(module, lambda region: _region(region, {}, counter))


def _region(region: Region, env: Env, log: Log) -> Region:
    instructions: list[Instruction] = []
    changed = False
    for instruction in region.instructions:
        operands = [env.get(v, v) for v in instruction.operands] if env else instruction.operands
        regions = instruction.regions
        if instruction.op.hlo in ("while", "case"):
            regions = tuple(_region(r, env, log) for r in regions)
        made = remade(instruction, operands, regions)
        if made.op.hlo == "dot_general":
            made = _absorb(made, log)
        if made is not instruction:
            env.update(zip(instruction.results, made.results, strict=True))
            changed = True
        instructions.append(made)
    if not changed:
        return region
    return Region(region.parameters, instructions, [env.get(v, v) for v in region.results])


def _absorb(dot: Instruction, log: Log) -> Instruction:
    """The contraction on the operands of its transposes, where the order of free axes allows."""
    operands = list(dot.operands)
    attrs = dict(dot.attrs)
    for side, name in enumerate(_SIDES):
        producer = operands[side].producer
        if producer is None or producer.op.hlo != "transpose" or log.exhausted:
            continue
        permutation = producer.attrs["permutation"]
        if not _free_axes_in_order(attrs, name, permutation):
            continue
        for kind in ("batching", "contracting"):
            key = f"{name}_{kind}_dimensions"
            attrs[key] = tuple(permutation[i] for i in attrs[key])
        operands[side] = producer.operands[0]
        log.count("transpose_into_dot")
    if operands == list(dot.operands):
        return dot
    types = [v.type for v in dot.results]
    return Instruction(dot.op, operands, types, attrs, (), dot.source)


def _free_axes_in_order(attrs: dict[str, Sequence[int]], name: str, permutation: Sequence[int]) -> bool:
    """Whether free axes keep their order in the operand of the transpose (the result lists them by it)."""
    taken = {*attrs[f"{name}_batching_dimensions"], *attrs[f"{name}_contracting_dimensions"]}
    free = [permutation[i] for i in range(len(permutation)) if i not in taken]
    return free == sorted(free)
