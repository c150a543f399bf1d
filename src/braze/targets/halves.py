"""Casts between f32 and f16, whose values are `i16` in LLVM IR here, as those of bf16 are.

An intrinsic or `fptrunc` that the CPU lacks becomes a call of a function that nobody has, so f16 is converted by
instructions where the target has them and by integer arithmetic elsewhere.

Sources: IEEE 754-2019 for the formats; F. Giesen, "float->half variants", for the magic addition that rounds
subnormal f16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import F16, F32, DType

if TYPE_CHECKING:
    from braze.targets.opcodes import Writer

_INSTRUCTIONS = ("+f16c", "+avx512f", "+fullfp16", "+neon")


def _kind(scalar: str, n: int) -> str:
    return scalar if n == 1 else f"<{n} x {scalar}>"


def cast(w: Writer, dtype: DType, result: DType, n: int, x: str) -> str:
    """Write the cast of n lanes between f16, on one side, and f32."""
    assert {dtype, result} == {F16, F32}, "casts of bf16 are integer arithmetic, others go through f32"
    widens = dtype == F16
    if set(_INSTRUCTIONS) & set(w.target.features.split(",")):
        short, middle, wide = _kind("i16", n), _kind("half", n), _kind("float", n)
        if widens:
            return w.value(f"fpext {middle} {w.value(f'bitcast {short} {x} to {middle}')} to {wide}")
        return w.value(f"bitcast {middle} {w.value(f'fptrunc {wide} {x} to {middle}')} to {short}")
    return _from_f16(w, n, x) if widens else _to_f16(w, n, x)


class _Integers:
    """Lanes of i32, written shortly."""

    def __init__(self, w: Writer, n: int) -> None:
        self.w, self.n, self.kind = w, n, _kind("i32", n)

    def splat(self, value: int) -> str:
        return str(value) if self.n == 1 else f"splat (i32 {value})"

    def of(self, opcode: str, x: str, y: int | str) -> str:
        return self.w.value(f"{opcode} {self.kind} {x}, {y if isinstance(y, str) else self.splat(y)}")

    def select(self, condition: str, x: str, y: str) -> str:
        return self.w.value(f"select {_kind('i1', self.n)} {condition}, {self.kind} {x}, {self.kind} {y}")

    def bits(self, x: str) -> str:
        return self.w.value(f"bitcast {_kind('float', self.n)} {x} to {self.kind}")

    def number(self, x: str) -> str:
        return self.w.value(f"bitcast {self.kind} {x} to {_kind('float', self.n)}")

    def widened(self, x: str) -> str:
        return self.w.value(f"zext {_kind('i16', self.n)} {x} to {self.kind}")

    def shortened(self, x: str) -> str:
        return self.w.value(f"trunc {self.kind} {x} to {_kind('i16', self.n)}")


def _from_f16(w: Writer, n: int, x: str) -> str:
    """The fields shifted into place and scaled by 2**112, which makes subnormal numbers normal."""
    i = _Integers(w, n)
    wide = i.widened(x)
    sign = i.of("shl", i.of("and", wide, 0x8000), 16)
    fields = i.of("shl", i.of("and", wide, 0x7FFF), 13)
    factor = "0x46F0000000000000"  # 2**112
    scaled = w.value(
        f"fmul {_kind('float', n)} {i.number(fields)}, {factor if n == 1 else f'splat (float {factor})'}"
    )
    special = i.of("icmp uge", fields, 0x7C00 << 13)
    found = i.select(special, i.of("or", fields, 0x7F800000), i.bits(scaled))
    return i.number(i.of("or", found, sign))


def _to_f16(w: Writer, n: int, x: str) -> str:
    """Three ways by size: infinity and NaN; the exponent moved and a tie to even; an addition that aligns."""
    i = _Integers(w, n)
    bits = i.bits(x)
    size = i.of("and", bits, 0x7FFFFFFF)
    sign = i.of("and", i.of("lshr", bits, 16), 0x8000)
    last = i.of("and", i.of("lshr", size, 13), 1)
    normal = i.of("lshr", i.of("add", i.of("add", size, ((15 - 127) << 23) + 0xFFF), last), 13)
    half = "0.5" if n == 1 else "splat (float 0.5)"  # its last place is that of a subnormal f16
    aligned = w.value(f"fadd {_kind('float', n)} {i.number(size)}, {half}")
    small = i.of("sub", i.bits(aligned), 126 << 23)
    found = i.select(i.of("icmp ult", size, 113 << 23), small, normal)
    nan = i.of("icmp ugt", size, 0x7F800000)
    special = i.select(
        nan, i.of("or", i.of("lshr", i.of("and", size, 0x7FFFFF), 13), 0x7E00), i.splat(0x7C00)
    )
    found = i.select(i.of("icmp uge", size, 143 << 23), special, found)
    return i.shortened(i.of("or", found, sign))
