"""Which elements a kernel touches: whether a result may lie where an operand is read.

Scans the accesses of a kernel, so that it holds for any kernel, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from braze.kernel.ir import (
    Atomic,
    Compute,
    For,
    If,
    Kernel,
    Load,
    Memory,
    Operand,
    Region,
    Statement,
    Store,
    Value,
    While,
)
from braze.record import Record

# Index arithmetic that gives different elements for different loop indices as the builder uses it. `min` and
# `max` do not: a last tile that overlaps the one before reads what was written already.
_INJECTIVE = frozenset(
    ("add", "sub", "mul", "shl", "shl_fast", "div_fast", "rem_fast", "cast", "lane", "splat")
)

Loops = tuple[For | While, ...]


@dataclass(slots=True, eq=False, repr=False)
class _Touch(Record):
    """One access: `order` counts the kernel's accesses, `body` is the list of statements it stands in."""

    order: int
    reads: bool
    index: Operand
    access: str
    body: int
    loops: Loops

    @property
    def place(self) -> tuple[Operand, str, int]:
        return self.index, self.access, self.body


def reads_only_where_it_writes(kernel: Kernel, read: Memory, written: Memory) -> bool:
    """Whether each element of `read` is read last by the same piece of code that then writes it in `written`.

    True if all loads of `read` and all stores to `written` use one index, syntactically, in one list of
    statements, loads first; that index takes part of every loop around it, so no element comes twice.
    """
    if read.space != "in" or written.space != "out" or read.dtype.itemsize != written.dtype.itemsize:
        return False
    accesses = _accesses(kernel)
    loads, stores = accesses.touches.get(read, ()), accesses.touches.get(written, ())
    if not loads:
        return True
    if not stores or any(t.reads for t in stores):
        return False
    if loads[-1].order > stores[0].order or len({t.place for t in (*loads, *stores)}) != 1:
        return False
    return loads[0].access != "gather" and accesses.touches_each_once(stores[0])


@lru_cache(maxsize=1024)
def _accesses(kernel: Kernel) -> _Accesses:
    return _Accesses(kernel)


class _Accesses:
    """The accesses of a kernel by memory, and what its indices are computed from."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.touches: dict[Memory, list[_Touch]] = {}
        self.definitions: dict[Value, Compute | For] = {}
        self.count = 0
        self._scan(kernel.body, ())

    def _scan(self, body: Sequence[Statement], loops: Loops) -> None:
        for s in body:
            match s:
                case Compute():
                    self.definitions[s.result] = s
                case Load():
                    self._note(s.memory, True, s.index, s.access, body, loops)
                case Store():
                    self._note(s.memory, False, s.index, s.access, body, loops)
                case Atomic():
                    self._note(s.memory, True, s.index, "gather", body, loops)
                case For():
                    self.definitions[s.index] = s
                    self._scan(s.body, (*loops, s))
                case While():
                    self._scan(s.condition_body, (*loops, s))
                    self._scan(s.body, (*loops, s))
                case If():
                    self._scan(s.then, loops)
                    self._scan(s.otherwise, loops)
                case Region():
                    self._scan(s.body, loops)

    def _note(
        self,
        memory: Memory,
        reads: bool,
        index: Operand,
        access: str,
        body: Sequence[Statement],
        loops: Loops,
    ) -> None:
        touch = _Touch(self.count, reads, index, access, id(body), loops)
        self.touches.setdefault(memory, []).append(touch)
        self.count += 1

    def touches_each_once(self, touch: _Touch) -> bool:
        """Whether no two runs of the access touch the same element."""
        sources = self._sources(touch.index)
        if sources is None or (self.kernel.grid > 1 and self.kernel.block not in sources):
            return False
        return all(isinstance(loop, For) and loop.index in sources for loop in touch.loops)

    def _sources(self, index: Operand) -> set[Value] | None:
        """The values an index is computed from, or None if by other than index arithmetic."""
        sources: set[Value] = set()
        pending = [index]
        while pending:
            operand = pending.pop()
            if not isinstance(operand, Value) or operand in sources:
                continue
            sources.add(operand)
            definition = self.definitions.get(operand)
            if isinstance(definition, For):
                pending.append(definition.start)
            elif isinstance(definition, Compute):
                if definition.opcode not in _INJECTIVE:
                    return None
                pending.extend(definition.operands)
            elif operand is not self.kernel.block:
                return None  # a loaded index, or a carried value
        return sources
