"""Running sums, products, extrema and log-sum-exps along an axis, from its start or from its end.

They lower to `reduce_window` with a window as wide as the axis, as JAX's do; `kernel/build` makes scans of that.
Sums and products of f16 and bf16 accumulate in f32.

`associative_scan` is the same for any associative function of whole arrays, written in other operations; the
derivatives of the non-linear ones go through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import core
from braze.dtypes import FLOATS, INTEGERS, NUMBERS, DType, accumulation_dtype
from braze.ops import elementwise, shape, transcendental
from braze.ops.facets import LOWERED, NOT_LINEAR, SAMPLED, Array, check_axes, check_dtype, full, scalar_like
from braze.ops.reduce import highest, lowest
from braze.ops.table import EXACT, LINEAR, Bound, Cost, Error, Factors, Op, Sample, Undefined
from braze.ops.windows import lower_window, reduce_window_hlo, scanned
from braze.types import TensorType

Parts = Sequence[Any]


# Scans in terms of other operations -------------------------------------------------------------------


def associative_scan(
    combine: Callable[[Parts, Parts], Parts], parts: Parts, axis: int, reverse: bool = False
) -> list[Any]:
    """All prefixes (suffixes) of arrays along an axis under an associative function of whole arrays.

    Args:
        combine: takes earlier and later elements, several along the axis at once.

    Source: Blelloch, "Prefix sums and their applications", 1990: pairs, their prefixes, and what lies between.
    """
    if reverse:
        parts = [shape.rev(x, dimensions=(axis,)) for x in parts]
    found = _scan(combine, list(parts), axis)
    return [shape.rev(x, dimensions=(axis,)) for x in found] if reverse else found


def _scan(combine: Callable[[Parts, Parts], Parts], parts: list[Any], axis: int) -> list[Any]:
    n = core.typeof(parts[0]).shape[axis]
    if n < 2:
        return parts
    pairs = combine(_every_other(parts, axis, 0, n - n % 2), _every_other(parts, axis, 1, n))
    odd = _scan(combine, list(pairs), axis)
    first = [_run(x, axis, 0, 1, 1) for x in parts]
    if n == 2:
        even = first
    else:
        before = [_run(x, axis, 0, (n - 1) // 2, 1) for x in odd]
        between = combine(before, _every_other(parts, axis, 2, n))
        even = [shape.concatenate(x, y, dimension=axis) for x, y in zip(first, between, strict=True)]
    return [_interleaved(x, y, axis, n) for x, y in zip(even, odd, strict=True)]


def _run(x: Any, axis: int, start: int, stop: int, step: int) -> Any:
    """x[start:stop:step] along an axis."""
    sizes = core.typeof(x).shape
    starts, limits, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
    starts[axis], limits[axis], strides[axis] = start, stop, step
    return shape.slice(x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=tuple(strides))


def _every_other(parts: list[Any], axis: int, start: int, stop: int) -> list[Any]:
    return [_run(x, axis, start, stop, 2) for x in parts]


def _interleaved(even: Any, odd: Any, axis: int, n: int) -> Any:
    """even[0], odd[0], even[1], …, n elements along the axis."""
    sizes = core.typeof(even).shape
    if n % 2:  # even has one more
        odd = shape.concatenate(odd, _run(even, axis, 0, 1, 1), dimension=axis)
    pair = (*sizes[: axis + 1], 1, *sizes[axis + 1 :])
    both = shape.concatenate(
        shape.reshape(even, shape=pair), shape.reshape(odd, shape=pair), dimension=axis + 1
    )
    merged = shape.reshape(both, shape=(*sizes[:axis], 2 * sizes[axis], *sizes[axis + 1 :]))
    return _run(merged, axis, 0, n, 1)


# --- cumsum, cumprod, cummax, cummin, cumlogsumexp ------------------------------------------------------
CASES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((5,), 0), ((1,), 0), ((0,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 3, 5), 1), ((2, 0, 3), 1), ((2, 0, 3), 0),
    ((1031,), 0), ((33, 65), 1), ((65, 33), 0), ((2, 40, 3), 1),
)  # fmt: skip
"""Shapes and axes worth testing."""


def cumulative(
    name: str,
    op: Op,
    allowed: Sequence[DType],
    combine: Callable[[Array, Array], Array],
    identity: Callable[[DType], Any],
    jvp: Any,
    *,
    error: Error = EXACT,
    transpose: Any = NOT_LINEAR,
    wide: bool = False,
    region: Callable[..., Any] | None = None,
) -> Op:
    """A primitive that combines all elements up to each one.

    Args:
        op: the op that combines two elements; with `region`, what that writes does.
        identity: dtype to what changes nothing.
        wide: whether 16-bit floats accumulate in f32.
    """

    def infer(x: TensorType, *, axis: int, reverse: bool) -> TensorType:
        check_axes(name, "axis", (axis,), x.ndim, "C1", "C1")
        check_dtype(name, "operand", x, allowed, "I1")
        return TensorType(x.shape, x.dtype)

    def numpy(x: Array, *, axis: int, reverse: bool) -> Array:
        within = accumulation_dtype(x.dtype) if wide else x.dtype
        with np.errstate(all="ignore"):
            start = np.asarray(identity(within)).astype(within)
            wider = (x.astype(within, copy=False),)
            (found,) = scanned(lambda u, v: (combine(u[0], v[0]),), wider, axis, reverse)
            return np.asarray(combine(start, found)).astype(x.dtype)

    def lower(b: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        dtype, n, rank = x.type.dtype, x.type.shape[axis], len(x.type.shape)
        if n == 0:
            return x
        within = accumulation_dtype(dtype) if wide else dtype
        if within != dtype:
            x = b.emit(elementwise.convert_hlo, x, dtype=within)
        ones = (1,) * rank
        window = {
            "window_dimensions": tuple(n if i == axis else 1 for i in range(rank)),
            "window_strides": ones,
            "base_dilations": ones,
            "window_dilations": ones,
            "padding": tuple(
                ((0, n - 1) if reverse else (n - 1, 0)) if i == axis else (0, 0) for i in range(rank)
            ),
        }
        init = b.constant(np.asarray(identity(within)).astype(within), within)
        if region is None:
            found = lower_window(b, op, x, init, **window)
        else:
            scalar = TensorType((), within)
            inner = b.region((scalar, scalar), lambda inner, u, v: (region(inner, u, v),))
            (found,) = b.emit_many(reduce_window_hlo, x, init, regions=(inner,), **window)
        return found if within == dtype else b.emit(elementwise.convert_hlo, found, dtype=dtype)

    def batch(size: int, args: Any, mapped: Any, *, axis: int, reverse: bool) -> Any:
        return PRIMITIVE(args[0], axis=axis + (axis >= mapped[0]), reverse=reverse), mapped[0]

    def cost(x: TensorType, **attrs: Any) -> Cost:
        return Cost(8 * x.size, 0, 2 * x.nbytes)

    def samples() -> list[Sample]:
        return [
            ((TensorType(s, d),), {"axis": axis, "reverse": reverse})
            for d in SAMPLED
            if d in allowed
            for s, axis in CASES
            for reverse in (False, True)
        ]

    PRIMITIVE = Op(
        name, hlo=None,
        infer=infer, numpy=numpy, error=error,
        jvp=jvp, transpose=transpose, batch=batch, lower=lower,
        kernel=LOWERED, cost=cost, samples=samples, at_once=False, attrs=("axis", "reverse"), jax_attrs=dict,
    )  # fmt: skip
    return PRIMITIVE


def _cumsum_transpose(ct: Any, x: Undefined, *, axis: int, reverse: bool) -> list[Any]:
    return [cumsum(ct, axis=axis, reverse=not reverse)]


def _scan_jvp(
    value: Callable[[Any, Any], Any], tangent: Callable[..., Any]
) -> tuple[Callable[..., Any], ...]:
    """The tangent by a scan over pairs of value and tangent.

    Args:
        value: combines two values.
        tangent: `(x, t, y, u, z)`, the tangent of z = value(x, y).
    """

    def jvp(t: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        def combine(u: Parts, v: Parts) -> Parts:
            z = value(u[0], v[0])
            return z, tangent(*u, *v, z)

        return associative_scan(combine, (x, t), axis, reverse)[1]

    return (jvp,)


def _product_tangent(x: Any, t: Any, y: Any, u: Any, z: Any) -> Any:
    return elementwise.add(elementwise.mul(t, y), elementwise.mul(x, u))


def _extreme_tangent(wins: Op) -> Callable[..., Any]:
    """The winner's tangent, half of each where both are equal, as the tangent of max and min."""

    def tangent(x: Any, t: Any, y: Any, u: Any, z: Any) -> Any:
        half = elementwise.mul(elementwise.add(t, u), scalar_like(t, 0.5))
        chosen = elementwise.select_n(wins(x, y), u, t)
        return elementwise.select_n(elementwise.eq(x, y), chosen, half)

    return tangent


def _logaddexp(x: Any, y: Any) -> Any:
    """log(e^x + e^y) without overflow; x + y where the difference is NaN: equal infinities, and NaN."""
    e = elementwise
    gap = e.sub(x, y)
    away = transcendental.log(e.add(transcendental.exp(e.neg(e.abs(gap))), scalar_like(x, 1)))
    return e.select_n(e.ne(gap, gap), e.add(e.max(x, y), away), e.add(x, y))


def _logaddexp_tangent(x: Any, t: Any, y: Any, u: Any, z: Any) -> Any:
    """t e^(x-z) + u e^(y-z); at infinite z the weights are those of JAX: whole where a term is z, else none."""
    e = elementwise

    def weight(v: Any) -> Any:
        return transcendental.exp(
            e.select_n(e.eq(v, z), e.sub(v, z), full(core.typeof(v).shape, core.typeof(v).dtype, 0))
        )

    return e.add(e.mul(t, weight(x)), e.mul(u, weight(y)))


def _logaddexp_region(b: Any, x: Any, y: Any) -> Any:
    e = elementwise
    gap = b.emit(e.sub, x, y)
    small = b.emit(transcendental.exp, b.emit(e.neg, b.emit(e.abs, gap)))
    away = b.emit(transcendental.log, b.emit(e.add, small, b.constant(1, x.type.dtype)))
    total = b.emit(e.add, b.emit(e.max, x, y), away)
    nan = b.emit(e.compare_hlo, gap, gap, comparison_direction="NE", compare_type="FLOAT")
    return b.emit(e.select_hlo, nan, b.emit(e.add, x, y), total)


cumsum: Op = cumulative("cumsum", elementwise.add, NUMBERS, np.add, lambda d: 0, LINEAR, error=Bound(1),
                        transpose=_cumsum_transpose, wide=True)  # fmt: skip
cumprod: Op = cumulative("cumprod", elementwise.mul, NUMBERS, np.multiply, lambda d: 1,
                         _scan_jvp(elementwise.mul, _product_tangent), error=Factors(1), wide=True)  # fmt: skip
cummax: Op = cumulative("cummax", elementwise.max, (*INTEGERS, *FLOATS), elementwise.maximum, lowest,
                        _scan_jvp(elementwise.max, _extreme_tangent(elementwise.gt)))  # fmt: skip
cummin: Op = cumulative("cummin", elementwise.min, (*INTEGERS, *FLOATS), elementwise.minimum, highest,
                        _scan_jvp(elementwise.min, _extreme_tangent(elementwise.lt)))  # fmt: skip
cumlogsumexp: Op = cumulative("cumlogsumexp", elementwise.add, FLOATS, np.logaddexp, lambda d: -np.inf,
                              _scan_jvp(_logaddexp, _logaddexp_tangent), error=Bound(1), region=_logaddexp_region)  # fmt: skip
