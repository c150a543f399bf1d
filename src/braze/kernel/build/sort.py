"""Sorts: keys become unsigned integers of their order, which are sorted by digits, by counting, or by merging.

| rows | how |
|---|---|
| up to `COUNTED` elements | each element's place is the number of elements that come before it, counted in lanes |
| longer, an order of keys | digits of 8 bits from the lowest, stable: counts of all digits in one pass, then a pass each |
| longer, any comparator | runs of 1, 2, 4, … elements are merged, the comparator written out |

One operand alone moves as its key and is turned back at the end; else the places are sorted along, and all
operands are gathered by them. Elements of a row lie next to each other while it is sorted: rows along other
axes than the last are copied in and out.

Invariants: stable; the same for any number of threads, which share out rows.
Source: Knuth, The Art of Computer Programming 3, 5.2.5 (digits), 5.2 algorithm C (counting), 5.2.4 (merging).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from braze.dtypes import BOOL, FLOATS, I32, I64, SIGNED, U8, U16, U32, U64, DType
from braze.hlo.ir import Instruction
from braze.kernel.build.launch import BufferName, Built, BuiltLaunch
from braze.kernel.build.reducer import inline
from braze.kernel.build.work import Work
from braze.kernel.builder import Builder, constant
from braze.kernel.ir import Memory, Operand, Value
from braze.ops.sorting import Key, order_of
from braze.target import Target
from braze.types import TensorType

COUNTED = 128
"""Elements of a row whose places are counted; the work grows with their square."""
DIGIT = 8
BUCKETS = 1 << DIGIT
SHARED_BYTES = 256 << 10
"""Memory that a block keeps for itself; larger rows have temporaries of the launch."""

_UNSIGNED = {1: U8, 2: U16, 4: U32, 8: U64}


def sort_kernels(instruction: Instruction, name: str, target: Target) -> Built:
    """The launch of a sort."""
    order = order_of(instruction.regions[0])
    sizes = instruction.operands[0].type.shape
    axis = instruction.attrs["dimension"] % max(len(sizes), 1)
    n = sizes[axis]
    lanes = min(max(1, target.vector_bytes // 4), 1 << max(n - 1, 0).bit_length())
    sort = _Sort(name, instruction, order, axis, lanes)
    if order is None:
        return sort.merged()
    return sort.counted() if n <= COUNTED else sort.by_digits()


class _Sort:
    """One kernel being written."""

    def __init__(
        self, name: str, instruction: Instruction, order: tuple[Key, ...] | None, axis: int, lanes: int
    ) -> None:
        self.b = Builder(name, lanes)
        self.instruction = instruction
        self.order = order
        self.types = [v.type for v in instruction.operands]
        sizes = self.types[0].shape
        self.outer, self.n, self.inner = math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])
        self.rows = self.outer * self.inner
        cost = instruction.op.cost(*self.types, regions=instruction.regions, **instruction.attrs)
        moved = sum(t.nbytes for t in self.types)
        self.work = Work(cost.flops, 0, moved, moved)
        self.buffers: list[BufferName] = []
        self.temporaries: list[TensorType] = []
        self.inputs = [self._parameter(("operand", k), f"in{k}", t, "in") for k, t in enumerate(self.types)]
        self.outputs = [self._parameter(("result", k), f"out{k}", t, "out") for k, t in enumerate(self.types)]
        self.part = max(1, math.ceil(self.rows / self.work.blocks))
        self.grid = math.ceil(self.rows / self.part)

    def _parameter(self, buffer: BufferName, name: str, type: TensorType, space: str) -> Memory:
        self.buffers.append(buffer)
        return self.b.memory(name, type.dtype, type.size, space)  # type: ignore[arg-type]

    def _room(self, name: str, dtype: DType) -> Memory:
        """Memory for the elements of one row."""
        if self.n * dtype.itemsize <= SHARED_BYTES:
            return self.b.memory(name, dtype, self.n, "shared")
        type = TensorType((self.grid * self.n,), dtype)
        self.temporaries.append(type)
        return self._parameter(("temporary", len(self.temporaries) - 1), name, type, "out")

    def _start(self, memory: Memory) -> Operand:
        """Where this block's row begins in such memory."""
        return self.b.compute("mul", self.b.block, self.n) if memory.is_parameter else self.b.lift(0, I64)

    def _each_row(self, body: Callable[[Operand], None]) -> None:
        """Write the row with this base: its elements are at base + k · inner."""
        b = self.b
        first = b.compute("mul", b.block, self.part) if self.grid > 1 else b.lift(0, I64)
        stop = b.compute("min", b.compute("add", first, self.part), self.rows)
        with b.for_(first, stop) as row:
            if self.inner == 1:
                body(b.compute("mul", row, self.n))
            else:
                outer, column = (b.compute(f"{o}_fast", row, self.inner) for o in ("div", "rem"))
                body(b.compute("add", b.compute("mul", outer, self.n * self.inner), column))

    def _finish(self) -> Built:
        kernel = self.b.finish(
            max(self.grid, 1),
            ops=("sort",),
            flops=self.work.flops,
            bytes_read=self.work.bytes_read,
            bytes_written=self.work.bytes_written,
        )
        return Built((BuiltLaunch(kernel, tuple(self.buffers)),), tuple(self.temporaries))

    # Vectors of a row -----------------------------------------------------------------------------

    def _vectors(self, body: Callable[[Operand, Operand | None], None]) -> None:
        """For each vector of a row: the number of its first element, and the mask of those inside."""
        b = self.b
        with b.for_(0, self.n, b.lanes) as i:
            mask = None
            if self.n % b.lanes:
                left = b.cast(b.compute("min", b.compute("sub", self.n, i), b.lanes), I32)
                mask = b.compute("lt", b.lane(I32), left)
            body(i, mask)

    def _place(self, base: Operand, index: Operand) -> tuple[str, Operand]:
        """The access and index of the row's elements: `index` names them one by one, or is the first's."""
        b = self.b
        if not index.varying:
            if self.inner == 1:
                return "unit", b.compute("add", base, index)
            index = b.compute("add", b.lane(I64), index)
        return "gather", b.compute("add", b.compute("mul", index, self.inner), base)

    def _read(self, k: int, base: Operand, index: Operand, mask: Operand | None) -> Value:
        access, at = self._place(base, index)
        return self.b.load(self.inputs[k], at, access, mask)  # type: ignore[arg-type]

    def _write(self, k: int, base: Operand, index: Operand, value: Operand, mask: Operand | None) -> None:
        access, at = self._place(base, index)
        self.b.store(self.outputs[k], at, value, access, mask)  # type: ignore[arg-type]

    # Keys -----------------------------------------------------------------------------------------

    def _rank(self, x: Operand, key: Key) -> Operand:
        """Unsigned integers in the order of a key, as wide as the operand but at least 32 bits."""
        b = self.b
        if x.dtype == BOOL:
            bits = b.cast(x, U32)
            return b.compute("xor", bits, 1) if key.descending else bits
        unsigned = _UNSIGNED[x.dtype.itemsize]
        top = 1 << (8 * unsigned.itemsize - 1)
        if x.dtype in FLOATS:
            zero, nan = b.compute("eq", x, 0.0), b.compute("ne", x, x)
            signed = b.bitcast(x, _signed(unsigned))
            flip = b.compute("sar_fast", signed, 8 * unsigned.itemsize - 1)
            flip = b.compute("or", b.bitcast(flip, unsigned), top)
            bits = b.compute("xor", b.bitcast(x, unsigned), flip)
            if not key.total:
                bits = b.compute("select", zero, constant(unsigned, top), bits)
                bits = b.compute("select", nan, constant(unsigned, -1), bits)
        else:
            bits = b.bitcast(x, unsigned)
            bits = b.compute("xor", bits, top) if x.dtype in SIGNED else bits
        bits = b.compute("not", bits) if key.descending else bits
        return bits if unsigned.itemsize >= 4 else b.cast(bits, U32)

    def _unrank(self, bits: Operand, dtype: DType, key: Key) -> Operand:
        """The element of a key; -0.0 is lost, and all NaN are one."""
        b = self.b
        if dtype == BOOL:
            bits = b.compute("xor", bits, 1) if key.descending else bits
            return b.compute("ne", bits, 0)
        unsigned = _UNSIGNED[dtype.itemsize]
        bits = b.cast(bits, unsigned)
        bits = b.compute("not", bits) if key.descending else bits
        top = 1 << (8 * unsigned.itemsize - 1)
        if dtype in FLOATS:
            signed = b.bitcast(bits, _signed(unsigned))
            flip = b.compute("not", b.compute("sar_fast", signed, 8 * unsigned.itemsize - 1))
            flip = b.compute("or", b.bitcast(flip, unsigned), top)
            return b.bitcast(b.compute("xor", bits, flip), dtype)
        return b.bitcast(b.compute("xor", bits, top) if dtype in SIGNED else bits, dtype)

    # By counting ----------------------------------------------------------------------------------

    def counted(self) -> Built:
        """An element's place is the number of those that are less, and of equal ones before it."""
        b, order = self.b, self.order
        assert order is not None, "only orders are counted"
        keys = [b.memory(f"key{j}", self._key_dtype(key), self.n, "shared") for j, key in enumerate(order)]

        def row(base: Operand) -> None:
            def rank(i: Operand, mask: Operand | None) -> None:
                for key, memory in zip(order, keys):
                    b.store(memory, i, self._rank(self._read(key.operand, base, i, mask), key), "unit", mask)

            self._vectors(rank)
            self._vectors(lambda i, mask: count(base, i, mask))

        def count(base: Operand, i: Operand, mask: Operand | None) -> None:
            mine = [b.load(m, i, "unit", mask) for m in keys]
            number = b.compute("add", b.lane(I32), b.cast(i, I32))

            def step(j: Operand, places: Operand) -> Sequence[Operand]:
                earlier = b.compute("lt", b.cast(j, I32), number)
                ahead: Operand | None = None
                for m, x in reversed(list(zip(keys, mine))):
                    y = b.load(m, j, "uniform")
                    tie = b.compute("eq", y, x)
                    less = b.compute("lt", y, x)
                    ahead = b.compute("or", less, b.compute("and", tie, earlier if ahead is None else ahead))
                assert ahead is not None, "orders have keys"
                return (b.compute("add", places, b.cast(ahead, I32)),)

            zero = b.compute("splat", b.lift(0, I32), dtype=I32)
            (places,) = b.loop(0, self.n, 1, (zero,), step)
            at = b.cast(places, I64)
            for k in range(len(self.types)):
                self._write(k, base, at, self._read(k, base, i, mask), mask)

        with b.region():
            self._each_row(row)
        return self._finish()

    def _key_dtype(self, key: Key) -> DType:
        size = self.types[key.operand].dtype.itemsize
        return U64 if size == 8 else U32

    # By digits ------------------------------------------------------------------------------------

    def by_digits(self) -> Built:
        """Keys from the least significant one, each by its digits from the lowest."""
        b, order = self.b, self.order
        assert order is not None, "only orders have digits"
        alone = len(self.types) == 1
        wide = max((self._key_dtype(key) for key in order), key=lambda d: d.itemsize)
        # 32-bit keys and their places travel as one number, the place in its lower half.
        packed = not alone and wide == U32
        element = U64 if packed else wide
        rooms = [self._room(name, element) for name in ("a", "b")]
        places = [self._room(name, U32) for name in ("c", "d")] if not alone and not packed else []
        counts = b.memory("counts", U32, BUCKETS * max(map(self._digits, order)), "shared")

        def row(base: Operand) -> None:
            side = 0
            for turn, key in enumerate(reversed(order)):
                self._load_keys(base, key, turn == 0, rooms, places, side, packed, counts)
                side = self._sort_key(key, rooms, places, side, packed, counts)
            if alone:
                self._unload(base, order[0], rooms[side])
            else:
                self._gather(base, rooms[side], places[side] if places else None)

        with b.region():
            self._each_row(row)
        return self._finish()

    def _digits(self, key: Key) -> int:
        dtype = self.types[key.operand].dtype
        return 1 if dtype == BOOL else dtype.itemsize

    def _load_keys(
        self,
        base: Operand,
        key: Key,
        first: bool,
        rooms: Sequence[Memory],
        places: Sequence[Memory],
        side: int,
        packed: bool,
        counts: Memory,
    ) -> None:
        """The row's keys in the order of the places so far, and the counts of all their digits."""
        b, room = self.b, rooms[side]
        start = self._start(room)
        start_places = self._start(places[side]) if places else start

        def load(i: Operand, mask: Operand | None) -> None:
            at = b.compute("add", start, i)
            if first:
                index: Operand = i
                place = b.compute("add", b.lane(U32), b.cast(i, U32))
            elif packed:
                place = b.cast(b.load(room, at, "unit", mask), U32)
                index = b.cast(place, I64)
            else:
                place = b.load(places[side], b.compute("add", start_places, i), "unit", mask)
                index = b.cast(place, I64)
            bits = self._rank(self._read(key.operand, base, index, mask), key)
            if packed:
                high = b.compute("shl_fast", b.cast(bits, U64), 32)
                bits = b.compute("or", high, b.cast(place, U64))
            b.store(room, at, b.cast(bits, room.dtype), "unit", mask)
            if places and first:
                b.store(places[side], b.compute("add", start_places, i), place, "unit", mask)

        self._vectors(load)
        digits = self._digits(key)
        with b.for_(0, BUCKETS * digits, b.lanes) as k:
            b.store(counts, k, b.compute("splat", b.lift(0, U32), dtype=U32), "unit")
        with b.for_(0, self.n) as i:
            element = b.load(room, b.compute("add", start, i), "uniform")
            for d in range(digits):
                at = b.compute("add", self._digit(element, d, packed), d * BUCKETS)
                b.store(counts, at, b.compute("add", b.load(counts, at, "uniform"), 1), "uniform")
        for d in range(digits):

            def running(k: Operand, total: Operand, d: int = d) -> Sequence[Operand]:
                at = b.compute("add", k, d * BUCKETS)
                here = b.load(counts, at, "uniform")
                b.store(counts, at, total, "uniform")
                return (b.compute("add", total, here),)

            b.loop(0, BUCKETS, 1, (b.lift(0, U32),), running, False)

    def _digit(self, element: Operand, d: int, packed: bool) -> Operand:
        b = self.b
        shift = DIGIT * d + (32 if packed else 0)
        digit = b.compute("shr_fast", element, shift) if shift else element
        return b.cast(b.compute("and", digit, BUCKETS - 1), I64)

    def _sort_key(
        self,
        key: Key,
        rooms: Sequence[Memory],
        places: Sequence[Memory],
        side: int,
        packed: bool,
        counts: Memory,
    ) -> int:
        """One pass for each digit, from one room to the other; the room in which the last one ends."""
        b = self.b
        for d in range(self._digits(key)):
            columns = [(rooms[side], rooms[1 - side])]
            columns += [(places[side], places[1 - side])] if places else []
            with b.for_(0, self.n) as i:
                values = [b.load(m, b.compute("add", self._start(m), i), "uniform") for m, _ in columns]
                counter = b.compute("add", self._digit(values[0], d, packed), d * BUCKETS)
                count = b.load(counts, counter, "uniform")
                b.store(counts, counter, b.compute("add", count, 1), "uniform")
                to = b.cast(count, I64)
                for (_, target), value in zip(columns, values):
                    b.store(target, b.compute("add", self._start(target), to), value, "uniform")
            side = 1 - side
        return side

    def _unload(self, base: Operand, key: Key, room: Memory) -> None:
        """The keys back as elements; zeros as they were, where one of them is negative."""
        b = self.b
        start = self._start(room)
        dtype = self.types[0].dtype

        def unload(i: Operand, mask: Operand | None) -> None:
            bits = b.load(room, b.compute("add", start, i), "unit", mask)
            self._write(0, base, i, self._unrank(bits, dtype, key), mask)

        self._vectors(unload)
        if dtype in FLOATS and not key.total:
            self._restore_zeros(base, key)

    def _restore_zeros(self, base: Operand, key: Key) -> None:
        """Negative zeros equal positive ones: a stable sort leaves them in the order in which they came."""
        b = self.b
        dtype = self.types[0].dtype
        unsigned = _UNSIGNED[dtype.itemsize]
        first = "gt" if key.descending else "lt"
        minus = constant(unsigned, 1 << (8 * unsigned.itemsize - 1))

        def look(i: Operand, ahead: Operand, negative: Operand) -> Sequence[Operand]:
            at, mask = i, None
            if self.n % b.lanes:
                left = b.cast(b.compute("min", b.compute("sub", self.n, i), b.lanes), I32)
                mask = b.compute("lt", b.lane(I32), left)
            x = self._read(0, base, at, mask)
            before = b.compute(first, x, 0.0)
            if key.descending:
                before = b.compute("or", before, b.compute("ne", x, x))
            here = b.compute("eq", b.bitcast(x, unsigned), minus)
            return b.compute("add", ahead, b.cast(before, I32)), b.compute("or", negative, here)

        zeros = b.compute("splat", b.lift(0, I32), dtype=I32)
        no = b.compute("splat", b.lift(False, BOOL), dtype=BOOL)
        ahead, negative = b.loop(0, self.n, b.lanes, (zeros, no), look)

        def again() -> Sequence[Operand]:
            start = b.cast(b.lane_reduce("add", ahead), I64)

            def one(i: Operand, to: Operand) -> Sequence[Operand]:
                x = b.load(self.inputs[0], self._at(base, i), "uniform")
                zero = b.compute("eq", x, 0.0)

                def write() -> Sequence[Operand]:
                    b.store(self.outputs[0], self._at(base, to), x, "uniform")
                    return (b.compute("add", to, 1),)

                return b.if_(zero, write, lambda: (to,))

            b.loop(0, self.n, 1, (start,), one, False)
            return ()

        b.if_(b.lane_reduce("or", negative), again)

    def _at(self, base: Operand, i: Operand) -> Operand:
        return self.b.compute("add", base, self.b.compute("mul", i, self.inner))

    def _gather(self, base: Operand, room: Memory, places: Memory | None) -> None:
        """All operands by their places."""
        b = self.b
        memory = room if places is None else places
        start = self._start(memory)

        def gather(i: Operand, mask: Operand | None) -> None:
            place = b.load(memory, b.compute("add", start, i), "unit", mask)
            index = b.cast(b.cast(place, U32), I64)
            for k in range(len(self.types)):
                self._write(k, base, i, self._read(k, base, index, mask), mask)

        self._vectors(gather)

    # By merging -----------------------------------------------------------------------------------

    def merged(self) -> Built:
        """Runs of places, merged two and two; a later element goes first only if the comparator says less."""
        b, n = self.b, self.n
        rooms = [self._room(name, U32) for name in ("a", "b")]

        def row(base: Operand) -> None:
            start = self._start(rooms[0])

            def number(i: Operand, mask: Operand | None) -> None:
                place = b.compute("add", b.lane(U32), b.cast(i, U32))
                b.store(rooms[0], b.compute("add", start, i), place, "unit", mask)

            self._vectors(number)

            def two_levels(width: Operand) -> Sequence[Operand]:
                self._merge_level(base, rooms[0], rooms[1], start, width)
                self._merge_level(base, rooms[1], rooms[0], start, b.compute("mul", width, 2))
                return (b.compute("mul", width, 4),)

            b.while_((b.lift(1, I64),), lambda width: b.compute("lt", width, n), two_levels, (False,))
            self._gather(base, rooms[0], None)

        with b.region():
            self._each_row(row)
        return self._finish()

    def _merge_level(
        self, base: Operand, source: Memory, target: Memory, start: Operand, width: Operand
    ) -> None:
        b, n = self.b, self.n
        double = b.compute("mul", width, 2)

        def pair(at: Operand) -> Sequence[Operand]:
            middle = b.compute("min", b.compute("add", at, width), n)
            stop = b.compute("min", b.compute("add", at, double), n)

            def step(k: Operand, i: Operand, j: Operand) -> Sequence[Operand]:
                def place(where: Operand) -> Operand:
                    inside = b.compute("add", start, b.compute("min", where, n - 1))
                    return b.load(source, inside, "uniform")

                left, right = place(i), place(j)
                scalars: list[Operand] = []
                for memory in self.inputs:
                    for p in (right, left):
                        scalars.append(b.load(memory, self._at(base, b.cast(p, I64)), "uniform"))
                (less,) = inline(b, self.instruction.regions[0], scalars)
                takes = b.compute("or", b.compute("ge", i, middle), less)
                takes = b.compute("and", b.compute("lt", j, stop), takes)
                b.store(
                    target, b.compute("add", start, k), b.compute("select", takes, right, left), "uniform"
                )
                moved = b.cast(takes, I64)
                return b.compute("add", i, b.compute("sub", 1, moved)), b.compute("add", j, moved)

            b.loop(at, stop, 1, (at, middle), step, False)
            return (b.compute("add", at, double),)

        b.while_((b.lift(0, I64),), lambda at: b.compute("lt", at, n), pair, (False,))


def _signed(unsigned: DType) -> DType:
    return next(d for d in SIGNED if d.itemsize == unsigned.itemsize)
