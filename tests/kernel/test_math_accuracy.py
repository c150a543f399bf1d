"""The math library as machine code: worst errors in ulp, special values, arguments of every size.

f32 results are compared with f64 references on a million arguments; the references themselves with mpmath.
f64 results are compared with mpmath on stratified arguments and on known hard ones.
`python tools/accuracy.py` goes through every f32.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from tools.elementary import FUNCTIONS, arguments, ulps, worst_of_mpmath

import braze as bz
from braze import lax

Array = np.ndarray[Any, Any]


def bound(name: str, dtype: Any) -> float:
    error = FUNCTIONS[name].error
    return error.f32 if dtype == np.float32 else error.f64


@pytest.mark.parametrize("name", FUNCTIONS)
def test_f32_is_within_its_bound_on_a_million_arguments(name: str) -> None:
    function = FUNCTIONS[name]
    x = arguments(function, np.float32, 1_000_000)
    found = np.asarray(bz.jit(function.call)(x))
    with np.errstate(all="ignore"):
        off = ulps(function, found, function.reference(x.astype(np.float64)))
    worst = int(off.argmax())
    assert off[worst] <= bound(name, np.float32), f"{name}({x[worst]!r}): {off[worst]} ulp"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_f64_is_within_its_bound(name: str) -> None:
    function = FUNCTIONS[name]
    x = arguments(function, np.float64, 600 if name == "erf_inv" else 4000)
    worst, where = worst_of_mpmath(function, x, np.asarray(bz.jit(function.call)(x)))
    assert worst <= bound(name, np.float64), f"{name}({where!r}): {worst} ulp"


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_f32_next_to_every_zero_of_the_short_reduction(name: str) -> None:
    function = FUNCTIONS[name]
    at = (np.arange(-19098, 19099) * (np.pi / 2)).astype(np.float32)
    x = np.concatenate(
        [(at.view(np.int32) + d).view(np.float32) for d in (-3000, -40, -2, -1, 0, 1, 2, 40, 3000)]
    )
    x = x[np.isfinite(x)]
    found = np.asarray(bz.jit(function.call)(x))
    worst = np.max(ulps(function, found, function.reference(x.astype(np.float64))))
    assert worst <= bound(name, np.float32), f"{name}: {worst} ulp"


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_f64_next_to_zeros_of_the_short_reduction(name: str) -> None:
    function = FUNCTIONS[name]
    k = np.random.default_rng(3).integers(-1_270_000, 1_270_000, 300)
    at = np.concatenate([k, np.arange(1, 60)]) * (np.pi / 2)
    x = np.concatenate([np.nextafter(at, np.inf), at, at * (1 + 1e-12)])
    worst, where = worst_of_mpmath(function, x, np.asarray(bz.jit(function.call)(x)))
    assert worst <= bound(name, np.float64), f"{name}({where!r}): {worst} ulp"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_f64_reference_is_right(name: str) -> None:
    function = FUNCTIONS[name]
    x = arguments(function, np.float32, 400 if name == "erf_inv" else 2000).astype(np.float64)
    with np.errstate(all="ignore"):
        worst, where = worst_of_mpmath(function, x, function.reference(x))
    # f32 has 29 bits less: thousands of f64's units do not count there.
    assert worst <= 2.0**16, f"{name}({where!r}): {worst} ulp"


INFINITY, NAN = float("inf"), float("nan")
ZEROS = ((0.0, 0.0), (-0.0, -0.0), (NAN, NAN))
SPECIAL = {
    "exp": ((0.0, 1.0), (-0.0, 1.0), (INFINITY, INFINITY), (-INFINITY, 0.0), (NAN, NAN)),
    "exp2": (
        (0.0, 1.0),
        (-0.0, 1.0),
        (10.0, 1024.0),
        (-3.0, 0.125),
        (INFINITY, INFINITY),
        (-INFINITY, 0.0),
        (NAN, NAN),
    ),
    "expm1": (*ZEROS, (INFINITY, INFINITY), (-INFINITY, -1.0), (1e4, INFINITY), (-1e4, -1.0)),
    "log": ((0.0, -INFINITY), (-0.0, -INFINITY), (1.0, 0.0), (INFINITY, INFINITY), (-1.0, NAN), (NAN, NAN)),
    "log2": (
        (0.0, -INFINITY),
        (-0.0, -INFINITY),
        (1.0, 0.0),
        (8.0, 3.0),
        (0.25, -2.0),
        (INFINITY, INFINITY),
        (-INFINITY, NAN),
        (NAN, NAN),
    ),
    "log10": (
        (0.0, -INFINITY),
        (1.0, 0.0),
        (1000.0, 3.0),
        (1e10, 10.0),
        (INFINITY, INFINITY),
        (-1.0, NAN),
        (NAN, NAN),
    ),
    "log1p": (*ZEROS, (-1.0, -INFINITY), (-2.0, NAN), (INFINITY, INFINITY), (-INFINITY, NAN)),
    "sin": (*ZEROS, (INFINITY, NAN), (-INFINITY, NAN)),
    "cos": ((0.0, 1.0), (-0.0, 1.0), (INFINITY, NAN), (-INFINITY, NAN), (NAN, NAN)),
    "tan": (*ZEROS, (INFINITY, NAN), (-INFINITY, NAN)),
    "asin": (*ZEROS, (1.0, math.pi / 2), (-1.0, -math.pi / 2), (1.5, NAN), (-INFINITY, NAN)),
    "acos": (
        (1.0, 0.0),
        (0.0, math.pi / 2),
        (-1.0, math.pi),
        (1.5, NAN),
        (-1.5, NAN),
        (INFINITY, NAN),
        (NAN, NAN),
    ),
    "atan": (*ZEROS, (1.0, math.pi / 4), (INFINITY, math.pi / 2), (-INFINITY, -math.pi / 2)),
    "sinh": (*ZEROS, (INFINITY, INFINITY), (-INFINITY, -INFINITY), (1e4, INFINITY)),
    "cosh": (
        (0.0, 1.0),
        (-0.0, 1.0),
        (INFINITY, INFINITY),
        (-INFINITY, INFINITY),
        (-1e4, INFINITY),
        (NAN, NAN),
    ),
    "tanh": (*ZEROS, (INFINITY, 1.0), (-INFINITY, -1.0)),
    "asinh": (*ZEROS, (INFINITY, INFINITY), (-INFINITY, -INFINITY)),
    "acosh": ((1.0, 0.0), (0.5, NAN), (-5.0, NAN), (INFINITY, INFINITY), (-INFINITY, NAN), (NAN, NAN)),
    "atanh": (*ZEROS, (1.0, INFINITY), (-1.0, -INFINITY), (1.5, NAN), (-INFINITY, NAN)),
    "sqrt": (*ZEROS, (INFINITY, INFINITY), (-1.0, NAN)),
    "rsqrt": ((0.0, INFINITY), (-0.0, -INFINITY), (INFINITY, 0.0), (-1.0, NAN), (NAN, NAN)),
    "cbrt": (*ZEROS, (27.0, 3.0), (-8.0, -2.0), (INFINITY, INFINITY), (-INFINITY, -INFINITY)),
    "logistic": ((0.0, 0.5), (-0.0, 0.5), (INFINITY, 1.0), (-INFINITY, 0.0), (NAN, NAN)),
    "erf": (*ZEROS, (INFINITY, 1.0), (-INFINITY, -1.0)),
    "erfc": ((0.0, 1.0), (-0.0, 1.0), (INFINITY, 0.0), (-INFINITY, 2.0), (NAN, NAN)),
    "erf_inv": (*ZEROS, (1.0, INFINITY), (-1.0, -INFINITY), (1.5, NAN), (-INFINITY, NAN)),
    "lgamma": (
        (1.0, 0.0),
        (2.0, 0.0),
        (0.0, INFINITY),
        (-0.0, INFINITY),
        (-3.0, INFINITY),
        (INFINITY, INFINITY),
        (-INFINITY, INFINITY),
        (NAN, NAN),
    ),
    "digamma": ((0.0, NAN), (-0.0, NAN), (-3.0, NAN), (INFINITY, INFINITY), (-INFINITY, NAN), (NAN, NAN)),
}


@pytest.mark.parametrize("target", ["cpu", "numpy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, dtype: Any, target: str) -> None:
    x = np.array([pair[0] for pair in SPECIAL[name]], dtype)
    wanted = np.array([pair[1] for pair in SPECIAL[name]], dtype)
    found = np.asarray(bz.jit(FUNCTIONS[name].call, target=target)(x))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))


BINARY = {"pow": (lax.pow, np.power, mpmath.power), "atan2": (lax.atan2, np.arctan2, mpmath.atan2)}


def pairs(name: str, dtype: Any, count: int) -> tuple[Array, Array]:
    """Points for angles, over 40 powers of two; for powers, results over the whole range of the dtype."""
    rng = np.random.default_rng(11)
    if name == "atan2":
        points = rng.normal(size=(2, count)) * np.exp2(rng.uniform(-20, 20, (2, count)))
        return points[0].astype(dtype), points[1].astype(dtype)
    limit = 120 if dtype == np.float32 else 1000
    x = np.concatenate([np.exp2(rng.uniform(-limit, limit, count // 2)), rng.uniform(0.5, 2, count // 4),
                        1 + rng.normal(size=count - count // 2 - count // 4) * 1e-4]).astype(dtype)  # fmt: skip
    x = np.where(x == 1, dtype(2), x)
    with np.errstate(over="ignore"):
        y = (rng.uniform(-limit, limit, count) / np.log2(x.astype(np.float64))).astype(dtype)
    y[::3] = rng.uniform(-5, 5, len(y[::3]))
    return x, y


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_in_f32(name: str) -> None:
    function, reference, _ = BINARY[name]
    x, y = pairs(name, np.float32, 300_000)
    found = np.asarray(bz.jit(function)(x, y))
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64), y.astype(np.float64))
        rounded = exact.astype(np.float32)
        off = np.abs(found - exact) / np.spacing(
            np.abs(np.where(np.isfinite(rounded), rounded, np.float32(1)))
        )
    worst = int(np.where(found == rounded, 0, off).argmax())
    assert found[worst] == rounded[worst] or off[worst] <= 1, (
        f"{name}({x[worst]!r}, {y[worst]!r}): {off[worst]} ulp"
    )


@pytest.mark.parametrize("target", ["cpu", "numpy"])
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_in_f64(name: str, target: str) -> None:
    function, _, exact = BINARY[name]
    x, y = pairs(name, np.float64, 20_000 if target == "cpu" else 4000)
    found = np.asarray(bz.jit(function, target=target)(x, y))
    worst = 0.0
    with mpmath.workdps(45):
        for a, b, have in zip(x.tolist(), y.tolist(), found.tolist(), strict=True):
            value = exact(mpmath.mpf(a), mpmath.mpf(b))
            rounded = float(value)
            if have != rounded:
                worst = max(
                    worst, float(abs(mpmath.mpf(have) - value) / mpmath.mpf(float(np.spacing(abs(rounded)))))
                )
    assert worst <= 2, worst


EDGES = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1.5, INFINITY, -INFINITY, NAN, 2.0**24 + 1, 2.0**53,
         1e-40, -1e-40, 5e-324, 1e38, -1e38, 1e300, -1e300)  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "numpy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_special_values_of_binary_functions(name: str, dtype: Any, target: str) -> None:
    """Every pair of edges as C's pow and atan2 have it, which follow the tables of IEEE 754 and the Array API."""
    with np.errstate(over="ignore"):
        x, y = np.array(list(itertools.product(EDGES, repeat=2))).astype(dtype).T.copy()
    found = np.asarray(bz.jit(BINARY[name][0], target=target)(x, y))
    wanted = [_of_python(name, float(a), float(b)) for a, b in zip(x, y, strict=True)]
    with np.errstate(over="ignore"):
        exact = np.array(wanted).astype(dtype)
    np.testing.assert_allclose(found, exact, rtol=3 * np.finfo(dtype).eps, atol=0)
    told = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found[told]), np.signbit(exact[told]))


def _of_python(name: str, x: float, y: float) -> float:
    if name == "atan2":
        return math.atan2(x, y)
    try:
        return math.pow(x, y)
    except OverflowError:
        return -INFINITY if x < 0 and y % 2 == 1 else INFINITY
    except ValueError:  # a pole, or a root of a negative number
        if x != 0:
            return NAN
        return math.copysign(INFINITY, x) if y % 2 == 1 else INFINITY
