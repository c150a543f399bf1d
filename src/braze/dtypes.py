"""Element types: names, kinds, the promotion lattice with weak types, and the default types.

dtypes are NumPy's own objects (`ml_dtypes` adds the rest), so that nothing needs converting at the border.
`short(dtype)` is the name in jaxprs (`f32`), `HLO_NAMES` the name in StableHLO (`f32`, `i1`, `ui8`).

Promotion follows JAX's lattice: types that the user named meet at their join; Python scalars are weak and
only choose the kind. Where the default types have 32 bits, 64 come from operands alone: i32 and u32, whose join
is i64, meet at i32. Source: JAX's type promotion design note (JEP 9407).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from braze import knobs
from braze.errors import DTypeError, IntegerOverflowError

DType: TypeAlias = "np.dtype[Any]"

BOOL: DType = np.dtype(np.bool_)
I8, I16, I32, I64 = (np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
U8, U16, U32, U64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
F16, F32, F64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
BF16: DType = np.dtype(ml_dtypes.bfloat16)
C64, C128 = (np.dtype(t) for t in (np.complex64, np.complex128))
FLOAT0: DType = np.dtype([("float0", np.void, 0)])
"""The tangent type of integers and booleans: a vector space with nothing in it, as in JAX."""

SIGNED = (I8, I16, I32, I64)
UNSIGNED = (U8, U16, U32, U64)
INTEGERS = SIGNED + UNSIGNED
FLOATS = (BF16, F16, F32, F64)
COMPLEX = (C64, C128)
HALVES = (F16, BF16)
NUMBERS = INTEGERS + FLOATS + COMPLEX
ALL = (BOOL, *NUMBERS)

_SHORT: dict[DType, str] = {
    BOOL: "bool", I8: "i8", I16: "i16", I32: "i32", I64: "i64", U8: "u8", U16: "u16", U32: "u32", U64: "u64",
    F16: "f16", BF16: "bf16", F32: "f32", F64: "f64", C64: "c64", C128: "c128", FLOAT0: "float0",
}  # fmt: skip
_FROM_SHORT = {name: dtype for dtype, name in _SHORT.items()}

HLO_NAMES: dict[DType, str] = {
    BOOL: "i1", I8: "i8", I16: "i16", I32: "i32", I64: "i64", U8: "ui8", U16: "ui16", U32: "ui32", U64: "ui64",
    F16: "f16", BF16: "bf16", F32: "f32", F64: "f64", C64: "complex<f32>", C128: "complex<f64>",
}  # fmt: skip
FROM_HLO = {name: dtype for dtype, name in HLO_NAMES.items()}


def short(dtype: DType) -> str:
    """The name of a dtype in jaxprs and messages: `f32`, `i64`, `bool`."""
    return _SHORT.get(dtype) or str(dtype.name)


def from_short(name: str) -> DType:
    """The dtype of a short name; raises DTypeError for one that does not exist."""
    try:
        return _FROM_SHORT[name]
    except KeyError:
        raise DTypeError(f"dtype: {name!r} is not the name of an element type.", hint=_meant(name)) from None


def _meant(name: str) -> str:
    """The short name of a dtype that was written out, else all of them."""
    for short_name, dtype in _FROM_SHORT.items():
        if dtype.name == name:
            return f"write {short_name}."
    return f"element types are {', '.join(_SHORT[d] for d in ALL)}."


def canonical(dtype: Any) -> DType:
    """The dtype that a user means: a NumPy dtype or type, a name, or a Python scalar type.

    `float`, `int` and `complex` mean the default types; what is named is kept.
    """
    if dtype is float:
        return default_float()
    if dtype is int:
        return default_int()
    if dtype is complex:
        return C128 if knobs.get("x64") else C64
    try:
        found: DType = np.dtype(dtype)
    except TypeError:
        raise DTypeError(f"dtype: {dtype!r} is not an element type.") from None
    if found.byteorder == ">" or (found.byteorder != "|" and not found.isnative):
        found = found.newbyteorder("=")
    if found not in _SHORT:
        raise DTypeError(
            f"dtype: {found} is not an element type of braze.",
            hint=f"braze computes with {', '.join(_SHORT[d] for d in ALL)}.",
        )
    return found


def default_float() -> DType:
    return F64 if knobs.get("x64") else F32


def default_int() -> DType:
    return I64 if knobs.get("x64") else I32


def accumulation_dtype(dtype: DType) -> DType:
    """The dtype in which sums and products of a dtype are taken."""
    return F32 if dtype in HALVES else dtype


def is_float(dtype: DType) -> bool:
    return dtype in FLOATS


def is_complex(dtype: DType) -> bool:
    return dtype in COMPLEX


def is_inexact(dtype: DType) -> bool:
    return dtype in FLOATS or dtype in COMPLEX


def is_integer(dtype: DType) -> bool:
    return dtype in INTEGERS


def tangent_dtype(dtype: DType) -> DType:
    """The dtype of derivatives: itself for floats and complex, float0 for the rest."""
    return dtype if is_inexact(dtype) else FLOAT0


def scalar_dtype(value: object) -> DType:
    """The (weak) dtype of a Python scalar.

    Raises: IntegerOverflowError where an int does not fit the default integer.
    """
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        dtype = default_int()
        check_fits(value, dtype)
        return dtype
    if isinstance(value, float):
        return default_float()
    if isinstance(value, complex):
        return C128 if knobs.get("x64") else C64
    raise DTypeError(f"dtype: {type(value).__name__} is not a Python scalar.")


def integer_limits(dtype: DType) -> Any:
    """Smallest and largest value of an integer type: `.min`, `.max`."""
    return np.iinfo(dtype)


def float_limits(dtype: DType) -> Any:
    """Limits of a float type: `.tiny`, `.eps`, `.max`, `.nmant`."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def check_fits(value: int, dtype: DType) -> None:
    """Raise IntegerOverflowError unless the Python int fits the dtype (floats and bool take any)."""
    if dtype not in INTEGERS:
        return
    limits = integer_limits(dtype)
    if not limits.min <= value <= limits.max:
        raise IntegerOverflowError(
            f"convert: the Python int {_shown(value)} does not fit {short(dtype)}, "
            f"which holds {limits.min} to {limits.max}.",
            hint="name a wider dtype, as in numpy.int64(...), or set BRAZE_X64=1.",
        )


def _shown(value: int) -> str:
    """An integer, one of very many digits by its size: Python refuses to print those."""
    return str(value) if value.bit_length() <= 256 else f"of {value.bit_length()} bits"


# The lattice as a directed graph: an edge leads to the next larger type. The join of two types is the
# least node that both reach. `i*`, `f*`, `c*` are the weak Python types.
_LATTICE: dict[object, tuple[object, ...]] = {
    BOOL: ("i*",),
    "i*": (U8, I8),
    U8: (I16, U16), U16: (I32, U32), U32: (I64, U64), U64: ("f*",),
    I8: (I16,), I16: (I32,), I32: (I64,), I64: ("f*",),
    "f*": (BF16, F16, "c*"),
    BF16: (F32,), F16: (F32,), F32: (F64, C64), F64: (C128,),
    "c*": (C64,), C64: (C128,), C128: (),
}  # fmt: skip


def _reachable() -> dict[object, frozenset[object]]:
    above: dict[object, frozenset[object]] = {}

    def visit(node: object) -> frozenset[object]:
        if node not in above:
            above[node] = frozenset((node,)).union(*(visit(up) for up in _LATTICE[node]))
        return above[node]

    for node in _LATTICE:
        visit(node)
    return above


_ABOVE = _reachable()


def _node(dtype: DType, weak: bool) -> object:
    if not weak or dtype == BOOL:
        return dtype
    return "i*" if dtype in INTEGERS else "f*" if dtype in FLOATS else "c*"


_JOINS: dict[tuple[object, object], object] = {}


def _join(x: object, y: object) -> object:
    found = _JOINS.get((x, y))
    if found is None:
        common = _ABOVE[x] & _ABOVE[y]
        found = next(node for node in common if common <= _ABOVE[node])
        _JOINS[x, y] = found
    return found


def promote(operands: Iterable[tuple[DType, bool]]) -> tuple[DType, bool]:
    """The dtype at which operands meet, and whether it is weak.

    Args:
        operands: pairs of dtype and weak flag.
    Raises: DTypeError for types that do not mix with others, as float0.

    >>> promote([(F32, False), (I32, True)])[0]
    dtype('float32')
    >>> promote([(I32, False), (U32, False)])[0]
    dtype('int32')
    """
    pairs = list(operands)
    if all(pair == pairs[0] for pair in pairs):
        return pairs[0]
    for dtype, _ in pairs:
        if dtype not in _LATTICE:
            raise DTypeError(
                f"promotion: {short(dtype)} does not mix with other types.", hint="convert first."
            )
    joined = _node(*pairs[0])
    for pair in pairs[1:]:
        joined = _join(joined, _node(*pair))
    match joined:
        case "i*":
            weak_ints = [dtype for dtype, weak in pairs if weak and dtype in INTEGERS]
            return (weak_ints[0] if weak_ints else default_int()), True
        case "f*":
            return default_float(), True
        case "c*":
            return (C128 if knobs.get("x64") else C64), True
    assert isinstance(joined, np.dtype), "the lattice holds dtypes and the three weak kinds"
    if joined == I64 and all(dtype not in (I64, U64) for dtype, _ in pairs):
        joined = default_int()
    return joined, all(weak for _, weak in pairs)
