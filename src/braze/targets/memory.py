"""Memory of a kernel in LLVM IR: loads and stores by kind of access, atomics, and code lane by lane.

Masked vector accesses are LLVM's masked intrinsics, which become instructions where the target has them and
branches elsewhere.

Invariants:
- Lanes that a mask leaves out touch no memory; stores of several lanes to one element leave the last lane's.
- `in` buffers may share memory with `out` buffers (results in place), so loads claim nothing about aliasing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from braze.dtypes import BOOL, FLOATS, I64, U8, DType
from braze.kernel.builder import constant
from braze.kernel.ir import (
    Atomic,
    Call,
    Kernel,
    Load,
    Memory,
    Operand,
    Store,
    Value,
)
from braze.targets.lanes import LaneValues
from braze.targets.opcodes import Writer, compute, element, mangled, stored, vector

ALIGNMENT = 64


class LaneMemory(LaneValues):
    """Statements that touch memory or run lane by lane. `pointers` are the addresses of all memories."""

    def __init__(self, kernel: Kernel, w: Writer) -> None:
        super().__init__(kernel, w)
        self.pointers: dict[Memory, str] = {}
        self.stack: list[str] = []
        self.streams: dict[Memory, str] = {}

    def _slot(self, kind: str) -> str:
        """Stack memory for the whole call."""
        name = f"%s{len(self.stack)}"
        self.stack.append(f"{name} = alloca {kind}, align {ALIGNMENT}")
        return name

    # Memory ---------------------------------------------------------------------------------------

    def _address(self, memory: Memory, index: str, kind: str = "i64") -> str:
        if index == "0":
            return self.pointers[memory]
        return self.w.value(
            f"getelementptr {stored(memory.dtype)}, ptr {self.pointers[memory]}, {kind} {index}"
        )

    def _addresses(self, memory: Memory, index: Operand, access: str) -> str:
        """Pointers of all lanes; private memory keeps the lanes' copies of one element side by side."""
        n, w = self.lanes, self.w
        indices, kind = self.vector(index), element(index.dtype)
        lanes = self._lane_numbers(index.dtype)
        if access == "unit":
            indices = w.value(f"add <{n} x {kind}> {indices}, {lanes}")
        if memory.space == "private":
            scaled = w.value(f"mul <{n} x {kind}> {indices}, splat ({kind} {n})")
            indices = w.value(f"add <{n} x {kind}> {scaled}, {lanes}")
        pointer = self.pointers[memory]
        return w.value(f"getelementptr {stored(memory.dtype)}, ptr {pointer}, <{n} x {kind}> {indices}")

    def _is_scalar(self, memory: Memory, access: str) -> bool:
        return self.lanes == 1 or (access == "uniform" and memory.space != "private")

    def _run(self, memory: Memory, index: Operand, access: str) -> str | None:
        """The address of consecutive elements of all lanes, or None where each lane has its own address."""
        if memory.space != "private":
            return self._address(memory, self.scalar(index)) if access == "unit" else None
        if access != "uniform":
            return None
        scaled = compute(self.w, "mul", I64, I64, 1, (self.scalar(index), str(self.lanes)))
        return self._address(memory, scaled)

    def _load(self, s: Load) -> None:
        memory, n = s.memory, self.lanes
        other = s.other if s.other is not None else constant(memory.dtype, 0)
        if self._is_scalar(memory, s.access):
            self.names[s.result] = self._guarded_load(s, other)
            return
        kind, size = stored(memory.dtype), memory.dtype.itemsize
        run = self._run(memory, s.index, s.access)
        if run is not None and s.mask is None:
            loaded = self.w.value(f"load <{n} x {kind}>, ptr {run}, align {size}")
        else:
            mask = "splat (i1 true)" if s.mask is None else self.vector(s.mask)
            filler = self._stored_value(other, True)
            name, where = ("load", f"ptr align {size} {run}")
            suffix = f"{mangled(kind, n)}.p0"
            if run is None:
                addresses = self._addresses(memory, s.index, s.access)
                name, where = "gather", f"<{n} x ptr> align {size} {addresses}"
                suffix = f"{mangled(kind, n)}.v{n}p0"
            loaded = self.w.call(
                f"llvm.masked.{name}.{suffix}", f"<{n} x {kind}>", where, f"<{n} x i1> {mask}",
                f"<{n} x {kind}> {filler}",
            )  # fmt: skip
        self.names[s.result] = self._from_memory(memory.dtype, loaded, n)

    def _guarded_load(self, s: Load, other: Operand) -> str:
        """A scalar load, skipped where its mask is false."""
        w, kind = self.w, element(s.memory.dtype)
        if s.mask is None:
            return self._load_element(s.memory, s.index)
        load, done = w.label("load"), w.label("loaded")
        before, filler = w.block, self.scalar(other)
        w.line(f"br i1 {self.scalar(s.mask)}, label %{load}, label %{done}")
        w.start(load)
        value = self._load_element(s.memory, s.index)
        w.line(f"br label %{done}")
        w.start(done)
        return w.value(f"phi {kind} [ {value}, %{load} ], [ {filler}, %{before} ]")

    def _load_element(self, memory: Memory, index: Operand) -> str:
        address = self._address(memory, self.scalar(index), element(index.dtype))
        loaded = self.w.value(f"load {stored(memory.dtype)}, ptr {address}, align {memory.dtype.itemsize}")
        return self._from_memory(memory.dtype, loaded, 1)

    def _from_memory(self, dtype: DType, loaded: str, n: int) -> str:
        if dtype != BOOL:
            return loaded
        zero = "0" if n == 1 else "zeroinitializer"
        return self.w.value(f"icmp ne {vector('i8', n)} {loaded}, {zero}")

    def _stored_value(self, value: Operand, varying: bool) -> str:
        text = self._as(value, varying)
        if value.dtype != BOOL:
            return text
        n = self.lanes if varying else 1
        return compute(self.w, "cast", BOOL, U8, n, (text,))

    def _store(self, s: Store) -> None:
        memory, n, w = s.memory, self.lanes, self.w
        if self._is_scalar(memory, s.access):
            self._when(s.mask, lambda: self._store_element(memory, s.index, s.value))
            return
        kind, size = stored(memory.dtype), memory.dtype.itemsize
        value = f"<{n} x {kind}> {self._stored_value(s.value, True)}"
        run = self._run(memory, s.index, s.access)
        mask = None if s.mask is None else f"<{n} x i1> {self.vector(s.mask)}"
        if run is None:
            # LLVM orders overlapping elements from the first lane to the last.
            where = f"<{n} x ptr> align {size} {self._addresses(memory, s.index, s.access)}"
            every = mask or f"<{n} x i1> splat (i1 true)"
            w.call_void(f"llvm.masked.scatter.{mangled(kind, n)}.v{n}p0", value, where, every)
        elif s.streams and n * size % ALIGNMENT == 0:
            self._stream(memory, value, run, mask)
        else:
            self._store_run(memory, value, run, mask)

    def _store_run(self, memory: Memory, value: str, run: str, mask: str | None) -> None:
        """Consecutive elements, those of the mask."""
        kind, size = stored(memory.dtype), memory.dtype.itemsize
        if mask is None:
            self.w.line(f"store {value}, ptr {run}, align {size}")
            return
        where = f"ptr align {size} {run}"
        self.w.call_void(f"llvm.masked.store.{mangled(kind, self.lanes)}.p0", value, where, mask)

    def _stream(self, memory: Memory, value: str, run: str, mask: str | None) -> None:
        """Whole cache lines around the caches, if the memory allows it; such stores need their alignment."""
        w = self.w
        at = w.value(f"ptrtoint ptr {run} to i64")
        fits = w.value(f"icmp eq i64 {w.value(f'and i64 {at}, {self._stream_bits(memory)}')}, 0")
        if mask is not None:
            every = w.call(f"llvm.vector.reduce.and.v{self.lanes}i1", "i1", mask)
            fits = w.value(f"and i1 {fits}, {every}")
        around, through, done = w.label("around"), w.label("through"), w.label("stored")
        w.line(f"br i1 {fits}, label %{around}, label %{through}")
        w.start(around)
        w.line(f"store {value}, ptr {run}, align {ALIGNMENT}, !nontemporal !0")
        w.line(f"br label %{done}")
        w.start(through)
        self._store_run(memory, value, run, mask)
        w.line(f"br label %{done}")
        w.start(done)

    def _stream_bits(self, memory: Memory) -> str:
        """The address bits that must be zero for a store to stream: none may be, if the kernel reads the memory.

        A result in the place of an operand has its lines in the cache already, and streaming would throw them out.
        """
        return self.streams.setdefault(memory, f"%stream{len(self.streams)}")

    def _stream_prologue(self) -> list[str]:
        """The definitions of these bits, for the function's entry."""
        lines = []
        for memory, name in self.streams.items():
            mine, shared = self.pointers[memory], "false"
            for k, other in enumerate(m for m in self.kernel.parameters if m.space == "in"):
                lines.append(f"{name}.{k} = icmp eq ptr {mine}, {self.pointers[other]}")
                lines.append(f"{name}.or{k} = or i1 {shared}, {name}.{k}")
                shared = f"{name}.or{k}"
            lines.append(f"{name} = select i1 {shared}, i64 -1, i64 {ALIGNMENT - 1}")
        return lines

    def _store_element(self, memory: Memory, index: Operand, value: Operand) -> None:
        address = self._address(memory, self.scalar(index), element(index.dtype))
        text = self._stored_value(value, False)
        self.w.line(f"store {stored(memory.dtype)} {text}, ptr {address}, align {memory.dtype.itemsize}")

    def _when(self, mask: Operand | None, body: Callable[[], None]) -> None:
        """Write code that runs where a scalar mask holds."""
        if mask is None:
            body()
            return
        then, done = self.w.label("then"), self.w.label("done")
        self.w.line(f"br i1 {self.scalar(mask)}, label %{then}, label %{done}")
        self.w.start(then)
        body()
        self.w.line(f"br label %{done}")
        self.w.start(done)

    # Lane by lane ---------------------------------------------------------------------------------

    def _each_lane(
        self, operands: Sequence[Operand], mask: Operand | None, body: Callable[[list[str], str], None]
    ) -> None:
        """Run code for one lane after the other, in a loop; operands pass through the stack.

        `body` gets the lane's operands and its number.
        """
        w, n = self.w, self.lanes
        if n == 1:
            self._when(mask, lambda: body([self.scalar(o) for o in operands], "0"))
            return
        spilled = [o if isinstance(o, Value) and o.varying else None for o in (*operands, mask)]
        slots = [None if o is None else self._spill(o) for o in spilled]
        head, done = w.label("lane"), w.label("lanes")
        before = w.block
        w.line(f"br label %{head}")
        w.start(head)
        lane, place = w.name(), w.reserve()
        taken = [
            self.scalar(o) if slot is None else self._unspill(o, slot, lane)
            for o, slot in zip(operands, slots)
        ]
        flag = slots[-1]
        if mask is not None and flag is not None:
            run, skip = w.label("then"), w.label("next")
            w.line(f"br i1 {self._unspill(mask, flag, lane)}, label %{run}, label %{skip}")
            w.start(run)
            body(taken, lane)
            w.line(f"br label %{skip}")
            w.start(skip)
        else:
            self._when(mask, lambda: body(taken, lane))
        following = w.value(f"add i64 {lane}, 1")
        w.lines[place] = f"  {lane} = phi i64 [ 0, %{before} ], [ {following}, %{w.block} ]"
        more = w.value(f"icmp ult i64 {following}, {n}")
        w.line(f"br i1 {more}, label %{head}, label %{done}")
        w.start(done)

    def _spill(self, operand: Operand) -> str:
        kind = f"<{self.lanes} x {stored(operand.dtype)}>"
        slot = self._slot(kind)
        self.w.line(f"store {kind} {self._stored_value(operand, True)}, ptr {slot}, align {ALIGNMENT}")
        return slot

    def _unspill(self, operand: Operand, slot: str, lane: str) -> str:
        kind = stored(operand.dtype)
        address = self.w.value(f"getelementptr {kind}, ptr {slot}, i64 {lane}")
        loaded = self.w.value(f"load {kind}, ptr {address}, align {operand.dtype.itemsize}")
        return self._from_memory(operand.dtype, loaded, 1)

    def _atomic(self, s: Atomic) -> None:
        memory, index_kind = s.memory, element(s.index.dtype)

        def update(taken: list[str], lane: str) -> None:
            index = taken[0]
            if memory.space == "private":
                scaled = compute(self.w, "mul", s.index.dtype, I64, 1, (index, str(self.lanes)))
                index = compute(self.w, "add", s.index.dtype, I64, 1, (scaled, lane))
            self._update(s.opcode, memory, self._address(memory, index, index_kind), taken[1])

        self._each_lane((s.index, s.value), s.mask, update)

    def _update(self, opcode: str, memory: Memory, address: str, value: str) -> None:
        w, dtype = self.w, memory.dtype
        kind, size = stored(dtype), dtype.itemsize
        if self.kernel.grid == 1 or not memory.is_parameter:
            # No other thread sees the memory.
            old = self._from_memory(dtype, w.value(f"load {kind}, ptr {address}, align {size}"), 1)
            new = self._combine(opcode, dtype, old, value)
            w.line(f"store {kind} {new}, ptr {address}, align {size}")
            return
        bits = f"i{8 * size}"
        first = w.value(f"load atomic {bits}, ptr {address} monotonic, align {size}")
        head, done = w.label("retry"), w.label("stored")
        before = w.block
        w.line(f"br label %{head}")
        w.start(head)
        seen, place = w.name(), w.reserve()
        old = w.value(f"bitcast {bits} {seen} to {kind}") if dtype in FLOATS else seen
        new = self._combine(opcode, dtype, self._from_memory(dtype, old, 1), value)
        new = w.value(f"bitcast {kind} {new} to {bits}") if dtype in FLOATS else new
        pair = w.value(
            f"cmpxchg ptr {address}, {bits} {seen}, {bits} {new} monotonic monotonic, align {size}"
        )
        found = w.value(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
        swapped = w.value(f"extractvalue {{ {bits}, i1 }} {pair}, 1")
        w.lines[place] = f"  {seen} = phi {bits} [ {first}, %{before} ], [ {found}, %{w.block} ]"
        w.line(f"br i1 {swapped}, label %{done}, label %{head}")
        w.start(done)

    def _combine(self, opcode: str, dtype: DType, old: str, value: str) -> str:
        new = compute(self.w, opcode, dtype, dtype, 1, (old, value))
        return compute(self.w, "cast", BOOL, U8, 1, (new,)) if dtype == BOOL else new

    def _call(self, s: Call) -> None:
        kinds = [element(r.dtype) for r in s.results]
        result = "void" if not kinds else kinds[0] if len(kinds) == 1 else "{ " + ", ".join(kinds) + " }"
        self.w.declare(f"declare {result} @{s.symbol}({', '.join(element(o.dtype) for o in s.operands)})")
        varying = any(o.varying for o in s.operands) or (s.mask is not None and s.mask.varying)
        slots = [self._slot(vector(stored(r.dtype), self.lanes if varying else 1)) for r in s.results]

        def run(taken: list[str], lane: str) -> None:
            typed = ", ".join(f"{element(o.dtype)} {t}" for o, t in zip(s.operands, taken))
            if not kinds:
                self.w.line(f"call void @{s.symbol}({typed})")
                return
            made = self.w.value(f"call {result} @{s.symbol}({typed})")
            for i, value in enumerate(s.results):
                part = self.w.value(f"extractvalue {result} {made}, {i}") if len(kinds) > 1 else made
                self._put(value.dtype, part, slots[i], lane)

        if s.mask is not None:
            for value, slot in zip(s.results, slots):
                zero = f"{vector(stored(value.dtype), self.lanes if varying else 1)} zeroinitializer"
                self.w.line(f"store {zero}, ptr {slot}, align {ALIGNMENT}")
        if varying:
            self._each_lane(s.operands, s.mask, run)
        else:
            self._when(s.mask, lambda: run([self.scalar(o) for o in s.operands], "0"))
        for value, slot in zip(s.results, slots):
            n = self.lanes if value.varying else 1
            loaded = self.w.value(f"load {vector(stored(value.dtype), n)}, ptr {slot}, align {ALIGNMENT}")
            self.names[value] = self._from_memory(value.dtype, loaded, n)

    def _put(self, dtype: DType, value: str, slot: str, lane: str) -> None:
        kind = stored(dtype)
        if dtype == BOOL:
            value = compute(self.w, "cast", BOOL, U8, 1, (value,))
        address = self.w.value(f"getelementptr {kind}, ptr {slot}, i64 {lane}")
        self.w.line(f"store {kind} {value}, ptr {address}, align {dtype.itemsize}")
