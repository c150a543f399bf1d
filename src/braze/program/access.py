"""Which elements a kernel touches: whether a result may lie where an operand is read.

Scans the accesses of a kernel, so that it holds for any kernel, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
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

# Index arithmetic that gives different elements for different loop indices as the builder uses it. `min` and
# `max` do not: a last tile that overlaps the one before reads what was written already.
_INJECTIVE = frozenset(
    ("add", "sub", "mul", "shl", "shl_fast", "div_fast", "rem_fast", "cast", "lane", "splat")
)


@lru_cache(maxsize=4096)
def reads_only_where_it_writes(kernel: Kernel, read: Memory, written: Memory) -> bool:
    """Whether each element of `read` is read last by the same piece of code that then writes it in `written`.

    True if all loads of `read` and all stores to `written` use one index, syntactically, in one list of
    statements, loads first; that index takes part of every loop around it, so no element comes twice.
    """
    return _Accesses(kernel, read, written).agree()


class _Accesses:
    def __init__(self, kernel: Kernel, read: Memory, written: Memory) -> None:
        self.kernel = kernel
        self.read = read
        self.written = written
        self.definitions: dict[Value, Compute | For] = {}
        self.found: list[tuple[str, Operand, str, int]] = []
        self.loops: tuple[Statement, ...] | None = None
        self.fails = read.space != "in" or written.space != "out"
        self.fails |= read.dtype.itemsize != written.dtype.itemsize
        if not self.fails:
            self._scan(kernel.body, ())

    def _scan(self, body: Sequence[Statement], loops: tuple[Statement, ...]) -> None:
        for s in body:
            match s:
                case Compute():
                    self.definitions[s.result] = s
                case Load() if s.memory is self.read:
                    self._note("load", s.index, s.access, body, loops)
                case Store() if s.memory is self.written:
                    self._note("store", s.index, s.access, body, loops)
                case Atomic() if s.memory is self.written:
                    self.fails = True
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
        self, kind: str, index: Operand, access: str, body: Sequence[Statement], loops: tuple[Statement, ...]
    ) -> None:
        self.found.append((kind, index, access, id(body)))
        self.loops = loops

    def agree(self) -> bool:
        if self.fails or self.loops is None:
            return not self.fails
        kinds = [kind for kind, _, _, _ in self.found]
        if "load" not in kinds:
            return True  # nothing of it is read here
        if "store" not in kinds or kinds != sorted(kinds):
            return False
        if len({(index, access, body) for _, index, access, body in self.found}) != 1:
            return False
        _, index, access, _ = self.found[0]
        return access != "gather" and self._no_element_twice(index)

    def _no_element_twice(self, index: Operand) -> bool:
        sources = self._sources(index)
        if sources is None or any(isinstance(loop, While) for loop in self.loops or ()):
            return False
        if self.kernel.grid > 1 and self.kernel.block not in sources:
            return False
        return all(loop.index in sources for loop in self.loops or () if isinstance(loop, For))

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
