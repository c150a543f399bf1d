"""The native entry: what its text holds, and that long programs, loops and branches run as they should.

Random programs run as machine code in tests/program.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "program"))

from random_programs import INDEX, PART, ROW, counted, emit, module, region

from braze.dtypes import I32
from braze.hlo.ir import Builder, Module, Value
from braze.ops.table import HLO_OPS
from braze.program.assign import assign
from braze.program.schedule import schedule
from braze.targets.entry import CHUNK, emit_modules, emit_program
from braze.targets.host import host


def text_of(made: Module) -> str:
    return emit_program(assign(schedule(made, host())), host())


def body_of(text: str, name: str) -> str:
    found = re.search(rf"^define [^\n]*@{re.escape(name)}\(.*?^}}", text, re.MULTILINE | re.DOTALL)
    assert found, f"{name} is not defined"
    return found[0]


def reversals(b: Builder, x: Value, count: int) -> Value:
    for _ in range(count):
        x = emit(b, "reverse", x, dimensions=(0,))
    return x


def unbounded(b: Builder, stop: Value, x: Value) -> tuple[Value, ...]:
    """A loop to a stop that only the call knows."""

    def holds(c: Builder, i: Value, _: Value) -> list[Value]:
        return [emit(c, "compare", i, stop, comparison_direction="LT", compare_type="SIGNED")]

    def step(c: Builder, i: Value, y: Value) -> list[Value]:
        return [emit(c, "add", i, c.constant(1, I32)), emit(c, "negate", y)]

    types = [INDEX, x.type]
    return b.emit_many(
        HLO_OPS["while"], b.constant(0, I32), x, regions=(region(types, holds), region(types, step))
    )


def test_equal_kernels_are_written_once() -> None:
    text = text_of(module([ROW], lambda b, x: [reversals(b, x, 5)]))
    assert text.count("define void @braze.reverse") == 1
    assert body_of(text, "braze_run").count("call void @braze.reverse") == 5


def test_long_programs_are_cut_into_functions() -> None:
    text = text_of(module([ROW], lambda b, x: [reversals(b, x, 5 * CHUNK)]))
    assert text.count("define internal i32 @braze_chunk") == 5
    assert body_of(text, "braze_run").count("call i32 @braze_chunk") == 5
    assert text.count("alloca [2 x ptr]") == 5  # one array for all launches of a function


def test_long_bodies_of_loops_are_cut_too() -> None:
    made = module([ROW], lambda b, x: counted(b, 3, [x], lambda c, i, y: [reversals(c, y, 2 * CHUNK)]))
    text = text_of(made)
    assert text.count("define internal i32 @braze_chunk") >= 3
    assert max(len(f.splitlines()) for f in text.split("\n\n")) < 12 * CHUNK


def test_counted_loop_counts_by_itself_and_does_not_look_at_signals() -> None:
    run = body_of(text_of(module([ROW], lambda b, x: counted(b, 9, [x], lambda c, i, y: [y]))), "braze_run")
    assert "icmp ult i64" in run and "call void @braze.compare" not in run and "@braze_poll" not in run


def test_arrays_of_a_loop_are_filled_before_it() -> None:
    made = module([ROW], lambda b, x: counted(b, 9, [x], lambda c, i, y: [emit(c, "negate", y)]))
    loop = body_of(text_of(made), "braze_run").split("body", 1)[1]
    assert "store ptr" not in loop


def test_loop_of_unknown_length_looks_at_signals() -> None:
    run = body_of(text_of(module([INDEX, ROW], unbounded)), "braze_run")
    assert "call void @braze.compare" in run and "call i32 @braze_poll(ptr %context)" in run


def test_text_is_the_same_each_time() -> None:
    assert text_of(module([INDEX, ROW], unbounded)) == text_of(module([INDEX, ROW], unbounded))


def test_parts_hold_each_kernel_once_and_the_first_imports_them() -> None:
    def several(b: Builder, x: Value) -> list[Value]:
        return [emit(b, name, reversals(b, x, 1)) for name in ("negate", "sine", "cosine", "exponential")]

    made = assign(schedule(module([ROW], several), host()))
    whole, parts = emit_program(made, host()), emit_modules(made, host(), 3)
    defined = [
        re.findall(r"^define void @([\w.]+)\(ptr %buffers", text, re.MULTILINE) for text in (whole, *parts)
    ]
    assert sorted(defined[0]) == sorted(name for names in defined[1:] for name in names)
    assert len(parts) == 3 and "@braze_run" not in parts[1] + parts[2]
    assert all(f"declare void @{name}(ptr, i64, i64, ptr)" in parts[0] for name in defined[2] + defined[3])


SCRIPT = """
import numpy as np
from braze.hlo.evaluate import evaluate
from braze.runtime.engine import compile_object, load
from braze.runtime.services import services
from braze.targets.entry import emit_modules
from braze.targets.host import host
from run_native import program_of, run
import test_entry as t

for seed in range(2):
    rng = np.random.default_rng(seed)
    for made in t.programs():
        args = [rng.integers(0, 4, x.shape).astype(x.dtype) for x in made.main.region.parameter_types]
        for found, expected in zip(run(program_of(made), args), evaluate(made, args), strict=True):
            np.testing.assert_array_equal(found, expected)

made = program_of(t.programs()[0])
entry, *others = emit_modules(made, host(), 2)
kernels = [load(compile_object(text, host()), {}) for text in others]
symbols = {name: library.address(name) for library in kernels for name in library.names}
load(compile_object(entry, host()), {**symbols, **services().symbols}).address("braze_run")
print("equal")
"""


def programs() -> list[Module]:
    """What the machine code is run on: many functions, a long body, an unknown length, an index out of range."""

    def choose(b: Builder, index: Value, x: Value) -> tuple[Value, ...]:
        sides = [
            region([], lambda c: [emit(c, "negate", x)]),
            region([], lambda c: [reversals(c, x, CHUNK + 1)]),
        ]
        far = emit(b, "add", index, index)
        below = emit(b, "negate", far)
        return tuple(b.emit_many(HLO_OPS["case"], i, regions=sides)[0] for i in (index, far, below))

    def update(c: Builder, i: Value, y: Value, part: Value) -> list[Value]:
        return [emit(c, "dynamic_update_slice", y, part, i), emit(c, "negate", part)]

    return [
        module([ROW], lambda b, x: [reversals(b, x, 2 * CHUNK + 7)]),
        module([ROW], lambda b, x: counted(b, 3, [x], lambda c, i, y: [reversals(c, y, 2 * CHUNK + 1)])),
        module([INDEX, ROW], unbounded),
        module([INDEX, ROW], choose),
        module([ROW, PART], lambda b, x, y: counted(b, 4, [x, y], update), donated=[0]),
    ]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_machine_code_means_what_the_hlo_means(threads: str) -> None:
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent / "program")])
    environment = {**os.environ, "PYTHONPATH": paths, "BRAZE_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=environment,
    )
    assert done.returncode == 0 and done.stdout == "equal\n", done.stdout + done.stderr
