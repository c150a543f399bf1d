"""Values of a kernel in LLVM IR: operands, opcodes, and where lanes meet.

A uniform value is a scalar, a varying one a vector of all the kernel's lanes; with one lane both are scalars.
`LaneValues` keeps their names; `targets/memory` adds memory, `targets/llvm` control flow.
"""

from __future__ import annotations

from braze.dtypes import BOOL, FLOATS, DType, is_float
from braze.kernel.builder import number
from braze.kernel.ir import (
    Compute,
    Constant,
    Extract,
    Kernel,
    LaneReduce,
    LaneShift,
    Operand,
    Value,
)
from braze.targets.opcodes import Writer, compute, element, literal, vector


class LaneValues:
    """Names of uniform (scalar) and varying (vector) values, and the statements that only compute."""

    def __init__(self, kernel: Kernel, w: Writer) -> None:
        self.kernel = kernel
        self.lanes = kernel.lanes
        self.w = w
        self.names: dict[Value, str] = {}
        # Vectors of uniform values by scope: what an enclosing block has splatted need not be splatted again.
        self.splats: list[dict[Value, str]] = [{}]

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
        elif s.opcode in ("min", "max") and is_float(dtype):
            self.names[s.result] = self._reduce_extreme(s.opcode, value, dtype)
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

    def _reduce_extreme(self, opcode: str, value: str, dtype: DType) -> str:
        """The largest or smallest float of all lanes, by comparisons that look neither at NaN nor at signs of zero.

        Both show in masks of all lanes, once, in place of five `llvm.maximum`, which take LLVM 9 ms.
        """
        n, w, kind = self.lanes, self.w, element(dtype)
        found = self._reduce_halves(f"{opcode}_fast", value, dtype)
        nan = self._reduce_bits("or", w.value(f"fcmp uno <{n} x {kind}> {value}, {value}"))
        integer = f"i{8 * dtype.itemsize}"
        bits = w.value(f"bitcast <{n} x {kind}> {value} to <{n} x {integer}>")
        # The zero that wins over the other one: +0 as a maximum, -0 as a minimum.
        wins = 0 if opcode == "max" else -(1 << (8 * dtype.itemsize - 1))
        is_winner = w.value(f"icmp eq <{n} x {integer}> {bits}, splat ({integer} {wins})")
        winner = self._reduce_bits("or", is_winner)
        first, second = ("0.0", "-0.0") if opcode == "max" else ("-0.0", "0.0")
        zero = w.value(f"select i1 {winner}, {kind} {first}, {kind} {second}")
        is_zero = w.value(f"fcmp oeq {kind} {found}, 0.0")
        signed = w.value(f"select i1 {is_zero}, {kind} {zero}, {kind} {found}")
        return w.value(f"select i1 {nan}, {kind} 0x7FF8000000000000, {kind} {signed}")

    def _reduce_halves(self, opcode: str, value: str, dtype: DType) -> str:
        n, kind = self.lanes, element(dtype)
        while n > 1:
            half = n // 2
            low, high = (self._part(value, kind, n, start, half) for start in (0, half))
            value = compute(self.w, opcode, dtype, dtype, half, (low, high))
            n = half
        return value

    def _part(self, value: str, kind: str, n: int, start: int, count: int) -> str:
        """Some neighbouring lanes of n."""
        if count == 1:
            return self.w.value(f"extractelement <{n} x {kind}> {value}, i64 {start}")
        order = ", ".join(f"i32 {start + i}" for i in range(count))
        return self.w.value(
            f"shufflevector <{n} x {kind}> {value}, <{n} x {kind}> poison, <{count} x i32> <{order}>"
        )

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
