"""max and min along rows, where the cheap pass does not settle them: NaN, infinities, zeros of both signs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernel.build.fusions import Graph, f32, run

from braze.kernel.build import reduce
from braze.kernel.build.reduce import Watched

WIDTH = 150


def _rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((20, WIDTH)).astype(np.float32)
    rows = [plain[:4]]
    for k, special in enumerate((np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38)):
        one = plain[k].copy()
        one[rng.integers(WIDTH)] = special
        rows += [one[None], np.full((1, WIDTH), special, np.float32)]
    for low in (-1.0, 0.0):  # zeros of both signs as the largest, then alone
        signs = np.where(rng.random((4, WIDTH)) < 0.5, np.float32(0.0), np.float32(-0.0))
        rows.append(np.where(rng.random((4, WIDTH)) < 0.5, signs, np.float32(low) * np.abs(plain[:4])))
    both = plain[:3].copy()
    both[:, 3], both[:, 149] = np.inf, -np.inf
    both[1, 77] = np.nan
    return np.concatenate([*rows, both]).astype(np.float32)


@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize("init", ["identity", "zero", "nan"])
def test_extremes_of_rows_have_the_right_bits(op: str, init: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Watched] = []

    class Counted(Watched):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)  # type: ignore[arg-type]
            made.append(self)

    monkeypatch.setattr(reduce, "Watched", Counted)
    rows = _rows()
    g = Graph(f32(*rows.shape))
    start = {"identity": -np.inf if op == "maximum" else np.inf, "zero": -0.0, "nan": np.nan}[init]
    run(g.fusion(g.reduce(op, g.negate(g.parameters[0]), start, (1,))), [rows])
    assert made
