"""Derivatives, transposes and batching of every primitive, over its samples.

jvp against central differences in f64; transpose by the dot-product test; batch against a Python loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_values import arguments, as_list, assert_facet, key, run

from braze import dtypes
from braze.dtypes import F64
from braze.ops.table import PRIMITIVES, Absent, Op, Sample, Undefined
from braze.trace.jvp import jvp_flat
from braze.trace.values import Zero, instantiate, zero_of
from braze.trace.vmap import vmap_flat
from braze.types import TensorType

WITH_JAXPRS = {name for name, op in PRIMITIVES.items() if op.jaxprs}
TESTED = [op for op in PRIMITIVES.values() if op.name not in WITH_JAXPRS | {"debug_callback"}]
DIFFERENTIATED = [op for op in TESTED if not isinstance(op.jvp, Absent)]
LARGEST = 130
"""Elements of an operand up to which samples are differentiated and looped over."""


POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "acosh", "pow", "lgamma", "digamma"}
DOMAINS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "acosh": lambda x: x + 1, "asin": lambda x: 0.4 * x, "acos": lambda x: 0.4 * x, "atanh": lambda x: 0.4 * x,
    "erf_inv": lambda x: 0.4 * x,
}  # fmt: skip
"""Where functions are smooth, out of numbers in (0.3, 2.3)."""


def small(op: Op) -> list[Sample]:
    return [(t, a) for t, a in op.samples() if all(x.size <= LARGEST for x in t)]


def smooth(op: Op, types: tuple[TensorType, ...], attrs: dict[str, Any]) -> list[np.ndarray]:
    """Floats away from kinks and poles, with no two alike; other operands as in the other tests."""
    rng = key("smooth", op.title, types, str(attrs))
    arrays = []
    for plain, t in zip(arguments(op, types, attrs), types):
        if t.dtype == F64:
            n = max(t.size, 1)
            spread = (rng.permutation(n) + 0.5 + 0.3 * rng.random(n))[: t.size] / n * 2 + 0.3
            sign = np.where(rng.random(t.size) < 0.5, -1.0, 1.0) if op.title not in POSITIVE else 1.0
            spread = DOMAINS.get(op.title, lambda x: x)(spread)
            arrays.append((spread * sign).reshape(t.shape))
        else:
            arrays.append(plain)
    if op.title == "clamp" and all(t.dtype == F64 for t in types):
        arrays[0], arrays[2] = np.full_like(arrays[0], -1.01), np.full_like(arrays[2], 1.01)
    return arrays


# What cuts derivatives off is the one operation whose derivative is not that of its values.
@pytest.mark.parametrize("op", [op for op in DIFFERENTIATED if op.title != "stop_gradient"], ids=str)
def test_jvp_is_the_directional_difference(op: Op) -> None:
    for types, attrs in small(op):
        floats = [i for i, t in enumerate(types) if t.dtype == F64]
        if not floats or any(t.dtype in dtypes.FLOATS and t.dtype != F64 for t in types):
            continue
        if (
            op.title == "bitcast_convert_type"
            or attrs.get("new_dtype") not in (None, F64)
            or attrs.get("dtype") not in (None, F64)
        ):
            continue
        arrays = smooth(op, types, attrs)
        rng = key("direction", op.title, types)
        # Each operand alone, and all together.
        for moved in {(i,) for i in floats} | {tuple(floats)}:
            tangents = [rng.normal(size=t.shape) for t in types]

            def f(*xs: Any, tangents=tangents, moved=moved, attrs=attrs) -> list[Any]:
                given = [tangents[i] if i in moved else zero_of(x) for i, x in enumerate(xs)]
                outs, found = jvp_flat(lambda *ys: as_list(op, op(*ys, **attrs)), xs, given)
                return [instantiate(t) for out, t in zip(outs, found) if not _is_none(t)]

            found = run(f, *arrays)
            step = 1e-6
            ahead, behind = (
                [np.asarray(x + s * t) if i in moved else x for i, (x, t) in enumerate(zip(arrays, tangents))]
                for s in (step, -step)
            )
            wanted = [
                difference(np.asarray(u), np.asarray(v)) / (2 * step)
                for u, v in zip(
                    as_list(op, op.numpy(*ahead, **attrs)), as_list(op, op.numpy(*behind, **attrs))
                )
                if np.asarray(u).dtype == F64
            ]
            for have, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-6)


def difference(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """u - v, and 0 where both are the same infinity (an extremum over nothing)."""
    with np.errstate(invalid="ignore"):
        return np.where(u == v, 0.0, u - v)


def _is_none(tangent: Any) -> bool:
    return isinstance(tangent, Zero) and tangent.type.dtype == dtypes.FLOAT0


KINKS = [
    ("max", (2.0, 2.0), (1.0, 0.0), 0.5), ("max", (2.0, 2.0), (0.0, 1.0), 0.5), ("min", (2.0, 2.0), (1.0, 0.0), 0.5),
    ("max", (2.0, 1.0), (1.0, 5.0), 1.0), ("min", (2.0, 1.0), (1.0, 5.0), 5.0), ("abs", (0.0,), (1.0,), 0.0),
    ("abs", (-3.0,), (1.0,), -1.0), ("floor", (1.5,), (1.0,), 0.0), ("sign", (1.5,), (1.0,), 0.0),
    ("clamp", (0.0, 2.0, 1.0), (1.0, 1.0, 1.0), 1.0), ("clamp", (0.0, -2.0, 1.0), (0.0, 1.0, 1.0), 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "x", "t", "wanted"), KINKS)
def test_jvp_at_kinks(name: str, x: tuple[float, ...], t: tuple[float, ...], wanted: float) -> None:
    op = PRIMITIVES[name]

    def f(*xs: Any) -> list[Any]:
        _, found = jvp_flat(lambda *ys: [op(*ys)], xs, [np.float64(v) for v in t])
        return [instantiate(found[0])]

    assert run(f, *map(np.float64, x))[0] == wanted


def test_integer_power_zero_and_product_with_zeros() -> None:
    def power(x: Any) -> list[Any]:
        _, (t,) = jvp_flat(lambda y: [PRIMITIVES["integer_pow"](y, y=0)], [x], [np.ones(2)])
        return [instantiate(t)]

    assert run(power, np.array([0.0, np.inf]))[0].tolist() == [0.0, 0.0]

    def product(x: Any, t: Any) -> list[Any]:
        return jvp_flat(lambda y: [PRIMITIVES["reduce_prod"](y, axes=(0,))], [x], [t])[1]

    basis = np.eye(5)
    zeros = np.array([2.0, 0.0, 3.0, 5.0, 7.0])
    assert [float(run(product, zeros, t)[0]) for t in basis] == [0.0, 210.0, 0.0, 0.0, 0.0]


SUMS = ("add", "sub", "select_n", "concatenate", "pad", "dynamic_update_slice", "mapped_dynamic_update_slice",
        "scatter", "scatter-add")  # fmt: skip


def linear_in(op: Op, types: tuple[TensorType, ...], attrs: dict[str, Any]) -> list[int]:
    """Operands in which the op is linear, the others held."""
    floats = [i for i, t in enumerate(types) if t.dtype == F64]
    if op.title == "sort":
        return [i for i in floats if i >= attrs["num_keys"]]
    first = op.title in ("div", "select_and_gather_add", "select_and_scatter_add", "scatter-mul")
    return floats[:1] if first else floats


@pytest.mark.parametrize("op", [op for op in TESTED if not isinstance(op.transpose, Absent)], ids=str)
def test_transpose_by_the_dot_product(op: Op) -> None:
    tested = 0
    for types, attrs in small(op):
        if attrs.get("dtype", F64) != F64 or attrs.get("new_dtype", F64) != F64:
            continue
        arrays = [x.astype(t.dtype) for x, t in zip(arguments(op, types, attrs, specials=False), types)]
        for operand in linear_in(op, types, attrs):
            others = [i for i in range(len(types)) if i != operand]
            rng = key("transpose", op.title, types, operand)
            # A sum of its operands is linear in one of them only where the others are zero.
            held = [np.zeros_like(y) if op.title in SUMS and y.dtype == F64 else y for y in arrays]
            x = rng.normal(size=types[operand].shape)
            full = [x if i == operand else held[i] for i in range(len(types))]
            results = as_list(op, op.numpy(*full, **attrs))
            # Of several results, the operand's own depends on it.
            y = np.asarray(results[operand if op.multiple_results else 0])
            ct = rng.normal(size=y.shape)

            def f(ct: Any, *rest: Any, operand=operand, types=types, attrs=attrs) -> list[Any]:
                operands = list(rest)
                operands.insert(operand, Undefined(types[operand]))
                return [op.transpose(ct, *operands, **attrs)[operand]]

            if op.multiple_results:
                others_zero = [np.zeros_like(r) for r in results]

                def f(ct: Any, *rest: Any, f=f, operand=operand, zeros=others_zero) -> list[Any]:
                    cts = [*zeros[:operand], ct, *zeros[operand + 1 :]]
                    return f(cts, *rest)

            (back,) = run(f, ct, *[held[i] for i in others])
            assert (back.shape, back.dtype) == (types[operand].shape, types[operand].dtype)
            np.testing.assert_allclose(np.vdot(ct, y), np.vdot(back, x), rtol=1e-10, atol=1e-10)
            tested += 1
    assert tested


@pytest.mark.parametrize("op", [op for op in TESTED if not isinstance(op.batch, Absent)], ids=str)
def test_batch_is_a_loop(op: Op) -> None:
    seen = set()
    for types, attrs in small(op):
        kind = (tuple(t.shape for t in types), types[0].dtype == dtypes.BOOL, str(attrs))
        if kind in seen or not types:
            continue
        seen.add(kind)
        count = len(types)
        some = [(i,) for i in range(count)] if count <= 3 else [(0,), (count - 1,)]
        for mapped in {*some, tuple(range(count))}:
            for size in (1, 3):
                check_batch(op, types, attrs, mapped, size)


def check_batch(
    op: Op, types: tuple[TensorType, ...], attrs: dict[str, Any], mapped: tuple[int, ...], size: int
) -> None:
    rng = key("batch", op.title, types, mapped, size)
    axes: list[int | None] = [
        int(rng.integers(0, t.ndim + 1)) if i in mapped else None for i, t in enumerate(types)
    ]
    wide = [
        t if a is None else t.with_(shape=(*t.shape[:a], size, *t.shape[a:])) for t, a in zip(types, axes)
    ]
    arrays = arguments(op, tuple(wide), attrs, specials=False)
    entries = [
        [x if a is None else np.asarray(np.take(x, k, a)) for x, a in zip(arrays, axes)] for k in range(size)
    ]

    def f(*xs: Any) -> list[Any]:
        outs, out_axes = vmap_flat(lambda *ys: as_list(op, op(*ys, **attrs)), size, xs, axes)
        return [PRIMITIVES["transpose"](out, permutation=(a, *(i for i in range(_rank(out)) if i != a)))
                for out, a in zip(outs, out_axes)]  # fmt: skip

    found = run(f, *arrays)
    for k in range(size):
        wanted = as_list(op, op.numpy(*entries[k], **attrs))
        for have, want in zip(found, wanted, strict=True):
            assert_facet(op, np.array(have[k]), np.asarray(want), entries[k], attrs)


def _rank(value: Any) -> int:
    from braze.core import typeof

    return typeof(value).ndim
