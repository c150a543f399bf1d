"""Common subexpressions: of instructions that are equal in op, operands, attributes and regions, the first stays.

Instructions inside loops and branches may be replaced by equal ones of the regions around them, which they
see. Operands of commutative ops are a set: x + y is y + x, but for the payload of a NaN, and any NaN equals any
NaN. Bodies of reducers stay closed, since kernels are made of them, and `braze.fusion` is closed anyway.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from typing import Any

import numpy as np

from braze.hlo.ir import Instruction, Module, Region, Value
from braze.passes.copying import Env, Walk
from braze.passes.log import Log


def cse(module: Module, *, log: Log | None = None) -> Module:
    """Compute equal pure instructions once."""
    return _Walk(log or Log()).run(module)


class _Walk(Walk):
    def __init__(self, log: Log) -> None:
        self.log = log
        self.seen: ChainMap[Any, tuple[Value, ...]] = ChainMap()

    def region(self, region: Region, env: Env) -> Region:
        outer, self.seen = self.seen, self.seen.new_child()
        made = super().region(region, env)
        self.seen = outer
        return made

    def inner(self, owner: Instruction, region: Region, env: Env) -> Region:
        if owner.captures:
            return self.region(region, env)
        outer, self.seen = self.seen, ChainMap()
        made = self.region(region, env)
        self.seen = outer
        return made

    def instruction(
        self, new: Instruction, old: Instruction, made: list[Instruction]
    ) -> Sequence[Value | None]:
        if not new.has_effects:
            key = _key(new, {})
            before = self.seen.get(key)
            if before is not None and not self.log.exhausted:
                self.log.count(new.op.title)
                return before
            self.seen[key] = new.results
        return super().instruction(new, old, made)


def _key(instruction: Instruction, numbers: dict[Value, int]) -> Any:
    """What makes an instruction equal to another; `numbers` names the values of the regions it stands in."""
    operands: Any = instruction.operands
    if numbers:
        operands = tuple([numbers.get(v, v) for v in operands])
    if instruction.op.commutative:
        operands = frozenset(operands)
    if not instruction.regions:
        return instruction.op, operands, frozen(instruction.attrs)
    regions = tuple(_region_key(r, dict(numbers)) for r in instruction.regions)
    return instruction.op, operands, frozen(instruction.attrs), regions


def _region_key(region: Region, numbers: dict[Value, int]) -> Any:
    """A region up to the identity of its own values, which are numbered in order."""
    for value in region.parameters:
        numbers[value] = len(numbers)
    lines = []
    for instruction in region.instructions:
        lines.append(_key(instruction, numbers))
        for value in instruction.results:
            numbers[value] = len(numbers)
    results = tuple(numbers.get(v, v) for v in region.results)
    return region.parameter_types, tuple(lines), results


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
