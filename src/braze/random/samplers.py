"""Distributions of `braze.random`, from the bits of one key each.

The uniform numbers, integers and permutations are JAX's, bit for bit; what is computed from them by functions
such as log is JAX's up to the rounding of those functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.core import typeof
from braze.dtypes import DType
from braze.lax import lax
from braze.lax import sorting as order
from braze.lax.slicing import index_in_dim, slice_in_dim
from braze.numpy import creation, cumulative, elementwise, indexing, reductions
from braze.numpy.promotion import broadcast_shapes, check_arrays
from braze.numpy.shape import broadcast_to, moveaxis
from braze.random.keys import UNSIGNED, Shape, _split, as_shape, check_key, random_bits
from braze.stages import composed

Array = Any
ArrayLike = Any


def _float_dtype(name: str, dtype: Any) -> DType:
    wanted = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    if wanted not in dtypes.FLOATS:
        raise errors.DTypeError(f"{name}: dtype is a float, {dtypes.short(wanted)} was given.")
    return wanted


def _check_broadcast(name: str, shape: tuple[int, ...], *parameters: ArrayLike) -> None:
    """Raise unless parameters broadcast to a shape."""
    if broadcast_shapes(name, shape, *[typeof(p).shape for p in parameters]) != shape:
        raise errors.ShapeError(
            f"{name}: parameters of shapes {', '.join(str(typeof(p).shape) for p in parameters)} do not "
            f"broadcast to the shape {shape} that was asked for."
        )


def _shape_of(name: str, shape: Shape | None, *parameters: ArrayLike) -> tuple[int, ...]:
    """The shape of a sample, that of its parameters where none is given."""
    if shape is None:
        return broadcast_shapes(name, *[typeof(p).shape for p in parameters])
    sizes = as_shape(name, shape)
    _check_broadcast(name, sizes, *parameters)
    return sizes


# Uniform ----------------------------------------------------------------------------------------------


def uniform(
    key: ArrayLike,
    shape: Shape = (),
    dtype: Any = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    """Floats evenly spread over [minval, maxval).

    >>> from braze.random import PRNGKey
    >>> uniform(PRNGKey(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    check_key("uniform", key)
    sizes, wanted = as_shape("uniform", shape), _float_dtype("uniform", dtype)
    _check_broadcast("uniform", sizes, minval, maxval)
    return _uniform(key, minval, maxval, sizes, wanted, _scales_exactly(minval, maxval, wanted))


def _scales_exactly(minval: ArrayLike, maxval: ArrayLike, dtype: DType) -> bool:
    """Whether the width of the range is known to be a power of two, so that scaling by it rounds nothing."""
    if not (lax.is_scalar(minval) and lax.is_scalar(maxval)):
        return False
    width = float(dtype.type(maxval) - dtype.type(minval))
    return width > 0 and math.frexp(width)[0] == 0.5


@composed("shape", "dtype", "exact")
def _uniform(
    key: Array, minval: Array, maxval: Array, shape: tuple[int, ...], dtype: DType, exact: bool
) -> Array:
    """Random bits as the fraction of a float in [1, 2), less 1, scaled.

    JAX's program scales and adds in one rounding; in f64 the product of two f32 is exact.
    """
    low, high = (broadcast_to(lax.as_dtype(v, dtype), shape) for v in (minval, maxval))
    info = dtypes.float_limits(dtype)
    width = 8 * dtype.itemsize
    fraction = random_bits(key, 8 if info.nmant < 8 else width, shape)
    fraction = lax.shift_right_logical(
        fraction, lax.full_like(fraction, 8 * typeof(fraction).dtype.itemsize - info.nmant)
    )
    fraction = lax.convert_element_type(fraction, UNSIGNED[width])
    one = np.ones((), dtype).view(UNSIGNED[width])
    pattern = lax.bitwise_or(fraction, lax.full_like(fraction, one))
    unit = lax.sub(lax.bitcast_convert_type(pattern, dtype), lax.full(shape, 1, dtype))
    width, offset = lax.sub(high, low), low
    if dtype == dtypes.F32 and not exact:
        unit, width, offset = (lax.convert_element_type(x, dtypes.F64) for x in (unit, width, offset))
    scaled = lax.convert_element_type(lax.add(lax.mul(unit, width), offset), dtype)
    return lax.max(low, scaled)


def randint(key: ArrayLike, shape: Shape, minval: ArrayLike, maxval: ArrayLike, dtype: Any = None) -> Array:
    """Integers evenly spread over [minval, maxval); minval where that is empty.

    >>> from braze.random import PRNGKey
    >>> randint(PRNGKey(0), (3,), 0, 10)
    Array([9, 0, 2], dtype=int32)
    """
    check_key("randint", key)
    check_arrays("randint", minval, maxval)
    wanted = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    if wanted not in dtypes.INTEGERS:
        raise errors.DTypeError(f"randint: dtype is an integer, {dtypes.short(wanted)} was given.")
    sizes = as_shape("randint", shape)
    _check_broadcast("randint", sizes, minval, maxval)
    if wanted.itemsize >= 4:
        return _randint(key, minval, maxval, sizes, wanted)
    # 32 bits make the bias small.
    limits = dtypes.integer_limits(wanted)
    low, high = (lax.as_dtype(v, dtypes.I32) for v in (minval, maxval))
    low = lax.clamp(int(limits.min), low, int(limits.max))
    high = lax.clamp(int(limits.min), high, int(limits.max) + 1)
    return lax.convert_element_type(_randint(key, low, high, sizes, dtypes.I32), wanted)


@composed("shape", "dtype")
def _randint(key: Array, minval: Array, maxval: Array, shape: tuple[int, ...], dtype: DType) -> Array:
    """Two words of bits modulo the width of the range: twice the bits make the bias small."""
    limits = dtypes.integer_limits(dtype)
    width = 8 * dtype.itemsize
    low, high = (_integer(v) for v in (minval, maxval))
    beyond = broadcast_to(lax.gt(high, _clipped_limit(high, int(limits.max))), shape)
    low, high = (broadcast_to(_clipped(v, dtype), shape) for v in (low, high))
    first, second = (random_bits(k, width, shape) for k in _two(key))
    span = lax.convert_element_type(lax.sub(high, low), UNSIGNED[width])
    one = lax.full_like(span, 1)
    span = lax.select(lax.le(high, low), one, span)
    span = lax.select(lax.bitwise_and(beyond, lax.gt(high, low)), lax.add(span, one), span)
    factor = lax.rem(lax.full_like(span, 1 << (width // 2)), span)
    factor = lax.rem(lax.mul(factor, factor), span)
    offset = lax.add(lax.mul(lax.rem(first, span), factor), lax.rem(second, span))
    return lax.add(low, lax.convert_element_type(lax.rem(offset, span), dtype))


def _two(key: Array) -> tuple[Array, Array]:
    keys = _split(key, (2,))
    return index_in_dim(keys, 0, 0, False), index_in_dim(keys, 1, 0, False)


def _integer(value: ArrayLike) -> Array:
    t = typeof(value)
    return lax.as_dtype(value, t.dtype if t.dtype in dtypes.INTEGERS else dtypes.default_int())


def _clipped_limit(like: Array, limit: int) -> Array:
    """A limit in the dtype of an array, as near as that comes."""
    own = dtypes.integer_limits(typeof(like).dtype)
    return lax.full_like(like, max(min(limit, int(own.max)), int(own.min)))


def _clipped(value: Array, dtype: DType) -> Array:
    """The nearest value of another integer dtype."""
    limits = dtypes.integer_limits(dtype)
    inside = lax.max(value, _clipped_limit(value, int(limits.min)))
    inside = lax.min(inside, _clipped_limit(value, int(limits.max)))
    return lax.convert_element_type(inside, dtype)


# Order ------------------------------------------------------------------------------------------------


def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Array:
    """The elements along an axis in random order, or 0, 1, …, x-1 for an int x.

    Args:
        independent: whether each row along the axis has an order of its own.
    """
    check_key("permutation", key)
    check_arrays("permutation", x)
    t = typeof(x)
    if t.ndim == 0:
        if not isinstance(x, int | np.integer):
            raise errors.ArgumentError("permutation: x is an int or an array with axes.", values=f"x {t}")
        return _shuffled(key, creation.arange(int(x)), 0)
    along = lax.canonical_axis(axis, t.ndim)
    if independent or t.ndim == 1:
        return _shuffled(key, x, along)
    return _take(x, _shuffled(key, creation.arange(t.shape[along]), 0), along)


@composed("axis")
def _shuffled(key: Array, x: Array, axis: int) -> Array:
    """Sorted by random keys, as often as it takes for ties to be unlikely."""
    t = typeof(x)
    rounds = math.ceil(3 * math.log(max(1, t.size)) / math.log(0xFFFFFFFF))
    for _ in range(rounds):
        key, own = _two(key)
        _, x = order.sort_key_val(random_bits(own, 32, t.shape), x, axis)
    return x


def _take(a: ArrayLike, indices: Array, axis: int) -> Array:
    """The elements at indices along an axis; indices lie inside."""
    return indexing.getitem(lax.as_array(a), (*(slice(None),) * axis, indices))


def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Random elements of an array along an axis, or of 0, 1, …, a-1 for an int a.

    Args:
        replace: whether an element may be drawn more than once.
        p: the probability of each element; all alike without it.
    Raises: ShapeError where more elements are wanted than there are, or p is not one number per element.
    """
    check_key("choice", key)
    check_arrays("choice", a)
    sizes = as_shape("choice", shape)
    t = typeof(a)
    if t.ndim == 0 and not isinstance(a, int | np.integer):
        raise errors.ArgumentError("choice: a is an int or an array with axes.", values=f"a {t}")
    along = lax.canonical_axis(axis, t.ndim) if t.ndim else 0
    count = t.shape[along] if t.ndim else int(a)
    draws = math.prod(sizes)
    if draws == 0:
        return lax.full(sizes, 0, t.dtype)
    if count <= 0:
        raise errors.ShapeError("choice: there is nothing to choose from.")
    if not replace and draws > count:
        raise errors.ShapeError(
            f"choice: {draws} elements are wanted and there are {count}, without replacement."
        )
    if p is not None and typeof(p).shape != (count,):
        raise errors.ShapeError(f"choice: p has shape {typeof(p).shape}, which must be ({count},).")
    if p is None and not replace:
        mixed = permutation(key, count if t.ndim == 0 else a, along)
        found = slice_in_dim(mixed, 0, draws, axis=along)
    else:
        index = randint(key, sizes, 0, count) if p is None else _weighted(key, p, sizes, replace, mode)
        found = index if t.ndim == 0 else _take(a, index, along)
    return lax.reshape(found, sizes if t.ndim == 0 else (*t.shape[:along], *sizes, *t.shape[along + 1 :]))


def _weighted(key: Array, p: ArrayLike, shape: tuple[int, ...], replace: bool, mode: str | None) -> Array:
    p = lax.as_dtype(p, _inexact(typeof(p).dtype))
    dtype = typeof(p).dtype
    if not replace:
        score = lax.add(gumbel(key, typeof(p).shape, dtype, mode), lax.log(p))
        return lax.convert_element_type(order.top_k(score, math.prod(shape))[1], dtypes.default_int())
    total = cumulative.cumsum(p)
    drawn = elementwise.multiply(
        index_in_dim(total, -1, 0, False), elementwise.subtract(1, uniform(key, shape, dtype))
    )
    below = elementwise.less(total, lax.expand_dims(drawn, (len(shape),)))
    return reductions.sum(below, axis=-1, dtype=dtypes.default_int())


def _inexact(dtype: DType) -> DType:
    return dtype if dtype in dtypes.FLOATS else dtypes.default_float()


def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Indices along an axis, each as probable as its softmax says.

    Args:
        logits: logarithms of the probabilities, up to a constant.
        shape: of the result; it ends in the shape of logits without the axis.
        replace: whether a distribution may give an index more than once.
        mode: how many bits: `low` or `high`, for events rarer than 1e-7.
    """
    check_key("categorical", key)
    check_arrays("categorical", logits)
    logits = lax.as_dtype(logits, _inexact(typeof(logits).dtype))
    t = typeof(logits)
    along = lax.canonical_axis(axis, t.ndim)
    rows = (*t.shape[:along], *t.shape[along + 1 :])
    sizes = rows if shape is None else as_shape("categorical", shape)
    if broadcast_shapes("categorical", sizes, rows) != sizes:
        raise errors.ShapeError(f"categorical: shape {sizes} does not end in the rows of logits, {rows}.")
    front = sizes[: len(sizes) - len(rows)]
    if replace:
        full = list(sizes[len(front) :])
        full.insert(along, t.shape[along])
        noise = gumbel(key, (*front, *full), t.dtype, mode)
        return reductions.argmax(elementwise.add(noise, logits), axis=along - t.ndim)
    count = math.prod(front)
    if count > t.shape[along]:
        raise errors.ShapeError(
            f"categorical: {count} indices are wanted of {t.shape[along]}, without replacement."
        )
    noisy = elementwise.add(logits, gumbel(key, t.shape, t.dtype, mode))
    _, found = order.top_k(moveaxis(noisy, along, -1), count)
    last = typeof(found).ndim - 1
    return lax.reshape(lax.transpose(found, (last, *range(last))), sizes)


# Continuous distributions -----------------------------------------------------------------------------


def _tiny(dtype: DType) -> float:
    return float(dtypes.float_limits(dtype).tiny)


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None, mode: str = "low") -> Array:
    """True with probability p.

    Args:
        mode: how many bits: `low`, or `high` for probabilities below 1e-7.
    """
    check_key("bernoulli", key)
    check_arrays("bernoulli", p)
    if mode not in ("low", "high"):
        raise errors.ArgumentError(f"bernoulli: mode {mode!r} is neither low nor high.")
    dtype = _inexact(typeof(p).dtype)
    p = lax.as_dtype(p, dtype)
    sizes = _shape_of("bernoulli", shape, p)
    if mode == "low":
        return elementwise.less(uniform(key, sizes, dtype), p)
    both = uniform(key, (2, *sizes), dtype)
    first, second = index_in_dim(both, 0, 0, False), index_in_dim(both, 1, 0, False)
    fine = elementwise.multiply(second, 2.0 ** -dtypes.float_limits(dtype).nmant)
    return elementwise.less(fine, elementwise.subtract(p, first))


def exponential(key: ArrayLike, shape: Shape = (), dtype: Any = None) -> Array:
    """Exponentially distributed floats of mean 1."""
    wanted = _float_dtype("exponential", dtype)
    # Exact: a uniform number is a whole multiple of half the spacing below 1.
    return lax.neg(lax.log(elementwise.subtract(1, uniform(key, shape, wanted))))


def gumbel(key: ArrayLike, shape: Shape = (), dtype: Any = None, mode: str | None = None) -> Array:
    """Floats of the standard Gumbel distribution.

    Args:
        mode: how many bits: `low` (None is the same) or `high`.
    """
    if mode not in (None, "low"):
        raise errors.ArgumentError(f"gumbel: mode {mode!r} is not low, the one there is.")
    wanted = _float_dtype("gumbel", dtype)
    u = uniform(key, shape, wanted, _tiny(wanted), 1.0)
    return lax.neg(lax.log(lax.neg(lax.log(u))))


def normal(key: ArrayLike, shape: Shape = (), dtype: Any = None) -> Array:
    """Normally distributed floats of mean 0 and standard deviation 1: √2·erf⁻¹ of uniform numbers in (-1, 1).

    >>> from braze.random import PRNGKey
    >>> normal(PRNGKey(0), (2,))
    Array([1.6226422, 2.0252647], dtype=float32)
    """
    wanted = _float_dtype("normal", dtype)
    u = uniform(key, shape, wanted, float(np.nextafter(wanted.type(-1), wanted.type(0))), 1.0)
    return elementwise.multiply(wanted.type(math.sqrt(2)), lax.erf_inv(u))


def lognormal(key: ArrayLike, sigma: ArrayLike = 1.0, shape: Shape | None = None, dtype: Any = None) -> Array:
    """The exponential of `sigma` times normally distributed floats."""
    wanted = _float_dtype("lognormal", dtype)
    sizes = _shape_of("lognormal", shape, sigma)
    return lax.exp(elementwise.multiply(normal(key, sizes, wanted), lax.as_dtype(sigma, wanted)))


def rayleigh(key: ArrayLike, scale: ArrayLike, shape: Shape | None = None, dtype: Any = None) -> Array:
    """Floats of Rayleigh's distribution: lengths of vectors of two normal components."""
    wanted = _float_dtype("rayleigh", dtype)
    sizes = _shape_of("rayleigh", shape, scale)
    u = uniform(key, sizes, wanted)
    factor = lax.as_dtype(scale, wanted)
    return elementwise.multiply(elementwise.sqrt(elementwise.multiply(lax.log(u), -2.0)), factor)


def rademacher(key: ArrayLike, shape: Shape = (), dtype: Any = None) -> Array:
    """1 or -1, equally probable."""
    wanted = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    up = bernoulli(key, 0.5, as_shape("rademacher", shape))
    return elementwise.where(up, lax.full((), 1, wanted), lax.full((), -1, wanted))
