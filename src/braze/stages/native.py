"""From a Program to loaded machine code: print, compile or take from the object cache, link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from braze.kernel.ir import Kernel
from braze.program.ir import Branch, Host, Launch, Loop, Program, Step
from braze.target import Target

BYTES_PER_SECOND = 8e9
FLOPS_PER_SECOND = 2e10
TRANSCENDENTALS_PER_SECOND = 1e9
"""Rough rates of one core, for the choice whether a call gives up the GIL; not for anything finer."""


def emit(program: Program, target: Target) -> str:
    """The LLVM IR of a program."""
    from braze.targets.entry import emit_program

    return emit_program(program, target)


def load(program: Program, target: Target) -> Any:
    """The program, ready to be called."""
    from braze.runtime import engine
    from braze.runtime.context import HostCallback
    from braze.runtime.executable import Executable, Signature
    from braze.targets.llvm import scratch_bytes

    kernels = list(launches(program.steps))
    steps = list(flat(program.steps))
    callbacks = [
        HostCallback(program.callbacks[s.callback], s.operand_types, s.result_types)
        for s in steps
        if isinstance(s, Host)
    ]
    signature = Signature(
        program.name,
        tuple(b.type for b in program.parameters),
        tuple(b.type for b in program.results),
        arena_bytes=program.arena_bytes,
        scratch_bytes=max((scratch_bytes(k) for k in kernels), default=0),
        parallel=any(k.grid > 1 for k in kernels),
        loops=any(isinstance(s, Loop) for s in steps),
        seconds=sum(map(seconds, kernels)),
    )
    image = engine.cached_object(emit(program, target), target)
    return Executable(image, signature, callbacks)


def seconds(kernel: Kernel) -> float:
    """Estimated time of one launch on one core."""
    moved = (kernel.bytes_read + kernel.bytes_written) / BYTES_PER_SECOND
    return max(moved, kernel.flops / FLOPS_PER_SECOND) + kernel.transcendentals / TRANSCENDENTALS_PER_SECOND


def flat(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, those inside loops and branches too, in program order."""
    pending = list(reversed(steps))
    while pending:
        step = pending.pop()
        yield step
        match step:
            case Loop():
                pending.extend(reversed((*step.condition_steps, *step.body_steps)))
            case Branch():
                pending.extend(reversed([s for branch in step.branches for s in branch]))


def launches(steps: Sequence[Step]) -> Iterator[Kernel]:
    """The kernel of every launch, in program order."""
    for step in flat(steps):
        if isinstance(step, Launch):
            yield step.kernel
