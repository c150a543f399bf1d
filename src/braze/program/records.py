"""What a program takes and does, in numbers: memory, kernels, how long it may run.

Units: bytes, floating-point operations, seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from braze.program.ir import Branch, Copy, Host, Launch, Loop, Program, Step
from braze.record import Record

_BYTES_PER_SECOND = 10e9
_FLOPS_PER_SECOND = 10e9
_TRANSCENDENTALS_PER_SECOND = 1e9
_STEP_SECONDS = 2e-9
_PATIENCE_SECONDS = 1e-3


@dataclass(slots=True, eq=False, repr=False)
class MemoryAnalysis(Record):
    """Bytes that a call takes, under JAX's names; `lower_bound` is what no assignment of `temp` could beat."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int
    temp_lower_bound_in_bytes: int


@dataclass(slots=True, eq=False, repr=False)
class KernelRecord(Record):
    """One launch of a program, in program order; in a loop it runs more than once.

    `strategy` is the row of `kernel/build`'s table that made it.
    """

    name: str
    strategy: str
    ops: tuple[str, ...]
    grid: int
    bytes_read: int
    bytes_written: int
    flops: int
    transcendentals: int


def memory_analysis(program: Program) -> MemoryAnalysis:
    """The memory of one call. Results in donated parameters count as output and as alias."""
    return MemoryAnalysis(
        argument_size_in_bytes=sum(b.type.nbytes for b in program.parameters),
        output_size_in_bytes=sum(b.type.nbytes for b in program.results),
        temp_size_in_bytes=program.arena_bytes,
        alias_size_in_bytes=sum(program.results[k].type.nbytes for k in program.aliases),
        temp_lower_bound_in_bytes=program.lower_bound_bytes,
    )


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps in program order, those inside loops and branches too."""
    for step in steps:
        yield step
        if isinstance(step, Loop):
            yield from walk(step.condition_steps)
            yield from walk(step.body_steps)
        elif isinstance(step, Branch):
            for branch in step.branches:
                yield from walk(branch)


def kernel_records(program: Program) -> tuple[KernelRecord, ...]:
    """A record per launch."""
    return tuple(
        KernelRecord(
            k.name, k.strategy, k.ops, k.grid, k.bytes_read, k.bytes_written, k.flops, k.transcendentals
        )
        for k in (step.kernel for step in walk(program.steps) if isinstance(step, Launch))
    )


def host_steps(program: Program) -> tuple[Host, ...]:
    """The Host steps by the number of their callback."""
    found = [step for step in walk(program.steps) if isinstance(step, Host)]
    return tuple(sorted(found, key=lambda step: step.callback))


def is_parallel(program: Program) -> bool:
    """Whether some launch may be shared among threads."""
    return any(isinstance(step, Launch) and step.kernel.grid > 1 for step in walk(program.steps))


def needs_poll(loop: Loop) -> bool:
    """Whether a loop may run for longer than a signal should wait: of unknown length, or of much work."""
    return seconds((loop,)) > _PATIENCE_SECONDS


def has_loops(program: Program) -> bool:
    """Whether some loop looks at signals."""
    return any(isinstance(step, Loop) and needs_poll(step) for step in walk(program.steps))


def seconds(steps: Sequence[Step]) -> float:
    """Estimated time on one core; infinite where a loop of unknown length or Python is part of it."""
    return sum(_step_seconds(step) for step in steps)


def _step_seconds(step: Step) -> float:
    match step:
        case Launch():
            k = step.kernel
            moved = (k.bytes_read + k.bytes_written) / _BYTES_PER_SECOND
            computed = k.flops / _FLOPS_PER_SECOND + k.transcendentals / _TRANSCENDENTALS_PER_SECOND
            return _STEP_SECONDS + moved + computed
        case Copy():
            return _STEP_SECONDS + 2 * step.source.type.nbytes / _BYTES_PER_SECOND
        case Loop():
            if step.trip_count == 0:
                return seconds(step.condition_steps)
            trips = step.trip_count or float("inf")
            return trips * (seconds(step.condition_steps) + seconds(step.body_steps) + _STEP_SECONDS)
        case Branch():
            return max((seconds(branch) for branch in step.branches), default=0.0) + _STEP_SECONDS
        case Host():
            return float("inf")
        case _:
            return _STEP_SECONDS
