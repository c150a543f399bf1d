"""Whole programs at every stage, as text for a pinned machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden import compare

import braze as bz
import braze.numpy as bnp
from braze import lax
from braze.inspect.journey import markdown, stages

HERE = Path(__file__).parent


@bz.jit
def softmax(x):
    e = bnp.exp(x - bnp.max(x, axis=-1, keepdims=True))
    return e / bnp.sum(e, axis=-1, keepdims=True)


@bz.jit
def count(x):
    return lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * 0.5), (0, x))


PROGRAMS = {"softmax": (softmax, bnp.ones((4, 8))), "count": (count, bnp.ones(4))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_journey(name: str, bless: bool) -> None:
    function, *args = PROGRAMS[name]
    compare(HERE / f"{name}.md", markdown(function, *args), bless)


def test_stages_come_in_order() -> None:
    titles = [stage.title for stage in stages(softmax.trace(bnp.ones((4, 8))))]
    fixed = [title for title in titles if not title.startswith("After")]
    assert fixed == ["jaxpr", "HLO", "Program", "Kernels", "LLVM IR", "Assembly"]
    assert "After the pass fusion" in titles
