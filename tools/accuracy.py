"""Go through every float32 and print the worst error of each math function, in ulp, and where it is.

Run `python -m tools.accuracy [--every N] [NAME …]`; all take some minutes a function, every N-th goes N times quicker.
"""

from __future__ import annotations

import argparse

import numpy as np
from tools.elementary import FUNCTIONS, ulps

import braze as bz

CHUNK = 1 << 22


def worst(name: str, every: int) -> tuple[float, float]:
    """The worst error over all finite f32 of the function's domain, and its argument."""
    function = FUNCTIONS[name]
    compiled = bz.jit(function.call)
    low, high = function.domain
    most, where = 0.0, 0.0
    for start in range(0, 1 << 32, CHUNK * every):
        bits = np.arange(start, min(start + CHUNK * every, 1 << 32), every, dtype=np.uint64)
        x = bits.astype(np.uint32).view(np.float32)
        x = x[np.isfinite(x) & (x >= low) & (x <= high)]
        if x.size == 0:
            continue
        off = ulps(function, np.asarray(compiled(x)), function.reference(x.astype(np.float64)))
        k = int(off.argmax())
        if off[k] > most:
            most, where = float(off[k]), float(x[k])
    return most, where


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("names", nargs="*", default=list(FUNCTIONS))
    given = parser.parse_args()
    with np.errstate(all="ignore"):
        for name in given.names:
            error, where = worst(name, given.every)
            print(f"{name:8} {error:.3f} ulp at {where!r}", flush=True)


if __name__ == "__main__":
    main()
