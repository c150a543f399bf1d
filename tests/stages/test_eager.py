"""Operations outside any trace: as jit gives them, bit for bit; effects at once; nothing compiled twice."""

from __future__ import annotations

import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import lax, ops
from braze.ops.table import Absent, Op
from braze.stages import eager
from braze.types import TensorType

RNG = np.random.default_rng(3)


def value(t: TensorType) -> np.ndarray:
    if t.dtype == bool:
        return RNG.integers(0, 2, t.shape).astype(bool)
    if t.dtype.kind in "iu":
        return RNG.integers(0, 5, t.shape).astype(t.dtype)
    return RNG.standard_normal(t.shape).astype(t.dtype)


def small_samples() -> list:
    found = []
    for op in ops.PRIMITIVES.values():
        if op.jaxprs or isinstance(op.numpy, Absent):
            continue
        kept = [s for s in op.samples() if all(t.size <= 1000 for t in s[0])]
        first = {tuple(t.dtype for t in types): (op, types, attrs) for types, attrs in reversed(kept)}
        found += [v for k, v in first.items() if all(d in ("float32", "float64", "int32", "bool") for d in k)]
    return found


SAMPLES = small_samples()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: f"{s[0].title}-{'-'.join(map(str, s[1]))}")
def test_an_operation_gives_what_jit_of_it_gives(sample: tuple) -> None:
    op, types, attrs = sample
    args = [value(t) for t in types]
    once = bz.tree.leaves(op(*args, **attrs))
    jitted = bz.tree.leaves(bz.jit(lambda *a: op(*a, **attrs))(*args))
    assert len(once) == len(jitted) > 0
    for a, b in zip(once, jitted, strict=True):
        assert a.aval is b.aval
        x, y = np.asarray(a), np.asarray(b)
        assert np.array_equal(np.isnan(x), np.isnan(y)) if x.dtype.kind == "f" else True
        fine = ~np.isnan(x) if x.dtype.kind == "f" else np.ones(x.shape, bool)
        assert x[fine].tobytes() == y[fine].tobytes()


def test_inexact_operations_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Op] = []
    compiled = eager.compile_closed
    monkeypatch.setattr(eager, "compile_closed", lambda *a: made.append(a) or compiled(*a))
    for _ in range(5):
        lax.tanh(np.full((3, 1, 7), 0.5, np.float32))
    assert len(made) <= 1


def test_results_do_not_view_a_callers_numpy_array() -> None:
    theirs = np.zeros((2, 3), np.float32)
    views = [
        lax.reshape(theirs, (6,)),
        lax.transpose(theirs, (1, 0)),
        bnp.asarray(theirs, copy=True),
        theirs[0] + bnp.zeros(3),
    ]
    theirs[:] = 1
    assert [float(v.sum()) for v in views] == [0, 0, 0, 0]


def test_callbacks_outside_jit_run_at_once_in_order() -> None:
    seen = []
    for i in range(3):
        bz.debug.callback(lambda x: seen.append(float(x)), bnp.asarray(float(i)))
        seen.append("between")
    assert seen == [0.0, "between", 1.0, "between", 2.0, "between"]


def test_debug_print_outside_jit(capsys: pytest.CaptureFixture[str]) -> None:
    bz.debug.print("x = {x}, {}", 3, x=bnp.ones(2))
    assert capsys.readouterr().out == "x = [1. 1.], 3\n"


def test_composed_functions_show_the_callers_line() -> None:
    jaxpr = bz.make_jaxpr(lambda x: bnp.sum(x))(bnp.ones(3))
    again = bz.make_jaxpr(lambda x: bnp.sum(x) * 2)(bnp.ones(3))
    lines = [j.eqns[0].source.line for j in (jaxpr, again)]
    assert lines[1] == lines[0] + 1


def test_gradients_outside_jit_find_their_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    compiled = eager.compile_closed
    monkeypatch.setattr(eager, "compile_closed", lambda *a: made.append(a) or compiled(*a))
    gradient = bz.grad(lambda x: bnp.sum(bnp.sin(x) * x))
    first = gradient(bnp.ones(5))
    count = len(made)
    for _ in range(3):
        assert np.array_equal(gradient(bnp.ones(5)), first)
    assert len(made) == count
