"""Kernel IR: one launch as structured, block-level code. Data only.

A kernel is a *grid* of independent blocks without barriers between them. A block runs uniform control flow
and *regions*; a region is code that every lane runs, with a barrier at its end where memory is shared. On a
CPU a block is a piece of work for one thread and lanes are SIMD lanes; on a GPU a block is a thread block
and lanes are its threads. The number of lanes belongs to the kernel; 1 is legal.

A value is *uniform* (one per block) or *varying* (one per lane). A uniform operand of a varying computation
is the same in every lane. Varying values live inside one region; what crosses regions goes through
`private` memory (a copy per lane) or `shared` memory (one per block).

| statement | meaning |
|---|---|
| `Compute` | one opcode of `OPCODES` on values and constants |
| `Load`, `Store` | `uniform`: one element · `unit`: lane l at index + l · `gather`: each lane at its own index; optional mask |
| `For` | uniform counted loop with carried values |
| `While` | uniform loop; the condition is uniform (`lane_reduce or` of a mask makes it so) |
| `If` | uniform branch with results |
| `LaneReduce` | all lanes to one uniform value, in a stated order |
| `LaneShift` | lane l gets lane l - amount; the first lanes get `fill` |
| `Extract` | the value of one lane |
| `Atomic` | read-modify-write of one element per lane |
| `Call` | an external symbol that needs no Python |
| `Region` | code that every lane runs |

Element types are those of the dtype table without complex. A bool is one byte in memory (0 or 1) and one bit as a
value. Indices are i64 and count elements.

Invariants:
- Single assignment; a value is defined before use, and varying values only inside their region.
- The printer of a target only prints: access kinds and masks are decided here. Reading or writing outside
  a memory's `size` is a fault of the builder, in masked-off lanes it does not happen.
- Integer operations are total: x/0 is -1, x%0 is x, MIN/-1 is MIN, shifts by the width or more give 0 (the
  sign for arithmetic right shifts), float to integer saturates and NaN gives 0. The printer guards them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from braze import dtypes
from braze.dtypes import DType
from braze.record import Record

Space = Literal["in", "out", "inout", "private", "shared"]
Access = Literal["uniform", "unit", "gather"]


class Value:
    """A value of the kernel: dtype, and whether each lane has its own."""

    __slots__ = ("dtype", "varying")

    def __init__(self, dtype: DType, varying: bool) -> None:
        self.dtype = dtype
        self.varying = varying

    def __repr__(self) -> str:
        return f"<{dtypes.short(self.dtype)}{' varying' if self.varying else ''}>"


@dataclass(slots=True, eq=False, repr=False)
class Constant(Record):
    """An immediate operand: a Python number in a dtype, the same in every lane.

    `bits` keeps floats exact, NaN payloads too: it is the number's bit pattern as an unsigned integer.
    """

    dtype: DType
    bits: int

    varying = False


Operand: TypeAlias = Value | Constant


@dataclass(slots=True, eq=False)
class Memory:
    """An array that the kernel reads or writes.

    Attributes:
        size: number of elements (per lane for `private`).
        space: `in`, `out` and `inout` are parameters of the launch; `private` and `shared` are scratch.
    """

    name: str
    dtype: DType
    size: int
    space: Space

    @property
    def is_parameter(self) -> bool:
        return self.space in ("in", "out", "inout")


@dataclass(slots=True, eq=False)
class Compute:
    result: Value
    opcode: str
    operands: tuple[Operand, ...]


@dataclass(slots=True, eq=False)
class Load:
    """result = memory[index]; masked-off lanes give `other`, or 0 without one, and touch no memory.

    In private memory each lane reads its own copy, and `uniform` says that all read the same index of it.
    """

    result: Value
    memory: Memory
    index: Operand
    access: Access
    mask: Operand | None = None
    other: Operand | None = None


@dataclass(slots=True, eq=False)
class Store:
    """memory[index] = value in the lanes of the mask.

    `streams` is a hint for `unit` stores to `out` memory: every element is written once and not read soon, so
    that where the memory lies apart from what the kernel reads, the store need not go through the caches.
    """

    memory: Memory
    index: Operand
    value: Operand
    access: Access
    mask: Operand | None = None
    streams: bool = False


@dataclass(slots=True, eq=False)
class For:
    """for index in range(start, stop, step), step > 0; carried values enter as `initial`, leave as `results`."""

    index: Value
    start: Operand
    stop: Operand
    step: int
    carried: tuple[Value, ...]
    initial: tuple[Operand, ...]
    body: tuple[Statement, ...]
    yields: tuple[Operand, ...]
    results: tuple[Value, ...]


@dataclass(slots=True, eq=False)
class While:
    """Run `condition_body`; while `condition` holds, run `body` and go round with `yields`.

    `results` are the carried values at the moment the condition failed. `body` sees what
    `condition_body` defines.
    """

    carried: tuple[Value, ...]
    initial: tuple[Operand, ...]
    condition_body: tuple[Statement, ...]
    condition: Operand
    body: tuple[Statement, ...]
    yields: tuple[Operand, ...]
    results: tuple[Value, ...]


@dataclass(slots=True, eq=False)
class If:
    condition: Operand
    then: tuple[Statement, ...]
    then_yields: tuple[Operand, ...]
    otherwise: tuple[Statement, ...]
    otherwise_yields: tuple[Operand, ...]
    results: tuple[Value, ...]


@dataclass(slots=True, eq=False)
class LaneReduce:
    """All lanes combined by `add mul min max and or xor`, as a balanced tree over adjacent halves.

    min and max propagate NaN like the opcodes of the same name.
    """

    result: Value
    opcode: str
    operand: Operand


@dataclass(slots=True, eq=False)
class LaneShift:
    result: Value
    operand: Operand
    amount: int
    fill: Operand


@dataclass(slots=True, eq=False)
class Extract:
    result: Value
    operand: Operand
    lane: Operand


@dataclass(slots=True, eq=False)
class Atomic:
    """memory[index] = opcode(memory[index], value), each lane whole, in no stated order."""

    opcode: str
    memory: Memory
    index: Operand
    value: Operand
    mask: Operand | None = None


@dataclass(slots=True, eq=False)
class Call:
    """An external function of scalars. With a varying operand it is called once per lane, in lane order.

    Lanes that the mask leaves out are not called and give zero.
    """

    results: tuple[Value, ...]
    symbol: str
    operands: tuple[Operand, ...]
    mask: Operand | None = None


@dataclass(slots=True, eq=False)
class Region:
    body: tuple[Statement, ...]


Statement: TypeAlias = (
    Compute | Load | Store | For | While | If | LaneReduce | LaneShift | Extract | Atomic | Call | Region
)


@dataclass(slots=True, eq=False)
class Kernel:
    """One launch.

    Attributes:
        parameters: memories of the launch in the order of its buffers.
        scratch: private and shared memories.
        grid: number of blocks; `block` is the i64 value of the running one.
        lanes: lanes of a varying value, a power of two.
        strategy: the row of `kernel/build`'s table that made it; empty if it was written by hand.
        ops, flops, bytes_read, bytes_written, transcendentals: what it does, for records and the thread split.
    """

    name: str
    parameters: tuple[Memory, ...]
    scratch: tuple[Memory, ...]
    grid: int
    block: Value
    lanes: int
    body: tuple[Statement, ...]
    ops: tuple[str, ...] = ()
    flops: int = 0
    transcendentals: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    strategy: str = ""


@dataclass(slots=True, eq=False, repr=False)
class Opcode(Record):
    """What a `Compute` may do.

    Attributes:
        arity: number of operands.
        operands: which dtypes it takes: `any`, `number`, `integer`, `float`, `bits` (integers and bool), `bool`.
        result: `same` as the operands, `bool`, or `given` (casts name their dtype in the result value).
    """

    name: str
    arity: int
    operands: str
    result: str
    doc: str


OPCODES: dict[str, Opcode] = {
    o.name: o
    for o in (
        Opcode("add", 2, "number", "same", "IEEE addition; integers wrap"),
        Opcode("sub", 2, "number", "same", "IEEE subtraction; integers wrap"),
        Opcode("mul", 2, "number", "same", "IEEE multiplication; integers wrap"),
        Opcode("div", 2, "number", "same", "IEEE division; integers truncate, x/0 is -1 (all ones), MIN/-1 is MIN"),
        Opcode("rem", 2, "number", "same", "remainder with the sign of the dividend (C fmod); integers: x%0 is x"),
        Opcode("fma", 3, "float", "same", "x*y + z with one rounding; only math code and contractions use it"),
        Opcode("neg", 1, "number", "same", "sign flipped, NaN too; integers wrap"),
        Opcode("abs", 1, "number", "same", "sign cleared, NaN too; integers wrap at MIN"),
        Opcode("min", 2, "any", "same", "smaller; NaN if either is NaN; -0 < +0"),
        Opcode("max", 2, "any", "same", "larger; NaN if either is NaN; -0 < +0"),
        Opcode("min_fast", 2, "float", "same", "x < y ? x : y, one instruction; y if either is NaN"),
        Opcode("max_fast", 2, "float", "same", "x > y ? x : y, one instruction; y if either is NaN"),
        Opcode("sqrt", 1, "float", "same", "IEEE square root"),
        Opcode("scale_fast", 2, "float", "same",
               "x * 2**n for |x| in [1/2, 4) or NaN and finite whole n, rounded once; NaN if both are; 0 or infinity beyond"),
        Opcode("floor", 1, "float", "same", "towards minus infinity"),
        Opcode("ceil", 1, "float", "same", "towards plus infinity"),
        Opcode("trunc", 1, "float", "same", "towards zero"),
        Opcode("rint", 1, "float", "same", "to nearest, ties to even"),
        Opcode("copysign", 2, "float", "same", "the magnitude of x with the sign of y"),
        Opcode("eq", 2, "any", "bool", "equal; false with NaN"),
        Opcode("ne", 2, "any", "bool", "not equal; true with NaN"),
        Opcode("lt", 2, "any", "bool", "less; false with NaN; unsigned for unsigned dtypes and bool"),
        Opcode("le", 2, "any", "bool", "less or equal"),
        Opcode("gt", 2, "any", "bool", "greater"),
        Opcode("ge", 2, "any", "bool", "greater or equal"),
        Opcode("and", 2, "bits", "same", "bitwise and"),
        Opcode("or", 2, "bits", "same", "bitwise or"),
        Opcode("xor", 2, "bits", "same", "bitwise exclusive or"),
        Opcode("not", 1, "bits", "same", "bitwise complement"),
        Opcode("shl", 2, "integer", "same", "shift left; 0 by the width or more"),
        Opcode("shr", 2, "integer", "same", "logical shift right; 0 by the width or more"),
        Opcode("sar", 2, "integer", "same", "arithmetic shift right; the sign by the width or more"),
        Opcode("shl_fast", 2, "integer", "same", "shift left by less than the width"),
        Opcode("shr_fast", 2, "integer", "same", "logical shift right by less than the width"),
        Opcode("sar_fast", 2, "integer", "same", "arithmetic shift right by less than the width"),
        Opcode("div_fast", 2, "integer", "same", "division by what is neither 0 nor -1"),
        Opcode("rem_fast", 2, "integer", "same", "remainder by what is neither 0 nor -1"),
        Opcode("popcnt", 1, "integer", "same", "number of set bits"),
        Opcode("clz", 1, "integer", "same", "number of leading zero bits; the width for 0"),
        Opcode("select", 3, "any", "same", "bool operand first: c ? x : y, bits kept"),
        Opcode("cast", 1, "any", "given", "convert the value: floats round to nearest even, float to integer truncates "
               "and saturates, NaN gives 0, integers wrap, to bool is != 0"),
        Opcode("cast_fast", 1, "float", "given", "float to integer for values known to fit"),
        Opcode("bitcast", 1, "any", "given", "the same bits as another dtype of equal width"),
        Opcode("lane", 0, "any", "given", "the number of the lane, in an integer dtype; varying"),
        Opcode("splat", 1, "any", "same", "a uniform value as a varying one"),
    )
}  # fmt: skip
