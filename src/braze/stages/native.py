"""From a Program to loaded machine code: print, compile or take from the object cache, link."""

from __future__ import annotations

from typing import Any

from braze.program import records
from braze.program.ir import Program
from braze.target import Target

KERNELS_PER_OBJECT = 8
"""Distinct kernels from which a second object file, compiled beside the first, pays for itself."""


def emit(program: Program, target: Target) -> str:
    """The LLVM IR of a program, in one module."""
    from braze.targets.entry import emit_program

    return emit_program(program, target)


def load(program: Program, target: Target) -> Any:
    """The program, ready to be called."""
    from braze.runtime.context import HostCallback
    from braze.runtime.executable import Executable, Signature
    from braze.targets.entry import program_scratch_bytes

    callbacks = [
        HostCallback(program.callbacks[s.callback], s.operand_types, s.result_types)
        for s in records.host_steps(program)
    ]
    signature = Signature(
        program.name,
        tuple(b.type for b in program.parameters),
        program.result_types,
        arena_bytes=program.arena_bytes,
        scratch_bytes=program_scratch_bytes(program),
        parallel=records.is_parallel(program),
        loops=records.has_loops(program),
        seconds=records.seconds(program.steps),
    )
    return Executable(_images(program, target), signature, callbacks)


def _images(program: Program, target: Target) -> list[bytes]:
    """Object files, from the disk cache where they are there; large programs are cut and compiled in parallel."""
    from braze.runtime.engine import cached_object
    from braze.targets.entry import emit_modules, kernels

    parts = min(target.cores, len(kernels(program)) // KERNELS_PER_OBJECT)
    if parts <= 1:
        return [cached_object(emit(program, target), target)]
    from concurrent.futures import ThreadPoolExecutor  # 5 ms, for large programs only

    with ThreadPoolExecutor(parts) as threads:
        return list(
            threads.map(lambda text: cached_object(text, target), emit_modules(program, target, parts))
        )
