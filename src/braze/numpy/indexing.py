"""Indexing, `x[...]` and `x.at[...]`, outside and inside `jit`.

Basic indices (integers, slices, None and Ellipsis) are first spelled out per axis, then carried out as at most
one slice (with a reversal for negative steps), one dynamic slice for integers known only at run time, and one
reshape or broadcast for axes that go or come. Out-of-range Python integers raise; out-of-range run-time
integers clamp, as in JAX.

With arrays among the indices, and for updates, the index becomes index vectors and dimension numbers
(`_Indexer`): one gather or scatter. Arrays of integers broadcast against each other; what they index lies where
the first of them stood if they stand side by side, else in front, as in NumPy. Boolean masks whose values are
known are their positions. Negative indices count from the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braze import dtypes, errors
from braze.core import Tracer, typeof
from braze.lax import indexing as gathers
from braze.lax import lax, slicing
from braze.ops.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

Array = Any
ArrayLike = Any

_HINT = "make an array of it first, as in x[braze.numpy.array(index)]; tuples index several axes."


@dataclass(slots=True)
class _Plan:
    """An index, axis by axis of the operand.

    Attributes:
        starts, limits, strides: the static slice.
        reversed: axes whose slice runs backwards; `starts` and `limits` are those of the forward slice.
        dynamic: axis to the scalar that indexes it at run time.
        dropped: axes that an integer indexed.
        added: places of new axes in the result.
    """

    starts: list[int]
    limits: list[int]
    strides: list[int]
    reversed: list[int] = field(default_factory=list)
    dynamic: dict[int, Any] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)


def getitem(x: Array, index: Any) -> Array:
    """`x[index]`.

    Raises: OutOfBoundsError for a Python integer outside the axis; ShapeError for too many indices;
        UnsupportedError for lists; ConcretizationError for masks and bounds that are not known while tracing.
    """
    parts = index if isinstance(index, tuple) else (index,)
    if any(_is_advanced(p) for p in parts):
        return take(x, parts)
    plan = _plan(typeof(x).shape, parts)
    result = _slice(x, plan)
    result = _drop(result, plan.dropped)
    if plan.added:
        result = lax.expand_dims(result, plan.added)
    return result


def _is_advanced(part: Any) -> bool:
    """Whether an index is an array with axes, or a truth value."""
    if part is None or part is Ellipsis or (isinstance(part, slice | int) and not isinstance(part, bool)):
        return False
    if isinstance(part, bool | np.bool_):
        return True
    if isinstance(part, Tracer | np.ndarray | np.generic) or hasattr(type(part), "aval"):
        t = typeof(part)
        return bool(t.ndim) or t.dtype == dtypes.BOOL
    return False


def _plan(shape: tuple[int, ...], parts: tuple[Any, ...]) -> _Plan:
    used = sum(1 for p in parts if p is not None and p is not Ellipsis)
    if sum(1 for p in parts if p is Ellipsis) > 1:
        raise errors.ArgumentError("index: one Ellipsis (...) is allowed.")
    if used > len(shape):
        raise errors.OutOfBoundsError(
            f"index: {used} indices were given for an array of {len(shape)} axes.", values=f"shape {shape}"
        )
    plan = _Plan([0] * len(shape), list(shape), [1] * len(shape))
    axis = place = 0
    for part in parts:
        if part is None:
            plan.added.append(place)
            place += 1
        elif part is Ellipsis:
            axis += len(shape) - used
            place += len(shape) - used
        elif isinstance(part, slice):
            _plan_slice(plan, axis, shape[axis], part)
            axis, place = axis + 1, place + 1
        else:
            _plan_integer(plan, axis, shape[axis], part)
            axis += 1
    return plan


def _plan_slice(plan: _Plan, axis: int, size: int, part: slice) -> None:
    try:
        start, limit, step = part.indices(size)
    except TypeError:
        raise errors.ConcretizationError(
            "index: the bounds of a slice are static integers, but one is not known while tracing.",
            hint="use braze.lax.dynamic_slice, whose size is static and whose position is not.",
        ) from None
    except ValueError as error:
        raise errors.ArgumentError(f"index: {error}.") from None
    if step > 0:
        plan.starts[axis], plan.limits[axis], plan.strides[axis] = start, max(start, limit), step
        return
    count = len(range(start, limit, step))
    last = start + (count - 1) * step
    plan.starts[axis], plan.limits[axis], plan.strides[axis] = (
        (last, start + 1, -step) if count else (0, 0, 1)
    )
    plan.reversed.append(axis)


def _plan_integer(plan: _Plan, axis: int, size: int, part: Any) -> None:
    if isinstance(part, bool | np.bool_ | list | tuple | str | float):
        raise errors.UnsupportedError(f"index: a {type(part).__name__} is no index.", hint=_HINT)
    static = part.concrete if isinstance(part, Tracer) and part.concrete is not None else part
    t = typeof(static) if not isinstance(static, int) else None
    if t is not None and (t.ndim or t.dtype not in dtypes.INTEGERS):
        raise errors.DTypeError(
            f"index: arrays of integers and of bools index, {dtypes.short(t.dtype)} was given."
        )
    plan.dropped.append(axis)
    if isinstance(static, Tracer):
        plan.dynamic[axis] = static
        return
    value = int(static)
    if not -size <= value < size:
        raise errors.OutOfBoundsError(
            f"index: {value} is out of bounds for axis {axis} of size {size}, which takes {-size} to {size - 1}."
        )
    plan.starts[axis], plan.limits[axis] = value % size, value % size + 1


def _slice(x: Array, plan: _Plan) -> Array:
    shape = typeof(x).shape
    if plan.starts != [0] * len(shape) or plan.limits != list(shape) or any(s != 1 for s in plan.strides):
        x = slicing.slice(x, plan.starts, plan.limits, plan.strides)
    for axis, index in plan.dynamic.items():
        x = slicing.dynamic_slice_in_dim(x, index, 1, axis)
    return lax.rev(x, plan.reversed) if plan.reversed else x


def _drop(x: Array, axes: list[int]) -> Array:
    return lax.squeeze(x, axes) if axes else x


# Arrays as indices, and updates ---------------------------------------------------------------------


@dataclass(slots=True)
class _Indexer:
    """An index as gathers and scatters have it.

    Attributes:
        operand: what is indexed, with an axis of size 1 for every truth value among the indices.
        indices: index vectors.
        shape: of the result, without axes for None.
        reversed: axes of the result that run backwards.
        added: axes of the result, with those for None, that None adds.
    """

    operand: Array
    indices: Array
    numbers: GatherDimensionNumbers
    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    reversed: list[int]
    added: list[int]


def _known(part: Any) -> Any:
    """The values of an index array, where they are known."""
    if isinstance(part, Tracer):
        part = part.concrete if part.concrete is not None else part
    if isinstance(part, Tracer):
        return part
    return np.asarray(part)


def _expanded(x: Array, parts: tuple[Any, ...]) -> tuple[Array, list[Any]]:
    """Masks as positions, Ellipsis as slices; truth values index a new axis of size 1."""
    known: list[Any] = []
    used = 0
    for part in parts:
        if part is None or part is Ellipsis or isinstance(part, slice):
            known.append(part)
            used += isinstance(part, slice)
            continue
        if isinstance(part, list | tuple | str | float):
            raise errors.UnsupportedError(f"index: a {type(part).__name__} is no index.", hint=_HINT)
        value = _known(part)
        t = typeof(value)
        if t.dtype == dtypes.BOOL:
            if isinstance(value, Tracer):
                raise errors.ConcretizationError(
                    f"index: a mask of type {t} is not known while tracing, and the result's shape depends on it.",
                    hint="use braze.numpy.where(mask, x, y), or braze.numpy.nonzero(mask, size=...) and its indices.",
                )
            known.append(value)
            used += t.ndim
            continue
        if t.dtype not in dtypes.INTEGERS:
            raise errors.DTypeError(
                f"index: arrays of integers and of bools index, {dtypes.short(t.dtype)} was given."
            )
        known.append(value)
        used += 1
    ndim = typeof(x).ndim
    if used > ndim:
        raise errors.OutOfBoundsError(
            f"index: {used} indices were given for an array of {ndim} axes.",
            values=f"shape {typeof(x).shape}",
        )
    if sum(1 for p in known if p is Ellipsis) > 1:
        raise errors.ArgumentError("index: one Ellipsis (...) is allowed.")
    if not any(p is Ellipsis for p in known):
        known.append(Ellipsis)
    spelled: list[Any] = []
    axis = 0
    for part in known:
        if part is Ellipsis:
            spelled += [slice(None)] * (ndim - used)
            axis += ndim - used
        elif isinstance(part, np.ndarray) and part.dtype == bool:
            sizes = typeof(x).shape[axis : axis + part.ndim]
            if part.shape != sizes:
                raise errors.ShapeError(
                    f"index: the mask has shape {part.shape}, where the axes it indexes have {sizes}.",
                    values=f"shape {typeof(x).shape}",
                )
            if not part.ndim:  # an axis of size 1, taken once or not at all
                x = lax.expand_dims(x, (axis,))
                axis += 1
                spelled.append(np.zeros(int(part), np.int32))
                continue
            spelled += [p.astype(np.int32) for p in np.nonzero(part)]
            axis += part.ndim
        else:
            spelled.append(part)
            axis += part is not None
    return x, spelled


def wrapped(index: Any, size: int, wide: Any, wrap: bool) -> Any:
    """Negative indices counted from the end, in the dtype of all index vectors."""
    unsigned = typeof(index).dtype not in dtypes.SIGNED
    if isinstance(index, np.ndarray):
        index = index.astype(wide)
        return index if unsigned or not wrap else np.where(index < 0, index + size, index).astype(wide)
    index = lax.convert_element_type(index, wide)
    if unsigned or not wrap:
        return index
    negative = lax.lt(index, lax.full_like(index, 0))
    return lax.select(negative, lax.add(index, lax.full_like(index, size)), index)


def _vectors(columns: list[Any], shape: tuple[int, ...], wide: Any) -> Any:
    """Index vectors from their entries, each with the rank of the shape."""
    if all(isinstance(c, np.ndarray) for c in columns):
        full = [np.broadcast_to(c, shape) for c in columns]
        return np.stack(full, -1) if full else np.zeros((*shape, 0), wide)
    wanted = []
    for column in columns:
        dims = tuple(range(len(shape)))
        wanted.append(lax.broadcast_in_dim(column, (*shape, 1), dims))
    return wanted[0] if len(wanted) == 1 else lax.concatenate(wanted, len(shape))


def _indexer(x: Array, parts: tuple[Any, ...], wrap: bool = True) -> _Indexer:
    """Index vectors and dimension numbers of an index."""
    x, spelled = _expanded(x, parts)
    shape = typeof(x).shape
    arrays = [(k, p) for k, p in enumerate(spelled) if p is not None and not isinstance(p, slice)]
    blocks = [typeof(p).shape for _, p in arrays]
    try:
        block = np.broadcast_shapes(*blocks)
    except ValueError:
        raise errors.ShapeError(
            f"index: arrays of shapes {', '.join(map(str, blocks))} do not broadcast against each other."
        ) from None
    together = [k for k, _ in arrays] == list(range(arrays[0][0], arrays[-1][0] + 1)) if arrays else True
    large = max(shape, default=0) > np.iinfo(np.int32).max
    long = any(typeof(p).dtype in (dtypes.I64, dtypes.U64, dtypes.U32) and typeof(p).ndim for _, p in arrays)
    wide = dtypes.I64 if large or long else dtypes.I32
    # The axes of the result in order: ("block", k), ("strided" | "window", axis of x), ("new", 0).
    order: list[tuple[str, int]] = []
    placed = not arrays or not together
    if not together:
        order += [("block", k) for k in range(len(block))]
    sizes = [1] * len(shape)
    starts: dict[int, Any] = {}
    counts: dict[int, int] = {}
    backwards: set[int] = set()
    axis = 0
    for part in spelled:
        if part is None:
            order.append(("new", 0))
            continue
        if not isinstance(part, slice):
            if not placed:
                order += [("block", k) for k in range(len(block))]
                placed = True
            starts[axis] = part
            axis += 1
            continue
        plan = _Plan([0] * len(shape), list(shape), [1] * len(shape))
        _plan_slice(plan, axis, shape[axis], part)
        start, stop, step = plan.starts[axis], plan.limits[axis], plan.strides[axis]
        counts[axis] = len(range(start, stop, step))
        if plan.reversed:
            backwards.add(axis)
        if step == 1:
            order.append(("window", axis))
            sizes[axis] = counts[axis]
            if counts[axis] != shape[axis]:
                starts[axis] = (start, 1, 0)
        else:
            order.append(("strided", axis))
            starts[axis] = (start, step, counts[axis])
        axis += 1
    added = [i for i, (kind, _) in enumerate(order) if kind == "new"]
    axes = [entry for entry in order if entry[0] != "new"]
    batch = [entry for entry in axes if entry[0] != "window"]
    batch_shape = tuple(block[k] if kind == "block" else counts[k] for kind, k in batch)
    columns = []
    for d in sorted(starts):
        start = starts[d]
        if isinstance(start, tuple):
            first, step, count = start
            line = first + step * np.arange(count or 1, dtype=wide)
            at = batch.index(("strided", d)) if count else -1
            columns.append(line.astype(wide).reshape([-1 if i == at else 1 for i in range(len(batch))]))
            continue
        value = wrapped(start, shape[d], wide, wrap)
        own = typeof(value).shape
        spread = [1] * len(batch)
        for k, n in enumerate(own):
            spread[batch.index(("block", len(block) - len(own) + k))] = n
        columns.append(value.reshape(spread) if isinstance(value, np.ndarray) else lax.reshape(value, spread))
    offsets = tuple(i for i, (kind, _) in enumerate(axes) if kind == "window")
    collapsed = tuple(d for d in range(len(shape)) if ("window", d) not in axes)
    numbers = GatherDimensionNumbers(offsets, collapsed, tuple(sorted(starts)))
    result = tuple(block[k] if kind == "block" else counts[k] for kind, k in axes)
    reversed_ = [i for i, (kind, d) in enumerate(axes) if kind in ("window", "strided") and d in backwards]
    return _Indexer(x, _vectors(columns, batch_shape, wide), numbers, tuple(sizes), result, reversed_, added)


def take(
    x: Array,
    parts: tuple[Any, ...],
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
    wrap: bool = True,
) -> Array:
    """`x[parts]` by one gather."""
    plan = _indexer(x, parts, wrap)
    if fill_value is not None and mode is None:
        mode = "fill"
    if 0 in plan.shape:
        t = typeof(x)
        found = lax.full(plan.shape, 0, t.dtype)
    elif 0 in typeof(plan.operand).shape and GatherScatterMode.from_any(mode or "clip") is not (
        GatherScatterMode.FILL_OR_DROP
    ):
        raise errors.OutOfBoundsError("index: an axis without elements has nothing to take from.")
    else:
        found = gathers.gather(
            plan.operand,
            plan.indices,
            plan.numbers,
            plan.sizes,
            unique_indices=unique_indices,
            indices_are_sorted=indices_are_sorted,
            mode=mode,
            fill_value=fill_value,
        )
    if plan.reversed:
        found = lax.rev(found, plan.reversed)
    return lax.expand_dims(found, plan.added) if plan.added else found


class IndexUpdates:
    """`x.at`: index it to say where a changed copy of x differs."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdate:
        return IndexUpdate(self.array, index)


class IndexUpdate:
    """`x.at[index]`: copies of x with the elements at the index changed; x stays as it is.

    Where indices repeat, updates are applied one after another, in order. Indices outside are left out by updates
    and clipped by `get`, unless `mode` says otherwise ("clip", "drop", "fill", "promise_in_bounds").

    >>> import braze.numpy as bnp
    >>> bnp.zeros(4).at[bnp.array([1, 1, -1])].add(2.0)
    Array([0., 4., 0., 2.], dtype=float32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any) -> None:
        self.array = array
        self.index = index

    def _parts(self) -> tuple[Any, ...]:
        return self.index if isinstance(self.index, tuple) else (self.index,)

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        fill_value: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """The elements at the index; `mode="fill"` gives fill_value (NaN) for those outside."""
        return take(
            self.array,
            self._parts(),
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            fill_value=fill_value,
            wrap=wrap_negative_indices,
        )

    def set(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the elements replaced."""
        options = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return self._scatter(gathers.scatter, values, options)

    def add(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with values added."""
        options = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return self._scatter(gathers.scatter_add, values, options)

    def subtract(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with values taken away."""
        options = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return self._scatter(gathers.scatter_sub, values, options)

    def multiply(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the elements multiplied."""
        options = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return self._scatter(gathers.scatter_mul, values, options)

    def divide(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the elements divided."""
        options = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return _divide(self.array, self._factors(values, options))

    def power(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the elements raised to powers."""
        options = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return _power(self.array, self._factors(values, options))

    def min(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the elements lowered to values."""
        options = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return self._scatter(gathers.scatter_min, values, options)

    def max(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with the elements raised to values."""
        options = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return self._scatter(gathers.scatter_max, values, options)

    mul = multiply

    def apply(
        self,
        func: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """x with func applied to the elements at the index, once also where indices repeat."""
        options = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        old = self.get(mode="clip", wrap_negative_indices=wrap_negative_indices)
        return self._scatter(gathers.scatter, func(old), options)

    def _factors(self, values: ArrayLike, options: tuple[Any, ...]) -> Array:
        """Per element the product of what the index puts there, 1 elsewhere."""
        ones = lax.full(self.array.shape, 1, _factor_dtype(self.array, values))
        return IndexUpdate(ones, self.index)._scatter(gathers.scatter_mul, values, options)

    def _scatter(self, scatter: Any, values: ArrayLike, options: tuple[Any, ...]) -> Array:
        x = self.array
        sorted_, unique, mode, wrap = options
        t = typeof(x)
        if lax.is_scalar(values) and (isinstance(values, int) or t.dtype not in dtypes.INTEGERS):
            values = lax.as_dtype(values, t.dtype)
        dtype, _ = dtypes.promote((v.dtype, v.weak_type) for v in (t, typeof(values)))
        if scatter is gathers.scatter or dtype == t.dtype:
            dtype = t.dtype
        masked = self._by_mask(scatter, values, dtype)
        if masked is not None:
            return masked
        plan = _indexer(x, self._parts(), wrap)
        if 0 in plan.shape:
            return x
        values = lax.convert_element_type(values, dtype)
        shape = list(plan.shape)
        for axis in plan.added:
            shape.insert(axis, 1)
        values = _broadcast(values, tuple(shape))
        if plan.added:
            values = lax.squeeze(values, plan.added)
        if plan.reversed:
            values = lax.rev(values, plan.reversed)
        found = scatter(
            lax.convert_element_type(plan.operand, dtype),
            plan.indices,
            values,
            ScatterDimensionNumbers(*plan.numbers),
            indices_are_sorted=sorted_,
            unique_indices=unique,
            mode=mode,
        )
        found = lax.convert_element_type(found, t.dtype)
        return found if typeof(found).shape == t.shape else lax.reshape(found, t.shape)

    def _by_mask(self, scatter: Any, values: ArrayLike, dtype: Any) -> Array | None:
        """One mask that is not known while tracing, with a scalar for all it marks: a select."""
        mask = self.index
        if not isinstance(mask, Tracer) or mask.aval.dtype != dtypes.BOOL or typeof(values).ndim:
            return None
        combine = _COMBINE.get(scatter)
        t = typeof(self.array)
        if combine is None or mask.concrete is not None or t.shape[: mask.aval.ndim] != mask.aval.shape:
            return None
        x = lax.convert_element_type(self.array, dtype)
        new = combine(x, lax.broadcast(lax.convert_element_type(values, dtype), t.shape))
        dims = tuple(range(mask.aval.ndim))
        found = lax.select(lax.broadcast_in_dim(mask, t.shape, dims), new, x)
        return lax.convert_element_type(found, t.dtype)


_COMBINE: dict[Any, Any] = {
    gathers.scatter: lambda x, y: y,
    gathers.scatter_add: lax.add,
    gathers.scatter_sub: lax.sub,
    gathers.scatter_mul: lax.mul,
    gathers.scatter_min: lax.min,
    gathers.scatter_max: lax.max,
}


def _factor_dtype(x: Array, values: ArrayLike) -> Any:
    """The dtype of factors that leave x where nothing is updated."""
    t, v = typeof(x), typeof(values)
    return dtypes.promote(((t.dtype, t.weak_type), (v.dtype, v.weak_type)))[0]


def _divide(x: Array, y: Array) -> Array:
    from braze.numpy.elementwise import divide

    return divide(x, y)


def _power(x: Array, y: Array) -> Array:
    from braze.numpy.elementwise import power

    return power(x, y)


def _broadcast(values: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Values in the shape of what they update; leading axes of size 1 beyond it are dropped."""
    from braze.numpy.shape import broadcast_to

    extra = typeof(values).ndim - len(shape)
    if extra > 0 and all(n == 1 for n in typeof(values).shape[:extra]):
        values = lax.reshape(values, typeof(values).shape[extra:])
    return broadcast_to(values, shape)
