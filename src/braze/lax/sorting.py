"""`lax.sort` and its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braze import errors
from braze.core import bind, typeof
from braze.dtypes import I32
from braze.lax import lax
from braze.lax.slicing import slice_in_dim
from braze.ops import sorting

Array = Any
ArrayLike = Any


def sort(
    operand: ArrayLike | Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Any:
    """Sort along an axis; further operands move with the first ones.

    Args:
        operand: an array, or several of one shape.
        is_stable: sorts are always stable; accepted for JAX's sake.
        num_keys: how many operands are compared, one after another.
    Order:   -inf < … < 0 < … < inf < NaN; -0.0 and 0.0 are equal, and so are all NaN; complex by real, then
             imaginary part.
    Raises:  ShapeError where shapes differ or num_keys is not between 1 and the number of operands.

    >>> import braze.numpy as bnp
    >>> sort((bnp.array([2, 1, 3]), bnp.array([10.0, 20.0, 30.0])))
    (Array([1, 2, 3], dtype=int32), Array([20., 10., 30.], dtype=float32))
    """
    several = isinstance(operand, tuple | list)
    operands = list(operand) if several else [operand]
    if not operands:
        raise errors.ArgumentError("sort: at least one array is wanted.")
    along = lax.canonical_axis(dimension, typeof(operands[0]).ndim)
    found = bind(sorting.sort, *operands, dimension=along, is_stable=bool(is_stable), num_keys=int(num_keys))
    return tuple(found) if several else found[0]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort keys along an axis, and values with them."""
    first, second = sort((keys, values), dimension, is_stable)
    return first, second


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The k largest elements along an axis, largest first, and their indices; of equal ones the first.

    NaN counts as largest.

    Returns: the elements, and i32 indices.
    Raises: ShapeError where k is negative or larger than the axis.

    >>> import braze.numpy as bnp
    >>> top_k(bnp.array([3.0, 1.0, 2.0]), 2)
    (Array([3., 2.], dtype=float32), Array([0, 2], dtype=int32))
    """
    t = typeof(operand)
    along = lax.canonical_axis(axis, t.ndim)
    if not 0 <= k <= t.shape[along]:
        raise errors.ShapeError(
            f"top_k: k is {k}, which must be from 0 to the {t.shape[along]} elements along axis {axis}."
        )
    # Backwards, so that a stable sort leaves the first of equal elements behind the others.
    places = lax.rev(lax.broadcasted_iota(I32, t.shape, along), (along,))
    found = sort((lax.rev(operand, (along,)), places), along)
    largest = [slice_in_dim(x, t.shape[along] - k, t.shape[along], axis=along) for x in found]
    values, indices = (lax.rev(x, (along,)) for x in largest)
    return values, indices
