"""Facets that many operations share: checks of operand types, costs, samples, and quiet NumPy.

Invariant: what `quiet` wraps never warns and always gives an array, so that a facet behaves alike on 0-d
operands and on large ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from braze import core, dtypes
from braze.dtypes import BOOL, F32, F64, I32, I64, DType
from braze.errors import DifferentiationError, DTypeError, ShapeError
from braze.ops.table import HLO_OPS, PRIMITIVES, Absent, Cost, Op, Sample, Undefined
from braze.types import TensorType

Array: TypeAlias = "np.ndarray[Any, Any]"

NOT_LINEAR = Absent("not linear in any operand")
HLO_ONLY = Absent("HLO only; transform the jaxpr, before it is lowered")
LOWERED = Absent("lowered to other ops; nothing is left of it in HLO")
NO_GRADIENT = Absent("integers and booleans have no cotangents")

SAMPLED = (F32, F64, I32, I64, BOOL)
"""The dtypes for which samples exist; rules are written for all of `dtypes.ALL`."""

SHAPES = ((), (1,), (0,), (5,), (3, 4), (2, 0, 3), (17, 1, 3), (1031,))
"""Shapes worth testing: scalar, one, none, odd, a unit axis inside, and one longer than any vector."""


# Checks -----------------------------------------------------------------------------------------------


def listing(**types: TensorType) -> str:
    """`lhs f32[3], rhs i32[3]`: the operands of a message."""
    return ", ".join(f"{name} {t}" for name, t in types.items())


def names_of(allowed: Iterable[DType]) -> str:
    """The dtypes of a set as a message lists them."""
    return ", ".join(dtypes.short(d) for d in allowed)


def check_dtype(title: str, which: str, t: TensorType, allowed: Sequence[DType], constraint: str) -> None:
    """Raise DTypeError unless the operand's dtype is among those that the op takes."""
    if t.dtype not in allowed:
        raise DTypeError(
            f"{title} ({constraint}): {which} is {dtypes.short(t.dtype)}, "
            f"which is none of {names_of(allowed)}.",
            values=f"{which} {t}",
            hint="convert it with astype first.",
        )


def check_alike(title: str, names: Sequence[str], types: Sequence[TensorType], constraint: str) -> None:
    """Raise ShapeError or DTypeError unless all operands have one shape and one dtype."""
    first = types[0]
    for name, t in zip(names[1:], types[1:], strict=True):
        if t is first:
            continue
        values = listing(**dict(zip(names, types, strict=True)))
        if t.dtype != first.dtype:
            raise DTypeError(
                f"{title} ({constraint}): {names[0]} is {dtypes.short(first.dtype)} and {name} is "
                f"{dtypes.short(t.dtype)}, which must be alike.",
                values=values,
                hint="convert one of them with astype.",
            )
        if t.shape != first.shape:
            raise ShapeError(
                f"{title} ({constraint}): {names[0]} has shape {first.shape} and {name} has shape "
                f"{t.shape}, which must be alike.",
                values=values,
                hint="broadcast one of them, as the functions of braze.numpy do.",
            )


def check_axes(title: str, name: str, axes: Sequence[int], rank: int, range_: str, unique: str) -> None:
    """Raise ShapeError unless axes lie in the rank (constraint `range_`) and none is named twice (`unique`)."""
    for axis in axes:
        if not 0 <= axis < rank:
            raise ShapeError(
                f"{title} ({range_}): {name} {tuple(axes)} has axis {axis}, which is not in 0 to {rank - 1}."
            )
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{title} ({unique}): {name} {tuple(axes)} names an axis twice.")


def check_length(title: str, name: str, entries: Sequence[int], rank: int, constraint: str) -> None:
    """Raise ShapeError unless there is one entry per axis."""
    if len(entries) != rank:
        raise ShapeError(
            f"{title} ({constraint}): {name} has {len(entries)} entries for an operand of {rank} axes.",
            values=f"{name} {tuple(entries)}",
        )


# NumPy ------------------------------------------------------------------------------------------------


def quiet(function: Callable[..., Any]) -> Callable[..., Array]:
    """The function without floating-point warnings and with an array for a result."""

    def run(*arrays: Any, **attrs: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*arrays, **attrs))

    return run


def rounded_once(function: Callable[..., Any]) -> Callable[..., Array]:
    """The function computed in f64 (complex128) and rounded to the operands' dtype at the end.

    So f32 results are within 0.5 ulp and a little; f64 is left to NumPy, whose own error tests hold below
    1.5 ulp.
    """

    def run(*arrays: Array) -> Array:
        dtype = arrays[0].dtype
        wide = dtypes.C128 if dtypes.is_complex(dtype) else F64
        with np.errstate(all="ignore"):
            return np.asarray(function(*[x.astype(wide) for x in arrays])).astype(dtype)

    return run


# Values -----------------------------------------------------------------------------------------------


def scalar_like(x: Any, value: Any) -> Any:
    """`value` as a scalar of x's dtype, weak where x is: the other operand of an elementwise op."""
    t = core.typeof(x)
    plain = value if t.dtype in dtypes.INTEGERS else float(value)
    if t.weak_type and dtypes.scalar_dtype(plain) == t.dtype:
        return plain
    return t.dtype.type(value)


def full_like(x: Any, value: Any) -> Any:
    """`value` in every element, with the shape and dtype of x."""
    t = x if isinstance(x, TensorType) else core.typeof(x)
    return full(t.shape, t.dtype, value)


def full(shape: Sequence[int], dtype: DType, value: Any) -> Any:
    """`value` in every element of a shape."""
    scalar = np.asarray(value).astype(dtype)[()]
    return PRIMITIVES["broadcast_in_dim"](scalar, shape=tuple(shape), broadcast_dimensions=())


def only_linear(title: str, *operands: Any) -> int:
    """Which operand of a product-like op the cotangent is wanted for; an error if it is for several."""
    linear = [i for i, x in enumerate(operands) if isinstance(x, Undefined)]
    if len(linear) != 1:
        raise DifferentiationError(
            f"{title}: it is linear in each operand, but not in {len(linear)} together."
        )
    return linear[0]


# Costs ------------------------------------------------------------------------------------------------


def results_of(op: Op, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
    """Result types as a list, whatever the number of results."""
    found = op.infer(*types, **attrs)
    return list(found) if op.multiple_results else [found]


def moved(*types: TensorType) -> int:
    return sum(t.nbytes for t in types)


def elementwise_cost(name: str, flops: int = 1, transcendentals: int = 0) -> Callable[..., Cost]:
    """The cost of an op that does the same work for every element of its result; found by name when asked."""

    def cost(*types: TensorType, **attrs: Any) -> Cost:
        op = PRIMITIVES.get(name) or HLO_OPS[name]
        results = results_of(op, types, attrs)
        n = results[0].size
        return Cost(n * flops, n * transcendentals, moved(*types, *results))

    return cost


def no_cost(*types: TensorType, **attrs: Any) -> Cost:
    """For ops whose cost is that of what they are lowered to, or of their regions."""
    return Cost(bytes=moved(*types))


# Samples ----------------------------------------------------------------------------------------------


def elementwise_samples(allowed: Sequence[DType], operands: int = 1) -> Callable[[], list[Sample]]:
    """Every sampled dtype that is allowed, in every sampled shape, for all operands alike."""

    def samples() -> list[Sample]:
        return [
            ((TensorType(shape, dtype),) * operands, {})
            for dtype in SAMPLED
            if dtype in allowed
            for shape in SHAPES
        ]

    return samples


def size_of(shape: Sequence[int]) -> int:
    return math.prod(shape)
