"""Windows that slide over arrays: HLO's `reduce_window` with any reducer, and the primitives that lower to it.

    result[o] = init ⊕ x[i_1] ⊕ x[i_2] ⊕ …   over the elements of window o, in row-major order

A window is `window_dimensions` elements wide, `window_dilations` apart; windows begin `window_strides` apart
in the operand with `base_dilations - 1` holes between its elements and `padding` around it. Holes and padding
hold no elements: they are left out, which for a reducer and init that form a monoid is what StableHLO says.

A window as wide as its axis, with padding before (or behind) that lets it begin at the first element, is a
prefix (or suffix) scan; that is how `cumsum` and its kind are written, and `kernel/build` knows the form.

Source: StableHLO reduce_window; the transposes are those of JAX's `lax.reduce_window`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import core, dtypes
from braze.dtypes import BOOL, F32, F64, FLOATS, INTEGERS, NUMBERS, DType
from braze.errors import DifferentiationError, DTypeError, ShapeError
from braze.ops import elementwise, shape
from braze.ops.facets import (
    HLO_ONLY,
    LOWERED,
    NOT_LINEAR,
    SAMPLED,
    Array,
    check_alike,
    check_dtype,
    check_length,
    full,
    listing,
    moved,
)
from braze.ops.reduce import check_reducer, highest, is_lanewise, lowest, region_reduction
from braze.ops.table import EXACT, LINEAR, ZERO, Bound, Cost, Error, Family, Op, Sample, Undefined
from braze.types import TensorType

Sizes = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]


# Geometry ---------------------------------------------------------------------------------------------


def dilated(size: int, dilation: int) -> int:
    """The extent of `size` elements that stand `dilation` apart."""
    return 0 if size == 0 else 1 + dilation * (size - 1)


def windows_along(size: int, window: int, stride: int, base: int, spread: int, low: int, high: int) -> int:
    """How many windows fit along an axis."""
    room = low + dilated(size, base) + high
    extent = dilated(window, spread)
    return 0 if room == 0 or extent > room else (room - extent) // stride + 1


def _window_shape(
    name: str,
    t: TensorType,
    window_dimensions: Sizes,
    window_strides: Sizes,
    base_dilations: Sizes,
    window_dilations: Sizes,
    padding: Padding,
) -> Sizes:
    """The shape of the windows over an operand; raises ShapeError with StableHLO's constraint."""
    for title, entries, c, positive in (
        ("window_dimensions", window_dimensions, "C4", "C5"),
        ("window_strides", window_strides, "C6", "C7"),
        ("base_dilations", base_dilations, "C8", "C9"),
        ("window_dilations", window_dilations, "C10", "C11"),
    ):
        check_length(name, title, entries, t.ndim, c)
        if any(n < 1 for n in entries):
            raise ShapeError(f"{name} ({positive}): {title} {tuple(entries)} must be positive.")
    if len(padding) != t.ndim or any(len(p) != 2 for p in padding):
        raise ShapeError(f"{name} (C12): padding has {len(padding)} pairs for an operand of {t.ndim} axes.")
    return tuple(
        windows_along(n, w, s, b, d, lo, hi)
        for n, w, s, b, d, (lo, hi) in zip(
            t.shape, window_dimensions, window_strides, base_dilations, window_dilations, padding, strict=True
        )
    )


# --- reduce_window ------------------------------------------------------------------------------------
def _reduce_window_infer(*types: TensorType, regions: Sequence[Any], **window: Any) -> list[TensorType]:
    count = len(types) // 2
    inputs, inits = types[:count], types[count:]
    if not inputs or len(inits) != count:
        raise ShapeError(
            f"reduce_window (C1): {len(types)} operands are not as many init values as inputs, one at least."
        )
    for i, (x, init) in enumerate(zip(inputs, inits)):
        if x.shape != inputs[0].shape:
            raise ShapeError(
                f"reduce_window (C2): input 0 has shape {inputs[0].shape} and input {i} has shape {x.shape}, "
                "which must be alike.",
                values=listing(**{f"input{k}": t for k, t in enumerate(inputs)}),
            )
        if init.dtype != x.dtype:
            raise DTypeError(
                f"reduce_window (C3): input {i} is {dtypes.short(x.dtype)} and its init value is "
                f"{dtypes.short(init.dtype)}, which must be alike."
            )
        if init.shape:
            raise ShapeError(f"reduce_window (I2): init value {i} has shape {init.shape}, which is not ().")
    scalars = tuple(TensorType((), t.dtype) for t in inputs)
    if len(regions) != 1 or (regions[0].parameter_types, regions[0].result_types) != (scalars * 2, scalars):
        raise ShapeError(
            f"reduce_window (C13): its one region must go from {listing(**_numbered(scalars * 2))} to "
            f"{listing(**_numbered(scalars))}."
        )
    sizes = _window_shape("reduce_window", inputs[0], **window)
    return [TensorType(sizes, t.dtype) for t in inputs]


def _numbered(types: Sequence[TensorType]) -> dict[str, TensorType]:
    return {f"value{i}": t for i, t in enumerate(types)}


Combine = Callable[[tuple[Array, ...], tuple[Array, ...]], tuple[Array, ...]]


def combiner(region: Any, apply: Callable[..., list[Array]]) -> Combine:
    """A reducer of scalars as a function of tuples of arrays: at once if it is lane code, else one by one."""

    def whole(u: tuple[Array, ...], v: tuple[Array, ...]) -> tuple[Array, ...]:
        # A result that is the same for all elements comes back as a scalar.
        return tuple(np.broadcast_to(y, x.shape) for y, x in zip(apply(region, *u, *v), v))

    def one_by_one(u: tuple[Array, ...], v: tuple[Array, ...]) -> tuple[Array, ...]:
        out = tuple(np.empty_like(x) for x in v)
        for i in np.ndindex(v[0].shape):
            found = apply(region, *[np.asarray(x[i]) for x in u], *[np.asarray(x[i]) for x in v])
            for y, value in zip(out, found):
                y[i] = value
        return out

    return whole if is_lanewise(region) else one_by_one


CHAIN = 32
"""Most elements that a scan meets one after another before it begins a new chain."""


def scanned(combine: Combine, arrays: tuple[Array, ...], axis: int, reverse: bool) -> tuple[Array, ...]:
    """All prefixes (suffixes) along an axis: in chains, whose totals are scanned the same way."""
    arrays = tuple(np.moveaxis(x, axis, 0) for x in arrays)
    if reverse:
        arrays = tuple(x[::-1] for x in arrays)
    arrays = _prefixes(combine, arrays)
    if reverse:
        arrays = tuple(x[::-1] for x in arrays)
    return tuple(np.moveaxis(x, 0, axis) for x in arrays)


def _prefixes(combine: Combine, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    n = len(arrays[0])
    if n <= CHAIN:
        rows = [tuple(x[k] for x in arrays) for k in range(n)]
        found = list(itertools.accumulate(rows, combine))
        return tuple(np.stack(column) for column in zip(*found)) if found else arrays
    whole = n - n % CHAIN
    # Element k of every chain, so that the chains run side by side.
    chains = tuple(x[:whole].reshape(-1, CHAIN, *x.shape[1:]).swapaxes(0, 1) for x in arrays)
    inner = _prefixes(combine, chains)
    before = _prefixes(combine, tuple(x[-1] for x in inner))
    later = tuple(x[:, 1:] for x in inner)
    joined = combine(tuple(np.broadcast_to(x[:-1], y.shape) for x, y in zip(before, later)), later)
    whole_parts = (
        np.concatenate([x[:, :1], y], axis=1).swapaxes(0, 1).reshape(whole, *x.shape[2:])
        for x, y in zip(inner, joined)
    )
    if whole == n:
        return tuple(whole_parts)
    rest = _prefixes(combine, tuple(x[whole:] for x in arrays))
    rest = combine(tuple(np.broadcast_to(x[-1], y.shape) for x, y in zip(before, rest)), rest)
    return tuple(np.concatenate([x, y]) for x, y in zip(whole_parts, rest))


def scan_of(sizes: Sequence[int], window: dict[str, Any]) -> tuple[int, bool] | None:
    """The axis and direction (True: from the end) of a window that is a scan, else None."""
    plain = all(
        n == 1 for name in ("window_strides", "base_dilations", "window_dilations") for n in window[name]
    )
    wide = [i for i, w in enumerate(window["window_dimensions"]) if w != 1]
    if not plain or len(wide) != 1:
        return None
    (axis,) = wide
    size = sizes[axis]
    around = [tuple(p) for p in window["padding"]]
    if window["window_dimensions"][axis] != size or any(
        p != (0, 0) for i, p in enumerate(around) if i != axis
    ):
        return None
    if around[axis] == (size - 1, 0):
        return axis, False
    return (axis, True) if around[axis] == (0, size - 1) else None


def _reduce_window_numpy(
    *arrays: Array, regions: Sequence[Any], apply: Callable[..., list[Array]], **window: Any
) -> list[Array]:
    count = len(arrays) // 2
    combine = combiner(regions[0], apply)
    sums = [i.op for i in regions[0].instructions] == [elementwise.add]
    with np.errstate(all="ignore"):
        return list(windowed(combine, arrays[:count], arrays[count:], sums, **window))


def windowed(
    combine: Combine, inputs: tuple[Array, ...], inits: tuple[Array, ...], tree: bool = False, **window: Any
) -> tuple[Array, ...]:
    """reduce_window by whole-array steps, one per element of the window.

    Args:
        tree: meet neighbours first, level by level, so that the error of a sum grows with log n; else one after
            another from the init value, which is the same for functions that are not quite associative.
    """
    sizes = inputs[0].shape
    result = _window_shape("reduce_window", TensorType(sizes, inputs[0].dtype), **window)
    starts = tuple(np.broadcast_to(init, result) for init in inits)
    if math.prod(result) == 0:
        return tuple(np.empty(result, x.dtype) for x in inputs)
    scan = scan_of(sizes, window)
    if scan is not None:
        return tuple(np.asarray(x) for x in combine(starts, scanned(combine, inputs, *scan)))
    total: tuple[Array, tuple[Array, ...]] = np.ones(result, bool), starts
    offsets = itertools.product(*map(range, window["window_dimensions"]))
    parts = (_element(inputs, result, offset, **window) for offset in offsets)
    if not tree:
        for part in parts:
            total = _met(combine, total, part)
        return total[1]
    # Levels of a binary counter: level k holds a combination of 2^k neighbouring elements of every window.
    levels: list[tuple[Array, tuple[Array, ...]] | None] = []
    for part in parts:
        for k, known in enumerate(levels):
            if known is None:
                levels[k] = part
                break
            levels[k], part = None, _met(combine, known, part)
        else:
            levels.append(part)
    for known in reversed(levels):  # higher levels hold earlier elements
        if known is not None:
            total = _met(combine, total, known)
    return total[1]


def _element(
    inputs: tuple[Array, ...],
    result: Sizes,
    offset: Sizes,
    *,
    window_dimensions: Sizes,
    window_strides: Sizes,
    base_dilations: Sizes,
    window_dilations: Sizes,
    padding: Padding,
) -> tuple[Array, tuple[Array, ...]]:
    """The elements at one offset of all windows, and where there is one."""
    here = np.ones((), bool)
    places = []
    for axis, n in enumerate(result):
        position = np.arange(n) * window_strides[axis] + offset[axis] * window_dilations[axis]
        position -= padding[axis][0]
        base, size = base_dilations[axis], inputs[0].shape[axis]
        inside = (position >= 0) & (position % base == 0) & (position // base < size)
        places.append(np.where(inside, position // base, 0))
        here = np.logical_and.outer(here, inside)
    if inputs[0].size == 0:
        return np.zeros(result, bool), tuple(np.zeros(result, x.dtype) for x in inputs)
    return here, tuple(x[np.ix_(*places)] if places else x for x in inputs)


def _met(
    combine: Combine, u: tuple[Array, tuple[Array, ...]], v: tuple[Array, tuple[Array, ...]]
) -> tuple[Array, tuple[Array, ...]]:
    """Two parts of every window, either of which may have no elements."""
    (has_u, us), (has_v, vs) = u, v
    both = combine(us, vs)
    met = (np.where(has_u & has_v, z, np.where(has_u, x, y)) for x, y, z in zip(us, vs, both))
    return has_u | has_v, tuple(m.astype(x.dtype, copy=False) for m, x in zip(met, us))


def _reduce_window_cost(*types: TensorType, regions: Sequence[Any], **window: Any) -> Cost:
    count = len(types) // 2
    inputs, sizes = types[:count], _window_shape("reduce_window", types[0], **window)
    elements = math.prod(sizes)
    taken = 8 if scan_of(types[0].shape, window) is not None else math.prod(window["window_dimensions"])
    work = sum(callable(i.op.kernel) for i in regions[0].instructions)
    return Cost(work * elements * taken, 0, moved(*types, *[t.with_(shape=sizes) for t in inputs]))


def _no_samples() -> list[Sample]:
    """None: regions are HLO, which is above this layer; the primitives' samples lower to it."""
    return []


WINDOW = ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding")

reduce_window_hlo = Op(
    None, hlo="reduce_window",
    infer=_reduce_window_infer, numpy=_reduce_window_numpy, error=Bound(1),
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=Family("window"), cost=_reduce_window_cost, samples=_no_samples,
    multiple_results=True, attrs=WINDOW,
)  # fmt: skip


# --- reduce_window_sum, reduce_window_max, reduce_window_min --------------------------------------------
JAX_WINDOW = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")


def hlo_window(
    *,
    window_dimensions: Sizes,
    window_strides: Sizes,
    padding: Padding,
    base_dilation: Sizes,
    window_dilation: Sizes,
) -> dict[str, Any]:
    """A primitive's window under StableHLO's names."""
    return {
        "window_dimensions": window_dimensions,
        "window_strides": window_strides,
        "base_dilations": base_dilation,
        "window_dilations": window_dilation,
        "padding": padding,
    }


def batched_window(
    *,
    window_dimensions: Sizes,
    window_strides: Sizes,
    padding: Padding,
    base_dilation: Sizes,
    window_dilation: Sizes,
) -> dict[str, Any]:
    """The window with an axis in front that it leaves alone."""
    return {
        "window_dimensions": (1, *window_dimensions),
        "window_strides": (1, *window_strides),
        "padding": ((0, 0), *padding),
        "base_dilation": (1, *base_dilation),
        "window_dilation": (1, *window_dilation),
    }


def _shown(attrs: Any) -> dict[str, Any]:
    return {name: attrs[name] for name in sorted(JAX_WINDOW)}


def window_reduction(
    name: str,
    op: Op,
    allowed: Sequence[DType],
    combine: Callable[[Array, Array], Array],
    identity: Callable[[DType], Any],
    jvp: Any,
    *,
    error: Error = EXACT,
    transpose: Any = NOT_LINEAR,
) -> Op:
    """A primitive that reduces windows by one binary op.

    Args:
        op: the op that combines two elements.
        identity: dtype to the value of a window without elements.
    """

    def infer(x: TensorType, **window: Any) -> TensorType:
        check_dtype(name, "operand", x, allowed, "I1")
        return TensorType(_window_shape(name, x, **hlo_window(**window)), x.dtype)

    def numpy(x: Array, **window: Any) -> Array:
        init = np.asarray(identity(x.dtype)).astype(x.dtype)
        with np.errstate(all="ignore"):
            step: Combine = lambda u, v: (combine(u[0], v[0]),)
            (found,) = windowed(step, (x,), (init,), op is elementwise.add, **hlo_window(**window))
        return np.asarray(found).astype(x.dtype, copy=False)

    def lower(b: Any, x: Any, **window: Any) -> Any:
        init = b.constant(np.asarray(identity(x.type.dtype)), x.type.dtype)
        return lower_window(b, op, x, init, **hlo_window(**window))

    def batch(size: int, args: Any, mapped: Any, **window: Any) -> Any:
        x = shape.move_axis(args[0], mapped[0], 0)
        return PRIMITIVE(x, **batched_window(**window)), 0

    def cost(x: TensorType, **window: Any) -> Cost:
        result = infer(x, **window)
        return Cost(result.size * math.prod(window["window_dimensions"]), 0, moved(x, result))

    def samples() -> list[Sample]:
        return [((TensorType(s, d),), dict(w)) for d in SAMPLED if d in allowed for s, w in window_cases()]

    PRIMITIVE = Op(
        name, hlo=None,
        infer=infer, numpy=numpy, error=error,
        jvp=jvp, transpose=transpose, batch=batch, lower=lower,
        kernel=LOWERED, cost=cost, samples=samples, at_once=False, attrs=JAX_WINDOW, jax_attrs=_shown,
    )  # fmt: skip
    return PRIMITIVE


def lower_window(b: Any, op: Op, x: Any, init: Any, **window: Any) -> Any:
    """reduce_window of one operand by one binary op."""
    scalar = TensorType((), x.type.dtype)
    region = b.region((scalar, scalar), lambda inner, u, v: (inner.emit(op, u, v),))
    return b.emit_many(reduce_window_hlo, x, init, regions=(region,), **window)[0]


def _reduce_window_sum_transpose(
    ct: Any,
    x: Undefined,
    *,
    window_dimensions: Sizes,
    window_strides: Sizes,
    padding: Padding,
    base_dilation: Sizes,
    window_dilation: Sizes,
) -> list[Any]:
    """Every element gets the cotangents of the windows that it is in: windows over the dilated cotangent."""
    t = x.type
    low, high = [], []
    for axis, n in enumerate(core.typeof(ct).shape):
        extent = dilated(window_dimensions[axis], window_dilation[axis])
        before = extent - padding[axis][0] - 1
        whole = dilated(t.shape[axis], base_dilation[axis]) + extent - 1
        low.append(before)
        high.append(whole - dilated(n, window_strides[axis]) - before)
    interior = tuple(s - 1 for s in window_strides)
    padded = shape.pad(ct, t.dtype.type(0), low=tuple(low), high=tuple(high), interior=interior)
    back = reduce_window_sum(
        padded,
        window_dimensions=window_dimensions,
        window_strides=base_dilation,
        padding=((0, 0),) * t.ndim,
        base_dilation=(1,) * t.ndim,
        window_dilation=window_dilation,
    )
    return [back if t.size else full(t.shape, t.dtype, 0)]


def window_cases() -> list[tuple[Sizes, dict[str, Any]]]:
    """Shapes and windows worth testing."""

    def case(
        sizes: Sizes,
        window: Sizes,
        strides: Sizes = (),
        padding: Padding = (),
        base: Sizes = (),
        spread: Sizes = (),
    ) -> tuple[Sizes, dict[str, Any]]:
        ones = (1,) * len(sizes)
        return sizes, {
            "window_dimensions": window,
            "window_strides": strides or ones,
            "padding": padding or ((0, 0),) * len(sizes),
            "base_dilation": base or ones,
            "window_dilation": spread or ones,
        }

    return [
        case((), ()), case((1,), (1,)), case((7,), (3,)), case((7,), (2,), (2,)), case((9,), (3,), (2,), ((1, 2),)),
        case((0,), (2,), (1,), ((2, 1),)), case((5,), (2,), (1,), ((2, 3),), (2,), (3,)), case((3,), (4,)),
        case((6,), (6,), (1,), ((5, 0),)), case((6,), (6,), (1,), ((0, 5),)), case((8,), (3,), (1,), ((-1, -2),)),
        case((5, 7), (2, 3)), case((6, 9), (3, 3), (1, 1), ((1, 1), (1, 1))), case((6, 9), (2, 2), (2, 2)),
        case((4, 5), (3, 2), (2, 1), ((2, 0), (0, 1)), (1, 2), (2, 1)), case((3, 70), (1, 5), (1, 2)),
        case((2, 5, 6, 3), (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (0, 1), (0, 0))), case((40, 37), (5, 1)),
    ]  # fmt: skip


reduce_window_sum: Op = window_reduction(
    "reduce_window_sum", elementwise.add, NUMBERS, np.add, lambda d: 0, LINEAR,
    error=Bound(1), transpose=_reduce_window_sum_transpose)  # fmt: skip
reduce_window_max: Op = window_reduction(
    "reduce_window_max", elementwise.max, (BOOL, *INTEGERS, *FLOATS), elementwise.maximum, lowest,
    (lambda t, x, **window: select_and_gather_add(t, x, select_prim="ge", **window),))  # fmt: skip
reduce_window_min: Op = window_reduction(
    "reduce_window_min", elementwise.min, (BOOL, *INTEGERS, *FLOATS), elementwise.minimum, highest,
    (lambda t, x, **window: select_and_gather_add(t, x, select_prim="le", **window),))  # fmt: skip


# --- select_and_gather_add: of each window, the tangent of the element that wins ------------------------
SELECTS: dict[str, tuple[str, Callable[[Array, Array], Array], Callable[[DType], Any]]] = {
    "ge": ("GE", np.greater_equal, lowest),
    "le": ("LE", np.less_equal, highest),
}
"""Per `select_prim`: the comparison that keeps the earlier element, and what loses against every number."""


def _select_and_gather_add_infer(
    t: TensorType, x: TensorType, *, select_prim: str, **window: Any
) -> TensorType:
    check_alike("select_and_gather_add", ("tangents", "operand"), (t, x), "C1")
    check_dtype("select_and_gather_add", "operand", x, FLOATS, "I1")
    return TensorType(_window_shape("select_and_gather_add", x, **hlo_window(**window)), t.dtype)


def _select_and_gather_add_numpy(t: Array, x: Array, *, select_prim: str, **window: Any) -> Array:
    _, holds, worst = SELECTS[select_prim]

    def combine(u: tuple[Array, ...], v: tuple[Array, ...]) -> tuple[Array, ...]:
        keeps = holds(u[0], v[0])
        return np.where(keeps, u[0], v[0]), np.where(keeps, u[1], v[1])

    inits = np.asarray(worst(x.dtype)).astype(x.dtype), np.zeros((), t.dtype)
    with np.errstate(all="ignore"):
        return windowed(combine, (x, t), inits, **hlo_window(**window))[1]


def _select_and_gather_add_transpose(
    ct: Any, t: Any, x: Any, *, select_prim: str, base_dilation: Sizes, window_dilation: Sizes, **window: Any
) -> list[Any]:
    if any(n != 1 for n in (*base_dilation, *window_dilation)):
        raise DifferentiationError(
            "reduce_window: the gradient of a maximum or minimum is not defined for dilated windows.",
            hint="dilate the operand with lax.pad first.",
        )
    return [select_and_scatter_add(ct, x, select_prim=select_prim, **window), None]


def _select_and_gather_add_batch(size: int, args: Any, axes: Any, *, select_prim: str, **window: Any) -> Any:
    t, x = (shape.to_front(size, v, a) for v, a in zip(args, axes))
    return select_and_gather_add(t, x, select_prim=select_prim, **batched_window(**window)), 0


def _select_and_gather_add_lower(b: Any, t: Any, x: Any, *, select_prim: str, **window: Any) -> Any:
    direction, _, worst = SELECTS[select_prim]

    def pick(inner: Any, x: Any, t: Any, y: Any, u: Any) -> tuple[Any, Any]:
        keeps = inner.emit(
            elementwise.compare_hlo, x, y, comparison_direction=direction, compare_type="FLOAT"
        )
        select = elementwise.select_hlo
        return inner.emit(select, keeps, x, y), inner.emit(select, keeps, t, u)

    inits = b.constant(np.asarray(worst(x.type.dtype)), x.type.dtype), b.constant(0, t.type.dtype)
    scalars = TensorType((), x.type.dtype), TensorType((), t.type.dtype)
    region = b.region((*scalars, *scalars), pick)
    return b.emit_many(reduce_window_hlo, x, t, *inits, regions=(region,), **hlo_window(**window))[1]


def _select_cases() -> list[Sample]:
    """Windows that are no scans: there a NaN, which no comparison keeps, may give way to another element."""
    return [
        ((TensorType(s, d),) * 2, {"select_prim": prim, **w})
        for d in (F32, F64)
        for prim in SELECTS
        for s, w in window_cases()
        if all(n == 1 for n in (*w["base_dilation"], *w["window_dilation"]))
        and scan_of(s, hlo_window(**w)) is None
    ]


select_and_gather_add: Op = Op(
    "select_and_gather_add", hlo=None,
    infer=_select_and_gather_add_infer, numpy=_select_and_gather_add_numpy, error=EXACT,
    jvp=(lambda t, g, x, **attrs: select_and_gather_add(t, x, **attrs), ZERO),
    transpose=_select_and_gather_add_transpose, batch=_select_and_gather_add_batch,
    lower=_select_and_gather_add_lower, kernel=LOWERED,
    cost=lambda t, x, **attrs: Cost(2 * math.prod(attrs["window_dimensions"]) * x.size, 0, moved(t, x)),
    samples=_select_cases, at_once=False, attrs=("select_prim", *JAX_WINDOW),
    jax_attrs=lambda attrs: {n: attrs[n] for n in sorted(("select_prim", *JAX_WINDOW))},
)  # fmt: skip


# --- select_and_scatter --------------------------------------------------------------------------------
def _select_and_scatter_infer(
    x: TensorType, source: TensorType, init: TensorType, *, regions: Sequence[Any], **window: Any
) -> TensorType:
    sizes = _window_shape("select_and_scatter", x, **_undilated(x.ndim, **window))
    if source.shape != sizes:
        raise ShapeError(
            f"select_and_scatter (C2): source has shape {source.shape}, the windows over operand {x} have "
            f"shape {sizes}."
        )
    if source.dtype != x.dtype or init.dtype != x.dtype or init.shape:
        raise DTypeError(
            "select_and_scatter (C1): source and init_value must have operand's dtype, and init_value no axes.",
            values=listing(operand=x, source=source, init_value=init),
        )
    scalar = TensorType((), x.dtype)
    wanted = [((scalar,) * 2, (TensorType((), BOOL),)), ((scalar,) * 2, (scalar,))]
    if [(r.parameter_types, r.result_types) for r in regions] != wanted:
        raise ShapeError(
            f"select_and_scatter (C9): select must go from two of {scalar} to bool, scatter to {scalar}."
        )
    return x


def _undilated(rank: int, **window: Any) -> dict[str, Any]:
    return {**window, "base_dilations": (1,) * rank, "window_dilations": (1,) * rank}


def scattered(
    keeps: Callable[[Array, Array], Array],
    combine: Callable[[Array, Array], Array],
    x: Array,
    source: Array,
    init: Any,
    *,
    window_dimensions: Sizes,
    window_strides: Sizes,
    padding: Padding,
) -> Array:
    """Each source element combined into the place of its window's winner; windows in row-major order."""
    out = np.full(x.shape, init, x.dtype)
    flat, values = out.reshape(-1), x.reshape(-1)
    for o in np.ndindex(source.shape):
        best: int | None = None
        for k in itertools.product(*map(range, window_dimensions)):
            at = tuple(i * s + j - p[0] for i, s, j, p in zip(o, window_strides, k, padding))
            if all(0 <= i < n for i, n in zip(at, x.shape)):
                here = int(np.ravel_multi_index(at, x.shape)) if at else 0
                if best is None or not keeps(values[best], values[here]):
                    best = here
        if best is not None:
            flat[best] = combine(flat[best], source[o])
    return out


def _select_and_scatter_numpy(
    x: Array,
    source: Array,
    init: Array,
    *,
    regions: Sequence[Any],
    apply: Callable[..., list[Array]],
    **window: Any,
) -> Array:
    select, scatter = regions

    def called(region: Any) -> Callable[[Array, Array], Array]:
        return lambda u, v: apply(region, np.asarray(u), np.asarray(v))[0]

    with np.errstate(all="ignore"):
        return scattered(called(select), called(scatter), x, source, init, **window)


def _select_and_scatter_cost(
    x: TensorType, source: TensorType, init: TensorType, *, regions: Sequence[Any], **window: Any
) -> Cost:
    return Cost(4 * source.size * math.prod(window["window_dimensions"]), 0, moved(x, x, source))


select_and_scatter_hlo = Op(
    None, hlo="select_and_scatter",
    infer=_select_and_scatter_infer, numpy=_select_and_scatter_numpy, error=Bound(1),
    jvp=HLO_ONLY, transpose=HLO_ONLY, batch=HLO_ONLY, partial=HLO_ONLY,
    kernel=Family("select_and_scatter"), cost=_select_and_scatter_cost, samples=_no_samples,
    attrs=("window_dimensions", "window_strides", "padding"),
)  # fmt: skip


# --- select_and_scatter_add: the transpose of select_and_gather_add -----------------------------------
def _select_and_scatter_add_infer(
    source: TensorType, x: TensorType, *, select_prim: str, **window: Any
) -> TensorType:
    check_dtype("select_and_scatter_add", "operand", x, FLOATS, "I1")
    sizes = _window_shape("select_and_scatter_add", x, **_undilated(x.ndim, **window))
    if source.shape != sizes or source.dtype != x.dtype:
        raise ShapeError(
            f"select_and_scatter_add (C2): source must be {TensorType(sizes, x.dtype)}.",
            values=listing(source=source, operand=x),
        )
    return TensorType(x.shape, x.dtype)


def _select_and_scatter_add_numpy(source: Array, x: Array, *, select_prim: str, **window: Any) -> Array:
    with np.errstate(all="ignore"):
        return scattered(SELECTS[select_prim][1], np.add, x, source, 0, **window)


def _select_and_scatter_add_transpose(
    ct: Any, source: Any, x: Any, *, select_prim: str, **window: Any
) -> list[Any]:
    ones = (1,) * core.typeof(x).ndim
    back = select_and_gather_add(
        ct, x, select_prim=select_prim, base_dilation=ones, window_dilation=ones, **window
    )
    return [back, None]


def _select_and_scatter_add_batch(size: int, args: Any, axes: Any, *, select_prim: str, **window: Any) -> Any:
    source, x = (shape.to_front(size, v, a) for v, a in zip(args, axes))
    wider = {
        "window_dimensions": (1, *window["window_dimensions"]),
        "window_strides": (1, *window["window_strides"]),
        "padding": ((0, 0), *window["padding"]),
    }
    return select_and_scatter_add(source, x, select_prim=select_prim, **wider), 0


def _select_and_scatter_add_lower(b: Any, source: Any, x: Any, *, select_prim: str, **window: Any) -> Any:
    scalar = TensorType((), x.type.dtype)
    direction = SELECTS[select_prim][0]
    select = b.region(
        (scalar, scalar),
        lambda inner, u, v: (
            inner.emit(elementwise.compare_hlo, u, v, comparison_direction=direction, compare_type="FLOAT"),
        ),
    )
    scatter = b.region((scalar, scalar), lambda inner, u, v: (inner.emit(elementwise.add, u, v),))
    init = b.constant(0, x.type.dtype)
    return b.emit_many(select_and_scatter_hlo, x, source, init, regions=(select, scatter), **window)[0]


def _select_and_scatter_add_samples() -> list[Sample]:
    found: list[Sample] = []
    for (t, x), attrs in _select_cases():
        window = {n: attrs[n] for n in ("window_dimensions", "window_strides", "padding")}
        sizes = _window_shape("select_and_scatter_add", x, **_undilated(x.ndim, **window))
        found.append(((TensorType(sizes, t.dtype), x), {"select_prim": attrs["select_prim"], **window}))
    return found


select_and_scatter_add: Op = Op(
    "select_and_scatter_add", hlo=None,
    infer=_select_and_scatter_add_infer, numpy=_select_and_scatter_add_numpy, error=Bound(1),
    jvp=(lambda t, source, x, **attrs: select_and_scatter_add(t, x, **attrs), ZERO),
    transpose=_select_and_scatter_add_transpose, batch=_select_and_scatter_add_batch,
    lower=_select_and_scatter_add_lower, kernel=LOWERED,
    cost=lambda source, x, **attrs: Cost(4 * math.prod(attrs["window_dimensions"]) * source.size, 0, moved(source, x, x)),
    samples=_select_and_scatter_add_samples, at_once=False,
    attrs=("select_prim", "window_dimensions", "window_strides", "padding"),
    jax_attrs=lambda attrs: dict(sorted(attrs.items())),
)  # fmt: skip


# --- reduce_window with a reducer of its own ----------------------------------------------------------
def _reduce_window_jaxpr_infer(*types: TensorType, jaxpr: Any, **window: Any) -> list[TensorType]:
    check_reducer("reduce_window", types, jaxpr)
    sizes = _window_shape("reduce_window", types[0], **hlo_window(**window))
    return [TensorType(sizes, t.dtype) for t in types[: len(types) // 2]]


def _reduce_window_jaxpr_lower(b: Any, *values: Any, jaxpr: Any, **window: Any) -> Any:
    return b.emit_many(reduce_window_hlo, *values, regions=(b.subregion(jaxpr),), **hlo_window(**window))


reduce_window = region_reduction(
    "reduce_window", _reduce_window_jaxpr_infer, _reduce_window_jaxpr_lower, ("jaxpr", *JAX_WINDOW),
    lambda attrs: {name: attrs[name] for name in sorted(("jaxpr", *JAX_WINDOW))},
)  # fmt: skip
