"""A new operation touches one file: one toy of each structure, declared here, works under jit with neighbours.

Nothing in braze knows these ops. Each is fused (or stands as its own kernel) between elementwise work, on both
targets, under verification of every stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import braze
import braze.numpy as bnp
from braze.errors import InternalError
from braze.hlo.ir import Instruction
from braze.kernel.build import FAMILIES, Built, BuiltLaunch
from braze.kernel.builder import Builder
from braze.ops.table import (
    EXACT,
    HLO_OPS,
    PRIMITIVES,
    Absent,
    Axes,
    Bound,
    Contraction,
    Cost,
    Family,
    IndexMap,
    Op,
    Regroup,
    Update,
)
from braze.target import Target

TOY = Absent("a toy")
X = np.arange(63, dtype=np.float32).reshape(7, 9) / 8


@pytest.fixture
def declare() -> Iterator[Callable[..., Op]]:
    """Declares an op, and forgets it after the test."""
    made: list[Op] = []

    def op(name: str, kernel: Any, **facets: Any) -> Op:
        given = {"error": EXACT, "cost": lambda *types, **attrs: Cost(types[0].size)} | facets
        one = Op(
            name, hlo=f"toy.{name}", kernel=kernel, jvp=TOY, transpose=TOY, batch=TOY, samples=list, **given
        )  # fmt: skip
        made.append(one)
        return one

    yield op
    for one in made:
        del PRIMITIVES[str(one.name)], HLO_OPS[str(one.hlo)]


def run(f: Callable[..., Any], *args: Any) -> tuple[list[Any], Any]:
    """The results on the CPU, equal to those of the numpy target; and the executable."""
    wanted = braze.jit(f, target="numpy")(*args)
    lowered = braze.jit(f).lower(*args).compile()
    found = braze.jit(f)(*args)
    for have, want in zip(_leaves(found), _leaves(wanted), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-6)
    return [np.asarray(x) for x in _leaves(found)], lowered


def _leaves(found: Any) -> list[Any]:
    return list(found) if isinstance(found, list | tuple) else [found]


def kernels(executable: Any) -> list[tuple[str, ...]]:
    return [k.ops for k in executable.kernels]


def test_lane_code(declare: Any) -> None:
    toy = declare(
        "fade", lambda b, x, y: b.add(x, b.mul(y, 0.5)), infer=lambda x, y: x, numpy=lambda x, y: x + y * np.float32(0.5)
    )  # fmt: skip
    (found,), executable = run(lambda x: bnp.maximum(toy(x * 2, x), 3), X)
    np.testing.assert_array_equal(found, np.maximum(X * 2.5, 3))
    assert kernels(executable) == [("multiply", "toy.fade", "maximum")]


def test_lane_code_of_several_results(declare: Any) -> None:
    toy = declare(
        "two",
        lambda b, x: [b.mul(x, 2.0), b.mul(x, 3.0)],
        infer=lambda x: [x, x],
        numpy=lambda x: [x * 2, x * 3],
        multiple_results=True,
    )

    def f(x: Any) -> Any:
        y, z = toy(x + 1)
        return y - z, y, z.sum(axis=1)

    (found, double, triple), executable = run(f, X)
    np.testing.assert_array_equal(found, -(X + 1))
    np.testing.assert_array_equal(double, 2 * (X + 1))
    np.testing.assert_allclose(triple, (3 * (X + 1)).sum(axis=1), rtol=1e-6)
    assert len(executable.kernels) <= 2
    assert sum("toy.two" in ops for ops in kernels(executable)) >= 1


def test_lane_code_of_two_results_of_which_one_is_used(declare: Any) -> None:
    toy = declare(
        "both", lambda b, x: [b.mul(x, 2.0), b.mul(x, 3.0)],
        infer=lambda x: [x, x], numpy=lambda x: [x * 2, x * 3], multiple_results=True,
    )  # fmt: skip
    (found,), executable = run(lambda x: toy(x)[1] + 1, X)
    np.testing.assert_array_equal(found, X * 3 + 1)
    assert kernels(executable) == [("toy.both", "add")]


def test_index_map(declare: Any) -> None:
    def code(b: Any, index: Any, x: Any, *, by: int) -> Any:
        row, column = index
        return x.at((row, b.rem_fast(b.add(column, by), x.type.shape[1])))

    toy = declare(
        "turn", IndexMap(code), infer=lambda x, *, by: x, numpy=lambda x, *, by: np.roll(x, -by, 1), attrs=("by",)
    )  # fmt: skip
    (found,), executable = run(lambda x: toy(x + 1, by=2) * 2, X)
    np.testing.assert_array_equal(found, np.roll(X + 1, -2, 1) * 2)
    assert kernels(executable) == [("add", "toy.turn", "multiply")]


def test_axes(declare: Any) -> None:
    toy = declare(
        "swap",
        Axes(lambda x: (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)),
        infer=lambda x: x.with_(shape=(*x.shape[:-2], x.shape[-1], x.shape[-2])),
        numpy=lambda x: np.swapaxes(x, -1, -2),
    )
    (found,), executable = run(lambda x, y: toy(x + 1) * y, X, X.T)
    np.testing.assert_array_equal(found, (X.T + 1) * X.T)
    assert kernels(executable) == [("add", "toy.swap", "multiply")]


def test_axes_that_repeat(declare: Any) -> None:
    toy = declare(
        "rows",
        Axes(lambda x, *, n: (1,)),
        infer=lambda x, *, n: x.with_(shape=(n, *x.shape)),
        numpy=lambda x, *, n: np.broadcast_to(x, (n, *x.shape)),
        attrs=("n",),
    )
    (found,), executable = run(lambda x, y: toy(x + 1, n=7) * y, X[0], X)
    np.testing.assert_array_equal(found, (X[0] + 1) * X)
    assert kernels(executable) == [("add", "toy.rows", "multiply")]


def test_regroup(declare: Any) -> None:
    toy = declare(
        "flat",
        Regroup(),
        infer=lambda x: x.with_(shape=(x.size,)),
        numpy=lambda x: x.reshape(-1),
        keeps_bytes=True,
    )
    (found,), executable = run(lambda x, y: toy(x + 1) * y, X, X.reshape(-1))
    np.testing.assert_array_equal(found, ((X + 1) * X).reshape(-1))
    assert kernels(executable) == [("add", "toy.flat", "multiply")]


def test_contraction(declare: Any) -> None:
    toy = declare(
        "rowdot",
        Contraction(lambda x, y: [[("r", 0), ("k", 0)]] * 2),
        infer=lambda x, y: x.with_(shape=x.shape[:1]),
        numpy=lambda x, y: (x * y).sum(axis=1, dtype=x.dtype),
        error=Bound(16),
    )
    (found,), executable = run(lambda x: toy(x + 1, x) * 2, X)
    np.testing.assert_allclose(found, ((X + 1) * X).sum(axis=1) * 2, rtol=1e-6)
    assert kernels(executable) == [("add", "toy.rowdot", "multiply")]


def test_update(declare: Any) -> None:
    def code(b: Any, index: Any, x: Any, row: Any, *, at: int) -> Any:
        return b.select(b.eq(index[0], at), row.at((index[1],)), x.at(tuple(index)))

    def numpy(x: Any, row: Any, *, at: int) -> Any:
        out = x.copy()
        out[at] = row
        return out

    toy_read = declare(
        "get_row",
        IndexMap(lambda b, index, x, *, at: x.at((at, *index))),
        infer=lambda x, *, at: x.with_(shape=x.shape[1:]),
        numpy=lambda x, *, at: x[at],
        attrs=("at",),
    )
    toy = declare(
        "set_row",
        Update(code, place=lambda b, index, x, row, *, at: (at, *index), reader=toy_read),
        infer=lambda x, row, *, at: x,
        numpy=numpy,
        attrs=("at",),
    )
    (found,), executable = run(lambda x, row: toy(x * 2, row + 1, at=3), X, X[0])
    want = X * 2
    want[3] = X[0] + 1
    np.testing.assert_array_equal(found, want)
    assert kernels(executable) == [("multiply",), ("add", "toy.set_row")]
    assert executable.kernels[1].bytes_written == X[0].nbytes  # the row alone
    (filled,), executable = run(lambda row: toy(np.zeros((7, 9), np.float32), row, at=3) + 1, X[0])
    np.testing.assert_array_equal(filled[3], X[0] + 1)
    assert len(executable.kernels) == 1


def reversal(instruction: Instruction, name: str, target: Target) -> Built:
    """Builder of the toy family: the elements in the opposite order, one after another."""
    n = instruction.operands[0].type.size
    b = Builder(name, 1)
    source = b.memory("in0", instruction.operands[0].type.dtype, n, "in")
    out = b.memory("out0", instruction.results[0].type.dtype, n, "out")

    with b.region(), b.for_(0, n) as i:
        b.store(out, i, b.load(source, b.sub(n - 1, i), "uniform"), "uniform")
    return Built((BuiltLaunch(b.finish(1, ops=("reversal",)), (("operand", 0), ("result", 0))),), ())


def test_family(declare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "reversal", reversal)
    toy = declare("reversal", Family("reversal"), infer=lambda x: x, numpy=lambda x: x[::-1].copy())
    (found,), executable = run(lambda x: toy(x + 1) * 2, X[0])
    np.testing.assert_array_equal(found, (X[0] + 1)[::-1] * 2)
    assert [k.strategy for k in executable.kernels] == ["loops", "family", "loops"]


def test_family_without_a_builder(declare: Any) -> None:
    toy = declare("nothing", Family("nothing"), infer=lambda x: x, numpy=lambda x: x)
    with pytest.raises(InternalError, match="nothing is of the family 'nothing'"):
        braze.jit(lambda x: toy(x + 1) * 2)(X)


def test_op_without_kernels(declare: Any) -> None:
    toy = declare("hole", Absent("not yet"), infer=lambda x: x, numpy=lambda x: x)
    with pytest.raises(InternalError, match="hole cannot be computed within a kernel"):
        braze.jit(lambda x: toy(x + 1) * 2)(X)


@pytest.mark.parametrize(
    "structure", [Regroup(), Axes(lambda x: ()), IndexMap(lambda b, index: 0)], ids=lambda s: type(s).__name__
)
def test_structures_of_one_result(declare: Any, structure: Any) -> None:
    with pytest.raises(AssertionError, match="has one result"):
        declare("many", structure, infer=lambda x: [x], numpy=lambda x: [x], multiple_results=True)
