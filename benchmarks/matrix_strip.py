"""Matrix micro-kernels: a strip of a product from packed panels, all accumulators in registers.

What `benchmarks.micro` measures and tests of the kernel IR run. A holds `rows` rows of the
left factor as a panel [depth][rows]; B holds panels [depth][lanes] of the right factor, one per block of the
grid. Block j writes the tile of `rows` by `lanes` results at column j * lanes. A varying value is as wide as
a tile, so 32 lanes of f32 are two 512-bit registers, and 8 rows take 16 of the 32 there are: enough
independent chains to hide the latency of the multiply-adds.

Invariants:
- Each result is one chain of multiply-adds in the order of the depth, whatever the unrolling.
- Panels are read exactly; whoever packs them fills up the last rows and columns.

Sources: K. Goto & R. van de Geijn 2008, Anatomy of High-Performance Matrix Multiplication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from braze.dtypes import F32, DType
from braze.kernel.builder import Builder, constant
from braze.kernel.ir import Kernel, Memory, Operand, Value
from braze.record import Record


@dataclass(slots=True, eq=False, repr=False)
class Tile(Record):
    """Shape of a micro-kernel's tile.

    Attributes:
        rows: rows of A per panel; lanes: columns of B per panel.
        unroll: steps of the depth per turn of the loop.
    """

    rows: int = 8
    lanes: int = 32
    unroll: int = 4


def multiply_accumulate(
    b: Builder,
    tile: Tile,
    left: tuple[Memory, Operand],
    right: tuple[Memory, Operand],
    depth: int,
    initial: Sequence[Operand],
) -> tuple[Operand, ...]:
    """Add the product of two packed panels to the rows of a tile.

    Args:
        left, right: the memories of the panels and the index of their first element.
        initial: one varying value per row.
    Returns: the rows of the tile.
    """

    def step(k: Operand, sums: Sequence[Operand]) -> list[Operand]:
        """One column of A times one row of B."""
        row = b.load(right[0], b.add(right[1], b.mul(k, tile.lanes)), "unit")
        column = b.add(left[1], b.mul(k, tile.rows))
        factors = [b.load(left[0], b.add(column, r), "uniform") for r in range(tile.rows)]
        return [b.fma(factor, row, total) for factor, total in zip(factors, sums, strict=True)]

    def turn(k: Value, *sums: Operand) -> Sequence[Operand]:
        for offset in range(tile.unroll):
            sums = tuple(step(b.add(k, offset), sums))
        return sums

    whole = depth // tile.unroll * tile.unroll
    sums: tuple[Operand, ...] = tuple(initial)
    if whole:
        sums = b.loop(0, whole, tile.unroll, sums, turn)
    for k in range(whole, depth):
        sums = tuple(step(b.lift(k, b.block.dtype), sums))
    return sums


def matrix_strip(
    name: str, tile: Tile, depth: int, panels: int, dtype: DType = F32, *, accumulate: bool = False
) -> Kernel:
    """A kernel that multiplies one panel of A with every panel of B.

    Buffers: A [depth][rows], B [panels][depth][lanes], C [rows][panels * lanes], all packed.
    Args:
        accumulate: add to C instead of writing it.
    """
    b = Builder(name, tile.lanes)
    width = panels * tile.lanes
    left = b.memory("a", dtype, depth * tile.rows, "in")
    right = b.memory("b", dtype, panels * depth * tile.lanes, "in")
    out = b.memory("c", dtype, tile.rows * width, "inout" if accumulate else "out")
    with b.region():
        first = b.mul(b.block, tile.lanes)
        panel = b.mul(b.block, depth * tile.lanes)
        places = [b.add(first, r * width) for r in range(tile.rows)]
        zero = constant(dtype, 0.0)
        start = [b.load(out, at, "unit") if accumulate else zero for at in places]
        rows = multiply_accumulate(b, tile, (left, b.lift(0, first.dtype)), (right, panel), depth, start)
        for at, row in zip(places, rows, strict=True):
            b.store(out, at, row, "unit")
    flops = 2 * tile.rows * tile.lanes * depth * panels
    read = (left.size + right.size + (out.size if accumulate else 0)) * dtype.itemsize
    return b.finish(
        panels, ops=("dot_general",), flops=flops, bytes_read=read, bytes_written=out.size * dtype.itemsize
    )
