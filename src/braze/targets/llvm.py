"""Kernel IR to LLVM IR text: one function per kernel.

`emit_kernel` writes `void @name(ptr buffers, i64 first, i64 last, ptr scratch)`, which runs the blocks
[first, last): `buffers` holds the pointers of the launch in the order of the kernel's parameters, `scratch`
points to `scratch_bytes(kernel)` bytes, aligned to 64, that belong to the calling thread.

Varying values are LLVM vectors of all the kernel's lanes; LLVM splits them into registers, which interleaves
independent chains for free. Nothing is left to the loop vectoriser: no middle-end pass runs.

Invariants:
- The text depends on the kernel and the target only, names included.
- Lanes that a mask leaves out touch no memory; stores of several lanes to one element leave the last lane's.
- `in` buffers may share memory with `out` buffers (results in place), so loads claim nothing about aliasing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braze.dtypes import BOOL, FLOATS, I64, U8, DType
from braze.kernel.builder import constant, number
from braze.kernel.ir import (
    Atomic,
    Call,
    Compute,
    Constant,
    Extract,
    For,
    If,
    Kernel,
    LaneReduce,
    LaneShift,
    Load,
    Memory,
    Operand,
    Region,
    Statement,
    Store,
    Value,
    While,
)
from braze.target import Target
from braze.targets.opcodes import Writer, compute, element, literal, mangled, stored, vector

STACK_BYTES = 64 << 10
"""Scratch memory up to this size lies on the stack, above it in the thread's scratch buffer."""
ALIGNMENT = 64


class Module:
    """The text of one LLVM module while it grows: functions, declarations and globals, each once."""

    def __init__(self) -> None:
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._functions: dict[str, str] = {}

    def declare(self, declaration: str) -> None:
        """Add `declare … @name(…)`."""
        name = declaration[declaration.index("@") : declaration.index("(", declaration.index("@"))]
        known = self._declarations.setdefault(name, declaration)
        assert known == declaration, f"{name} is declared twice: {known} and {declaration}"

    def add_global(self, name: str, text: str) -> None:
        """Add a global variable by its whole line."""
        self._globals[name] = text

    def add_function(self, name: str, text: str) -> None:
        known = self._functions.setdefault(name, text)
        assert known == text, f"{name} is defined twice, differently"

    def text(self) -> str:
        declarations = [d for name, d in self._declarations.items() if name[1:] not in self._functions]
        parts = ["\n".join(self._globals.values()), *self._functions.values(), "\n".join(declarations)]
        return "\n\n".join(part for part in parts if part) + "\n"


def scratch_layout(kernel: Kernel) -> tuple[dict[Memory, int], int]:
    """Byte offsets of private and shared memories, and the size of all of them."""
    offsets, at = {}, 0
    for memory in kernel.scratch:
        offsets[memory] = at
        copies = kernel.lanes if memory.space == "private" else 1
        at += -(-memory.size * copies * memory.dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return offsets, at


def scratch_bytes(kernel: Kernel) -> int:
    """Bytes that the kernel wants from its `scratch` argument, per thread."""
    size = scratch_layout(kernel)[1]
    return size if size > STACK_BYTES else 0


def emit_kernel(kernel: Kernel, target: Target, module: Module) -> str:
    """Write a kernel's function and add it to the module.

    Returns: the text of the function.
    Raises: UnsupportedError for an element type that this target does not compute with.
    """
    text = _Printer(kernel, target, module).function()
    module.add_function(kernel.name, text)
    return text


def kernel_module(kernel: Kernel, target: Target) -> str:
    """The text of a module that holds one kernel."""
    module = Module()
    emit_kernel(kernel, target, module)
    return module.text()


class _Printer:
    """Walks one kernel. `names` are the LLVM values of uniform (scalar) and varying (vector) values."""

    def __init__(self, kernel: Kernel, target: Target, module: Module) -> None:
        self.kernel = kernel
        self.lanes = kernel.lanes
        self.module = module
        self.w = Writer(target, module.declare, module.add_function)
        self.names: dict[Value, str] = {}
        self.pointers: dict[Memory, str] = {}
        self.stack: list[str] = []
        # Vectors of uniform values by scope: what an enclosing block has splatted need not be splatted again.
        self.splats: list[dict[Value, str]] = [{}]

    # The function ---------------------------------------------------------------------------------

    def function(self) -> str:
        w, kernel = self.w, self.kernel
        self._parameters()
        self._scratch()
        stack = w.reserve()
        if kernel.grid == 1:
            self.names[kernel.block] = "0"
            self._block(kernel.body)
        else:
            self._grid_loop()
        w.line("ret void")
        # Stack slots are found out during the walk, but belong in the entry block.
        w.lines[stack] = "\n".join(f"  {line}" for line in self.stack)
        head = f"define void @{kernel.name}(ptr %buffers, i64 %first, i64 %last, ptr %scratch) nounwind {{"
        return "\n".join([head, "entry:", *(line for line in w.lines if line), "}"])

    def _parameters(self) -> None:
        for i, memory in enumerate(self.kernel.parameters):
            slot = self.w.value(f"getelementptr ptr, ptr %buffers, i64 {i}") if i else "%buffers"
            self.pointers[memory] = self.w.value(f"load ptr, ptr {slot}, align 8")

    def _scratch(self) -> None:
        offsets, size = scratch_layout(self.kernel)
        for memory, offset in offsets.items():
            if size > STACK_BYTES:
                self.pointers[memory] = self.w.value(f"getelementptr i8, ptr %scratch, i64 {offset}")
            else:
                copies = self.lanes if memory.space == "private" else 1
                self.pointers[memory] = self._slot(f"[{memory.size * copies} x {stored(memory.dtype)}]")

    def _slot(self, kind: str) -> str:
        """Stack memory for the whole call."""
        name = f"%s{len(self.stack)}"
        self.stack.append(f"{name} = alloca {kind}, align {ALIGNMENT}")
        return name

    def _grid_loop(self) -> None:
        w = self.w
        some = w.value("icmp slt i64 %first, %last")
        head, done = w.label("block"), w.label("done")
        before = w.block
        w.line(f"br i1 {some}, label %{head}, label %{done}")
        w.start(head)
        block, place = w.name(), w.reserve()
        self.names[self.kernel.block] = block
        self._block(self.kernel.body)
        following = w.value(f"add i64 {block}, 1")
        w.lines[place] = f"  {block} = phi i64 [ %first, %{before} ], [ {following}, %{w.block} ]"
        more = w.value(f"icmp slt i64 {following}, %last")
        w.line(f"br i1 {more}, label %{head}, label %{done}")
        w.start(done)

    def _block(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            _EMIT[type(statement)](self, statement)

    def _nested(self, statements: Sequence[Statement]) -> None:
        """A block whose splats are not seen outside; the caller ends it with `_leave` after its yields."""
        self.splats.append({})
        self._block(statements)

    def _leave(self) -> None:
        self.splats.pop()

    # Operands -------------------------------------------------------------------------------------

    def scalar(self, operand: Operand) -> str:
        """A uniform operand, or a varying one of a kernel with one lane."""
        return literal(operand) if isinstance(operand, Constant) else self.names[operand]

    def vector(self, operand: Operand) -> str:
        """An operand with a value per lane."""
        if isinstance(operand, Constant):
            return literal(operand, self.lanes)
        name = self.names[operand]
        if operand.varying or self.lanes == 1:
            return name
        for scope in self.splats:
            if operand in scope:
                return scope[operand]
        made = self.w.splat(element(operand.dtype), name, self.lanes)
        self.splats[-1][operand] = made
        return made

    def _as(self, operand: Operand, varying: bool) -> str:
        return self.vector(operand) if varying else self.scalar(operand)

    def _kind(self, value: Operand, varying: bool | None = None) -> str:
        """LLVM's type of an operand, of each lane if it varies."""
        varies = value.varying if varying is None else varying
        return vector(element(value.dtype), self.lanes if varies else 1)

    # Values ---------------------------------------------------------------------------------------

    def _compute(self, s: Compute) -> None:
        varying, n = s.result.varying, self.lanes if s.result.varying else 1
        if s.opcode == "lane":
            self.names[s.result] = self._lane_numbers(s.result.dtype)
        elif s.opcode == "splat":
            self.names[s.result] = self.vector(s.operands[0])
        elif s.opcode == "select":
            self.names[s.result] = self._select(s)
        else:
            operands = [self._as(o, varying) for o in s.operands]
            opcode = _unguarded(s)
            self.names[s.result] = compute(self.w, opcode, s.operands[0].dtype, s.result.dtype, n, operands)

    def _lane_numbers(self, dtype: DType) -> str:
        if self.lanes == 1:
            return "0"
        kind = element(dtype)
        return "<" + ", ".join(f"{kind} {i}" for i in range(self.lanes)) + ">"

    def _select(self, s: Compute) -> str:
        condition, x, y = s.operands
        varying = s.result.varying
        kind = self._kind(s.result)
        chosen = f"{self._kind(condition)} {self._as(condition, condition.varying)}"
        return self.w.value(f"select {chosen}, {kind} {self._as(x, varying)}, {kind} {self._as(y, varying)}")

    def _lane_reduce(self, s: LaneReduce) -> None:
        value, dtype = self.vector(s.operand), s.operand.dtype
        if self.lanes == 1:
            self.names[s.result] = value
        elif dtype == BOOL:
            self.names[s.result] = self._reduce_bits(s.opcode, value)
        else:
            self.names[s.result] = self._reduce_halves(s.opcode, value, dtype)

    def _reduce_bits(self, opcode: str, value: str) -> str:
        """Flags of all lanes as one integer: x86 and others move a mask to a register in one instruction."""
        n, w = self.lanes, self.w
        bits = w.value(f"bitcast <{n} x i1> {value} to i{n}")
        match opcode:
            case "or" | "max":
                return w.value(f"icmp ne i{n} {bits}, 0")
            case "and" | "min" | "mul":
                return w.value(f"icmp eq i{n} {bits}, -1")
        count = w.call(f"llvm.ctpop.i{n}", f"i{n}", f"i{n} {bits}")
        return w.value(f"trunc i{n} {count} to i1")

    def _reduce_halves(self, opcode: str, value: str, dtype: DType) -> str:
        w, n, kind = self.w, self.lanes, element(dtype)
        while n > 1:
            half = n // 2
            low, high = (
                w.value(
                    f"shufflevector <{n} x {kind}> {value}, <{n} x {kind}> poison, "
                    f"<{half} x i32> <{', '.join(f'i32 {start + i}' for i in range(half))}>"
                )
                for start in (0, half)
            )
            if half == 1:
                low, high = (w.value(f"extractelement <1 x {kind}> {part}, i64 0") for part in (low, high))
            value = compute(w, opcode, dtype, dtype, half, (low, high))
            n = half
        return value

    def _lane_shift(self, s: LaneShift) -> None:
        value, fill, n = self.vector(s.operand), self.vector(s.fill), self.lanes
        kind = self._kind(s.result)
        # Lane n + l of the two operands together is lane l of the fill.
        source = [i - s.amount if 0 <= i - s.amount < n else n + i for i in range(n)]
        if n == 1:
            self.names[s.result] = value if s.amount == 0 else fill
            return
        order = ", ".join(f"i32 {i}" for i in source)
        self.names[s.result] = self.w.value(
            f"shufflevector {kind} {value}, {kind} {fill}, <{n} x i32> <{order}>"
        )

    def _extract(self, s: Extract) -> None:
        value = self.vector(s.operand)
        if self.lanes > 1:
            kind = self._kind(s.operand, True)
            lane = f"{element(s.lane.dtype)} {self.scalar(s.lane)}"
            value = self.w.value(f"extractelement {kind} {value}, {lane}")
        self.names[s.result] = value

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
        if run is not None and s.mask is None:
            w.line(f"store {value}, ptr {run}, align {size}")
            return
        mask = f"<{n} x i1> {'splat (i1 true)' if s.mask is None else self.vector(s.mask)}"
        if run is not None:
            w.call_void(f"llvm.masked.store.{mangled(kind, n)}.p0", value, f"ptr align {size} {run}", mask)
        else:
            # LLVM orders overlapping elements from the first lane to the last.
            where = f"<{n} x ptr> align {size} {self._addresses(memory, s.index, s.access)}"
            w.call_void(f"llvm.masked.scatter.{mangled(kind, n)}.v{n}p0", value, where, mask)

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
        self.module.declare(
            f"declare {result} @{s.symbol}({', '.join(element(o.dtype) for o in s.operands)})"
        )
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

    # Control flow ---------------------------------------------------------------------------------

    def _region(self, s: Region) -> None:
        # One thread runs all lanes at once, so there is nothing to wait for at its end.
        self._block(s.body)

    def _for(self, s: For) -> None:
        """Tested at the bottom, with a test before the loop where it may not run at all."""
        w = self.w
        start, stop = self.scalar(s.start), self.scalar(s.stop)
        initial = [self._as(o, c.varying) for o, c in zip(s.initial, s.carried)]
        before, head, done = w.block, w.label("for"), w.label("end")
        runs = False
        if isinstance(s.start, Constant) and isinstance(s.stop, Constant):
            runs = bool(number(s.start) < number(s.stop))
            if not runs:
                self.names.update(zip(s.results, initial))
                return
        if runs:
            w.line(f"br label %{head}")
        else:
            some = w.value(f"icmp slt i64 {start}, {stop}")
            w.line(f"br i1 {some}, label %{head}, label %{done}")
        w.start(head)
        index, phis = self._phis(s.index, s.carried)
        self._nested(s.body)
        yields = [self._as(o, c.varying) for o, c in zip(s.yields, s.carried)]
        self._leave()
        following = w.value(f"add i64 {index}, {s.step}")
        last = w.block
        self._fill(phis, [start, *initial], before, [following, *yields], last)
        more = w.value(f"icmp slt i64 {following}, {stop}")
        w.line(f"br i1 {more}, label %{head}, label %{done}")
        w.start(done)
        if runs:
            self.names.update(zip(s.results, yields))
            return
        for result, x, y in zip(s.results, initial, yields):
            kind = self._kind(result)
            self.names[result] = w.value(f"phi {kind} [ {x}, %{before} ], [ {y}, %{last} ]")

    def _phis(self, *values: Value | tuple[Value, ...]) -> tuple[str, list[tuple[int, str, str]]]:
        """Places for the phis of a loop's head; the name of the first, and place, name and type of all."""
        flat = [v for group in values for v in (group if isinstance(group, tuple) else (group,))]
        phis = []
        for value in flat:
            self.names[value] = self.w.name()
            phis.append((self.w.reserve(), self.names[value], self._kind(value)))
        return (self.names[flat[0]] if flat else ""), phis

    def _fill(
        self, phis: Sequence[tuple[int, str, str]], x: Sequence[str], before: str, y: Sequence[str], last: str
    ) -> None:
        for (place, name, kind), one, two in zip(phis, x, y):
            self.w.lines[place] = f"  {name} = phi {kind} [ {one}, %{before} ], [ {two}, %{last} ]"

    def _while(self, s: While) -> None:
        w = self.w
        initial = [self._as(o, c.varying) for o, c in zip(s.initial, s.carried)]
        before = w.block
        head, body, done = w.label("while"), w.label("do"), w.label("end")
        w.line(f"br label %{head}")
        w.start(head)
        _, phis = self._phis(s.carried)
        self._nested(s.condition_body)
        w.line(f"br i1 {self.scalar(s.condition)}, label %{body}, label %{done}")
        w.start(body)
        self._nested(s.body)
        yields = [self._as(o, c.varying) for o, c in zip(s.yields, s.carried)]
        self._leave()
        self._leave()
        self._fill(phis, initial, before, yields, w.block)
        w.line(f"br label %{head}")
        w.start(done)
        # The head, where the carried values live, comes before whatever follows the loop.
        self.names.update((result, self.names[c]) for result, c in zip(s.results, s.carried))

    def _if(self, s: If) -> None:
        w = self.w
        then, otherwise, done = w.label("then"), w.label("else"), w.label("end")
        condition = self.scalar(s.condition)
        sides = []
        w.line(f"br i1 {condition}, label %{then}, label %{otherwise}")
        for label, body, yields in (
            (then, s.then, s.then_yields),
            (otherwise, s.otherwise, s.otherwise_yields),
        ):
            w.start(label)
            self._nested(body)
            texts = [self._as(o, r.varying) for o, r in zip(yields, s.results)]
            self._leave()
            sides.append((texts, w.block))
            w.line(f"br label %{done}")
        w.start(done)
        (xs, yes), (ys, no) = sides
        for result, x, y in zip(s.results, xs, ys):
            self.names[result] = w.value(f"phi {self._kind(result)} [ {x}, %{yes} ], [ {y}, %{no} ]")


def _unguarded(s: Compute) -> str:
    """`div_fast` and its kind where a constant operand needs no guard."""
    if s.opcode not in ("div", "rem", "shl", "shr", "sar") or s.operands[0].dtype in FLOATS:
        return s.opcode
    amount = s.operands[1]
    if not isinstance(amount, Constant):
        return s.opcode
    value = int(number(amount))
    harmless = value not in (0, -1) if s.opcode in ("div", "rem") else 0 <= value < 8 * amount.dtype.itemsize
    return f"{s.opcode}_fast" if harmless else s.opcode


_EMIT: dict[type, Callable[[_Printer, Any], None]] = {
    Compute: _Printer._compute,
    Load: _Printer._load,
    Store: _Printer._store,
    For: _Printer._for,
    While: _Printer._while,
    If: _Printer._if,
    LaneReduce: _Printer._lane_reduce,
    LaneShift: _Printer._lane_shift,
    Extract: _Printer._extract,
    Atomic: _Printer._atomic,
    Call: _Printer._call,
    Region: _Printer._region,
}
