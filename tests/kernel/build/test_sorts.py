"""Sorts as machine code: every way of sorting, every size around its limits, comparators of all kinds."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import lax
from braze.dtypes import F32, I32
from braze.hlo import parse
from braze.hlo.evaluate import evaluate
from braze.kernel.build import build
from braze.kernel.build.sort import COUNTED
from braze.kernel.check import check
from braze.ops.sorting import Key, order_of
from braze.stages import compile_hlo
from braze.target import Target

RNG = np.random.default_rng(8)
HOST = Target("cpu", vector_bytes=64, masked_memory=True, has_fma=True)
SPECIAL = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0, 2.0, 1e-20], np.float32)


def floats(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    x = np.where(RNG.random(shape) < 0.5, RNG.choice(SPECIAL, shape), RNG.standard_normal(shape))
    return x.astype(dtype)


def alike(have: Any, want: Any) -> None:
    """Bit for bit, zeros too; any NaN is any other."""
    have, want = np.asarray(have), np.asarray(want)
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    if have.dtype.kind == "f":
        have, want = (np.where(np.isnan(x), np.abs(np.full_like(x, np.nan)), x) for x in (have, want))
    assert have.tobytes() == want.tobytes()


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, COUNTED, COUNTED + 1, 300, 5000])
def test_one_operand_and_its_places(n: int) -> None:
    f = bz.jit(lambda *xs: [(lax.sort(x, 0), bnp.argsort(x)) for x in xs])
    xs = [floats((n,)), floats((n,), np.float64), RNG.integers(-9, 9, n).astype(np.int32),
          RNG.integers(-(2**63), 2**63 - 1, n), RNG.random(n) < 0.5, RNG.integers(0, 2**32, n).astype(np.uint32)]  # fmt: skip
    for x, (ordered, places) in zip(xs, f(*xs), strict=True):
        wanted = np.argsort(x, kind="stable")
        alike(places, wanted.astype(np.int32))
        alike(ordered, x[wanted])


@pytest.mark.parametrize("shape, axis", [((5, 7, 3), 1), ((3, 200, 2), 1), ((400, 3), 0), ((2, 3, 140), -1)])
def test_rows_along_any_axis(shape: tuple[int, ...], axis: int) -> None:
    x, i = floats(shape), RNG.integers(-2, 3, shape).astype(np.int32)
    for keys in (1, 2):
        found = bz.jit(lambda a, b, keys=keys: lax.sort((a, b), axis, num_keys=keys))(i, x)
        wanted = jax.lax.sort((jax.numpy.asarray(i), jax.numpy.asarray(x)), axis, num_keys=keys)
        for have, want in zip(found, wanted, strict=True):
            alike(have, want)


def comparator(text: str, types: str = "f32", operands: int = 1, size: int = 40) -> Any:
    """A module that sorts by the body of a comparator of %x0, %y0, %x1, …"""
    each = [types] * operands
    parameters = ", ".join(f"%{v}{k}: tensor<{t}>" for k, t in enumerate(each) for v in "xy")
    args = ", ".join(f"%a{k}: tensor<{size}x{t}>" for k, t in enumerate(each))
    results = ", ".join(f"tensor<{size}x{t}>" for t in each)
    names = ", ".join(f"%a{k}" for k in range(operands))
    count = "" if operands == 1 else f":{operands}"
    returned = "%r" if operands == 1 else ", ".join(f"%r#{k}" for k in range(operands))
    return parse(f"""
      func.func @main({args}) -> ({results}) {{
        %r{count} = "stablehlo.sort"({names}) <{{dimension = 0 : i64, is_stable = true}}> ({{
        ^bb0({parameters}):
          {text}
          stablehlo.return %less : tensor<i1>
        }}) : ({results}) -> ({results})
        return {returned} : {results}
      }}""")


def region_of(module: Any) -> Any:
    return module.main.region.instructions[0].regions[0]


def compare(direction: str, x: str, y: str, kind: str = "FLOAT", to: str = "less", type: str = "f32") -> str:
    return f"%{to} = stablehlo.compare {direction}, %{x}, %{y}, {kind} : (tensor<{type}>, tensor<{type}>) -> tensor<i1>\n"


KNOWN = {
    "less": (compare("LT", "x0", "y0"), 1, (Key(0),)),
    "greater": (compare("GT", "x0", "y0"), 1, (Key(0, descending=True),)),
    "greater, written the other way": (compare("LT", "y0", "x0"), 1, (Key(0, descending=True),)),
    "total order": (compare("LT", "x0", "y0", "TOTALORDER"), 1, (Key(0, total=True),)),
    "total order, down": (compare("GT", "x0", "y0", "TOTALORDER"), 1, (Key(0, True, True),)),
    "second operand": (compare("LT", "x1", "y1"), 2, (Key(1),)),
    "two keys": (
        compare("GT", "x1", "y1", to="a") + compare("EQ", "x1", "y1", to="b") + compare("LT", "x0", "y0", to="c")
        + "%d = stablehlo.and %b, %c : tensor<i1>\n%less = stablehlo.or %a, %d : tensor<i1>",
        2, (Key(1, descending=True), Key(0)),
    ),
    "two keys by select": (
        compare("NE", "x0", "y0", "TOTALORDER", to="a") + compare("LT", "x0", "y0", "TOTALORDER", to="b")
        + compare("LT", "x1", "y1", "TOTALORDER", to="c") + "%less = stablehlo.select %a, %b, %c : tensor<i1>, tensor<i1>",
        2, (Key(0, total=True), Key(1, total=True)),
    ),
}  # fmt: skip
UNKNOWN = {
    "by magnitude": "%a = stablehlo.abs %x0 : tensor<f32>\n%b = stablehlo.abs %y0 : tensor<f32>\n" + compare("LT", "a", "b"),
    "neither order": compare("LT", "x0", "y0", to="a") + compare("GT", "x1", "y1", to="b")
    + "%less = stablehlo.and %a, %b : tensor<i1>",
    "less or equal": compare("LE", "x0", "y0"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*KNOWN, *UNKNOWN])
def test_comparators_are_known_by_what_they_say(name: str) -> None:
    text, operands, wanted = KNOWN.get(name) or (UNKNOWN[name], 2, None)
    for size in (40, 200, 1003):
        module = comparator(text, operands=operands, size=size)
        assert order_of(region_of(module)) == wanted
        # Comparisons with NaN that say nothing are no order; known ones have a place for it.
        arrays = [floats((size,)) for _ in range(operands)]
        if wanted is None:
            arrays = [np.where(np.isnan(x), np.float32(3), x) for x in arrays]
        for have, want in zip(compile_hlo(module, "cpu")(*arrays), evaluate(module, arrays), strict=True):
            alike(have, want)


def test_the_numpy_facet_sorts_as_python_does() -> None:
    x = [float(v) for v in floats((60,)) if v == v]
    module = comparator(KNOWN["total order, down"][0], size=len(x))
    key = lambda v: (-v, np.signbit(np.float32(v)))
    alike(evaluate(module, [np.array(x, np.float32)])[0], np.array(sorted(x, key=key), np.float32))
    module = comparator(UNKNOWN["by magnitude"], operands=1, size=len(x))
    alike(evaluate(module, [np.array(x, np.float32)])[0], np.array(sorted(x, key=abs), np.float32))


def test_jax_text_runs() -> None:
    x, i = floats((4, 150)), RNG.integers(-2, 3, (4, 150)).astype(np.int32)
    f = jax.jit(lambda x, i: (jax.lax.sort((i, x), num_keys=2), jax.numpy.argsort(-x, axis=0)))
    module = parse(f.lower(x, i).as_text())
    found = compile_hlo(module, "cpu")(x, i)
    for have, want in zip(found, jax.tree.leaves(f(x, i)), strict=True):
        alike(have, want)


def test_gradients_follow_their_elements() -> None:
    x, w = RNG.standard_normal((3, 170)).astype(np.float32), np.arange(170, dtype=np.float32)

    def losses(module: Any, l: Any) -> list[Any]:
        def first(x: Any) -> Any:
            return (module.numpy.sort(x, axis=1) * w).sum()

        def second(x: Any) -> Any:
            y, z = l.sort_key_val(x[:, ::-1], x * x, 1)
            return (y * z * w).sum() + l.top_k(x, 5)[0].sum()

        return [
            *(module.jit(module.grad(f))(x) for f in (first, second)),
            module.jit(module.grad(lambda x: (module.grad(second)(x) ** 2).sum()))(x),
            module.jit(module.vmap(module.grad(first)))(module.numpy.stack([x, -x])),
        ]

    for have, want in zip(losses(bz, lax), losses(jax, jax.lax), strict=True):
        np.testing.assert_allclose(np.asarray(have), np.asarray(want), rtol=1e-5, atol=1e-4)


def test_kernels_keep_the_rules_of_the_ir() -> None:
    modules = [
        comparator(text, operands=operands, size=n) for text, operands, _ in KNOWN.values() for n in (20, 300)
    ]
    modules += [comparator(UNKNOWN["by magnitude"], operands=2, size=70_001)]
    for k, module in enumerate(modules):
        for launch in build(module.main.region.instructions[0], f"k{k}", HOST).launches:
            check(launch.kernel)
            assert {m.dtype for m in launch.kernel.parameters[:2]} <= {F32, I32}
