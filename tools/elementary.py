"""The elementary functions with their references: what tests and `tools/accuracy.py` share.

Each is braze's function, a reference in f64 on arrays, which is itself compared with mpmath, and mpmath's function.
Bounds are those of the operations' records.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from mpmath import mp
from scipy import special

import braze.numpy as bnp
from braze import lax
from braze.ops import angles
from braze.ops.table import PRIMITIVES, Ulp

Array = np.ndarray[Any, Any]
EVERYWHERE = (-math.inf, math.inf)
USUAL = (-110.0, 110.0)


@dataclass(frozen=True)
class Function:
    """One function.

    Attributes:
        op: name of the primitive.
        call: braze's function.
        reference: on f64 arrays, good to a few units in the last place of f64.
        exact: on mpmath's numbers.
        domain: where it is sampled over all exponents: finite results, and mpmath is quick.
        window: where it moves, sampled densely.
        hard: known hard arguments.
    """

    op: str
    call: Callable[..., Any]
    reference: Callable[..., Any]
    exact: Callable[..., Any]
    domain: tuple[float, float] = EVERYWHERE
    window: tuple[float, float] = USUAL
    hard: tuple[float, ...] = ()

    @property
    def error(self) -> Ulp:
        error = PRIMITIVES[self.op].error
        return error if isinstance(error, Ulp) else Ulp(0.5, 0.5)


def _power_of(base: int) -> Callable[[Any], Any]:
    return lambda x: mp.mpf(base) ** x


def _log_to(base: int) -> Callable[[Any], Any]:
    return lambda x: mp.log(x) / mp.log(base)


def _cbrt(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


def _log_gamma(x: Any) -> Any:
    if x > 0:
        return mp.loggamma(x)
    if x == mp.floor(x):
        return mp.inf
    return mp.log(mp.pi / abs(x * mp.sinpi(x))) - mp.loggamma(-x)


def _psi(x: Array) -> Array:
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, special.psi(x))


def _digamma(x: Any) -> Any:
    return mp.nan if x <= 0 and x == mp.floor(x) else mp.digamma(x)


EXPONENTIAL = (-2000.0, 2000.0)
POSITIVE = (5e-324, math.inf)
UNIT = (-1.0, 1.0)
TURNS = (
    6381956970095103.0 * 2.0**797,
    5.319372648326541e255,
    3.0e4,
    2.0e6,
    2.0000001e6,
    1e22,
    1.7e308,
    0.5,
    355.0,
)

_LIST = (
    Function("exp", lax.exp, np.exp, mp.exp, EXPONENTIAL, (-746.0, 710.0),
             hard=(709.782712893384, -708.3964185322641, -745.1, 1e-17, 2.0**-30)),
    Function("exp2", lax.exp2, np.exp2, _power_of(2), EXPONENTIAL, (-150.0, 128.0), (1023.9999999999999, -1074.4)),
    Function("expm1", lax.expm1, np.expm1, mp.expm1, EXPONENTIAL, hard=(709.782712893384, -37.43, 1e-17, 17.1683651)),
    Function("log", lax.log, np.log, mp.log, POSITIVE, (0.0, 4.0),
             hard=(1.0 + 2.0**-52, 1.0 - 2.0**-53, 0.9999, 1.0001, 5e-324, 1.797e308)),
    Function("log2", bnp.log2, np.log2, _log_to(2), POSITIVE, (0.0, 4.0), (1.0 + 2.0**-52, 1.0 - 2.0**-53, 5e-324)),
    Function("log10", bnp.log10, np.log10, _log_to(10), POSITIVE, (0.0, 4.0), (1.0 + 2.0**-52, 1000.0, 1e22, 5e-324)),
    Function("log1p", lax.log1p, np.log1p, mp.log1p, (-1.0 + 2.0**-53, math.inf), (-1.0, 3.0),
             hard=(-1.0 + 2.0**-53, 2.0**-53, -2.0**-54, 0.41421356)),
    Function("sin", lax.sin, angles.sin, mp.sin, hard=(3.141592653589793, *TURNS)),
    Function("cos", lax.cos, angles.cos, mp.cos, hard=(1.5707963267948966, *TURNS)),
    Function("tan", lax.tan, angles.tan, mp.tan, hard=(1.5707963267948966, 0.7853981633974483, *TURNS)),
    Function("asin", lax.asin, np.arcsin, mp.asin, UNIT, UNIT, (1.0 - 2.0**-53, 0.5, 0.5 + 2.0**-53)),
    Function("acos", lax.acos, np.arccos, mp.acos, UNIT, UNIT, (1.0 - 2.0**-53, 0.5, 0.5 + 2.0**-53)),
    Function("atan", lax.atan, np.arctan, mp.atan, hard=(1.0, 1.0 + 2.0**-52, 1e300)),
    Function("sinh", lax.sinh, np.sinh, mp.sinh, EXPONENTIAL, hard=(710.4758600739439, 0.3465736, 22.0)),
    Function("cosh", lax.cosh, np.cosh, mp.cosh, EXPONENTIAL, hard=(710.4758600739439, 0.3465736, 8.007018)),
    Function("tanh", lax.tanh, np.tanh, mp.tanh, EXPONENTIAL, (-20.0, 20.0), (2.0**-28, 0.5493061443340548, 19.06)),
    Function("asinh", lax.asinh, np.arcsinh, mp.asinh, hard=(0.5, 1e300, 2.0**500)),
    Function("acosh", lax.acosh, np.arccosh, mp.acosh, (1.0, math.inf), (1.0, 60.0), (1.0 + 2.0**-52, 1e300)),
    Function("atanh", lax.atanh, np.arctanh, mp.atanh, (-1.0 + 2.0**-53, 1.0 - 2.0**-53), UNIT, (1.0 - 2.0**-53, 0.5)),
    Function("sqrt", lax.sqrt, np.sqrt, mp.sqrt, POSITIVE, (0.0, 4.0)),
    Function("rsqrt", lax.rsqrt, lambda x: 1 / np.sqrt(x), lambda x: 1 / mp.sqrt(x), POSITIVE, (0.0, 4.0),
             hard=(5e-324, 1.797e308, 1.0 - 2.0**-53, 4.0)),
    Function("cbrt", lax.cbrt, np.cbrt, _cbrt, hard=(5e-324, 1.797e308, 8.0, 27.0)),
    Function("logistic", lax.logistic, lambda x: 1 / (1 + np.exp(-x)), lambda x: 1 / (1 + mp.exp(-x)), EXPONENTIAL,
             hard=(-745.0, -87.5, 0.0)),
    Function("erf", lax.erf, special.erf, mp.erf, (-40.0, 40.0), (-6.0, 6.0), (1.0, 0.46875, 3.92)),
    Function("erfc", lax.erfc, special.erfc, mp.erfc, (-40.0, 26.5), (-6.0, 26.5), (0.46875, 26.5, 10.05)),
    Function("erf_inv", lax.erf_inv, special.erfinv, mpmath.erfinv, (-1.0 + 2.0**-53, 1.0 - 2.0**-53), UNIT,
             hard=(1.0 - 2.0**-53, 0.9999, 0.9, 0.5, 1e-5)),
    Function("lgamma", lax.lgamma, special.gammaln, _log_gamma, (-1e4, 1e300), (-20.0, 40.0),
             hard=(1.0, 2.0, 3.0, 8.0, 1e-300, -2.457024738220800)),
    Function("digamma", lax.digamma, _psi, _digamma, (-200.0, 1e300), (-20.0, 40.0),
             hard=(1.4616321449683622, 2.0, 5.0, 1e-300)),
)  # fmt: skip
FUNCTIONS = {f.op: f for f in _LIST}


def arguments(function: Function, dtype: Any, count: int) -> Array:
    """Arguments over all exponents of the domain, dense in the window and next to zero, and the hard ones."""
    rng = np.random.default_rng(7)
    kind: Any = np.uint32 if dtype == np.float32 else np.uint64
    bits = rng.integers(0, np.iinfo(kind).max, count // 2, dtype=kind, endpoint=True)
    parts = [bits.view(dtype)]
    low, high = function.window
    parts.append(rng.uniform(low, high, count // 4))
    parts.append(rng.uniform(max(low, -2.0), min(high, 2.0), count // 4))
    parts += [np.array(function.hard), -np.array(function.hard)]
    if function.window == UNIT:
        parts.append(1 - rng.uniform(0, 1, count // 4) ** 6)
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.concatenate([p.astype(dtype) for p in parts])
        low, high = (dtype(end) for end in function.domain)
        found = np.where(found < low, -found, found)
    return found[np.isfinite(found) & (found >= low) & (found <= high) & (found != 0)]


def spacing(function: Function, exact: Array, dtype: Any) -> Array:
    """The unit in which errors count: the last place of the result in a dtype, at least of `error.least`."""
    with np.errstate(over="ignore"):
        rounded = np.asarray(exact).astype(dtype)
    size = np.maximum(np.abs(np.where(np.isfinite(rounded), rounded, dtype(1))), dtype(function.error.least))
    return np.spacing(size).astype(np.float64)


def ulps(function: Function, found: Array, exact: Array) -> Array:
    """How far results are from f64 references, in those units; a correctly rounded result is at most 0.5 off."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(found.dtype)
        distance = np.abs(found.astype(np.float64) - exact) / spacing(function, exact, found.dtype.type)
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    return np.where(same, np.fmin(distance, 0.5), np.where(np.isnan(distance), np.inf, distance))


def worst_of_mpmath(function: Function, x: Array, found: Array) -> tuple[float, float]:
    """The worst error of f64 or f32 results against mpmath, and where it is."""
    worst, where = 0.0, math.nan
    dtype = found.dtype.type
    values = []
    for argument in x.tolist():
        turns = function.op in ("sin", "cos", "tan") and abs(argument) > 1e6
        with mpmath.workdps(340 if turns else 45):
            values.append(function.exact(mp.mpf(argument)))
    with np.errstate(over="ignore"):
        rounded = np.array([float(v) for v in values]).astype(dtype)
    units = spacing(function, rounded, dtype)
    for argument, have, want, value, unit in zip(
        x.tolist(), found.tolist(), rounded.tolist(), values, units.tolist(), strict=True
    ):
        if have == want or (math.isnan(have) and math.isnan(want)):
            continue
        off = float(abs(mp.mpf(have) - value) / mp.mpf(unit)) if math.isfinite(have) else math.inf
        if off > worst:
            worst, where = off, argument
    return worst, where
