"""Kernels that together use every statement of the kernel IR, and what they compute, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from benchmarks.matrix_strip import Tile, matrix_strip

from braze.dtypes import BOOL, F32, I32, I64
from braze.kernel.builder import Builder
from braze.kernel.ir import Kernel

Buffers = list[np.ndarray]


def polynomial_exp(b, x):
    """exp of non-positive numbers: 2^n by exponent bits times a polynomial on [-ln2/2, ln2/2]."""
    x = b.max_fast(x, -87.0)
    n = b.rint(b.mul(x, 1.4426950408889634))
    r = b.fma(n, -0.693359375, x)
    r = b.fma(n, 2.12194440e-4, r)
    total = b.lift(1 / 5040, F32)
    for factor in (720, 120, 24, 6, 2, 1, 1):
        total = b.fma(total, r, 1 / factor)
    return b.mul(total, b.bitcast(b.shl_fast(b.add(b.compute("cast_fast", n, dtype=I32), 127), 23), F32))


def softmax(rows: int, columns: int, lanes: int = 16) -> Kernel:
    """One row per block; the row is read twice, its exponentials stay in the output row."""
    b = Builder("softmax", lanes)
    x = b.memory("x", F32, rows * columns, "in")
    y = b.memory("y", F32, rows * columns, "out")
    start = b.mul(b.block, columns)

    def sweep(initial, reduce, body):
        """Reduce the row, its last vector masked."""

        def turn(i, total):
            inside = b.lt(b.lane(), b.sub(columns, i)) if columns % lanes else None
            return (body(b.add(start, i), inside, total),)

        (total,) = b.loop(0, columns, lanes, (b.lift(initial, F32),), turn)
        return b.lane_reduce(reduce, total)

    with b.region():
        largest = sweep(-np.inf, "max", lambda at, m, t: b.max(t, b.load(x, at, "unit", m, m and -np.inf)))

        def exponential(at, inside, total):
            e = polynomial_exp(b, b.sub(b.load(x, at, "unit", inside), largest))
            b.store(y, at, e, "unit", inside)
            return b.add(total, e if inside is None else b.select(inside, e, 0.0))

        total = sweep(0.0, "add", exponential)
        factor = b.div(1.0, total)

        def scale(at, inside, unused):
            b.store(y, at, b.mul(b.load(y, at, "unit", inside), factor), "unit", inside)
            return unused

        sweep(0.0, "add", scale)
    return b.finish(rows)


def softmax_inputs(rows, columns, rng) -> tuple[Buffers, Buffers]:
    x = rng.standard_normal((rows, columns)).astype(np.float32) * 5
    e = np.exp(x.astype(float) - x.max(axis=1, initial=-np.inf, keepdims=True))
    return [x.ravel(), np.zeros(x.size, np.float32)], [(e / e.sum(axis=1, keepdims=True)).ravel()]


def column_sum(rows: int, columns: int, lanes: int = 32) -> Kernel:
    """A strip of columns per block, summed in two interleaved chains."""
    b = Builder("column_sum", lanes)
    x = b.memory("x", F32, rows * columns, "in")
    y = b.memory("y", F32, columns, "out")
    with b.region():
        first = b.mul(b.block, lanes)
        inside = b.lt(b.add(first, b.lane()), columns) if columns % lanes else None

        def turn(row, even, odd):
            at = b.add(first, b.mul(row, columns))
            return (
                b.add(even, b.load(x, at, "unit", inside)),
                b.add(odd, b.load(x, b.add(at, columns), "unit", inside)),
            )

        even, odd = b.loop(0, rows // 2 * 2, 2, (b.lift(0.0, F32),) * 2, turn)
        total = b.add(even, odd)
        if rows % 2:
            total = b.add(total, b.load(x, b.add(first, (rows - 1) * columns), "unit", inside))
        b.store(y, first, total, "unit", inside)
    return b.finish(-(-columns // lanes))


def column_sum_inputs(rows, columns, rng) -> tuple[Buffers, Buffers]:
    x = rng.integers(-8, 8, (rows, columns)).astype(np.float32)
    return [x.ravel(), np.zeros(columns, np.float32)], [x.sum(axis=0)]


def cumsum(size: int, lanes: int = 16) -> Kernel:
    """Prefix sums inside a vector by shifts of 1, 2, 4, …; the last lane is carried to the next vector."""
    b = Builder("cumsum", lanes)
    x, y = b.memory("x", F32, size, "in"), b.memory("y", F32, size, "out")
    with b.region():

        def turn(i, carry):
            inside = b.lt(b.lane(), b.sub(size, i)) if size % lanes else None
            total = b.load(x, i, "unit", inside, 0.0 if size % lanes else None)
            shift = 1
            while shift < lanes:
                total = b.add(total, b.lane_shift(total, shift, 0.0))
                shift *= 2
            total = b.add(total, carry)
            b.store(y, i, total, "unit", inside)
            return (b.extract(total, lanes - 1),)

        b.loop(0, size, lanes, (b.lift(0.0, F32),), turn, varying=False)
    return b.finish(1)


def cumsum_inputs(size, rng) -> tuple[Buffers, Buffers]:
    x = rng.integers(-8, 8, size).astype(np.float32)
    return [x, np.zeros(size, np.float32)], [np.cumsum(x, dtype=np.float32)]


def merge(size: int, lanes: int = 16) -> Kernel:
    """Merge two sorted runs: an element's place is its own rank plus its rank in the other run."""
    b = Builder("merge", lanes)
    runs = [b.memory(name, I32, size, "in") for name in ("left", "right")]
    out = b.memory("out", I32, 2 * size, "out")
    steps = size.bit_length()

    def place(mine, other, before):
        """Scatter one run; `before` says which elements of the other come first among equals."""

        def body(i):
            index = b.add(i, b.lane())
            inside = b.lt(index, size)
            key = b.load(mine, i, "unit", inside)

            def halve(step, low, high):
                open_ = b.and_(inside, b.lt(low, high))
                middle = b.shr_fast(b.add(low, high), 1)
                smaller = b.compute(before, b.load(other, middle, "gather", open_), key)
                return (
                    b.select(b.and_(open_, smaller), b.add(middle, 1), low),
                    b.select(b.and_(open_, b.not_(smaller)), middle, high),
                )

            rank, _ = b.loop(0, steps, 1, (b.lift(0, I64), b.lift(size, I64)), halve)
            b.store(out, b.add(index, rank), key, "gather", inside)

        with b.for_(0, size, lanes) as i:
            body(i)

    with b.region():
        place(runs[0], runs[1], "lt")
        place(runs[1], runs[0], "le")
    return b.finish(1)


def merge_inputs(size, rng) -> tuple[Buffers, Buffers]:
    left, right = (np.sort(rng.integers(-size, size + 1, size)).astype(np.int32) for _ in range(2))
    return [left, right, np.zeros(2 * size, np.int32)], [np.sort(np.concatenate([left, right]))]


def scatter_add(updates: int, bins: int, lanes: int = 8) -> Kernel:
    """Add updates to their bins in place; an index outside the bins is dropped."""
    b = Builder("scatter_add", lanes)
    index = b.memory("index", I32, updates, "in")
    update = b.memory("update", F32, updates, "in")
    total = b.memory("total", F32, bins, "inout")
    with b.region(), b.for_(0, updates, lanes) as i:
        inside = b.lt(b.lane(), b.sub(updates, i))
        at = b.load(index, i, "unit", inside, -1)
        hit = b.and_(b.ge(at, 0), b.lt(at, bins))
        b.atomic("add", total, b.cast(at, I64), b.load(update, i, "unit", inside), hit)
    return b.finish(1)


def scatter_add_inputs(updates, bins, rng) -> tuple[Buffers, Buffers]:
    index = rng.integers(-1, bins + 1, updates).astype(np.int32)
    update = rng.integers(-8, 8, updates).astype(np.float32)
    total = rng.integers(-8, 8, bins).astype(np.float32)
    expected = total.copy()
    hit = (index >= 0) & (index < bins)
    np.add.at(expected, index[hit], update[hit])
    return [index, update, total], [expected]


def matrix(depth: int, panels: int = 2) -> Kernel:
    return matrix_strip("matrix_8x32", Tile(), depth, panels)


def matrix_inputs(depth, rng, panels: int = 2) -> tuple[Buffers, Buffers]:
    a = rng.integers(-4, 5, (depth, 8)).astype(np.float32)
    p = rng.integers(-4, 5, (panels, depth, 32)).astype(np.float32)
    c = np.einsum("kr,pkc->rpc", a, p)
    return [a.ravel(), p.ravel(), np.zeros(c.size, np.float32)], [c.ravel()]


def newton(size: int, lanes: int = 8) -> Kernel:
    """Square roots by Newton's method until every lane has settled: while, if, private and shared memory."""
    b = Builder("newton", lanes)
    x, y = b.memory("x", F32, size, "in"), b.memory("y", F32, size, "out")
    seen = b.memory("seen", BOOL, size, "out")
    guess = b.memory("guess", F32, 2, "private")
    turns = b.memory("turns", I64, 1, "shared")
    with b.region(), b.for_(0, size, lanes) as i:
        inside = b.lt(b.lane(), b.sub(size, i))
        value = b.load(x, i, "unit", inside, 1.0)
        b.store(guess, 0, value, "uniform")
        b.store(turns, 0, 0, "uniform")

        def open_(count, moving):
            return b.and_(moving, b.lt(count, 40))

        def improve(count, moving):
            old = b.load(guess, 0, "uniform")
            new = b.mul(b.add(old, b.div(value, old)), 0.5)
            b.store(guess, 1, old, "uniform")
            b.store(guess, 0, new, "uniform")
            b.store(turns, 0, b.add(count, 1), "uniform")
            return b.add(count, 1), b.lane_reduce("or", b.ne(old, new))

        b.while_((b.lift(0, I64), b.lift(True, BOOL)), open_, improve, (False, False))
        settled = b.eq(b.load(guess, b.and_(b.lane(), 1), "gather"), b.load(guess, 0, "uniform"))
        few = b.lt(b.load(turns, 0, "uniform"), 40)
        (result,) = b.if_(few, lambda: (b.load(guess, 0, "uniform"),), lambda: (b.load(guess, 1, "uniform"),))
        b.store(y, i, result, "unit", inside)
        b.store(seen, i, b.or_(settled, few), "unit", inside)
    return b.finish(1)


def newton_inputs(size, rng) -> tuple[Buffers, Buffers]:
    x = rng.random(size).astype(np.float32) + np.float32(0.5)
    buffers = [x, np.zeros(size, np.float32), np.zeros(size, bool)]
    return buffers, [np.sqrt(x.astype(float)), np.ones(size, bool)]


@dataclass(frozen=True)
class Case:
    """A kernel of a size, its inputs and the expected outputs (the last buffers)."""

    make: Callable[..., Kernel]
    inputs: Callable[..., tuple[Buffers, Buffers]]
    golden: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]
    tolerance: float = 0.0


CASES = {
    "softmax": Case(softmax, softmax_inputs, (4, 40),
                    ((0, 7), (3, 1), (1, 15), (5, 16), (2, 17), (3, 33), (7, 1001)), 3e-6),
    "column_sum": Case(column_sum, column_sum_inputs, (9, 40),
                       ((0, 5), (1, 1), (2, 31), (5, 32), (6, 33), (101, 203), (3, 0))),
    "cumsum": Case(cumsum, cumsum_inputs, (40,), ((0,), (1,), (15,), (16,), (17,), (37,), (5001,))),
    "merge": Case(merge, merge_inputs, (40,), ((0,), (1,), (15,), (16,), (17,), (37,), (1001,))),
    "scatter_add": Case(scatter_add, scatter_add_inputs, (100, 10),
                        ((0, 3), (1, 1), (7, 5), (8, 5), (9, 5), (65, 3), (5001, 77))),
    "matrix_8x32": Case(matrix, matrix_inputs, (10,), ((0,), (1,), (3,), (4,), (5,), (37,), (200,))),
    "newton": Case(newton, newton_inputs, (20,), ((0,), (1,), (7,), (8,), (9,), (37,)), 1e-6),
}  # fmt: skip
