"""f16 and bf16 in kernels: stored in two bytes, computed in f32, rounded after every operation.

Kernels load, store, select, bitcast and cast values of these dtypes, and nothing else: `Builder.compute` writes an
opcode on them as f32 arithmetic between casts. bf16 is the upper half of an f32, so its casts are integer
arithmetic, and what has just been rounded is used as the f32 it is, without a way through two bytes.

Arithmetic in f32 rounds twice, which for + - × ÷ and sqrt is the same as once: 24 bits are at least 2·11 + 2
(Figueroa 1995). No printer needs half arithmetic.

Casts from wider dtypes would round twice too, where it does matter. They go through an f32 whose last bit says
whether anything was cut off ("round to odd"), which has two bits more than either format and so decides ties.

Invariant: moves, select, negation and absolute value keep the bits, of NaN too.
Source: S. Boldo, G. Melquiond 2008, for rounding to odd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braze.dtypes import BF16, BOOL, F32, F64, HALVES, I32, INTEGERS, U16, U32, UNSIGNED, DType
from braze.kernel.ir import OPCODES, Operand

if TYPE_CHECKING:
    from braze.kernel.builder import Builder

KEPT = frozenset({"select", "bitcast", "splat"})
"""Opcodes that only move the bits."""


def compute(b: Builder, opcode: str, operands: list[Operand]) -> Operand:
    """One opcode on halves that is no cast."""
    dtype = operands[-1].dtype
    match opcode:
        case "neg":
            return b.bitcast(b.xor(b.bitcast(operands[0], U16), 0x8000), dtype)
        case "abs":
            return b.bitcast(b.and_(b.bitcast(operands[0], U16), 0x7FFF), dtype)
    wide = b.compute(opcode, *[b.compute("cast", o, dtype=F32) for o in operands])
    if OPCODES[opcode].result == "bool":
        return wide
    return computed(b, wide, dtype)


def computed(b: Builder, wide: Operand, dtype: DType) -> Operand:
    """The rounded result of arithmetic, or a function, on halves in f32.

    A NaN is that of an operand or the processor's own: nothing stands in its lower half.
    """
    return _to_bf16(b, wide, long_nan=False) if dtype == BF16 else b.compute("cast", wide, dtype=dtype)


def row_dtype(dtype: DType) -> DType:
    """In which dtype values of that dtype are kept from one pass to the next: bf16 as the f32 that it is."""
    return F32 if dtype == BF16 else dtype


def exact_bf16(b: Builder, wide: Operand) -> Operand:
    """The bf16 that an f32 is."""
    narrow = b.bitcast(b.cast(b.shr_fast(b.bitcast(wide, U32), 16), U16), BF16)
    b.rounded[narrow] = wide
    return narrow


def cast(b: Builder, value: Operand, dtype: DType, opcode: str = "cast") -> Operand | None:
    """A cast from or to a half; None for those between f16 and f32, which targets have."""
    source = value.dtype
    if source == F32:
        return _to_bf16(b, value) if dtype == BF16 else None
    if source not in HALVES:
        return b.compute("cast", _single(b, value), dtype=dtype)
    if dtype != F32:
        return b.compute(opcode, b.compute("cast", value, dtype=F32), dtype=dtype)
    return _from_bf16(b, value) if source == BF16 else None


def _from_bf16(b: Builder, value: Operand) -> Operand:
    known = b.rounded.get(value)
    if known is not None:
        return known
    return b.bitcast(b.shl_fast(b.cast(b.bitcast(value, U16), U32), 16), F32)


def _to_bf16(b: Builder, x: Operand, long_nan: bool = True) -> Operand:
    """To the nearest, ties to even: add half a last place, a little less where the last bit is even.

    Args:
        long_nan: whether a NaN may have bits in its lower half, which would carry it into infinity and beyond.
    """
    bits = b.bitcast(x, U32)
    odd = b.ne(b.and_(bits, 0x10000), 0)
    near = b.add(bits, b.select(odd, b.lift(0x8000, U32), b.lift(0x7FFF, U32)))
    if long_nan:
        near = b.select(b.ne(x, x), b.or_(bits, 0x400000), near)
    return exact_bf16(b, b.bitcast(b.and_(near, 0xFFFF0000), F32))


def _single(b: Builder, value: Operand) -> Operand:
    """An f32 that rounds to a half as the value does."""
    source = value.dtype
    if source == BOOL or source.itemsize <= 2:
        return b.compute("cast", value, dtype=F32)
    if source == F64:
        return _odd(b, value)
    return _odd(b, b.compute("cast", _sticky(b, value), dtype=F64))


def _odd(b: Builder, x: Operand) -> Operand:
    """f64 to f32, rounded to odd: the last bit is set if the value is not exact."""
    near = b.compute("cast", x, dtype=F32)
    back = b.compute("cast", near, dtype=F64)
    bits = b.bitcast(near, I32)
    # One towards zero where rounding went away from it: then the bits are those cut off at the end.
    cut = b.select(b.gt(b.abs(back), b.abs(x)), b.sub(bits, 1), bits)
    inexact = b.ne(back, x)  # also for NaN, whose last bit does not matter
    return b.bitcast(b.select(inexact, b.or_(cut, 1), bits), F32)


def _sticky(b: Builder, x: Operand) -> Operand:
    """A 64-bit integer that f64 holds: 11 low bits of a large one become a single one."""
    if x.dtype not in INTEGERS or x.dtype.itemsize < 8:
        return x
    low = b.and_(x, 0x7FF)
    folded = b.or_(b.sub(x, low), b.select(b.ne(low, 0), b.lift(0x400, x.dtype), b.lift(0, x.dtype)))
    if x.dtype in UNSIGNED:
        small = b.lt(x, 1 << 53)
    else:
        small = b.and_(b.lt(x, 1 << 53), b.gt(x, -(1 << 53)))
    return b.select(small, x, folded)
