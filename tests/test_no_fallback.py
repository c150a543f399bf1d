"""Compiled code does the work: with every NumPy facet refusing, all samples and examples still run on the CPU.

Operations outside jit are sent through programs of one operation, and constants are not folded, since both may
use the facets by right.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import ops
from braze.ops.table import Absent, Op
from braze.stages import eager
from braze.types import TensorType

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
COMPUTED = ("float32", "float64", "int32", "int64", "bool")
RNG = np.random.default_rng(5)


def refuse(*args: Any, **attrs: Any) -> Any:
    raise AssertionError("a NumPy facet was asked for a result")


FACETS = {op: op.numpy for op in {*ops.PRIMITIVES.values(), *ops.HLO_OPS.values()}}


@pytest.fixture
def no_facets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for op in FACETS:
        monkeypatch.setattr(op, "numpy", refuse)
    monkeypatch.setattr(eager, "runs_at_once", lambda op: False)
    with bz.config(skip="fold", target="cpu"):
        yield


def value(t: TensorType) -> np.ndarray[Any, Any]:
    if t.dtype == bool:
        return RNG.integers(0, 2, t.shape).astype(bool)
    if t.dtype.kind == "i":
        return RNG.integers(0, 6, t.shape).astype(t.dtype)
    return np.asarray(RNG.uniform(0.5, 2, t.shape)).astype(t.dtype)


def samples() -> list[tuple[Op, tuple[TensorType, ...], dict[str, Any]]]:
    found = []
    for op in ops.PRIMITIVES.values():
        if op.jaxprs or isinstance(op.numpy, Absent):
            continue
        for types, attrs in op.samples():
            named = [*types, *(np.dtype(a) for k, a in attrs.items() if k.endswith("dtype"))]
            if (
                all(str(getattr(t, "dtype", t)) in COMPUTED for t in named)
                and sum(t.size for t in types) < 5000
            ):
                found.append((op, types, attrs))
    return found


SAMPLES = samples()
BY_OP = {op: [s for s in SAMPLES if s[0] is op] for op in dict.fromkeys(s[0] for s in SAMPLES)}


@pytest.mark.parametrize("op", BY_OP, ids=lambda op: op.title)
def test_samples_run_as_machine_code(op: Op, no_facets: None) -> None:
    for _, types, attrs in BY_OP[op]:
        args = [value(t) for t in types]
        shape = np.broadcast_shapes(*(t.shape for t in types)) if op.broadcasts else None
        given = [np.broadcast_to(a, shape) for a in args] if op.broadcasts else args
        wanted = FACETS[op](*given, **attrs)  # type: ignore[operator]
        wanted = list(wanted) if op.multiple_results else [wanted]
        jitted = bz.jit(lambda *a, attrs=attrs: op(*a, **attrs))
        for found in (jitted(*args), op(*args, **attrs)):
            for x, y in zip(bz.tree.leaves(found), wanted, strict=True):
                np.testing.assert_allclose(np.asarray(x), y, rtol=1e-4, atol=1e-4)


def test_most_operations_have_samples() -> None:
    with_regions = {op for op in ops.PRIMITIVES.values() if op.jaxprs}
    assert len(BY_OP) >= len(ops.PRIMITIVES) - len(with_regions) - 6


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples_run_as_machine_code(
    path: Path, no_facets: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_loops_branches_and_transformations_run_as_machine_code(no_facets: None) -> None:
    from braze import lax

    @bz.jit
    def f(x):
        def body(carry, row):
            return lax.cond(row.sum() > 0, lambda c: bnp.sin(c + row), lambda c: c - row, carry), carry * row

        last, rows = lax.scan(body, bnp.zeros(3), x)
        return (
            bnp.sum(lax.fori_loop(0, 3, lambda i, s: s * 0.5 + i, rows))
            + lax.while_loop(lambda v: v.sum() < 100, lambda v: v * v + 1, last).sum()
        )

    x = bnp.arange(12.0).reshape(4, 3) - 5
    assert np.isfinite(float(f(x)))
    g = bz.vmap(bz.grad(lambda x: bnp.sum(bnp.tanh(x @ x.T))))
    assert g(bnp.ones((2, 3, 3))).shape == (2, 3, 3)


def test_the_refusal_is_real(no_facets: None) -> None:
    with pytest.raises(AssertionError, match="NumPy facet"):
        bz.jit(lambda x: x + 1, target="numpy")(bnp.ones(3))
