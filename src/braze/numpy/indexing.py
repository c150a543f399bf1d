"""Basic indexing, `x[...]`: integers, slices, None and Ellipsis, outside and inside `jit`.

An index is first spelled out per axis, then carried out as at most one slice (with a reversal for negative
steps), one dynamic slice for integers known only at run time, and one reshape or broadcast for axes that go
or come. Out-of-range Python integers raise; out-of-range run-time integers clamp, as in JAX.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.core import Tracer, typeof
from braze.lax import lax, slicing

Array = Any

_HINT = "index with integers, slices, None and ...; use where or dynamic_slice for what depends on values."


@dataclass(slots=True)
class _Plan:
    """An index, axis by axis of the operand.

    Attributes:
        starts, limits, strides: the static slice.
        reversed: axes whose slice runs backwards; `starts` and `limits` are those of the forward slice.
        dynamic: axis to the scalar that indexes it at run time.
        dropped: axes that an integer indexed.
        added: places of new axes in the result.
    """

    starts: list[int]
    limits: list[int]
    strides: list[int]
    reversed: list[int] = field(default_factory=list)
    dynamic: dict[int, Any] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)


def getitem(x: Array, index: Any) -> Array:
    """`x[index]` for basic indices.

    Raises: OutOfBoundsError for a Python integer outside the axis; ShapeError for too many indices;
        UnsupportedError for arrays and lists as indices.
    """
    parts = index if isinstance(index, tuple) else (index,)
    plan = _plan(typeof(x).shape, parts)
    result = _slice(x, plan)
    result = _drop(result, plan.dropped)
    if plan.added:
        result = lax.expand_dims(result, plan.added)
    return result


def _plan(shape: tuple[int, ...], parts: tuple[Any, ...]) -> _Plan:
    used = sum(1 for p in parts if p is not None and p is not Ellipsis)
    if sum(1 for p in parts if p is Ellipsis) > 1:
        raise errors.ArgumentError("index: one Ellipsis (...) is allowed.")
    if used > len(shape):
        raise errors.OutOfBoundsError(
            f"index: {used} indices were given for an array of {len(shape)} axes.", values=f"shape {shape}"
        )
    plan = _Plan([0] * len(shape), list(shape), [1] * len(shape))
    axis = place = 0
    for part in parts:
        if part is None:
            plan.added.append(place)
            place += 1
        elif part is Ellipsis:
            axis += len(shape) - used
            place += len(shape) - used
        elif isinstance(part, slice):
            _plan_slice(plan, axis, shape[axis], part)
            axis, place = axis + 1, place + 1
        else:
            _plan_integer(plan, axis, shape[axis], part)
            axis += 1
    return plan


def _plan_slice(plan: _Plan, axis: int, size: int, part: slice) -> None:
    try:
        start, limit, step = part.indices(size)
    except TypeError:
        raise errors.ConcretizationError(
            "index: the bounds of a slice are static integers, but one is not known while tracing.",
            hint="use braze.lax.dynamic_slice, whose size is static and whose position is not.",
        ) from None
    except ValueError as error:
        raise errors.ArgumentError(f"index: {error}.") from None
    if step > 0:
        plan.starts[axis], plan.limits[axis], plan.strides[axis] = start, max(start, limit), step
        return
    count = len(range(start, limit, step))
    last = start + (count - 1) * step
    plan.starts[axis], plan.limits[axis], plan.strides[axis] = (
        (last, start + 1, -step) if count else (0, 0, 1)
    )
    plan.reversed.append(axis)


def _plan_integer(plan: _Plan, axis: int, size: int, part: Any) -> None:
    if isinstance(part, bool | np.bool_ | list | str | float):
        raise errors.UnsupportedError(f"index: a {type(part).__name__} is no basic index.", hint=_HINT)
    static = part.concrete if isinstance(part, Tracer) and part.concrete is not None else part
    t = typeof(static) if not isinstance(static, int) else None
    if t is not None and (t.ndim or t.dtype not in dtypes.INTEGERS):
        raise errors.UnsupportedError(f"index: an array of type {t} is no basic index.", hint=_HINT)
    plan.dropped.append(axis)
    if isinstance(static, Tracer):
        plan.dynamic[axis] = static
        return
    value = int(static)
    if not -size <= value < size:
        raise errors.OutOfBoundsError(
            f"index: {value} is out of bounds for axis {axis} of size {size}, which takes {-size} to {size - 1}."
        )
    plan.starts[axis], plan.limits[axis] = value % size, value % size + 1


def _slice(x: Array, plan: _Plan) -> Array:
    shape = typeof(x).shape
    if plan.starts != [0] * len(shape) or plan.limits != list(shape) or any(s != 1 for s in plan.strides):
        x = slicing.slice(x, plan.starts, plan.limits, plan.strides)
    for axis, index in plan.dynamic.items():
        x = slicing.dynamic_slice_in_dim(x, index, 1, axis)
    return lax.rev(x, plan.reversed) if plan.reversed else x


def _drop(x: Array, axes: list[int]) -> Array:
    return lax.squeeze(x, axes) if axes else x
