"""Assignment: each buffer gets its bytes in the arena.

Buffers are placed in the order in which they come to life, each in the smallest free block that holds it;
a block is free again after its buffer's last reader. Where an input of a launch dies there and the kernel
reads it only at the index it writes, the result takes its block over, which halves the traffic; and a copy
whose source dies becomes nothing.

Invariants:
- Offsets are multiples of 64 bytes.
- `lower_bound_bytes` is the most that is live at one position; no assignment of these steps needs less.
- n log n in the number of buffers.

Source: best fit over intervals as in XLA's HeapSimulator, without its quadratic search.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from itertools import accumulate

from braze.program.access import reads_only_where_it_writes
from braze.program.ir import Buffer, Copy, Launch, Program, Slice, Step
from braze.program.liveness import Liveness

ALIGNMENT = 64


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def assign(program: Program) -> Program:
    """Give every buffer a slice, and fill in the sizes of the arena. Returns the same program."""
    liveness = Liveness(program)
    arena = _Arena()
    offsets: dict[Buffer, int] = {}
    sizes: dict[Buffer, int] = {}
    changes = [0] * (len(liveness.steps) + 1)
    births: dict[int, list[Buffer]] = defaultdict(list)
    deaths: dict[int, list[Buffer]] = defaultdict(list)
    for buffer, interval in liveness.intervals.items():
        if buffer.place == "arena":
            sizes[buffer] = size = aligned(buffer.type.nbytes)
            births[interval.start].append(buffer)
            deaths[interval.stop].append(buffer)
            changes[interval.start] += size
            changes[interval.stop + 1] -= size
    for position in sorted(births.keys() | deaths.keys()):
        born, dying = births.get(position, ()), deaths.get(position, ())
        handed = handovers(liveness.steps[position], born, dying) if born and dying else {}
        for buffer in born if len(born) < 2 else sorted(born, key=lambda b: -sizes[b]):
            size = sizes[buffer]
            giver = handed.get(buffer)
            if giver is None:
                offsets[buffer] = arena.take(size)
            else:
                offsets[buffer] = offsets[giver]
                arena.give(offsets[giver] + size, sizes[giver] - size)
                changes[position] -= size
                changes[position + 1] += size
        for buffer in dying:
            if not handed or buffer not in handed.values():
                arena.give(offsets[buffer], sizes[buffer])
    touched = (*program.parameters, *program.results, *liveness.intervals)
    program.slices = {b: _slice(b, offsets) for b in touched}
    program.arena_bytes = arena.end
    program.lower_bound_bytes = max(accumulate(changes))
    return program


def _slice(buffer: Buffer, offsets: dict[Buffer, int]) -> Slice:
    if buffer.place == "arena":
        return Slice("arena", 0, offsets[buffer], buffer.type.nbytes)
    return Slice(buffer.place, buffer.index, 0, buffer.type.nbytes)


def handovers(
    step: Step | None, born: list[Buffer] | tuple[Buffer, ...], dying: list[Buffer] | tuple[Buffer, ...]
) -> dict[Buffer, Buffer]:
    """Buffers born at a step that may take over the block of one that dies there: new to old."""
    if isinstance(step, Copy):
        return {step.destination: step.source} if step.destination in born and step.source in dying else {}
    if not isinstance(step, Launch):
        return {}
    found: dict[Buffer, Buffer] = {}
    for new in born:
        for old in dying:
            if old not in found.values() and may_share(step, old, new):
                found[new] = old
                break
    return found


def may_share(step: Step | None, old: Buffer, new: Buffer) -> bool:
    """Whether a step may write `new` in the memory of `old`, which nobody reads after it."""
    if isinstance(step, Copy):
        return step.source is old and step.destination is new
    if not isinstance(step, Launch) or not 0 < new.type.nbytes <= old.type.nbytes:
        return False
    pairs = list(zip(step.kernel.parameters, step.buffers, strict=True))
    reading = [m for m, b in pairs if b is old]
    writing = [m for m, b in pairs if b is new]
    return bool(reading) and all(
        reads_only_where_it_writes(step.kernel, r, w) for r in reading for w in writing
    )


class _Arena:
    """Free blocks of one piece of memory that grows at its end; neighbours join."""

    def __init__(self) -> None:
        self.end = 0
        self._sizes: list[tuple[int, int]] = []  # (size, offset), sorted
        self._by_start: dict[int, int] = {}
        self._by_stop: dict[int, int] = {}

    def take(self, size: int) -> int:
        """The offset of a block: the smallest that holds it, the lowest among equals."""
        if size == 0:
            return 0
        at = bisect_left(self._sizes, (size, 0))
        if at < len(self._sizes):
            found, offset = self._sizes[at]
            self._remove(offset, found)
            self._insert(offset + size, found - size)
            return offset
        last = self._by_stop.get(self.end)
        offset = self.end
        if last is not None:
            self._remove(last, self.end - last)
            offset = last
        self.end = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        if size == 0:
            return
        before = self._by_stop.get(offset)
        if before is not None:
            self._remove(before, offset - before)
            offset, size = before, size + offset - before
        after = self._by_start.get(offset + size)
        if after is not None:
            self._remove(offset + size, after)
            size += after
        self._insert(offset, size)

    def _insert(self, offset: int, size: int) -> None:
        if size:
            insort(self._sizes, (size, offset))
            self._by_start[offset] = size
            self._by_stop[offset + size] = offset

    def _remove(self, offset: int, size: int) -> None:
        del self._sizes[bisect_left(self._sizes, (size, offset))]
        del self._by_start[offset], self._by_stop[offset + size]
