"""Go through every float32 and print the worst error of each math function, in ulp, and where it is.

Run `python tools/accuracy.py [NAME …]`; it takes some minutes a function on two cores.
"""

from __future__ import annotations

import sys

import numpy as np

import braze as bz
import braze.numpy as bnp
from braze import lax

FUNCTIONS = {
    "exp": (bnp.exp, np.exp),
    "log": (bnp.log, np.log),
    "sin": (bnp.sin, np.sin),
    "cos": (bnp.cos, np.cos),
    "tanh": (bnp.tanh, np.tanh),
    "sqrt": (bnp.sqrt, np.sqrt),
    "rsqrt": (lax.rsqrt, lambda x: 1 / np.sqrt(x)),
}
CHUNK = 1 << 24


def worst(name: str) -> tuple[float, float]:
    """The worst error over all finite f32, and its argument."""
    function, reference = FUNCTIONS[name]
    compiled = bz.jit(function)
    most, where = 0.0, 0.0
    for start in range(0, 1 << 32, CHUNK):
        x = np.arange(start, start + CHUNK, dtype=np.uint32).view(np.float32)
        x = np.where(np.isfinite(x), x, np.float32(1))
        found = np.asarray(compiled(x))
        exact = reference(x.astype(np.float64))
        rounded = exact.astype(np.float32)
        spacing = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, np.float32(1)))).astype(
            np.float64
        )
        error = np.abs(found.astype(np.float64) - exact) / spacing
        error = np.where(
            (found == rounded) | (np.isnan(found) & np.isnan(rounded)), np.fmin(error, 0.5), error
        )
        k = int(np.nanargmax(error))
        if error[k] > most:
            most, where = float(error[k]), float(x[k])
    return most, where


def main() -> None:
    with np.errstate(all="ignore"):
        for name in sys.argv[1:] or FUNCTIONS:
            error, where = worst(name)
            print(f"{name:6} {error:.3f} ulp at {where!r}", flush=True)


if __name__ == "__main__":
    main()
