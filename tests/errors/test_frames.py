"""Tracebacks end at the user's line: braze's own frames are hidden, outside of programs too."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import errors, knobs, lax

X = np.ones(3, np.float32)
CALLS: dict[str, Callable[[Any], Any]] = {
    "operator": lambda x: x + bnp.ones(4),
    "reflected operator": lambda x: np.ones(4, np.float32) + x,
    "function": lambda x: bnp.add(x, bnp.ones(4)),
    "method": lambda x: x.reshape(2, 2),
    "jitted method": lambda x: x.sum(axis=3),
    "index": lambda x: x[7],
    "conversion": lambda x: float(x),
    "lax": lambda x: lax.add(x, bnp.ones(4)),
    "creation": lambda x: bnp.zeros(-1),
    "loop": lambda x: lax.scan(lambda c, y: (bnp.ones(2), y), x, x),
    "program": lambda x: bz.jit(lambda y: y + bnp.ones(4))(x),
    "gradient": lambda x: bz.grad(lambda y: y)(x),
}


def ours(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [f.name for f in frames if Path(f.filename).is_relative_to(Path(errors.__file__).parent)]


@pytest.mark.parametrize("name", CALLS)
def test_no_frame_of_braze_is_shown(name: str) -> None:
    with pytest.raises(errors.BrazeError) as caught:
        CALLS[name](bnp.array(X))
    assert ours(caught.value) == []
    assert caught.value.source is not None and caught.value.source.file == __file__


def test_all_frames_are_shown_on_request() -> None:
    with knobs.config(traceback="full"), pytest.raises(errors.BrazeError) as caught:
        CALLS["function"](bnp.array(X))
    assert "broadcast_shapes" in ours(caught.value)


def test_faults_of_the_user_inside_keep_their_line() -> None:
    def loss(x: Any) -> Any:
        return x.nonsense

    with pytest.raises(AttributeError) as caught:
        bnp.apply_along_axis(loss, 0, X) if hasattr(bnp, "apply_along_axis") else bz.vmap(loss)(X)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "loss"
