"""From when to when each buffer of a program is needed.

Steps are numbered in program order, loops and branches once at each end. A buffer is needed from its first
access to its last; one that was there before a loop and is touched in it, to the end of that loop, since the
next iteration may read it. A buffer whose accesses all lie in one iteration is needed only between them.

Invariant: linear in the number of accesses, times the nesting of loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from braze.program.ir import (
    Branch,
    Buffer,
    CallSymbol,
    Copy,
    Host,
    Launch,
    Loop,
    Program,
    Step,
)


def reads_and_writes(step: Step) -> tuple[list[Buffer], list[Buffer]]:
    """The buffers that a step itself reads and writes; what runs inside a loop or branch is not its own."""
    match step:
        case Launch():
            pairs = list(zip(step.kernel.parameters, step.buffers))
            return [b for m, b in pairs if m.space != "out"], [b for m, b in pairs if m.space != "in"]
        case Copy():
            return [step.source], [step.destination]
        case Loop():
            return [] if step.condition is None else [step.condition], []
        case Branch():
            return [step.index], []
        case Host() | CallSymbol():
            return list(step.operands), list(step.results)


class _Scope:
    """A loop while it is walked; `stop` is known when it ends."""

    __slots__ = ("depth", "parent", "start", "stop")

    def __init__(self, parent: _Scope | None, start: int) -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.start = start
        self.stop = start


class Interval:
    """Positions of the first and last access, those of loops counted in."""

    __slots__ = ("loop", "outlives", "start", "stop")

    def __init__(self, position: int, loop: _Scope) -> None:
        self.start = self.stop = position
        self.loop = loop
        self.outlives: list[_Scope] = []


class Liveness:
    """Intervals of all buffers that steps touch.

    Attributes:
        intervals: by buffer, in the order of first accesses.
        steps: the step at each position; a loop where its condition is read, a branch where its index is;
            None at the ends of both.
        loop_ends: the loop that ends at a position.
    """

    def __init__(self, program: Program) -> None:
        self.intervals: dict[Buffer, Interval] = {}
        self.steps: list[Step | None] = []
        self.loop_ends: dict[int, Loop] = {}
        whole = self._enter(None)
        self._walk(program.steps, whole)
        for interval in self.intervals.values():
            for loop in interval.outlives:
                interval.stop = max(interval.stop, loop.stop)

    def _position(self, step: Step | None) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def _enter(self, parent: _Scope | None) -> _Scope:
        return _Scope(parent, self._position(None))

    def _walk(self, steps: Sequence[Step], loop: _Scope) -> None:
        for step in steps:
            if type(step) is Launch:  # most steps; which way the bytes go does not matter here
                position = self._position(step)
                for buffer in step.buffers:
                    self._touch(buffer, position, loop)
            elif isinstance(step, Loop):
                inner = self._enter(loop)
                self._walk(step.condition_steps, inner)
                position = self._position(step)
                if step.condition is not None:
                    self._touch(step.condition, position, inner)
                self._walk(step.body_steps, inner)
                inner.stop = self._position(None)
                self.loop_ends[inner.stop] = step
            elif isinstance(step, Branch):
                self._touch(step.index, self._position(step), loop)
                for branch in step.branches:
                    self._walk(branch, loop)
                self._position(None)
            else:
                position = self._position(step)
                reads, writes = reads_and_writes(step)
                for buffer in reads:
                    self._touch(buffer, position, loop)
                for buffer in writes:
                    self._touch(buffer, position, loop)

    def _touch(self, buffer: Buffer, position: int, loop: _Scope) -> None:
        interval = self.intervals.get(buffer)
        if interval is None:
            self.intervals[buffer] = Interval(position, loop)
            return
        interval.stop = position
        home = interval.loop
        if home is loop:
            return
        while home.depth > loop.depth or not _is_inside(loop, home):
            # Touched first inside a loop that does not surround this access: needed throughout that loop.
            interval.start = min(interval.start, home.start)
            assert home.parent is not None, "the outermost scope surrounds everything"
            interval.outlives.append(home)
            interval.loop = home = home.parent
        while loop is not home:
            outermost, loop = loop, loop.parent  # type: ignore[assignment]  # home is among the parents
            if loop is home and (not interval.outlives or interval.outlives[-1] is not outermost):
                interval.outlives.append(outermost)


def _is_inside(loop: _Scope, home: _Scope) -> bool:
    at: _Scope | None = loop
    while at is not None and at.depth > home.depth:
        at = at.parent
    return at is home
