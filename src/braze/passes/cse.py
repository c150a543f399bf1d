"""Common subexpressions: of instructions that are equal in op, operands and attributes, the first stays.

Instructions of inner regions may be replaced by equal ones of the regions around them, since loops and
branches see outer values; bodies of `reduce` and `braze.fusion` are closed and left alone.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Any

import numpy as np

from braze.hlo.ir import Instruction, Module, Region, Value
from braze.ops.table import Effect
from braze.passes.copying import Env, each_function, remade
from braze.passes.log import Log

_OPEN = ("while", "case")
"""Ops whose regions may use values from outside."""


def cse(module: Module, *, log: Log | None = None) -> Module:
    """Compute equal pure instructions once."""
    counter = log or Log()
    return each_function(module, lambda region: _region(region, {}, ChainMap(), counter))


def _region(region: Region, env: Env, seen: ChainMap[Any, tuple[Value, ...]], log: Log) -> Region:
    instructions: list[Instruction] = []
    changed = False
    for instruction in region.instructions:
        operands = [env.get(v, v) for v in instruction.operands] if env else instruction.operands
        regions = instruction.regions
        if instruction.op.hlo in _OPEN:
            regions = tuple(_region(r, env, seen.new_child(), log) for r in regions)
        made = remade(instruction, operands, regions)
        if not regions and instruction.op.effects is Effect.NONE:
            key = (made.op, made.operands, frozen(made.attrs))
            before = seen.get(key)
            if before is not None and not log.exhausted:
                env.update(zip(instruction.results, before, strict=True))
                log.count(instruction.op.title)
                changed = True
                continue
            seen[key] = made.results
        if made is not instruction:
            env.update(zip(instruction.results, made.results, strict=True))
            changed = True
        instructions.append(made)
    if not changed:
        return region
    return Region(region.parameters, instructions, [env.get(v, v) for v in region.results])


def frozen(value: Any) -> Any:
    """Attributes as a key; floats by their bits, so that -0.0 and 0.0 stay apart and NaN equals itself."""
    match value:
        case dict():
            return tuple((k, frozen(v)) for k, v in sorted(value.items()))
        case tuple() | list():
            return tuple(frozen(v) for v in value)
        case np.ndarray():
            return (value.shape, value.dtype, value.tobytes())
        case float():
            return ("float", value.hex())
    try:
        hash(value)
    except TypeError:
        return (type(value), id(value))
    return (type(value), value)
