"""EXACT facets against expectations that do not use NumPy's own version of the operation."""

from __future__ import annotations

import itertools
import math
import struct

import numpy as np
import pytest
from op_values import assert_exact, key

from braze import dtypes
from braze.dtypes import ALL, BOOL, F32, F64, FLOATS, I32, I64, INTEGERS, SIGNED, UNSIGNED
from braze.ops import control, dot, elementwise, reduce, shape
from braze.ops.facets import SAMPLED
from braze.ops.table import PRIMITIVES

NAN, INF = math.nan, math.inf


def wrapped(value: int, dtype: dtypes.DType) -> int:
    """A Python int as an integer dtype holds it."""
    width = 8 * dtype.itemsize
    value &= (1 << width) - 1
    return value - (1 << width) if dtype in SIGNED and value >> (width - 1) else value


def edges(dtype: dtypes.DType) -> list[int]:
    limits = np.iinfo(dtype)
    return sorted({limits.min, limits.min + 1, *((-7, -3, -2, -1) if dtype in SIGNED else ()), 0, 1, 2, 3, 7, 31, 63,
                   limits.max - 1, limits.max})  # fmt: skip


def truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


INTEGER_MEANING = {
    "add": lambda x, y, d: x + y,
    "sub": lambda x, y, d: x - y,
    "mul": lambda x, y, d: x * y,
    "div": lambda x, y, d: -1 if y == 0 else truncated(x, y),
    "rem": lambda x, y, d: x if y == 0 else x - y * truncated(x, y),
    "max": lambda x, y, d: max(x, y),
    "min": lambda x, y, d: min(x, y),
    "and": lambda x, y, d: x & y,
    "or": lambda x, y, d: x | y,
    "xor": lambda x, y, d: x ^ y,
    "shift_left": lambda x, y, d: x << y if 0 <= y < 8 * d.itemsize else 0,
    "shift_right_logical": lambda x, y, d: (
        (x & ((1 << 8 * d.itemsize) - 1)) >> y if 0 <= y < 8 * d.itemsize else 0
    ),
    "shift_right_arithmetic": lambda x, y, d: (
        wrapped(x, _signed(d)) >> (y if 0 <= y < 8 * d.itemsize else 200)
    ),
}


def _signed(dtype: dtypes.DType) -> dtypes.DType:
    return SIGNED[(*UNSIGNED, *SIGNED).index(dtype) % 4]


@pytest.mark.parametrize("name", INTEGER_MEANING)
@pytest.mark.parametrize("dtype", INTEGERS, ids=dtypes.short)
def test_integers_mean_what_python_ints_mean(name: str, dtype: dtypes.DType) -> None:
    pairs = list(itertools.product(edges(dtype), repeat=2))
    x, y = (np.array(column, dtype) for column in zip(*pairs))
    wanted = [wrapped(INTEGER_MEANING[name](a, b, dtype), dtype) for a, b in pairs]
    op = {"and": elementwise.and_, "or": elementwise.or_}.get(name) or getattr(elementwise, name)
    assert op.numpy(x, y).tolist() == wanted
    assert [op.numpy(x[i : i + 1].reshape(()), y[i : i + 1].reshape(())).item() for i in range(9)] == wanted[
        :9
    ]


@pytest.mark.parametrize("dtype", INTEGERS, ids=dtypes.short)
def test_integer_powers_wrap(dtype: dtypes.DType) -> None:
    for y in (0, 1, 2, 3, 5, 10, 31):
        x = np.array(edges(dtype), dtype)
        assert elementwise.integer_pow.numpy(x, y=y).tolist() == [wrapped(v**y, dtype) for v in edges(dtype)]


FLOAT_CASES = [
    ("max", 0.0, -0.0, 0.0), ("max", -0.0, 0.0, 0.0), ("max", -0.0, -0.0, -0.0), ("max", NAN, 1.0, NAN),
    ("max", 1.0, NAN, NAN), ("max", -INF, NAN, NAN), ("max", INF, -INF, INF),
    ("min", 0.0, -0.0, -0.0), ("min", -0.0, 0.0, -0.0), ("min", 0.0, 0.0, 0.0), ("min", NAN, -INF, NAN),
    ("min", -INF, 1.0, -INF),
    ("div", 1.0, 0.0, INF), ("div", 1.0, -0.0, -INF), ("div", 0.0, 0.0, NAN), ("div", INF, INF, NAN),
    ("rem", 5.5, 2.0, 1.5), ("rem", -5.5, 2.0, -1.5), ("rem", 5.5, -2.0, 1.5), ("rem", -4.0, 2.0, -0.0),
    ("rem", 1.0, 0.0, NAN), ("rem", INF, 2.0, NAN), ("rem", 2.0, INF, 2.0), ("rem", -0.0, 3.0, -0.0),
    ("add", INF, -INF, NAN), ("add", -0.0, 0.0, 0.0), ("add", -0.0, -0.0, -0.0), ("sub", 0.0, 0.0, 0.0),
    ("mul", 0.0, INF, NAN), ("mul", -0.0, 2.0, -0.0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=dtypes.short)
@pytest.mark.parametrize(("name", "x", "y", "wanted"), FLOAT_CASES)
def test_floats_at_special_values(name: str, x: float, y: float, wanted: float, dtype: dtypes.DType) -> None:
    found = getattr(elementwise, name).numpy(np.array([x], dtype), np.array([y], dtype))
    assert_exact(found, np.array([wanted], dtype))


ONE_OPERAND = [
    ("sign", [0.0, -0.0, NAN, -INF, INF, -0.1], [0.0, -0.0, NAN, -1.0, 1.0, -1.0]),
    ("abs", [-0.0, -INF, -1.5], [0.0, INF, 1.5]),
    ("neg", [0.0, -0.0, INF], [-0.0, 0.0, -INF]),
    ("floor", [-0.5, -0.0, 2.5, -INF], [-1.0, -0.0, 2.0, -INF]),
    ("ceil", [-0.5, 0.25, -0.0, INF], [-0.0, 1.0, -0.0, INF]),
    ("sqrt", [-0.0, 4.0, -1.0, INF], [-0.0, 2.0, NAN, INF]),
    ("exp", [0.0, -INF, INF, NAN, -0.0], [1.0, 0.0, INF, NAN, 1.0]),
    ("log", [1.0, 0.0, -0.0, INF, -1.0, NAN], [0.0, -INF, -INF, INF, NAN, NAN]),
    ("sin", [0.0, -0.0, INF, NAN], [0.0, -0.0, NAN, NAN]),
    ("cos", [0.0, -0.0, -INF], [1.0, 1.0, NAN]),
    ("tanh", [0.0, -0.0, INF, -INF, NAN], [0.0, -0.0, 1.0, -1.0, NAN]),
    ("rsqrt", [4.0, 0.0, -0.0, INF, -1.0], [0.5, INF, -INF, 0.0, NAN]),
    ("square", [-0.0, -3.0, INF], [0.0, 9.0, INF]),
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=dtypes.short)
@pytest.mark.parametrize(("name", "x", "wanted"), ONE_OPERAND)
def test_one_float_at_special_values(
    name: str, x: list[float], wanted: list[float], dtype: dtypes.DType
) -> None:
    assert_exact(PRIMITIVES[name].numpy(np.array(x, dtype)), np.array(wanted, dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=dtypes.short)
def test_rounding_to_even_and_away(dtype: dtypes.DType) -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -0.25, 0.75, INF, NAN, -0.0, -2.5], dtype)
    even = np.array([0.0, 2.0, 2.0, -0.0, -2.0, -0.0, 1.0, INF, NAN, -0.0, -2.0], dtype)
    away = np.array([1.0, 2.0, 3.0, -1.0, -2.0, -0.0, 1.0, INF, NAN, -0.0, -3.0], dtype)
    assert_exact(elementwise.round.numpy(x, rounding_method=1), even)
    assert_exact(elementwise.round.numpy(x, rounding_method=0), away)
    below_half = np.nextafter(np.float32(0.5), np.float32(0))
    assert elementwise.round.numpy(np.array([below_half]), rounding_method=0).tolist() == [0.0]


def convert_one(x: float, dtype: dtypes.DType) -> int:
    """A float as an integer: truncated and held in range, NaN is 0."""
    if math.isnan(x):
        return 0
    limits = np.iinfo(dtype)
    return int(max(limits.min, min(limits.max, x if math.isinf(x) else math.trunc(x))))


@pytest.mark.parametrize("source", FLOATS, ids=dtypes.short)
@pytest.mark.parametrize("dtype", INTEGERS, ids=dtypes.short)
def test_floats_to_integers_truncate_and_saturate(source: dtypes.DType, dtype: dtypes.DType) -> None:
    limits = np.iinfo(dtype)
    near = [
        float(limits.max),
        float(limits.min),
        float(limits.max) * 2 + 1,
        limits.max / 2,
        limits.min / 2 - 1,
    ]
    with np.errstate(over="ignore"):
        x = np.array(
            [*near, 0.9, -0.9, -1.5, 127.5, 255.9, -128.9, 1e30, -1e30, NAN, INF, -INF, -0.0], source
        )
    wanted = [convert_one(float(v), dtype) for v in x]
    assert elementwise.convert(x, dtype).tolist() == wanted


@pytest.mark.parametrize("source", INTEGERS, ids=dtypes.short)
def test_integers_to_all_dtypes(source: dtypes.DType) -> None:
    x = np.array(edges(source), source)
    for dtype in INTEGERS:
        assert elementwise.convert(x, dtype).tolist() == [wrapped(v, dtype) for v in edges(source)]
    assert elementwise.convert(x, BOOL).tolist() == [v != 0 for v in edges(source)]
    assert elementwise.convert(x, F64).tolist() == [float(v) for v in edges(source)]


def test_f64_to_f32_rounds_to_nearest_even() -> None:
    rng = key("convert")
    x = np.concatenate([rng.normal(size=500) * 10.0 ** rng.uniform(-44, 39, 500), [NAN, INF, -0.0, 1e300]])
    found = elementwise.convert(x, F32)
    for value, have in zip(x, found):
        try:
            wanted = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            wanted = math.copysign(INF, value)
        assert_exact(have, np.float32(wanted))


def test_conversion_to_bool_is_not_zero() -> None:
    assert elementwise.convert(np.array([0.0, -0.0, NAN, 1e-45], F32), BOOL).tolist() == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("dtype", ALL, ids=dtypes.short)
def test_facets_take_every_dtype_they_claim(dtype: dtypes.DType) -> None:
    x = np.ones(3, dtype)
    assert elementwise.convert(x, dtype).dtype == dtype
    assert elementwise.add.numpy(x, x).dtype == dtype
    assert elementwise.mul.numpy(x, x).dtype == dtype
    assert shape.reshape.numpy(x, shape=(3, 1)).dtype == dtype
    if dtype != BOOL:
        assert reduce.reduce_sum.numpy(x, axes=(0,)).dtype == dtype
        assert elementwise.div.numpy(x, x).dtype == dtype


@pytest.mark.parametrize("direction", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_nan(direction: str) -> None:
    x, y = (np.array(v, F64) for v in zip(*itertools.product((NAN, 0.0, -0.0, 1.0), repeat=2)))
    compare = {"eq": float.__eq__, "ne": float.__ne__, "lt": float.__lt__, "le": float.__le__, "gt": float.__gt__,
               "ge": float.__ge__}[direction]  # fmt: skip
    assert getattr(elementwise, direction).numpy(x, y).tolist() == list(map(compare, x.tolist(), y.tolist()))


def test_moves_keep_nan_payloads() -> None:
    payload = np.array([0x7FC00123, 0xFF800001, 0x7F800001], np.uint32).view(F32)
    for moved in (
        elementwise.select_hlo.numpy(np.array([True, False, True]), payload, payload),
        elementwise.neg.numpy(elementwise.neg.numpy(payload)),
        shape.rev.numpy(shape.rev.numpy(payload, dimensions=(0,)), dimensions=(0,)),
        shape.pad.numpy(payload, np.float32(0), low=(0,), high=(0,), interior=(0,)),
    ):
        assert moved.tobytes() == payload.tobytes()


@pytest.mark.parametrize("index", [-9, -1, 0, 1, 2, 3, 99, 2**31 - 1, -(2**31)])
def test_start_indices_clamp(index: int) -> None:
    x = np.arange(5, dtype=np.int32)
    start = min(max(index, 0), 3)
    at = np.int32(index)
    assert shape.dynamic_slice.numpy(x, at, slice_sizes=(2,)).tolist() == [start, start + 1]
    updated = x.copy()
    updated[start : start + 2] = [70, 71]
    assert shape.dynamic_update_slice.numpy(x, np.array([70, 71], np.int32), at).tolist() == updated.tolist()


def test_pad_element_by_element() -> None:
    for types, attrs in shape.pad.samples():
        if types[0].dtype != F32:
            continue
        x = np.arange(1, types[0].size + 1, dtype=F32).reshape(types[0].shape)
        want = np.full(shape.pad.infer(*types, **attrs).shape, -1, F32)
        for index in np.ndindex(x.shape):
            at = tuple(i * (k + 1) + low for i, k, low in zip(index, attrs["interior"], attrs["low"]))
            if all(0 <= i < n for i, n in zip(at, want.shape)):
                want[at] = x[index]
        assert_exact(shape.pad.numpy(x, np.float32(-1), **attrs), want)


def test_broadcast_in_dim_element_by_element() -> None:
    for types, attrs in shape.broadcast_in_dim.samples():
        x = np.arange(types[0].size).reshape(types[0].shape).astype(types[0].dtype)
        found = shape.broadcast_in_dim.numpy(x, **attrs)
        for index in itertools.islice(np.ndindex(attrs["shape"]), 100):
            source = tuple(0 if n == 1 else index[d] for n, d in zip(x.shape, attrs["broadcast_dimensions"]))
            assert found[index] == x[source]


def test_dot_general_by_einsum() -> None:
    for types, attrs in dot.dot_general.samples():
        rng = key("dot", types)
        x, y = (rng.integers(-3, 4, t.shape) for t in types)
        lb, rb = attrs["lhs_batching_dimensions"], attrs["rhs_batching_dimensions"]
        lc, rc = attrs["lhs_contracting_dimensions"], attrs["rhs_contracting_dimensions"]
        left = list(range(x.ndim))
        right = list(range(10, 10 + y.ndim))
        for i, j in zip((*lb, *lc), (*rb, *rc)):
            right[j] = left[i]
        out = [left[i] for i in lb] + [left[i] for i in dot.kept(x.ndim, lb, lc)]
        out += [right[i] for i in dot.kept(y.ndim, rb, rc)]
        if types[0].dtype == BOOL:
            x, y = x != 0, y != 0
        want = np.einsum(x.astype(np.int64), left, y.astype(np.int64), right, out)
        found = dot.dot_general.numpy(x.astype(types[0].dtype), y.astype(types[1].dtype), **attrs)
        assert_exact(found, elementwise.convert(np.asarray(want), attrs["dtype"]))


@pytest.mark.parametrize("dtype", [F32, F64], ids=dtypes.short)
def test_sums_are_as_accurate_as_stated(dtype: dtypes.DType) -> None:
    rng = key("sum")
    for n in (1, 2, 3, 1000, 100_001):
        x = rng.normal(size=n).astype(dtype)
        exact = math.fsum(x.tolist())
        bound = math.log2(max(n, 2)) * float(np.finfo(dtype).eps) * math.fsum(abs(v) for v in x.tolist())
        assert abs(float(reduce.reduce_sum.numpy(x, axes=(0,))) - exact) <= bound


def test_small_floats_sum_in_f32() -> None:
    for dtype in (dtypes.F16, dtypes.BF16):
        assert float(reduce.reduce_sum.numpy(np.ones(3000, dtype), axes=(0,))) == float(
            np.asarray(3000, dtype)
        )


def test_reductions_over_nothing_give_the_identity() -> None:
    empty = np.zeros((2, 0), I32)
    assert reduce.reduce_sum.numpy(empty, axes=(1,)).tolist() == [0, 0]
    assert reduce.reduce_prod.numpy(empty, axes=(1,)).tolist() == [1, 1]
    assert reduce.reduce_max.numpy(empty, axes=(1,)).tolist() == [-(2**31)] * 2
    assert reduce.reduce_min.numpy(empty, axes=(1,)).tolist() == [2**31 - 1] * 2
    assert reduce.reduce_and.numpy(empty, axes=(1,)).tolist() == [-1, -1]
    assert reduce.reduce_or.numpy(empty, axes=(1,)).tolist() == [0, 0]
    assert reduce.reduce_max.numpy(np.zeros((0,), F64), axes=(0,)) == -INF


def test_extrema_propagate_nan_and_order_zeros() -> None:
    assert math.isnan(reduce.reduce_max.numpy(np.array([1.0, NAN, 3.0]), axes=(0,)))
    assert_exact(reduce.reduce_max.numpy(np.array([-0.0, 0.0, -0.0]), axes=(0,)), np.array(0.0))
    assert_exact(reduce.reduce_min.numpy(np.array([0.0, -0.0, 0.0]), axes=(0,)), np.array(-0.0))


@pytest.mark.parametrize("x", [[3.0, 1.0, 3.0], [1.0, NAN, 2.0, NAN], [-INF, -INF], [INF, INF], [-0.0, 0.0]])
def test_positions_are_the_first(x: list[float]) -> None:
    """A NaN counts as the extremum, of equals the first is taken: also in the reduction they lower to."""
    from op_values import run

    nans = [i for i, v in enumerate(x) if math.isnan(v)]
    for op, extremum in ((reduce.argmax, max), (reduce.argmin, min)):
        want = nans[0] if nans else x.index(extremum(x))
        attrs = {"axes": (0,), "index_dtype": I64}
        assert int(op.numpy(np.array(x), **attrs)) == want
        assert int(run(lambda v, op=op, attrs=attrs: [op(v, **attrs)], np.array(x))[0]) == want


def test_callback_results_are_checked() -> None:
    from braze.errors import ShapeError, UnsupportedError
    from braze.types import TensorType

    call = control.custom_call_hlo.numpy
    attrs = {"call_target_name": "f", "has_side_effect": True, "backend_config": ""}
    two = (TensorType((2,), F32),)
    assert call(np.ones(2, F32), callback=lambda x: [x + x], result_types=two, **attrs)[0].tolist() == [2, 2]
    with pytest.raises(ShapeError, match=r"result 0 is f32\[3\], f32\[2\] was promised"):
        call(callback=lambda: [np.ones(3, F32)], result_types=two, **attrs)
    with pytest.raises(ShapeError, match="gave 0 results, 1 were promised"):
        call(callback=list, result_types=two, **attrs)
    with pytest.raises(UnsupportedError, match="no function for the target 'f'"):
        call(callback=None, result_types=two, **attrs)


def test_sampled_dtypes_are_the_five() -> None:
    assert set(SAMPLED) == {F32, F64, I32, I64, BOOL}
