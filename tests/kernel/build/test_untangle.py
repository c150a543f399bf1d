"""Values read along two axes at once: pairwise differences, a matrix and its transpose, Gram matrices."""

from __future__ import annotations

import numpy as np
import pytest

import braze as bz
from braze.kernel.build import untangle

PROGRAMS = {
    "pairwise": lambda x: ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1),
    "outer difference": lambda x: x[:, None, 0] - x[None, :, 0],
    "symmetric": lambda x: x[:3, :3] + x[:3, :3].T,
    "gram": lambda x: x.T @ x,
    "gram of rows": lambda x: (x @ x.T).sum(),
    "square": lambda x: x[:3, :3] @ x[:3, :3],
    "computed twice": lambda x: abs(x)[:, None, :] * abs(x)[None, :, :] + 1.0,
    "reduced": lambda x: x.sum(1)[:, None] - x.sum(1)[None, :],
}


@pytest.mark.parametrize("copies", [untangle.MOST_COPIES, -100])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_value_read_at_two_places_is_right(name: str, copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untangle, "MOST_COPIES", copies)
    rows = 7 if copies > 0 else 9  # another shape, so that no program of the other limit is found
    x = np.random.default_rng(0).standard_normal((rows, 3)).astype(np.float32)
    found = np.asarray(bz.jit(PROGRAMS[name])(x))
    np.testing.assert_allclose(found, PROGRAMS[name](x.astype(np.float64)), rtol=1e-5, atol=1e-5)
