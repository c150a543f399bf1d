"""The math library as machine code: worst errors in ulp, special values, arguments of every size.

f32 results are compared with f64 references on a million arguments; the references themselves with mpmath.
f64 results are compared with mpmath on stratified arguments and on known hard ones.
`python tools/accuracy.py` goes through every f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

import braze as bz
import braze.numpy as bnp
from braze import lax

Array = np.ndarray[Any, Any]


def _erf_inv(x: mpmath.mpf) -> mpmath.mpf:
    """mpmath's, which refuses what lies outside [-1, 1]."""
    return mpmath.erfinv(x) if abs(x) <= 1 else mpmath.nan


# name: (function of braze, f64 reference, mpmath, f32 bound, f64 bound), bounds in ulp
FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any], float, float]] = {
    "exp": (bnp.exp, np.exp, mpmath.exp, 1.0, 2.0),
    "log": (bnp.log, np.log, mpmath.log, 1.0, 2.0),
    "sin": (bnp.sin, np.sin, mpmath.sin, 1.0, 2.0),
    "cos": (bnp.cos, np.cos, mpmath.cos, 1.0, 2.0),
    "tanh": (bnp.tanh, np.tanh, mpmath.tanh, 1.0, 2.0),
    "erf_inv": (lax.erf_inv, special.erfinv, _erf_inv, 3.0, 3.0),
    "sqrt": (bnp.sqrt, np.sqrt, mpmath.sqrt, 0.5, 0.5),
    "rsqrt": (lax.rsqrt, lambda x: 1 / np.sqrt(x), lambda x: 1 / mpmath.sqrt(x), 1.0, 2.0),
}
POSITIVE = ("log", "sqrt", "rsqrt")
HARD = (6381956970095103.0 * 2.0**797, 5.319372648326541e255, 3.0e4, 2.0e6, 2.0000001e6, 1e22, 1.7e308, 0.625)


def _arguments(name: str, dtype: Any, count: int) -> Array:
    """Arguments over all exponents, and densely where the function is interesting."""
    rng = np.random.default_rng(7)
    kind: Any = np.uint32 if dtype == np.float32 else np.uint64
    any_bits = rng.integers(0, np.iinfo(kind).max, count // 2, dtype=kind, endpoint=True).view(dtype)
    near = rng.uniform(-110, 110, count // 4).astype(dtype)
    nearer = rng.uniform(-2, 2, count // 4).astype(dtype)
    found = np.concatenate([any_bits, near, nearer])
    found = found[np.isfinite(found)]
    if name == "erf_inv":
        unit = rng.uniform(0, 1, count).astype(dtype)
        found = np.concatenate([found[np.abs(found) < 1], 2 * unit - 1, 1 - unit**6])
    return np.abs(found) if name in POSITIVE else found


def _ulps(found: Array, exact: Array) -> Array:
    """Distance in units in the last place of the exact result rounded to the dtype of `found`."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(found.dtype)
        spacing = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, found.dtype.type(1)))).astype(
            np.float64
        )
        distance = np.abs(found.astype(np.float64) - exact) / spacing
    return np.where(found == rounded, np.minimum(distance, 0.5), distance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_f32_is_within_its_bound_on_a_million_arguments(name: str) -> None:
    function, reference, _, bound, _ = FUNCTIONS[name]
    x = _arguments(name, np.float32, 1_000_000)
    found = np.asarray(bz.jit(function)(x))
    with np.errstate(all="ignore"):
        worst = np.nanmax(_ulps(found, reference(x.astype(np.float64))))
    assert worst <= bound, f"{name}: {worst} ulp"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_f64_is_within_its_bound(name: str) -> None:
    function, _, exact, _, bound = FUNCTIONS[name]
    x = _arguments(name, np.float64, 4000)
    if name not in (*POSITIVE, "erf_inv"):
        x = np.concatenate([x, HARD, np.negative(HARD)])
    found = np.asarray(bz.jit(function)(x))
    worst = 0.0
    with mpmath.workdps(40), np.errstate(all="ignore"):
        for argument, result in zip(x.tolist(), found.tolist()):
            digits = 340 if name in ("sin", "cos") and abs(argument) > 1e6 else 40
            with mpmath.workdps(digits):
                value = exact(mpmath.mpf(argument))
            rounded = float(value)
            if rounded == result or not np.isfinite(rounded):
                assert rounded == result, f"{name}({argument!r}) is {result}, not {rounded}"
                continue
            worst = max(worst, float(abs(mpmath.mpf(result) - value)) / float(np.spacing(abs(rounded))))
    assert worst <= bound, f"{name}: {worst} ulp"


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_f32_next_to_every_zero_of_the_short_reduction(name: str) -> None:
    function, reference, _, bound, _ = FUNCTIONS[name]
    at = (np.arange(-19098, 19099) * (np.pi / 2)).astype(np.float32)
    x = np.concatenate(
        [(at.view(np.int32) + d).view(np.float32) for d in (-3000, -40, -2, -1, 0, 1, 2, 40, 3000)]
    )
    x = x[np.isfinite(x)]
    found = np.asarray(bz.jit(function)(x))
    worst = np.max(_ulps(found, reference(x.astype(np.float64))))
    assert worst <= bound, f"{name}: {worst} ulp"


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_f64_next_to_zeros_of_the_short_reduction(name: str) -> None:
    function, _, exact, _, bound = FUNCTIONS[name]
    k = np.random.default_rng(3).integers(-1_270_000, 1_270_000, 300)
    at = np.concatenate([k, np.arange(1, 60)]) * (np.pi / 2)
    x = np.concatenate([np.nextafter(at, np.inf), at, at * (1 + 1e-12)])
    found = np.asarray(bz.jit(function)(x))
    with mpmath.workdps(60):
        values = [exact(mpmath.mpf(v)) for v in x.tolist()]
        pairs = zip(found.tolist(), values, strict=True)
        worst = max(float(abs(mpmath.mpf(y) - v)) / float(np.spacing(abs(float(v)))) for y, v in pairs)
    assert worst <= bound, f"{name}: {worst} ulp"


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos", "tanh", "erf_inv"])
def test_the_f64_reference_is_right(name: str) -> None:
    _, reference, exact, _, _ = FUNCTIONS[name]
    # mpmath takes two milliseconds for an inverse error function.
    x = _arguments(name, np.float32, 400 if name == "erf_inv" else 10_000).astype(np.float64)
    with np.errstate(all="ignore"):
        found = reference(x)
    with mpmath.workdps(80):
        for argument, result in zip(x.tolist(), found.tolist()):
            value = float(exact(mpmath.mpf(argument)))
            assert value == result or abs(value - result) <= 2e-15 * abs(value), f"{name}({argument!r})"


INFINITY, NAN = float("inf"), float("nan")
SPECIAL = {
    "exp": ((0.0, 1.0), (-0.0, 1.0), (INFINITY, INFINITY), (-INFINITY, 0.0), (NAN, NAN)),
    "log": ((0.0, -INFINITY), (-0.0, -INFINITY), (1.0, 0.0), (INFINITY, INFINITY), (-1.0, NAN), (NAN, NAN)),
    "sin": ((0.0, 0.0), (-0.0, -0.0), (INFINITY, NAN), (-INFINITY, NAN), (NAN, NAN)),
    "cos": ((0.0, 1.0), (-0.0, 1.0), (INFINITY, NAN), (-INFINITY, NAN), (NAN, NAN)),
    "tanh": ((0.0, 0.0), (-0.0, -0.0), (INFINITY, 1.0), (-INFINITY, -1.0), (NAN, NAN)),
    "erf_inv": (
        (0.0, 0.0),
        (-0.0, -0.0),
        (1.0, INFINITY),
        (-1.0, -INFINITY),
        (1.5, NAN),
        (-INFINITY, NAN),
        (NAN, NAN),
    ),
    "sqrt": ((0.0, 0.0), (-0.0, -0.0), (INFINITY, INFINITY), (-1.0, NAN), (NAN, NAN)),
    "rsqrt": ((0.0, INFINITY), (-0.0, -INFINITY), (INFINITY, 0.0), (-1.0, NAN), (NAN, NAN)),
}


@pytest.mark.parametrize("target", ["cpu", "numpy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str, dtype: Any, target: str) -> None:
    x = np.array([pair[0] for pair in SPECIAL[name]], dtype)
    wanted = np.array([pair[1] for pair in SPECIAL[name]], dtype)
    found = np.asarray(bz.jit(FUNCTIONS[name][0], target=target)(x))
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[wanted == 0]), np.signbit(wanted[wanted == 0]))
