"""Reshapes that split and merge axes: one launch where axes line up, the right value wherever they do or not."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from tests.kernel.build.fusions import Executed, Graph, f32, samples, softmax

from braze.dtypes import I32
from braze.hlo.axes import Cuts
from braze.hlo.evaluate import evaluate
from braze.hlo.ir import Module, Value
from braze.hlo.verify import verify
from braze.passes.fusion import fusion
from braze.targets.host import host
from braze.types import TensorType


def run_on_machine(module: Module, args: list[np.ndarray]) -> tuple[list[np.ndarray], int]:
    """Results of a fused module, its fusions by evaluator and machine; and the number of launches."""
    values: dict[Value, np.ndarray] = dict(zip(module.main.region.parameters, args, strict=True))
    launches = 0
    for i in module.main.region.instructions:
        operands = [values[v] for v in i.operands]
        if i.op.hlo == "braze.fusion":
            executed = Executed(i, operands)
            launches += len(executed.built.launches)
            results = executed.results
        else:
            results = [i.op.numpy(*operands, **i.attrs)]
        values.update(zip(i.results, results, strict=True))
    return [values[v] for v in module.main.region.results], launches


def launches_of(module: Module, **tolerance: float) -> int:
    """The launches of a module, after comparing their results with the meaning of its HLO."""
    after = fusion(module, target=host())
    verify(after)
    args = samples(module.main.region.parameter_types)
    found, launches = run_on_machine(after, args)
    for x, y in zip(found, evaluate(module, args), strict=True):
        np.testing.assert_allclose(x, y, **tolerance)
    return launches


def heads(g: Graph, x: Value) -> Value:
    batch, length, width = x.type.shape
    split = g.reshape(g.abs(x), shape=(batch, length, 4, width // 4))
    return g.abs(g.transpose(split, permutation=(0, 2, 1, 3)))


def vector_product(g: Graph, x: Value) -> Value:
    flat = [g.reshape(y, shape=(x.type.size,)) for y in (g.abs(x), g.sine(x))]
    return g.dot(*flat, ((0,), (0,)))


ALIGNED: dict[str, tuple[tuple[int, ...], Callable[[Graph, Value], Value]]] = {
    "softmax of groups": ((16, 132), lambda g, x: softmax(g, g.reshape(g.abs(x), shape=(16, 4, 33)))),
    "merged rows": ((4, 5, 33), lambda g, x: softmax(g, g.reshape(g.abs(x), shape=(20, 33)))),
    "there and back": (
        (16, 132),
        lambda g, x: g.abs(g.reshape(softmax(g, g.reshape(x, shape=(64, 33))), shape=(16, 132))),
    ),
    "sum of all": ((6, 7, 5), lambda g, x: g.sum(g.reshape(g.sine(x), shape=(210,)), 0)),
    "common factors": ((4, 66), lambda g, x: g.sum(g.reshape(g.abs(x), shape=(8, 33)), 1)),
    "sum of outer parts": ((12, 35), lambda g, x: g.sum(g.reshape(g.abs(x), shape=(3, 4, 35)), 0, 2)),
    "heads": ((2, 8, 64), heads),
    "vector product": ((6, 40), vector_product),
}


@pytest.mark.parametrize("name", ALIGNED)
def test_reshapes_that_line_up_are_one_launch(name: str) -> None:
    shape, make = ALIGNED[name]
    g = Graph(f32(*shape))
    assert launches_of(g.module(make(g, *g.parameters)), rtol=1e-5, atol=1e-5) == 1


NOT_ALIGNED: dict[str, tuple[tuple[int, ...], Callable[[Graph, Value], Value]]] = {
    "turned sizes": ((2, 3, 8), lambda g, x: g.abs(g.reshape(g.sine(x), shape=(3, 2, 8)))),
    "no common factor": ((4, 15), lambda g, x: g.sum(g.reshape(g.sine(x), shape=(6, 10)), 1)),
    "sliced after a merge": (
        (8, 3, 4),
        lambda g, x: g.slice(
            g.reshape(g.sine(x), shape=(8, 12)), start_indices=(0, 2), limit_indices=(8, 9), strides=(1, 1)
        ),
    ),
}


@pytest.mark.parametrize("name", NOT_ALIGNED)
def test_reshapes_that_do_not_line_up_rename_memory(name: str) -> None:
    shape, make = NOT_ALIGNED[name]
    g = Graph(f32(*shape))
    assert launches_of(g.module(make(g, *g.parameters)), rtol=1e-5, atol=1e-5) == 2


def test_a_product_keeps_its_tiles_when_its_axes_are_split_later() -> None:
    g = Graph(f32(32, 32))
    x = g.parameters[0]
    product = g.reshape(g.dot(x, x), shape=(32, 4, 8))
    after = fusion(g.module(g.abs(g.transpose(product, permutation=(1, 0, 2)))), target=host())
    kinds = [i.attrs["kind"] for i in after.main.region.instructions if i.op.hlo == "braze.fusion"]
    assert kinds == ["dot", "loop"]


def test_parts_of_axes() -> None:
    g = Graph(f32(4, 66))
    y = g.reshape(g.abs(g.parameters[0]), shape=(8, 33))
    cuts = Cuts(g.builder.instructions)
    assert cuts.parts(g.parameters[0]) == ((4,), (2, 33))
    assert cuts.parts(y) == ((4, 2), (33,))


def _factors(r: random.Random, size: int) -> tuple[int, ...]:
    """A random shape of that size, sometimes with axes of size 1."""
    shape: list[int] = []
    while size > 1:
        divisors = [d for d in range(2, size + 1) if size % d == 0]
        shape.append(r.choice(divisors))
        size //= shape[-1]
    shape.insert(r.randint(0, len(shape)), 1) if r.random() < 0.3 else None
    return tuple(shape)


def _random_module(seed: int) -> Module:
    """Integers, so that every order of a sum is exact; all values have one size, so that any two can meet."""
    r = random.Random(seed)
    size = r.choice((24, 48, 60, 210))
    g = Graph(*[TensorType(_factors(r, size), I32) for _ in range(2)])
    values = list(g.parameters)
    for _ in range(r.randint(3, 14)):
        x = r.choice(values[-4:])
        rank = x.type.ndim
        match r.randrange(6):
            case 0 | 1:
                values.append(g.reshape(x, shape=_factors(r, size)))
            case 2:
                values.append(g.transpose(x, permutation=tuple(r.sample(range(rank), rank))))
            case 3:
                values.append(g.add(x, g.reshape(r.choice(values), shape=x.type.shape)))
            case 4:
                axes = sorted(r.sample(range(rank), r.randint(0, rank)))
                kept = [i for i in range(rank) if i not in axes]
                values.append(g.subtract(x, g.spread(g.reduce("maximum", x, -99, axes), x.type.shape, kept)))
            case _:
                dimensions = tuple(r.sample(range(rank), r.randint(0, rank)))
                values.append(r.choice((g.reverse(x, dimensions=dimensions), g.negate(x))))
    return g.module(*r.sample(values, 2), values[-1])


@pytest.mark.parametrize("seed", range(30))
def test_random_reshapes_keep_every_bit(seed: int) -> None:
    launches_of(_random_module(seed), rtol=0)
