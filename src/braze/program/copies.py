"""Copies: which values may share memory, and the copies that remain where they may not.

`schedule` walks a region and asks here where each value goes. A region that ends in given buffers (the
slots of a loop, the results of a branch or of the program) is walked with *destinations*: a value that ends
in one is written there at once if the buffer's occupant has no later reader, and copied at the end
otherwise. All copies at one point form a parallel copy, which `sequentialise` puts in an order.

Invariants:
- At any time a buffer holds one value (and the reshapes of it), its occupant.
- A value is overwritten only by a region that owns it: memory of the program, or of a donated parameter,
  made in that region or entering it for the last time. What a loop captures is never owned by its body.

Source: the coalescing view of parallel copies in Boissinot et al., "Revisiting out-of-SSA translation", 2009.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, MutableMapping, Sequence

from braze.hlo.ir import Instruction, Region, Value
from braze.ops.table import ProgramStep
from braze.program.ir import Buffer, Copy


def sequentialise(
    pairs: Sequence[tuple[Buffer, Buffer]], temporary: Callable[[Buffer], Buffer]
) -> list[Copy]:
    """Order copies (source, destination) so that each source is read before it is overwritten.

    Destinations are distinct. A cycle is opened by saving one destination in `temporary(like)`.
    """
    wanted = {destination: source for source, destination in pairs if source is not destination}
    readers: dict[Buffer, int] = {}
    for source in wanted.values():
        readers[source] = readers.get(source, 0) + 1
    ready = [destination for destination in wanted if not readers.get(destination)]
    copies: list[Copy] = []
    waiting = list(wanted)
    while wanted:
        while ready:
            destination = ready.pop()
            source = wanted.pop(destination)
            copies.append(Copy(source, destination))
            readers[source] -= 1
            if not readers[source] and source in wanted:
                ready.append(source)
        while waiting and waiting[-1] not in wanted:
            waiting.pop()
        if waiting:
            # Only cycles are left, and each member has one reader: save it, and let that reader read the copy.
            opened = waiting[-1]
            saved = temporary(opened)
            copies.append(Copy(opened, saved))
            reader = next(d for d in _around(wanted, opened) if wanted[d] is opened)
            wanted[reader] = saved
            readers[saved], readers[opened] = 1, 0
            ready.append(opened)
    return copies


def _around(wanted: dict[Buffer, Buffer], start: Buffer) -> Iterable[Buffer]:
    """The members of a cycle, from `start` along its sources; the last one reads `start`."""
    at = start
    while True:
        yield at
        at = wanted[at]
        if at is start:
            return


class Uses:
    """Last uses per region, with reshapes counted as uses of what they reshape.

    Attributes:
        root: the value whose bytes a reshape (or bitcast) shows; values that are none are their own.
    """

    def __init__(self) -> None:
        self.root: dict[Value, Value] = {}
        self._last: dict[Region, dict[Value, int]] = {}
        self._captured: dict[Region, frozenset[Value]] = {}

    def root_of(self, value: Value) -> Value:
        return self.root.get(value, value)

    def last(self, region: Region) -> dict[Value, int]:
        """Position of the last instruction that uses each value; the region's length for its results."""
        if region not in self._last:
            self._analyse(region)
        return self._last[region]

    def captured(self, region: Region) -> frozenset[Value]:
        """The values that a region, or a region inside it, takes from outside."""
        self.last(region)
        return self._captured[region]

    def _analyse(self, region: Region) -> None:
        root, last = self.root, {}
        defined = set(region.parameters)
        for position, instruction in enumerate(region.instructions):
            for operand in instruction.operands:
                last[root.get(operand, operand)] = position
            if instruction.captures:
                for inner in instruction.regions:
                    for value in self.captured(inner):
                        last[value] = position
            if shares_bytes(instruction):
                (operand,) = instruction.operands
                root[instruction.results[0]] = root.get(operand, operand)
            defined.update(instruction.results)
        for result in region.results:
            last[root.get(result, result)] = len(region.instructions)
        self._last[region] = last
        self._captured[region] = frozenset(v for v in last if v not in defined)


def shares_bytes(instruction: Instruction) -> bool:
    """Whether the result is the operand's memory under another type."""
    return instruction.op.keeps_bytes and (
        instruction.operands[0].type.nbytes == instruction.results[0].type.nbytes
    )


class Frame:
    """One region being scheduled.

    Attributes:
        destinations: where the results go, or None where any buffer will do.
        owned: values whose memory may be overwritten here after their last use.
        occupant: the value that each buffer holds.
        fallbacks: another destination for where the first turns out to be occupied.
        hints: values that should be written to a destination, since that is where they end.
    """

    def __init__(
        self,
        region: Region,
        uses: Uses,
        destinations: Sequence[Buffer | None],
        owned: Iterable[Value] = (),
        occupant: MutableMapping[Buffer, Value] | None = None,
        fallbacks: dict[Buffer, Buffer] | None = None,
    ) -> None:
        self.region = region
        self.uses = uses
        self.last = uses.last(region)
        self.destinations = destinations
        self.owned = set(owned)
        self.occupant: MutableMapping[Buffer, Value] = {} if occupant is None else occupant
        self.fallbacks = fallbacks or {}
        self.hints = self._hints()

    def _hints(self) -> dict[Value, Buffer]:
        """From the results backwards: through loops and in-place updates to what they begin with."""
        hints: dict[Value, Buffer] = {}
        for result, destination in zip(self.region.results, self.destinations, strict=True):
            value = self.uses.root_of(result)
            if destination is not None and value.producer is not None:
                hints.setdefault(value, destination)
        if not hints:
            return hints
        for position in range(len(self.region.instructions) - 1, -1, -1):
            instruction = self.region.instructions[position]
            if isinstance(instruction.op.kernel, ProgramStep) and instruction.op.kernel.name == "while":
                pairs: Iterable[tuple[int, int]] = ((k, k) for k in range(len(instruction.results)))
            else:
                pairs = instruction.overwrites.items()
            for k, operand in pairs:
                hint = hints.get(instruction.results[k])
                value = self.uses.root_of(instruction.operands[operand])
                if hint is not None and value.producer is not None and self.last[value] == position:
                    hints.setdefault(value, hint)
        return hints

    def inner(self) -> ChainMap[Buffer, Value]:
        """Occupants for a region inside this one: what it changes is forgotten when it ends."""
        outer = self.occupant
        return outer.new_child() if isinstance(outer, ChainMap) else ChainMap({}, outer)

    def dies(self, value: Value, position: int) -> bool:
        """Whether a value may be overwritten by the instruction at `position`, its last reader."""
        return value in self.owned and self.last.get(value, -1) <= position

    def occupies(self, value: Value, buffer: Buffer) -> None:
        self.occupant[buffer] = value
        self.owned.add(value)

    def hint(
        self, value: Value, position: int, in_place: Callable[[Buffer], bool] | None = None
    ) -> Buffer | None:
        """The destination to write a value to, if it is free by then.

        `in_place(buffer)` says whether the instruction may write where it reads the occupant.
        """
        buffer = self.hints.get(value)
        if buffer is None or self._is_free(buffer, value, position, in_place):
            return buffer
        buffer = self.fallbacks.get(buffer)
        return buffer if buffer is not None and self._is_free(buffer, value, position, None) else None

    def _is_free(
        self, buffer: Buffer, value: Value, position: int, in_place: Callable[[Buffer], bool] | None
    ) -> bool:
        occupant = self.occupant.get(buffer)
        if occupant is None:
            return True
        if occupant.producer is not None and occupant.producer is value.producer:
            return False  # results of one instruction live side by side, used later or not
        last = self.last.get(occupant, -1)
        return last < position or (last == position and in_place is not None and in_place(buffer))
