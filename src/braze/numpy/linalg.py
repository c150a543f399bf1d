"""Products of vectors and matrices, all by `dot_general`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braze import dtypes, errors
from braze.core import typeof
from braze.lax import lax
from braze.numpy import reductions
from braze.numpy import shape as shapes
from braze.numpy.promotion import broadcast_shapes, check_arrays, promote_dtypes, without_out

Array = Any
ArrayLike = Any


def matmul(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """Matrix product over the last two axes, leading axes broadcast; vectors on either side.

    Shapes:  (…, i, k) and (…, k, j) -> (…, i, j); a vector's axis is contracted away.
    Raises:  ShapeError where the inner sizes differ or an operand is a scalar.
    """
    check_arrays("matmul", a, b)
    a, b = promote_dtypes(a, b)
    x, y = typeof(a), typeof(b)
    if x.ndim == 0 or y.ndim == 0:
        raise errors.ShapeError("matmul: scalars are not multiplied as matrices.", hint="use * for scalars.")
    k, l = x.shape[-1], y.shape[0 if y.ndim == 1 else -2]
    if k != l:
        raise errors.ShapeError(
            f"matmul: the last axis of the left operand has size {k}, "
            f"the {'only' if y.ndim == 1 else 'second last'} axis of the right operand {l}.",
            values=f"lhs {x}, rhs {y}",
        )
    batch = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    if not batch:
        contract = ((x.ndim - 1,), (max(y.ndim - 2, 0),))
        return lax.dot_general(a, b, (contract, ((), ())), precision, preferred_element_type)
    # A side without batch axes of its own would only be repeated; there its free axis joins the result.
    if y.ndim <= 2:
        return lax.dot_general(
            a, b, (((x.ndim - 1,), (max(y.ndim - 2, 0),)), ((), ())), precision, preferred_element_type
        )
    a = a if x.ndim == 1 else shapes.broadcast_to(a, (*batch, *x.shape[-2:]))
    b = shapes.broadcast_to(b, (*batch, *y.shape[-2:]))
    n = len(batch)
    if x.ndim == 1:
        return lax.dot_general(b, a, (((n,), (0,)), ((), ())), precision, preferred_element_type)
    axes = tuple(range(n))
    return lax.dot_general(a, b, (((n + 1,), (n,)), (axes, axes)), precision, preferred_element_type)


def dot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """NumPy's dot: the last axis of a with the second last of b; scalars multiply."""
    check_arrays("dot", a, b)
    a, b = promote_dtypes(a, b)
    x, y = typeof(a), typeof(b)
    if x.ndim == 0 or y.ndim == 0:
        return lax.mul(a, b)
    if y.ndim == 1:
        return matmul(a, b, precision=precision, preferred_element_type=preferred_element_type)
    axes = ((x.ndim - 1,), (y.ndim - 2,))
    return tensordot(a, b, axes, precision=precision, preferred_element_type=preferred_element_type)


def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: int | Sequence[Any] = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Contract pairs of axes: the last n of a with the first n of b, or named ones."""
    check_arrays("tensordot", a, b)
    a, b = promote_dtypes(a, b)
    x, y = typeof(a), typeof(b)
    if isinstance(axes, int):
        left, right = tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes))
    else:
        first, second = axes
        left = (first,) if isinstance(first, int) else tuple(first)
        right = (second,) if isinstance(second, int) else tuple(second)
    left = tuple(lax.canonical_axis(d, x.ndim) for d in left)
    right = tuple(lax.canonical_axis(d, y.ndim) for d in right)
    return lax.dot_general(a, b, ((left, right), ((), ())), precision, preferred_element_type)


def vdot(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """Sum of products of all elements."""
    return dot(
        shapes.ravel(a), shapes.ravel(b), precision=precision, preferred_element_type=preferred_element_type
    )


def inner(a: ArrayLike, b: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None) -> Array:
    """Sum of products over the last axes."""
    check_arrays("inner", a, b)
    x, y = typeof(a), typeof(b)
    if x.ndim == 0 or y.ndim == 0:
        a, b = promote_dtypes(a, b)
        return lax.mul(a, b)
    axes = ((x.ndim - 1,), (y.ndim - 1,))
    return tensordot(a, b, axes, precision=precision, preferred_element_type=preferred_element_type)


def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Every product of an element of a with one of b."""
    without_out("outer", out)
    check_arrays("outer", a, b)
    a, b = promote_dtypes(shapes.ravel(a), shapes.ravel(b))
    return lax.mul(lax.expand_dims(a, (1,)), lax.expand_dims(b, (0,)))


def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Array:
    """Sum of a diagonal of matrices that lie along two axes."""
    without_out("trace", out)
    check_arrays("trace", a)
    t = typeof(a)
    if t.ndim < 2:
        raise errors.ShapeError("trace: a matrix or a stack of them is wanted.", values=f"operand {t}")
    moved = shapes.moveaxis(a, (axis1, axis2), (-2, -1))
    sizes = typeof(moved).shape
    rows, columns = (lax.broadcasted_iota(dtypes.I32, sizes, d) for d in (t.ndim - 2, t.ndim - 1))
    kept = lax.select(lax.eq(lax.add(rows, offset), columns), moved, lax.full(sizes, 0, t.dtype))
    return reductions.sum(kept, axis=(-2, -1), dtype=dtype)
