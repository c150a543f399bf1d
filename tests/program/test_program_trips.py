"""Trip counts: read off counted loops, and None wherever the loop might do something else."""

from __future__ import annotations

import numpy as np
import pytest
from random_programs import INDEX, ROW, emit, module, region

from braze.dtypes import I8, I32, DType
from braze.hlo.ir import Builder, Module, Value
from braze.ops.table import HLO_OPS
from braze.passes.fusion import fusion
from braze.program.ir import Loop
from braze.program.schedule import schedule
from braze.target import Target

TARGET = Target("cpu", vector_bytes=16)


def loop(
    start: int, stop: int, step: int, direction: str = "LT", *, dtype: DType = I32, swapped: bool = False
) -> Module:
    def holds(b: Builder, i: Value) -> list[Value]:
        ends = (b.constant(stop, dtype), i) if swapped else (i, b.constant(stop, dtype))
        return [emit(b, "compare", *ends, comparison_direction=direction, compare_type="SIGNED")]

    def write(b: Builder) -> tuple[Value, ...]:
        first = b.constant(start, dtype)
        body = region([first.type], lambda c, i: [emit(c, "add", i, c.constant(step, dtype))])
        return b.emit_many(HLO_OPS["while"], first, regions=(region([first.type], holds), body))

    return module([], write)


def trips(made: Module) -> int | None:
    (found,) = [s for s in schedule(made, TARGET).steps if isinstance(s, Loop)]
    return found.trip_count


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (loop(0, 10, 1), 10),
        (loop(2, 11, 4), 3),
        (loop(5, 5, 1), 0),
        (loop(9, 5, 1), 0),
        (loop(0, 10, 1, "LE"), 11),
        (loop(0, 10, 2, "GT", swapped=True), 5),
        (loop(0, 10, -1), None),
        (loop(0, 10, 0), None),
        (loop(0, 10, 1, "NE"), None),
        (loop(0, 127, 1, "LE", dtype=I8), None),
        (loop(0, 126, 5, dtype=I8), None),
        (loop(0, 125, 5, dtype=I8), 25),
    ],
)
def test_trip_count(made: Module, expected: int | None) -> None:
    assert trips(made) == expected
    assert trips(fusion(made, target=TARGET)) == expected


def test_trip_count_of_a_loop_whose_end_is_an_argument_is_unknown() -> None:
    def write(b: Builder, stop: Value) -> tuple[Value, ...]:
        def holds(c: Builder, i: Value) -> list[Value]:
            return [emit(c, "compare", i, stop, comparison_direction="LT", compare_type="SIGNED")]

        body = region([INDEX], lambda c, i: [emit(c, "add", i, c.constant(1, I32))])
        return b.emit_many(HLO_OPS["while"], b.constant(0, I32), regions=(region([INDEX], holds), body))

    assert trips(module([INDEX], write)) is None


def test_trip_count_needs_the_counter_to_be_the_slot_that_is_added_to() -> None:
    def holds(b: Builder, i: Value, x: Value) -> list[Value]:
        return [emit(b, "compare", i, b.constant(3, I32), comparison_direction="LT", compare_type="SIGNED")]

    def step(b: Builder, i: Value, x: Value) -> list[Value]:
        j = emit(b, "add", i, b.constant(1, I32))
        return [emit(b, "add", j, j), emit(b, "negate", x)]

    def write(b: Builder, x: Value) -> tuple[Value, ...]:
        regions = (region([INDEX, ROW], holds), region([INDEX, ROW], step))
        return b.emit_many(HLO_OPS["while"], b.constant(np.int32(0)), x, regions=regions)

    assert trips(module([ROW], write)) is None
