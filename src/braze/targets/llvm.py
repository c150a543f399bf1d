"""Kernel IR to LLVM IR text: one function per kernel.

`emit_kernel` writes `void @name(ptr buffers, i64 first, i64 last, ptr scratch)`, which runs the blocks
[first, last): `buffers` holds the pointers of the launch in the order of the kernel's parameters, `scratch`
points to `scratch_bytes(kernel)` bytes, aligned to 64, that belong to the calling thread.

Varying values are LLVM vectors of all the kernel's lanes; LLVM splits them into registers, which interleaves
independent chains for free. Nothing is left to the loop vectoriser: no middle-end pass runs.

Invariants:
- The text depends on the kernel and the target only, names included.
- Values and memory are `targets/lanes` and `targets/memory`; only control flow and the function are here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braze.kernel.builder import number
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
    Region,
    Statement,
    Store,
    Value,
    While,
)
from braze.target import Target
from braze.targets.memory import ALIGNMENT, LaneMemory
from braze.targets.opcodes import Writer, stored

STACK_BYTES = 64 << 10
"""Scratch memory up to this size lies on the stack, above it in the thread's scratch buffer."""


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


def symbol(kernel: Kernel) -> str:
    """The name of a kernel's function; the prefix keeps `floor` apart from the function of the C library."""
    return f"braze.{kernel.name}"


def emit_kernel(kernel: Kernel, target: Target, module: Module) -> str:
    """Write a kernel's function and add it to the module.

    Returns: the text of the function.
    Raises: UnsupportedError for an element type that this target does not compute with.
    """
    text = _Printer(kernel, target, module).function()
    module.add_function(symbol(kernel), text)
    return text


def kernel_module(kernel: Kernel, target: Target) -> str:
    """The text of a module that holds one kernel."""
    module = Module()
    emit_kernel(kernel, target, module)
    return module.text()


class _Printer(LaneMemory):
    """Walks one kernel: its function, blocks and control flow."""

    def __init__(self, kernel: Kernel, target: Target, module: Module) -> None:
        super().__init__(kernel, Writer(target, module.declare, module.add_function))
        self.module = module

    # The function ---------------------------------------------------------------------------------

    def function(self) -> str:
        w, kernel = self.w, self.kernel
        self._parameters()
        streams = w.reserve()
        self._scratch()
        stack = w.reserve()
        if kernel.grid == 1:
            self.names[kernel.block] = "0"
            self._block(kernel.body)
        else:
            self._grid_loop()
        if self.streams:
            # Stores around the caches are ordered by a full fence only, and whoever waits for this launch reads them.
            w.line("fence seq_cst")
            self.module.add_global("nontemporal", "!0 = !{i32 1}")
            w.lines[streams] = "\n".join(f"  {line}" for line in self._stream_prologue())
        w.line("ret void")
        # Stack slots are found out during the walk, but belong in the entry block.
        w.lines[stack] = "\n".join(f"  {line}" for line in self.stack)
        head = f"define void @{symbol(kernel)}(ptr %buffers, i64 %first, i64 %last, ptr %scratch) nounwind {{"
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
