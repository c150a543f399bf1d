"""Schedules: a graph as one kernel of loop nests, split into blocks of a grid.

Blocks are pieces of 64 to 256 KB of traffic along the outer axes (or along the flat axis of an elementwise
kernel); work that one thread does in less than about 100 us is one block. Several nests in one kernel run
one after another in one block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from braze.dtypes import DType, accumulation_dtype
from braze.kernel.build.affine import ZERO, Affine, Index
from braze.kernel.build.emit import Emitter, Reader, ScratchRow
from braze.kernel.build.graph import Graph, Node
from braze.kernel.build.launch import BufferName, Built, BuiltLaunch
from braze.kernel.build.nest import EXPENSIVE_FLOPS, Nest, flops_per_element, nests, scratch_rows
from braze.kernel.build.reduce import reduce_at
from braze.kernel.build.task import Task
from braze.kernel.build.work import Work
from braze.kernel.halves import row_dtype
from braze.kernel.ir import Memory, Operand, Space
from braze.ops.table import Update
from braze.target import Target


def work_of(graph: Graph) -> Work:
    work = Work()
    for node in graph.nodes:
        cost = node.cost()
        work.flops += cost.flops
        work.transcendentals += cost.transcendentals
    work.bytes_read = sum(p.type.nbytes for p in graph.parameters)
    work.bytes_written = sum(r.type.nbytes for r in graph.results)
    return work


def lane_count(graph: Graph, plans: Sequence[Nest], target: Target) -> int:
    """Two registers of the widest dtype; four for light sums, which wait for one addition after another.

    Functions like exp have enough independent work in two registers, and twice as wide cost twice the
    compile time.
    """
    widest = max((_width(n.dtype) for n in graph.nodes), default=4)
    waits = any(n.lane == "inner" for n in plans) and bool(graph.reductions)
    registers = 4 if waits and not any(flops_per_element(n) >= EXPENSIVE_FLOPS for n in graph.nodes) else 2
    full = max(1, target.vector_bytes * registers // widest)
    longest = 1
    for nest in plans:
        if nest.lane == "outer":
            longest = max(longest, nest.outer[-1][1])
        elif nest.lane == "inner":
            sizes = [s for _, root in nest.roots for _, s in nest.inner_of(root)[-1:]]
            sizes += [s for r in graph.reductions for s in r.sizes]
            longest = max([longest, *sizes])
    return min(full, 1 << (longest - 1).bit_length())


def _width(dtype: DType) -> int:
    return accumulation_dtype(dtype).itemsize


def loop_nests(task: Task) -> Built:
    """One kernel: every nest of loops, one after another."""
    graph, target = task.graph, task.target
    windows: dict[int, Node] = {}
    for result in task.overwrites:
        windows[result] = graph.results[result]
        graph.results[result] = windows[result].operands[1]
    plans = nests(graph, target)
    schedule = Schedule(task.name, graph, target, lane_count(graph, plans, target), windows)
    schedule.declare()
    grid = 1
    with schedule.emitter.region():
        for nest in plans:
            # Several nests are one block, so that each may read what one before it has written.
            grid = schedule.write_nest(nest, schedule.work.blocks if len(plans) == 1 else 1)
    return Built((schedule.finish(grid, task.ops),), ())


class Schedule:
    """One kernel being written: its memories, and the loops around `Emitter.at`.

    A strategy that writes other loops derives from it: it declares memories (`declare`, or `memory` one by
    one), opens `emitter.region()`, writes loops with `cut`, `unravel`, `emitter.sweep` and `store`, and
    calls `finish`. One that keeps the nests and changes what is done at their rows overrides `write_roots`.

    Attributes:
        windows: results that overwrite a window of an operand: the dynamic_update_slice. The graph's result
            is then its update, so that loops run over the window only.
        buffers: operand or result number of each parameter of the kernel.
    """

    def __init__(
        self, name: str, graph: Graph, target: Target, lanes: int, windows: dict[int, Node] | None = None
    ) -> None:
        self.emitter = Emitter(name, lanes, graph)
        self.emitter.reduce = reduce_at
        self.graph = graph
        self.target = target
        self.windows = windows or {}
        self.work = work_of(graph)
        self.buffers: list[BufferName] = []
        self.outputs: dict[int, Memory] = {}

    def declare(self) -> None:
        """A memory per operand that is used, `inout` for those that a result overwrites; then the results."""
        overwritten = {update.operands[0].number for update in self.windows.values()}
        used = {x.number for n in self.graph.nodes for x in n.operands} | {
            r.number for r in self.graph.results
        }
        for k, node in enumerate(self.graph.parameters):
            if node.number in used:
                space = "inout" if node.number in overwritten else "in"
                self.emitter.memories[node.number] = self.memory("operand", k, node, space)
        for k, node in enumerate(self.graph.results):
            if k not in self.windows:
                self.outputs[k] = self.memory("result", k, node, "out")

    def memory(self, kind: Literal["operand", "result"], k: int, node: Node, space: str) -> Memory:
        """Declare the memory of an operand or a result of the region."""
        self.buffers.append((kind, k))
        name = f"{'out' if kind == 'result' else 'in'}{k}"
        return self.emitter.memory(name, node.dtype, node.type.size, space)  # type: ignore[arg-type]

    # Nests ----------------------------------------------------------------------------------------

    def write_nest(self, nest: Nest, blocks: int) -> int:
        """Write one nest; the number of grid blocks it is cut into."""
        if any(size == 0 for _, size in nest.outer):  # its results have no elements
            return 1
        self.emitter.scratch_rows = {}
        for node, position in scratch_rows(nest, self.graph, self.target):
            space: Space = "private" if nest.lane == "outer" else "shared"
            name = f"row{len(self.emitter.scratch)}"
            memory = self.emitter.memory(name, row_dtype(node.dtype), node.shape[position], space)
            self.emitter.scratch_rows[node.number] = ScratchRow(memory, position)
        if nest.lane == "none" or (nest.lane == "inner" and not nest.outer):
            return self._flat(nest, blocks)
        if nest.lane == "outer" and len(nest.outer) == 1:
            return self._lanes_across(nest, blocks)
        return self._rows(nest, blocks)

    def _flat(self, nest: Nest, blocks: int) -> int:
        """No outer axes: one flat axis of lanes, cut into blocks where nothing is reduced."""
        inner = {nest.inner_of(root) for _, root in nest.roots}
        if len(inner) == 1 and len(next(iter(inner))) == 1 and not self.graph.reductions:
            ((_, size),) = next(iter(inner))
            start, stop, grid = self.cut(size, self.emitter.lanes, blocks)
            self._sweep_roots(nest, {}, (start, stop))
            return grid
        self.write_roots(nest, {})
        return 1

    def _lanes_across(self, nest: Nest, blocks: int) -> int:
        """One outer axis, along the lanes."""
        e = self.emitter
        ((c, size),) = nest.outer
        start, stop, grid = self.cut(size, e.lanes, blocks)

        def body(base: Operand) -> Sequence[Operand]:
            index, lanes = e.lane_index(base, size)
            with e.in_lanes(lanes):
                self.write_roots(nest, {c: index})
            return ()

        e.sweep(start, stop, e.lanes, (), body)
        return grid

    def _rows(self, nest: Nest, blocks: int) -> int:
        """Outer axes one row after another; the last of them along the lanes if that is the choice."""
        e = self.emitter
        looped = nest.outer[:-1] if nest.lane == "outer" else nest.outer
        rows = math.prod(s for _, s in looped)
        start, stop, grid = self.cut(rows, 1, blocks)

        def lanes_body(env: dict[int, Affine], base: Operand) -> Sequence[Operand]:
            c, size = nest.outer[-1]
            index, lanes = e.lane_index(base, size)
            with e.in_lanes(lanes):
                self.write_roots(nest, {**env, c: index})
            return ()

        if self._gathers(nest):
            self._columns(nest, start, stop, rows)
            return grid

        def body(base: Operand) -> Sequence[Operand]:
            env = self.unravel(e.index_of(base, rows), looped)
            if nest.lane == "outer":
                e.sweep(0, nest.outer[-1][1], e.lanes, (), lambda b: lanes_body(env, b))
            else:
                self.write_roots(nest, env)
            return ()

        e.sweep(start, stop, 1, (), body)
        return grid

    def _gathers(self, nest: Nest) -> bool:
        """Whether nothing but a last axis is swept, and some operand lies across it in memory."""
        inner = {nest.inner_of(root) for _, root in nest.roots}
        if nest.lane != "inner" or self.graph.reductions or len(inner) != 1:
            return False
        (axes,) = inner
        lane = axes[-1][0] if len(axes) == 1 else -1
        return any(lane in p.classes[:-1] for p in self.graph.parameters)

    def _columns(self, nest: Nest, start: Operand | int, stop: Operand | int, rows: int) -> None:
        """Rows inside, vectors of columns outside: the lines that a gather touches serve the next rows too."""
        e = self.emitter
        ((c, size),) = nest.inner_of(nest.roots[0][1])

        def row(base: Operand, index: Affine) -> Sequence[Operand]:
            env = {**self.unravel(e.index_of(base, rows), nest.outer), c: index}
            for k, root in nest.roots:
                self.store(k, root, env)
            return ()

        def column(base: Operand) -> Sequence[Operand]:
            index, lanes = e.lane_index(base, size)
            with e.in_lanes(lanes):
                e.sweep(start, stop, 1, (), lambda b: row(b, index))
            return ()

        e.sweep(0, size, e.lanes, (), column)

    def cut(self, size: int, step: int, blocks: int) -> tuple[Operand | int, Operand | int, int]:
        """Start and stop of this block's part of a loop, and the number of blocks."""
        e = self.emitter
        part = step * max(1, math.ceil(size / step / blocks))
        grid = math.ceil(size / part)
        if grid <= 1:
            return 0, size, 1
        start = e.compute("mul", e.block, part)
        stop = e.compute("add", start, part)
        return start, stop if size % part == 0 else e.compute("min", stop, size), grid

    def unravel(self, row: Affine, axes: Sequence[tuple[int, int]]) -> dict[int, Affine]:
        """The index along each class of axes (given with their sizes) at a row-major position."""
        env: dict[int, Affine] = {}
        for c, size in reversed(axes[1:]):
            row, env[c] = self.emitter.divide(row, size)
        if axes:
            env[axes[0][0]] = row
        return env

    # Roots ----------------------------------------------------------------------------------------

    def write_roots(self, nest: Nest, env: dict[int, Affine]) -> None:
        """Results without inner axes at this outer index, then the sweeps of the others."""
        for k, root in nest.roots:
            if not nest.inner_of(root):
                self.store(k, root, env)
        self._sweep_roots(nest, env, None)

    def _sweep_roots(
        self, nest: Nest, env: dict[int, Affine], part: tuple[Operand | int, Operand | int] | None
    ) -> None:
        groups: dict[tuple[tuple[int, int], ...], list[tuple[int, Node]]] = {}
        for k, root in nest.roots:
            inner = nest.inner_of(root)
            if inner:
                groups.setdefault(inner, []).append((k, root))
        for inner, roots in groups.items():
            self._sweep(inner, roots, env, part)

    def _sweep(
        self,
        axes: tuple[tuple[int, int], ...],
        roots: list[tuple[int, Node]],
        env: dict[int, Affine],
        part: tuple[Operand | int, Operand | int] | None,
    ) -> None:
        """Loops over inner axes, the last along the lanes unless an outer one is."""
        e = self.emitter
        if not axes:
            for k, root in roots:
                self.store(k, root, env)
            return
        (c, size), rest = axes[0], axes[1:]
        lanes_here = not rest and e.lanes_at is None
        start, stop = part or (0, size)
        with e.sweeping(size) as sweep:

            def body(base: Operand) -> Sequence[Operand]:
                if lanes_here:
                    index, lanes = e.lane_index(base, size, sweep)
                    with e.in_lanes(lanes):
                        self._sweep(rest, roots, {**env, c: index}, None)
                else:
                    self._sweep(rest, roots, {**env, c: e.index_of(base, size, sweep)}, None)
                return ()

            e.sweep(start, stop, e.lanes if lanes_here else 1, (), body)

    def store(self, k: int, root: Node, env: dict[int, Affine]) -> None:
        """Compute a result at the current index and write it where it belongs."""
        e = self.emitter
        index = tuple(env[c] for c in root.classes)
        value = e.at(root, index)
        if k in self.windows:
            self._write_window(self.windows[k], root, index, value)
        else:
            e.write(self.outputs[k], root.shape, index, value)

    def _write_window(self, update: Node, value_node: Node, index: Index, value: Operand) -> None:
        """Write into the operand that the result overwrites, where the update says."""
        e = self.emitter
        assert update.op is not None and isinstance(update.op.kernel, Update), "it has a place"
        at = dict(zip(value_node.dims, index, strict=True))
        full = tuple([at.get(d, ZERO) for d in range(value_node.type.ndim)])
        readers = [Reader(e, x) for x in update.operands]
        place = update.op.kernel.place(e, full, *readers, **update.attrs)
        position = tuple([e.affine(i) for i in place])
        e.write(e.memories[update.operands[0].number], update.type.shape, position, value)

    def finish(self, grid: int, ops: tuple[str, ...]) -> BuiltLaunch:
        """The kernel with its record, and its buffers."""
        kernel = self.emitter.finish(
            max(grid, 1),
            ops=ops,
            flops=self.work.flops,
            transcendentals=self.work.transcendentals,
            bytes_read=self.work.bytes_read,
            bytes_written=self.work.bytes_written,
        )
        return BuiltLaunch(kernel, tuple(self.buffers))
