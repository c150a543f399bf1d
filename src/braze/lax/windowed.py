"""Windows and running reductions of `braze.lax`: `reduce_window`, `cumsum` and its kind, `associative_scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braze import errors, tree_util
from braze.core import bind, typeof
from braze.lax import lax
from braze.lax.reducing import is_neutral, reducer_jaxpr, starts_of
from braze.ops import cumulative, windows
from braze.ops.table import Op

Array = Any
ArrayLike = Any


def _running(op: Op, doc: str) -> Callable[..., Array]:
    def function(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        along = lax.canonical_axis(axis, typeof(operand).ndim)
        return bind(op, operand, axis=along, reverse=bool(reverse))

    function.__name__ = function.__qualname__ = op.title
    function.__doc__ = doc
    return function


cumsum = _running(
    cumulative.cumsum, "Sums of all elements up to each one along an axis; from the end if reverse."
)
cumprod = _running(cumulative.cumprod, "Products of all elements up to each one along an axis.")
cummax = _running(
    cumulative.cummax, "The largest element up to each one along an axis; NaN from the first NaN on."
)
cummin = _running(
    cumulative.cummin, "The smallest element up to each one along an axis; NaN from the first NaN on."
)
cumlogsumexp = _running(
    cumulative.cumlogsumexp,
    "log of the sum of the exponentials of all elements up to each one along an axis.",
)


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes of pytrees of arrays along an axis under an associative function.

    Args:
        fn: takes two pytrees like `elems`, any number of elements long along the axis, and combines them
            element by element; the first holds what comes earlier.
        elems: arrays of one size along the axis.
        reverse: from the end.
    Raises: ShapeError where the arrays' sizes along the axis differ.

    >>> import braze.numpy as bnp
    >>> associative_scan(lambda x, y: x * y, bnp.array([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int32)
    """
    leaves, structure = tree_util.tree_flatten(elems)
    along = [lax.canonical_axis(axis, typeof(x).ndim) for x in leaves]
    sizes = {typeof(x).shape[a] for x, a in zip(leaves, along, strict=True)}
    if len(sizes) > 1:
        raise errors.ShapeError(
            f"associative_scan: the arrays have {', '.join(map(str, sorted(sizes)))} elements along axis {axis}, "
            "which must be alike."
        )

    def combine(u: Sequence[Any], v: Sequence[Any]) -> Sequence[Any]:
        found: list[Any] = tree_util.tree_leaves(fn(structure.unflatten(u), structure.unflatten(v)))
        return found

    if not leaves:
        return elems
    return structure.unflatten(cumulative.associative_scan(combine, leaves, along[0], bool(reverse)))


# Windows ----------------------------------------------------------------------------------------------

_MONOIDS: dict[Any, Op] = {
    lax.add: windows.reduce_window_sum,
    lax.max: windows.reduce_window_max,
    lax.min: windows.reduce_window_min,
}


def padding_of(
    padding: str | Sequence[tuple[int, int]],
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    """Padding as pairs: `VALID` is none, `SAME` what makes windows as many as strides fit in the axis.

    `SAME_LOWER` puts the odd one of SAME in front.
    """
    if not isinstance(padding, str):
        return tuple((int(low), int(high)) for low, high in padding)
    kind = padding.upper()
    if kind == "VALID":
        return ((0, 0),) * len(sizes)
    if kind not in ("SAME", "SAME_LOWER"):
        raise errors.ArgumentError(f"padding: {padding!r} is none of VALID, SAME and SAME_LOWER.")
    pairs = []
    for n, w, s in zip(sizes, window, strides, strict=True):
        total = max((-(-n // s) - 1) * s + w - n, 0)
        low = total // 2 if kind == "SAME" else total - total // 2
        pairs.append((low, total - low))
    return tuple(pairs)


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduce windows that slide over arrays.

    Args:
        operand: an array, or a pytree of arrays of one shape.
        init_value: scalars like `operand` that change nothing under the computation.
        computation: combines two scalars (pytrees of scalars); associative.
        padding: pairs of (low, high), or `VALID`, `SAME`, `SAME_LOWER`.
        base_dilation: distance of the operand's elements, with holes between them.
        window_dilation: distance of a window's elements.
    Raises: ShapeError, DTypeError where operands, init values and computation do not fit each other.
    Source:  StableHLO reduce_window.

    >>> import braze.numpy as bnp
    >>> reduce_window(bnp.arange(6.0), 0.0, lax.add, (3,), (1,), "VALID")
    Array([ 3.,  6.,  9., 12.], dtype=float32)
    """
    leaves, structure = tree_util.tree_flatten(operand)
    if not leaves:
        raise errors.ArgumentError("reduce_window: at least one array is wanted.")
    t = typeof(leaves[0])
    rank = t.ndim
    strides = tuple(map(int, window_strides or (1,) * rank))
    base = tuple(map(int, base_dilation or (1,) * rank))
    spread = tuple(map(int, window_dilation or (1,) * rank))
    sizes = [windows.dilated(n, d) for n, d in zip(t.shape, base, strict=True)]
    extents = [windows.dilated(w, d) for w, d in zip(window_dimensions, spread, strict=True)]
    window = {
        "window_dimensions": tuple(map(int, window_dimensions)),
        "window_strides": strides,
        "padding": padding_of(padding, sizes, extents, strides),
        "base_dilation": base,
        "window_dilation": spread,
    }
    inits = starts_of("reduce_window", leaves, init_value, structure)
    op = _MONOIDS.get(computation)
    if op is not None and len(leaves) == 1 and is_neutral(computation, inits[0], t.dtype):
        return structure.unflatten([bind(op, leaves[0], **window)])
    closed = reducer_jaxpr("reduce_window", computation, leaves, structure)
    found = bind(windows.reduce_window, *leaves, *inits, jaxpr=closed, **window)
    return structure.unflatten(found)
