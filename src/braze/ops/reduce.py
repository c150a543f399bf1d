"""Reductions: sums, products, extrema, logic, positions of extrema, and HLO's `reduce` with any region.

The order is a tree over neighbours, so that a reducer need only be associative and errors of sums grow with
log n. The init value enters once, at the root. Sums of f16 and bf16 accumulate in f32.

Invariant: primitives lower to `reduce`, which is the only op that kernels are built for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import core, dtypes
from braze.dtypes import BOOL, FLOATS, I32, I64, INTEGERS, NUMBERS, DType, accumulation_dtype
from braze.errors import DTypeError, ShapeError
from braze.ops import elementwise, shape
from braze.ops.facets import (
    HLO_ONLY,
    LOWERED,
    NOT_LINEAR,
    SAMPLED,
    Array,
    check_axes,
    check_dtype,
    full,
    listing,
    moved,
    no_cost,
    size_of,
)
from braze.ops.table import (
    EXACT,
    LINEAR,
    PRIMITIVES,
    ZERO,
    Absent,
    Bound,
    Contraction,
    Cost,
    Error,
    Factors,
    Immediate,
    Op,
    Sample,
    Undefined,
)
from braze.types import TensorType

Axes = tuple[int, ...]
Combine = Callable[[tuple[Array, ...], tuple[Array, ...]], tuple[Array, ...]]

CASES: tuple[tuple[tuple[int, ...], Axes], ...] = (
    ((), ()), ((5,), ()), ((1,), (0,)), ((0,), (0,)), ((7,), (0,)), ((3, 4), (0,)), ((3, 4), (1,)),
    ((3, 4), (0, 1)), ((2, 3, 5), (1,)), ((2, 3, 5), (0, 2)), ((2, 0, 3), (1,)), ((2, 0, 3), (0,)),
    ((1031,), (0,)), ((33, 65), (1,)), ((65, 33), (0,)),
)  # fmt: skip
"""Shapes and reduced axes worth testing."""


def kept(entries: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """The entries of the axes that a reduction keeps."""
    return tuple(n for i, n in enumerate(entries) if i not in axes)


def tree(combine: Combine, arrays: Sequence[Array], axes: Axes) -> tuple[Array, ...]:
    """Reduce axes of at least one element by combining neighbours, level by level."""
    rest = [i for i in range(arrays[0].ndim) if i not in axes]
    outer = kept(arrays[0].shape, axes)
    count = size_of([arrays[0].shape[a] for a in axes])
    level = tuple(x.transpose([*sorted(axes), *rest]).reshape(count, *outer) for x in arrays)
    while (n := len(level[0])) > 1:
        whole = n - n % 2
        pairs = combine(tuple(x[0:whole:2] for x in level), tuple(x[1:whole:2] for x in level))
        if n % 2:
            pairs = tuple(np.concatenate([p, x[whole:]]) for p, x in zip(pairs, level))
        level = pairs
    return tuple(np.asarray(x[0]) for x in level)


# --- reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_and, reduce_or ------------------------------
def lowest(dtype: DType) -> Any:
    """What maximum leaves unchanged."""
    if dtype in FLOATS:
        return -np.inf
    return False if dtype == BOOL else np.iinfo(dtype).min


def highest(dtype: DType) -> Any:
    """What minimum leaves unchanged."""
    if dtype in FLOATS:
        return np.inf
    return True if dtype == BOOL else np.iinfo(dtype).max


def _splat(shape: Sequence[int], dtype: DType, value: Any) -> Array:
    return np.full(shape, value, dtype)


def reduction(
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
) -> Op:
    """A primitive that reduces axes by one binary op.

    Args:
        op: the op that combines two elements.
        identity: dtype to the value of a reduction over nothing.
        wide: whether 16-bit floats accumulate in f32.
    """

    def infer(x: TensorType, *, axes: Axes) -> TensorType:
        check_axes(name, "axes", axes, x.ndim, "C4", "C5")
        check_dtype(name, "operand", x, allowed, "I1")
        return TensorType(kept(x.shape, axes), x.dtype)

    def numpy(x: Array, *, axes: Axes) -> Array:
        dtype = accumulation_dtype(x.dtype) if wide else x.dtype
        count = size_of([x.shape[a] for a in axes])
        if count == 0:
            return _splat(kept(x.shape, axes), x.dtype, identity(x.dtype))
        with np.errstate(all="ignore"):
            (found,) = tree(lambda u, v: (combine(u[0], v[0]),), (x.astype(dtype, copy=False),), axes)
            return np.asarray(found).astype(x.dtype)

    def lower(b: Any, x: Any, *, axes: Axes) -> Any:
        dtype = x.type.dtype
        within = accumulation_dtype(dtype) if wide else dtype
        if within != dtype:
            x = b.emit(elementwise.convert_hlo, x, dtype=within)
        init = b.constant(np.asarray(identity(within)), within)
        scalar = TensorType((), within)
        region = b.region((scalar, scalar), lambda inner, u, v: (inner.emit(op, u, v),))
        (result,) = b.emit_many(reduce_hlo, x, init, regions=(region,), dimensions=axes)
        return result if within == dtype else b.emit(elementwise.convert_hlo, result, dtype=dtype)

    def batch(size: int, args: Any, mapped: Any, *, axes: Axes) -> Any:
        x = shape.move_axis(args[0], mapped[0], 0)
        return PRIMITIVE(x, axes=tuple(a + 1 for a in axes)), 0

    def cost(x: TensorType, *, axes: Axes) -> Cost:
        return Cost(x.size, 0, moved(x, infer(x, axes=axes)))

    def samples() -> list[Sample]:
        return [((TensorType(s, d),), {"axes": axes}) for d in SAMPLED if d in allowed for s, axes in CASES]

    PRIMITIVE = Op(
        name, hlo=None,
        infer=infer, numpy=numpy, error=error,
        jvp=jvp, transpose=transpose, batch=batch, lower=lower,
        kernel=LOWERED, cost=cost, samples=samples, attrs=("axes",), jax_attrs=dict,
    )  # fmt: skip
    return PRIMITIVE


def expand(x: Any, to: Sequence[int], axes: Axes) -> Any:
    """A reduced value repeated along the axes that were reduced."""
    dims = tuple(i for i in range(len(to)) if i not in axes)
    return shape.broadcast_in_dim(x, shape=tuple(to), broadcast_dimensions=dims)


def _reduce_sum_transpose(ct: Any, x: Undefined, *, axes: Axes) -> list[Any]:
    return [expand(ct, x.type.shape, axes)]


def _product_jvp(t: Any, x: Any, *, axes: Axes) -> Any:
    """Σ_i t_i Π_{j≠i} x_j by a tree of pairs (product, its tangent): right where factors are zero."""
    outer = kept(core.typeof(x).shape, axes)
    order = (*axes, *(i for i in range(core.typeof(x).ndim) if i not in axes))
    count = size_of([core.typeof(x).shape[a] for a in axes])
    if count == 0:
        return full(outer, core.typeof(x).dtype, 0)
    p, d = (shape.reshape(shape.transpose(v, permutation=order), shape=(count, *outer)) for v in (x, t))
    mul, add = elementwise.mul, elementwise.add
    while (n := core.typeof(p).shape[0]) > 1:
        half, whole = n // 2, n - n % 2
        (p0, p1, p2), (d0, d1, d2) = (
            [_rows(v, 0, half), _rows(v, half, whole), _rows(v, whole, n)] for v in (p, d)
        )
        p, d = mul(p0, p1), add(mul(d0, p1), mul(p0, d1))
        if whole < n:
            p, d = (shape.concatenate(v, tail, dimension=0) for v, tail in ((p, p2), (d, d2)))
    return shape.reshape(d, shape=outer)


def _rows(x: Any, start: int, limit: int) -> Any:
    t = core.typeof(x)
    return shape.slice(
        x,
        start_indices=(start, *[0] * (t.ndim - 1)),
        limit_indices=(limit, *t.shape[1:]),
        strides=(1,) * t.ndim,
    )


def _extremum_jvp(name: str) -> Callable[..., Any]:
    """The tangent where the extremum is, shared evenly where it is met several times."""

    def jvp(t: Any, x: Any, *, axes: Axes) -> Any:
        type_ = core.typeof(x)
        if type_.size == 0:  # the extremum over nothing is a constant
            return full(kept(type_.shape, axes), type_.dtype, 0)
        extremum = expand(PRIMITIVES[name](x, axes=axes), type_.shape, axes)
        here = elementwise.convert_element_type(
            elementwise.eq(x, extremum), new_dtype=type_.dtype, weak_type=False
        )
        total = reduce_sum(elementwise.mul(t, here), axes=axes)
        return elementwise.div(total, reduce_sum(here, axes=axes))

    return jvp


reduce_sum = reduction("reduce_sum", elementwise.add, NUMBERS, np.add, lambda d: 0, LINEAR, error=Bound(1),
                       transpose=_reduce_sum_transpose, wide=True)  # fmt: skip
reduce_prod = reduction("reduce_prod", elementwise.mul, NUMBERS, np.multiply, lambda d: 1, (_product_jvp,),
                        error=Factors(1), wide=True)  # fmt: skip
reduce_max = reduction("reduce_max", elementwise.max, (BOOL, *INTEGERS, *FLOATS), elementwise.maximum, lowest,
                       (_extremum_jvp("reduce_max"),))  # fmt: skip
reduce_min = reduction("reduce_min", elementwise.min, (BOOL, *INTEGERS, *FLOATS), elementwise.minimum, highest,
                       (_extremum_jvp("reduce_min"),))  # fmt: skip
reduce_and = reduction("reduce_and", elementwise.and_, (BOOL, *INTEGERS), np.bitwise_and,
                       lambda d: True if d == BOOL else d.type(0) - d.type(1) if d in dtypes.SIGNED
                       else np.iinfo(d).max, ZERO)  # fmt: skip
reduce_or = reduction("reduce_or", elementwise.or_, (BOOL, *INTEGERS), np.bitwise_or, lambda d: 0, ZERO)


# --- argmax, argmin -----------------------------------------------------------------------------------
def _position(name: str, better: str, numpy: Callable[..., Any], worst: Callable[[DType], Any]) -> Op:
    """The first position of an extremum; a NaN counts as the extremum."""

    def infer(x: TensorType, *, axes: Axes, index_dtype: DType) -> TensorType:
        check_axes(name, "axes", axes, x.ndim, "C4", "C5")
        check_dtype(name, "operand", x, (BOOL, *INTEGERS, *FLOATS), "I1")
        if len(axes) != 1:
            raise ShapeError(f"{name}: axes {tuple(axes)} must be one axis.")
        if x.shape[axes[0]] == 0:
            raise ShapeError(f"{name}: axis {axes[0]} of {x} has no element to point at.")
        if index_dtype not in INTEGERS:
            raise DTypeError(f"{name}: index_dtype {dtypes.short(index_dtype)} is no integer.")
        return TensorType(kept(x.shape, axes), index_dtype)

    def evaluate(x: Array, *, axes: Axes, index_dtype: DType) -> Array:
        return np.asarray(numpy(x, axis=axes[0])).astype(index_dtype)

    def batch(size: int, args: Any, mapped: Any, *, axes: Axes, index_dtype: DType) -> Any:
        x = shape.move_axis(args[0], mapped[0], 0)
        return PRIMITIVE(x, axes=tuple(a + 1 for a in axes), index_dtype=index_dtype), 0

    def wins(b: Any, x: Any, i: Any, y: Any, j: Any) -> tuple[Any, Any]:
        """The better of (x, i) and (y, j); it does not matter in which order pairs meet."""

        def compare(direction: str, u: Any, v: Any) -> Any:
            kind = elementwise.compare_type_of(u.type.dtype)
            return b.emit(elementwise.compare_hlo, u, v, comparison_direction=direction, compare_type=kind)

        ahead, tie = compare(better, x, y), compare("EQ", x, y)
        if x.type.dtype in FLOATS:
            x_nan, y_nan = compare("NE", x, x), compare("NE", y, y)
            only_x = b.emit(elementwise.and_, x_nan, b.emit(elementwise.not_, y_nan))
            ahead = b.emit(elementwise.or_, ahead, only_x)
            tie = b.emit(elementwise.or_, tie, b.emit(elementwise.and_, x_nan, y_nan))
        first = b.emit(elementwise.and_, tie, compare("LT", i, j))
        choose = b.emit(elementwise.or_, ahead, first)
        select = elementwise.select_hlo
        return b.emit(select, choose, x, y), b.emit(select, choose, i, j)

    def lower(b: Any, x: Any, *, axes: Axes, index_dtype: DType) -> Any:
        t = x.type
        positions = b.emit(shape.iota, iota_dimension=axes[0], shape=t.shape, dtype=index_dtype)
        inits = b.constant(np.asarray(worst(t.dtype)), t.dtype), b.constant(0, index_dtype)
        scalars = TensorType((), t.dtype), TensorType((), index_dtype)
        region = b.region((*scalars, *scalars), wins)
        found = b.emit_many(reduce_hlo, x, positions, *inits, regions=(region,), dimensions=axes)
        return found[1]

    def samples() -> list[Sample]:
        return [
            ((TensorType(s, d),), {"axes": axes, "index_dtype": i})
            for d in SAMPLED
            for i in (I32, I64)
            for s, axes in CASES
            if len(axes) == 1 and s[axes[0]]
        ]

    PRIMITIVE = Op(
        name, hlo=None,
        infer=infer, numpy=evaluate, error=EXACT,
        jvp=ZERO, transpose=NOT_LINEAR, batch=batch, lower=lower,
        kernel=LOWERED, cost=lambda x, **attrs: Cost(3 * x.size, 0, x.nbytes), samples=samples,
        keeps_weak_type=False, attrs=("axes", "index_dtype"), jax_attrs=dict,
    )  # fmt: skip
    return PRIMITIVE


argmax = _position("argmax", "GT", np.argmax, lowest)
argmin = _position("argmin", "LT", np.argmin, highest)


# --- reduce -------------------------------------------------------------------------------------------
def _reduce_infer(*types: TensorType, dimensions: Axes, regions: Sequence[Any]) -> list[TensorType]:
    count = len(types) // 2
    inputs, inits = types[:count], types[count:]
    if not inputs or len(inits) != count:
        raise ShapeError(
            f"reduce (C3): {len(types)} operands are not as many init values as inputs, one at least."
        )
    first = inputs[0]
    for i, (x, init) in enumerate(zip(inputs, inits)):
        if x.shape != first.shape:
            raise ShapeError(
                f"reduce (C1): input 0 has shape {first.shape} and input {i} has shape {x.shape}, "
                "which must be alike.",
                values=listing(**{f"input{k}": t for k, t in enumerate(inputs)}),
            )
        if init.dtype != x.dtype:
            raise DTypeError(
                f"reduce (C2): input {i} is {dtypes.short(x.dtype)} and its init value is "
                f"{dtypes.short(init.dtype)}, which must be alike."
            )
        if init.shape:
            raise ShapeError(f"reduce (I2): init value {i} has shape {init.shape}, which is not ().")
    check_axes("reduce", "dimensions", dimensions, first.ndim, "C4", "C5")
    scalars = tuple(TensorType((), t.dtype) for t in inputs)
    if len(regions) != 1:
        raise ShapeError(f"reduce (C6): it takes one region, not {len(regions)}.")
    if regions[0].parameter_types != scalars * 2 or regions[0].result_types != scalars:
        raise ShapeError(
            f"reduce (C6): the region goes from {_types(regions[0].parameter_types)} to "
            f"{_types(regions[0].result_types)} and must go from {_types(scalars * 2)} to {_types(scalars)}."
        )
    return [TensorType(kept(first.shape, dimensions), t.dtype) for t in inputs]


def _types(types: Sequence[TensorType]) -> str:
    return f"({', '.join(map(str, types))})"


def is_lanewise(region: Any) -> bool:
    """Whether a region of scalars may be run on whole arrays: it holds lane code and constants only."""
    return all(callable(i.op.kernel) or i.op is shape.constant_hlo for i in region.instructions)


def _reduce_numpy(
    *arrays: Array, dimensions: Axes, regions: Sequence[Any], apply: Callable[..., list[Array]]
) -> list[Array]:
    count = len(arrays) // 2
    inputs, inits = arrays[:count], arrays[count:]
    outer = kept(inputs[0].shape, dimensions)
    (region,) = regions
    if inputs[0].size == 0:
        return [_splat(outer, x.dtype, init) for x, init in zip(inputs, inits)]

    def whole(u: tuple[Array, ...], v: tuple[Array, ...]) -> tuple[Array, ...]:
        # A result that is the same for all elements comes back as a scalar.
        found = apply(region, *u, *v)
        return tuple(np.broadcast_to(y, x.shape) for y, x in zip(found, v))

    def one_by_one(u: tuple[Array, ...], v: tuple[Array, ...]) -> tuple[Array, ...]:
        out = tuple(np.empty_like(x) for x in v)
        for i in np.ndindex(v[0].shape):
            found = apply(region, *[np.asarray(x[i]) for x in u], *[np.asarray(x[i]) for x in v])
            for y, value in zip(out, found):
                y[i] = value
        return out

    combine = whole if is_lanewise(region) else one_by_one
    with np.errstate(all="ignore"):
        found = tree(combine, inputs, dimensions)
        starts = tuple(np.broadcast_to(init, outer) for init in inits)
        return [np.asarray(y) for y in combine(starts, found)]


def _reduce_cost(*types: TensorType, dimensions: Axes, regions: Sequence[Any]) -> Cost:
    inputs = types[: len(types) // 2]
    results = [t.with_(shape=kept(t.shape, dimensions)) for t in inputs]
    work = sum(not isinstance(i.op.kernel, Immediate) for i in regions[0].instructions)
    return Cost(work * inputs[0].size, 0, moved(*types, *results))


def _reduce_roles(*types: TensorType, dimensions: Axes) -> list[list[tuple[str, int]]]:
    rest = iter(range(types[0].ndim))
    roles = [
        ("k", dimensions.index(i)) if i in dimensions else ("r", next(rest)) for i in range(types[0].ndim)
    ]
    return [roles] * (len(types) // 2)


def _no_samples() -> list[Sample]:
    """None: regions are HLO, which is above this layer; the reductions' samples lower to it."""
    return []


reduce_hlo = Op(
    None, hlo="reduce",
    infer=_reduce_infer, numpy=_reduce_numpy, error=Bound(1),
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=Contraction(_reduce_roles), cost=_reduce_cost, samples=_no_samples,
    multiple_results=True, attrs=("dimensions",),
)  # fmt: skip


# --- reduce with a reducer of its own -----------------------------------------------------------------
def _reduce_jaxpr_infer(*types: TensorType, jaxpr: Any, dimensions: Axes) -> list[TensorType]:
    check_reducer("reduce", types, jaxpr)
    first = types[0]
    check_axes("reduce", "dimensions", dimensions, first.ndim, "C4", "C5")
    return [TensorType(kept(first.shape, dimensions), t.dtype) for t in types[: len(types) // 2]]


def check_reducer(title: str, types: Sequence[TensorType], jaxpr: Any) -> None:
    """Raise unless a reducer fits its operands and init values, half of `types` each."""
    count = len(types) // 2
    if count == 0 or len(types) % 2:
        raise ShapeError(f"{title} (C3): there must be as many init values as operands, one at least.")
    for i, (x, init) in enumerate(zip(types[:count], types[count:])):
        if x.shape != types[0].shape:
            raise ShapeError(
                f"{title} (C1): operand 0 has shape {types[0].shape} and operand {i} has shape {x.shape}, "
                "which must be alike."
            )
        if init.strong is not TensorType((), x.dtype):
            raise DTypeError(
                f"{title} (C2): the init value of operand {i} is {init}, which must be "
                f"{TensorType((), x.dtype)}."
            )
    scalars = [TensorType((), t.dtype) for t in types[:count]]
    if [t.strong for t in jaxpr.out_avals] != scalars:
        raise DTypeError(
            f"{title} (C6): the computation gives {_types(jaxpr.out_avals)} and must give {_types(scalars)}."
        )


def _reduce_jaxpr_lower(b: Any, *values: Any, jaxpr: Any, dimensions: Axes) -> Any:
    return b.emit_many(reduce_hlo, *values, regions=(b.subregion(jaxpr),), dimensions=dimensions)


def region_reduction(name: str, infer: Any, lower: Any, attrs: tuple[str, ...], jax_attrs: Any) -> Op:
    """A reduction by a jaxpr of scalars. Derivatives and batches are written by `trace/`, which evaluates it."""

    def forward(facet: str) -> Callable[..., Any]:
        return lambda *args, transform, **attrs: getattr(transform, f"{name}_{facet}")(*args, **attrs)

    return Op(
        name, hlo=None,
        infer=infer, numpy=Absent("it is lowered to HLO before it runs"), error=EXACT,
        jvp=forward("jvp"), transpose=Absent("not linear: its derivative is written out in other operations"),
        batch=forward("batch"), partial=forward("partial"), lower=lower,
        kernel=LOWERED, cost=no_cost, samples=_no_samples,
        multiple_results=True, keeps_weak_type=False, jaxprs=("jaxpr",), attrs=attrs, jax_attrs=jax_attrs,
    )  # fmt: skip


reduce = region_reduction(
    "reduce", _reduce_jaxpr_infer, _reduce_jaxpr_lower, ("jaxpr", "dimensions"),
    lambda attrs: {"dimensions": attrs["dimensions"], "jaxpr": attrs["jaxpr"]},
)  # fmt: skip
