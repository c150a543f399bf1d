"""A CPU with SSE2 alone: no rounding instruction, no fused multiply-add, no masks; code calls the C library there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze.targets import host

pytestmark = pytest.mark.skipif("x86_64" not in host.host().triple, reason="a CPU of another family")
FUNCTIONS = ("floor", "ceil", "round", "trunc", "sqrt", "exp", "log", "sin", "tanh")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_named_like_c_functions_do_not_call_themselves(
    dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = replace(
        host.host(), cpu="x86-64", features="+sse2", vector_bytes=16, masked_memory=False, has_fma=False
    )
    monkeypatch.setattr(host, "host", lambda: old)
    x = np.linspace(0.1, 7, 37, dtype=dtype)
    for name in FUNCTIONS:
        found = np.asarray(bz.jit(getattr(bnp, name))(x))
        np.testing.assert_array_max_ulp(found, getattr(np, name)(x), 3)
