"""dot_general: contraction of two operands over paired axes, with paired batch axes in front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from braze import core, dtypes
from braze.dtypes import ALL, BOOL, F32, F64, FLOATS, I64, DType, accumulation_dtype
from braze.errors import DTypeError, ShapeError
from braze.ops import elementwise, shape
from braze.ops.facets import SAMPLED, Array, check_axes, listing, moved, only_linear, size_of
from braze.ops.table import Bound, Contraction, Cost, Op, Sample
from braze.types import TensorType

Axes = tuple[int, ...]
Precision = tuple[str, ...] | None

TILE = 64
"""Terms that may be added in any order; tiles are added pairwise. So errors grow with log n beyond it."""


def kept(rank: int, *used: Sequence[int]) -> Axes:
    """The axes that are neither batched nor contracted, in their order."""
    return tuple(i for i in range(rank) if not any(i in axes for axes in used))


def _dot_general_infer(
    lhs: TensorType,
    rhs: TensorType,
    *,
    lhs_batching_dimensions: Axes,
    rhs_batching_dimensions: Axes,
    lhs_contracting_dimensions: Axes,
    rhs_contracting_dimensions: Axes,
    dtype: DType,
    precision: Precision,
) -> TensorType:
    title = "dot_general"
    lb, rb = lhs_batching_dimensions, rhs_batching_dimensions
    lc, rc = lhs_contracting_dimensions, rhs_contracting_dimensions
    values = listing(lhs=lhs, rhs=rhs)
    for left, right, what, constraint in ((lb, rb, "batching", "C1"), (lc, rc, "contracting", "C2")):
        if len(left) != len(right):
            raise ShapeError(
                f"{title} ({constraint}): lhs has {len(left)} {what} dimensions and rhs has {len(right)}, "
                "which must be as many.",
                values=values,
            )
    check_axes(title, "lhs_batching_dimensions", lb, lhs.ndim, "C5", "C3")
    check_axes(title, "lhs_contracting_dimensions", lc, lhs.ndim, "C6", "C3")
    check_axes(title, "rhs_batching_dimensions", rb, rhs.ndim, "C7", "C4")
    check_axes(title, "rhs_contracting_dimensions", rc, rhs.ndim, "C8", "C4")
    for name, batching, contracting, constraint in (("lhs", lb, lc, "C3"), ("rhs", rb, rc, "C4")):
        both = sorted(set(batching) & set(contracting))
        if both:
            raise ShapeError(
                f"{title} ({constraint}): {name} axis {both[0]} is both batching and contracting."
            )
    for left, right, what, constraint in ((lb, rb, "batching", "C9"), (lc, rc, "contracting", "C10")):
        for i, j in zip(left, right):
            if lhs.shape[i] != rhs.shape[j]:
                raise ShapeError(
                    f"{title} ({constraint}): {what} axis {i} of lhs has size {lhs.shape[i]} and axis {j} of "
                    f"rhs has size {rhs.shape[j]}, which must be alike.",
                    values=values,
                )
    if precision is not None and len(precision) != 2:
        raise ShapeError(f"{title} (C11): precision has {len(precision)} entries, one per operand is wanted.")
    if lhs.dtype != rhs.dtype:
        raise DTypeError(
            f"{title} (C13): lhs is {dtypes.short(lhs.dtype)} and rhs is {dtypes.short(rhs.dtype)}, "
            "which must be alike.",
            values=values,
            hint="convert one of them with astype.",
        )
    if dtype not in ALL:
        raise DTypeError(f"{title}: the result can not be {dtype}.", values=values)
    return TensorType(
        [
            *(lhs.shape[i] for i in lb),
            *(lhs.shape[i] for i in kept(lhs.ndim, lb, lc)),
            *(rhs.shape[i] for i in kept(rhs.ndim, rb, rc)),
        ],
        dtype,
    )


def _contract(x: Array, y: Array) -> Array:
    """(B, I, K) by (B, K, J) in the operands' dtype: f32 in f64, f64 in tiles of K that add pairwise."""
    dtype = x.dtype
    if dtype == F32:
        return np.asarray(np.matmul(x.astype(F64), y.astype(F64)).astype(F32))
    if dtype not in FLOATS or x.shape[2] <= TILE:
        return np.asarray(np.matmul(x, y))
    k = x.shape[2]
    parts = [np.matmul(x[:, :, i : i + TILE], y[:, i : i + TILE]) for i in range(0, k, TILE)]
    while len(parts) > 1:
        parts = [sum(parts[i + 1 : i + 2], parts[i]) for i in range(0, len(parts), 2)]
    return np.asarray(parts[0])


def _dot_general_numpy(
    lhs: Array,
    rhs: Array,
    *,
    lhs_batching_dimensions: Axes,
    rhs_batching_dimensions: Axes,
    lhs_contracting_dimensions: Axes,
    rhs_contracting_dimensions: Axes,
    dtype: DType,
    precision: Precision,
) -> Array:
    lb, rb = lhs_batching_dimensions, rhs_batching_dimensions
    lc, rc = lhs_contracting_dimensions, rhs_contracting_dimensions
    left, right = kept(lhs.ndim, lb, lc), kept(rhs.ndim, rb, rc)
    sizes = [[lhs.shape[i] for i in axes] for axes in (lb, left, lc)]
    columns = [rhs.shape[i] for i in right]
    batch, rows, terms = (size_of(s) for s in sizes)
    within = accumulation_dtype(dtype)
    x = elementwise.convert(lhs, within).transpose([*lb, *left, *lc]).reshape(batch, rows, terms)
    y = elementwise.convert(rhs, within).transpose([*rb, *rc, *right]).reshape(batch, terms, size_of(columns))
    with np.errstate(all="ignore"):
        product = _contract(x, y)
    return elementwise.convert(product, dtype).reshape([*sizes[0], *sizes[1], *columns])


def _transposed(ct: Any, other: Any, wanted: TensorType, ct_axes: tuple[Axes, Axes], other_axes: tuple[Axes, Axes],
                target: Axes, precision: Precision) -> Any:  # fmt: skip
    """The cotangent of one operand: ct contracted with the other operand, axes put in their places.

    Args:
        ct_axes, other_axes: batching and contracting axes of the two.
        target: per axis of the contraction's result, the axis of the operand that it is.
    """
    dtype = core.typeof(ct).dtype
    if core.typeof(other).dtype != dtype:
        other = elementwise.convert_element_type(other, new_dtype=dtype, weak_type=False)
    found = dot_general(
        ct,
        other,
        lhs_batching_dimensions=ct_axes[0],
        rhs_batching_dimensions=other_axes[0],
        lhs_contracting_dimensions=ct_axes[1],
        rhs_contracting_dimensions=other_axes[1],
        dtype=dtype,
        precision=precision,
    )
    if target != tuple(range(len(target))):
        found = shape.transpose(found, permutation=shape.inverse(target))
    if wanted.dtype != dtype:
        found = elementwise.convert_element_type(found, new_dtype=wanted.dtype, weak_type=False)
    return found


def _by_partner(axes: Axes, partners: Axes) -> Axes:
    """Contracting axes in the order in which their partners stand among the other operand's axes."""
    return tuple(axes[i] for i in sorted(range(len(axes)), key=partners.__getitem__))


def _dot_general_transpose(ct: Any, lhs: Any, rhs: Any, *, lhs_batching_dimensions: Axes,
                           rhs_batching_dimensions: Axes, lhs_contracting_dimensions: Axes,
                           rhs_contracting_dimensions: Axes, dtype: DType, precision: Precision) -> list[Any]:  # fmt: skip
    lb, rb = lhs_batching_dimensions, rhs_batching_dimensions
    lc, rc = lhs_contracting_dimensions, rhs_contracting_dimensions
    wanted = only_linear("dot_general", lhs, rhs)
    left_rank = (lhs.type if wanted == 0 else core.typeof(lhs)).ndim
    right_rank = (rhs.type if wanted == 1 else core.typeof(rhs)).ndim
    left, right = kept(left_rank, lb, lc), kept(right_rank, rb, rc)
    first = len(lb) + len(left)
    batch = tuple(range(len(lb)))
    of_left, of_right = tuple(range(len(lb), first)), tuple(range(first, first + len(right)))
    if wanted == 0:
        target = (*lb, *left, *_by_partner(lc, rc))
        return [_transposed(ct, rhs, lhs.type, (batch, of_right), (rb, right), target, precision), None]
    target = (*rb, *right, *_by_partner(rc, lc))
    return [None, _transposed(ct, lhs, rhs.type, (batch, of_left), (lb, left), target, precision)]


def _dot_general_batch(size: int, args: Any, axes: Any, *, lhs_batching_dimensions: Axes,
                       rhs_batching_dimensions: Axes, lhs_contracting_dimensions: Axes,
                       rhs_contracting_dimensions: Axes, dtype: DType, precision: Precision) -> Any:  # fmt: skip
    lhs, rhs = (x if a is None else shape.move_axis(x, a, 0) for x, a in zip(args, axes))
    on_left, on_right = (a is not None for a in axes)
    lb, lc = ([a + on_left for a in axes] for axes in (lhs_batching_dimensions, lhs_contracting_dimensions))
    rb, rc = ([a + on_right for a in axes] for axes in (rhs_batching_dimensions, rhs_contracting_dimensions))
    if on_left and on_right:
        lb, rb, at = [0, *lb], [0, *rb], 0
    else:  # the mapped axis is the first of its operand that is kept
        at = len(lb) if on_left else len(lb) + len(kept(core.typeof(lhs).ndim, lb, lc))
    result = dot_general(
        lhs,
        rhs,
        lhs_batching_dimensions=tuple(lb),
        rhs_batching_dimensions=tuple(rb),
        lhs_contracting_dimensions=tuple(lc),
        rhs_contracting_dimensions=tuple(rc),
        dtype=dtype,
        precision=precision,
    )
    return result, at


def _dot_general_cost(lhs: TensorType, rhs: TensorType, **attrs: Any) -> Cost:
    result = _dot_general_infer(lhs, rhs, **attrs)
    terms = size_of([lhs.shape[i] for i in attrs["lhs_contracting_dimensions"]])
    return Cost(2 * result.size * terms, 0, moved(lhs, rhs, result))


def _dot_general_samples() -> list[Sample]:
    #         lhs          rhs        batching        contracting
    cases: list[Any] = [
        ((), (), ((), ()), ((), ())), ((5,), (5,), ((), ()), ((0,), (0,))), ((3,), (4,), ((), ()), ((), ())),
        ((3, 4), (4, 5), ((), ()), ((1,), (0,))), ((4, 3), (5, 4), ((), ()), ((0,), (1,))),
        ((2, 3, 4), (2, 4, 5), ((0,), (0,)), ((2,), (1,))), ((3, 2, 4), (4, 5, 2), ((1,), (2,)), ((2,), (0,))),
        ((2, 3, 4), (4, 3, 5), ((), ()), ((1, 2), (1, 0))), ((2, 3, 4, 5), (5, 3, 2, 6), ((1, 0), (1, 2)), ((3,), (0,))),
        ((0, 4), (4, 3), ((), ()), ((1,), (0,))), ((3, 0), (0, 2), ((), ()), ((1,), (0,))),
        ((1, 1), (1, 1), ((), ()), ((1,), (0,))), ((17, 131), (131, 19), ((), ()), ((1,), (0,))),
        ((2, 3), (2, 3), ((0, 1), (0, 1)), ((), ())),
    ]  # fmt: skip
    return [
        (
            (TensorType(lhs, d), TensorType(rhs, d)),
            {
                "lhs_batching_dimensions": batching[0],
                "rhs_batching_dimensions": batching[1],
                "lhs_contracting_dimensions": contracting[0],
                "rhs_contracting_dimensions": contracting[1],
                "dtype": wide,
                "precision": None,
            },
        )
        for d in SAMPLED
        for lhs, rhs, batching, contracting in cases
        for wide in sorted({d, _WIDE[d]}, key=str)
    ]


_WIDE: dict[DType, DType] = {F32: F64, F64: F64, BOOL: BOOL, I64: I64}
_WIDE |= {d: d for d in SAMPLED if d not in _WIDE}


def _dot_general_jax(attrs: Mapping[str, Any]) -> dict[str, Any]:
    pairs = tuple(
        (list(attrs[f"lhs_{kind}_dimensions"]), list(attrs[f"rhs_{kind}_dimensions"]))
        for kind in ("contracting", "batching")
    )
    shown: dict[str, Any] = {"dimension_numbers": pairs}
    if attrs["precision"] is not None:
        shown["precision"] = attrs["precision"]
    return {**shown, "preferred_element_type": attrs["dtype"]}


def _dot_general_roles(*operands: TensorType, **attrs: Any) -> list[list[tuple[str, int]]]:
    free = len(attrs["lhs_batching_dimensions"])
    found = []
    for side, operand in zip(("lhs", "rhs"), operands, strict=True):
        batching = tuple(attrs[f"{side}_batching_dimensions"])
        contracting = tuple(attrs[f"{side}_contracting_dimensions"])
        roles = []
        for i in range(operand.ndim):
            if i in batching:
                roles.append(("r", batching.index(i)))
            elif i in contracting:
                roles.append(("k", contracting.index(i)))
            else:
                roles.append(("r", free))
                free += 1
        found.append(roles)
    return found


dot_general: Op = Op(
    "dot_general", hlo="dot_general",
    infer=_dot_general_infer, numpy=_dot_general_numpy, error=Bound(16),
    jvp=(lambda t, x, y, **attrs: dot_general(t, y, **attrs), lambda t, x, y, **attrs: dot_general(x, t, **attrs)),
    transpose=_dot_general_transpose, batch=_dot_general_batch,
    kernel=Contraction(_dot_general_roles), cost=_dot_general_cost, samples=_dot_general_samples,
    attrs=("lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
           "rhs_contracting_dimensions", "dtype", "precision"),
    jax_attrs=_dot_general_jax,
)  # fmt: skip
