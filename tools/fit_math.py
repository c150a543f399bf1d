"""Fit the polynomials of the math library and write `src/braze/kernel/coefficients.py`.

Run `python tools/fit_math.py`; it takes about a minute and needs mpmath. Each row of `FITS` says which
function is approximated on which interval, in which power basis, and how small the error must be; the
degree is the least that reaches it. The fit is Remez's exchange in 60-digit arithmetic; coefficients are then
rounded to the dtype one after the other from the lowest degree, refitting the rest each time, so that the
rounded polynomial is nearly as good as the real one.

Source: E. Remez 1934; rounding by refitting as in N. Brisebarre and S. Chevillard, "Efficient polynomial
L-infinity approximations", 2007, in its simplest form.
"""

from __future__ import annotations

import functools
import pathlib
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
    """

    name: str
    dtype: str
    f: Function
    weight: Function
    low: mpf
    high: mpf
    bits: float
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
    ]
    return rows


class Remez:
    """Minimax fit of `fit.f` minus the fixed low coefficients, by powers from len(fixed) to degree."""

    def __init__(self, fit: Fit, degree: int) -> None:
        self.fit = fit
        self.degree = degree
        count = 40 * (degree + 2)
        middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
        self.grid = [middle - half * mp.cos(mp.pi * k / count) for k in range(count + 1)]
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
        usable = [k for k, w in enumerate(self.weights) if w > mpf("1e-30")]
        points = [usable[round(i * (len(usable) - 1) / free)] for i in range(free + 1)]
        best: list[mpf] = []
        least = mp.inf
        for _ in range(30):
            found = self._interpolate(points, fixed, first, free)
            errors = self._errors(found)
            worst = max(abs(e) for e in errors)
            if worst < least:
                best, least = found, worst
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
        usable = [k for k, w in enumerate(self.weights) if w > mpf("1e-30")]
        while len(runs) < wanted:
            ends = [usable[0], *runs, usable[-1]]
            gap = max(range(len(ends) - 1), key=lambda i: ends[i + 1] - ends[i])
            middle = (ends[gap] + ends[gap + 1]) // 2
            runs = sorted({*runs, middle})
        while len(runs) > wanted:
            runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
        return runs


def _rounded(value: mpf, dtype: str) -> mpf:
    # float() of an mpf rounds to nearest even; a second rounding to f32 is one of a 60-digit number's double.
    return mpf(float(np.float32(float(value)))) if dtype == "f32" else mpf(float(value))


def fit(row: Fit) -> tuple[list[mpf], float]:
    """Coefficients in the dtype, low degree first, and log2 of the worst weighted error."""
    for degree in range(2, 24):
        remez = Remez(row, degree)
        real = remez.solve([])
        if mp.log(remez.error(real), 2) > row.bits:
            continue
        fixed: list[mpf] = [] if row.refits else [_rounded(c, row.dtype) for c in real]
        while len(fixed) <= degree:
            fixed.append(_rounded(remez.solve(fixed)[len(fixed)], row.dtype))
        error = float(mp.log(remez.error(fixed), 2))
        if error <= row.bits:
            return fixed, error
    raise ValueError(f"{row.name} {row.dtype}: no degree below 24 reaches 2**{row.bits}")


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
    lines = [HEADER]
    for row in _fits():
        coefficients, error = fit(row)
        lines.append(f'    ("{row.name}", "{row.dtype}"): (  # {error:.1f}\n')
        lines += [f"        {float(c)!r},\n" for c in coefficients]
        lines.append("    ),\n")
        print(f"{row.name} {row.dtype}: degree {len(coefficients) - 1}, error 2**{error:.1f}")
    lines.append("}\n\n")
    lines += _two_over_pi(1408)
    target = pathlib.Path(__file__).parent.parent / "src/braze/kernel/coefficients.py"
    target.write_text("".join(lines))


if __name__ == "__main__":
    main()
