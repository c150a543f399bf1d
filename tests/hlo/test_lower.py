"""From jaxprs to HLO: literals, broadcasts, functions, loops, captured arrays, donation, unused inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from braze import dtypes, ops
from braze.hlo.evaluate import evaluate
from braze.hlo.ir import equal
from braze.hlo.lower import LoweredModule, lower
from braze.hlo.parse import parse
from braze.hlo.text import print_module
from braze.hlo.verify import verify
from braze.ops import control, elementwise, transcendental
from braze.trace.staging import stage
from braze.types import TensorType

F3 = TensorType((3,), dtypes.F32)
F23 = TensorType((2, 3), dtypes.F32)
F = TensorType((), dtypes.F32)
I = TensorType((), dtypes.I32)


def lowered(f: Callable[..., Sequence[Any]], *types: TensorType, **options: Any) -> LoweredModule:
    """Stage and lower; what comes out verifies, round trips, and jaxlib reads it."""
    made = lower(stage(f, types), **options)
    verify(made.module)
    text = print_module(made.module)
    if "custom_call" not in text:  # a callback has no text
        assert equal(parse(text), made.module)
    jaxlib_parse(text)
    return made


def jaxlib_parse(text: str) -> None:
    pytest.importorskip("jaxlib")
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    with mlir.make_ir_context():
        assert ir.Module.parse(text).operation.verify()


def run(made: LoweredModule, *args: Any) -> list[np.ndarray]:
    return evaluate(made.module, [*(args[k] for k in made.kept), *made.hidden])


def test_literals_become_constants_once_and_are_broadcast_once() -> None:
    made = lowered(
        lambda x: [ops.elementwise.add(ops.elementwise.mul(x, 2.0), ops.elementwise.mul(2.0, x))], F3
    )
    assert print_module(made.module) == (
        "module @main {\n"
        "  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {\n"
        "    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>\n"
        "    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3xf32>\n"
        "    %1 = stablehlo.multiply %arg0, %0 : tensor<3xf32>\n"
        "    %2 = stablehlo.multiply %0, %arg0 : tensor<3xf32>\n"
        "    %3 = stablehlo.add %1, %2 : tensor<3xf32>\n"
        "    return %3 : tensor<3xf32>\n"
        "  }\n"
        "}\n"
    )


def test_literals_apart_in_sign_or_type_stay_apart() -> None:
    def f(x: Any, i: Any) -> list[Any]:
        return [ops.elementwise.add(x, 0.0), ops.elementwise.add(x, -0.0), ops.elementwise.add(i, 0)]

    made = lowered(f, F, I)
    assert print_module(made.module).count("stablehlo.constant") == 3


def test_axes_of_size_one_are_broadcast() -> None:
    row = TensorType((1, 3), dtypes.F32)
    made = lowered(lambda x, y: [elementwise.add(x, y)], F23, row)
    x, y = np.ones((2, 3), np.float32), np.arange(3, dtype=np.float32).reshape(1, 3)
    np.testing.assert_array_equal(run(made, x, y)[0], x + y)


def test_inner_functions_are_private_and_made_once() -> None:
    inner = stage(lambda x: [transcendental.sin(x)], [F3])
    attrs = {"jaxpr": inner, "name": "wave", "donated_invars": (False,), "keep_unused": False}

    def f(x: Any) -> list[Any]:
        (y,) = control.jit(x, inline=False, **attrs)
        (z,) = control.jit(y, inline=False, **attrs)
        return control.jit(z, inline=True, **attrs)

    made = lowered(f, F3)
    text = print_module(made.module)
    assert list(made.module.functions) == ["main", "wave"]
    assert text.count("call @wave") == 2
    assert text.count("stablehlo.sine") == 2
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(run(made, x)[0], np.sin(np.sin(np.sin(x))), rtol=1e-6)


def test_functions_of_one_name_are_numbered() -> None:
    attrs = {"name": "f", "inline": False, "donated_invars": (False,), "keep_unused": False}
    one = stage(lambda x: [transcendental.sin(x)], [F3])
    two = stage(lambda x: [transcendental.cos(x)], [F3])
    made = lowered(lambda x: [*control.jit(x, jaxpr=one, **attrs), *control.jit(x, jaxpr=two, **attrs)], F3)
    assert list(made.module.functions) == ["main", "f", "f_0"]


def test_small_captured_arrays_are_constants_and_large_ones_hidden_parameters() -> None:
    small, large = np.arange(3, dtype=np.float32), np.arange(100, dtype=np.float32)

    def f(x: Any, y: Any) -> list[Any]:
        return [elementwise.add(x, small), elementwise.add(y, large), elementwise.mul(y, large)]

    made = lowered(f, F3, TensorType((100,), dtypes.F32))
    assert len(made.hidden) == 1
    np.testing.assert_array_equal(made.hidden[0], large)
    assert made.module.main.region.parameter_types[-1] == TensorType((100,), dtypes.F32)
    x, y = np.ones(3, np.float32), np.ones(100, np.float32)
    for got, want in zip(run(made, x, y), (x + small, y + large, y * large)):
        np.testing.assert_array_equal(got, want)


def test_large_arrays_captured_by_inner_functions_and_loops_reach_main() -> None:
    large = np.arange(100, dtype=np.float32)
    vector = TensorType((100,), dtypes.F32)
    inner = stage(lambda x: [elementwise.add(x, large)], [vector])
    outer = stage(
        lambda x: control.jit(
            x, jaxpr=inner, name="g", inline=False, donated_invars=(False,), keep_unused=False
        ),
        [vector],
    )
    condition = stage(lambda i, x: [elementwise.lt(i, 3)], [I, vector])
    body = stage(
        lambda i, x: [
            elementwise.add(i, 1),
            *control.jit(x, jaxpr=outer, name="f", inline=False, donated_invars=(False,), keep_unused=False),
        ],
        [I, vector],
    )

    def f(x: Any) -> list[Any]:
        return control.while_(
            np.int32(0), x, cond_jaxpr=condition, body_jaxpr=body, cond_nconsts=0, body_nconsts=0
        )[1:]

    made = lowered(f, vector)
    assert len(made.hidden) == 1
    assert [len(function.region.parameters) for function in made.module.functions.values()] == [2, 2, 2]
    np.testing.assert_array_equal(run(made, np.zeros(100, np.float32))[0], 3 * large)


def test_arrays_of_one_repeated_element_are_broadcast_not_handed_over() -> None:
    zeros = np.broadcast_to(np.float32(0), (1000,))
    from braze.trace.jaxpr import ClosedJaxpr, Equation, Jaxpr, Var

    type = TensorType((1000,), dtypes.F32)
    constant, x, y = Var(type), Var(type), Var(type)
    jaxpr = Jaxpr([constant], [x], [Equation(elementwise.add, [x, constant], [y], {})], [y])
    made = lower(ClosedJaxpr(jaxpr, [zeros]))
    assert made.hidden == ()
    assert "broadcast_in_dim" in print_module(made.module)


def test_scan_and_cond_run() -> None:
    step = stage(
        lambda carry, x: [elementwise.add(carry, x), elementwise.mul(carry, x)],
        [F, F],
    )
    negated = stage(lambda x: [elementwise.neg(x)], [F])
    kept = stage(lambda x: [x], [F])

    def f(xs: Any, i: Any) -> list[Any]:
        attrs = {"jaxpr": step, "length": 4, "reverse": False, "unroll": 1, "num_consts": 0, "num_carry": 1}
        total, products = control.scan(np.float32(1), xs, **attrs)
        (signed,) = control.cond(i, total, branches=(negated, kept))
        return [signed, products]

    made = lowered(f, TensorType((4,), dtypes.F32), I)
    xs = np.array([1, 2, 3, 4], np.float32)
    total, products = run(made, xs, np.int32(0))
    assert total == -11
    np.testing.assert_array_equal(products, [1, 4, 12, 28])
    assert run(made, xs, np.int32(1))[0] == 11


def test_callbacks_keep_their_order() -> None:
    seen: list[float] = []

    def f(x: Any) -> list[Any]:
        for factor in (1.0, 2.0, 3.0):
            control.debug_callback(
                elementwise.mul(x, factor), callback=lambda a: seen.append(float(a)), ordered=True
            )
        return [x]

    run(lowered(f, F), np.float32(5))
    assert seen == [5, 10, 15]


def test_donated_inputs_name_a_result_of_their_type_or_only_give_their_memory() -> None:
    made = lowered(lambda x, y, z: [elementwise.neg(y)], F3, F3, F, donated=(True, True, False))
    assert made.module.main.parameter_attrs == (
        {"tf.aliasing_output": np.int32(0)},
        {"jax.buffer_donor": True},
        {},
    )
    assert made.module.main.donated == (True, True, False)


def test_unused_inputs_go_where_asked_also_those_of_dead_equations() -> None:
    def f(x: Any, y: Any, z: Any) -> list[Any]:
        elementwise.neg(y)
        return [elementwise.neg(z)]

    made = lowered(f, F, F3, F, donated=(False, False, True), keep_unused=False)
    assert made.kept == (2,)
    assert made.module.main.donated == (True,)
    assert run(made, np.float32(1), np.zeros(3, np.float32), np.float32(2))[0] == -2
    assert lowered(f, F, F3, F).kept == (0, 1, 2)


def test_weak_types_end_here() -> None:
    made = lowered(lambda x: [elementwise.mul(x, 2.0)], TensorType((), dtypes.F32, weak_type=True))
    assert all(not t.weak_type for t in made.module.main.region.result_types)


def test_long_programs_need_no_recursion() -> None:
    def f(x: Any) -> list[Any]:
        for _ in range(5000):
            x = elementwise.mul(x, 1.5)
        return [x]

    made = lower(stage(f, [F3]))
    assert len(made.module.main.region.instructions) == 5002


WINDOW = {"window_dimensions": (2, 2), "window_strides": (1, 1), "padding": ((0, 1), (1, 0))}
PLAIN = {"base_dilation": (1, 1), "window_dilation": (1, 1)}


def test_windows_and_running_sums_are_reduce_window() -> None:
    for f, count in (
        (lambda x: [ops.cumulative.cumsum(x, axis=1, reverse=True)], 1),
        (lambda x: [ops.cumulative.cumlogsumexp(x, axis=0, reverse=False)], 1),
        (lambda x: [ops.windows.reduce_window_max(x, **WINDOW, **PLAIN)], 1),
        (lambda x: [ops.windows.select_and_gather_add(x, x, select_prim="ge", **WINDOW, **PLAIN)], 2),
        (lambda x: [ops.windows.select_and_scatter_add(x, x, select_prim="le", **WINDOW)], 0),
    ):
        made = lowered(f, F23)
        found = [i for i in made.module.main.region.instructions if i.regions]
        assert [len(i.results) for i in found if i.op.hlo == "reduce_window"] == [count] * bool(count)
    empty = lowered(
        lambda x: [ops.cumulative.cumsum(x, axis=0, reverse=False)], TensorType((0, 2), dtypes.F32)
    )
    assert not empty.module.main.region.instructions
