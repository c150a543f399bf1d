"""Fit the polynomials of the math library and write `src/braze/kernel/coefficients.py`.

Run `python tools/fit_math.py [NAME …]`; named rows are fitted anew and the others kept, no name fits all, which
takes some minutes. It needs mpmath. Each row of `_fits` says which
function is approximated on which interval, in which power basis, and how small the error must be; the
degree is the least that reaches it, from `start` on. The fit is Remez's exchange in 60-digit arithmetic; coefficients are then
rounded to the dtype one after the other from the lowest degree, refitting the rest each time, so that the
rounded polynomial is nearly as good as the real one.

Source: E. Remez 1934; rounding by refitting as in N. Brisebarre and S. Chevillard, "Efficient polynomial
L-infinity approximations", 2007, in its simplest form.
"""

from __future__ import annotations

import functools
import pathlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from mpmath import mp, mpf

mp.dps = 60

Function = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """Approximate `f` on [low, high] by a polynomial p so that |p - f| * weight is at most 2**bits.

    Attributes:
        f: what the polynomial stands for (the tail of a series, not the whole function).
        weight: turns an absolute error of p into a relative error of the function.
        refits: whether coefficients are rounded one by one; on an interval far wider than 1, where the low ones
            settle little, all at once does better.
        start: the first degree that is tried.
        wide: whether coefficients are doubles although the error is meant for f32: the function is computed in f64.
    """

    name: str
    dtype: str
    f: Function
    weight: Function
    low: mpf
    high: mpf
    bits: float
    start: int = 2
    wide: bool = False
    refits: bool = True


def _series(f: Function, limit: mpf) -> Function:
    """f away from 0, and its limit there, where the quotient that defines it is 0/0."""

    def value(x: mpf) -> mpf:
        if abs(x) < mpf("1e-15"):
            return limit
        with mp.workdps(110):  # the quotient cancels up to 45 digits near zero
            return f(x)

    return value


LN2_HALF = mp.log(2) / 2 * mpf("1.0005")
QUARTER = (mp.pi / 4 * mpf("1.0005")) ** 2
ROOT = mp.sqrt(2)

_exp_tail = _series(lambda r: (mp.exp(r) - 1 - r) / r**2, mpf(1) / 2)
_log_tail = _series(lambda f: (mp.log(1 + f) - f + f**2 / 2) / f**3, mpf(1) / 3)
_atanh_tail = _series(
    lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2) / z, mpf(2) / 3
)
_sin_tail = _series(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mpf(1) / 6)
_cos_tail = _series(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, mpf(1) / 24)
_tanh_tail = _series(lambda z: (mp.tanh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mpf(1) / 3)
_log_tail_2 = _series(
    lambda z: (mp.log((1 + mp.sqrt(z)) / (1 - mp.sqrt(z))) / mp.sqrt(z) - 2 - 2 * z / 3) / z**2, mpf(2) / 5
)
_sinh_tail = _series(lambda z: (mp.sinh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mpf(1) / 6)
_cosh_tail = _series(lambda z: (mp.cosh(mp.sqrt(z)) - 1) / z, mpf(1) / 2)
_exp2_tail = _series(lambda r: (2**r - 1) / r, mp.log(2))
_erf_tail = _series(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 2 / mp.sqrt(mp.pi) - 1)
_log2_tail = _series(lambda f: mp.log(1 + f, 2) / f, 1 / mp.log(2))
_lgamma_near = _series(lambda v: mp.loggamma(2 + v) / v, mp.digamma(2))


def _odd_tail(f: Function, limit: mpf) -> tuple[Function, Function]:
    """(f(√z)/√z - 1)/z for an odd f with f(x) = x + limit·x³ …, and its weight."""
    tail = _series(lambda z: (f(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, limit)
    return tail, lambda z: z / (1 + z * tail(z))


_tan, _asin, _atan = (
    _odd_tail(mp.tan, mpf(1) / 3),
    _odd_tail(mp.asin, mpf(1) / 6),
    _odd_tail(mp.atan, -mpf(1) / 3),
)
_asinh, _atanh = _odd_tail(mp.asinh, -mpf(1) / 6), _odd_tail(mp.atanh, mpf(1) / 3)


def _stirling(w: mpf) -> mpf:
    """What Stirling's formula of log Γ(x) lacks, times x, for w = 1/x²."""
    x = 1 / mp.sqrt(w)
    return x * (mp.loggamma(x) - (x - mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2)


def _digamma_tail(w: mpf) -> mpf:
    """log x - 1/2x - ψ(x), over w = 1/x²."""
    x = 1 / mp.sqrt(w)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / w


ERFC_MIDDLE = mpf(4)
"""K of the variable t = (x - K)/(x + K) in which erfc is fitted."""


def _erfcx(t: mpf) -> mpf:
    """e^(x²)·erfc(x)·(x + K)."""
    x = ERFC_MIDDLE * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (x + ERFC_MIDDLE)


def _erfc_variable(x: str) -> mpf:
    return (mpf(x) - ERFC_MIDDLE) / (mpf(x) + ERFC_MIDDLE)


@functools.cache
def _erf_inv_ratio(w: mpf) -> mpf:
    """erf⁻¹(x)/x for w = -log(1 - x²), by Newton's method from the inverse of the normal distribution."""
    if w < mpf("1e-15"):
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    beyond = mp.exp(-w) / (1 + x)  # 1 - x
    y = mpf(-NormalDist().inv_cdf(float(beyond / 2))) / mp.sqrt(2)
    for _ in range(3):
        y += (mp.erfc(y) - beyond) * mp.sqrt(mp.pi) / 2 * mp.exp(y**2)
    return y / x


def _erf_inv_part(name: str, dtype: str, low: str, high: str, bits: float) -> Fit:
    """A part of erf⁻¹: near zero by w less its middle, elsewhere by √w less its middle."""
    first, last = mpf(low), mpf(high)
    if first == 0:
        middle, start, stop = last / 2, -last / 2, last / 2

        def f(t: mpf) -> mpf:
            return _erf_inv_ratio(t + middle)
    else:
        middle = mp.nint(8 * (mp.sqrt(first) + mp.sqrt(last)) / 2) / 8
        start, stop = mp.sqrt(first) - middle, mp.sqrt(last) - middle

        def f(t: mpf) -> mpf:
            return _erf_inv_ratio((t + middle) ** 2)

    return Fit(name, dtype, f, lambda t: 1 / f(t), start, stop, bits, refits=False)


def _log_weight(f: mpf) -> mpf:
    return f**2 if abs(f) < mpf("1e-15") else abs(f**3 / mp.log(1 + f))


def _fits() -> list[Fit]:
    rows = []
    for dtype, bits in (("f32", -27.5), ("f64", -56.0)):
        rows += [
            Fit("exp", dtype, _exp_tail, lambda r: r**2 / mp.exp(r), -LN2_HALF, LN2_HALF, bits),
            Fit("sin", dtype, _sin_tail, lambda z: z, mpf(0), QUARTER, bits),
            Fit("cos", dtype, _cos_tail, lambda z: z**2 * ROOT, mpf(0), QUARTER, bits),
        ]
    rows += [
        Fit("log", "f32", _log_tail, _log_weight, 1 / ROOT - 1, ROOT - 1, -26.0),
        Fit("log", "f64", _atanh_tail, lambda z: z / 2, mpf(0), ((ROOT - 1) / (ROOT + 1)) ** 2, -57.0),
        Fit("tanh", "f32", _tanh_tail, lambda z: z, mpf(0), mpf(1), -26.5),
        Fit("tanh", "f64", _tanh_tail, lambda z: z, mpf(0), mpf("0.625") ** 2, -56.5),
        _erf_inv_part("erf_inv_near", "f32", "0", "5", -24.2),
        _erf_inv_part("erf_inv_far", "f32", "5", "17.5", -24.8),
        _erf_inv_part("erf_inv_near", "f64", "0", "6.25", -54.2),
        _erf_inv_part("erf_inv_far", "f64", "6.25", "16", -53.0),
        _erf_inv_part("erf_inv_end", "f64", "16", "37", -52.4),
        # f32 in f64: errors of 2**-36 leave y·log2(x) enough digits.
        Fit(
            "log2",
            "f32",
            _log2_tail,
            lambda f: 1 / _log2_tail(f),
            1 / ROOT - 1,
            ROOT - 1,
            -37.0,
            10,
            wide=True,
        ),
        Fit(
            "log_twice",
            "f64",
            _log_tail_2,
            lambda z: z**2 / 2,
            mpf(0),
            ((ROOT - 1) / (ROOT + 1)) ** 2,
            -67.0,
            5,
        ),
        Fit(
            "erf_far",
            "f32",
            lambda t: mp.erfc(t + mpf("2.4609375")),
            lambda t: mpf(1),
            mpf("-1.4609375"),
            mpf("1.4609375"),
            -26.5,
            13,
            refits=False,
        ),
    ]
    half, quarter = mpf(1) / 2, mpf(1) / 4
    for dtype, bits, n in (("f32", -27.5, 1), ("f64", -56.5, 2)):
        rows += [
            Fit("exp2", dtype, _exp2_tail, lambda r: abs(r), -half, half * mpf("1.004"), bits, 5 * n - 1),
            Fit("sinh", dtype, _sinh_tail, lambda z: z, mpf(0), LN2_HALF**2, bits, 3 * n - 2),
            Fit("cosh", dtype, _cosh_tail, lambda z: z, mpf(0), LN2_HALF**2, bits, 3 * n - 1),
            Fit("tan", dtype, *_tan, mpf(0), QUARTER, bits, 7 * n - 2),
            Fit("asin", dtype, *_asin, mpf(0), quarter, bits, 5 * n - 2),
            Fit("asinh", dtype, *_asinh, mpf(0), quarter, bits, 5 * n - 2),
            Fit("atanh", dtype, *_atanh, mpf(0), quarter, bits, 6 * n - 2),
            Fit("erf", dtype, _erf_tail, lambda z: 1 / (1 + _erf_tail(z)), mpf(0), mpf(1), bits + 1, 5 * n),
            Fit("lgamma", dtype, _lgamma_near, lambda v: v, mpf(0), mpf(1), bits, 7 * n, wide=True),
            Fit("digamma", dtype, lambda v: mp.digamma(2 + v), lambda v: mpf(1), mpf(0), mpf(1), bits + 2, 7 * n, wide=True),
            Fit("stirling", dtype, _series(_stirling, mpf(1) / 12), lambda w: mp.sqrt(w) / 8,
                mpf(0), mpf(1) / 64, bits, 2 * n, wide=True),
            Fit("digamma_far", dtype, _series(_digamma_tail, mpf(1) / 12), lambda w: w,
                mpf(0), mpf(1) / 25, bits, 3 * n, wide=True),
            Fit("erfc", dtype, _erfcx, lambda t: 1 / _erfcx(t), _erfc_variable("0.45"),
                _erfc_variable("27.5"), max(bits, mpf("-53.2")), 10 * n - 1, wide=True, refits=n == 1),
            Fit("atan", dtype, *_atan, mpf(0), mpf(1), bits, 10 * n - 2),
        ]  # fmt: skip
    return rows


class Remez:
    """Minimax fit of `fit.f` minus the fixed low coefficients, by powers from len(fixed) to degree."""

    def __init__(self, fit: Fit, degree: int) -> None:
        self.fit = fit
        self.degree = degree
        count = 16 * (degree + 2)
        middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
        nodes = [middle - half * mp.cos(mp.pi * k / count) for k in range(count + 1)]
        self.grid = [
            x for x in nodes if fit.weight(x) > mpf("1e-30")
        ]  # where nothing counts, nothing is fitted
        self.values = [fit.f(x) for x in self.grid]
        self.weights = [fit.weight(x) for x in self.grid]

    def error(self, coefficients: list[mpf]) -> mpf:
        """The largest weighted error over the grid."""
        return max(abs(e) for e in self._errors(coefficients))

    def _errors(self, coefficients: list[mpf]) -> list[mpf]:
        high_first = coefficients[::-1]
        return [
            (mp.polyval(high_first, x) - v) * w
            for x, v, w in zip(self.grid, self.values, self.weights, strict=True)
        ]

    def solve(self, fixed: list[mpf]) -> list[mpf]:
        first, free = len(fixed), self.degree + 1 - len(fixed)
        if free == 0:
            return fixed
        # Not symmetric: the last coefficient of an odd power would be undetermined on symmetric points.
        points = [round(i * (len(self.grid) - 2) / free) for i in range(free + 1)]
        best: list[mpf] = []
        least, idle = mp.inf, 0
        for _ in range(30):
            found = self._interpolate(points, fixed, first, free)
            errors = self._errors(found)
            worst = max(abs(e) for e in errors)
            idle += 1
            if worst < least:
                idle = idle if worst > least * mpf("0.99") else 0
                best, least = found, worst
            if idle == 4:
                break
            moved = self._exchange(errors, len(points))
            if moved == points:
                break
            points = moved
        return best

    def _interpolate(self, points: list[int], fixed: list[mpf], first: int, free: int) -> list[mpf]:
        matrix = mp.matrix(free + 1, free + 1)
        right = mp.matrix(free + 1, 1)
        for row, k in enumerate(points):
            x = self.grid[k]
            for column in range(free):
                matrix[row, column] = x ** (first + column)
            matrix[row, free] = (-1) ** row / self.weights[k]
            right[row] = self.values[k] - (mp.polyval(fixed[::-1], x) if fixed else 0)
        solution = mp.lu_solve(matrix, right)
        return fixed + [solution[i] for i in range(free)]

    def _exchange(self, errors: list[mpf], wanted: int) -> list[int]:
        """The grid points of the largest errors, one for each run of equal sign, as many as wanted.

        Fixed coefficients can leave fewer runs; then the widest gaps between them are halved.
        """
        runs: list[int] = []
        for k, e in enumerate(errors):
            if e == 0:
                continue
            if runs and (errors[runs[-1]] > 0) == (e > 0):
                if abs(e) > abs(errors[runs[-1]]):
                    runs[-1] = k
            else:
                runs.append(k)
        while len(runs) < wanted:
            ends = [0, *runs, len(self.grid) - 1]
            gap = max(range(len(ends) - 1), key=lambda i: ends[i + 1] - ends[i])
            middle = (ends[gap] + ends[gap + 1]) // 2
            runs = sorted({*runs, middle})
        while len(runs) > wanted:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
        return runs


def _rounded(value: mpf, row: Fit) -> mpf:
    # float() of an mpf rounds to nearest even; a second rounding to f32 is one of a 60-digit number's double.
    return mpf(float(np.float32(float(value)))) if row.dtype == "f32" and not row.wide else mpf(float(value))


def fit(row: Fit) -> tuple[list[mpf], float]:
    """Coefficients in the dtype, low degree first, and log2 of the worst weighted error."""
    for degree in range(row.start, 30):
        remez = Remez(row, degree)
        real = remez.solve([])
        if mp.log(remez.error(real), 2) > row.bits:
            continue
        fixed: list[mpf] = [] if row.refits else [_rounded(c, row) for c in real]
        while len(fixed) <= degree:
            fixed.append(_rounded(remez.solve(fixed)[len(fixed)], row))
        error = float(mp.log(remez.error(fixed), 2))
        if error <= row.bits:
            return fixed, error
    raise ValueError(f"{row.name} {row.dtype}: no degree below 30 reaches 2**{row.bits}")


HEADER = '''"""Coefficients of the math library, low degree first. Written by `tools/fit_math.py`; do not edit.

Each comment gives log2 of the worst relative error of the polynomial on its interval.
"""

from __future__ import annotations

POLYNOMIALS: dict[tuple[str, str], tuple[float, ...]] = {
'''


def _two_over_pi(bits: int) -> list[str]:
    """2/π as a binary fraction: enough bits for the largest double and 128 more."""
    with mp.workdps(500):
        digits = f"{int(mp.floor(2 / mp.pi * mpf(2) ** bits)):0{bits // 4}x}"
    rows = [f'    "{digits[i : i + 88]}"\n' for i in range(0, len(digits), 88)]
    return [f"\nTWO_OVER_PI_BITS = {bits}\nTWO_OVER_PI = int(\n", *rows, "    , 16,\n)\n"]


def main() -> None:
    names = sys.argv[1:]
    kept = {} if not names else _present()
    lines = [HEADER]
    for row in _fits():
        text = kept.get((row.name, row.dtype)) if row.name not in names else None
        if text is None:
            coefficients, error = fit(row)
            text = f'    ("{row.name}", "{row.dtype}"): (  # {error:.1f}\n'
            text += "".join(f"        {float(c)!r},\n" for c in coefficients) + "    ),\n"
            print(f"{row.name} {row.dtype}: degree {len(coefficients) - 1}, error 2**{error:.1f}", flush=True)
        lines.append(text)
    lines.append("}\n\n")
    lines += _two_over_pi(1408)
    TARGET.write_text("".join(lines))


TARGET = pathlib.Path(__file__).parent.parent / "src/braze/kernel/coefficients.py"


def _present() -> dict[tuple[str, str], str]:
    """The entries of the file as it is, by name and dtype."""
    entries = re.findall(r'^    \("(\w+)", "(\w+)"\): \(.*?^    \),\n', TARGET.read_text(), re.M | re.S)
    whole = re.finditer(r'^    \("\w+", "\w+"\): \(.*?^    \),\n', TARGET.read_text(), re.M | re.S)
    return {key: match.group() for key, match in zip(entries, whole, strict=True)}


if __name__ == "__main__":
    main()
