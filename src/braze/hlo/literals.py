"""Types, element literals and attribute values of StableHLO text: the parts that printing and parsing share.

Floats print as MLIR prints them, six digits after the point, where that text reads back as the same number;
else with the fewest digits that do. NaN and infinities print as bit patterns. Arrays of more than 100
elements print as the hexadecimal of their bytes, as MLIR does, one byte per i1.

Sources: MLIR's language reference (dense elements, attribute values); LLVM's APFloat::toString.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braze import dtypes
from braze.dtypes import DType
from braze.types import TensorType

HEX_ABOVE = 100
"""MLIR's default of --mlir-print-elementsattrs-with-hex-if-larger."""

_BARE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*\Z")
_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}
_TYPE_TEXTS: dict[TensorType, str] = {}


def type_text(type: TensorType) -> str:
    """`tensor<3x4xf32>`."""
    found = _TYPE_TEXTS.get(type)
    if found is None:
        element = dtypes.HLO_NAMES.get(type.dtype) or str(type.dtype)
        found = _TYPE_TEXTS[type] = f"tensor<{''.join(f'{n}x' for n in type.shape)}{element}>"
    return found


def function_type_text(operands: Sequence[TensorType], results: Sequence[TensorType]) -> str:
    """`(tensor<3xf32>) -> tensor<3xi32>`; several results, or none, stand in parentheses."""
    left = ", ".join(map(type_text, operands))
    right = ", ".join(map(type_text, results))
    return f"({left}) -> {right}" if len(results) == 1 else f"({left}) -> ({right})"


# --- elements -----------------------------------------------------------------------------------
def float_text(value: Any, dtype: DType) -> str:
    """One float: `2.000000e+00`, more digits only where they are needed, bits for NaN and infinities."""
    number = float(value)
    if number != number or number in (np.inf, -np.inf):
        bits = np.asarray(value, dtype).reshape(1).view(_BITS[dtype.itemsize])[0]
        return f"0x{int(bits):0{2 * dtype.itemsize}X}"
    for digits in range(6, 17):
        text = f"{number:.{digits}e}"
        if dtype.type(float(text)) == value:
            break
    return text


def _complex_text(value: Any, dtype: DType) -> str:
    part = dtypes.F32 if dtype == dtypes.C64 else dtypes.F64
    return f"({float_text(value.real, part)},{float_text(value.imag, part)})"


def element_text(dtype: DType) -> Callable[[Any], str]:
    """The function that prints one element of a dtype."""
    if dtype == dtypes.BOOL:
        return lambda value: "true" if value else "false"
    if dtypes.is_float(dtype):
        return lambda value: float_text(value, dtype)
    if dtypes.is_complex(dtype):
        return lambda value: _complex_text(value, dtype)
    return lambda value: str(int(value))


def _is_splat(array: np.ndarray[Any, Any]) -> bool:
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.size == 1:
        return True
    raw = flat.view(np.uint8).reshape(flat.size, -1)
    return bool((raw == raw[0]).all())


def dense_text(array: np.ndarray[Any, Any]) -> str:
    """`dense<[1, 2]>`, `dense<0.000000e+00>` where all elements have the same bits, `dense<"0x…">` if long."""
    if array.size == 0:
        return "dense<>"
    one = element_text(array.dtype)
    if _is_splat(array):
        return f"dense<{one(array.reshape(-1)[0])}>"
    if array.size > HEX_ABOVE:
        little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        return f'dense<"0x{little.tobytes().hex().upper()}">'
    return f"dense<{_nested_text(array, one)}>"


def _nested_text(array: np.ndarray[Any, Any], one: Callable[[Any], str]) -> str:
    texts = [one(value) for value in array.reshape(-1)]
    for size in reversed(array.shape):  # innermost axis first: each pass brackets groups of `size`
        texts = [f"[{', '.join(texts[at : at + size])}]" for at in range(0, len(texts), size)]
    return texts[0]


# --- names and attribute values -------------------------------------------------------------------
def string_text(text: str) -> str:
    """A quoted string, other than printable characters as two hexadecimal digits, as MLIR escapes."""
    parts = []
    for byte in text.encode("utf-8", "surrogateescape"):
        plain = 0x20 <= byte < 0x7F and byte not in b'"\\'
        parts.append(chr(byte) if plain else "\\\\" if byte == 0x5C else f"\\{byte:02X}")
    return f'"{"".join(parts)}"'


def symbol_text(name: str) -> str:
    """`@name`, quoted where it is no plain identifier."""
    return f"@{name}" if _BARE_NAME.match(name) else f"@{string_text(name)}"


def value_text(value: Any, nested: bool = False) -> str:
    """An attribute value in braze's Python form as MLIR text.

    Args:
        nested: inside a list, where MLIR leaves out the types i64 and f64.
    """
    match value:
        case bool() | np.bool_():
            return "true" if value else "false"
        case np.integer():
            return f"{int(value)} : {dtypes.HLO_NAMES[value.dtype]}"
        case int():
            return str(value) if nested else f"{value} : i64"
        case float():
            text = float_text(np.float64(value), dtypes.F64)
            return text if nested else f"{text} : f64"
        case str():
            return string_text(value)
        case tuple() | list():
            return f"[{', '.join(value_text(v, True) for v in value)}]"
        case Mapping():
            return dictionary_text(value)
        case np.ndarray():
            return f"{dense_text(value)} : {type_text(TensorType(value.shape, value.dtype))}"
        case TensorType():
            return type_text(value)
    return string_text(repr(value))


def entry_text(name: str, value: Any) -> str:
    """`name = value`; a unit attribute, whose value is None, is its name alone."""
    shown = name if _BARE_NAME.match(name) else string_text(name)
    return shown if value is None else f"{shown} = {value_text(value)}"


def dictionary_text(attrs: Mapping[str, Any]) -> str:
    """`{a = 1 : i32, b}`, sorted by name."""
    return f"{{{', '.join(entry_text(name, attrs[name]) for name in sorted(attrs))}}}"


# --- reading --------------------------------------------------------------------------------------
def array_from_bytes(raw: bytes, type: TensorType) -> np.ndarray[Any, Any]:
    """The array of `dense<"0x…">`: little-endian elements, or one of them for all.

    Raises: ValueError where the number of bytes fits neither.
    """
    size = type.dtype.itemsize
    if len(raw) not in (type.nbytes, size):
        raise ValueError(f"{len(raw)} bytes, where {type_text(type)} has {type.nbytes}")
    if type.dtype == dtypes.BOOL:
        raw = bytes(1 if byte else 0 for byte in raw)
    flat = np.frombuffer(raw, type.dtype.newbyteorder("<")).astype(type.dtype)
    return flat.reshape(type.shape) if len(raw) == type.nbytes else _filled(type, flat[0])


def _filled(type: TensorType, value: Any) -> np.ndarray[Any, Any]:
    return np.full(type.shape, value, type.dtype)


def array_from_elements(
    elements: Sequence[Any], shape: tuple[int, ...] | None, type: TensorType
) -> np.ndarray[Any, Any]:
    """The array of a list of element literals.

    Args:
        elements: per element its text, True or False, or a pair of texts for a complex number.
        shape: nesting of the list, or None for a splat.

    Raises: ValueError, OverflowError for elements that the type does not hold, or another shape.
    """
    values = [_element(text, type.dtype) for text in elements]
    if shape is None:
        if len(values) != 1:
            raise ValueError(f"no elements, where {type_text(type)} has {type.size}")
        return _filled(type, values[0])
    if shape != type.shape and not (type.size == 0 and len(values) == 0):
        raise ValueError(f"a list of shape {shape}, where {type_text(type)} has {type.shape}")
    return np.array(values, type.dtype).reshape(type.shape)


def _element(text: Any, dtype: DType) -> Any:
    if isinstance(text, tuple):
        if not dtypes.is_complex(dtype):
            raise ValueError(f"a complex number, where elements are {dtypes.short(dtype)}")
        part = dtypes.F32 if dtype == dtypes.C64 else dtypes.F64
        return dtype.type(complex(_element(text[0], part), _element(text[1], part)))
    if isinstance(text, bool):
        if dtype != dtypes.BOOL:
            raise ValueError(f"{str(text).lower()}, where elements are {dtypes.short(dtype)}")
        return text
    if dtypes.is_float(dtype):
        if text.startswith("0x"):
            bits = _BITS[dtype.itemsize](int(text, 16))
            return np.array([bits]).view(dtype)[0]
        with np.errstate(over="ignore"):
            return dtype.type(float(text))
    if dtype == dtypes.BOOL and text in ("0", "1", "-1"):
        return text != "0"
    if not dtypes.is_integer(dtype):
        raise ValueError(f"{text}, where elements are {dtypes.short(dtype)}")
    number = int(text, 16) if text.startswith("0x") else int(text)
    limits = np.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        raise OverflowError(f"{text}, where {dtypes.short(dtype)} holds {limits.min} to {limits.max}")
    return number
