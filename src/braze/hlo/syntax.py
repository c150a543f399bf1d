"""How attributes of HLO ops are spelled in StableHLO text: one table for the printer and the parser.

braze's records keep StableHLO's attribute names with four differences. Where StableHLO keeps an attribute
in the result type (the shape of `reshape`, the dtype of `convert`), the record has it as an attribute and
the text does not. `pad` and `dot_general` have shorter names. Enumerations are plain strings, the padding of
windows pairs of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from braze import dtypes
from braze.hlo import literals
from braze.ops.table import Op
from braze.types import TensorType

RENAMED: dict[str, dict[str, str]] = {
    "pad": {"low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding"},
    "dot_general": {"precision": "precision_config"},
}
"""Per op: braze's name of an attribute to StableHLO's."""

ENUMERATIONS = {
    "comparison_direction": "comparison_direction",
    "compare_type": "comparison_type",
    "precision_config": "precision",
    "rng_algorithm": "rng_algorithm",
}
"""StableHLO's name of an attribute to the name of its enumeration, as in `#stablehlo<precision HIGH>`."""

DOT_DIMENSIONS = (
    "lhs_batching_dimensions",
    "rhs_batching_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
)

STRUCTURES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "dot_general": ("dot_dimension_numbers", "#stablehlo.dot", DOT_DIMENSIONS),
    "gather": (
        "dimension_numbers",
        "#stablehlo.gather",
        (
            "offset_dims",
            "collapsed_slice_dims",
            "operand_batching_dims",
            "start_indices_batching_dims",
            "start_index_map",
            "index_vector_dim",
        ),
    ),
    "scatter": (
        "scatter_dimension_numbers",
        "#stablehlo.scatter",
        (
            "update_window_dims",
            "inserted_window_dims",
            "input_batching_dims",
            "scatter_indices_batching_dims",
            "scatter_dims_to_operand_dims",
            "index_vector_dim",
        ),
    ),
}
"""Per op: an attribute of StableHLO that holds several of the record's, what it is called, and which it holds.

What is empty or 0 is left out of the text.
"""

IGNORED = frozenset(
    (
        "algorithm",
        "api_version",
        "called_computations",
        "operand_layouts",
        "output_operand_aliases",
        "result_accuracy",
        "result_layouts",
    )
)
"""StableHLO attributes that say nothing about results: hints, and calling conventions of other runtimes."""

_FROM_RESULTS: dict[str, Callable[[Sequence[TensorType]], Any]] = {
    "shape": lambda types: types[0].shape,
    "dtype": lambda types: types[0].dtype,
    "result_types": tuple,
}
"""Attributes that the text keeps in the result types."""

_DEFAULTS: dict[str, dict[str, Any]] = {
    "custom_call": {"has_side_effect": False, "backend_config": "", "callback": None},
    "dot_general": {"precision": None},
    "gather": {"indices_are_sorted": False},
    "scatter": {"indices_are_sorted": False, "unique_indices": False},
    "braze.fusion": {"aliases": ()},
}
"""Attributes that the text may leave out."""

_ASSUMED: dict[str, dict[str, Any]] = {"sort": {"dimension": -1, "is_stable": False}}
"""What attributes are where the text has none, though it is always written."""

_UNPRINTED = frozenset((*_FROM_RESULTS, "callback"))


def full_name(op: Op) -> str:
    """The name in the text: `stablehlo.add`, `func.call`, `braze.fusion`."""
    hlo = op.hlo or f"braze.{op.title}"
    if hlo == "call":
        return "func.call"
    return hlo if "." in hlo else f"stablehlo.{hlo}"


def compare_type(dtype: dtypes.DType) -> str:
    """The comparison type that StableHLO assumes where the text has none."""
    if dtypes.is_inexact(dtype):
        return "FLOAT"
    return "SIGNED" if dtype in dtypes.SIGNED else "UNSIGNED"


def to_text(op: Op, attrs: Mapping[str, Any]) -> dict[str, str]:
    """The attributes of an instruction under StableHLO's names, as text; empty text is a unit attribute."""
    renamed = RENAMED.get(op.hlo or "", {})
    defaults = _DEFAULTS.get(op.hlo or "", {})
    shown: dict[str, str] = {}
    structure, kind, members = STRUCTURES.get(op.hlo or "", ("", "", ()))
    if structure:
        inner = ", ".join(f"{name} = {_member_text(attrs[name])}" for name in members if attrs.get(name))
        shown[structure] = f"{kind}<{inner}>"
    for name, value in attrs.items():
        left_out = name in _UNPRINTED or (name in defaults and value == defaults[name])
        if left_out or name in members:
            continue
        shown[renamed.get(name, name)] = _attribute_text(renamed.get(name, name), value)
    return dict(sorted(shown.items()))


def _member_text(value: Any) -> str:
    return str(value) if isinstance(value, int) else literals.value_text(tuple(value))


def _attribute_text(name: str, value: Any) -> str:
    kind = ENUMERATIONS.get(name)
    if kind is not None:
        if isinstance(value, str):
            return f"#stablehlo<{kind} {value}>"
        return f"[{', '.join(f'#stablehlo<{kind} {one}>' for one in value)}]"
    if name == "callee":
        return literals.symbol_text(value)
    if name == "padding":
        return literals.value_text(np.asarray(value, np.int64).reshape(-1, 2))
    if isinstance(value, tuple) and all(type(n) in (int, bool) for n in value):
        element = "i1" if value and type(value[0]) is bool else "i64"
        listed = ", ".join(literals.value_text(n, True) for n in value)
        return f"array<{element}: {listed}>" if value else "array<i64>"
    return "" if value is None else literals.value_text(value)


def from_text(
    op: Op, given: Mapping[str, Any], operands: Sequence[TensorType], results: Sequence[TensorType]
) -> tuple[dict[str, Any], str | None]:
    """The record's attributes from those in the text.

    Returns: the attributes, and the name of one that the record does not know, or None.
    """
    hlo = op.hlo or ""
    names = {text: name for name, text in RENAMED.get(hlo, {}).items()}
    found: dict[str, Any] = {**_DEFAULTS.get(hlo, {}), **_ASSUMED.get(hlo, {})}
    known = op.attrs
    structure, _, members = STRUCTURES.get(hlo, ("", "", ()))
    for text, value in given.items():
        name = names.get(text, text)
        if text == structure and isinstance(value, dict):
            absent = {key: 0 if key == "index_vector_dim" else () for key in members}
            found.update({key: value.get(key, absent[key]) for key in members})
        elif name in known and name not in _UNPRINTED:
            found[name] = _plain(value)
        elif "." not in text and text not in IGNORED:
            return found, text
    for name in known:
        if name in _FROM_RESULTS and (results or name == "result_types"):
            found[name] = _FROM_RESULTS[name](results)
    if hlo == "compare" and "compare_type" not in found and operands:
        found["compare_type"] = compare_type(operands[0].dtype)
    if "window_dimensions" in known:
        _complete_window(found, known)
    return found, None


def _complete_window(found: dict[str, Any], known: Sequence[str]) -> None:
    """Strides, dilations and padding that the text leaves out; padding as pairs.

    What has not even the kind of a window stays as it is, for the verifier to name.
    """
    window = found.get("window_dimensions", ())
    if not isinstance(window, tuple):
        return
    rank = len(window)
    for name in ("window_strides", "base_dilations", "window_dilations"):
        if name in known:
            found.setdefault(name, (1,) * rank)
    padding = np.ravel(np.asarray(found.get("padding", ((0, 0),) * rank)))
    if padding.size % 2 == 0 and padding.dtype.kind in "iuf":
        found["padding"] = tuple((int(low), int(high)) for low, high in padding.reshape(-1, 2))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.integer) else value
