"""Scans: every prefix (or suffix) along one axis, from a reduce_window that is as wide as the axis.

Along the last axis a vector is scanned in registers by shifts of 1, 2, 4, … lanes, and what came before is
carried from vector to vector; along another axis lanes lie across the columns, each with its own carry. Few
long rows are cut into parts: a first launch takes the totals of the parts, a second one scans each part from
the total of those before it.

Float sums are chained: at most `CHAIN` steps meet one carry, which then joins an outer one, so that the
error grows with log n. The order depends on shapes and target only.

Source: Hillis & Steele, "Data parallel algorithms", 1986, inside a vector; Blelloch 1990 for the two launches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from braze.dtypes import I32, I64
from braze.hlo.ir import Instruction
from braze.kernel.build.launch import BufferName, Built, BuiltLaunch
from braze.kernel.build.reducer import Reducer, bool_opcode
from braze.kernel.build.work import Work
from braze.kernel.builder import Builder
from braze.kernel.ir import Memory, Operand
from braze.target import Target
from braze.types import TensorType

CHAIN = 32
"""Most float terms that meet one carry one after another."""
PART_BYTES = 256 << 10
"""Elements of one part of a row that is shared out, in bytes."""
FEW_ROWS = 8
"""With more rows than this there is enough to share out without cutting them."""
HEAVY = 8
"""Operations of a reducer above which one register of lanes is enough to keep the ports busy."""

Values = Sequence[Operand]


def scan_kernels(instruction: Instruction, name: str, target: Target, axis: int, reverse: bool) -> Built:
    """The launches of a scan along an axis."""
    sizes = instruction.operands[0].type.shape
    outer, n, inner = math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])
    reducer = Reducer(instruction.regions[0])
    wide = max(d.itemsize for d in reducer.dtypes)
    row_bytes = n * sum(d.itemsize for d in reducer.dtypes)
    if inner > 1:
        scan = _Scan(name, instruction, target, reducer, _columns(inner, target, reducer, wide), n, reverse)
        return Built((scan.across(outer, inner),), ())
    lanes = min(max(1, target.vector_bytes // wide), 1 << max(n - 1, 0).bit_length())
    parts = row_bytes // PART_BYTES if outer <= FEW_ROWS and reducer.identity is not None else 0
    if parts < 2:
        scan = _Scan(name, instruction, target, reducer, lanes, n, reverse)
        return Built((scan.rows(outer),), ())
    unit = lanes * CHAIN
    part = unit * math.ceil(n / unit / parts)
    parts = math.ceil(n / part)
    temporary = TensorType((outer * (parts - 1),), reducer.dtypes[0])
    totals = _Scan(f"{name}_totals", instruction, target, reducer, lanes, n, reverse)
    scan = _Scan(name, instruction, target, reducer, lanes, n, reverse)
    return Built((totals.totals(outer, parts, part), scan.parts(outer, parts, part)), (temporary,))


def _columns(inner: int, target: Target, reducer: Reducer, wide: int) -> int:
    registers = 1 if reducer.operations > HEAVY or len(reducer.dtypes) > 1 else 4
    return min(max(1, target.vector_bytes * registers // wide), 1 << (inner - 1).bit_length())


class _Scan:
    """One kernel being written."""

    def __init__(
        self,
        name: str,
        instruction: Instruction,
        target: Target,
        reducer: Reducer,
        lanes: int,
        n: int,
        reverse: bool,
    ) -> None:
        self.b = Builder(name, lanes)
        self.reducer = reducer
        self.n = n
        self.reverse = reverse
        self.operands = instruction.operands
        self.count = len(reducer.dtypes)
        self.buffers: list[BufferName] = []
        self.masks: dict[int, Operand] = {}
        regions = {"regions": instruction.regions}
        cost = instruction.op.cost(*[v.type for v in instruction.operands], **regions, **instruction.attrs)
        elements = sum(v.type.nbytes for v in instruction.operands[: self.count])
        self.work = Work(cost.flops, cost.transcendentals, elements, elements)

    # Memories -------------------------------------------------------------------------------------

    def _memory(self, buffer: BufferName, type: TensorType, written: bool = False) -> Memory:
        kind, k = buffer
        self.buffers.append(buffer)
        name = {"operand": "in", "result": "out", "temporary": "part"}[kind] + str(k)
        return self.b.memory(name, type.dtype, type.size, "out" if written else "in")

    def _inputs(self) -> list[Memory]:
        return [self._memory(("operand", k), self.operands[k].type) for k in range(self.count)]

    def _inits(self) -> list[Memory]:
        return [
            self._memory(("operand", k), self.operands[k].type) for k in range(self.count, 2 * self.count)
        ]

    def _outputs(self) -> list[Memory]:
        return [self._memory(("result", k), self.operands[k].type, True) for k in range(self.count)]

    def _finish(self, grid: int) -> BuiltLaunch:
        w = self.work
        kernel = self.b.finish(
            max(grid, 1),
            ops=("reduce_window",),
            flops=w.flops,
            transcendentals=w.transcendentals,
            bytes_read=w.bytes_read,
            bytes_written=w.bytes_written,
        )
        return BuiltLaunch(kernel, tuple(self.buffers))

    def _cut(self, size: int) -> tuple[Operand | int, Operand | int, int]:
        """Start and stop of this block's part of a loop, and the number of blocks."""
        b = self.b
        part = max(1, math.ceil(size / self.work.blocks))
        grid = math.ceil(size / part)
        if grid <= 1:
            return 0, size, 1
        start = b.compute("mul", b.block, part)
        return start, b.compute("min", b.compute("add", start, part), size), grid

    # Kernels --------------------------------------------------------------------------------------

    def rows(self, outer: int) -> BuiltLaunch:
        """Lanes along the axis, one row after another."""
        b = self.b
        inputs, inits, outputs = self._inputs(), self._inits(), self._outputs()
        with b.region():
            self._prepare()
            start = self._splat([b.load(m, 0, "uniform") for m in inits])
            first, last, grid = self._cut(outer)
            with b.for_(first, last) as row:
                base = b.compute("mul", row, self.n)
                self._chained(
                    0, self.n, start, lambda at, carry: self._vector(at, base, inputs, outputs, carry)
                )
        return self._finish(grid)

    def parts(self, outer: int, parts: int, part: int) -> BuiltLaunch:
        """One part of a row per block, after the totals of the parts before it."""
        b = self.b
        inputs, inits, outputs = self._inputs(), self._inits(), self._outputs()
        totals = self._memory(("temporary", 0), TensorType((outer * (parts - 1),), self.reducer.dtypes[0]))
        with b.region():
            self._prepare()
            row, number = b.compute("div_fast", b.block, parts), b.compute("rem_fast", b.block, parts)
            start: Values = [b.load(m, 0, "uniform") for m in inits]
            start = self._splat(self._before(totals, start, row, number, parts))
            base = b.compute("mul", row, self.n)
            first = b.compute("mul", number, part)
            last = b.compute("min", b.compute("add", first, part), self.n)
            self._chained(
                first, last, start, lambda at, carry: self._vector(at, base, inputs, outputs, carry), part
            )
        return self._finish(outer * parts)

    def _before(
        self, totals: Memory, start: Values, row: Operand, number: Operand, parts: int
    ) -> tuple[Operand, ...]:
        """init ⊕ the totals of the parts before this one, in chains."""
        b, identity = self.b, self.reducer.identity
        assert identity is not None, "rows are cut for known operations only"
        first = b.compute("mul", row, parts - 1)

        def one(p: Operand, *sum_: Operand) -> Values:
            return self.reducer.combine(b, sum_, [b.load(totals, b.compute("add", first, p), "uniform")])

        def chain(p: Operand, *sum_: Operand) -> Values:
            stop = b.compute("min", b.compute("add", p, CHAIN), number)
            return self.reducer.combine(b, sum_, b.loop(p, stop, 1, identity, one, False))

        return b.loop(0, number, CHAIN, start, chain, False)

    def totals(self, outer: int, parts: int, part: int) -> BuiltLaunch:
        """The total of every part but the last of each row, one per block; parts are whole vectors."""
        b, reducer = self.b, self.reducer
        inputs = self._inputs()
        type = TensorType((outer * (parts - 1),), reducer.dtypes[0])
        out = self._memory(("temporary", 0), type, True)
        identity = reducer.identity
        assert identity is not None, "rows are cut for known operations only"
        self.work.bytes_written = type.nbytes
        with b.region():
            row, number = b.compute("div_fast", b.block, parts - 1), b.compute("rem_fast", b.block, parts - 1)
            first = b.compute("mul", number, part)
            if self.reverse:
                first = b.compute("sub", self.n - part, first)
            first = b.compute("add", first, b.compute("mul", row, self.n))
            fresh = self._splat(identity)

            def step(at: Operand, *sum_: Operand) -> Values:
                return reducer.combine(b, sum_, [b.load(inputs[0], at, "unit")])

            def chain(at: Operand, *sum_: Operand) -> Values:
                stop = b.compute("add", at, CHAIN * b.lanes)
                return reducer.combine(b, sum_, b.loop(at, stop, b.lanes, fresh, step))

            total = b.loop(first, b.compute("add", first, part), CHAIN * b.lanes, fresh, chain)
            # In order of the lanes, as the operation may be any that is associative and commutative.
            assert reducer.opcode is not None, "rows are cut for known operations only"
            opcode = bool_opcode(reducer.opcode, reducer.dtypes[0])
            b.store(out, b.block, b.lane_reduce(opcode, total[0]), "uniform")
        return self._finish(outer * (parts - 1))

    def across(self, outer: int, inner: int) -> BuiltLaunch:
        """Lanes across the columns behind the axis, each with its own carry."""
        b, n = self.b, self.n
        inputs, inits, outputs = self._inputs(), self._inits(), self._outputs()
        strips = math.ceil(inner / b.lanes)
        with b.region():
            start = self._splat([b.load(m, 0, "uniform") for m in inits])
            first, last, grid = self._cut(outer * strips)
            with b.for_(first, last) as strip:
                row, column = b.compute("div_fast", strip, strips), b.compute("rem_fast", strip, strips)
                column = b.compute("mul", column, b.lanes)
                mask = None
                if inner % b.lanes:
                    left = b.cast(b.compute("min", b.compute("sub", inner, column), b.lanes), I32)
                    mask = b.compute("lt", b.lane(I32), left)
                base = b.compute("add", b.compute("mul", row, n * inner), column)

                def step(at: Operand, carry: Values) -> tuple[Values, Callable[[Values], None]]:
                    k = b.compute("sub", n - 1, at) if self.reverse else at
                    place = b.compute("add", base, b.compute("mul", k, inner))
                    x = [b.load(m, place, "unit", mask) for m in inputs]
                    total = self._join(carry, x)

                    def write(before: Values) -> None:
                        for m, v in zip(outputs, self._join(before, total) if before else total):
                            b.store(m, place, v, "unit", mask)

                    return total, write

                self._chained(0, n, start, step, step=1)
        return self._finish(grid)

    # Steps ----------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Masks of the shifts, where no fill leaves the first lanes unchanged."""
        b = self.b
        if self.reducer.identity is None:
            reach = 1
            while reach < b.lanes:
                if self.reverse:
                    self.masks[reach] = b.compute("lt", b.lane(I32), b.lanes - reach)
                else:
                    self.masks[reach] = b.compute("ge", b.lane(I32), reach)
                reach *= 2

    def _splat(self, values: Values) -> list[Operand]:
        return [v if v.varying else self.b.compute("splat", v, dtype=v.dtype) for v in values]

    def _join(self, before: Values, after: Values) -> list[Operand]:
        """before ⊕ after, where `before` was met first."""
        return self.reducer.combine(self.b, before, after)

    def _vector(
        self, at: Operand, base: Operand, inputs: Sequence[Memory], outputs: Sequence[Memory], carry: Values
    ) -> tuple[Values, Callable[[Values], None]]:
        """Scan one vector in registers; the new carry, and what writes the result after an outer carry."""
        b, n, lanes = self.b, self.n, self.b.lanes
        mask = None
        if self.reverse:
            place = b.compute("sub", n - lanes, at)
            if n % lanes:
                behind = b.compute("max", place, -lanes)
                mask = b.compute("ge", b.compute("add", b.lane(I32), b.cast(behind, I32)), 0)
        else:
            place = at
            if n % lanes:
                left = b.cast(b.compute("min", b.compute("sub", n, at), lanes), I32)
                mask = b.compute("lt", b.lane(I32), left)
        place = b.compute("add", base, place)
        local: list[Operand] = [b.load(m, place, "unit", mask) for m in inputs]
        reach = 1
        while reach < lanes:
            local = self._shifted(local, reach)
            reach *= 2
        last = 0 if self.reverse else lanes - 1
        found = self._join(carry, local)
        source = local if self.reducer.operations == 1 else found
        ends = self._splat([b.extract(v, last) for v in source])
        following = self._join(carry, ends) if source is local else ends

        def write(before: Values) -> None:
            for m, v in zip(outputs, self._join(before, found) if before else found):
                b.store(m, place, v, "unit", mask)

        return following, write

    def _shifted(self, local: Sequence[Operand], reach: int) -> list[Operand]:
        """Each lane with the one `reach` lanes before it, where there is one."""
        b, identity = self.b, self.reducer.identity
        amount = -reach if self.reverse else reach
        if identity is not None:
            moved: list[Operand] = [b.lane_shift(v, amount, i) for v, i in zip(local, identity)]
            return self._join(moved, local)
        moved = [b.lane_shift(v, amount, 0) for v in local]
        return [b.compute("select", self.masks[reach], x, y) for x, y in zip(self._join(moved, local), local)]

    # Chains ---------------------------------------------------------------------------------------

    def _chained(
        self,
        first: Operand | int,
        last: Operand | int,
        start: Values,
        body: Callable[[Operand, Values], tuple[Values, Callable[[Values], None]]],
        most: int | None = None,
        step: int = 0,
    ) -> None:
        """Run `body` over [first, last); float sums in chains of chains of at most `CHAIN` steps.

        Args:
            body: takes a place and the carry of its chain; gives the next carry and a writer, which is told
                what lies before the chain (nothing, where the carry has it).
            most: the most elements between first and last.
        """
        b, step = self.b, step or self.b.lanes
        trips = -(-(self.n if most is None else most) // step)

        def plain(at: Operand, *carry: Operand) -> Values:
            following, write = body(at, carry)
            write(())
            return following

        if not self.reducer.reassociates or trips <= CHAIN:
            b.loop(first, last, step, start, plain)
            return
        self._level(first, last, step, trips, self._splat(start), None, body)

    def _level(
        self,
        first: Operand | int,
        last: Operand | int,
        step: int,
        trips: int,
        start: Values,
        before: Values | None,
        body: Callable[[Operand, Values], tuple[Values, Callable[[Values], None]]],
    ) -> Values:
        """One level of chains; `before` is what the outer levels hold, the result what this one has summed."""
        b, identity = self.b, self.reducer.identity
        assert identity is not None, "float sums have an identity"
        if trips <= CHAIN:

            def innermost(at: Operand, *carry: Operand) -> Values:
                following, write = body(at, carry)
                write(before or ())
                return following

            return b.loop(first, last, step, start, innermost)
        inner = CHAIN
        while inner * CHAIN < trips:
            inner *= CHAIN
        fresh = self._splat(identity)

        def block(at: Operand, *carry: Operand) -> Values:
            stop = b.compute("min", b.compute("add", at, inner * step), b.lift(last, I64))
            known = carry if before is None else self._join(before, carry)
            return self._join(carry, self._level(at, stop, step, inner, fresh, known, body))

        return b.loop(first, last, inner * step, start, block)
