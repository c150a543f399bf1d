"""Index maps without elements inside reductions: no lane runs them, the result is the initial value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import lax

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "concatenate": lambda x: bnp.concatenate([x, x * 2]),
    "slice": lambda x: (x + 1)[:0],
    "reverse": lambda x: (x + 1)[::-1],
    "pad": lambda x: lax.pad(x + 1, 0.0, [(0, 0, 3)]),
    "pad to something": lambda x: lax.pad(x + 1, 2.0, [(1, 1, 0)]),
    "dynamic_slice": lambda x: lax.dynamic_slice(x + 1, (0,), (0,)),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x + 1, x, (0,)),
    "iota": lambda x: x + lax.iota(np.float32, 0),
    "broadcast": lambda x: bnp.broadcast_to(x, (3, 0)),
    "reshape": lambda x: bnp.reshape(x + 1, (0, 4)),
    "transpose": lambda x: bnp.reshape(x + 1, (0, 4)).T,
    "dot": lambda x: bnp.reshape(x, (3, 0)) @ bnp.reshape(x, (0, 2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sum_over_nothing(name: str) -> None:
    x = np.zeros(0, np.float32)

    def f(x: Any) -> Any:
        return bnp.sum(PROGRAMS[name](x)) + 1.0

    found = np.asarray(bz.jit(f)(x))
    np.testing.assert_array_equal(found, np.asarray(bz.jit(f, target="numpy")(x)))
