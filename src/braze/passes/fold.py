"""Constant folding: EXACT ops on constants are computed now, by their `numpy` facets.

Only exact ops, so that folding never changes a bit. A splat stays a scalar and its broadcast, however large.
Two budgets hold compile time and code size: bytes of one result, and seconds for the whole pass.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from braze.hlo.ir import Instruction, Module, Region, Value
from braze.ops.table import EXACT, HLO_OPS, Absent, Effect, Family, IndexMap, Op
from braze.passes.copying import Env, each_function, remade
from braze.passes.log import Log
from braze.passes.patterns import splat

_MOVES_SPLATS = ("broadcast_in_dim", "reshape", "constant", "iota")
"""Ops that are cheap inside a kernel and would only make constants larger."""


class _Folder:
    def __init__(self, max_bytes: int, max_seconds: float, log: Log) -> None:
        self.max_bytes = max_bytes
        self.deadline = time.monotonic() + max_seconds
        self.log = log

    def region(self, region: Region, env: Env) -> Region:
        instructions: list[Instruction] = []
        changed = False
        for instruction in region.instructions:
            operands = [env.get(v, v) for v in instruction.operands] if env else instruction.operands
            regions = instruction.regions
            if regions and instruction.op.hlo in ("while", "case"):
                regions = tuple(self.region(r, env) for r in regions)
            made = remade(instruction, operands, regions)
            folded = self.fold(made)
            if folded is not None:
                instructions.extend(folded)
                env[instruction.results[0]] = folded[-1].results[0]
                self.log.count(instruction.op.title)
                changed = True
                continue
            if made is not instruction:
                env.update(zip(instruction.results, made.results, strict=True))
                changed = True
            instructions.append(made)
        if not changed:
            return region
        return Region(region.parameters, instructions, [env.get(v, v) for v in region.results])

    def fold(self, instruction: Instruction) -> list[Instruction] | None:
        """The constant (and its broadcast) that an instruction amounts to, or None."""
        op = instruction.op
        if (
            op.error is not EXACT
            or op.effects is not Effect.NONE
            or isinstance(op.numpy, Absent)
            or op.multiple_results
            or instruction.regions
            or op.hlo in _MOVES_SPLATS
            or not instruction.operands
            or self.log.exhausted
        ):
            return None
        values = [_constant(v) for v in instruction.operands]
        result = instruction.results[0].type
        if all(v is not None for v in values):
            if result.nbytes <= self.max_bytes and time.monotonic() < self.deadline:
                return [_constant_instruction(op.numpy(*values, **instruction.attrs), instruction)]
            return None
        numbers = [splat(v) for v in instruction.operands]
        same = all(v.type.shape == result.shape for v in instruction.operands)
        if _is_elementwise(op) and same and all(n is not None for n in numbers):
            scalar = _constant_instruction(
                op.numpy(*map(np.asarray, numbers), **instruction.attrs), instruction
            )
            return [scalar, _broadcast(scalar.results[0], result.shape, instruction)]
        return None


def _is_elementwise(op: Op) -> bool:
    """Whether a result element depends on the operands' elements at the same place alone."""
    return callable(op.kernel) and not isinstance(op.kernel, IndexMap | Family)


def _constant(value: Value) -> np.ndarray[Any, Any] | None:
    producer = value.producer
    return producer.attrs["value"] if producer is not None and producer.op.hlo == "constant" else None


def _constant_instruction(array: Any, origin: Instruction) -> Instruction:
    found = np.asarray(array, dtype=origin.results[0].type.dtype, order="C")
    found.setflags(write=False)
    op = HLO_OPS["constant"]
    return Instruction(op, (), (op.infer(value=found),), {"value": found}, (), origin.source)


def _broadcast(scalar: Value, shape: Sequence[int], origin: Instruction) -> Instruction:
    attrs = {"shape": tuple(shape), "broadcast_dimensions": ()}
    op = HLO_OPS["broadcast_in_dim"]
    return Instruction(op, (scalar,), (op.infer(scalar.type, **attrs),), attrs, (), origin.source)


def fold(
    module: Module, *, max_bytes: int = 4096, max_seconds: float = 0.5, log: Log | None = None
) -> Module:
    """Replace exact operations on constants by their results.

    Units:  max_bytes of one result; max_seconds for the pass, after which it leaves the rest as it is.
    """
    folder = _Folder(max_bytes, max_seconds, log or Log())
    return each_function(module, lambda region: folder.region(region, {}))
