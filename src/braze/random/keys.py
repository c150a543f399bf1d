"""Keys of `braze.random`: made from seeds, split, and turned into random bits.

A key is an array of two u32 words (`u32[2]`); arrays of keys have the two words on their last axis. The same
seed gives the same keys and bits as in JAX (`jax_threefry_partitionable`, its default): word i of an array of
bits depends on the key and on i alone, so any part of it may be made on its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.core import bind, typeof
from braze.dtypes import U8, U16, U32, U64, DType
from braze.lax import lax
from braze.lax.slicing import index_in_dim
from braze.ops import random as ops
from braze.stages import composed

Array = Any
ArrayLike = Any
Shape = Sequence[int]

UNSIGNED = {8: U8, 16: U16, 32: U32, 64: U64}


def as_shape(name: str, shape: Shape | int) -> tuple[int, ...]:
    """A shape as a tuple of Python ints."""
    given = (shape,) if isinstance(shape, int | np.integer) else shape
    try:
        sizes = tuple(n.__index__() for n in given)
    except (AttributeError, TypeError):
        raise errors.ArgumentError(f"{name}: shape is a sequence of ints, {shape!r} was given.") from None
    if any(n < 0 for n in sizes):
        raise errors.ShapeError(f"{name}: shape {sizes} has a negative size.")
    return sizes


def check_key(name: str, key: ArrayLike) -> None:
    """Raise unless a value is one key."""
    t = typeof(key)
    if t.dtype != U32 or t.shape != (2,):
        raise errors.ArgumentError(
            f"{name}: a key is u32[2], {t} was given.",
            hint="make one with braze.random.key(seed); functions take one key at a time, vmap takes many.",
        )


def key(seed: ArrayLike, *, impl: str | None = None) -> Array:
    """A key from a seed, an integer.

    Args:
        impl: `threefry2x32` or None, which is the same.
    Raises: DTypeError for what is no integer without axes; ArgumentError for another impl.

    >>> key(7)
    Array([0, 7], dtype=uint32)
    """
    if impl not in (None, "threefry2x32"):
        raise errors.ArgumentError(f"key: impl {impl!r} is not threefry2x32, the one there is.")
    if isinstance(seed, int) and not isinstance(seed, bool):
        seed = np.int64(_wrapped(seed))
        seed = seed if dtypes.default_int() == dtypes.I64 else np.uint32(seed & 0xFFFFFFFF)
    t = typeof(seed)
    if t.dtype not in dtypes.INTEGERS or t.shape:
        raise errors.DTypeError(f"key: a seed is an integer without axes, {t} was given.")
    return _seeded(seed)


PRNGKey = key


def _wrapped(seed: int) -> int:
    """The 64 bits of an int as a signed number."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)


@composed()
def _seeded(seed: Array) -> Array:
    """The high and the low word."""
    wide = typeof(seed).dtype.itemsize == 8
    high = lax.shift_right_logical(seed, lax.full_like(seed, 32)) if wide else lax.full_like(seed, 0)
    words = [lax.convert_element_type(w, U32) for w in (high, seed)]
    return lax.concatenate([lax.reshape(w, (1,)) for w in words], 0)


def key_data(keys: ArrayLike) -> Array:
    """The words of keys: keys are their words."""
    return lax.as_array(keys)


def wrap_key_data(key_bits_array: ArrayLike, *, impl: str | None = None) -> Array:
    """Keys from their words: u32 with two of them on the last axis."""
    if impl not in (None, "threefry2x32"):
        raise errors.ArgumentError(f"wrap_key_data: impl {impl!r} is not threefry2x32, the one there is.")
    t = typeof(key_bits_array)
    if t.dtype != U32 or t.shape[-1:] != (2,):
        raise errors.ArgumentError(f"wrap_key_data: keys are u32[…,2], {t} was given.")
    return lax.as_array(key_bits_array)


def clone(key: ArrayLike) -> Array:
    """The same key, for a reader who counts uses of keys."""
    return lax.as_array(key)


def split(key: ArrayLike, num: int | tuple[int, ...] = 2) -> Array:
    """New keys from one.

    Args:
        num: how many, or the shape of an array of them.
    Returns: keys, with the two words of each on the last axis.

    >>> split(PRNGKey(0))
    Array([[1797259609, 2579123966],
           [ 928981903, 3453687069]], dtype=uint32)
    """
    check_key("split", key)
    return _split(key, as_shape("split", num))


@composed("shape")
def _split(key: Array, shape: tuple[int, ...]) -> Array:
    first, second = blocks(key, shape)
    rank = len(shape)
    return lax.concatenate([lax.expand_dims(first, (rank,)), lax.expand_dims(second, (rank,))], rank)


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key from a key and an integer."""
    check_key("fold_in", key)
    if isinstance(data, int) and not isinstance(data, bool):
        dtypes.check_fits(data, U32)
        data = np.uint32(data)
    t = typeof(data)
    if t.dtype not in dtypes.INTEGERS or t.shape:
        raise errors.DTypeError(f"fold_in: data is an integer without axes, {t} was given.")
    return _fold_in(key, data)


@composed()
def _fold_in(key: Array, data: Array) -> Array:
    data = lax.convert_element_type(data, U32)
    words = bind(ops.threefry2x32, *_words(key), lax.full_like(data, 0), data)
    return lax.concatenate([lax.reshape(w, (1,)) for w in words], 0)


def _words(key: Array) -> tuple[Array, Array]:
    return index_in_dim(key, 0, 0, False), index_in_dim(key, 1, 0, False)


def blocks(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """The two words of a block for each element of a shape: its number in row-major order, scrambled."""
    size = math.prod(shape)
    if size > 1 << 32:
        number = lax.reshape(lax.iota(U64, size), shape)
        low = lax.convert_element_type(number, U32)
        high = lax.convert_element_type(lax.shift_right_logical(number, lax.full_like(number, 32)), U32)
    else:
        low = lax.reshape(lax.iota(U32, size), shape)
        high = lax.full_like(low, 0)
    first, second = bind(ops.threefry2x32, *_words(key), high, low)
    return first, second


def random_bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    """Unsigned integers of 8, 16, 32 or 64 random bits."""
    first, second = blocks(key, shape)
    if width == 64:
        high, low = (lax.convert_element_type(w, U64) for w in (first, second))
        return lax.bitwise_or(lax.shift_left(high, lax.full_like(high, 32)), low)
    mixed = lax.bitwise_xor(first, second)
    return mixed if width == 32 else lax.convert_element_type(mixed, UNSIGNED[width])


def bits(key: ArrayLike, shape: Shape = (), dtype: Any = None) -> Array:
    """Uniformly random bits as unsigned integers.

    Args:
        dtype: an unsigned integer; u32, or u64 where 64 bits are the default.

    >>> bits(PRNGKey(0), (2,))
    Array([4070199207, 4202968722], dtype=uint32)
    """
    check_key("bits", key)
    wide = U64 if dtypes.default_int() == dtypes.I64 else U32
    wanted: DType = wide if dtype is None else dtypes.canonical(dtype)
    if wanted not in UNSIGNED.values():
        raise errors.DTypeError(f"bits: dtype is an unsigned integer, {dtypes.short(wanted)} was given.")
    return _bits(key, as_shape("bits", shape), 8 * wanted.itemsize)


@composed("shape", "width")
def _bits(key: Array, shape: tuple[int, ...], width: int) -> Array:
    return random_bits(key, width, shape)
