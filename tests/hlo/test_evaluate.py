"""The portable backend: regions, calls, callbacks, memory of results."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from braze import dtypes
from braze.errors import AllocationError, ArgumentError
from braze.hlo import parse
from braze.hlo.evaluate import evaluate, prepare
from braze.hlo.ir import Function, Instruction, Module, Region, Value
from braze.ops.table import HLO_OPS
from braze.types import TensorType

LOOP = """
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%a = %x, %i = %zero) : tensor<4xf32>, tensor<i32>
  cond {
    %0 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %1 = func.call @double(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %1, %2 : tensor<4xf32>, tensor<i32>
  }
  return %r#0, %r#1 : tensor<4xf32>, tensor<i32>
}
func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def test_loops_run_with_captures_and_calls() -> None:
    run = prepare(parse(LOOP))
    x = np.arange(4, dtype=np.float32)
    for n in (0, 1, 5):
        result, count = run([x, np.int32(n)])
        np.testing.assert_array_equal(result, x * 2**n)
        assert count == n


def test_case_clamps_its_index_to_the_last_branch() -> None:
    module = parse("""
    func.func @main(%i: tensor<i32>, %x: tensor<f32>) -> tensor<f32> {
      %0 = "stablehlo.case"(%i) ({
        %1 = stablehlo.negate %x : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }, {
        stablehlo.return %x : tensor<f32>
      }) : (tensor<i32>) -> tensor<f32>
      return %0 : tensor<f32>
    }""")
    found = [float(evaluate(module, [np.int32(i), np.float32(3)])[0]) for i in (0, 1, 7, -1)]
    assert found == [-3, 3, 3, 3]


def test_reduce_runs_any_region_over_several_operands() -> None:
    module = parse("""
    func.func @main(%x: tensor<2x3xf32>, %i: tensor<2x3xi32>) -> (tensor<2xf32>, tensor<2xi32>) {
      %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %r:2 = stablehlo.reduce(%x init: %lowest), (%i init: %zero) across dimensions = [1] :
        (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
       reducer(%a: tensor<f32>, %b: tensor<f32>) (%k: tensor<i32>, %l: tensor<i32>) {
        %0 = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %1 = stablehlo.select %0, %a, %b : tensor<i1>, tensor<f32>
        %2 = stablehlo.select %0, %k, %l : tensor<i1>, tensor<i32>
        stablehlo.return %1, %2 : tensor<f32>, tensor<i32>
      }
      return %r#0, %r#1 : tensor<2xf32>, tensor<2xi32>
    }""")
    x = np.array([[1, 9, 3], [7, 2, 5]], np.float32)
    index = np.tile(np.arange(3, dtype=np.int32), (2, 1))
    highest, where = evaluate(module, [x, index])
    np.testing.assert_array_equal(highest, [9, 7])
    np.testing.assert_array_equal(where, [1, 0])


def test_fusion_regions_run() -> None:
    f3 = TensorType((3,), dtypes.F32)
    x, p = Value(f3), Value(f3)
    doubled = Instruction(HLO_OPS["add"], [p, p], [f3])
    attrs = {"kind": "loop", "name": "f", "aliases": ()}
    fusion = Instruction(HLO_OPS["braze.fusion"], [x], [f3], attrs, [Region([p], [doubled], doubled.results)])
    module = Module({"main": Function("main", Region([x], [fusion], fusion.results))})
    np.testing.assert_array_equal(evaluate(module, [np.ones(3, np.float32)])[0], [2, 2, 2])


def test_custom_calls_run_their_callback() -> None:
    seen: list[Any] = []
    f = TensorType((2,), dtypes.F32)
    x = Value(f)
    attrs = {
        "call_target_name": "watch",
        "has_side_effect": True,
        "backend_config": "",
        "callback": lambda a: seen.append(a.tolist()) or (),
        "result_types": (),
    }
    call = Instruction(HLO_OPS["custom_call"], [x], [], attrs)
    module = Module({"main": Function("main", Region([x], [call], [x]))})
    evaluate(module, [np.array([1, 2], np.float32)])
    assert seen == [[1.0, 2.0]]


def test_results_share_memory_with_nothing() -> None:
    module = parse("""
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3xi32>) {
      %0 = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>
      %1 = stablehlo.add %x, %x : tensor<4xf32>
      %c = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
      return %x, %0, %1, %1, %c : tensor<4xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3xi32>
    }""")
    x = np.arange(4, dtype=np.float32)
    results = evaluate(module, [x])
    every = [x, *results, module.main.region.instructions[-1].attrs["value"]]
    for k, one in enumerate(every):
        for other in every[k + 1 :]:
            assert not np.shares_memory(one, other)
    assert all(result.flags.writeable and result.flags.c_contiguous for result in results)


def test_values_die_after_their_last_use() -> None:
    alive: list[weakref.ref[Any]] = []

    def watch(array: np.ndarray) -> tuple[()]:
        alive.append(weakref.ref(array))
        gc.collect()
        counts.append(sum(ref() is not None for ref in alive))
        return ()

    counts: list[int] = []
    f = TensorType((1000,), dtypes.F32)
    x = Value(f)
    value, instructions = x, []
    for _ in range(6):
        step = Instruction(HLO_OPS["negate"], [value], [f])
        value = step.result
        attrs = {
            "call_target_name": "w",
            "has_side_effect": True,
            "backend_config": "",
            "callback": watch,
            "result_types": (),
        }
        instructions += [step, Instruction(HLO_OPS["custom_call"], [value], [], attrs)]
    module = Module({"main": Function("main", Region([x], instructions, [value]))})
    evaluate(module, [np.zeros(1000, np.float32)])
    assert max(counts) <= 2


@pytest.mark.parametrize(
    "size, wanted", [(2**44, "70,368,744,177,664"), (10**18 - 1, "3,999,999,999,999,999,996")]
)
def test_memory_that_is_not_there_is_named_in_bytes(size: int, wanted: str) -> None:
    module = parse(
        f"func.func @main() -> tensor<{size}xf32> {{\n"
        f"  %0 = stablehlo.iota dim = 0 : tensor<{size}xf32>\n  return %0 : tensor<{size}xf32>\n}}"
    )
    with pytest.raises(AllocationError, match=f"iota: {wanted} bytes are wanted"):
        evaluate(module, [])


def test_arguments_are_checked() -> None:
    module = parse(LOOP)
    with pytest.raises(ArgumentError, match="takes 2 arguments, not 1"):
        evaluate(module, [np.zeros(4, np.float32)])
    with pytest.raises(ArgumentError, match=r"argument 0 of @main is float64\[4\], not f32\[4\]"):
        evaluate(module, [np.zeros(4), np.int32(1)])
    with pytest.raises(ArgumentError, match="has no function @main"):
        evaluate(parse("func.func @f() { return }"), [])
