"""The meaning of the kernel IR: executes a kernel's statements with NumPy, lane by lane.

`evaluate(kernel, buffers)` runs blocks one after the other on flat arrays, as the machine code does on
memory. Every access is checked against its memory; scratch begins as poison (NaN, large integers).

Invariants:
- Every opcode is exact, so that results equal the machine code's bit for bit (any NaN equals any NaN,
  except through moves, select, neg, abs and bitcast).
- A uniform value is an array of one element, a varying one of as many as there are lanes.

Sources: exact fma by rounding to odd, S. Boldo & G. Melquiond 2008; error-free sums and products after
O. Møller 1965, D. Knuth and T. Dekker 1971.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from braze.dtypes import BOOL, F64, FLOATS, SIGNED, DType
from braze.errors import InternalError
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
from braze.kernel.text import print_statement

Array: TypeAlias = "np.ndarray[Any, Any]"
Symbols = Mapping[str, Callable[..., Any]]

_POISON = 0xA5


def evaluate(
    kernel: Kernel,
    buffers: Sequence[Array],
    blocks: Iterable[int] | None = None,
    symbols: Symbols | None = None,
) -> None:
    """Run a kernel on its buffers, which are changed in place.

    Args:
        buffers: flat arrays in the order of the kernel's parameters.
        blocks: which blocks to run, in this order (default: the whole grid).
        symbols: Python functions for the external symbols of `Call`.
    Raises: InternalError that names the statement for an access outside a memory.
    """
    memories = dict(zip(kernel.parameters, buffers, strict=True))
    for memory, buffer in memories.items():
        assert buffer.dtype == memory.dtype, f"{memory.name} is {memory.dtype}, the buffer {buffer.dtype}"
        assert buffer.shape == (memory.size,), f"{memory.name} has {memory.size} elements, not {buffer.shape}"
    with np.errstate(all="ignore"):
        for block in range(kernel.grid) if blocks is None else blocks:
            _Block(kernel, memories, symbols or {}).run(block)


def poison(dtype: DType, shape: int | tuple[int, ...]) -> Array:
    """An array of values that nobody should use."""
    if dtype == BOOL:
        return np.ones(shape, dtype)
    if dtype in FLOATS:
        return np.full(shape, np.nan, dtype)
    size = np.prod(shape, dtype=int)
    return np.full(size * dtype.itemsize, _POISON, np.uint8).view(dtype).reshape(shape)


class _Block:
    """One running block: its values and its scratch memory."""

    def __init__(self, kernel: Kernel, memories: Mapping[Memory, Array], symbols: Symbols) -> None:
        self.kernel = kernel
        self.lanes = kernel.lanes
        self.symbols = symbols
        self.values: dict[Value, Array] = {}
        self.memories = dict(memories)
        for memory in kernel.scratch:
            # A private memory keeps the lanes' copies of one element side by side.
            copies = kernel.lanes if memory.space == "private" else 1
            self.memories[memory] = poison(memory.dtype, memory.size * copies)

    def run(self, block: int) -> None:
        self.values[self.kernel.block] = np.array([block])
        self.body(self.kernel.body)

    def body(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            _RUN[type(statement)](self, statement)

    def get(self, operand: Operand, lanes: int | None = None) -> Array:
        """An operand, in as many lanes as it has or as are asked for."""
        found = _immediate(operand) if isinstance(operand, Constant) else self.values[operand]
        return found if lanes is None or len(found) == lanes else np.repeat(found, lanes)

    def set(self, value: Value, found: Array) -> None:
        lanes = self.lanes if value.varying else 1
        self.values[value] = np.repeat(found, lanes) if len(found) != lanes else found

    def _compute(self, s: Compute) -> None:
        if s.opcode == "lane":
            self.set(s.result, np.arange(self.lanes, dtype=s.result.dtype))
            return
        lanes = self.lanes if s.result.varying else 1
        self.set(s.result, apply(s.opcode, s.result.dtype, *(self.get(o, lanes) for o in s.operands)))

    # Memory ---------------------------------------------------------------------------------------

    def places(self, s: Load | Store | Atomic, access: str) -> tuple[Array, Array]:
        """Positions in the memory's array, and the mask, one of each per access."""
        memory = s.memory
        lanes = 1 if access == "uniform" and memory.space != "private" else self.lanes
        index = self.get(s.index, lanes).astype(np.int64)
        if access == "unit":
            index = index + np.arange(lanes)
        mask = np.ones(lanes, bool) if s.mask is None else self.get(s.mask, lanes)
        outside = mask & ((index < 0) | (index >= memory.size))
        if outside.any():
            raise InternalError(
                f"{memory.name}[{index[outside][0]}] is outside its {memory.size} elements: {print_statement(s)}",
                stage=f"kernel {self.kernel.name}",
            )
        if memory.space == "private":
            index = index * self.lanes + np.arange(lanes)
        return index, mask

    def _load(self, s: Load) -> None:
        index, mask = self.places(s, s.access)
        other = np.zeros(1, s.memory.dtype) if s.other is None else self.get(s.other)
        loaded = np.array(np.broadcast_to(other, index.shape))
        loaded[mask] = self.memories[s.memory][index[mask]]
        self.set(s.result, loaded)

    def _store(self, s: Store) -> None:
        index, mask = self.places(s, s.access)
        value = self.get(s.value, len(index))
        for lane in np.flatnonzero(mask) if s.access == "gather" else ():
            self.memories[s.memory][index[lane]] = value[lane]
        if s.access != "gather":
            self.memories[s.memory][index[mask]] = value[mask]

    def _atomic(self, s: Atomic) -> None:
        index, mask = self.places(s, "gather")
        value, target = self.get(s.value, len(index)), self.memories[s.memory]
        for lane in np.flatnonzero(mask):
            at = slice(index[lane], index[lane] + 1)
            target[at] = apply(s.opcode, s.memory.dtype, target[at], value[lane : lane + 1])

    # Lanes ----------------------------------------------------------------------------------------

    def _lane_reduce(self, s: LaneReduce) -> None:
        found = self.get(s.operand, self.lanes)
        while len(found) > 1:
            half = len(found) // 2
            found = apply(s.opcode, s.operand.dtype, found[:half], found[half:])
        self.set(s.result, found)

    def _lane_shift(self, s: LaneShift) -> None:
        value, fill = self.get(s.operand, self.lanes), self.get(s.fill, self.lanes)
        source = np.arange(self.lanes) - s.amount
        inside = (source >= 0) & (source < self.lanes)
        self.set(s.result, np.where(inside, value[np.where(inside, source, 0)], fill))

    def _extract(self, s: Extract) -> None:
        value, lane = self.get(s.operand, self.lanes), int(self.get(s.lane)[0])
        if not 0 <= lane < self.lanes:
            raise InternalError(f"there is no lane {lane}: {print_statement(s)}", stage=self.kernel.name)
        self.set(s.result, value[lane : lane + 1])

    def _call(self, s: Call) -> None:
        varying = any(o.varying for o in s.operands) or (s.mask is not None and s.mask.varying)
        lanes = self.lanes if varying else 1
        operands = [self.get(o, lanes) for o in s.operands]
        mask = np.ones(lanes, bool) if s.mask is None else self.get(s.mask, lanes)
        results = [np.zeros(lanes, r.dtype) for r in s.results]
        for lane in np.flatnonzero(mask):
            found = self.symbols[s.symbol](*(o[lane] for o in operands))
            for result, value in zip(results, found if len(results) > 1 else (found,)):
                result[lane] = value
        for name, result in zip(s.results, results):
            self.set(name, result)

    # Control flow ---------------------------------------------------------------------------------

    def _region(self, s: Region) -> None:
        self.body(s.body)

    def move(self, targets: Sequence[Value], sources: Sequence[Operand]) -> None:
        """Set values from operands, all read before any is written."""
        for target, found in zip(targets, [self.get(o) for o in sources], strict=True):
            self.set(target, found)

    def _for(self, s: For) -> None:
        self.move(s.carried, s.initial)
        for index in range(int(self.get(s.start)[0]), int(self.get(s.stop)[0]), s.step):
            self.values[s.index] = np.array([index])
            self.body(s.body)
            self.move(s.carried, s.yields)
        self.move(s.results, s.carried)

    def _while(self, s: While) -> None:
        self.move(s.carried, s.initial)
        while True:
            self.body(s.condition_body)
            if not self.get(s.condition)[0]:
                break
            self.body(s.body)
            self.move(s.carried, s.yields)
        self.move(s.results, s.carried)

    def _if(self, s: If) -> None:
        holds = bool(self.get(s.condition)[0])
        self.body(s.then if holds else s.otherwise)
        self.move(s.results, s.then_yields if holds else s.otherwise_yields)


_RUN: dict[type, Callable[[_Block, Any], None]] = {
    Compute: _Block._compute,
    Load: _Block._load,
    Store: _Block._store,
    For: _Block._for,
    While: _Block._while,
    If: _Block._if,
    LaneReduce: _Block._lane_reduce,
    LaneShift: _Block._lane_shift,
    Extract: _Block._extract,
    Atomic: _Block._atomic,
    Call: _Block._call,
    Region: _Block._region,
}


def _immediate(operand: Constant) -> Array:
    return np.frombuffer(operand.bits.to_bytes(operand.dtype.itemsize, "little"), operand.dtype)


# --- opcodes ----------------------------------------------------------------------------------------
def apply(opcode: str, result: DType, *operands: Array) -> Array:
    """One opcode on arrays of equal length."""
    dtype = operands[-1].dtype
    if opcode in ("cast", "cast_fast"):
        return _cast(operands[0], result)
    if opcode == "bitcast":
        return operands[0].view(result)
    if opcode == "splat":
        return operands[0]
    if opcode == "select":
        return np.where(*operands)
    table = _FLOAT if dtype in FLOATS else _INTEGER
    function = table.get(opcode) or _ANY[opcode]
    return np.asarray(function(*operands), result if opcode not in _COMPARISONS else BOOL)


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}") if x.dtype != BOOL else x


def _bits(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of bit patterns, on values."""

    def on_values(*operands: Array) -> Array:
        found: Array = function(*(_unsigned(o) for o in operands))
        return found.view(operands[0].dtype)

    return on_values


def _sign_bit(x: Array) -> Array:
    found: Array = np.left_shift(np.ones_like(x), 8 * x.dtype.itemsize - 1)
    return found


def _float_min(x: Array, y: Array) -> Array:
    """Equal operands differ at most in the sign of zero, which `or` of their bits keeps."""
    smaller = np.where(x == y, _bits(np.bitwise_or)(x, y), np.where(x < y, x, y))
    return np.where(np.isnan(x) | np.isnan(y), x + y, smaller)


def _float_max(x: Array, y: Array) -> Array:
    larger = np.where(x == y, _bits(np.bitwise_and)(x, y), np.where(x > y, x, y))
    return np.where(np.isnan(x) | np.isnan(y), x + y, larger)


def _divide(x: Array, y: Array) -> Array:
    safe = _safe_divisor(x, y)
    return np.where(y == 0, np.array(-1).astype(x.dtype), (x - np.fmod(x, safe)) // safe)


def _remainder(x: Array, y: Array) -> Array:
    return np.where(y == 0, x, np.fmod(x, _safe_divisor(x, y)))


def _safe_divisor(x: Array, y: Array) -> Array:
    unsafe = y == 0
    if x.dtype in SIGNED:
        unsafe = unsafe | ((x == np.iinfo(x.dtype).min) & (y == -1))
    return np.where(unsafe, np.ones_like(y), y)


def _shift_left(x: Array, y: Array) -> Array:
    width = 8 * x.dtype.itemsize
    return np.where(y < width, np.left_shift(x, np.minimum(y, width - 1)), np.zeros_like(x))


def _shift_right(x: Array, y: Array) -> Array:
    width = 8 * x.dtype.itemsize
    return np.where(y < width, np.right_shift(x, np.minimum(y, width - 1)), np.zeros_like(x))


def _shift_arithmetic(x: Array, y: Array) -> Array:
    least = np.minimum(_unsigned(y), 8 * x.dtype.itemsize - 1).astype(x.dtype)
    signed = f"i{x.dtype.itemsize}"
    shifted: Array = np.right_shift(x.view(signed), least.view(signed))
    return shifted.view(x.dtype)


def _leading_zeros(x: Array) -> Array:
    """Bits above the highest set one, found by halving."""
    width = 8 * x.dtype.itemsize
    rest, count = _unsigned(x).astype(np.uint64), np.full(x.shape, width)
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >> np.uint64(step)
        count = np.where(high != 0, count - step, count)
        rest = np.where(high != 0, high, rest)
    return np.where(rest != 0, count - 1, count)


def _cast(x: Array, result: DType) -> Array:
    if result == BOOL:
        return np.asarray(x != 0)
    if x.dtype not in FLOATS or result in FLOATS:
        return x.astype(result)
    limits = np.iinfo(result)
    # Both bounds are powers of two or 0, so they are exact in every float.
    low, high = float(limits.min), float(limits.max // 2 + 1) * 2
    whole = np.trunc(x.astype(F64))
    inside = (whole >= low) & (whole < high)
    cast = np.where(inside, whole, 0.0).astype(result)
    return np.where(whole >= high, limits.max, np.where(whole < low, limits.min, cast)).astype(result)


# --- fma
def fma(x: Array, y: Array, z: Array) -> Array:
    """x*y + z with one rounding, exactly."""
    if x.dtype == F64:
        return _fma64(x, y, z)
    a, b, c = (o.astype(F64) for o in (x, y, z))
    # The product of two f32 is exact in f64; the sum rounded to odd rounds to f32 as the exact sum would.
    return _odd_sum(a * b, c).astype(x.dtype)


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _odd_sum(x: Array, y: Array) -> Array:
    """x + y rounded to odd: an inexact result with an even last bit moves one step towards the exact sum."""
    total, error = _two_sum(x, y)
    even = (total.view(np.int64) & 1) == 0
    moves = np.isfinite(total) & (error != 0) & even
    outwards = (error > 0) == (total > 0)
    step = np.where(outwards, 1, -1)
    return np.where(moves, (total.view(np.int64) + step).view(F64), total)


def _two_product(x: Array, y: Array) -> tuple[Array, Array]:
    product = x * y
    (xh, xl), (yh, yl) = _halves(x), _halves(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def _fma64(x: Array, y: Array, z: Array) -> Array:
    high, low = _two_product(x, y)
    th, tl = _two_sum(z, low)
    vh, vl = _two_sum(high, th)
    result = vh + _odd_sum(tl, vl)
    for i in np.flatnonzero(~(_moderate(x, 400) & _moderate(y, 400) & (_moderate(z, 800) | (z == 0)))):
        result[i] = _fma_slow(float(x[i]), float(y[i]), float(z[i]))
    return result


def _moderate(x: Array, exponent: int) -> Array:
    size = np.abs(x)
    return (size > 2.0**-exponent) & (size < 2.0**exponent)


def _fma_slow(x: float, y: float, z: float) -> float:
    if not np.isfinite(x) or not np.isfinite(y):
        return float(np.float64(x) * y + z)
    if not np.isfinite(z):
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        # The sign of an exact zero is that of IEEE addition; a product that underflows has a sign, too.
        return float(np.copysign(0.0, x) * np.copysign(1.0, y) + z) if x == 0 or y == 0 else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float(np.inf) if exact > 0 else -float(np.inf)


def _scale(x: Array, n: Array) -> Array:
    whole = np.where(np.isnan(n), 0, np.clip(n, -4096, 4096)).astype(np.int32)
    return np.ldexp(x, whole)


_COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                "ge": np.greater_equal}  # fmt: skip
_ANY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, **_COMPARISONS,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip
_FLOAT: dict[str, Callable[..., Any]] = {
    "div": np.divide, "rem": np.fmod, "fma": fma, "min": _float_min, "max": _float_max,
    "neg": _bits(lambda x: x ^ _sign_bit(x)), "abs": _bits(lambda x: x & ~_sign_bit(x)),
    "copysign": _bits(lambda x, y: (x & ~_sign_bit(x)) | (y & _sign_bit(y))),
    "min_fast": lambda x, y: np.where(x < y, x, y), "max_fast": lambda x, y: np.where(x > y, x, y),
    "scale_fast": _scale, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
}  # fmt: skip
_INTEGER: dict[str, Callable[..., Any]] = {
    "div": _divide, "rem": _remainder, "div_fast": _divide, "rem_fast": _remainder,
    "neg": _bits(np.negative), "abs": np.abs,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shl": _bits(_shift_left), "shr": _bits(_shift_right), "sar": _shift_arithmetic,
    "shl_fast": _bits(_shift_left), "shr_fast": _bits(_shift_right), "sar_fast": _shift_arithmetic,
    "popcnt": lambda x: np.bitwise_count(_unsigned(x)), "clz": _leading_zeros,
}  # fmt: skip
