"""Sliding windows: reduce_window with any reducer, and select_and_scatter.

Lanes lie along the last axis of the result; axes that the window leaves alone are merged. The elements of a
window are met in row-major order; of holes and padding nothing is read. Windows that are scans go to `scan`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from braze.dtypes import BOOL, I32, I64, U32, U64
from braze.hlo.ir import Instruction
from braze.kernel.build.launch import BufferName, Built, BuiltLaunch
from braze.kernel.build.reducer import Reducer, inline
from braze.kernel.build.scan import CHAIN, scan_kernels
from braze.kernel.build.work import Work
from braze.kernel.builder import Builder
from braze.kernel.ir import Memory, Operand
from braze.ops.windows import scan_of, windows_along
from braze.target import Target

UNROLLED = 8
"""Windows up to this wide along the last axis are written out."""

Values = Sequence[Operand]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: sizes of operand and result, and the window along it."""

    size: int
    count: int
    window: int = 1
    stride: int = 1
    base: int = 1
    spread: int = 1
    low: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether the result's index is the operand's."""
        return self.window == self.stride == self.base == 1 and self.low == 0 and self.size == self.count

    @property
    def stays_inside(self) -> bool:
        """Whether every element of every window is one of the operand."""
        reach = (self.count - 1) * self.stride + (self.window - 1) * self.spread - self.low
        return self.base == 1 and self.low <= 0 and reach < self.size


def window_kernels(instruction: Instruction, name: str, target: Target) -> Built:
    """The launches of a reduce_window."""
    sizes = instruction.operands[0].type.shape
    scan = scan_of(sizes, instruction.attrs)
    if scan is not None:
        return scan_kernels(instruction, name, target, *scan)
    reducer = Reducer(instruction.regions[0])
    axes = _axes(instruction)
    wide = max(d.itemsize for d in reducer.dtypes)
    registers = 2 if reducer.operations == 1 and axes[-1].stride == 1 else 1
    lanes = min(max(1, target.vector_bytes * registers // wide), 1 << (axes[-1].count - 1).bit_length())
    return Built((_Sliding(name, instruction, reducer, axes, lanes).write(),), ())


def _axes(instruction: Instruction) -> list[Axis]:
    """The axes, neighbours that the window leaves alone as one; at least one."""
    attrs = instruction.attrs
    rank = len(instruction.operands[0].type.shape)
    ones = (1,) * rank
    found: list[Axis] = []
    for size, w, s, base, spread, (low, high) in zip(
        instruction.operands[0].type.shape,
        attrs["window_dimensions"],
        attrs["window_strides"],
        attrs.get("base_dilations", ones),
        attrs.get("window_dilations", ones),
        attrs["padding"],
        strict=True,
    ):
        count = windows_along(size, w, s, base, spread, low, high)
        axis = Axis(size, count, w, s, base, spread, low)
        if axis.is_plain and found and found[-1].is_plain:
            axis = Axis(size * found[-1].size, count * found[-1].count)
            found.pop()
        found.append(axis)
    return found or [Axis(1, 1)]


class _Sliding:
    """The one kernel of a window that is no scan."""

    def __init__(
        self, name: str, instruction: Instruction, reducer: Reducer, axes: list[Axis], lanes: int
    ) -> None:
        self.b = Builder(name, lanes)
        self.instruction = instruction
        self.reducer = reducer
        self.axes = axes
        self.cuts = reducer.reassociates and math.prod(a.window for a in axes) > CHAIN
        self.mask: Operand | None = None
        self.inputs: list[Memory] = []

    def write(self) -> BuiltLaunch:
        b, reducer, i = self.b, self.reducer, self.instruction
        count = len(reducer.dtypes)
        buffers: list[BufferName] = [("operand", k) for k in range(2 * count)]
        buffers += [("result", k) for k in range(count)]
        self.inputs = [
            b.memory(f"in{k}", v.type.dtype, v.type.size, "in") for k, v in enumerate(i.operands[:count])
        ]
        inits = [b.memory(f"init{k}", v.type.dtype, 1, "in") for k, v in enumerate(i.operands[count:])]
        outputs = [b.memory(f"out{k}", r.type.dtype, r.type.size, "out") for k, r in enumerate(i.results)]
        cost = i.op.cost(*[v.type for v in i.operands], regions=i.regions, **i.attrs)
        read = sum(v.type.nbytes for v in i.operands)
        work = Work(cost.flops, cost.transcendentals, read, sum(r.type.nbytes for r in i.results))
        *outer, last = self.axes
        rows = math.prod(a.count for a in outer)
        part = max(1, math.ceil(rows / work.blocks))
        grid = math.ceil(rows / part)
        with b.region():
            self.start = [b.compute("splat", b.load(m, 0, "uniform"), dtype=m.dtype) for m in inits]
            first = b.compute("mul", b.block, part) if grid > 1 else b.lift(0, I64)
            stop = b.compute("min", b.compute("add", first, part), rows)
            with b.for_(first, stop) as row, b.for_(0, last.count, b.lanes) as column:
                self.mask = None
                if last.count % b.lanes:
                    left = b.cast(b.compute("min", b.compute("sub", last.count, column), b.lanes), I32)
                    self.mask = b.compute("lt", b.lane(I32), left)
                total = self._window(self._unravel(row), column)
                at = b.compute("add", b.compute("mul", row, last.count), column)
                for m, v in zip(outputs, total):
                    b.store(m, at, v, "unit", self.mask)
        kernel = b.finish(
            max(grid, 1),
            ops=("reduce_window",),
            flops=work.flops,
            transcendentals=work.transcendentals,
            bytes_read=work.bytes_read,
            bytes_written=work.bytes_written,
        )
        return BuiltLaunch(kernel, tuple(buffers))

    def _unravel(self, row: Operand) -> list[Operand]:
        """The result's index along every axis but the last."""
        found: list[Operand] = []
        outer = self.axes[:-1]
        for k, axis in reversed(list(enumerate(outer))):
            if k == 0:
                found.append(row)
            else:
                found.append(self.b.compute("rem_fast", row, axis.count))
                row = self.b.compute("div_fast", row, axis.count)
        return found[::-1]

    # One vector of windows ------------------------------------------------------------------------

    def _window(self, index: Sequence[Operand], column: Operand) -> Values:
        """The reduction of the windows at this index and these columns."""
        if not self.cuts:
            return self._along(0, index, column, self.b.lift(0, I64), self.start)
        assert self.reducer.identity is not None, "float sums have an identity"
        fresh = [self.b.compute("splat", v, dtype=v.dtype) for v in self.reducer.identity]
        total = self._along(0, index, column, self.b.lift(0, I64), fresh)
        return self.reducer.combine(self.b, self.start, total)

    def _along(
        self, d: int, index: Sequence[Operand], column: Operand, row: Operand, carry: Values
    ) -> Values:
        """Meet the elements of the window's axes from d on; `row` numbers the operand's rows so far."""
        b, axis = self.b, self.axes[d]
        if d == len(self.axes) - 1:
            return self._columns(axis, column, b.compute("mul", row, axis.size), carry)
        origin = b.compute("sub", b.compute("mul", index[d], axis.stride), axis.low)

        def meet(position: Operand, carry: Values) -> Values:
            inner = b.compute("add", b.compute("mul", row, axis.size), position)
            if not self.cuts:
                return self._along(d + 1, index, column, inner, carry)
            fresh = [b.compute("splat", v, dtype=v.dtype) for v in self.reducer.identity or ()]
            return self.reducer.combine(b, carry, self._along(d + 1, index, column, inner, fresh))

        def step(k: Operand, *carry: Operand) -> Values:
            position = b.compute("add", origin, b.compute("mul", k, axis.spread))
            if axis.base == 1:
                return meet(position, carry)
            return self._in_a_hole(position, axis, carry, meet)

        if axis.window == 1 and axis.stays_inside:
            return meet(origin, carry)
        first, stop = b.lift(0, I64), b.lift(axis.window, I64)
        if not axis.stays_inside and axis.base == 1:
            first = b.compute("max", self._steps(b.compute("sub", 0, origin), axis.spread), 0)
            room = self._steps(b.compute("sub", axis.size, origin), axis.spread)
            stop = b.compute("min", room, axis.window)
        return b.loop(first, stop, 1, carry, step)

    def _steps(self, distance: Operand, spread: int) -> Operand:
        """How many steps of `spread` it takes to go a distance; none for what lies behind."""
        b = self.b
        if spread == 1:
            return distance
        return b.compute("div_fast", b.compute("add", b.compute("max", distance, 0), spread - 1), spread)

    def _in_a_hole(
        self, position: Operand, axis: Axis, carry: Values, meet: Callable[[Operand, Values], Values]
    ) -> Values:
        """Meet the element at a place of a dilated axis, if there is one."""
        b = self.b
        inside = b.compute("and", b.compute("ge", position, 0), b.compute("lt", position, _extent(axis)))
        on = b.compute("eq", b.compute("rem_fast", position, axis.base), 0)
        return b.if_(
            b.compute("and", inside, on),
            lambda: meet(b.compute("div_fast", position, axis.base), carry),
            lambda: carry,
        )

    def _columns(self, axis: Axis, column: Operand, row: Operand, carry: Values) -> Values:
        """Meet the elements of the last axis."""
        b = self.b
        origin = b.compute("sub", b.compute("mul", column, axis.stride), axis.low)

        def step(k: Operand, *carry: Operand) -> Values:
            position = b.compute("add", origin, b.compute("mul", k, axis.spread))
            return self._element(axis, position, row, carry)

        if axis.window <= UNROLLED:
            for k in range(axis.window):
                carry = step(b.lift(k, I64), *carry)
            return carry
        if not self.cuts or axis.window <= CHAIN:
            return b.loop(0, axis.window, 1, carry, step)
        fresh = [b.compute("splat", v, dtype=v.dtype) for v in self.reducer.identity or ()]

        def chain(k: Operand, *carry: Operand) -> Values:
            stop = b.compute("min", b.compute("add", k, CHAIN), axis.window)
            return self.reducer.combine(b, carry, b.loop(k, stop, 1, fresh, step))

        return b.loop(0, axis.window, CHAIN, carry, chain)

    def _element(self, axis: Axis, position: Operand, row: Operand, carry: Values) -> Values:
        """Meet one element per lane: lane l is at position + l · stride."""
        b = self.b
        mask = self.mask
        if axis.stride == axis.base == 1:
            if not axis.stays_inside:
                # As unsigned numbers, what lies before the axis lies far behind it.
                near = (
                    b.cast(b.compute("min", b.compute("max", position, -(1 << 30)), 1 << 30), I32)
                    if axis.size < 1 << 29
                    else position
                )
                wide, unsigned = (I32, U32) if axis.size < 1 << 29 else (I64, U64)
                place = b.bitcast(b.compute("add", b.lane(wide), near), unsigned)
                mask = self._and(mask, b.compute("lt", place, axis.size))
            at, access = b.compute("add", row, position), "unit"
        else:
            place = b.compute("add", b.compute("mul", b.lane(I64), axis.stride), position)
            if not axis.stays_inside:
                inside = b.compute("and", b.compute("ge", place, 0), b.compute("lt", place, _extent(axis)))
                mask = self._and(mask, inside)
            if axis.base != 1:
                mask = self._and(mask, b.compute("eq", b.compute("rem_fast", place, axis.base), 0))
                place = b.compute("div_fast", place, axis.base)
            at, access = b.compute("add", row, place), "gather"
        identity = self.reducer.identity
        fill: Sequence[Operand | None] = identity if identity is not None else [None] * len(self.inputs)
        if mask is None:
            fill = [None] * len(self.inputs)
        x = [b.load(m, at, access, mask, f) for m, f in zip(self.inputs, fill)]  # type: ignore[arg-type]
        met = self.reducer.combine(b, carry, x)
        if mask is None or identity is not None:
            return met
        return [b.compute("select", mask, new, old) for new, old in zip(met, carry)]

    def _and(self, x: Operand | None, y: Operand) -> Operand:
        return y if x is None else self.b.compute("and", x, y)


def _extent(axis: Axis) -> int:
    return (axis.size - 1) * axis.base + 1 if axis.size else 0


# select_and_scatter -----------------------------------------------------------------------------------


def select_and_scatter_kernels(instruction: Instruction, name: str, target: Target) -> Built:
    """One kernel: the operand's init everywhere, then one window after another finds its winner.

    Leading axes that the window leaves alone are shared out among blocks; windows overlap in the others.
    """
    x, source, init = instruction.operands
    select, scatter = instruction.regions
    axes = _axes(instruction)
    whole = axes[0].is_plain and len(axes) > 1
    blocks = axes[0].count if whole else 1
    inner = axes[1:] if whole else axes
    elements, windows = math.prod(a.size for a in inner), math.prod(a.count for a in inner)
    cost = instruction.op.cost(
        *[v.type for v in instruction.operands], regions=instruction.regions, **instruction.attrs
    )
    work = Work(cost.flops, 0, x.type.nbytes + source.type.nbytes, x.type.nbytes)
    part = max(1, math.ceil(blocks / work.blocks))
    grid = max(1, math.ceil(blocks / part))
    b = Builder(name, 1)
    values = b.memory("in0", x.type.dtype, x.type.size, "in")
    sources = b.memory("in1", source.type.dtype, source.type.size, "in")
    start = b.memory("in2", init.type.dtype, 1, "in")
    out = b.memory("out0", x.type.dtype, x.type.size, "out")

    def window(base: Operand, place: Operand, number: Operand) -> None:
        """One window: its winner gets its source element."""
        rest, at = number, []
        for axis in reversed(inner[1:]):
            at.append(b.compute("rem_fast", rest, axis.count))
            rest = b.compute("div_fast", rest, axis.count)
        index = [rest, *reversed(at)]

        def along(d: int, row: Operand, best: Values) -> Values:
            axis = inner[d]
            origin = b.compute("sub", b.compute("mul", index[d], axis.stride), axis.low)
            first, stop = (
                b.compute("max", b.compute("sub", 0, origin), 0),
                b.compute("sub", axis.size, origin),
            )
            stop = b.compute("min", stop, axis.window)

            def step(k: Operand, *best: Operand) -> Values:
                here = b.compute("add", b.compute("mul", row, axis.size), b.compute("add", origin, k))
                return along(d + 1, here, best) if d + 1 < len(inner) else candidate(here, best)

            return b.loop(first, stop, 1, best, step, False)

        def candidate(here: Operand, best: Values) -> Values:
            known, value, found = best
            new = b.load(values, b.compute("add", base, here), "uniform")
            (keeps,) = inline(b, select, (value, new))
            keeps = b.compute("and", found, keeps)
            return (
                b.compute("select", keeps, known, here),
                b.compute("select", keeps, value, new),
                b.lift(True, BOOL),
            )

        zero = b.load(start, 0, "uniform")
        winner, _, found = along(0, b.lift(0, I64), (b.lift(0, I64), zero, b.lift(False, BOOL)))

        def give() -> Values:
            at = b.compute("add", base, winner)
            (new,) = inline(b, scatter, (b.load(out, at, "uniform"), b.load(sources, place, "uniform")))
            b.store(out, at, new, "uniform")
            return ()

        b.if_(found, give)

    with b.region():
        first = b.compute("mul", b.block, part) if grid > 1 else b.lift(0, I64)
        with b.for_(first, b.compute("min", b.compute("add", first, part), blocks)) as row:
            base = b.compute("mul", row, elements)
            with b.for_(0, elements) as i:
                b.store(out, b.compute("add", base, i), b.load(start, 0, "uniform"), "uniform")
            with b.for_(0, windows) as number:
                window(base, b.compute("add", b.compute("mul", row, windows), number), number)
    kernel = b.finish(
        grid,
        ops=("select_and_scatter",),
        flops=work.flops,
        bytes_read=work.bytes_read,
        bytes_written=work.bytes_written,
    )
    buffers: tuple[BufferName, ...] = (("operand", 0), ("operand", 1), ("operand", 2), ("result", 0))
    return Built((BuiltLaunch(kernel, buffers),), ())
