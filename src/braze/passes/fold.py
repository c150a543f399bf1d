"""Constant folding: EXACT ops on constants are computed now, by their `numpy` facets.

Only exact ops, so that folding never changes a bit. A splat stays a scalar and its broadcast, however large.
Two budgets hold compile time and code size: bytes of one result, and work for the whole pass. Work is counted
in bytes, not in seconds, so that the same module comes out on a busy machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braze.hlo.ir import Instruction, Module, Value
from braze.ops.table import EXACT, HLO_OPS, Absent, Effect, Immediate, Op
from braze.passes.copying import Walk
from braze.passes.log import Log
from braze.passes.patterns import SPLAT_SOURCES, Splats

PER_INSTRUCTION = 4096
"""Bytes that a folded instruction counts beside those it touches: what NumPy reads in the time that it takes."""


def fold(module: Module, *, max_bytes: int = 4096, max_work: int = 1 << 28, log: Log | None = None) -> Module:
    """Replace exact operations on constants by their results.

    Units:  max_bytes of one result; max_work in bytes touched, after which the pass leaves the rest as it is.
    """
    return _Folder(max_bytes, max_work, log or Log()).run(module)


class _Folder(Walk):
    def __init__(self, max_bytes: int, max_work: int, log: Log) -> None:
        self.max_bytes = max_bytes
        self.work = max_work
        self.log = log
        self.splats = Splats()

    def instruction(
        self, new: Instruction, old: Instruction, made: list[Instruction]
    ) -> Sequence[Value | None]:
        folded = self.fold(new) if self.work > 0 and _may_fold(new) and not self.log.exhausted else []
        if not folded:
            return super().instruction(new, old, made)
        self.work -= PER_INSTRUCTION + sum(v.type.nbytes for v in (*new.operands, *new.results))
        self.log.count(new.op.title)
        made.extend(folded)
        return folded[-1].results

    def fold(self, instruction: Instruction) -> list[Instruction]:
        """The constant (and its broadcast) that an instruction amounts to, or nothing."""
        result = instruction.results[0].type
        arrays = [_constant(v) for v in instruction.operands]
        if all(array is not None for array in arrays):
            return [_evaluated(instruction, arrays)] if result.nbytes <= self.max_bytes else []
        alike = all(v.type.shape == result.shape for v in instruction.operands)
        if not alike or not _is_elementwise(instruction.op):
            return []
        numbers = [self.splats(v) for v in instruction.operands]
        if any(number is None for number in numbers):
            return []
        scalar = _evaluated(instruction, [np.asarray(number) for number in numbers])
        return [scalar, _broadcast(scalar.results[0], result.shape, instruction)]


def _may_fold(instruction: Instruction) -> bool:
    """Whether it is exact, pure and computes something, and its operands may be constants."""
    op = instruction.op
    return (
        bool(instruction.operands)
        # Broadcasts and reshapes are free inside a kernel; folding them would only make constants larger.
        and op not in SPLAT_SOURCES
        and all(v.producer is not None and v.producer.op in SPLAT_SOURCES for v in instruction.operands)
        and op.error is EXACT
        and op.effects is Effect.NONE
        and not op.multiple_results
        and not instruction.regions
        and not isinstance(op.numpy, Absent)
    )


def _is_elementwise(op: Op) -> bool:
    """Whether a result element depends on the operands' elements at the same place alone."""
    return callable(op.kernel)


def _constant(value: Value) -> np.ndarray[Any, Any] | None:
    producer = value.producer
    return (
        producer.attrs["value"]
        if producer is not None and isinstance(producer.op.kernel, Immediate)
        else None
    )


def _evaluated(instruction: Instruction, arrays: Sequence[Any]) -> Instruction:
    """The constant that the instruction gives for arrays."""
    facet = instruction.op.numpy
    assert not isinstance(facet, Absent), "looked at before"
    with np.errstate(all="ignore"):
        result = facet(*arrays, **instruction.attrs)
    value = np.array(result, dtype=instruction.results[0].type.dtype, order="C")
    value.setflags(write=False)
    return _instruction(HLO_OPS["constant"], (), {"value": value}, instruction)


def _broadcast(scalar: Value, shape: Sequence[int], origin: Instruction) -> Instruction:
    attrs = {"shape": tuple(shape), "broadcast_dimensions": ()}
    return _instruction(HLO_OPS["broadcast_in_dim"], (scalar,), attrs, origin)


def _instruction(
    op: Op, operands: Sequence[Value], attrs: dict[str, Any], origin: Instruction
) -> Instruction:
    return Instruction(
        op, operands, (op.infer(*[v.type for v in operands], **attrs),), attrs, (), origin.source
    )
