"""Kernels of a program: fusions of equal structure are built once and share one kernel.

Invariant: names depend on the order of the program only, and are unique in it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import numpy as np

from braze.hlo.ir import Instruction, Region, Value
from braze.kernel.build import Built, build
from braze.ops.table import Fused
from braze.target import Target


class Kernels:
    """Builds the kernels of one program."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._built: dict[Hashable, Built] = {}
        self._names: dict[str, int] = {}

    def build(self, instruction: Instruction) -> Built:
        key = structure(instruction)
        found = self._built.get(key)
        if found is None:
            found = self._built[key] = build(instruction, self._name(instruction), self.target)
        return found

    def _name(self, instruction: Instruction) -> str:
        wanted = str(instruction.attrs.get("name") or instruction.op.hlo)
        base = re.sub(r"\W", "_", wanted.removeprefix("braze."))
        number = self._names[base] = self._names.get(base, -1) + 1
        # The dot keeps `add.1` apart from any name that a fusion was given.
        return f"{base}.{number}" if number else base


def structure(instruction: Instruction) -> Hashable:
    """A key that is equal for instructions that do the same to operands of the same types."""
    closed = isinstance(instruction.op.kernel, Fused)
    attrs = {k: v for k, v in instruction.attrs.items() if not (closed and k in ("name", "kind"))}
    numbers: dict[Value, int] = {}
    # Each operand is a parameter of the kernel, so it does not matter which of them are the same value.
    operands = tuple([v.type for v in instruction.operands])
    inner = tuple([_region(r, numbers) for r in instruction.regions])
    return instruction.op, operands, _frozen(attrs), inner, tuple([r.type for r in instruction.results])


def _region(region: Region, numbers: dict[Value, int]) -> Hashable:
    for parameter in region.parameters:
        numbers[parameter] = len(numbers)
    lines = []
    for i in region.instructions:
        operands = tuple([numbers[v] for v in i.operands])
        inner = tuple([_region(r, numbers) for r in i.regions]) if i.regions else ()
        lines.append((i.op, operands, _frozen(i.attrs), inner, tuple([r.type for r in i.results])))
        for result in i.results:
            numbers[result] = len(numbers)
    parameters = tuple([p.type for p in region.parameters])
    return parameters, tuple(lines), tuple([numbers[r] for r in region.results])


def _frozen(value: Any) -> Hashable:
    """Attributes as a key. Numbers keep their type and sign: 1, 1.0 and True, 0.0 and -0.0 differ."""
    match value:
        case np.ndarray():
            return "array", value.dtype, value.shape, value.tobytes()
        case dict():
            return tuple([(k, _frozen(v)) for k, v in sorted(value.items())])
        case tuple() | list():
            return tuple([_frozen(v) for v in value])
        case float() | complex():
            return type(value), repr(value)
        case bool():
            return bool, value
    return value  # type: ignore[no-any-return]
