"""Every function of `braze.numpy` beside JAX's (32-bit types) and NumPy's (64-bit types), outside and inside jit.

Values, shape, dtype and weak type are compared. JAX runs without x64, so what it makes of 64-bit inputs says
nothing about braze, which keeps them; NumPy is the reference there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp

RNG = np.random.default_rng(11)
SHAPES = ((), (3,), (2, 3), (0, 3), (2, 1, 4))
DTYPES = (np.float32, np.float64, np.int32, np.int64, np.bool_)


def names_in(text: str) -> list[str]:
    return text.split()


def operand(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    if dtype is np.bool_:
        return RNG.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind == "i":
        return RNG.integers(-4, 5, shape).astype(dtype)
    return np.asarray(RNG.standard_normal(shape) * 3).astype(dtype)


def same(found: Any, wanted: Any, *, weak: bool = True, tolerance: float = 2e-6) -> None:
    """Values, shape, dtype and (beside JAX) weak type agree; JAX has weak bools, which nothing depends on."""
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    if weak and hasattr(wanted, "weak_type") and found.dtype != bool:
        assert found.weak_type == wanted.weak_type
    a, b = np.asarray(found), np.asarray(wanted)
    if a.dtype.kind == "f":
        near = tolerance if a.dtype.itemsize == 4 else tolerance * 1e-7
        np.testing.assert_allclose(a, b, rtol=near, atol=near * 10)
    else:
        np.testing.assert_array_equal(a, b)


def each(found: Any, wanted: Any) -> None:
    a, b = bz.tree.leaves_with_path(found), jax.tree.leaves(wanted)
    assert len(a) == len(b)
    for (path, x), y in zip(a, b, strict=True):
        try:
            same(x, y)
        except AssertionError as error:
            raise AssertionError(f"{bz.tree.keystr(path)}: {error}") from None


def beside_jax(call: Callable[..., Any], *args: Any) -> None:
    """`call(module, *args)` with braze, outside and inside jit on both targets, and with JAX."""
    wanted = jax.jit(lambda *a: call(jnp, *a))(*args)  # one program compiles faster than many operations
    each(call(bnp, *args), wanted)
    for target in ("cpu", "numpy"):
        each(bz.jit(lambda *a: call(bnp, *a), target=target)(*args), wanted)


def beside_numpy(call: Callable[..., Any], *args: Any) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = call(np, *args)
    wanted = [np.asarray(w) for w in jax.tree.leaves(wanted)]
    for found in (call(bnp, *args), bz.jit(lambda *a: call(bnp, *a))(*args)):
        for x, y in zip(bz.tree.leaves(found), wanted, strict=True):
            same(x, y, weak=False)


# One array -------------------------------------------------------------------------------------------

UNARY = names_in("""
    abs absolute ceil cos exp fabs floor isfinite isinf isnan logical_not negative positive rint
    sign sin square sqrt tanh trunc log reciprocal
""")
FLOATS_ONLY = {
    "negative": (np.bool_,),
    "sign": (np.bool_,),
    "positive": (np.bool_,),
    "reciprocal": (np.int32, np.bool_),
}


POSITIVE = ("sqrt", "log", "reciprocal")


@pytest.mark.parametrize("dtype", (np.float32, np.int32, np.bool_))
@pytest.mark.parametrize("shape", SHAPES)
def test_unary_beside_jax(dtype: Any, shape: tuple[int, ...]) -> None:
    names = [n for n in UNARY if dtype not in FLOATS_ONLY.get(n, ())]
    x = operand(shape, dtype)
    positive = x if dtype is np.bool_ else np.abs(x) + np.asarray(1, dtype)
    beside_jax(lambda m, x, p: {n: getattr(m, n)(p if n in POSITIVE else x) for n in names}, x, positive)


def test_unary_of_python_scalars_is_weak_like_jaxs() -> None:
    for value in (1, 2.5):
        names = [n for n in UNARY if n != "reciprocal" or value != 1]
        beside_jax(lambda m, x, names=names: {n: getattr(m, n)(x) for n in names}, value)


def test_unary_keeps_double() -> None:
    x = operand((3, 4), np.float64)
    for name in UNARY:
        y = np.abs(x) + 0.5 if name in POSITIVE else x
        found = getattr(bnp, name)(y)
        same(found, getattr(np, name)(y), weak=False)
    names = [n for n in UNARY if n not in POSITIVE]
    beside_numpy(lambda m, x: {n: getattr(m, n)(x) for n in sorted(names)}, x)


@pytest.mark.parametrize("name", ["invert", "bitwise_not"])
def test_bits(name: str) -> None:
    for dtype in (np.int32, np.bool_):
        beside_jax(lambda m, x: getattr(m, name)(x), operand((5,), dtype))


def test_special_values_of_rounding_and_signs() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, -0.5, -2.5, 1e30], np.float32)
    for name in (
        "floor",
        "ceil",
        "rint",
        "trunc",
        "sign",
        "abs",
        "isnan",
        "isinf",
        "isfinite",
        "square",
        "round",
    ):
        beside_jax(lambda m, x, name=name: getattr(m, name)(x), x)


def test_round_to_decimals() -> None:
    beside_jax(lambda m, x: m.round(x, 2), np.array([1.234, -5.678, 0.005], np.float32))
    beside_jax(lambda m, x: m.round(x), np.arange(3, dtype=np.int32))


# Two arrays ------------------------------------------------------------------------------------------

BINARY = names_in("""
    add subtract multiply true_divide divide maximum minimum equal not_equal less less_equal
    greater greater_equal floor_divide remainder mod fmod logical_and logical_or logical_xor
""")
PAIRS = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 3), (2, 1)), ((0, 3), (3,)), ((2, 1, 3), (4, 1))]
MIXED = [(a, b) for a in (np.float32, np.int32, np.bool_) for b in (np.float32, np.int32, np.bool_)]
NOT_OF_BOOLS = ("subtract", "floor_divide", "remainder", "mod", "fmod")


def binary_names(*dtypes: Any) -> list[str]:
    return [n for n in BINARY if not (n in NOT_OF_BOOLS and all(d is np.bool_ for d in dtypes))]


def divisor(y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.where(y == 0, np.ones_like(y), y)


@pytest.mark.parametrize(("first", "second"), MIXED, ids=lambda d: np.dtype(d).name)
def test_binary_beside_jax(first: Any, second: Any) -> None:
    names = binary_names(first, second)
    for left, right in PAIRS if first is second is not np.bool_ else PAIRS[::3]:
        x, y = operand(left, first), divisor(operand(right, second))
        beside_jax(lambda m, x, y: {n: getattr(m, n)(x, y) for n in names}, x, y)


@pytest.mark.parametrize("dtype", (np.float32, np.int32, np.bool_))
def test_binary_with_python_scalars(dtype: Any) -> None:
    x = divisor(operand((3,), dtype))
    for other in (2, 2.5):
        names = [n for n in BINARY if dtype is not np.bool_ or n not in NOT_OF_BOOLS]
        beside_jax(
            lambda m, x, o=other, n=names: {k: (getattr(m, k)(x, o), getattr(m, k)(o, x)) for k in n}, x
        )


def test_binary_of_python_scalars_is_weak_like_jaxs() -> None:
    for other in (2, 2.5):
        beside_jax(lambda m, o=other: {n: getattr(m, n)(3, o) for n in BINARY})


@pytest.mark.parametrize("dtype", (np.float64, np.int64))
def test_binary_keeps_64_bits(dtype: Any) -> None:
    x, y = operand((3, 4), dtype), divisor(operand((4,), dtype))
    names = sorted(n for n in BINARY if dtype is np.float64 or "divide" not in n or "floor" in n)
    beside_numpy(lambda m, x, y: {n: getattr(m, n)(x, y) for n in names}, x, y)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
@pytest.mark.parametrize("dtype", (np.int32, np.bool_))
def test_bitwise(name: str, dtype: Any) -> None:
    beside_jax(lambda m, x, y: getattr(m, name)(x, y), operand((4,), dtype), operand((4,), dtype))


def test_shifts() -> None:
    x, y = np.array([1, -8, 5, 7], np.int32), np.array([0, 1, 31, 40], np.int32)
    for name in ("left_shift", "right_shift"):
        beside_jax(lambda m, x, y, name=name: getattr(m, name)(x, y), x, y)


def test_integer_division_by_zero_and_of_the_least() -> None:
    x = np.array([1, -1, 0, -(2**31)], np.int32)
    for y in (np.zeros(4, np.int32), np.full(4, -1, np.int32)):
        for name in ("floor_divide", "remainder"):
            beside_jax(lambda m, x, y, name=name: getattr(m, name)(x, y), x, y)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, -1, -2])
def test_power_of_python_ints(exponent: int) -> None:
    beside_jax(lambda m, x: m.power(x, exponent), np.array([1.5, -2.0, 0.5], np.float32))
    if exponent >= 0:
        beside_jax(lambda m, x: m.asarray(x) ** exponent, np.array([3, -2, 0], np.int32))


def test_divmod_where_clip_isclose() -> None:
    x, y = operand((2, 3), np.float32), operand((3,), np.float32)
    beside_jax(lambda m, x, y: m.divmod(x, y), x, y)
    for condition in (x > 0, np.array(True), np.array([1, 0, 2], np.int32)):
        beside_jax(lambda m, c, x, y: m.where(c, x, y), condition, x, y)
    beside_jax(lambda m, c, x: m.where(c, x, 0), x > 0, x)
    beside_jax(lambda m, c, x: m.where(c, 1, x), x > 0, np.arange(3, dtype=np.int32))
    beside_jax(lambda m, c: m.where(c, 1, 2.0), x > 0)
    beside_jax(lambda m, x: m.clip(x, -1, 1), x)
    beside_jax(lambda m, x: m.clip(x, max=0.5), x)
    near = np.array([1.0, 1.0 + 1e-7, np.nan, np.inf, 2.0], np.float32)
    beside_jax(lambda m, a, b: m.isclose(a, b), near, np.array([1, 1, np.nan, np.inf, 3], np.float32))
    beside_jax(lambda m, a, b: m.isclose(a, b, equal_nan=True), near, near)


def test_result_type() -> None:
    assert bnp.result_type(np.float32(1), 2) == np.float32
    assert bnp.result_type(np.int32(1), 2.0) == np.float32
    assert bnp.result_type(np.float64(1), np.float32(1)) == np.float64


# Reductions ------------------------------------------------------------------------------------------

REDUCTIONS = names_in("sum prod mean var std max min any all argmax argmin ptp count_nonzero")


AXES = [
    ((), None),
    ((5,), None),
    ((5,), 0),
    ((2, 3, 4), None),
    ((2, 3, 4), 1),
    ((2, 3, 4), -1),
    ((2, 3, 4), (0, -1)),
]


@pytest.mark.parametrize("dtype", (np.float32, np.int32, np.bool_))
@pytest.mark.parametrize(("shape", "axis"), AXES)
def test_reductions_beside_jax(dtype: Any, shape: tuple[int, ...], axis: Any) -> None:
    names = [n for n in REDUCTIONS if n != "ptp" or dtype is not np.bool_]
    if isinstance(axis, tuple):
        names = [n for n in names if not n.startswith("arg")]
    keep = shape == (2, 3, 4) or axis is None
    beside_jax(
        lambda m, x: {n: getattr(m, n)(x, axis=axis, keepdims=keep) for n in names}, operand(shape, dtype)
    )


def test_reductions_drop_their_axes() -> None:
    x = operand((2, 3), np.float32)
    beside_jax(lambda m, x: {n: getattr(m, n)(x, axis=0) for n in REDUCTIONS}, x)


def test_reductions_keep_double() -> None:
    names = sorted(n for n in REDUCTIONS if n not in ("argmax", "argmin", "count_nonzero"))
    beside_numpy(lambda m, x: {n: getattr(m, n)(x, axis=0) for n in names}, operand((3, 4), np.float64))


def test_reductions_over_nothing() -> None:
    names = ["sum", "prod", "mean", "any", "all", "count_nonzero"]
    for shape, axis in [((0, 3), 0), ((0, 3), None), ((3, 0), 0)]:
        x = operand(shape, np.float32)
        beside_jax(lambda m, x, a=axis: {n: getattr(m, n)(x, axis=a) for n in names}, x)


def test_reductions_of_python_scalars() -> None:
    for value in (3, 2.5):
        beside_jax(lambda m, x: {n: getattr(m, n)(x) for n in REDUCTIONS}, value)


def test_where_and_initial() -> None:
    x, w = operand((3, 4), np.float32), operand((3, 4), np.bool_)
    w[0] = True

    def call(m: Any, x: Any, w: Any) -> Any:
        return {
            **{n: getattr(m, n)(x, axis=1, where=w, initial=2) for n in ("sum", "prod", "max", "min")},
            **{n: getattr(m, n)(x, axis=1, where=w[:1]) for n in ("any", "all", "mean", "var", "std")},
            "ddof": m.var(x, ddof=1),
            "correction": m.std(x, correction=1, axis=0, keepdims=True),
            "mean": m.var(x, axis=1, mean=m.mean(x, axis=1, keepdims=True)),
            "empty": (m.max(x[:0], axis=0, initial=0.5), m.min(x[:0], axis=0, initial=0.5)),
            "dtype": m.sum(m.arange(5), dtype="float32"),
            "no promotion": m.sum(w, promote_integers=False),
        }

    beside_jax(call, x, w)


def test_nan_in_reductions() -> None:
    x = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    names = ("max", "min", "sum", "argmax", "argmin", "mean")
    beside_jax(lambda m, x: {n: getattr(m, n)(x, axis=1) for n in names}, x)


# Shapes ----------------------------------------------------------------------------------------------

MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda m, x: m.reshape(x, (4, -1)),
    "reshape F": lambda m, x: m.reshape(x, (4, 6), order="F"),
    "ravel": lambda m, x: m.ravel(x),
    "transpose": lambda m, x: m.transpose(x),
    "transpose axes": lambda m, x: m.transpose(x, (1, 2, 0)),
    "permute_dims": lambda m, x: m.permute_dims(x, (2, 0, 1)),
    "matrix_transpose": lambda m, x: m.matrix_transpose(x),
    "swapaxes": lambda m, x: m.swapaxes(x, 0, -1),
    "moveaxis": lambda m, x: m.moveaxis(x, (0, 1), (-1, 0)),
    "expand_dims": lambda m, x: m.expand_dims(x, (0, -1)),
    "squeeze": lambda m, x: m.squeeze(m.reshape(x, (1, 2, 12, 1)), -1),
    "squeeze all": lambda m, x: m.squeeze(m.reshape(x, (1, 2, 12, 1))),
    "broadcast_to": lambda m, x: m.broadcast_to(x, (2, 2, 3, 4)),
    "broadcast_arrays": lambda m, x: m.broadcast_arrays(x, m.ones(4), 2),
    "concatenate": lambda m, x: m.concatenate([x, x * 2], axis=1),
    "concatenate flat": lambda m, x: m.concatenate([x, m.ones(3)], axis=None),
    "concat": lambda m, x: m.concat([x, x], axis=-1),
    "stack": lambda m, x: m.stack([x, x], axis=1),
    "vstack": lambda m, x: m.vstack([x[0, 0], x[1, 0]]),
    "hstack": lambda m, x: m.hstack([x[0], x[1]]),
    "split": lambda m, x: m.split(x, 2, axis=-1),
    "split at": lambda m, x: m.split(x, (1, 3), axis=2),
    "flip": lambda m, x: m.flip(x, (0, 2)),
    "roll": lambda m, x: m.roll(x, 3, axis=2),
    "roll flat": lambda m, x: m.roll(x, -5),
    "tile": lambda m, x: m.tile(x, (2, 1, 3)),
    "tile more": lambda m, x: m.tile(x[0], (2, 1, 1)),
    "repeat": lambda m, x: m.repeat(x, 2, axis=1),
    "repeat flat": lambda m, x: m.repeat(x, 3),
    "pad": lambda m, x: m.pad(x, ((1, 0), (0, 2), (1, 1))),
    "pad value": lambda m, x: m.pad(x, 1, constant_values=7),
    "atleast": lambda m, x: (m.atleast_1d(3.0), m.atleast_2d(x[0, 0]), m.atleast_1d(x, 1)),
    "tril": lambda m, x: m.tril(x, 1),
    "triu": lambda m, x: m.triu(x, -1),
    "meshgrid": lambda m, x: m.meshgrid(x[0, 0], x[0, :, 0]),
    "meshgrid sparse": lambda m, x: m.meshgrid(x[0, 0], x[0, :, 0], indexing="ij", sparse=True),
    "trace": lambda m, x: m.trace(x, 1, 2, 0),
    "like": lambda m, x: (m.zeros_like(x), m.ones_like(x, dtype="int32"), m.full_like(x, 3, shape=(2,))),
}


@pytest.mark.parametrize("dtype", (np.float32, np.int32))
@pytest.mark.parametrize("part", range(4))
def test_moves_beside_jax(part: int, dtype: Any) -> None:
    names = list(MOVES)[part::4]
    beside_jax(lambda m, x: {n: MOVES[n](m, x) for n in names}, operand((2, 3, 4), dtype))


def test_ndim_shape_size() -> None:
    x = bnp.ones((2, 3))
    assert (bnp.ndim(x), bnp.shape(x), bnp.size(x), bnp.size(x, 1), bnp.ndim(2.0)) == (2, (2, 3), 6, 3, 0)


# Making arrays ---------------------------------------------------------------------------------------

MAKE: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda m: m.zeros((2, 3)),
    "zeros int": lambda m: m.zeros(3, dtype=int),
    "ones": lambda m: m.ones((2,), dtype="float32"),
    "empty": lambda m: m.empty((0, 2)),
    "full": lambda m: m.full((2, 2), 7),
    "full float": lambda m: m.full((2,), 7.5),
    "full dtype": lambda m: m.full((2, 2), 7, dtype="float32"),
    "full array": lambda m: m.full((2, 2), m.arange(2)),
    "arange": lambda m: m.arange(5),
    "arange float": lambda m: m.arange(1.0, 2.0, 0.25),
    "arange down": lambda m: m.arange(5, 0, -2),
    "arange dtype": lambda m: m.arange(3, dtype="float32"),
    "arange empty": lambda m: m.arange(3, 1),
    "linspace": lambda m: m.linspace(0, 1, 7),
    "linspace open": lambda m: m.linspace(0.0, 1.0, 5, endpoint=False),
    "linspace int": lambda m: m.linspace(0, 10, 4, dtype="int32"),
    "linspace step": lambda m: m.linspace(-1.0, 1.0, 5, retstep=True),
    "linspace arrays": lambda m: m.linspace(m.zeros(2), m.ones((3, 2)), 4, axis=1),
    "linspace one": lambda m: m.linspace(3.0, 4.0, 1),
    "eye": lambda m: m.eye(3, 4, 1),
    "identity": lambda m: m.identity(3, dtype="int32"),
    "tri": lambda m: m.tri(3, 4, -1),
    "array": lambda m: m.array([[1, 2], [3, 4]]),
    "array mixed": lambda m: m.array([1, 2.5, True]),
    "array bool": lambda m: m.array([True, False]),
    "array empty": lambda m: m.array([[], []]),
    "array scalar": lambda m: m.array(3),
    "array of arrays": lambda m: m.array([m.ones(2), m.zeros(2)]),
    "array of scalars": lambda m: m.array([[m.float32(1), 2.0]]),
    "array dtype": lambda m: m.array([1.7, -2.7], dtype="int32"),
    "array ndmin": lambda m: m.array([1.0], ndmin=3),
    "asarray scalar": lambda m: m.asarray(2.5),
    "asarray list": lambda m: m.asarray((1, 2)),
}


def test_making_arrays_beside_jax() -> None:
    beside_jax(lambda m: {n: make(m) for n, make in MAKE.items()})


# Products --------------------------------------------------------------------------------------------

PRODUCTS = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (1, 3, 4)), ((2, 3), (5, 3, 4)), ((3,), (5, 3, 4)), ((2, 0), (0, 3)), ((4, 1, 2, 3), (5, 3, 2)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_matmul_beside_jax(shapes: Any) -> None:
    for first, second in ((np.float32, np.float32), (np.int32, np.int32), (np.float32, np.int32)):
        beside_jax(lambda m, x, y: m.matmul(x, y), operand(shapes[0], first), operand(shapes[1], second))


def test_other_products_beside_jax() -> None:
    x, y, v, w = (operand(s, np.float32) for s in ((2, 3, 4), (4, 3), (4,), (4,)))
    calls: list[tuple[Callable[..., Any], Any, Any]] = [
        (lambda m, a, b: m.dot(a, b), x, operand((2, 4, 5), np.float32)),
        (lambda m, a, b: m.dot(a, b), v, w),
        (lambda m, a, b: m.dot(a, b), x, np.float32(2)),
        (lambda m, a, b: m.tensordot(a, b, ((1, 2), (1, 0))), x, y),
        (lambda m, a, b: m.tensordot(a, b, 1), x, y),
        (lambda m, a, b: m.vdot(a, b), y, y),
        (lambda m, a, b: m.inner(a, b), x, v),
        (lambda m, a, b: m.outer(a, b), v, y),
    ]
    for call, a, b in calls:
        beside_jax(call, a, b)


def test_products_keep_double() -> None:
    beside_numpy(lambda m, a, b: m.matmul(a, b), operand((3, 4), np.float64), operand((4, 2), np.float64))
