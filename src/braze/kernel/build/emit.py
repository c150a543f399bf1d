"""The emitter: values of a graph at an index, computed where the index is known.

`at(node, index)` gives the lane value of a node at an index, and writes what that takes. Three things
follow from one rule, that a statement goes to the outermost open loop in which all its operands are known:
loop-invariant code leaves loops, a reduction whose index does not depend on a loop runs before it (so the
maximum and the sum of a softmax come one after the other without any rule about softmax), and a value is
computed once per scope.

Invariants:
- Walks over elementwise operations do not recurse; only index maps and reductions nest.
- Loads are in bounds or masked off: an index that is not proven to lie inside its axis gets a mask.
- Inside a branch or loop that an operation's own lane code opens, nothing moves out of it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from braze.dtypes import I32, I64, INTEGERS, SIGNED, DType
from braze.hlo.ir import Region as HloRegion
from braze.kernel.build.affine import UNBOUNDED, ZERO, Affine, Index, Symbol, linear
from braze.kernel.build.graph import Graph, Node
from braze.kernel.build.reducer import inline
from braze.kernel.builder import Builder, Liftable, constant, number
from braze.kernel.halves import exact_bf16
from braze.kernel.ir import Compute, Constant, Load, Memory, Operand, Statement, Value
from braze.kernel.math.division import divide_by_uniform
from braze.kernel.math.formats import FORMATS
from braze.ops.table import IndexMap

STREAMED = 16 << 20
"""Bytes of a result from which on its stores go around the caches, as most of it would leave them unread anyway.

On a Xeon (Emerald Rapids, 2 MB of L2), writing and then reading once is as fast either way at 4 MB and a third faster
around the caches at 16 MB; machines with smaller L3 caches lose less by it.
"""

_At = tuple[Node, Index, int]
"""A node, an index, and the index's number."""


class Lanes:
    """The loop that runs over lanes: its depth, and the mask of the lanes inside the axis (None: all)."""

    __slots__ = ("depth", "mask")

    def __init__(self, depth: int, mask: Operand | None) -> None:
        self.depth = depth
        self.mask = mask


class Sweep:
    """One pass over a whole axis; scratch rows that it fills are complete when it ends."""

    __slots__ = ("fills", "size", "symbols")

    def __init__(self, size: int) -> None:
        self.size = size
        self.symbols: set[int] = set()
        self.fills: list[tuple[ScratchRow, tuple[Any, ...]]] = []


class ScratchRow:
    """Memory that keeps a value along one axis for a later sweep.

    Attributes:
        position: which axis of the node it runs along.
        rows: outer indices for which it is complete.
    """

    __slots__ = ("memory", "position", "rows")

    def __init__(self, memory: Memory, position: int) -> None:
        self.memory = memory
        self.position = position
        self.rows: set[tuple[Any, ...]] = set()


class Reader:
    """What an index map receives for an operand: its type, and its value at an index."""

    __slots__ = ("_emitter", "_node")

    def __init__(self, emitter: Emitter, node: Node) -> None:
        self._emitter = emitter
        self._node = node

    @property
    def type(self) -> Any:
        return self._node.type

    def at(self, index: Sequence[Any]) -> Operand:
        affine = [self._emitter.affine(i) for i in index]
        return self._emitter.at(self._node, tuple(affine[d] for d in self._node.dims))


class Emitter(Builder):
    """Writes one kernel from a graph.

    Attributes:
        graph: the region.
        memories: where parameters of the region lie.
        lanes_at: the active lane loop, or None.
        scratch_rows: nodes kept in scratch, by number.
        reduce: writes a reduction at an index; set by the schedule.
    """

    def __init__(self, name: str, lanes: int, graph: Graph) -> None:
        super().__init__(name, lanes)
        self.graph = graph
        self.memories: dict[int, Memory] = {}
        self.lanes_at: Lanes | None = None
        self.scratch_rows: dict[int, ScratchRow] = {}
        self.sweeps: list[Sweep] = []
        self.reduce: Callable[[Emitter, Node, Index], Operand]
        self._depths: dict[Value, int] = {self.block: 0}
        self._ranges: dict[Value, tuple[int, int]] = {}
        self._symbols: dict[Value, Symbol] = {}
        self._numbers = 0
        self._memos: list[dict[Any, Operand]] = [{}]
        self._floor = 1
        self._transparent = False
        self._index_numbers: dict[tuple[Any, ...], int] = {(): 0}

    @property
    def scratch(self) -> list[Memory]:
        """Private and shared memories declared so far."""
        return self._scratch

    # Placement ------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        return len(self._open) - 1

    def depth_of(self, operand: Any) -> int:
        return self._depths.get(operand, self.depth) if isinstance(operand, Value) else 0

    def _place(self, operands: Sequence[Operand | None]) -> int:
        # As far out as its operands allow. A loop of the schedule is transparent: statements may leave it. Any other
        # block (a branch, a loop that an op writes) is a floor: nothing rises above it, since it may not run at all.
        place = self._floor
        for operand in operands:
            if type(operand) is Value:
                place = max(place, self._depths.get(operand, self.depth))
        return min(place, self.depth)

    def append(self, statement: Statement) -> None:
        if type(statement) is Compute:
            place = self._place(statement.operands)
        elif type(statement) is Load and statement.memory.space == "in":
            place = self._place((statement.index, statement.mask, statement.other))
        else:
            place = self.depth
        for result in getattr(statement, "results", None) or (getattr(statement, "result", None),):
            if result is not None:
                self._depths[result] = place
        self._open[place].append(statement)

    @contextlib.contextmanager
    def _nested(self) -> Iterator[list[Statement]]:
        transparent, self._transparent = self._transparent, False
        floor = self._floor
        self._open.append([])
        self._memos.append({})
        if not transparent:
            self._floor = self.depth
        try:
            yield self._open[-1]
        finally:
            self._open.pop()
            self._memos.pop()
            self._floor = floor

    @contextlib.contextmanager
    def at_depth(self, depth: int) -> Iterator[None]:
        """Write to the open block at that depth, before what is being written deeper."""
        depth = min(max(depth, self._floor), self.depth)
        saved = self._open, self._memos, self.lanes_at
        self._open, self._memos = self._open[: depth + 1], self._memos[: depth + 1]
        if self.lanes_at is not None and self.lanes_at.depth > depth:
            self.lanes_at = None
        try:
            yield
        finally:
            self._open, self._memos, self.lanes_at = saved

    # Values ---------------------------------------------------------------------------------------

    def compute(self, opcode: str, *operands: Any, dtype: DType | None = None) -> Operand:
        if any(type(o) is Affine for o in operands):
            symbolic: Any = self._affine_compute(opcode, operands)
            if symbolic is not None:
                return symbolic  # type: ignore[no-any-return]  # to a facet it is an operand like others
            operands = tuple(self.materialise(o) if type(o) is Affine else o for o in operands)
        if any(type(o) is float for o in operands):
            return super().compute(opcode, *operands, dtype=dtype)  # 0.0 == -0.0 as a key
        key = (opcode, dtype, operands)
        for memo in reversed(self._memos):
            found: Operand | None = memo.get(key)
            if found is not None:
                return found
        if opcode == "div" and self._divides_by_invariant(*operands):
            x, y = operands
            divide = super().compute
            return divide_by_uniform(self, x, y, lambda: divide("div", x, y))
        result = super().compute(opcode, *operands, dtype=dtype)
        if type(result) is Value:
            self._memos[self._depths[result]][key] = result
            if result.dtype == I64 or result.dtype == I32:
                self._note_range(opcode, operands, result)
        return result

    def _divides_by_invariant(self, x: Operand, y: Operand) -> bool:
        """Whether a float in every lane is divided by what stays the same over the innermost loop."""
        if not x.varying or y.varying or x.dtype not in FORMATS or self.lanes == 1:
            return False
        return isinstance(y, Constant) or self._depths.get(y, self.depth) < self.depth

    def lift(self, value: Any, dtype: DType) -> Any:
        return value if type(value) is Affine else super().lift(value, dtype)

    def clamp_index(self, index: Any, size: int) -> Any:
        """The index itself: loads outside an axis are masked off, so address arithmetic stays affine."""
        return index if type(index) is Affine else super().clamp_index(index, size)

    def cast(self, value: Any, dtype: DType) -> Any:
        if type(value) is Affine:
            if dtype == I64:
                return value
            value = self.materialise(value)
        return super().cast(value, dtype)

    def _affine_compute(self, opcode: str, operands: Sequence[Any]) -> Affine | None:
        if opcode in ("add", "sub"):
            x, y = (self.affine(o) for o in operands)
            return x.plus(y) if opcode == "add" else x.plus(y.times(-1))
        if opcode == "mul":
            x, y = (self.affine(o) for o in operands)
            if y.is_constant:
                return x.times(y.constant)
            return y.times(x.constant) if x.is_constant else None
        if opcode in ("div_fast", "rem_fast", "div", "rem"):
            x, y = (self.affine(o) for o in operands)
            if y.is_constant and y.constant > 0 and x.low >= 0:
                quotient, remainder = self.divide(x, y.constant)
                return quotient if opcode.startswith("div") else remainder
        return None

    def _note_range(self, opcode: str, operands: Sequence[Any], result: Value) -> None:
        """Ranges of clamped and divided integers, so that clamped indices need no mask."""
        if opcode not in ("min", "max", "cast", "rem_fast"):
            return
        ranges = [self._range(o) for o in operands]
        low, high = ranges[0]
        match opcode:
            case "min":
                low, high = min(low, ranges[1][0]), min(high, ranges[1][1])
            case "max":
                low, high = max(low, ranges[1][0]), max(high, ranges[1][1])
            case "rem_fast" if low >= 0 and ranges[1][0] == ranges[1][1] > 0:
                low, high = 0, ranges[1][1] - 1
        limit = 1 << (8 * result.dtype.itemsize - 1)
        if -limit <= low and high < limit:
            self._ranges[result] = (low, high)

    def _range(self, operand: Any) -> tuple[int, int]:
        if isinstance(operand, Constant):
            operand = int(number(operand))
        if isinstance(operand, int):
            return operand, operand
        found = self._ranges.get(operand)
        if found is None:
            dtype = operand.dtype
            if dtype not in INTEGERS or dtype.itemsize == 8:
                return -UNBOUNDED, UNBOUNDED
            bits = 8 * dtype.itemsize
            return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype in SIGNED else (0, (1 << bits) - 1)
        return found

    # Index expressions ----------------------------------------------------------------------------

    def symbol(self, value: Value, low: int, high: int, is_lane: bool = False) -> Symbol:
        self._numbers += 1
        return Symbol(self._numbers, value, self.depth_of(value), low, high, is_lane)

    def affine(self, operand: Any) -> Affine:
        """Any index as an expression: a number, an expression, or an integer value as a symbol."""
        if type(operand) is Affine:
            return operand
        if isinstance(operand, int):
            return Affine(operand)
        if isinstance(operand, Constant):
            return Affine(int(number(operand)))
        if operand.dtype != I64:
            operand = self.cast(operand, I64)
        found = self._symbols.get(operand)
        if found is None:
            found = self._symbols[operand] = self.symbol(operand, *self._range(operand))
        return Affine(0, ((found, 1),))

    def materialise(self, index: Affine) -> Operand:
        """The value of an expression: terms that are known further out are summed there."""
        total: Operand | None = None
        for symbol, c in sorted(index.terms, key=lambda t: (t[0].depth, t[0].value.varying, t[0].number)):
            term = self.compute("mul", symbol.value, constant(I64, c)) if c != 1 else symbol.value
            total = term if total is None else self.compute("add", total, term)
        if total is None:
            return constant(I64, index.constant)
        return self.compute("add", total, constant(I64, index.constant)) if index.constant else total

    def divide(self, index: Affine, divisor: int) -> tuple[Affine, Affine]:
        """Quotient and remainder of a non-negative expression by a positive number."""
        whole = tuple((s, c) for s, c in index.terms if c % divisor == 0)
        rest = Affine(index.constant % divisor, tuple((s, c) for s, c in index.terms if c % divisor))
        if rest.lies_within(divisor):
            return Affine(index.constant // divisor, tuple((s, c // divisor) for s, c in whole)), rest
        value = self.materialise(index)
        small = index.high < 1 << 31 and value.varying
        if small:  # vector division by a constant is cheap in 32 bits and scalar code in 64
            value = self.cast(value, I32)
        quotient = self.cast(self.compute("div_fast", value, divisor), I64)
        remainder = self.cast(self.compute("rem_fast", value, divisor), I64)
        for operand, high in ((quotient, index.high // divisor), (remainder, divisor - 1)):
            if isinstance(operand, Value):
                self._ranges[operand] = (0, high)
        return self.affine(quotient), self.affine(remainder)

    # Loops ----------------------------------------------------------------------------------------

    def sweep(
        self,
        start: Liftable,
        stop: Liftable,
        step: int,
        initial: Sequence[Operand],
        body: Callable[..., Sequence[Operand]],
        varying: bool | Sequence[bool] = True,
    ) -> tuple[Operand, ...]:
        """A loop of the schedule: invariant code moves out of it. One trip is no loop."""
        if isinstance(start, int) and isinstance(stop, int) and start < stop <= start + step:
            return self._once(start, initial, body)
        self._transparent = True

        def entered(index: Value, *carried: Value) -> Sequence[Operand]:
            for value in (index, *carried):
                self._depths[value] = self.depth
            yields = body(index, *carried)
            return [splat(self, y) if c.varying else y for y, c in zip(yields, carried, strict=True)]

        return self.loop(start, stop, step, initial, entered, varying)

    def _once(
        self, start: int, initial: Sequence[Operand], body: Callable[..., Sequence[Operand]]
    ) -> tuple[Operand, ...]:
        self._transparent = True
        with self._nested() as statements:
            yields = tuple(body(constant(I64, start), *initial))
            inner = self.depth
        self._open[-1].extend(statements)
        for y in yields:
            if isinstance(y, Value) and self._depths.get(y, inner) >= inner:
                self._depths[y] = self.depth
        return yields

    def index_of(self, base: Operand, size: int, sweep: Sweep | None = None) -> Affine:
        """A loop's index, which lies inside an axis of that size, as an expression."""
        if isinstance(base, Constant):
            return Affine(int(number(base)))
        symbol = self.symbol(base, 0, max(size - 1, 0))
        if sweep is not None:
            sweep.symbols.add(symbol.number)
        return Affine(0, ((symbol, 1),))

    def lane_index(self, base: Operand, size: int, sweep: Sweep | None = None) -> tuple[Affine, Lanes]:
        """base + lane over an axis of that size, and the mask where the last vector is not full.

        The range is that of the lanes that are on.
        """
        mask: Operand | None = None
        if size % self.lanes:
            left = self.compute("sub", constant(I64, size), base)
            left = self.cast(self.compute("min", left, self.lanes), I32)
            mask = self.compute("lt", self.lane(I32), left)
        first = self.symbol(base, 0, max(size - self.lanes, 0)) if isinstance(base, Value) else None
        lane = self.lane(I64)
        assert isinstance(lane, Value), "lane is never an immediate"
        # The lane belongs to this loop: what depends on it must not leave the loop.
        self._numbers += 1
        last = max(min(self.lanes, size) - 1, 0)
        offset = Symbol(self._numbers, lane, self.depth, 0, last, is_lane=True)
        if sweep is not None:
            sweep.symbols.add(first.number if first else offset.number)
        origin = Affine(0, ((first, 1),)) if first else self.affine(base)
        return origin.plus(Affine(0, ((offset, 1),))), Lanes(self.depth, mask)

    @contextlib.contextmanager
    def in_lanes(self, lanes: Lanes) -> Iterator[None]:
        saved, self.lanes_at = self.lanes_at, lanes
        try:
            yield
        finally:
            self.lanes_at = saved

    @contextlib.contextmanager
    def sweeping(self, size: int) -> Iterator[Sweep]:
        """A pass over a whole axis, which may fill scratch rows."""
        sweep = Sweep(size)
        self.sweeps.append(sweep)
        try:
            yield sweep
        finally:
            self.sweeps.remove(sweep)
            for row, key in sweep.fills:
                row.rows.add(key)

    # Memory ---------------------------------------------------------------------------------------

    def access(self, position: Affine) -> tuple[str, Operand]:
        """The kind of access and the index operand of a position in memory."""
        lane = [(s, c) for s, c in position.terms if s.is_lane]
        rest = Affine(position.constant, tuple(t for t in position.terms if not t[0].is_lane))
        if rest.varying or any(c != 1 for _, c in lane):
            return "gather", self.materialise(position)
        return ("unit" if lane else "uniform"), self.materialise(rest)

    def read(self, memory: Memory, shape: tuple[int, ...], index: Index) -> Operand:
        """memory[index], masked where lanes or indices may be outside; such lanes give 0."""
        if memory.size == 0:
            return constant(memory.dtype, 0)
        bounded, mask = [], None
        for i, size in zip(index, shape, strict=True):
            if not i.lies_within(size):
                if not i.varying:
                    inside = self.compute("max", self.materialise(i), 0)
                    i = self.affine(self.compute("min", inside, size - 1))
                else:
                    mask = self._and(mask, self.is_inside(i, size))
            bounded.append(i)
        position = linear(tuple(bounded), shape)
        kind, operand = self.access(position)
        if kind != "uniform" and self.lanes_at is not None:
            mask = self._and(mask, self.lanes_at.mask)
        other = 0 if mask is not None else None
        return self.load(memory, operand, kind, mask, other)  # type: ignore[arg-type]

    def write(self, memory: Memory, shape: tuple[int, ...], index: Index, value: Operand) -> None:
        """memory[index] = value in the lanes that are inside."""
        kind, operand = self.access(linear(index, shape))
        mask = self.lanes_at.mask if kind != "uniform" and self.lanes_at is not None else None
        streams = kind == "unit" and memory.space == "out" and memory.size * memory.dtype.itemsize >= STREAMED
        self.store(memory, operand, value, kind, mask, streams)  # type: ignore[arg-type]

    def _and(self, x: Operand | None, y: Operand | None) -> Operand | None:
        if x is None or y is None:
            return y if x is None else x
        return self.compute("and", x, y)

    def is_inside(self, index: Affine, size: int) -> Operand | None:
        """Whether an index lies in an axis; None where that is known."""
        value = self.materialise(index)
        mask = self.compute("ge", value, 0) if index.low < 0 else None
        return self._and(mask, self.compute("lt", value, size) if index.high >= size else None)

    # Nodes ----------------------------------------------------------------------------------------

    def at(self, node: Node, index: Index) -> Operand:
        """The value of a node at an index."""
        wanted = (node, index, self._number(index))
        known = self._known(wanted)
        if known is not None:
            return known
        work = [wanted]
        while work:
            at = work[-1]
            if self._known(at) is not None:
                work.pop()
                continue
            values: list[Operand] = []
            missing: list[_At] = []
            for operand in self._needed(at):
                found = self._known(operand)
                if found is None:
                    missing.append(operand)
                else:
                    values.append(found)
            if missing:
                # Reductions first: their sweeps fill the scratch rows that the other operands are read from.
                missing.reverse()
                missing.sort(key=lambda at: at[0].level)
                work.extend(missing)
                continue
            work.pop()
            known = self._evaluate(at[0], at[1], values)
            self._remember(at, known)
        assert known is not None, f"{node} was not computed"
        return known

    def known(self, node: Node, index: Index) -> Operand | None:
        """The value of a node at an index where it is there already."""
        return self._known((node, index, self._number(index)))

    def remember(self, node: Node, index: Index, value: Operand) -> None:
        """Make a value known that was computed outside `at`."""
        self._remember((node, index, self._number(index)), value)

    def _number(self, index: Index) -> int:
        """A small number for an index, equal for equal ones."""
        keys = tuple([i.key for i in index])
        return self._index_numbers.setdefault(keys, len(self._index_numbers))

    def _known(self, at: _At) -> Operand | None:
        key = (at[0].number, at[2])
        for memo in reversed(self._memos):
            found: Operand | None = memo.get(key)
            if found is not None:
                return found
        return None

    def _remember(self, at: _At, value: Operand) -> None:
        place = self._depths.get(value, self.depth) if type(value) is Value else self.depth
        self._memos[min(place, self.depth)][at[0].number, at[2]] = value

    def _needed(self, at: _At) -> list[_At]:
        """Operands, with their indices, that must be known before the node can be written."""
        node, index, number = at
        if self.scratch_rows and self._complete_row(node, index) is not None:
            return []
        match node.kind:
            case "elementwise":
                shape = node.shape
                return [(x, index, number) if x.shape == shape else (x, (), 0) for x in node.operands]
            case "move":
                picked = tuple([index[p] for p in node.picks])
                return [(node.operands[0], picked, self._number(picked))]
        return []

    def _evaluate(self, node: Node, index: Index, values: Sequence[Operand]) -> Operand:
        row = self._complete_row(node, index) if self.scratch_rows else None
        if row is not None:
            kept = self.read(row.memory, (row.memory.size,), (index[row.position],))
            return kept if kept.dtype == node.dtype else exact_bf16(self, kept)
        value: Operand
        match node.kind:
            case "elementwise":
                value = self._lane(node, index, values)
            case "move":
                value = values[0]
            case "parameter":
                value = self.read(self.memories[node.number], node.shape, index)
            case "constant":
                value = constant(node.dtype, node.value)
            case "reshape":
                source = node.operands[0]
                value = self.at(source, self._reshaped(index, node.shape, source.shape))
            case "map":
                value = self._mapped(node, index)
            case _:
                value = self.reduce(self, node, index)
        if self.scratch_rows:
            self._keep(node, index, value)
        return value

    def _lane(self, node: Node, index: Index, values: Sequence[Operand]) -> Operand:
        """The value of a node of lane code; other results of its op become known with it."""
        assert node.op is not None, "elementwise nodes have an op"
        found = node.op.lane_code(self, *values, **node.attrs)
        if not node.op.multiple_results:
            return self.lift(found, node.dtype)  # type: ignore[no-any-return]
        lifted: list[Operand] = [self.lift(x, s.dtype) for s, x in zip(node.siblings, found, strict=True)]
        for sibling, value in zip(node.siblings, lifted, strict=True):
            if sibling is not node:
                self.remember(sibling, index, value)
                if self.scratch_rows:
                    self._keep(sibling, index, value)
        return lifted[node.index]

    def _mapped(self, node: Node, index: Index) -> Operand:
        full = [ZERO] * node.type.ndim
        for dim, i in zip(node.dims, index, strict=True):
            full[dim] = i
        assert node.op is not None and isinstance(node.op.kernel, IndexMap), "it has an index map"
        readers = [Reader(self, x) for x in node.operands]
        regions = node.source.regions if node.source is not None else ()
        inner = {"regions": regions} if regions else {}
        value = node.op.kernel.code(self, tuple(full), *readers, **inner, **node.attrs)
        return self.materialise(value) if type(value) is Affine else self.lift(value, node.dtype)

    def _reshaped(self, index: Index, new: tuple[int, ...], old: tuple[int, ...]) -> Index:
        """The operand's index of a reshape: axes are regrouped where sizes meet, divided where they do not."""
        result: list[Affine] = []
        i = j = 0
        while i < len(new) or j < len(old):
            first, second = i, j
            i, j = min(i + 1, len(new)), min(j + 1, len(old))
            while (x := math.prod(new[first:i])) != (y := math.prod(old[second:j])):
                if x < y:
                    i += 1
                else:
                    j += 1
            position = linear(index[first:i], new[first:i])
            parts: list[Affine] = []
            for size in reversed(old[second + 1 : j]):
                position, remainder = self.divide(position, size)
                parts.append(remainder)
            result.extend([*([position] if second < j else []), *reversed(parts)])
        return tuple(result)

    # Scratch rows ---------------------------------------------------------------------------------

    def _complete_row(self, node: Node, index: Index) -> ScratchRow | None:
        row = self.scratch_rows.get(node.number)
        return row if row is not None and _outer(index, row.position) in row.rows else None

    def _keep(self, node: Node, index: Index, value: Operand) -> None:
        """Store the value if this sweep passes over the whole row."""
        row = self.scratch_rows.get(node.number)
        if row is None or index[row.position].constant:
            return
        numbers = {s.number for s, c in index[row.position].terms if c == 1}
        for sweep in self.sweeps:
            if (
                numbers & sweep.symbols
                and len(index[row.position].terms) <= 2
                and sweep.size == row.memory.size
            ):
                kept = self.cast(value, row.memory.dtype)
                self.write(row.memory, (row.memory.size,), (index[row.position],), kept)
                sweep.fills.append((row, _outer(index, row.position)))

    def inline(self, region: HloRegion, arguments: Sequence[Operand]) -> list[Operand]:
        """The lane code of a small closed region of scalars, such as a reducer."""
        return inline(self, region, arguments)


def _outer(index: Index, position: int) -> tuple[Any, ...]:
    return tuple(i.key for d, i in enumerate(index) if d != position)


def splat(b: Builder, operand: Operand) -> Operand:
    """The operand as a varying value."""
    return operand if operand.varying else b.compute("splat", operand, dtype=operand.dtype)
