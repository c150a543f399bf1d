"""A million calls leave reference counts and memory where they were."""

from __future__ import annotations

import gc
import sys

import pytest

import braze as bz
import braze.numpy as bnp


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_million_calls_stay_level() -> None:
    f = bz.jit(lambda x: x**4 + 1)
    tree = bz.jit(lambda d: {k: v + 1 for k, v in d.items()})
    x, large = bnp.array([1.0, 2.0, 3.0, 4.0]), bnp.ones(5000)
    d = {"a": x, "b": large}

    def calls(n: int) -> None:
        for _ in range(n):
            f(x)
            f(2.0)
        for _ in range(n // 20):
            f(large)
            tree(d)

    calls(1000)
    gc.collect()
    before = [sys.getrefcount(v) for v in (x, large, x.aval, f, tree, None)], resident_bytes()
    calls(500_000)
    gc.collect()
    after = [sys.getrefcount(v) for v in (x, large, x.aval, f, tree, None)], resident_bytes()
    assert all(abs(a - b) < 20 for a, b in zip(before[0], after[0], strict=True)), (before, after)
    assert after[1] - before[1] < 4 << 20, f"{after[1] - before[1]} bytes more"
