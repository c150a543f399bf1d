"""Check of a Program after assignment: all its faults at once, each with the step concerned."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from braze.errors import VerificationError
from braze.program.assign import ALIGNMENT, may_share
from braze.program.ir import Branch, Buffer, Copy, Launch, Loop, Program, Step
from braze.program.liveness import Liveness, reads_and_writes
from braze.program.text import print_program


def check(program: Program) -> None:
    """Check the invariants of `program/ir`.

    Raises: VerificationError that lists every fault, with the program's text.
    """
    liveness = Liveness(program)
    faults = [*_placed(program, liveness), *_shapes(program.steps), *_order(program)]
    faults += _overlaps(program, liveness)
    if faults:
        raise VerificationError(
            f"program {program.name}: {len(faults)} of its rules do not hold.",
            values="\n  ".join([*faults, "", print_program(program)]),
        )


def _placed(program: Program, liveness: Liveness) -> Iterator[str]:
    """Every buffer has a slice inside its space, and only memory of ours or donated memory is written."""
    sizes = {
        "arena": [program.arena_bytes],
        "parameter": [b.type.nbytes for b in program.parameters],
        "result": [b.type.nbytes for b in program.results],
        "constant": [a.nbytes for a in program.constants],
    }
    for buffer in (*program.parameters, *program.results, *liveness.intervals):
        piece = program.slices.get(buffer)
        if piece is None:
            yield f"{buffer.name} has no place."
            continue
        spaces = sizes[piece.place]
        if not 0 <= piece.index < len(spaces):
            yield f"{buffer.name} lies in {piece.place} {piece.index}, but there are {len(spaces)}."
        elif piece.offset < 0 or piece.offset + piece.nbytes > spaces[piece.index]:
            yield f"{buffer.name} ends at byte {piece.offset + piece.nbytes} of {spaces[piece.index]}."
        if piece.place == "arena" and piece.offset % ALIGNMENT:
            yield f"{buffer.name} begins at {piece.offset}, which is no multiple of {ALIGNMENT}."
        if piece.nbytes != buffer.type.nbytes:
            yield f"{buffer.name} has {piece.nbytes} bytes, {buffer.type} takes {buffer.type.nbytes}."
    for k, result in enumerate(program.results):
        if result.place == "result" and result.index != k:
            yield f"result {k} lies in the memory of result {result.index}."
        if result.place not in ("result", "parameter"):
            yield f"result {k} lies in {result.place} memory."
        if (result.place == "parameter") != (k in program.aliases):
            yield f"result {k} and aliases disagree."
    aliased = list(program.aliases.values())
    yield from [f"parameter {i} is two results." for i in sorted(set(aliased)) if aliased.count(i) > 1]
    yield from [f"parameter {i} is a result but not donated." for i in aliased if not _donated(program, i)]
    for step in _leaves(program.steps):
        for buffer in reads_and_writes(step)[1]:
            if buffer.place == "constant":
                yield f"constant {buffer.name} is written."
            if buffer.place == "parameter" and not _donated(program, buffer.index):
                yield f"parameter {buffer.name} is written but not donated."


def _donated(program: Program, i: int) -> bool:
    return i < len(program.donated) and program.donated[i]


def _leaves(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, Loop):
            yield from _leaves(step.condition_steps)
            yield from _leaves(step.body_steps)
        elif isinstance(step, Branch):
            for branch in step.branches:
                yield from _leaves(branch)
        yield step


def _shapes(steps: Sequence[Step]) -> Iterator[str]:
    """Buffers have the sizes that their steps take."""
    for step in _leaves(steps):
        match step:
            case Launch():
                if len(step.buffers) != len(step.kernel.parameters):
                    yield f"{step.kernel.name} takes {len(step.kernel.parameters)} buffers, has {len(step.buffers)}."
                for m, b in zip(step.kernel.parameters, step.buffers):
                    if m.size * m.dtype.itemsize != b.type.nbytes:
                        wanted = m.size * m.dtype.itemsize
                        yield f"{step.kernel.name}: {m.name} has {wanted} bytes, {b.name} {b.type.nbytes}."
            case Copy(source=source, destination=destination) if (
                source.type.nbytes != destination.type.nbytes
            ):
                yield f"copy from {source.name} to {destination.name}: sizes differ."
            case Loop(condition=None) if step.trip_count is None or step.condition_steps:
                yield "a loop without a condition has steps for it, or no number of times."
            case Loop(condition=Buffer() as condition) if condition.type.nbytes != 1:
                yield f"the condition {condition.name} of a loop is no bool."
            case Branch() if step.index.type.nbytes != 4 or not step.branches:
                yield f"the index {step.index.name} of a branch is no i32, or there are no branches."


def _order(program: Program) -> Iterator[str]:
    """Arena and result memory is written before it is read, on every way through the program."""
    written: set[Buffer] = set(program.parameters)
    faults: list[str] = []
    _walk_order(program.steps, written, faults)
    for k, result in enumerate(program.results):
        if result not in written and result.type.nbytes:
            faults.append(f"result {k} is never written.")
    return iter(faults)


def _walk_order(steps: Sequence[Step], written: set[Buffer], faults: list[str]) -> list[Buffer]:
    """Adds to `written` what the steps surely write; returns what was added."""
    added: list[Buffer] = []

    def read(buffer: Buffer) -> None:
        if buffer not in written and buffer.place != "constant" and buffer.type.nbytes:
            faults.append(f"{buffer.name} is read before it is written.")

    def write(buffer: Buffer) -> None:
        if buffer not in written:
            written.add(buffer)
            added.append(buffer)

    for step in steps:
        match step:
            case Loop():
                added += _walk_order(step.condition_steps, written, faults)
                if step.condition is not None:
                    read(step.condition)
                written.difference_update(_walk_order(step.body_steps, written, faults))
            case Branch():
                read(step.index)
                common: set[Buffer] | None = None
                for branch in step.branches:
                    new = _walk_order(branch, written, faults)
                    written.difference_update(new)
                    common = set(new) if common is None else common & set(new)
                for buffer in common or ():
                    write(buffer)
            case _:
                reads, writes = reads_and_writes(step)
                for buffer in reads:
                    read(buffer)
                for buffer in writes:
                    write(buffer)
    return added


def _overlaps(program: Program, liveness: Liveness) -> Iterator[str]:
    """Two buffers that live at the same time share no byte, but for a result in place of a dying input."""
    placed = [
        (interval, b)
        for b, interval in liveness.intervals.items()
        if b in program.slices and program.slices[b].place == "arena" and b.type.nbytes
    ]
    events = [(interval.start, 0, k) for k, (interval, _) in enumerate(placed)]
    events += [(interval.stop, 1, k) for k, (interval, _) in enumerate(placed)]
    active: list[tuple[int, int, int]] = []
    for position, ends, k in sorted(events):
        buffer = placed[k][1]
        piece = program.slices[buffer]
        entry = (piece.offset, piece.offset + piece.nbytes, k)
        if ends:
            del active[bisect_left(active, entry)]
            continue
        for offset, stop, other in _near(active, entry):
            interval, old = placed[other]
            shares = interval.stop == position and may_share(liveness.steps[position], old, buffer)
            if offset < entry[1] and entry[0] < stop and not shares:
                yield f"{old.name} and {buffer.name} are live at the same time and overlap."
        insort(active, entry)


def _near(active: list[tuple[int, int, int]], entry: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """Entries that may overlap: those that begin inside, and those before, up to one that is clear of it.

    Live entries are disjoint but for a result in place, so two clear ones in a row end the search.
    """
    at = bisect_left(active, (entry[0], -1, -1))
    for k in range(at, len(active)):
        if active[k][0] >= entry[1]:
            break
        yield active[k]
    clear = 0
    for k in range(at - 1, -1, -1):
        clear = clear + 1 if active[k][1] <= entry[0] else 0
        if clear == 2:
            break
        yield active[k]
