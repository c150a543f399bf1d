"""Random bits: the block function of Threefry, from which `braze.random` makes everything.

`threefry2x32` scrambles pairs of 32-bit words elementwise under a key of two words; it is lowered to additions,
rotations and exclusive ors, so that bits are made in registers, inside the kernel that uses them.

`rng_bit_generator` is StableHLO's generator over a counter, with XLA's way of laying its words out: one axis, the
first even one or the longest, has the two words of each block next to each other.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011: Threefry-2x32 with 20 rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from braze import core
from braze.dtypes import I32, INTEGERS, U32, U64, DType
from braze.errors import ShapeError, UnsupportedError
from braze.ops import elementwise, shape
from braze.ops.facets import HLO_ONLY, LOWERED, NO_GRADIENT, Array, check_dtype, listing, moved, size_of
from braze.ops.table import EXACT, ZERO, Cost, Family, Op, Sample
from braze.types import TensorType

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
GROUPS = 5
"""Groups of four rounds, each followed by a part of the key."""

Add = Callable[[Any, Any], Any]


def scramble(
    key: tuple[Any, Any], words: tuple[Any, Any], add: Add, xor: Add, rotate: Add
) -> tuple[Any, Any]:
    """Threefry-2x32, 20 rounds, on whatever these functions add, xor and rotate.

    Args:
        rotate: takes a value and a number of bits; add and xor take numbers too.
    """
    parts = (*key, xor(xor(*key), PARITY))
    x, y = add(words[0], parts[0]), add(words[1], parts[1])
    for group in range(GROUPS):
        for bits in ROTATIONS[group % 2]:
            x = add(x, y)
            y = xor(x, rotate(y, bits))
        x = add(x, parts[(group + 1) % 3])
        y = add(y, add(parts[(group + 2) % 3], group + 1))
    return x, y


# --- threefry2x32 -------------------------------------------------------------------------------------
def _threefry_infer(*types: TensorType) -> list[TensorType]:
    for name, t in zip(("key1", "key2", "x1", "x2"), types, strict=True):
        check_dtype("threefry2x32", name, t, (U32,), "I1")
    sizes = {t.shape for t in types if t.shape}
    if len(sizes) > 1:
        raise ShapeError(
            "threefry2x32: keys and words must have one shape, or none.",
            values=listing(key1=types[0], key2=types[1], x1=types[2], x2=types[3]),
        )
    return [TensorType(next(iter(sizes), ()), U32)] * 2


def _threefry_numpy(*words: Array) -> list[Array]:
    def rotate(x: Array, bits: int) -> Array:
        return np.asarray((x << np.uint32(bits)) | (x >> np.uint32(32 - bits)))

    def number(f: Any) -> Add:
        return lambda x, y: np.asarray(f(x, np.asarray(y, np.uint32)))

    with np.errstate(over="ignore"):
        key, block = (words[0], words[1]), (words[2], words[3])
        found = scramble(key, block, number(np.add), number(np.bitwise_xor), rotate)
    return [np.array(np.broadcast_to(x, np.broadcast_shapes(*[w.shape for w in words]))) for x in found]


def _threefry_batch(size: int, args: Any, axes: Any) -> tuple[list[Any], list[int]]:
    rank = max(core.typeof(x).ndim - (a is not None) for x, a in zip(args, axes))
    sizes = next((s for x, a in zip(args, axes) if len(s := _without(core.typeof(x).shape, a)) == rank), ())
    full = []
    for x, a in zip(args, axes):
        front = shape.to_front(size, x, a)
        if core.typeof(front).ndim < rank + 1:  # a scalar of each example
            front = shape.broadcast_in_dim(front, shape=(size, *sizes), broadcast_dimensions=(0,))
        full.append(front)
    return list(threefry2x32(*full)), [0, 0]


def _without(sizes: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    return sizes if axis is None else (*sizes[:axis], *sizes[axis + 1 :])


def _threefry_lower(b: Any, *words: Any) -> tuple[Any, Any]:
    sizes = next((w.type.shape for w in words if w.type.shape), ())
    e = elementwise
    numbers: dict[int, Any] = {}

    def value(x: Any, like: tuple[int, ...]) -> Any:
        if isinstance(x, int):
            if x not in numbers:
                numbers[x] = b.constant(np.uint32(x), U32)
            x = numbers[x]
        return x if x.type.shape == like else b.broadcast(x, like)

    def both(op: Op) -> Add:
        def apply(x: Any, y: Any) -> Any:
            # Parts of a key that is the same for all stay scalars.
            like = sizes if any(not isinstance(v, int) and v.type.shape for v in (x, y)) else ()
            return b.emit(op, value(x, like), value(y, like))

        return apply

    join, left, right = both(e.or_), both(e.shift_left), both(e.shift_right_logical)

    def rotate(x: Any, bits: int) -> Any:
        return join(left(x, bits), right(x, 32 - bits))

    found = scramble((words[0], words[1]), (words[2], words[3]), both(e.add), both(e.xor), rotate)
    return value(found[0], sizes), value(found[1], sizes)


def _threefry_cost(*types: TensorType) -> Cost:
    results = _threefry_infer(*types)
    return Cost(112 * results[0].size, 0, moved(*types, *results))


def _threefry_samples() -> list[Sample]:
    word = TensorType((), U32)
    return [
        (types, {})
        for s in ((), (1,), (0,), (5,), (3, 4), (1031,))
        for types in ((TensorType(s, U32),) * 4, (word, word, TensorType(s, U32), TensorType(s, U32)))
    ]


threefry2x32: Op = Op(
    "threefry2x32", hlo=None,
    infer=_threefry_infer, numpy=_threefry_numpy, error=EXACT,
    jvp=ZERO, transpose=NO_GRADIENT, batch=_threefry_batch, lower=_threefry_lower,
    kernel=LOWERED, cost=_threefry_cost, samples=_threefry_samples,
    multiple_results=True, keeps_weak_type=False, at_once=False,
)  # fmt: skip


# --- rng_bit_generator ----------------------------------------------------------------------------------
def _rng_infer(
    state: TensorType, *, rng_algorithm: str, result_types: tuple[TensorType, ...]
) -> list[TensorType]:
    if rng_algorithm not in ("DEFAULT", "THREE_FRY"):
        raise UnsupportedError(
            f"rng_bit_generator: rng_algorithm {rng_algorithm} is not available; THREE_FRY is."
        )
    if state != TensorType((2,), U64):
        raise ShapeError(f"rng_bit_generator (C2): initial_state is {state}; THREE_FRY takes u64[2].")
    if len(result_types) != 2 or result_types[0] != state or result_types[1].dtype not in INTEGERS:
        raise ShapeError(
            "rng_bit_generator (C1): it gives a state like initial_state, and integers.",
            values=f"initial_state {state}",
        )
    return list(result_types)


def halved_axis(sizes: tuple[int, ...], dtype: DType) -> int | None:
    """The axis along which the two words of a block lie next to each other; None where a block is one element."""
    if dtype.itemsize == 8 or not sizes:
        return None
    even = [d for d, n in enumerate(sizes) if n % 2 == 0]
    return even[0] if even else max(range(len(sizes)), key=lambda d: (sizes[d], -d))


def blocks_of(t: TensorType) -> tuple[int, int, int, int]:
    """How blocks lie in a result: outer size, blocks along the halved axis, its size, inner size."""
    axis = halved_axis(t.shape, t.dtype)
    if axis is None:
        return 1, t.size, t.size, 1
    outer, inner = size_of(t.shape[:axis]), size_of(t.shape[axis + 1 :])
    return outer, -(-t.shape[axis] // 2), t.shape[axis], inner


def _rng_numpy(state: Array, *, rng_algorithm: str, result_types: tuple[TensorType, ...]) -> list[Array]:
    t = result_types[1]
    outer, half, size, inner = blocks_of(t)
    with np.errstate(over="ignore"):
        count = np.arange(outer * half * inner, dtype=np.uint64) + state[1]
        after = np.array([state[0], state[1] + np.uint64(len(count))])
    shift = np.uint64(32)
    words = [np.asarray(v).astype(np.uint32) for v in (state[0], state[0] >> shift, count, count >> shift)]
    x, y = _threefry_numpy(*words)
    if t.dtype.itemsize == 8:
        found = x.astype(np.uint64) | y.astype(np.uint64) << shift
    elif halved_axis(t.shape, t.dtype) is None:
        found = x
    else:
        pairs = np.stack([w.reshape(outer, half, inner) for w in (x, y)], axis=2)
        found = pairs.reshape(outer, 2 * half, inner)[:, :size]
    unsigned = np.dtype(f"u{t.dtype.itemsize}")
    return [after, found.astype(unsigned).view(t.dtype).reshape(t.shape)]


def _rng_samples() -> list[Sample]:
    state = TensorType((2,), U64)
    shapes = ((), (1,), (5,), (4,), (3, 5), (2, 3), (5, 3, 3), (1031,), (3, 40))
    return [
        ((state,), {"rng_algorithm": "THREE_FRY", "result_types": (state, TensorType(s, d))})
        for d in (U32, U64, I32)
        for s in shapes
    ]


rng_bit_generator_hlo = Op(
    None, hlo="rng_bit_generator",
    infer=_rng_infer, numpy=_rng_numpy, error=EXACT,
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=Family("rng"),
    cost=lambda state, **attrs: Cost(56 * attrs["result_types"][1].size, 0, moved(state, *attrs["result_types"])),
    samples=_rng_samples, multiple_results=True, attrs=("rng_algorithm", "result_types"),
)  # fmt: skip
