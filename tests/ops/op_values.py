"""Inputs for samples, comparison within an op's error, and running primitives through HLO."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import dtypes
from braze.hlo.evaluate import evaluate
from braze.hlo.lower import lower
from braze.hlo.verify import verify
from braze.ops.table import Bound, Exact, Factors, Op, Ulp
from braze.trace.staging import stage
from braze.types import TensorType

SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, 1e-40, 3e38, -7.0)


def key(*parts: Any) -> np.random.Generator:
    """A generator that depends on what it is for, and on nothing else."""
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


def values(t: TensorType, rng: np.random.Generator, specials: bool = True) -> np.ndarray:
    """Values of a type, with zeros, infinities, NaN and the limits of integers among them."""
    if t.dtype == dtypes.BOOL:
        return np.asarray(rng.integers(0, 2, t.shape).astype(bool))
    if t.dtype in dtypes.INTEGERS:
        limits = np.iinfo(t.dtype)
        wide = rng.integers(limits.min, limits.max, t.shape, t.dtype, endpoint=True)
        edges = np.array(
            [limits.min, limits.max, limits.max - 1 if limits.min == 0 else -1, 0, 1, 31, 64], t.dtype
        )
        edge = rng.choice(edges, t.shape)
        small = rng.integers(-9, 10, t.shape).astype(t.dtype)
        return np.asarray(np.choose(rng.integers(0, 3, t.shape), [wide, edge, small]).astype(t.dtype))
    x = rng.normal(size=t.shape) * 3.0
    if specials:
        x = np.where(rng.random(t.shape) < 0.3, rng.choice(SPECIALS, t.shape), x)
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(t.dtype)


def arguments(
    op: Op, types: Sequence[TensorType], attrs: dict[str, Any], specials: bool = True
) -> list[np.ndarray]:
    rng = key(op.title, types, [str(v)[:99] for v in attrs.values()])
    return [values(t, rng, specials and isinstance(op.error, Exact | Ulp)) for t in types]


def as_list(op: Op, found: Any) -> list[Any]:
    return list(found) if op.multiple_results else [found]


def run(f: Callable[..., Sequence[Any]], *arrays: np.ndarray) -> list[np.ndarray]:
    """Stage a function of arrays, lower it, verify the module and run it by the `numpy` facets."""
    lowered = lower(stage(f, [TensorType(x.shape, x.dtype) for x in arrays], name="f"))
    verify(lowered.module)
    return evaluate(lowered.module, [*arrays, *lowered.hidden])


def bits(x: np.ndarray) -> np.ndarray:
    """The bit pattern, all NaNs as one."""
    x = np.ascontiguousarray(x)
    if x.dtype in dtypes.FLOATS:
        x = np.where(np.isnan(x), np.asarray(np.nan, x.dtype), x)
    return x.view(np.uint8)


def assert_exact(have: np.ndarray, want: np.ndarray) -> None:
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    assert np.array_equal(bits(have), bits(want)), f"{have!r}\nis not\n{want!r}"


def assert_within(op: Op, have: np.ndarray, want: np.ndarray, terms: int = 1, size: Any = None) -> None:
    """Equal up to twice the op's error: each side may be off by it once.

    Args:
        terms, size: for sums and products: their number, and the sum of their magnitudes.
    """
    if have.dtype not in dtypes.FLOATS or isinstance(op.error, Exact):
        assert_exact(have, want)
        return
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    eps = float(np.finfo(have.dtype).eps)
    wide, other = have.astype(np.float64), want.astype(np.float64)
    match op.error:
        case Ulp(f32, f64, least):
            unit = np.spacing(np.maximum(np.abs(want), have.dtype.type(least))).astype(np.float64)
            bound = 2 * (f32 if have.dtype == np.float32 else f64) * unit
        case Bound(c):
            bound = 2 * c * np.log2(max(terms, 2)) * eps * size
        case Factors(c):
            bound = 2 * c * terms * eps * np.abs(other)
        case _:
            raise AssertionError(f"{op} has no error")
    with np.errstate(invalid="ignore"):
        close = (np.abs(wide - other) <= bound) | (wide == other) | (np.isnan(wide) & np.isnan(other))
    assert close.all(), f"{have!r}\nis not near\n{want!r}"


def assert_facet(
    op: Op, have: np.ndarray, want: np.ndarray, arrays: Sequence[np.ndarray], attrs: dict[str, Any]
) -> None:
    """`assert_within`, with the number and size of the terms where the op adds or multiplies."""
    terms, size = 1, None
    if isinstance(op.error, Bound | Factors) and have.dtype in dtypes.FLOATS:
        magnitudes = [np.abs(x).astype(np.float64) for x in arrays]
        if op.title == "dot_general":
            terms = int(np.prod([arrays[0].shape[a] for a in attrs["lhs_contracting_dimensions"]], dtype=int))
            size = op.numpy(*magnitudes, **(attrs | {"dtype": dtypes.F64}))
        else:
            terms = max(arrays[0].size, 1)
            if "axes" in attrs or "axis" in attrs:
                axes = attrs["axes"] if "axes" in attrs else (attrs["axis"],)
                terms = int(np.prod([arrays[0].shape[a] for a in axes], dtype=int))
            # What an op gives for magnitudes bounds the sum of the magnitudes of its terms.
            size = None if isinstance(op.error, Factors) else op.numpy(*magnitudes, **attrs)
    assert_within(op, have, want, terms, size)
