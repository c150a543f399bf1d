"""How often a counted loop runs, read off its regions: for records, and for how long a call may take.

Looks through fusions at `while i < stop` with a constant start and stop and a body that adds a constant.
"""

from __future__ import annotations

import numpy as np

from braze.hlo.ir import Instruction, Region, Value
from braze.ops.table import Fused, Immediate

_CROSSED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def trip_count(loop: Instruction) -> int | None:
    """The number of iterations of a `while`, or None where it is not that of a counted loop."""
    condition, body = loop.regions
    test, arguments = _definition(condition.results[0])
    if test is None or test.op.hlo != "compare":
        return None
    left, right = (_outer(v, arguments) for v in test.operands)
    direction: str = test.attrs["comparison_direction"]
    if left not in condition.parameters:
        left, right, direction = right, left, _CROSSED.get(direction, "")
    if left not in condition.parameters or direction not in ("LT", "LE"):
        return None
    slot = condition.parameters.index(left)
    stop = _integer(right)
    start = _integer(loop.operands[slot])
    step = _step(body, slot)
    if stop is None or start is None or step is None or step <= 0:
        return None
    trips = max(0, -(-(stop + (direction == "LE") - start) // step))
    # A counter that wraps before it reaches the stop goes on from its smallest value.
    return trips if start + trips * step <= np.iinfo(right.type.dtype).max else None


def _step(body: Region, slot: int) -> int | None:
    """What an iteration adds to a slot, if that is a constant."""
    added, arguments = _definition(body.results[slot])
    if added is None or added.op.hlo != "add":
        return None
    left, right = (_outer(v, arguments) for v in added.operands)
    if right is body.parameters[slot]:
        left, right = right, left
    return _integer(right) if left is body.parameters[slot] else None


def _definition(value: Value) -> tuple[Instruction | None, dict[Value, Value]]:
    """The instruction that computes a value, inside its fusion if need be, and that fusion's arguments."""
    producer = value.producer
    if producer is None or not isinstance(producer.op.kernel, Fused):
        return producer, {}
    region = producer.regions[0]
    arguments = dict(zip(region.parameters, producer.operands, strict=True))
    return region.results[value.index].producer, arguments


def _outer(value: Value, arguments: dict[Value, Value]) -> Value:
    return arguments.get(value, value)


def _integer(value: Value) -> int | None:
    producer = value.producer
    if producer is None or not isinstance(producer.op.kernel, Immediate):
        return None
    constant = producer.attrs["value"]
    return int(constant) if constant.ndim == 0 and constant.dtype.kind in "iu" else None
