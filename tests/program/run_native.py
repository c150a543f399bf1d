"""Compiles and runs random programs, in a process of its own: LLVM ends the process on what it cannot take.

python tests/program/run_native.py FIRST LAST
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from random_programs import Generator

from braze.hlo.evaluate import evaluate
from braze.hlo.ir import Module
from braze.passes.fusion import fusion
from braze.program.assign import assign
from braze.program.check import check
from braze.program.ir import Program
from braze.program.records import has_loops, host_steps, is_parallel, seconds
from braze.program.schedule import schedule
from braze.runtime.context import HostCallback
from braze.runtime.engine import compile_object
from braze.runtime.executable import Executable, Signature
from braze.targets.entry import emit_program, program_scratch_bytes
from braze.targets.host import host


def executable(program: Program) -> Executable:
    """Machine code of a program after assignment."""
    callbacks = [
        HostCallback(program.callbacks[h.callback], h.operand_types, h.result_types)
        for h in host_steps(program)
    ]
    signature = Signature(
        program.name,
        tuple(b.type for b in program.parameters),
        program.result_types,
        program.arena_bytes,
        program_scratch_bytes(program),
        is_parallel(program),
        has_loops(program),
        seconds(program.steps),
    )
    return Executable(compile_object(emit_program(program, host()), host()), signature, callbacks)


def run(program: Program, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Results of the machine code; arguments that are not donated must come back unchanged."""
    given = [np.array(x, order="C") for x in args]
    results = [np.zeros(t.shape, t.dtype) for t in program.result_types]
    executable(program).run([x.ctypes.data for x in given], [r.ctypes.data for r in results])
    for k, i in program.aliases.items():
        bits = given[i].reshape(-1).view(np.uint8)
        results[k] = bits.view(results[k].dtype).reshape(results[k].shape)
    for before, after, donated in zip(args, given, program.donated, strict=True):
        assert donated or np.array_equal(before, after), "an argument that was not donated has changed"
    return results


def program_of(module: Module) -> Program:
    program = assign(schedule(fusion(module, target=host()), host()))
    check(program)
    return program


def main(first: int, last: int) -> None:
    for seed in range(first, last):
        log: list[tuple[int, Any]] = []
        generator = Generator(seed, log)
        module = generator.module()
        args = generator.arguments(module)
        expected, expected_log = evaluate(module, args), list(log)
        log.clear()
        found = run(program_of(module), args)
        for k, (x, y) in enumerate(zip(found, expected, strict=True)):
            np.testing.assert_array_equal(x, y, err_msg=f"seed {seed}, result {k}")
        assert log == expected_log, f"seed {seed}: callbacks came as {log}, not as {expected_log}"


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
    print("equal")
