"""Builder: writes kernel statements, lane code and loops without naming values.

`kernel` facets of operations and the math library receive one. Operands may be kernel values or Python
numbers; a number takes the dtype of the other operand. Common constants fold, so that index arithmetic
stays small; floats never fold, so that no rounding moves.

    b = Builder("double", lanes=16)
    x = b.memory("x", F32, 1024, "in"); y = b.memory("y", F32, 1024, "out")
    with b.region():
        with b.for_(0, 1024, 16) as i:
            b.store(y, i, b.mul(b.load(x, i, "unit"), 2.0), "unit")
    kernel = b.finish(grid=1)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from braze.dtypes import BOOL, F32, HALVES, I64, INTEGERS, DType
from braze.kernel import halves
from braze.kernel.ir import (
    OPCODES,
    Access,
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
    Space,
    Statement,
    Store,
    Value,
    While,
)

Liftable = Operand | int | float | bool


def constant(dtype: DType, value: Any) -> Constant:
    """An immediate of a dtype from a Python or NumPy number."""
    array = np.asarray(value).astype(dtype) if not isinstance(value, int) else _from_int(value, dtype)
    return Constant(dtype, int.from_bytes(array.tobytes(), "little"))


def _from_int(value: int, dtype: DType) -> np.ndarray[Any, Any]:
    if dtype in INTEGERS:
        wrapped = value & ((1 << (8 * dtype.itemsize)) - 1)
        return np.frombuffer(wrapped.to_bytes(dtype.itemsize, "little"), dtype)
    return np.asarray(value, dtype)


def number(operand: Constant) -> Any:
    """The value of an immediate as a NumPy scalar."""
    return np.frombuffer(operand.bits.to_bytes(operand.dtype.itemsize, "little"), operand.dtype)[0]


class Builder:
    """Writes one kernel. Methods append to the innermost open block."""

    def __init__(self, name: str, lanes: int) -> None:
        self.name = name
        self.lanes = lanes
        self.block = Value(I64, False)
        self._parameters: list[Memory] = []
        self._scratch: list[Memory] = []
        self._open: list[list[Statement]] = [[]]
        self.rounded: dict[Operand, Operand] = {}
        """bf16 values that were rounded here, as f32."""

    # Memory ---------------------------------------------------------------------------------------

    def memory(self, name: str, dtype: DType, size: int, space: Space) -> Memory:
        """Declare a parameter (in the order of the launch's buffers) or scratch memory."""
        made = Memory(name, dtype, size, space)
        (self._parameters if made.is_parameter else self._scratch).append(made)
        return made

    def load(
        self,
        memory: Memory,
        index: Liftable,
        access: Access,
        mask: Operand | None = None,
        other: Liftable | None = None,
    ) -> Value:
        result = Value(memory.dtype, access != "uniform" or memory.space == "private")
        filler = None if other is None else self.lift(other, memory.dtype)
        self.append(Load(result, memory, self.lift(index, I64), access, mask, filler))
        return result

    def store(
        self,
        memory: Memory,
        index: Liftable,
        value: Liftable,
        access: Access,
        mask: Operand | None = None,
        streams: bool = False,
    ) -> None:
        self.append(
            Store(memory, self.lift(index, I64), self.lift(value, memory.dtype), access, mask, streams)
        )

    def atomic(
        self, opcode: str, memory: Memory, index: Operand, value: Operand, mask: Operand | None = None
    ) -> None:
        self.append(Atomic(opcode, memory, index, value, mask))

    # Values ---------------------------------------------------------------------------------------

    def lift(self, value: Liftable, dtype: DType) -> Operand:
        """A Python number as an immediate; values and immediates pass through."""
        return value if isinstance(value, Value | Constant) else constant(dtype, value)

    def compute(self, opcode: str, *operands: Liftable, dtype: DType | None = None) -> Operand:
        """One opcode. `dtype` names the result of casts and `lane`, and the operands if all are numbers."""
        spec = OPCODES[opcode]
        assert len(operands) == spec.arity, (
            f"{opcode} takes {spec.arity} operands, {len(operands)} were given"
        )
        first = 1 if opcode == "select" else 0
        known = [o.dtype for o in operands[first:] if isinstance(o, Value | Constant)]
        source = known[0] if known else dtype
        assert source is not None, f"{opcode} on bare numbers needs a dtype"
        lifted = [self.lift(o, source) for o in operands[first:]]
        assert all(o.dtype == source for o in lifted), f"{opcode} mixes {[o.dtype for o in lifted]}"
        if first:
            lifted.insert(0, self.lift(operands[0], BOOL))
        if source in HALVES or dtype in HALVES:
            written = self._half(opcode, source, dtype, lifted)
            if written is not None:
                return written
        folded = _fold(opcode, lifted)
        if folded is not None:
            return folded
        given = dtype if spec.result == "given" else source
        assert given is not None, f"{opcode} needs the dtype of its result"
        varying = opcode in ("lane", "splat") or any(o.varying for o in lifted)
        result = Value(BOOL if spec.result == "bool" else given, varying)
        self.append(Compute(result, opcode, tuple(lifted)))
        return result

    def _half(
        self, opcode: str, source: DType, dtype: DType | None, operands: list[Operand]
    ) -> Operand | None:
        """What f16 and bf16 are written as; None where the opcode stands as it is."""
        if opcode in halves.KEPT:
            return None
        if opcode in ("cast", "cast_fast"):
            assert dtype is not None, "a cast names its result"
            return operands[0] if source == dtype else halves.cast(self, operands[0], dtype, opcode)
        return halves.compute(self, opcode, operands)

    def __getattr__(self, opcode: str) -> Callable[..., Operand]:
        """`b.add(x, y)` for every opcode; `b.and_`, `b.or_`, `b.not_` where Python has the word."""
        name = opcode.rstrip("_")
        if name not in OPCODES:
            raise AttributeError(f"{opcode} is neither a method of the builder nor an opcode")
        return lambda *operands, dtype=None: self.compute(name, *operands, dtype=dtype)

    def cast(self, value: Operand, dtype: DType) -> Operand:
        return value if value.dtype == dtype else self.compute("cast", value, dtype=dtype)

    def bitcast(self, value: Operand, dtype: DType) -> Operand:
        return value if value.dtype == dtype else self.compute("bitcast", value, dtype=dtype)

    def math(self, name: str, *operands: Operand) -> Operand:
        """A function of the math library, written out here (`exp`, `sin`, `tanh`, …)."""
        from braze.kernel import math

        dtype = operands[0].dtype
        if dtype not in HALVES:
            return math.function(name)(self, *operands)
        wide = math.function(name)(self, *[self.cast(o, F32) for o in operands])
        return halves.computed(self, wide, dtype)

    def clamp_index(self, index: Any, size: int) -> Any:
        """An index brought into an axis, for an element that another condition drops when it lies outside.

        A builder that masks its loads may leave the index as it is.
        """
        return self.compute("max", self.compute("min", index, size - 1, dtype=I64), 0)

    def lane(self, dtype: DType = I64) -> Operand:
        return self.compute("lane", dtype=dtype)

    def lane_reduce(self, opcode: str, value: Operand) -> Value:
        result = Value(value.dtype, False)
        self.append(LaneReduce(result, opcode, value))
        return result

    def lane_shift(self, value: Operand, amount: int, fill: Liftable) -> Value:
        result = Value(value.dtype, True)
        self.append(LaneShift(result, value, amount, self.lift(fill, value.dtype)))
        return result

    def extract(self, value: Operand, lane: Liftable) -> Value:
        result = Value(value.dtype, False)
        self.append(Extract(result, value, self.lift(lane, I64)))
        return result

    def call(self, symbol: str, operands: Sequence[Operand], results: Sequence[DType]) -> tuple[Value, ...]:
        values = tuple(Value(dtype, False) for dtype in results)
        self.append(Call(values, symbol, tuple(operands)))
        return values

    def call_lanes(
        self, symbol: str, operands: Sequence[Operand], results: Sequence[DType], mask: Operand
    ) -> tuple[Value, ...]:
        """An external function of each lane that the mask marks."""
        varying = any(o.varying for o in operands)
        values = tuple(Value(dtype, varying) for dtype in results)
        self.append(Call(values, symbol, tuple(operands), mask))
        return values

    # Structure ------------------------------------------------------------------------------------

    def append(self, statement: Statement) -> None:
        self._open[-1].append(statement)

    @contextlib.contextmanager
    def region(self) -> Iterator[None]:
        with self._nested() as body:
            yield
        self.append(Region(tuple(body)))

    @contextlib.contextmanager
    def for_(self, start: Liftable, stop: Liftable, step: int = 1) -> Iterator[Value]:
        """A counted loop that carries nothing; yields its index."""
        index = Value(I64, False)
        with self._nested() as body:
            yield index
        self.append(
            For(index, self.lift(start, I64), self.lift(stop, I64), step, (), (), tuple(body), (), ())
        )

    def loop(
        self,
        start: Liftable,
        stop: Liftable,
        step: int,
        initial: Sequence[Operand],
        body: Callable[..., Sequence[Operand]],
        varying: bool | Sequence[bool] = True,
    ) -> tuple[Value, ...]:
        """A counted loop with carried values: `body(index, *carried)` returns the next ones."""
        flags = [varying] * len(initial) if isinstance(varying, bool) else list(varying)
        index = Value(I64, False)
        carried = tuple(Value(o.dtype, v) for o, v in zip(initial, flags, strict=True))
        with self._nested() as statements:
            yields = tuple(body(index, *carried))
        results = tuple(Value(c.dtype, c.varying) for c in carried)
        self.append(
            For(
                index,
                self.lift(start, I64),
                self.lift(stop, I64),
                step,
                carried,
                tuple(initial),
                tuple(statements),
                yields,
                results,
            )
        )
        return results

    def while_(
        self,
        initial: Sequence[Operand],
        condition: Callable[..., Operand],
        body: Callable[..., Sequence[Operand]],
        varying: Sequence[bool],
    ) -> tuple[Value, ...]:
        """A loop while a uniform condition holds."""
        carried = tuple(Value(o.dtype, v) for o, v in zip(initial, varying, strict=True))
        with self._nested() as head:
            holds = condition(*carried)
        with self._nested() as statements:
            yields = tuple(body(*carried))
        results = tuple(Value(c.dtype, c.varying) for c in carried)
        self.append(While(carried, tuple(initial), tuple(head), holds, tuple(statements), yields, results))
        return results

    def if_(
        self,
        condition: Operand,
        then: Callable[[], Sequence[Operand]],
        otherwise: Callable[[], Sequence[Operand]] = tuple,
    ) -> tuple[Value, ...]:
        """A uniform branch; both sides return as many values of the same types."""
        with self._nested() as yes:
            then_yields = tuple(then())
        with self._nested() as no:
            otherwise_yields = tuple(otherwise())
        results = tuple(
            Value(x.dtype, x.varying or y.varying) for x, y in zip(then_yields, otherwise_yields, strict=True)
        )
        self.append(If(condition, tuple(yes), then_yields, tuple(no), otherwise_yields, results))
        return results

    @contextlib.contextmanager
    def _nested(self) -> Iterator[list[Statement]]:
        self._open.append([])
        try:
            yield self._open[-1]
        finally:
            self._open.pop()

    def finish(self, grid: int, **record: Any) -> Kernel:
        """The kernel; `record` fills `ops`, `flops`, `bytes_read` and the rest."""
        assert len(self._open) == 1, "a block of the kernel is still open"
        return Kernel(
            self.name,
            tuple(self._parameters),
            tuple(self._scratch),
            grid,
            self.block,
            self.lanes,
            tuple(self._open[0]),
            **record,
        )


def _fold(opcode: str, operands: Sequence[Operand]) -> Operand | None:
    """Integer identities of index arithmetic: x+0, x*1, x*0, and constants on constants."""
    if len(operands) != 2 or operands[0].dtype not in INTEGERS:
        return None
    x, y = operands
    if isinstance(x, Constant) and isinstance(y, Constant) and opcode in ("add", "sub", "mul"):
        a, b = int(number(x)), int(number(y))
        return constant(x.dtype, {"add": a + b, "sub": a - b, "mul": a * b}[opcode])
    if isinstance(x, Constant) and opcode in ("add", "mul"):
        x, y = y, x
    if not isinstance(y, Constant):
        return None
    match opcode, int(number(y)):
        case ("add" | "sub" | "or" | "xor" | "shl" | "shr" | "sar", 0):
            return x
        case ("mul" | "div" | "div_fast", 1):
            return x
        case ("mul", 0):
            return y
        case ("rem_fast", 1):
            return constant(x.dtype, 0)
    return None
