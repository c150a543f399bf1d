"""dot_general with lanes along the last axis of the right side: a tile of rows in registers.

    for tile of rows: for vector of columns: for k: acc[row] += lhs[row, k] * rhs[k, columns]

then what the region does with the product, on the registers. It applies where the right side's columns lie
next to each other in memory; other layouts go through `reduce`, which is right for all of them.

Source: Goto & van de Geijn 2008 for the register tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from braze.dtypes import BOOL, HALVES, I64
from braze.kernel.build.affine import Affine
from braze.kernel.build.emit import splat
from braze.kernel.build.graph import Node
from braze.kernel.build.launch import Built
from braze.kernel.build.reduce import Product
from braze.kernel.build.schedule import Schedule
from braze.kernel.build.task import Task
from braze.kernel.ir import Operand

ROWS = 8
"""Rows of the register tile: 8 x 2 registers of accumulators of the 32."""
CHAIN = 256
"""Most products that are summed one after another; longer sums are cut, so that the error grows slowly."""


def tiled_dot(task: Task) -> Built | None:
    """The tiled kernel where the region is one such dot with elementwise work around it, else None."""
    graph, target = task.graph, task.target
    if task.overwrites:
        return None
    reductions = graph.reductions
    if len(reductions) != 1 or not reductions[0].is_dot or len(reductions[0].sizes) != 1:
        return None
    product = reductions[0].nodes[0]
    lhs, rhs = reductions[0].picks
    axes = len(product.classes)
    if (
        axes < 2
        or any(r.classes != product.classes for r in graph.results)
        or product.dtype in (*HALVES, BOOL)
        or len(rhs) < 2
        or rhs[-1] != ("r", axes - 1)
        or ("r", axes - 1) in lhs
        or ("r", axes - 2) not in lhs
        or ("r", axes - 2) in rhs
        or product.shape[-1] < target.lanes(product.dtype) // 2
    ):
        return None
    wide = target.lanes(product.dtype, 2)
    lanes = min(wide, 1 << (product.shape[-1] - 1).bit_length())
    schedule = _Tiled(task.name, graph, target, lanes)
    schedule.declare()
    with schedule.emitter.region():
        grid = schedule.write(product)
    return Built((schedule.finish(grid, task.ops),), ())


class _Tiled(Schedule):
    """The loops around the register tile."""

    def write(self, dot: Node) -> int:
        e = self.emitter
        *batch, rows, _ = dot.shape
        self.dot = dot
        self.rows = min(ROWS, rows)
        tiles = math.ceil(rows / self.rows) if rows else 0
        units = tiles * math.prod(batch)
        axes = list(zip(dot.classes[:-2], batch, strict=True))
        start, stop, grid = self.cut(units, 1, self.work.blocks)

        def body(base: Operand) -> Sequence[Operand]:
            unit = e.index_of(base, units)
            outer, tile = e.divide(unit, tiles)
            # The last tile overlaps the one before it: the same values are written twice, nothing is masked.
            first = e.materialise(tile.times(self.rows))
            if rows % self.rows:
                first = e.compute("min", first, rows - self.rows)
            self._product_columns(self.unravel(outer, axes), e.affine(first))
            return ()

        e.sweep(start, stop, 1, (), body)
        return grid

    def _product_columns(self, env: dict[int, Affine], first: Affine) -> None:
        e = self.emitter
        c, size = self.dot.classes[-1], self.dot.shape[-1]

        def body(base: Operand) -> Sequence[Operand]:
            index, lanes = e.lane_index(base, size)
            with e.in_lanes(lanes):
                self._tile({**env, c: index}, first)
            return ()

        e.sweep(0, size, e.lanes, (), body)

    def _tile(self, env: dict[int, Affine], first: Affine) -> None:
        e = self.emitter
        reduction = self.dot.reduction
        assert reduction is not None, "a dot is a reduction"
        product = Product(reduction)
        row_class = self.dot.classes[-2]
        envs = [{**env, row_class: first.plus(j)} for j in range(self.rows)]
        indices = [tuple(v[c] for c in self.dot.classes) for v in envs]
        (depth,) = reduction.sizes

        def step(base: Operand, *sums: Operand) -> Sequence[Operand]:
            k = e.index_of(base, depth)
            out: list[Operand] = []
            for index, total in zip(indices, sums, strict=True):
                terms = [
                    e.at(x, tuple(index[j] if role == "r" else k for role, j in picks))
                    for x, picks in zip(reduction.inputs, reduction.picks, strict=True)
                ]
                out.extend(product.step(e, (total,), terms))
            return out

        def zeros() -> list[Operand]:
            return [splat(e, product.start(e)[0]) for _ in indices]

        def block(base: Operand, *sums: Operand) -> Sequence[Operand]:
            stop = e.compute("min", e.compute("add", base, CHAIN), e.lift(depth, I64))
            part = e.sweep(base, stop, 1, zeros(), step)
            return [product.merge(e, (x,), (y,))[0] for x, y in zip(sums, part, strict=True)]

        if depth <= CHAIN:
            sums = e.sweep(0, depth, 1, zeros(), step)
        else:
            sums = e.sweep(0, depth, CHAIN, zeros(), block)
        for index, total in zip(indices, sums, strict=True):
            e.remember(self.dot, index, product.finish(e, (total,), ())[0])
        for env_row in envs:
            for k, root in enumerate(self.graph.results):
                self.store(k, root, env_row)
