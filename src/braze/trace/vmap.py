"""Vectorisation: a function of one example becomes a function of a batch.

Each tracer is a whole batch with the axis it lies on; operations are batched by their `batch` facet.

Invariants:
- Values that do not depend on the batch carry no batch axis and are computed once.
- All batched values of one trace have the same size along their batch axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from braze import core, tree
from braze.core import bind, typeof
from braze.errors import ArgumentError, ShapeError, UnsupportedError
from braze.ops import shape
from braze.ops.table import ELEMENTWISE, Absent, Op
from braze.trace.calling import Flat, argument_names
from braze.trace.values import moveaxis, repeat
from braze.types import TensorType


class BatchTracer(core.Tracer):
    """A batch of values along one axis; its type is that of one of them."""

    __slots__ = ("axis", "value")

    def __init__(self, trace: core.Trace, value: Any, axis: int) -> None:
        self._trace = trace
        self.value = value
        self.axis = axis

    @property
    def aval(self) -> TensorType:
        full = typeof(self.value)
        return full.with_(shape=full.shape[: self.axis] + full.shape[self.axis + 1 :])

    def origin(self) -> str:
        return "stands for a whole batch under vmap"

    def __repr__(self) -> str:
        return f"Tracer<{self.aval}, a batch along axis {self.axis}>"


class BatchTrace(core.Trace):
    """Runs each operation on whole batches."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def process(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        values, axes = self.split(args)
        outs, out_axes = batch_rule(op, self.size, values, axes, attrs)
        return [self.lift(v, a) for v, a in zip(outs, out_axes)]

    def lift(self, value: Any, axis: int | None) -> Any:
        return value if axis is None else BatchTracer(self, value, axis)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[int | None]]:
        """Values and their batch axes."""
        values: list[Any] = []
        axes: list[int | None] = []
        for arg in args:
            if isinstance(arg, BatchTracer) and arg._trace is self:
                values.append(arg.value)
                axes.append(arg.axis)
            else:
                values.append(arg)
                axes.append(None)
        return values, axes


def batch_rule(
    op: Op, size: int, values: Sequence[Any], axes: Sequence[int | None], attrs: dict[str, Any]
) -> tuple[list[Any], list[int | None]]:
    """Results of an operation on batches, with their batch axes."""
    rule = op.batch
    if isinstance(rule, Absent):
        raise UnsupportedError(f"{op.title}: it cannot be vectorised by vmap: {rule.reason.rstrip('.')}.")
    if all(axis is None for axis in axes) and not op.jaxprs:
        results = bind(op, *values, **attrs)
        outs = list(results) if op.multiple_results else [results]
        return outs, [None] * len(outs)
    if rule is ELEMENTWISE:
        operands, axis = align(values, axes)
        return [bind(op, *operands, **attrs)], [axis]
    if op.jaxprs:
        from braze.trace import control

        outs, out_axes = rule(size, values, axes, transform=control, **attrs)
    else:
        outs, out_axes = rule(size, values, axes, **attrs)
    if op.multiple_results:
        return list(outs), list(out_axes)
    return [outs], [out_axes]


def align(values: Sequence[Any], axes: Sequence[int | None]) -> tuple[list[Any], int]:
    """Operands of an elementwise operation with their batches on one axis, for the primitive to broadcast.

    Scalars that are no batch stay; other operands get an axis of size 1 where they have no batch.
    """
    types = [typeof(v) for v in values]
    batched = {(t.shape, axis) for t, axis in zip(types, axes) if axis is not None}
    if len(batched) == 1 and all(axis is not None or not t.shape for t, axis in zip(types, axes)):
        return list(values), next(axis for axis in axes if axis is not None)
    rank = max(t.ndim - (axis is not None) for t, axis in zip(types, axes))
    operands = []
    for value, t, axis in zip(values, types, axes):
        if axis is None:
            operands.append(shape.reshape(value, shape=(1, *t.shape)) if t.shape else value)
            continue
        moved = moveaxis(value, axis, 0)
        if t.ndim - 1 < rank:  # a scalar for each example beside full operands
            moved = shape.reshape(moved, shape=(t.shape[axis], *[1] * rank))
        operands.append(moved)
    return operands, 0


def to_axis(value: Any, axis: int | None, size: int, wanted: int) -> Any:
    """A batch on the axis wanted; a value without a batch is repeated."""
    return repeat(value, size, wanted) if axis is None else moveaxis(value, axis, wanted)


def vmap_flat(
    f: Callable[..., Sequence[Any]], size: int, values: Sequence[Any], axes: Sequence[int | None]
) -> tuple[list[Any], list[int | None]]:
    """Results and their batch axes of a function of flat arguments."""
    trace = BatchTrace(size)
    with core.activate(trace):
        return trace.split(f(*[trace.lift(v, a) for v, a in zip(values, axes)]))


def vmap(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None
) -> Callable[..., Any]:
    """Vectorise a function: one call on a batch in place of a loop over its examples.

    Args:
        in_axes: the batch axis of each argument, or None where it has no batch: one for all, or a tuple whose
            entries may be pytrees, prefixes of the arguments. Keyword arguments are batched along axis 0.
        out_axes: where the batch axis goes in each result, a prefix of the result; None where the result does
            not depend on the batch.
        axis_size: the size of the batch, needed only where no argument has one.
    Raises: ShapeError, ArgumentError, from the new function, where sizes differ, an axis does not exist or
        the specifications do not fit.
    """
    if not isinstance(in_axes, int | tuple | list | type(None)):
        raise ArgumentError(
            f"vmap: in_axes must be an int, None, or a tuple with one entry per argument; "
            f"{type(in_axes).__name__} was given."
        )

    @functools.wraps(f)
    def batched(*args: Any, **kwargs: Any) -> Any:
        with core.user_line():
            return _run(f, in_axes, out_axes, axis_size, args, kwargs)

    return batched


def _run(
    f: Callable[..., Any],
    in_axes: Any,
    out_axes: Any,
    axis_size: int | None,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if isinstance(in_axes, tuple | list) and len(in_axes) != len(args):
        raise ArgumentError(f"vmap: in_axes has {len(in_axes)} entries for {len(args)} positional arguments.")
    entries = tuple(in_axes) if isinstance(in_axes, tuple | list) else (in_axes,) * len(args)
    axes = _flat_axes("in_axes", entries, args) + [0] * len(tree.leaves(kwargs))
    flat, in_tree = tree.flatten((args, kwargs))
    names = functools.partial(argument_names, f, args, kwargs)
    axes = [_canonical(axis, typeof(leaf), names, i) for i, (leaf, axis) in enumerate(zip(flat, axes))]
    size = _batch_size(flat, axes, axis_size, names)
    flat_f = Flat(lambda a, k: f(*a, **k), in_tree, what="vmap")
    flat_f.name = getattr(f, "__name__", "the function")
    outs, found = vmap_flat(flat_f, size, flat, axes)
    # A result's structure is known only now, so the prefix is checked against it here.
    wanted = _flat_axes("out_axes", out_axes, flat_f.out_tree.unflatten(outs))
    placed = [_place(out, axis, size, want) for out, axis, want in zip(outs, found, wanted)]
    return flat_f.result(placed)


def _flat_axes(what: str, axes: Any, values: Any) -> list[int | None]:
    try:
        flat = tree.broadcast_prefix(axes, values, is_leaf=lambda x: x is None)
    except ArgumentError as error:
        raise ArgumentError(
            f"vmap: {what} is no prefix of the values it is for; {error.message.removeprefix('pytree: ')}",
            values=f"{what}={axes!r}",
        ) from None
    for axis in flat:
        if not isinstance(axis, int | np.integer | type(None)) or isinstance(axis, bool):
            raise ArgumentError(f"vmap: an entry of {what} is {axis!r}, an int or None is wanted.")
    return flat


def _canonical(
    axis: int | None, type: TensorType, names: Callable[[], Sequence[str]], index: int
) -> int | None:
    if axis is None:
        return None
    if not -type.ndim <= axis < type.ndim:
        raise ShapeError(
            f"vmap: argument {names()[index]} of type {type} has {type.ndim} axes, so that it cannot be mapped along "
            f"axis {axis}.",
            hint="pass in_axes=None for arguments without a batch.",
        )
    return axis % type.ndim


def _batch_size(
    flat: Sequence[Any], axes: Sequence[int | None], axis_size: int | None, names: Callable[[], Sequence[str]]
) -> int:
    sizes = {
        i: typeof(leaf).shape[axis] for i, (leaf, axis) in enumerate(zip(flat, axes)) if axis is not None
    }
    distinct = set(sizes.values()) | (set() if axis_size is None else {axis_size})
    if not distinct:
        raise ArgumentError(
            "vmap: no argument has a batch axis, so the size of the batch is not known.",
            hint="give one in in_axes, or pass axis_size.",
        )
    if len(distinct) > 1:
        shown, named = [], names()
        for n in sorted(distinct, key=lambda n: next((i for i, m in sizes.items() if m == n), -1)):
            who = [
                f"axis {axes[i]} of argument {named[i]} of type {typeof(flat[i])}"
                for i in sizes
                if sizes[i] == n
            ]
            if n == axis_size:
                who.insert(0, "axis_size")
            shown.append(f"{n}: {', '.join(who[:3])}{f' and {len(who) - 3} more' if len(who) > 3 else ''}")
        raise ShapeError(f"vmap: the batch has different sizes; {'; '.join(shown)}.")
    return distinct.pop()


def _place(out: Any, axis: int | None, size: int, wanted: int | None) -> Any:
    """A result with its batch where out_axes wants it."""
    if wanted is None:
        if axis is not None:
            raise ArgumentError(
                "vmap: out_axes is None for a result that depends on the batch.",
                values=f"result {typeof(out)}, its batch on axis {axis}",
                hint="give the axis in out_axes.",
            )
        return out
    rank = typeof(out).ndim + (axis is None)
    if not -rank <= wanted < rank:
        raise ShapeError(f"vmap: out_axes has axis {wanted} for a result with {rank} axes.")
    return to_axis(out, axis, size, wanted % rank)
