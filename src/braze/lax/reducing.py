"""`lax.reduce`: reductions by any function of scalars, and what is known of the common ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import core, dtypes, errors, tree, tree_util
from braze.core import bind, typeof
from braze.dtypes import DType
from braze.lax import lax
from braze.lax.control_flow import in_tree_args
from braze.ops import reduce as ops
from braze.ops.reduce import highest, lowest
from braze.ops.table import Op
from braze.trace.jaxpr import ClosedJaxpr
from braze.trace.staging import trace_to_jaxpr
from braze.types import TensorType

_NEUTRAL: dict[Any, Callable[[DType], Any]] = {
    lax.add: lambda d: 0,
    lax.mul: lambda d: 1,
    lax.max: lowest,
    lax.min: highest,
    lax.bitwise_or: lambda d: 0,
    lax.bitwise_and: lambda d: True if d == dtypes.BOOL else -1 if d in dtypes.SIGNED else highest(d),
}
_MONOIDS: dict[Any, Op] = {
    lax.add: ops.reduce_sum,
    lax.mul: ops.reduce_prod,
    lax.max: ops.reduce_max,
    lax.min: ops.reduce_min,
    lax.bitwise_or: ops.reduce_or,
    lax.bitwise_and: ops.reduce_and,
}


def is_neutral(computation: Callable[..., Any], init: Any, dtype: DType) -> bool:
    """Whether an init value is known and changes nothing under a function of `lax`."""
    neutral = _NEUTRAL.get(computation)
    if neutral is None or isinstance(init, core.Tracer):
        return False
    return bool(np.asarray(init) == np.asarray(neutral(dtype)).astype(dtype))


def starts_of(what: str, leaves: Sequence[Any], init: Any, structure: tree.PyTreeDef) -> list[Any]:
    """The init values as scalars of the operands' dtypes."""
    values, found = tree_util.tree_flatten(init)
    if found != structure:
        raise errors.ArgumentError(
            f"{what}: the init values have the structure {found}, the operands {structure}."
        )
    return [
        lax.as_dtype(v, typeof(x).dtype) if lax.is_scalar(v) or typeof(v).weak_type else v
        for v, x in zip(values, leaves, strict=True)
    ]


def reducer_jaxpr(
    what: str, computation: Callable[[Any, Any], Any], leaves: Sequence[Any], structure: tree.PyTreeDef
) -> ClosedJaxpr:
    """The jaxpr of a function of two pytrees of scalars.

    Raises: ArgumentError where it uses arrays of the functions around it that are being traced.
    """
    scalars = [TensorType((), typeof(x).dtype) for x in leaves]
    example = in_tree_args(structure)
    closed, out_tree = trace_to_jaxpr(
        computation,
        [*scalars, *scalars],
        in_tree=tree.structure(((example, example), {})),
        name=getattr(computation, "__name__", "computation"),
    )
    if out_tree != structure:
        raise errors.ArgumentError(
            f"{what}: the computation must return the structure of its arguments, {structure}, not {out_tree}."
        )
    if any(isinstance(c, core.Tracer) for c in closed.consts):
        raise errors.ArgumentError(f"{what}: the computation must not use traced arrays from around it.")
    return closed


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: None = None,
) -> Any:
    """Reduce axes of arrays by any associative function.

    Args:
        operands: an array, or a pytree of arrays of one shape.
        init_values: scalars like `operands`, which join each result once.
        computation: combines two scalars (pytrees of scalars).
        dimensions: the axes that are reduced.
        out_sharding: must be None.
    Raises: ShapeError, DTypeError where operands, init values and computation do not fit each other.
    Order:   the function may be applied to neighbours in any grouping.

    >>> import braze.numpy as bnp
    >>> reduce(bnp.array([[1, 2], [3, 4]]), 1, lambda x, y: x * y, (0,))
    Array([3, 8], dtype=int32)
    """
    if out_sharding is not None:
        raise errors.ArgumentError("reduce: out_sharding must be None; arrays live on one device.")
    leaves, structure = tree_util.tree_flatten(operands)
    if not leaves:
        raise errors.ArgumentError("reduce: at least one array is wanted.")
    inits = starts_of("reduce", leaves, init_values, structure)
    axes = tuple(lax.canonical_axis(d, typeof(leaves[0]).ndim) for d in dimensions)
    op = _MONOIDS.get(computation)
    dtype = typeof(leaves[0]).dtype
    takes = dtype not in dtypes.FLOATS or computation not in (lax.bitwise_or, lax.bitwise_and)
    if op is not None and takes and len(leaves) == 1 and is_neutral(computation, inits[0], dtype):
        return structure.unflatten([bind(op, leaves[0], axes=axes)])
    closed = reducer_jaxpr("reduce", computation, leaves, structure)
    return structure.unflatten(bind(ops.reduce, *leaves, *inits, jaxpr=closed, dimensions=axes))
