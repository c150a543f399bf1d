"""Gathers and scatters, under their JAX names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braze import errors
from braze.core import bind, typeof
from braze.dtypes import INTEGERS, short
from braze.lax import lax
from braze.ops import indexing as ops
from braze.ops.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from braze.ops.table import Op

Array = Any
ArrayLike = Any


def _check_indices(title: str, indices: ArrayLike) -> None:
    t = typeof(indices)
    if t.dtype not in INTEGERS:
        raise errors.DTypeError(f"{title}: indices are integers, {short(t.dtype)} was given.")


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """Windows of the operand that begin at index vectors, which lie along the last axis of the indices.

    Args:
        mode: "clip", "fill" or "promise_in_bounds" (the default, which clips).
        fill_value: what "fill" puts where a window is not inside; by default NaN, the limit of integers, True.
    Raises: ShapeError, DTypeError with the constraint of StableHLO that does not hold.
    """
    _check_indices("gather", start_indices)
    parsed = GatherScatterMode.from_any("promise_in_bounds" if mode is None else mode)
    fills = parsed is GatherScatterMode.FILL_OR_DROP
    if fills and fill_value is None:
        fill_value = ops.default_fill(typeof(operand).dtype)
    return bind(
        ops.gather,
        operand,
        start_indices,
        dimension_numbers=GatherDimensionNumbers(*map(_ints, dimension_numbers)),
        slice_sizes=_ints(slice_sizes),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=parsed,
        fill_value=fill_value if fills else None,
    )


def _ints(entries: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(n) for n in entries)


def _scattering(op: Op, doc: str) -> Callable[..., Array]:
    def function(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Array:
        _check_indices(op.title, scatter_indices)
        if lax.is_scalar(updates):
            updates = lax.as_dtype(updates, typeof(operand).dtype)
        return bind(
            op,
            operand,
            scatter_indices,
            updates,
            dimension_numbers=ScatterDimensionNumbers(*map(_ints, dimension_numbers)),
            indices_are_sorted=bool(indices_are_sorted),
            unique_indices=bool(unique_indices),
            mode=GatherScatterMode.from_any(mode),
        )

    function.__name__ = function.__qualname__ = op.title.replace("-", "_")
    function.__doc__ = f"""{doc}

    Updates are applied in the order of their index vectors, also where indices repeat.

    Args:
        mode: "drop" (the default: a window that is not inside is left out), "clip" or "promise_in_bounds".
    Raises: ShapeError, DTypeError with the constraint of StableHLO that does not hold.
    """
    return function


scatter = _scattering(
    ops.scatter, "The operand with windows replaced; of several to one place the last wins."
)
scatter_add = _scattering(ops.scatter_add, "The operand with updates added to windows of it.")
scatter_mul = _scattering(ops.scatter_mul, "The operand with windows of it multiplied by updates.")
scatter_min = _scattering(ops.scatter_min, "The operand with windows lowered to the updates.")
scatter_max = _scattering(ops.scatter_max, "The operand with windows raised to the updates.")


def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """The operand with updates taken from windows of it: `scatter_add` of the negatives."""
    if lax.is_scalar(updates):
        updates = lax.as_dtype(updates, typeof(operand).dtype)
    return scatter_add(
        operand,
        scatter_indices,
        lax.neg(updates),
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )


def index_take(src: Array, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """Elements at one-dimensional indices of some axes, in front; the other axes follow."""
    shape = typeof(src).shape
    columns = [lax.expand_dims(i, (typeof(i).ndim,)) for i in idxs]
    indices = lax.concatenate(columns, typeof(columns[0]).ndim - 1)
    numbers = GatherDimensionNumbers(
        tuple(range(1, len(shape) - len(axes) + 1)), tuple(sorted(axes)), tuple(axes)
    )
    sizes = [1 if d in axes else n for d, n in enumerate(shape)]
    return gather(src, indices, numbers, sizes)
