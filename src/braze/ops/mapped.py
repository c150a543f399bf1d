"""Windows with a start per entry: what vmap makes of dynamic slices whose start indices are mapped.

A leading axis runs through all operands. They lower to a loop over that axis, which compiles to the same size
for any number of entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from braze import core
from braze.dtypes import F32, F64, I32
from braze.errors import ShapeError
from braze.ops import shape
from braze.ops.control import counted_loop
from braze.ops.facets import LOWERED, Array, elementwise_cost, full
from braze.ops.table import EXACT, Op, Sample, Undefined
from braze.types import TensorType


def _entries(title: str, types: Sequence[TensorType]) -> list[TensorType]:
    """The operand types of one entry of the leading axis."""
    sizes = {t.shape[:1] for t in types}
    if len(sizes) != 1 or () in sizes:
        raise ShapeError(f"{title}: operands have leading axes {sorted(sizes)}, which must be one size.")
    return [t.with_(shape=t.shape[1:]) for t in types]


def _mapped_dynamic_slice_infer(*types: TensorType, slice_sizes: tuple[int, ...]) -> TensorType:
    entry: TensorType = shape.dynamic_slice.infer(
        *_entries("mapped_dynamic_slice", types), slice_sizes=slice_sizes
    )
    return entry.with_(shape=(types[0].shape[0], *entry.shape))


def _mapped_dynamic_slice_numpy(*arrays: Array, slice_sizes: tuple[int, ...]) -> Array:
    out = np.empty((len(arrays[0]), *slice_sizes), arrays[0].dtype)
    for i, (x, *starts) in enumerate(zip(*arrays)):
        out[i] = x[shape.window(x.shape, starts, slice_sizes)]
    return out


def _mapped_dynamic_slice_jvp(*args: Any, slice_sizes: tuple[int, ...]) -> Any:
    half = len(args) // 2
    return mapped_dynamic_slice(args[0], *args[half + 1 :], slice_sizes=slice_sizes)


def _mapped_dynamic_slice_transpose(
    ct: Any, x: Undefined, *starts: Any, slice_sizes: tuple[int, ...]
) -> list[Any]:
    zeros = full(x.type.shape, x.type.dtype, 0)
    return [mapped_dynamic_update_slice(zeros, ct, *starts), *[None] * len(starts)]


def _merge(x: Any) -> Any:
    """The first two axes as one."""
    first, second, *rest = core.typeof(x).shape
    return shape.reshape(x, shape=(first * second, *rest))


def _mapped_dynamic_slice_batch(size: int, args: Any, axes: Any, *, slice_sizes: tuple[int, ...]) -> Any:
    merged = [_merge(shape.to_front(size, x, a)) for x, a in zip(args, axes)]
    inner = next(n for i, n in enumerate(core.typeof(args[0]).shape) if i != axes[0])
    sliced = mapped_dynamic_slice(*merged, slice_sizes=slice_sizes)
    return shape.reshape(sliced, shape=(size, inner, *slice_sizes)), 0


def _mapped_dynamic_slice_lower(b: Any, x: Any, *starts: Any, slice_sizes: tuple[int, ...]) -> Any:
    size = x.type.shape[0]
    initial = shape.zeros(b, TensorType((size, *slice_sizes), x.type.dtype))

    def body(b: Any, i: Any, out: Any) -> tuple[Any]:
        window = b.emit(
            shape.dynamic_slice,
            shape.row(b, x, i),
            *[shape.row(b, s, i) for s in starts],
            slice_sizes=slice_sizes,
        )
        return (shape.with_row(b, out, window, i),)

    return counted_loop(b, size, (initial,), body)[0]


def _mapped_dynamic_slice_samples() -> list[Sample]:
    return [
        ((TensorType((n, *x), d), *[TensorType((n,), I32)] * len(x)), {"slice_sizes": sizes})
        for d in (F32, F64, I32)
        for x, sizes in shape.window_cases()
        for n in (1, 3)
    ]


mapped_dynamic_slice: Op = Op(
    "mapped_dynamic_slice", hlo=None,
    infer=_mapped_dynamic_slice_infer, numpy=_mapped_dynamic_slice_numpy, error=EXACT,
    jvp=_mapped_dynamic_slice_jvp, transpose=_mapped_dynamic_slice_transpose,
    batch=_mapped_dynamic_slice_batch, lower=_mapped_dynamic_slice_lower,
    kernel=LOWERED, cost=elementwise_cost("mapped_dynamic_slice", 0),
    samples=_mapped_dynamic_slice_samples, attrs=("slice_sizes",), jax_attrs=dict,
)  # fmt: skip


def _mapped_dynamic_update_slice_infer(*types: TensorType) -> TensorType:
    shape.dynamic_update_slice.infer(*_entries("mapped_dynamic_update_slice", types))
    return types[0]


def _mapped_dynamic_update_slice_numpy(*arrays: Array) -> Array:
    out = arrays[0].copy()
    for i, (update, *starts) in enumerate(zip(*arrays[1:])):
        place: tuple[Any, ...] = (i, *shape.window(out.shape[1:], starts, update.shape))
        out[place] = update
    return out


def _mapped_dynamic_update_slice_jvp(*args: Any) -> Any:
    half = len(args) // 2
    return mapped_dynamic_update_slice(args[0], args[1], *args[half + 2 :])


def _mapped_dynamic_update_slice_transpose(ct: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
    t = update.type if isinstance(update, Undefined) else core.typeof(update)
    ct_x = ct_update = None
    if isinstance(x, Undefined):
        ct_x = mapped_dynamic_update_slice(ct, full(t.shape, t.dtype, 0), *starts)
    if isinstance(update, Undefined):
        ct_update = mapped_dynamic_slice(ct, *starts, slice_sizes=t.shape[1:])
    return [ct_x, ct_update, *[None] * len(starts)]


def _mapped_dynamic_update_slice_batch(size: int, args: Any, axes: Any) -> Any:
    merged = [shape.to_front(size, x, a) for x, a in zip(args, axes)]
    updated = mapped_dynamic_update_slice(*map(_merge, merged))
    return shape.reshape(updated, shape=core.typeof(merged[0]).shape), 0


def _mapped_dynamic_update_slice_lower(b: Any, x: Any, update: Any, *starts: Any) -> Any:
    def body(b: Any, i: Any, out: Any) -> tuple[Any]:
        starts_here = [shape.row(b, s, i) for s in starts]
        new = b.emit(shape.dynamic_update_slice, shape.row(b, out, i), shape.row(b, update, i), *starts_here)
        return (shape.with_row(b, out, new, i),)

    return counted_loop(b, x.type.shape[0], (x,), body)[0]


def _mapped_dynamic_update_slice_samples() -> list[Sample]:
    return [
        ((TensorType((n, *x), d), TensorType((n, *sizes), d), *[TensorType((n,), I32)] * len(x)), {})
        for d in (F32, F64, I32)
        for x, sizes in shape.window_cases()
        for n in (1, 3)
    ]


mapped_dynamic_update_slice: Op = Op(
    "mapped_dynamic_update_slice", hlo=None,
    infer=_mapped_dynamic_update_slice_infer, numpy=_mapped_dynamic_update_slice_numpy, error=EXACT,
    jvp=_mapped_dynamic_update_slice_jvp, transpose=_mapped_dynamic_update_slice_transpose,
    batch=_mapped_dynamic_update_slice_batch, lower=_mapped_dynamic_update_slice_lower,
    kernel=LOWERED, cost=elementwise_cost("mapped_dynamic_update_slice", 0),
    samples=_mapped_dynamic_update_slice_samples,
)  # fmt: skip
