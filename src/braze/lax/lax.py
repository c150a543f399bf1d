"""Elementwise, shape, reduction and contraction operations under their JAX names.

Each function checks and completes its arguments and binds one operation (`ops/`). Python scalars take the
dtype of the other operands; named dtypes must agree.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from braze import dtypes, errors, tree_util
from braze.array import device_put
from braze.core import bind, typeof
from braze.dtypes import DType
from braze.ops import dot as dot_ops
from braze.ops import elementwise, transcendental
from braze.ops import reduce as reduce_ops
from braze.ops import shape as shape_ops
from braze.ops.table import Op

Array = Any
ArrayLike = Any
Named = TypeVar("Named", bound=Callable[..., Any])


class RoundingMethod(enum.IntEnum):
    """How `round` treats halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def is_scalar(value: Any) -> bool:
    """Whether a value is a Python scalar, which has a weak type (NumPy scalars have a named one)."""
    return isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic)


def as_array(value: ArrayLike) -> Array:
    """A value that a function gives back as it came: an array of braze, which no one else can write."""
    return value if hasattr(type(value), "aval") else device_put(value)


_KINDS: dict[str, type] = {"i": int, "u": int, "f": float, "c": complex, "V": float, "b": bool}


def as_dtype(value: ArrayLike, dtype: DType, weak_type: bool = False) -> ArrayLike:
    """A value in a dtype: Python scalars become literals, other values are converted where they differ.

    Raises: IntegerOverflowError where a Python int does not fit.
    """
    if is_scalar(value):
        if isinstance(value, int) and not isinstance(value, bool):
            dtypes.check_fits(value, dtype)
        if weak_type:
            return _KINDS[dtype.kind](value)
        if isinstance(value, int) or (dtype.itemsize >= 4 and builtins.abs(value) < 1e38):
            return dtype.type(value)
        with np.errstate(over="ignore"):
            return np.asarray(value).astype(dtype)[()]
    t = typeof(value)
    if t.dtype == dtype and t.weak_type == weak_type:
        return value
    return bind(elementwise.convert_element_type, value, new_dtype=dtype, weak_type=weak_type)


def _complete(*operands: ArrayLike) -> builtins.tuple[ArrayLike, ...]:
    """Operands with Python scalars in the dtype of the others; all-scalar operands meet by promotion."""
    if not any(is_scalar(o) for o in operands):
        return operands
    types = [typeof(o) for o in operands if not is_scalar(o)]
    if not types:
        dtype, weak = dtypes.promote((typeof(o).dtype, typeof(o).weak_type) for o in operands)
        return tuple(as_dtype(o, dtype, weak) for o in operands)
    dtype, weak = types[0].dtype, all(t.weak_type for t in types)
    return tuple(_scalar_like(o, dtype, weak) if is_scalar(o) else o for o in operands)


def _scalar_like(value: Any, dtype: DType, weak: bool) -> ArrayLike:
    if (isinstance(value, float) and not dtypes.is_inexact(dtype)) or isinstance(value, complex):
        raise errors.DTypeError(
            f"operand: the Python scalar {value!r} does not convert to {dtypes.short(dtype)} without loss.",
            hint="convert the array first, or use braze.numpy, which promotes.",
        )
    return as_dtype(value, dtype, weak)


def _unary(op: Op) -> Callable[[ArrayLike], Array]:
    def function(x: ArrayLike) -> Array:
        return bind(op, x)

    return _named(function, op, f"Elementwise `{op.title}` of x.")


def _binary(op: Op) -> Callable[[ArrayLike, ArrayLike], Array]:
    def function(x: ArrayLike, y: ArrayLike) -> Array:
        return bind(op, *_complete(x, y))

    return _named(function, op, f"Elementwise `{op.title}` of x and y, which have one dtype.")


def _named(function: Named, op: Op, doc: str) -> Named:
    name = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "not": "bitwise_not"}.get(
        op.title, op.title
    )
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


abs = _unary(elementwise.abs)
acos = _unary(transcendental.acos)
acosh = _unary(transcendental.acosh)
asin = _unary(transcendental.asin)
asinh = _unary(transcendental.asinh)
atan = _unary(transcendental.atan)
atanh = _unary(transcendental.atanh)
cbrt = _unary(transcendental.cbrt)
cosh = _unary(transcendental.cosh)
digamma = _unary(transcendental.digamma)
erf = _unary(transcendental.erf)
erfc = _unary(transcendental.erfc)
exp2 = _unary(transcendental.exp2)
expm1 = _unary(transcendental.expm1)
lgamma = _unary(transcendental.lgamma)
log1p = _unary(transcendental.log1p)
log2 = _unary(transcendental.log2)
log10 = _unary(transcendental.log10)
logistic = _unary(transcendental.logistic)
sinh = _unary(transcendental.sinh)
tan = _unary(transcendental.tan)
ceil = _unary(elementwise.ceil)
erf_inv = _unary(transcendental.erf_inv)
cos = _unary(transcendental.cos)
exp = _unary(transcendental.exp)
floor = _unary(elementwise.floor)
is_finite = _unary(elementwise.is_finite)
log = _unary(transcendental.log)
neg = _unary(elementwise.neg)
bitwise_not = _unary(elementwise.not_)
rsqrt = _unary(transcendental.rsqrt)
sign = _unary(elementwise.sign)
sin = _unary(transcendental.sin)
sqrt = _unary(transcendental.sqrt)
square = _unary(elementwise.square)
tanh = _unary(transcendental.tanh)

add = _binary(elementwise.add)
atan2 = _binary(transcendental.atan2)
bitwise_and = _binary(elementwise.and_)
bitwise_or = _binary(elementwise.or_)
bitwise_xor = _binary(elementwise.xor)
div = _binary(elementwise.div)
eq = _binary(elementwise.eq)
ge = _binary(elementwise.ge)
gt = _binary(elementwise.gt)
le = _binary(elementwise.le)
lt = _binary(elementwise.lt)
max = _binary(elementwise.max)
min = _binary(elementwise.min)
mul = _binary(elementwise.mul)
ne = _binary(elementwise.ne)
rem = _binary(elementwise.rem)
shift_left = _binary(elementwise.shift_left)
shift_right_arithmetic = _binary(elementwise.shift_right_arithmetic)
shift_right_logical = _binary(elementwise.shift_right_logical)
sub = _binary(elementwise.sub)


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x**y for a Python int y, by repeated squaring; a negative y takes the reciprocal at the end."""
    return bind(elementwise.integer_pow, x, y=int(y))


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x**y in floating point; a Python int y multiplies by repeated squaring, as `integer_pow`.

    Zeros, infinities and NaN as IEEE 754's pow: x**0 and 1**y are 1 whatever the other is, a negative x to a power
    that is no whole number is NaN.

    >>> from braze import lax
    >>> lax.pow(2.0, 0.5)
    Array(1.4142135, dtype=float32, weak_type=True)
    """
    if isinstance(y, int) and not isinstance(y, bool):
        return integer_pow(x, y)
    return bind(transcendental.pow, *_complete(x, y))


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Round to the nearest integer, halves by the method."""
    return bind(elementwise.round, x, rounding_method=RoundingMethod(rounding_method))


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x where it lies in [min, max], else the nearer bound; bounds are scalars or of x's shape."""
    return bind(elementwise.clamp, *_complete(min, x, max))


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Elementwise choice: `cases[which]`; `which` is a bool or i32, a scalar or of the cases' shape."""
    return bind(elementwise.select_n, which, *_complete(*cases))


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """on_true where pred holds, else on_false."""
    return select_n(pred, on_false, on_true)


def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The values in another dtype: floats round to nearest even, float to integer truncates and saturates."""
    dtype = dtypes.canonical(new_dtype)
    t = typeof(operand)
    if is_scalar(operand) and isinstance(operand, int) and not isinstance(operand, bool):
        dtypes.check_fits(operand, dtype)
    weak = new_dtype in (float, int, complex) and not isinstance(new_dtype, np.dtype)
    if t.dtype == dtype and t.weak_type == weak and not is_scalar(operand):
        return as_array(operand)
    return bind(elementwise.convert_element_type, operand, new_dtype=dtype, weak_type=weak)


def bitcast_convert_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """The same bits as another dtype of equal width."""
    return bind(elementwise.bitcast_convert_type, operand, dtype=dtypes.canonical(new_dtype))


def stop_gradient(x: Any) -> Any:
    """x as a constant to differentiation; a pytree is taken leaf by leaf."""

    def stop(leaf: ArrayLike) -> ArrayLike:
        return (
            bind(elementwise.stop_gradient, leaf) if dtypes.is_inexact(typeof(leaf).dtype) else as_array(leaf)
        )

    return tree_util.tree_map(stop, x)


# Shapes -------------------------------------------------------------------------------------------


def broadcast_in_dim(operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Array:
    """Repeat along new axes: operand axis i becomes result axis `broadcast_dimensions[i]`.

    Shapes:  sizes of the operand are 1 or those of the result's axes.
    """
    return bind(
        shape_ops.broadcast_in_dim,
        operand,
        shape=_sizes(shape),
        broadcast_dimensions=_sizes(broadcast_dimensions),
    )


def broadcast(operand: ArrayLike, sizes: Sequence[int]) -> Array:
    """Repeat along new leading axes of these sizes."""
    t = typeof(operand)
    lead = _sizes(sizes)
    return broadcast_in_dim(operand, (*lead, *t.shape), range(len(lead), len(lead) + t.ndim))


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Insert axes of size 1 so that they stand at `dimensions` of the result."""
    t = typeof(array)
    rank = t.ndim + len(dimensions)
    new = {canonical_axis(d, rank) for d in dimensions}
    old = [d for d in range(rank) if d not in new]
    shape = [1] * rank
    for d, n in zip(old, t.shape, strict=True):
        shape[d] = n
    return broadcast_in_dim(array, shape, old)


def reshape(operand: ArrayLike, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> Array:
    """The same elements in row-major order under another shape."""
    if dimensions is not None and tuple(dimensions) != tuple(range(typeof(operand).ndim)):
        operand = transpose(operand, dimensions)
    return bind(shape_ops.reshape, operand, shape=_sizes(new_sizes))


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Drop axes of size 1."""
    rank = typeof(array).ndim
    return bind(
        shape_ops.squeeze, array, dimensions=tuple(sorted(canonical_axis(d, rank) for d in dimensions))
    )


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Reorder axes: result axis i is operand axis `permutation[i]`."""
    order = _sizes(permutation)
    if order == tuple(range(len(order))) and typeof(operand).ndim == len(order):
        return as_array(operand)
    return bind(shape_ops.transpose, operand, permutation=order)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along axes."""
    return bind(shape_ops.rev, operand, dimensions=_sizes(dimensions))


def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[Sequence[int]]) -> Array:
    """Pad each axis by (low, high, interior); negative low and high cut."""
    low, high, interior = zip(*padding_config, strict=True) if len(padding_config) else ((), (), ())
    value = as_dtype(padding_value, typeof(operand).dtype) if is_scalar(padding_value) else padding_value
    return bind(shape_ops.pad, operand, value, low=_sizes(low), high=_sizes(high), interior=_sizes(interior))


def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Join arrays along an axis."""
    if len(operands) == 0:
        raise errors.ShapeError("concatenate: at least one array is wanted.")
    return bind(shape_ops.concatenate, *operands, dimension=int(dimension))


def iota(dtype: Any, size: int) -> Array:
    """0, 1, …, size - 1."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Array:
    """An array whose elements are their index along one axis."""
    return bind(
        shape_ops.iota, dtype=dtypes.canonical(dtype), shape=_sizes(shape), iota_dimension=int(dimension)
    )


def full(shape: Sequence[int], fill_value: ArrayLike, dtype: Any = None) -> Array:
    """An array of one value."""
    t = typeof(fill_value)
    target = t.dtype if dtype is None else dtypes.canonical(dtype)
    weak = dtype is None and t.weak_type
    return broadcast(as_dtype(fill_value, target, weak), shape)


def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: Any = None, shape: Sequence[int] | None = None
) -> Array:
    """An array of one value with the shape and dtype of x unless given."""
    t = typeof(x)
    value = as_dtype(
        fill_value, t.dtype if dtype is None else dtypes.canonical(dtype), dtype is None and t.weak_type
    )
    return broadcast(value, t.shape if shape is None else shape)


# Reductions and contractions ----------------------------------------------------------------------


def _reduction(op: Op) -> Callable[[ArrayLike, Sequence[int]], Array]:
    def function(operand: ArrayLike, axes: Sequence[int]) -> Array:
        return bind(op, operand, axes=_sizes(axes))

    return _named(function, op, f"`{op.title}` of the operand over axes.")


reduce_sum = _reduction(reduce_ops.reduce_sum)
reduce_prod = _reduction(reduce_ops.reduce_prod)
reduce_max = _reduction(reduce_ops.reduce_max)
reduce_min = _reduction(reduce_ops.reduce_min)
reduce_and = _reduction(reduce_ops.reduce_and)
reduce_or = _reduction(reduce_ops.reduce_or)


def argmax(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    """Index of the largest element along an axis, the first of equals; NaN counts as largest."""
    return bind(reduce_ops.argmax, operand, axes=(int(axis),), index_dtype=dtypes.canonical(index_dtype))


def argmin(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    """Index of the smallest element along an axis, the first of equals; NaN counts as smallest."""
    return bind(reduce_ops.argmin, operand, axes=(int(axis),), index_dtype=dtypes.canonical(index_dtype))


DotDimensionNumbers = Any


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Contract lhs with rhs over paired axes, keeping paired batch axes in front.

        result[b…, i…, j…] = Σ_k lhs[b…, i…, k…] · rhs[b…, j…, k…]

    Args:
        dimension_numbers: ((lhs contracting, rhs contracting), (lhs batch, rhs batch)).
        precision: accepted for JAX's sake; products are never computed in fewer bits than the dtype has.
    Order:   sums may be reassociated and contracted with FMA.
    Source:  StableHLO dot_general.
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    wanted = None if preferred_element_type is None else dtypes.canonical(preferred_element_type)
    return bind(
        dot_ops.dot_general,
        lhs,
        rhs,
        lhs_batching_dimensions=_sizes(lhs_batch),
        rhs_batching_dimensions=_sizes(rhs_batch),
        lhs_contracting_dimensions=_sizes(lhs_contract),
        rhs_contracting_dimensions=_sizes(rhs_contract),
        dtype=typeof(lhs).dtype if wanted is None else wanted,
        precision=None,
    )


def dot(
    lhs: ArrayLike, rhs: ArrayLike, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """Vector or matrix product: the last axis of lhs with the first of rhs."""
    x, y = typeof(lhs), typeof(rhs)
    if not (1 <= x.ndim <= 2 and 1 <= y.ndim <= 2 and x.shape[-1] == y.shape[0]):
        raise errors.ShapeError(
            "dot: vectors or matrices whose inner sizes agree are wanted.", values=f"lhs {x}, rhs {y}"
        )
    return dot_general(lhs, rhs, (((x.ndim - 1,), (0,)), ((), ())), precision, preferred_element_type)


def canonical_axis(axis: int, rank: int) -> int:
    """A non-negative axis; raises ShapeError for one that does not exist."""
    try:
        found = axis.__index__()
    except AttributeError:
        raise errors.ArgumentError(f"axis: an integer is wanted, {axis!r} was given.") from None
    if not -rank <= found < rank:
        raise errors.ShapeError(f"axis: {axis} is out of bounds for an array of {rank} axes.")
    return found % rank


def _sizes(values: Sequence[int]) -> builtins.tuple[int, ...]:
    """Python ints from any sequence of integers (NumPy's too)."""
    return tuple(int(v) for v in values)
