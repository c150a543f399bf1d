"""Assignment: in place where the kernel allows it, few bytes, every offset checked, thousands of steps."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from random_programs import ROW, counted, emit, module

from braze.dtypes import F32, I64
from braze.errors import VerificationError
from braze.hlo.evaluate import evaluate as meaning
from braze.hlo.ir import Builder, Module, Value
from braze.kernel.builder import Builder as KernelBuilder
from braze.kernel.ir import Kernel
from braze.program.access import reads_only_where_it_writes
from braze.program.assign import assign
from braze.program.check import check
from braze.program.evaluate import evaluate
from braze.program.ir import Launch, Program, Slice
from braze.program.records import kernel_records, memory_analysis
from braze.program.schedule import schedule
from braze.program.text import print_program
from braze.target import Target
from braze.types import TensorType

TARGET = Target("cpu", vector_bytes=16)


def program_of(made: Module) -> Program:
    program = assign(schedule(made, TARGET))
    check(program)
    return program


def chain(count: int) -> Module:
    """Operations that each read what came just before."""
    chance = random.Random(0)

    def write(b: Builder, x: Value, y: Value) -> list[Value]:
        known = [x, y]
        for k in range(count):
            known.append(emit(b, chance.choice(("add", "maximum")), known[-1], chance.choice(known[-6:])))
            if k % 5 == 0:
                known.append(emit(b, "reverse", known[-1], dimensions=(0,)))
        return known[-1:]

    return module([ROW, ROW], write)


# Where kernels read and write ------------------------------------------------------------------------


def kernel(index_of: Any, *, store_at: Any = None, size: int = 64, grid: int = 1) -> Kernel:
    """out[store_at(i)] = -x[index_of(i)] in a loop over i."""
    b = KernelBuilder("k", lanes=4)
    x, out = b.memory("x", F32, size, "in"), b.memory("out", F32, size, "out")
    part = size // grid
    with b.region():
        start = b.mul(b.block, part)
        with b.for_(start, b.add(start, part), 4) as i:
            index = index_of(b, i)
            value = b.load(x, index, "unit")
            b.store(out, index if store_at is None else store_at(b, i), b.neg(value), "unit")
    return b.finish(grid)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (kernel(lambda b, i: i), True),
        (kernel(lambda b, i: i, grid=4), True),
        (kernel(lambda b, i: b.add(b.mul(i, 1), 0)), True),
        (kernel(lambda b, i: b.sub(b.lift(60, I64), i), store_at=lambda b, i: i), False),
        (kernel(lambda b, i: b.min(i, b.lift(60, I64))), False),
        (kernel(lambda b, i: b.lift(0, I64)), False),
    ],
    ids=[
        "elementwise",
        "in blocks",
        "affine",
        "reverse",
        "last tile overlaps",
        "one element again and again",
    ],
)
def test_reads_only_where_it_writes(made: Kernel, expected: bool) -> None:
    x, out = made.parameters
    assert reads_only_where_it_writes(made, x, out) is expected


def test_value_read_again_after_the_result_is_written_is_not_in_place() -> None:
    b = KernelBuilder("k", lanes=4)
    x, out = b.memory("x", F32, 64, "in"), b.memory("out", F32, 64, "out")
    with b.region(), b.for_(0, 64, 4) as i:
        b.store(out, i, b.load(x, i, "unit"), "unit")
        b.store(out, i, b.load(x, i, "unit"), "unit")
    assert not reads_only_where_it_writes(b.finish(1), x, out)


def test_value_read_in_an_earlier_sweep_too_is_not_in_place() -> None:
    b = KernelBuilder("k", lanes=4)
    x, out = b.memory("x", F32, 64, "in"), b.memory("out", F32, 64, "out")
    with b.region():
        for _ in range(2):
            with b.for_(0, 64, 4) as i:
                b.store(out, i, b.load(x, i, "unit"), "unit")
    assert not reads_only_where_it_writes(b.finish(1), x, out)


# Offsets ---------------------------------------------------------------------------------------------


def test_chain_of_elementwise_operations_lies_in_one_block() -> None:
    def write(b: Builder, x: Value) -> list[Value]:
        for _ in range(5):
            x = emit(b, "negate", x)
        return [emit(b, "reverse", x, dimensions=(0,))]

    program = program_of(module([ROW], write))
    assert program.arena_bytes == program.lower_bound_bytes == 64


def test_dead_blocks_are_used_again() -> None:
    program = program_of(chain(400))
    assert program.lower_bound_bytes <= program.arena_bytes <= 640
    launched = [s for s in program.steps if isinstance(s, Launch)]
    assert len(launched) == 480 and len({s.kernel for s in launched}) == 3


def test_empty_values_take_no_memory() -> None:
    empty = TensorType((0, 3), F32)
    made = module([empty], lambda b, x: [emit(b, "negate", emit(b, "negate", x))])
    program = program_of(made)
    assert program.arena_bytes == 0 and not program.steps


def test_forty_thousand_steps() -> None:
    # Linear and without recursion: a quadratic search or a stack of this depth would not end in a test's time.
    made = chain(33_000)
    program = program_of(made)
    assert len(program.steps) > 39_000
    args = [np.ones(8, np.float32), np.zeros(8, np.float32)]
    short = chain(200)
    for found, expected in zip(evaluate(program_of(short), args), meaning(short, args), strict=True):
        np.testing.assert_array_equal(found, expected)


# The checker and the poison --------------------------------------------------------------------------


def reversing() -> Program:
    """Two values live at once in the arena, each of 32 bytes."""

    def write(b: Builder, x: Value) -> list[Value]:
        y, z = emit(b, "negate", x), emit(b, "reverse", x, dimensions=(0,))
        return [
            emit(b, "add", emit(b, "reverse", y, dimensions=(0,)), emit(b, "reverse", z, dimensions=(0,)))
        ]

    return program_of(module([ROW], write))


def moved(program: Program, name: str, slice_: Slice) -> Program:
    (buffer,) = [b for b in program.slices if b.name == name]
    program.slices[buffer] = slice_
    return program


@pytest.mark.parametrize(
    ("slice_", "fault"),
    [
        (Slice("arena", 0, 0, 32), "live at the same time and overlap"),
        (Slice("arena", 0, 8, 32), "is no multiple of 64"),
        (Slice("arena", 0, 64_000, 32), "ends at byte"),
        (Slice("arena", 0, 64, 16), "has 16 bytes"),
        (Slice("result", 3, 0, 32), "lies in result 3"),
    ],
)
def test_check_finds_a_wrong_place(slice_: Slice, fault: str) -> None:
    with pytest.raises(VerificationError, match=fault):
        check(moved(reversing(), "t1", slice_))


def test_check_lists_all_faults() -> None:
    program = reversing()
    program.steps = program.steps[1:]
    program.slices.clear()
    with pytest.raises(VerificationError, match=r"(?s)has no place.*read before it is written"):
        check(program)


def test_check_refuses_to_write_arguments() -> None:
    program = program_of(module([ROW], lambda b, x: [emit(b, "negate", x)], donated=[0]))
    assert program.results == program.parameters
    program.donated = (False,)
    with pytest.raises(VerificationError, match="written but not donated"):
        check(program)


def test_evaluator_shows_overlap_as_wrong_values() -> None:
    args = [np.arange(8, dtype=np.float32)]
    right = evaluate(reversing(), args)[0]
    assert not np.isnan(right).any()
    wrong = evaluate(moved(reversing(), "t1", Slice("arena", 0, 0, 32)), args)[0]
    assert not np.array_equal(right, wrong)


def test_evaluator_shows_memory_read_after_its_death_as_nan() -> None:
    def write(b: Builder, x: Value) -> list[Value]:
        y = emit(b, "reverse", emit(b, "negate", x), dimensions=(0,))
        return [emit(b, "reverse", y, dimensions=(0,))]

    program = program_of(module([ROW], write))
    last = program.steps[-1]
    assert isinstance(last, Launch)
    dead = {b.name: b for b in program.slices}["t0"]
    twin = type(dead)("twin", dead.type)
    program.slices[twin] = program.slices[dead]
    last.buffers = (twin, *last.buffers[1:])
    assert np.isnan(evaluate(program, [np.arange(8, dtype=np.float32)])[0]).all()


# Text and records ------------------------------------------------------------------------------------


def counting() -> Module:
    """A loop of three iterations over a donated argument."""
    return module([ROW], lambda b, x: counted(b, 3, [x], lambda c, i, p: [emit(c, "negate", p)]), donated=[0])


def test_text_of_a_loop() -> None:
    assert print_program(program_of(counting())) == (
        "program f\n"
        "  parameters: in0 f32[8] @parameter 0+0:32 donated\n"
        "  results: in0 f32[8] @parameter 0+0:32\n"
        "  constant c0: 0\n"
        "  constant c1: 1\n"
        "  arena: 64 bytes, at least 64\n"
        "  copy c0 @constant 0+0:4 -> t0 @arena 0:4\n"
        "  loop 3 times\n"
        "    launch negate[1] (in0 @parameter 0+0:32) -> (in0 @parameter 0+0:32)\n"
        "    launch add[1] (t0 @arena 0:4, c1 @constant 1+0:4) -> (t0 @arena 0:4)\n"
    )


def test_text_is_the_same_each_time() -> None:
    assert print_program(program_of(chain(50))) == print_program(program_of(chain(50)))


def test_text_of_a_broken_program() -> None:
    program = program_of(counting())
    program.slices.clear()
    program.steps = (*program.steps, "no step")  # type: ignore[assignment]
    program.constants = (None,)  # type: ignore[assignment]
    assert "? str" in print_program(program) and "@?" in print_program(program)


def test_records_name_kernels_and_bytes() -> None:
    program = program_of(counting())
    found = memory_analysis(program)
    assert (found.argument_size_in_bytes, found.output_size_in_bytes, found.alias_size_in_bytes) == (
        32,
        32,
        32,
    )
    assert found.temp_size_in_bytes == 64
    assert [(r.name, r.ops, r.grid, r.bytes_written) for r in kernel_records(program)] == [
        ("negate", ("negate",), 1, 32),
        ("add", ("add",), 1, 4),
    ]
