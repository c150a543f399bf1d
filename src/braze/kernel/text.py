"""Text of the kernel IR: printed for readers and goldens; `kernel/parse` reads it back.

    kernel double(x: in f32[1024], y: out f32[1024]) lanes 16 grid 1 block u0 {
      region {
        for u1 in range(0, 1024, 16) {
          v2: f32 = load x[u1] unit
          v3: f32 = mul(v2, 2.0)
          store y[u1] unit = v3
        }
      }
    }

`u` values are uniform, `v` values vary from lane to lane; the numbers follow the order of definition. A bare
integer is i64, a bare float f32; other immediates name their dtype (`7:i32`), and those that are no number
give their bits (`0x7fc00000:f32`).

Invariants:
- The text says all that a kernel is: `parse_kernel(print_kernel(k))` prints as `k` does.
- The printer never raises: it is what one looks at broken IR with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from braze.dtypes import BOOL, F32, FLOATS, I64, short
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
    Operand,
    Region,
    Statement,
    Store,
    Value,
    While,
)

Notes = Mapping[int, Sequence[str]]


def print_kernel(kernel: Kernel, notes: Notes | None = None) -> str:
    """The text of a kernel.

    Args:
        notes: remarks to print under statements, by `id` of the statement.
    """
    return _Printer(notes or {}).kernel(kernel)


def print_statement(statement: Statement) -> str:
    """The first line of a statement by itself, its values numbered from 0 and marked unknown."""
    printer = _Printer({})
    printer.statement(statement)
    return printer.lines[0].strip()


def equal(x: Kernel, y: Kernel) -> bool:
    """Whether two kernels are the same but for the identity of their values."""
    return print_kernel(x) == print_kernel(y)


def print_constant(operand: Constant) -> str:
    dtype = operand.dtype
    if not 0 <= operand.bits < 1 << 8 * dtype.itemsize:
        return f"unfit({operand.bits}:{short(dtype)})"
    if dtype == BOOL:
        return "true" if operand.bits else "false"
    suffix = "" if dtype in (I64, F32) else f":{short(dtype)}"
    value = number(operand)
    if dtype not in FLOATS:
        return f"{value}{suffix}"
    text = str(value)
    if math.isfinite(float(value)) and constant(dtype, dtype.type(text)) == operand:
        return f"{text}{suffix}"
    return f"0x{operand.bits:0{2 * dtype.itemsize}x}:{short(dtype)}"


class _Printer:
    def __init__(self, notes: Notes) -> None:
        self.names: dict[Value, str] = {}
        self.notes = notes
        self.lines: list[str] = []
        self.depth = 0

    def kernel(self, kernel: Kernel) -> str:
        parameters = ", ".join(f"{m.name}: {m.space} {short(m.dtype)}[{m.size}]" for m in kernel.parameters)
        block = self.define(kernel.block)
        self.line(
            f"kernel {kernel.name}({parameters}) lanes {kernel.lanes} grid {kernel.grid} block {block} {{"
        )
        self.depth += 1
        if kernel.strategy:
            self.line(f"strategy {kernel.strategy}")
        if kernel.ops:
            self.line(f"ops {', '.join(kernel.ops)}")
        costs = [getattr(kernel, name) for name in COSTS]
        if any(costs):
            self.line("cost " + ", ".join(f"{name} {cost}" for name, cost in zip(COSTS, costs)))
        for memory in kernel.scratch:
            self.line(f"{memory.space} {memory.name}: {short(memory.dtype)}[{memory.size}]")
        self.depth -= 1
        self.nested(kernel.body)
        self.line("}")
        return "\n".join(self.lines) + "\n"

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def nested(self, statements: Iterable[Statement]) -> None:
        self.depth += 1
        for statement in statements:
            self.statement(statement)
        self.depth -= 1

    def statement(self, statement: Statement) -> None:
        write = _PRINT.get(type(statement))
        if write is None:
            self.line(f"unknown {statement!r}")
        else:
            write(self, statement)
        for note in self.notes.get(id(statement), ()):
            self.line(f"# ^ {note}")

    def define(self, value: Value) -> str:
        name = f"{'v' if value.varying else 'u'}{len(self.names)}"
        # A value that is defined twice keeps its first name, so that the listing shows it.
        return self.names.setdefault(value, name)

    def typed(self, value: Value) -> str:
        return f"{self.define(value)}: {short(value.dtype)}"

    def use(self, operand: Any) -> str:
        if isinstance(operand, Constant):
            return print_constant(operand)
        return self.names.get(operand, "undefined") if isinstance(operand, Value) else repr(operand)

    def uses(self, operands: Iterable[Operand]) -> str:
        return ", ".join(self.use(o) for o in operands)

    def results(self, values: Sequence[Value]) -> str:
        return ", ".join(self.typed(v) for v in values) + " = " if values else ""

    def masked(self, mask: Operand | None) -> str:
        return "" if mask is None else f" mask {self.use(mask)}"

    def _compute(self, s: Compute) -> None:
        operands = self.uses(s.operands)
        self.line(f"{self.typed(s.result)} = {s.opcode}({operands})")

    def _load(self, s: Load) -> None:
        tail = self.masked(s.mask) + ("" if s.other is None else f" else {self.use(s.other)}")
        index = self.use(s.index)
        self.line(f"{self.typed(s.result)} = load {s.memory.name}[{index}] {s.access}{tail}")

    def _store(self, s: Store) -> None:
        place = f"{s.memory.name}[{self.use(s.index)}] {s.access}{' streams' if s.streams else ''}"
        self.line(f"store {place} = {self.use(s.value)}{self.masked(s.mask)}")

    def _atomic(self, s: Atomic) -> None:
        place = f"{s.memory.name}[{self.use(s.index)}]"
        self.line(f"atomic {s.opcode} {place} = {self.use(s.value)}{self.masked(s.mask)}")

    def _lane_reduce(self, s: LaneReduce) -> None:
        operand = self.use(s.operand)
        self.line(f"{self.typed(s.result)} = lane_reduce {s.opcode} {operand}")

    def _lane_shift(self, s: LaneShift) -> None:
        operand, fill = self.use(s.operand), self.use(s.fill)
        self.line(f"{self.typed(s.result)} = lane_shift {operand} by {s.amount} fill {fill}")

    def _extract(self, s: Extract) -> None:
        operand, lane = self.use(s.operand), self.use(s.lane)
        self.line(f"{self.typed(s.result)} = extract {operand}[{lane}]")

    def _call(self, s: Call) -> None:
        operands, mask = self.uses(s.operands), self.masked(s.mask)
        self.line(f"{self.results(s.results)}call {s.symbol}({operands}){mask}")

    def _region(self, s: Region) -> None:
        self.line("region {")
        self.nested(s.body)
        self.line("}")

    def carried(self, carried: Sequence[Value], initial: Sequence[Operand]) -> str:
        entering = [self.use(o) for o in initial]
        pairs = ", ".join(f"{self.typed(c)} = {o}" for c, o in zip(carried, entering))
        return f" with {pairs}" if pairs else ""

    def placed(self, results: Sequence[Value], at: int) -> None:
        """Results are defined after their statement's body, but stand before it on the same line."""
        self.lines[at] = self.lines[at].replace("\0", self.results(results))

    def _for(self, s: For) -> None:
        start, stop = self.use(s.start), self.use(s.stop)
        at = len(self.lines)
        index = self.define(s.index)
        entering = self.carried(s.carried, s.initial)
        self.line(f"\0for {index} in range({start}, {stop}, {s.step}){entering} {{")
        self.nested_yield(s.body, s.yields)
        self.line("}")
        self.placed(s.results, at)

    def nested_yield(self, body: Sequence[Statement], yields: Sequence[Operand]) -> None:
        self.nested(body)
        if yields:
            self.line(f"  yield {self.uses(yields)}")

    def _while(self, s: While) -> None:
        at = len(self.lines)
        self.line(f"\0while{self.carried(s.carried, s.initial)} {{")
        self.nested(s.condition_body)
        self.line(f"  test {self.use(s.condition)}")
        self.line("} do {")
        self.nested_yield(s.body, s.yields)
        self.line("}")
        self.placed(s.results, at)

    def _if(self, s: If) -> None:
        at = len(self.lines)
        self.line(f"\0if {self.use(s.condition)} {{")
        self.nested_yield(s.then, s.then_yields)
        if s.otherwise or s.otherwise_yields:
            self.line("} else {")
            self.nested_yield(s.otherwise, s.otherwise_yields)
        self.line("}")
        self.placed(s.results, at)


COSTS = ("flops", "transcendentals", "bytes_read", "bytes_written")
_PRINT: dict[type, Callable[[_Printer, Any], None]] = {
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
