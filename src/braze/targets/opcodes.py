"""How each opcode of the kernel IR is written in LLVM IR, for scalars and vectors alike.

`Writer` takes lines and numbers values; `compute` writes one opcode. From `targets/llvm`, which walks the
kernel's structure. Integer operations are total (`kernel/ir`): the guards are written here.

Invariants:
- No fast-math flags, and no `llvm.exp` and its kind, which would become calls of the C library; the one
  such call is `fmod`, for `rem` of floats.
- What LLVM leaves undefined or poison (shifts by the width, division by 0, casts out of range) is never
  chosen.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from braze.dtypes import BOOL, F32, F64, FLOATS, HALVES, INTEGERS, UNSIGNED, DType, short
from braze.errors import UnsupportedError
from braze.kernel.ir import Constant
from braze.target import Target
from braze.targets import halves
from braze.targets.softfma import fma_f32, fma_f64

_TYPES = {
    "bool": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "i8", "u16": "i16", "u32": "i32",
    "u64": "i64", "f16": "i16", "bf16": "i16", "f32": "float", "f64": "double",
}  # fmt: skip


def element(dtype: DType) -> str:
    """LLVM's type of a value of a dtype."""
    found = _TYPES.get(short(dtype))
    if found is None:
        raise UnsupportedError(f"target cpu: kernels do not compute with {short(dtype)}.")
    return found


def stored(dtype: DType) -> str:
    """LLVM's type of an element in memory: a bool is one byte there."""
    return "i8" if dtype == BOOL else element(dtype)


def vector(kind: str, n: int) -> str:
    return kind if n == 1 else f"<{n} x {kind}>"


def literal(constant: Constant, n: int = 1) -> str:
    """An immediate in LLVM's syntax, in each of n lanes."""
    text = _scalar_literal(constant)
    return text if n == 1 else f"splat ({element(constant.dtype)} {text})"


def _scalar_literal(constant: Constant) -> str:
    dtype, bits = constant.dtype, constant.bits
    if dtype == BOOL:
        return "true" if bits else "false"
    if dtype == F64:
        return f"0x{bits:016X}"
    if dtype == F32:
        exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
        if exponent == 0xFF and mantissa and not mantissa >> 22:
            # LLVM writes a float as a double, and the conversion would quiet a signalling NaN.
            return f"bitcast (i32 {bits} to float)"
        if exponent == 0xFF:
            return f"0x{(bits >> 31) << 63 | 0x7FF << 52 | mantissa << 29:016X}"
        return "0x" + struct.pack(">d", struct.unpack("<f", bits.to_bytes(4, "little"))[0]).hex().upper()
    element(dtype)
    width = 8 * dtype.itemsize
    return str(bits - (1 << width) if bits >> (width - 1) and dtype not in UNSIGNED else bits)


class Writer:
    """The lines of one function. Values are `%v0`, `%v1`, … in the order in which they are written."""

    def __init__(
        self, target: Target, declare: Callable[[str], None], define: Callable[[str, str], None]
    ) -> None:
        self.target = target
        self.lines: list[str] = []
        self.block = "entry"
        self.declare = declare
        self._define = define
        self._values = 0
        self._labels = 0

    def name(self) -> str:
        """A fresh value name."""
        self._values += 1
        return f"%v{self._values - 1}"

    def label(self, what: str) -> str:
        self._labels += 1
        return f"{what}{self._labels - 1}"

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def value(self, text: str) -> str:
        """Write an instruction and name its result."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def start(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    def reserve(self) -> int:
        """A place for a line (a phi) that is known later; fill `lines[place]`."""
        self.lines.append("")
        return len(self.lines) - 1

    def call(self, name: str, result: str, *arguments: str) -> str:
        """Call an intrinsic; arguments are `type value`, perhaps with attributes between."""
        self.declare(f"declare {result} @{name}({', '.join(_type_of(a) for a in arguments)})")
        return self.value(f"call {result} @{name}({', '.join(arguments)})")

    def call_void(self, name: str, *arguments: str) -> None:
        self.declare(f"declare void @{name}({', '.join(_type_of(a) for a in arguments)})")
        self.line(f"call void @{name}({', '.join(arguments)})")

    def define(self, name: str, function: str, declarations: Sequence[str]) -> None:
        """Have a function of the printer's own in the module."""
        for declaration in declarations:
            self.declare(declaration)
        self._define(name, function)

    def splat(self, kind: str, value: str, n: int) -> str:
        """A scalar in each of n lanes."""
        if n == 1:
            return value
        one = self.value(f"insertelement <{n} x {kind}> poison, {kind} {value}, i64 0")
        return self.value(
            f"shufflevector <{n} x {kind}> {one}, <{n} x {kind}> poison, <{n} x i32> zeroinitializer"
        )


def _type_of(argument: str) -> str:
    """The type in `type value`: a vector's up to its bracket, else the first word."""
    return argument[: argument.index(">") + 1] if argument[0] == "<" else argument.split(" ", 1)[0]


def mangled(kind: str, n: int) -> str:
    """The suffix of an overloaded intrinsic: `v16f32`, `i64`."""
    scalar = {"float": "f32", "double": "f64", "ptr": "p0"}.get(kind, kind)
    return scalar if n == 1 else f"v{n}{scalar}"


# --- opcodes ----------------------------------------------------------------------------------------
_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_INTEGER_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "shl_fast": "shl",
    "shr_fast": "lshr", "sar_fast": "ashr",
}  # fmt: skip
_FLOAT_CALLS = {
    "abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
    "copysign": "copysign",
}  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_BOOL_AS = {"min": "and", "max": "or", "mul": "and"}


def compute(w: Writer, opcode: str, dtype: DType, result: DType, n: int, operands: Sequence[str]) -> str:
    """Write one opcode on n lanes.

    Args:
        dtype: of the operands; result: of the result.
        operands: names or literals of n-lane values.
    Returns: the name of the n-lane result.
    """
    kind = vector(element(dtype), n)
    if opcode in ("cast", "cast_fast"):
        return _cast(w, dtype, result, n, operands[0], saturate=opcode == "cast")
    if opcode == "bitcast":
        return _bitcast(w, dtype, result, n, operands[0])
    if opcode in _COMPARISONS:
        return w.value(f"{_predicate(opcode, dtype)} {kind} {operands[0]}, {operands[1]}")
    if dtype in FLOATS:
        return _float(w, opcode, dtype, n, operands)
    return _integer(w, opcode, dtype, n, operands)


def _predicate(opcode: str, dtype: DType) -> str:
    if dtype in FLOATS:
        return f"fcmp {'une' if opcode == 'ne' else 'o' + opcode}"
    if opcode in ("eq", "ne"):
        return f"icmp {opcode}"
    return f"icmp {'u' if dtype in UNSIGNED or dtype == BOOL else 's'}{opcode}"


# --- floats
def _float(w: Writer, opcode: str, dtype: DType, n: int, operands: Sequence[str]) -> str:
    scalar = element(dtype)
    kind = vector(scalar, n)
    typed = [f"{kind} {o}" for o in operands]
    if opcode in _FLOAT_BINARY:
        return w.value(f"{_FLOAT_BINARY[opcode]} {kind} {operands[0]}, {operands[1]}")
    if opcode in _FLOAT_CALLS:
        return w.call(f"llvm.{_FLOAT_CALLS[opcode]}.{mangled(scalar, n)}", kind, *typed)
    if opcode == "neg":
        return w.value(f"fneg {kind} {operands[0]}")
    if opcode == "fma" and not w.target.has_fma:
        return (fma_f32 if dtype == F32 else fma_f64)(w, n, list(operands))
    if opcode == "fma":
        return w.call(f"llvm.fma.{mangled(scalar, n)}", kind, *typed)
    if opcode == "scale_fast":
        return _scale(w, dtype, n, operands[0], operands[1])
    if opcode in ("min", "max"):
        # LLVM's code waits longest for the first operand (it tests its sign). In `max(total, x)` that had better
        # not be the chain: operands swapped, a maximum of 4096 f32 takes 24 % less (AVX-512, 2026-12).
        return w.call(f"llvm.{opcode}imum.{mangled(scalar, n)}", kind, *reversed(typed))
    assert opcode in ("min_fast", "max_fast"), f"{opcode} has no form for floats"
    less = w.value(f"fcmp {'olt' if opcode == 'min_fast' else 'ogt'} {kind} {operands[0]}, {operands[1]}")
    return w.value(f"select {vector('i1', n)} {less}, {typed[0]}, {typed[1]}")


def _scale(w: Writer, dtype: DType, n: int, x: str, exponent: str) -> str:
    """x · 2**exponent: an instruction of AVX-512, else two exact factors with half the exponent each."""
    width = next((k for k in (512, 256, 128) if n * 8 * dtype.itemsize >= k), 0)
    features = w.target.features.split(",")
    if width and "+avx512f" in features and (width == 512 or "+avx512vl" in features):
        return _scale_avx512(w, dtype, n, x, exponent, width)
    scalar, kind = element(dtype), vector(element(dtype), n)
    integer, bias, mantissa, low, high = (
        ("i32", 127, 23, -152, 130) if dtype == F32 else ("i64", 1023, 52, -1078, 1026)
    )
    bounded = exponent
    for predicate, bound in (("olt", high), ("ogt", low)):
        limit = _splat(f"{float(bound):.1f}", scalar, n)
        inside = w.value(f"fcmp {predicate} {kind} {bounded}, {limit}")
        bounded = w.value(f"select {vector('i1', n)} {inside}, {kind} {bounded}, {kind} {limit}")
    whole = vector(integer, n)
    e = w.value(f"fptosi {kind} {bounded} to {whole}")
    half = w.value(f"ashr {whole} {e}, {_splat(1, integer, n)}")
    rest = w.value(f"sub {whole} {e}, {half}")
    for part in (half, rest):
        biased = w.value(f"add {whole} {part}, {_splat(bias, integer, n)}")
        bits = w.value(f"shl {whole} {biased}, {_splat(mantissa, integer, n)}")
        factor = w.value(f"bitcast {whole} {bits} to {kind}")
        x = w.value(f"fmul {kind} {x}, {factor}")
    return x


def _scale_avx512(w: Writer, dtype: DType, n: int, x: str, exponent: str, width: int) -> str:
    """`vscalef` on each register's worth of lanes."""
    scalar = element(dtype)
    size = width // (8 * dtype.itemsize)
    kind = f"<{size} x {scalar}>"
    name = f"llvm.x86.avx512.mask.scalef.p{'s' if dtype == F32 else 'd'}.{width}"
    bits = max(8, size)
    rounding = ("i32 4",) if width == 512 else ()
    parts = []
    for first in range(0, n, size):
        numbers = ", ".join(f"i32 {first + k}" for k in range(size))
        pieces = [
            v
            if n == size
            else w.value(
                f"shufflevector <{n} x {scalar}> {v}, <{n} x {scalar}> poison, <{size} x i32> <{numbers}>"
            )
            for v in (x, exponent)
        ]
        parts.append(
            w.call(
                name,
                kind,
                *(f"{kind} {p}" for p in pieces),
                f"{kind} zeroinitializer",
                f"i{bits} -1",
                *rounding,
            )
        )
    return _joined(w, scalar, size, parts)


def _joined(w: Writer, scalar: str, size: int, parts: list[str]) -> str:
    """One vector of several, by halves; their number is a power of two."""
    while len(parts) > 1:
        numbers = ", ".join(f"i32 {k}" for k in range(2 * size))
        kind = f"<{size} x {scalar}>"
        parts = [
            w.value(f"shufflevector {kind} {a}, {kind} {b}, <{2 * size} x i32> <{numbers}>")
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
        size *= 2
    return parts[0]


# --- integers and bool
def _integer(w: Writer, opcode: str, dtype: DType, n: int, operands: Sequence[str]) -> str:
    scalar = element(dtype)
    kind = vector(scalar, n)
    x = operands[0]
    unsigned = dtype in UNSIGNED
    if dtype == BOOL:
        opcode = _BOOL_AS.get(opcode, opcode)
    if opcode in _INTEGER_BINARY:
        return w.value(f"{_INTEGER_BINARY[opcode]} {kind} {x}, {operands[1]}")
    match opcode:
        case "not":
            return w.value(f"xor {kind} {x}, {_splat(-1 if dtype != BOOL else 'true', scalar, n)}")
        case "neg":
            return w.value(f"sub {kind} {_splat(0, scalar, n)}, {x}")
        case "abs":
            return (
                x if unsigned else w.call(f"llvm.abs.{mangled(scalar, n)}", kind, f"{kind} {x}", "i1 false")
            )
        case "popcnt":
            return w.call(f"llvm.ctpop.{mangled(scalar, n)}", kind, f"{kind} {x}")
        case "clz":
            return w.call(f"llvm.ctlz.{mangled(scalar, n)}", kind, f"{kind} {x}", "i1 false")
        case "min" | "max":
            name = f"llvm.{'u' if unsigned else 's'}{opcode}.{mangled(scalar, n)}"
            return w.call(name, kind, f"{kind} {x}", f"{kind} {operands[1]}")
        case "shl" | "shr" | "sar":
            return _shift(w, opcode, dtype, n, x, operands[1])
        case "div_fast" | "rem_fast":
            return w.value(f"{'u' if unsigned else 's'}{opcode[:3]} {kind} {x}, {operands[1]}")
        case "div" | "rem":
            return _divide(w, opcode, dtype, n, x, operands[1])
    raise AssertionError(f"{opcode} has no form for {short(dtype)}")


def _splat(value: int | str, scalar: str, n: int) -> str:
    return str(value) if n == 1 else f"splat ({scalar} {value})"


def _shift(w: Writer, opcode: str, dtype: DType, n: int, x: str, amount: str) -> str:
    scalar, width = element(dtype), 8 * dtype.itemsize
    kind = vector(scalar, n)
    fits = w.value(f"icmp ult {kind} {amount}, {_splat(width, scalar, n)}")
    if opcode == "sar":
        least = w.value(
            f"select {vector('i1', n)} {fits}, {kind} {amount}, {kind} {_splat(width - 1, scalar, n)}"
        )
        return w.value(f"ashr {kind} {x}, {least}")
    shifted = w.value(f"{'shl' if opcode == 'shl' else 'lshr'} {kind} {x}, {amount}")
    return w.value(f"select {vector('i1', n)} {fits}, {kind} {shifted}, {kind} {_splat(0, scalar, n)}")


def _divide(w: Writer, opcode: str, dtype: DType, n: int, x: str, y: str) -> str:
    """Division with divisors 0 and, for MIN, -1 replaced by 1; the result by 0 put right afterwards."""
    scalar, flag = element(dtype), vector("i1", n)
    kind = vector(scalar, n)
    zero = w.value(f"icmp eq {kind} {y}, {_splat(0, scalar, n)}")
    unsafe = zero
    if dtype not in UNSIGNED:
        smallest = _splat(-(1 << (8 * dtype.itemsize - 1)), scalar, n)
        least = w.value(f"icmp eq {kind} {x}, {smallest}")
        minus = w.value(f"icmp eq {kind} {y}, {_splat(-1, scalar, n)}")
        overflow = w.value(f"and {flag} {least}, {minus}")
        unsafe = w.value(f"or {flag} {zero}, {overflow}")
    divisor = w.value(f"select {flag} {unsafe}, {kind} {_splat(1, scalar, n)}, {kind} {y}")
    done = w.value(f"{'u' if dtype in UNSIGNED else 's'}{opcode} {kind} {x}, {divisor}")
    by_zero = _splat(-1, scalar, n) if opcode == "div" else x
    return w.value(f"select {flag} {zero}, {kind} {by_zero}, {kind} {done}")


# --- conversions
def _cast(w: Writer, dtype: DType, result: DType, n: int, x: str, *, saturate: bool) -> str:
    source, target = vector(element(dtype), n), vector(element(result), n)
    if dtype == result:
        return x
    if dtype in HALVES or result in HALVES:
        return halves.cast(w, dtype, result, n, x)
    if result == BOOL:
        zero = _splat("0.0" if dtype in FLOATS else 0, element(dtype), n)
        return w.value(f"{'fcmp une' if dtype in FLOATS else 'icmp ne'} {source} {x}, {zero}")
    if dtype in FLOATS and result in INTEGERS:
        sign = "u" if result in UNSIGNED else "s"
        if not saturate:
            return w.value(f"fpto{sign}i {source} {x} to {target}")
        name = f"llvm.fpto{sign}i.sat.{mangled(element(result), n)}.{mangled(element(dtype), n)}"
        return w.call(name, target, f"{source} {x}")
    if result in FLOATS:
        if dtype in FLOATS:
            word = "fpext" if dtype.itemsize < result.itemsize else "fptrunc"
        else:
            word = "uitofp" if dtype in UNSIGNED or dtype == BOOL else "sitofp"
        return w.value(f"{word} {source} {x} to {target}")
    if dtype != BOOL and dtype.itemsize == result.itemsize:
        return x
    if dtype != BOOL and dtype.itemsize > result.itemsize:
        return w.value(f"trunc {source} {x} to {target}")
    word = "zext" if dtype in UNSIGNED or dtype == BOOL else "sext"
    return w.value(f"{word} {source} {x} to {target}")


def _bitcast(w: Writer, dtype: DType, result: DType, n: int, x: str) -> str:
    source, target = vector(element(dtype), n), vector(element(result), n)
    if source == target:
        return x
    return w.value(f"bitcast {source} {x} to {target}")
