"""The operations of `braze.lax` beside `jax.lax`: values, types and weak types, on both targets and outside jit."""

from __future__ import annotations

from typing import Any

import jax
import jax.lax
import numpy as np
import pytest

import braze as bz
import braze.lax
import braze.numpy as bnp
from braze import lax

RNG = np.random.default_rng(13)
X = np.asarray(RNG.standard_normal((3, 4)), np.float32)
P = np.abs(X) + 0.5
N = np.asarray(RNG.integers(-5, 6, (3, 4)), np.int32)
B = X > 0

UNARY = ("abs", "ceil", "cos", "exp", "floor", "is_finite", "neg", "sign", "sin", "square", "tanh", "round")
BINARY = ("add", "sub", "mul", "div", "rem", "max", "min", "eq", "ne", "lt", "le", "gt", "ge")
INSIDE = ("asin", "acos", "atanh", "erf_inv")
CURVES = ("exp2", "expm1", "tan", "atan", "sinh", "cosh", "asinh", "cbrt", "logistic", "erf", "erfc")
INTEGER = ("bitwise_and", "bitwise_or", "bitwise_xor")
SHIFTS = ("shift_left", "shift_right_arithmetic", "shift_right_logical")

CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{name: (lambda l, x, n=name: getattr(l, n)(x), (X,)) for name in UNARY},
    **{name: (lambda l, x, n=name: getattr(l, n)(x), (P,)) for name in ("log", "sqrt", "rsqrt")},
    **{name: (lambda l, x, y, n=name: getattr(l, n)(x, y), (X, P)) for name in BINARY},
    **{f"{n} int": (lambda l, x, y, n=n: getattr(l, n)(x, y), (N, N * 0 + 3)) for n in (*BINARY, *INTEGER, *SHIFTS)},
    **{f"{n} bool": (lambda l, x, y, n=n: getattr(l, n)(x, y), (B, ~B)) for n in (*INTEGER, "eq", "ne")},
    **{f"{n} scalar": (lambda l, x, n=n: (getattr(l, n)(x, 2.0), getattr(l, n)(2.0, x)), (P,)) for n in BINARY},
    **{f"reduce_{n}": (lambda l, x, n=n: getattr(l, f"reduce_{n}")(x, (0,)), (X,)) for n in ("sum", "prod", "max", "min")},
    **{f"reduce_{n}": (lambda l, x, n=n: getattr(l, f"reduce_{n}")(x, (1,)), (B,)) for n in ("and", "or")},
    **{name: (lambda l, x, n=name: getattr(l, n)(x / 4), (X,)) for name in INSIDE},
    **{name: (lambda l, x, n=name: getattr(l, n)(x), (X,)) for name in CURVES},
    **{name: (lambda l, x, n=name: getattr(l, n)(x), (P,)) for name in ("log1p", "lgamma", "digamma")},
    "acosh": (lambda l, x: l.acosh(x + 1), (P,)),
    "pow": (lambda l, x, y: (l.pow(x, y), l.pow(x, 3), l.atan2(y, x)), (P, X)),
    "bitwise_not": (lambda l, x: l.bitwise_not(x), (N,)),
    "integer_pow": (lambda l, x: (l.integer_pow(x, 3), l.integer_pow(x, -2), l.integer_pow(x, 0)), (P,)),
    "clamp": (lambda l, x: (l.clamp(-0.5, x, 0.5), l.clamp(x, x * 2, x + 1)), (X,)),
    "select": (lambda l, p, x: (l.select(p, x, -x), l.select_n(p, x, -x)), (B, X)),
    "select_n int": (lambda l, w, x: l.select_n(w, x, -x, x * 2), (np.abs(N) % 3, X)),
    "convert": (lambda l, x: (l.convert_element_type(x, "int32"), l.convert_element_type(x, bool)), (X * 3,)),
    "bitcast": (lambda l, x: l.bitcast_convert_type(x, "int32"), (X,)),
    "broadcast": (lambda l, x: (l.broadcast(x, (2,)), l.broadcast_in_dim(x, (3, 2, 4), (0, 2))), (X,)),
    "reshape": (lambda l, x: (l.reshape(x, (2, 6)), l.reshape(x, (12,), (1, 0))), (X,)),
    "dims": (lambda l, x: l.squeeze(l.expand_dims(x, (0, 3)), (0,)), (X,)),
    "transpose": (lambda l, x: (l.transpose(x, (1, 0)), l.transpose(x, (0, 1))), (X,)),
    "rev": (lambda l, x: l.rev(x, (0, 1)), (X,)),
    "pad": (lambda l, x: (l.pad(x, 1.5, ((1, 2, 1), (-1, 0, 0)))), (X,)),
    "concatenate": (lambda l, x: l.concatenate([x, x * 2], 1), (X,)),
    "iota": (lambda l: (l.iota("float32", 4), l.broadcasted_iota("int32", (2, 3), 1)), ()),
    "full": (lambda l, x: (l.full((2,), 7), l.full((2,), 7, "float32"), l.full_like(x, 2)), (X,)),
    "arg": (lambda l, x: (l.argmax(x, 1, "int32"), l.argmin(x, 0, "int32")), (X,)),
    "dot": (lambda l, x: (l.dot(x, x.T), l.dot(x[0], x[1])), (X,)),
    "dot_general": (lambda l, x: l.dot_general(x, x, (((0,), (0,)), ((1,), (1,)))), (X,)),
    "slice": (lambda l, x: (l.slice(x, (0, 1), (3, 4), (2, 2)), l.slice_in_dim(x, -3, None, 2, axis=1)), (X,)),
    "index_in_dim": (lambda l, x: (l.index_in_dim(x, -1), l.index_in_dim(x, 1, 1, keepdims=False)), (X,)),
    **{f"{n}": (lambda l, x, n=n: (getattr(l, n)(x), getattr(l, n)(x, axis=1, reverse=True)), (X,))
       for n in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")},
    "associative_scan": (lambda l, x: l.associative_scan(lambda u, v: (u[0] * v[0], u[1] + v[1]), (x, x), axis=1), (X,)),
    "reduce": (lambda l, x: (l.reduce(x, 1.0, l.mul, (0,)), l.reduce(x, 0.5, lambda u, v: u * v, (0, 1)),
                             l.reduce((x, x), (0.0, 1.0), lambda u, v: (u[0] + v[0], u[1] * v[1]), (1,))), (X,)),
    "reduce_window": (lambda l, x: (l.reduce_window(x, 0.0, l.add, (2, 2), (1, 1), "SAME"),
                                    l.reduce_window(x, -np.inf, l.max, (2, 3), (2, 1), "VALID"),
                                    l.reduce_window(x, 1.0, lambda u, v: u * v, (2, 2), (1, 1), "SAME_LOWER"),
                                    l.reduce_window((x, x), (0.0, -np.inf), lambda u, v: (u[0] + v[0], l.max(u[1], v[1])),
                                                    (1, 2), (1, 2), window_dilation=(1, 2))), (X,)),
    "sort": (lambda l, x, i: (l.sort(x), l.sort((i, x), 0, num_keys=2), l.sort_key_val(i, x), l.top_k(x, 2)), (X, N)),
    "stop_gradient": (lambda l, x: l.stop_gradient({"x": x}), (X,)),
}  # fmt: skip


def check(call: Any, *args: Any) -> None:
    wanted = jax.tree.leaves(jax.jit(lambda *a: call(jax.lax, *a))(*args))
    given = [bnp.asarray(a) for a in args]
    runs = [
        call(braze.lax, *given),
        *(bz.jit(lambda *a: call(braze.lax, *a), target=t)(*given) for t in ("cpu", "numpy")),
    ]
    for found in runs:
        for x, y in zip(bz.tree.leaves(found), wanted, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype) and (
                x.weak_type == y.weak_type or x.dtype == bool
            )
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_operation(name: str) -> None:
    call, args = CALLS[name]
    check(call, *args)


def _gather(l: Any, x: Any, i: Any) -> Any:
    return l.gather(x, i, l.GatherDimensionNumbers((1,), (0,), (0,)), (1, 3), mode=l.GatherScatterMode.CLIP)


def _scatter(name: str) -> Any:
    def call(l: Any, x: Any, i: Any, u: Any) -> Any:
        return getattr(l, name)(x, i, u, l.ScatterDimensionNumbers((1,), (0,), (0,)), mode="drop")

    return call


ROWS = np.array([[1], [0], [9]], np.int32)
UPDATES = np.arange(9, dtype=np.float32).reshape(3, 3) - 4
CALLS["gather"] = (_gather, (X, ROWS))
CALLS["index_take"] = (lambda l, x, i: l.index_take(x, [i[:2, 0]], [0]), (X, ROWS))
CALLS |= {
    name: (_scatter(name), (X, ROWS, UPDATES))
    for name in ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")
}


class Recorder:
    """`braze.lax`, remembering which of its names were used."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.used.add(name)
        return getattr(braze.lax, name)


def test_every_operation_is_called() -> None:
    recorder = Recorder()
    for call, args in CALLS.values():
        call(recorder, *map(bnp.asarray, args))
    for call in dynamic_calls({}):
        call(recorder, bnp.asarray(X), 1)
    loops = {"cond", "fori_loop", "map", "scan", "switch", "while_loop"}
    assert set(lax.__all__) - recorder.used == loops


def dynamic_calls(options: dict[str, Any]) -> list[Any]:
    return [
        lambda l, x, i: l.dynamic_slice(x, (i, 1), (2, 2), **options),
        lambda l, x, i: l.dynamic_slice_in_dim(x, i, 2, axis=1, **options),
        lambda l, x, i: l.dynamic_index_in_dim(x, i, 0, keepdims=False, **options),
        lambda l, x, i: l.dynamic_update_slice(x, x[:2, :2] * 0, (i, i), **options),
        lambda l, x, i: l.dynamic_update_slice_in_dim(x, x[:2] * 0, i, 0, **options),
        lambda l, x, i: l.dynamic_update_index_in_dim(x, x[0] * 0, i, 0, **options),
    ]


@pytest.mark.parametrize("at", [0, 1, 2, 9, -1, -9])
def test_dynamic_slices_and_updates(at: int) -> None:
    for options in ({}, {"allow_negative_indices": False}):
        for call in dynamic_calls(options):
            check(call, X, np.int32(at))
    check(lambda l, x: l.dynamic_slice(x, (at, 0), (1, 2)), X)


def test_special_values_of_division_conversion_and_extremes() -> None:
    f = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 2.5], np.float32)
    check(lambda l, x: (l.convert_element_type(x, "int32"), l.is_finite(x), l.sign(x), l.abs(x)), f)
    check(lambda l, x, y: (l.max(x, y), l.min(x, y), l.div(x, y), l.rem(x, y)), f, f[::-1].copy())
    i = np.array([5, -5, -(2**31), 0], np.int32)
    for d in (0, -1, 3):
        check(lambda l, x, y: (l.div(x, y), l.rem(x, y)), i, np.full(4, d, np.int32))
    check(lambda l, x: (l.shift_left(x, x * 0 + 40), l.shift_right_arithmetic(x, x * 0 + 40)), i)


def test_scalars_take_the_other_operands_dtype() -> None:
    assert lax.add(np.float64(1), 2).dtype == np.float64
    assert lax.mul(np.int64(3), 2).dtype == np.int64
    with pytest.raises(bz.DTypeError):
        lax.add(np.int32(1), 2.5)
