"""Derivatives and batches of reductions whose reducer is a jaxpr: they are written out as a tree of its steps.

    reduce: halves of the reduced elements are combined, neighbour with neighbour, until one is left
    reduce_window: the elements at each offset of all windows are combined one after another

Each step is the scalar jaxpr batched over whole arrays, so that what is written out is made of plain operations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from braze.core import typeof
from braze.ops import shape
from braze.ops.windows import dilated, windows_along
from braze.trace import jaxpr as ir
from braze.trace.jaxpr import ClosedJaxpr
from braze.trace.vmap import vmap_flat


def stepwise(closed: ClosedJaxpr, u: Sequence[Any], v: Sequence[Any]) -> list[Any]:
    """The reducer on arrays of equal shapes, element by element."""
    sizes = typeof(u[0]).shape
    flat = [shape.reshape(x, shape=(math.prod(sizes),)) for x in (*u, *v)]
    found, axes = vmap_flat(
        lambda *args: ir.evaluate(closed.jaxpr, closed.consts, *args),
        math.prod(sizes),
        flat,
        (0,) * len(flat),
    )
    front = [shape.to_front(math.prod(sizes), x, a) for x, a in zip(found, axes)]
    return [shape.reshape(x, shape=sizes) for x in front]


def _spread(inits: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    return [shape.broadcast_in_dim(x, shape=tuple(sizes), broadcast_dimensions=()) for x in inits]


def reduced(closed: ClosedJaxpr, dimensions: Sequence[int]) -> Callable[..., list[Any]]:
    """`reduce` as a function of its operands and init values."""

    def f(*args: Any) -> list[Any]:
        count = len(args) // 2
        sizes = typeof(args[0]).shape
        outer = tuple(n for i, n in enumerate(sizes) if i not in dimensions)
        order = (*dimensions, *(i for i in range(len(sizes)) if i not in dimensions))
        n = math.prod(sizes[d] for d in dimensions)
        starts = _spread(args[count:], outer)
        if n == 0:
            return starts
        level = [
            shape.reshape(shape.transpose(x, permutation=order), shape=(n, *outer)) for x in args[:count]
        ]
        while n > 1:
            whole = n - n % 2
            pairs = stepwise(
                closed, [_rows(x, 0, whole, 2) for x in level], [_rows(x, 1, whole, 2) for x in level]
            )
            if n % 2:
                pairs = [
                    shape.concatenate(p, _rows(x, whole, n, 1), dimension=0) for p, x in zip(pairs, level)
                ]
            level, n = pairs, -(-n // 2)
        return stepwise(closed, starts, [shape.reshape(x, shape=outer) for x in level])

    return f


def _rows(x: Any, start: int, stop: int, step: int) -> Any:
    sizes = typeof(x).shape
    return shape.slice(
        x,
        start_indices=(start, *[0] * (len(sizes) - 1)),
        limit_indices=(stop, *sizes[1:]),
        strides=(step, *[1] * (len(sizes) - 1)),
    )


def windowed(
    closed: ClosedJaxpr,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Callable[..., list[Any]]:
    """`reduce_window` as a function of its operands and init values; padding and holes hold the init values."""

    def f(*args: Any) -> list[Any]:
        count = len(args) // 2
        inits = args[count:]
        low, high = zip(*padding) if padding else ((), ())
        padded = [
            shape.pad(x, i, low=low, high=high, interior=tuple(d - 1 for d in base_dilation))
            for x, i in zip(args, inits)
        ]
        counts = tuple(
            windows_along(n, w, s, b, d, *p)
            for n, w, s, b, d, p in zip(
                typeof(args[0]).shape,
                window_dimensions,
                window_strides,
                base_dilation,
                window_dilation,
                padding,
            )
        )
        total = _spread(inits, counts)
        if math.prod(counts) == 0:
            return total
        for offset in itertools.product(*map(range, window_dimensions)):
            starts = tuple(k * d for k, d in zip(offset, window_dilation))
            limits = tuple(a + dilated(n, s) for a, n, s in zip(starts, counts, window_strides))
            part = [
                shape.slice(x, start_indices=starts, limit_indices=limits, strides=tuple(window_strides))
                for x in padded
            ]
            total = stepwise(closed, total, part)
        return total

    return f
