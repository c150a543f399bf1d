"""scatter: updates applied one window after another, in place in the operand.

    for index vector: if its window is inside: for vectors of the window: operand[start + w] = f(operand[…], update[w])

Windows of one element are taken a chunk at a time: positions and updates are computed in lanes and left in scratch
memory, two positions to a word, from where the updates are applied one after another, without a test for each if
all positions are inside.

The memory is the operand's, which the result takes over. Updates meet their places in one order, so repeated
indices give the same bits however the work is shared out: blocks take axes that the operand and the indices have in
common, or parts of the window, never different updates of one place.

Invariant: what lies outside is dropped element by element, as StableHLO has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from braze.dtypes import BOOL, I64, U64
from braze.hlo.ir import Instruction, Region
from braze.hlo.ir import Value as HloValue
from braze.kernel.build.affine import ZERO, Affine, linear
from braze.kernel.build.emit import Reader, splat
from braze.kernel.build.graph import Graph, Node
from braze.kernel.build.launch import Built
from braze.kernel.build.schedule import Schedule
from braze.kernel.build.work import Work
from braze.kernel.builder import constant
from braze.kernel.ir import Constant, Memory, Operand, Value
from braze.ops.indexing import scatter_windows
from braze.target import Target

CHUNK = 256
"""Windows of one element that are noted before they are applied: so many that what is noted has left the store
buffer when it is read, where forwarding parts of a vector takes three times as long as a load (Emerald Rapids)."""
MOST_UNROLLED = 64
"""Operations of the region, times updates, that are written one after another."""
LOW = (1 << 32) - 1

_Entry = Memory | Constant
"""Where an update is read when it is applied: an operand, scratch, or a number."""


def scatter_kernel(instruction: Instruction, name: str, target: Target) -> Built:
    """The launch of a scatter."""
    parameters = [HloValue(v.type) for v in instruction.operands]
    types = [r.type for r in instruction.results]
    inner = Instruction(instruction.op, parameters, types, instruction.attrs, instruction.regions)
    graph = Graph(Region(parameters, (inner,), inner.results))
    schedule = _Scatter(name, graph, target, _lanes(graph.results[0], target))
    schedule.declare_in_place()
    with schedule.emitter.region():
        grid = schedule.write()
    return Built((schedule.finish(grid, ("scatter",)),), ())


def _window_axes(scatter: Node) -> tuple[int, ...]:
    """The axes of the updates inside a window that have more than one element, the lanes' last."""
    return tuple(a for a in scatter.attrs["update_window_dims"] if scatter.operands[-1].type.shape[a] != 1)


def _lanes(scatter: Node, target: Target) -> int:
    axes = _window_axes(scatter)
    if not axes:
        widest = max(4, *(x.dtype.itemsize for x in scatter.operands))
        lanes = max(1, target.vector_bytes // widest)
        paired = [scatter.type.shape[d] for d in scatter.attrs["input_batching_dims"]]
        many = scatter.operands[-1].type.size // max(1, math.prod(paired)) >= 2 * lanes
        return lanes if many and scatter.type.size < LOW else 1
    size = scatter.operands[-1].type.shape[axes[-1]]
    widest = max(x.dtype.itemsize for x in scatter.operands)
    return min(max(1, 2 * target.vector_bytes // widest), 1 << max(size - 1, 0).bit_length())


class _Scatter(Schedule):
    """The loops over index vectors and windows.

    Attributes:
        outputs: per result the memory that is updated.
    """

    def declare_in_place(self) -> None:
        """The operands that results take over, the others, and what is done to them."""
        first = self.graph.results[0]
        self.count = len(first.operands) // 2
        self.indices = first.operands[self.count]
        self.updates = first.operands[self.count + 1 :]
        for k, node in enumerate(self.graph.parameters):
            memory = self.memory("operand", k, node, "inout" if k < self.count else "in")
            if k < self.count:
                self.outputs[k] = memory
            else:
                self.emitter.memories[node.number] = memory
        assert first.source is not None, "a scatter has an instruction"
        self.region = first.source.regions[0]
        self.windows_of = scatter_windows(first.type, self.updates[0].type, **first.attrs)
        changed = sum(u.type.nbytes for u in self.updates)
        self.work = Work(self.work.flops, 0, 2 * changed + self.indices.type.nbytes, changed)

    def write(self) -> int:
        """Blocks over what different updates never share, then all index vectors in order."""
        e = self.emitter
        w = self.windows_of
        shape = self.updates[0].type.shape
        sizes = [shape[axis] for axis in w.batch_axes]
        shared = sorted({k for _, k in w.paired})
        own = [k for k in range(len(sizes)) if k not in shared]
        outer, inner = (math.prod(sizes[k] for k in axes) for axes in (shared, own))
        axes = _window_axes(self.graph.results[0])
        self.notes: Memory | None = None
        self.kept: dict[int, Memory] = {}
        self.part: tuple[Operand | int, Operand | int] | None = None
        start: Operand | int = 0
        stop: Operand | int = outer
        grid = 1
        if outer > 1:
            start, stop, grid = self.cut(outer, 1, self.work.blocks)
        elif axes and w.window_dims[w.window_axes.index(axes[-1])] not in w.start_dims:
            lane_start, lane_stop, grid = self.cut(shape[axes[-1]], e.lanes, self.work.blocks)
            self.part = lane_start, lane_stop

        def vectors(base: Operand) -> Sequence[Operand]:
            env = self.unravel(e.index_of(base, outer), [(k, sizes[k]) for k in shared])

            def batch(index: Affine) -> list[Affine]:
                at = env | self.unravel(index, [(k, sizes[k]) for k in own])
                return [at[k] for k in range(len(sizes))]

            def one(base: Operand) -> Sequence[Operand]:
                self._window(batch(e.index_of(base, inner)))
                return ()

            if axes or e.lanes == 1:
                e.sweep(0, inner, 1, (), one)
            else:
                self._singles(batch, inner, outer == 1)
            return ()

        e.sweep(start, stop, 1, (), vectors)
        return grid

    def _place(self, batch: Sequence[Affine]) -> tuple[list[Affine], Operand | None, set[int]]:
        """Where the window of an index vector begins.

        Returns: its place in each axis of the operand; whether that is inside, in the axes in which the window has
            one element (None: nothing to ask); and the other axes with a start, whose elements are asked one by one.
        """
        e = self.emitter
        w = self.windows_of
        operand = self.graph.results[0].type.shape
        place: list[Affine] = [ZERO] * len(operand)
        for d, k in w.paired:
            place[d] = batch[k]
        inside: Operand | None = None
        indices = Reader(e, self.indices)
        bounded: set[int] = set()
        for entry, d in enumerate(w.start_dims):
            start = indices.at(w.vector(batch, entry, indices.type.ndim))
            if start.dtype == U64:
                start = e.compute("min", start, operand[d])  # before it becomes signed
            start = e.cast(start, I64)
            if w.sizes[d] == 1:
                here = e.compute("and", e.compute("ge", start, 0), e.compute("lt", start, operand[d]))
                inside = here if inside is None else e.compute("and", inside, here)
                # Where it is used it is known to be an index.
                known = isinstance(start, Value)
                place[d] = Affine(0, ((e.symbol(start, 0, operand[d] - 1), 1),)) if known else e.affine(start)
            else:
                place[d] = e.affine(start)
                bounded.add(d)
        return place, inside, bounded

    # Windows of one element -----------------------------------------------------------------------

    def _singles(self, batch: Callable[[Affine], list[Affine]], count: int, flat: bool) -> None:
        """Windows of one element: note where they go, a chunk at a time, then apply the updates in order.

        Args:
            batch: the batch index of the window of a number.
            count: how many there are.
            flat: whether the number of a window is the position of its update in memory.
        """
        e = self.emitter
        if self.notes is None:
            self.notes = e.memory("positions", I64, CHUNK, "shared")

        def chunk(base: Operand) -> Sequence[Operand]:
            stop = e.lift(e.compute("min", e.compute("add", base, CHUNK), count), I64)
            entries: list[_Entry] = []

            def note(at: Operand, *seen: Operand) -> Sequence[Operand]:
                index, lanes = e.lane_index(at, count)
                with e.in_lanes(lanes):
                    inside, found = self._note(batch(index), e.compute("sub", at, base), flat)
                entries[:] = found
                return [e.compute("and", seen[0], inside)]

            (seen,) = e.sweep(base, stop, e.lanes, [splat(e, constant(BOOL, True))], note)
            inside: Operand = e.lane_reduce("and", splat(e, seen))
            if count % CHUNK:
                full = e.compute("eq", e.compute("sub", stop, base), CHUNK)
                inside = e.compute("and", inside, full)
            e.if_(
                inside,
                lambda: self._apply(base, entries),
                lambda: self._apply_inside(base, stop, entries),
            )
            return ()

        e.sweep(0, count, CHUNK, (), chunk)

    def _note(self, batch: Sequence[Affine], offset: Operand, flat: bool) -> tuple[Operand, list[_Entry]]:
        """Leave positions and updates of a vector of windows in scratch.

        Returns: per lane whether its window is inside, and how each update is found again.
        """
        e = self.emitter
        w = self.windows_of
        assert e.lanes_at is not None and self.notes is not None, "windows lie along the lanes"
        place, inside, _ = self._place(batch)
        on = e.lanes_at.mask
        if on is not None:
            inside = on if inside is None else e.compute("and", inside, on)
        position = e.materialise(linear(tuple(place), self.graph.results[0].type.shape))
        if inside is not None:
            position = e.compute("select", inside, position, constant(I64, -1))
        position = splat(e, position)
        before = e.lane_shift(position, 1, 0)
        pair = e.compute("or", e.compute("and", before, LOW), e.compute("shl_fast", position, 32))
        e.store(self.notes, offset, pair, "unit")
        update: list[Affine] = [ZERO] * self.updates[0].type.ndim
        for axis, index in zip(w.batch_axes, batch, strict=True):
            update[axis] = index
        entries: list[_Entry] = []
        for k, u in enumerate(self.updates):
            if flat and u.kind == "parameter":
                entries.append(e.memories[u.number])
                continue
            value = Reader(e, u).at(update)
            if isinstance(value, Constant):
                entries.append(value)
                continue
            if k not in self.kept:
                self.kept[k] = e.memory(f"update{k}", u.dtype, CHUNK, "shared")
            e.store(self.kept[k], offset, value, "unit")
            entries.append(self.kept[k])
        return splat(e, constant(BOOL, True) if inside is None else inside), entries

    def _update_at(self, entry: _Entry, base: Operand, k: Operand) -> Operand:
        """The update of window `base + k`."""
        e = self.emitter
        if isinstance(entry, Constant):
            return entry
        return e.load(entry, e.compute("add", base, k) if entry.space == "in" else k, "uniform")

    def _apply(self, base: Operand, entries: list[_Entry]) -> Sequence[Operand]:
        """Apply the updates of a whole chunk, all of them inside."""
        e = self.emitter
        unrolled = max(2, min(16, MOST_UNROLLED // max(1, len(self.region.instructions))) & ~1)
        notes = self.notes
        assert notes is not None, "positions were noted"

        def some(at: Operand) -> Sequence[Operand]:
            for k in range(0, unrolled, 2):
                pair = e.load(notes, e.compute("add", at, k + 1), "uniform")
                positions = e.compute("and", pair, LOW), e.compute("shr_fast", pair, 32)
                for j, position in enumerate(positions):
                    here = e.compute("add", at, k + j)
                    self._combine(
                        position, "uniform", None, [self._update_at(x, base, here) for x in entries]
                    )
            return ()

        e.sweep(0, CHUNK, unrolled, (), some)
        return ()

    def _apply_inside(self, base: Operand, stop: Operand, entries: list[_Entry]) -> Sequence[Operand]:
        """Apply those updates of a chunk that are inside."""
        e = self.emitter
        notes = self.notes
        assert notes is not None, "positions were noted"

        def one(k: Operand) -> Sequence[Operand]:
            position = e.compute("shr_fast", e.load(notes, k, "uniform"), 32)

            def combine() -> Sequence[Operand]:
                self._combine(position, "uniform", None, [self._update_at(x, base, k) for x in entries])
                return ()

            e.if_(e.compute("lt", position, self.graph.results[0].type.size), combine)
            return ()

        e.sweep(0, e.compute("sub", stop, base), 1, (), one)
        return ()

    # Windows of several elements ------------------------------------------------------------------

    def _window(self, batch: Sequence[Affine]) -> None:
        """The window of one index vector."""
        e = self.emitter
        place, inside, bounded = self._place(batch)

        def body() -> Sequence[Operand]:
            self._elements(batch, place, bounded, list(_window_axes(self.graph.results[0])), {})
            return ()

        if inside is None:
            body()
        else:
            e.if_(inside, body)

    def _elements(
        self,
        batch: Sequence[Affine],
        place: Sequence[Affine],
        bounded: set[int],
        axes: list[int],
        env: dict[int, Affine],
    ) -> None:
        """Loops over the axes of the window, the last along the lanes."""
        if not axes:
            self._element(batch, place, bounded, env)
            return
        e = self.emitter
        axis, *rest = axes
        size = self.updates[0].type.shape[axis]

        def body(base: Operand) -> Sequence[Operand]:
            if rest:
                self._elements(batch, place, bounded, rest, {**env, axis: e.index_of(base, size)})
                return ()
            index, lanes = e.lane_index(base, size)
            with e.in_lanes(lanes):
                self._elements(batch, place, bounded, rest, {**env, axis: index})
            return ()

        start, stop = (self.part or (0, size)) if not rest else (0, size)
        e.sweep(start, stop, 1 if rest else e.lanes, (), body)

    def _element(
        self, batch: Sequence[Affine], place: Sequence[Affine], bounded: set[int], env: dict[int, Affine]
    ) -> None:
        """One element of a window, or a vector of them: what is there, combined with the update."""
        e = self.emitter
        w = self.windows_of
        update: list[Affine] = [ZERO] * len(self.updates[0].type.shape)
        for axis, index in zip(w.batch_axes, batch, strict=True):
            update[axis] = index
        target = list(place)
        for axis, d in zip(w.window_axes, w.window_dims, strict=True):
            update[axis] = env.get(axis, ZERO)
            target[d] = target[d].plus(update[axis])
        operand = self.graph.results[0].type.shape
        mask: Operand | None = None
        inside: Operand | None = None
        for d in bounded:
            here = e.is_inside(target[d], operand[d])
            if here is not None and here.varying:
                mask = here if mask is None else e.compute("and", mask, here)
            elif here is not None:
                inside = here if inside is None else e.compute("and", inside, here)

        def combine() -> Sequence[Operand]:
            position = linear(tuple(target), operand)
            kind, index = e.access(position)
            lanes = e.lanes_at.mask if e.lanes_at is not None and kind != "uniform" else None
            on = lanes if mask is None else mask if lanes is None else e.compute("and", mask, lanes)
            self._combine(index, kind, on, [Reader(e, u).at(update) for u in self.updates])
            return ()

        if inside is None:
            combine()
        else:
            e.if_(inside, combine)

    def _combine(self, index: Operand, kind: str, on: Operand | None, new: Sequence[Operand]) -> None:
        """Write the region's results at a position of every operand."""
        e = self.emitter
        memories = [self.outputs[k] for k in range(self.count)]
        needed = _is_read(self.region, self.count)
        other = None if on is None else 0
        old = [
            e.load(m, index, kind, on, other) if needed[k] else constant(m.dtype, 0)  # type: ignore[arg-type]
            for k, m in enumerate(memories)
        ]
        for memory, value in zip(memories, e.inline(self.region, [*old, *new]), strict=True):
            e.store(memory, index, value, kind, on)  # type: ignore[arg-type]


def _is_read(region: Region, count: int) -> list[bool]:
    """Per operand, whether the region looks at what is there."""
    used = {v for i in region.instructions for v in i.operands} | set(region.results)
    return [p in used for p in region.parameters[:count]]
