"""gather and scatter with random dimension numbers: against JAX, on both targets, and as text."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax
from op_values import assert_exact

import braze as bz
from braze import dtypes
from braze.hlo import compile as compile_hlo
from braze.hlo import parse
from braze.hlo.ir import equal
from braze.hlo.text import print_module
from braze.ops import indexing
from braze.ops.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

MODES = list(GatherScatterMode)
SCATTERS = {
    "scatter": (indexing.scatter, lax.scatter),
    "scatter-add": (indexing.scatter_add, lax.scatter_add),
    "scatter-mul": (indexing.scatter_mul, lax.scatter_mul),
    "scatter-min": (indexing.scatter_min, lax.scatter_min),
    "scatter-max": (indexing.scatter_max, lax.scatter_max),
}
INDEX_DTYPES = (np.int32, np.int64, np.uint8, np.int8, np.uint32, np.uint64)


def random_gather(rng: np.random.Generator) -> tuple[Any, ...]:
    """Operand shape, indices, dimension numbers and slice sizes of a valid gather."""
    rank = int(rng.integers(1, 5))
    batching = int(rng.integers(0, min(rank, 2)))
    roles = rng.permutation(rank)
    batched, others = sorted(roles[:batching].tolist()), roles[batching:].tolist()
    shape = rng.integers(1, 6, rank).tolist()
    if rng.random() < 0.3:
        shape[-1] = int(rng.integers(17, 40))
    starts = others[: int(rng.integers(0, len(others) + 1))]
    sizes = [int(rng.integers(1, n + 1)) if d in starts else n for d, n in enumerate(shape)]
    collapsed = sorted(d for d in others if rng.random() < 0.5 and (d in starts or shape[d] == 1))
    for d in (*collapsed, *batched):
        sizes[d] = 1
    outer = rng.integers(1, 5, int(rng.integers(batching, batching + 3))).tolist()
    along = rng.permutation(len(outer))[:batching].tolist()
    for d, k in zip(batched, along):
        outer[k] = shape[d]
    limits = np.array([shape[d] for d in starts], int)
    wide = (rng.integers(-2, 3, (*outer, len(starts))) + limits) % np.maximum(2 * limits, 1)
    indices = np.where(rng.random(wide.shape) < 0.8, wide % np.maximum(limits, 1), wide - 1)
    dtype = INDEX_DTYPES[int(rng.integers(len(INDEX_DTYPES)))]
    kept = rank - len(collapsed) - batching
    offsets = sorted(rng.permutation(kept + len(outer))[:kept].tolist())
    numbers = GatherDimensionNumbers(*map(tuple, (offsets, collapsed, starts, batched, along)))
    return tuple(shape), indices.astype(dtype), numbers, tuple(sizes)


def result_shape(shape: Any, indices: np.ndarray, numbers: GatherDimensionNumbers, sizes: Any) -> Any:
    t = bz.types.TensorType
    attrs = {"dimension_numbers": numbers, "slice_sizes": sizes, "indices_are_sorted": False,
             "unique_indices": False, "mode": MODES[0], "fill_value": None}  # fmt: skip
    return indexing.gather.infer(t(shape, dtypes.F32), t(indices.shape, indices.dtype), **attrs).shape


@pytest.mark.parametrize("seed", range(30))
def test_random_gathers_are_those_of_jax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, indices, numbers, sizes = random_gather(rng)
    x = rng.normal(size=shape).astype(np.float32)
    mode = MODES[seed % 3]
    theirs = getattr(jax.lax.GatherScatterMode, mode.name)
    want = np.asarray(lax.gather(x, indices, lax.GatherDimensionNumbers(*numbers), sizes, mode=theirs))
    fill = np.nan if mode is GatherScatterMode.FILL_OR_DROP else None
    attrs = {"dimension_numbers": numbers, "slice_sizes": sizes, "indices_are_sorted": False,
             "unique_indices": False, "mode": mode, "fill_value": fill}  # fmt: skip
    assert_exact(indexing.gather.numpy(x, indices, **attrs), want)
    assert_exact(np.asarray(bz.jit(lambda x, i: indexing.gather(x, i, **attrs))(x, indices)), want)


@pytest.mark.parametrize("seed", range(40))
def test_random_scatters_are_those_of_jax(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, indices, numbers, sizes = random_gather(rng)
    (ours, theirs) = SCATTERS[list(SCATTERS)[seed % 5]]
    x = rng.integers(-9, 9, shape).astype(np.float32)
    updates = rng.integers(-3, 4, result_shape(shape, indices, numbers, sizes)).astype(np.float32)
    mode = MODES[seed % 3]
    attrs = {"dimension_numbers": ScatterDimensionNumbers(*numbers), "indices_are_sorted": False,
             "unique_indices": False, "mode": mode}  # fmt: skip
    same = getattr(jax.lax.GatherScatterMode, mode.name)
    want = np.asarray(theirs(x, indices, updates, lax.ScatterDimensionNumbers(*numbers), mode=same))
    assert_exact(ours.numpy(x, indices, updates, **attrs), want)
    found = bz.jit(lambda x, i, u: ours(x, i, u, **attrs))(x, indices, updates)
    assert_exact(np.asarray(found), want)


TWO = """
func.func @main(%x: tensor<7x{n}xf32>, %y: tensor<7x{n}xi32>, %i: tensor<{m}x1xi32>,
                %u: tensor<{m}x{n}xf32>, %v: tensor<{m}x{n}xi32>) -> (tensor<7x{n}xf32>, tensor<7x{n}xi32>) {{
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
    %1 = stablehlo.compare GT, %c, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.select %1, %c, %a : tensor<i1>, tensor<f32>
    %3 = stablehlo.add %b, %d : tensor<i32>
    stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
  }}) : (tensor<7x{n}xf32>, tensor<7x{n}xi32>, tensor<{m}x1xi32>, tensor<{m}x{n}xf32>, tensor<{m}x{n}xi32>)
      -> (tensor<7x{n}xf32>, tensor<7x{n}xi32>)
  return %0#0, %0#1 : tensor<7x{n}xf32>, tensor<7x{n}xi32>
}}
"""


@pytest.mark.parametrize(("n", "m"), [(1, 5), (1, 700), (3, 40), (65, 40), (1, 512)])
def test_a_region_over_two_operands(n: int, m: int) -> None:
    """Any region is compiled; windows of one element go a chunk at a time, some chunks with strays."""
    rng = np.random.default_rng(n + m)
    module = parse(TWO.format(n=n, m=m))
    assert equal(parse(print_module(module)), module)
    x, u = (rng.normal(size=(k, n)).astype(np.float32) for k in (7, m))
    y, v = (rng.integers(0, 9, (k, n)).astype(np.int32) for k in (7, m))
    i = rng.integers(0, 7, (m, 1)).astype(np.int32)
    i[rng.integers(0, m, m // 8)] = rng.choice([-1, 7, -(2**31), 2**31 - 1], (m // 8, 1))
    wanted_x, wanted_y = x.copy(), y.copy()
    for k in range(m):
        if 0 <= i[k, 0] < 7:
            wanted_x[i[k, 0]] = np.maximum(wanted_x[i[k, 0]], u[k])
            wanted_y[i[k, 0]] += v[k]
    for target in ("numpy", "cpu"):
        found = compile_hlo(module, target=target)(x, y, i, u, v)
        assert_exact(np.asarray(found[0]), wanted_x)
        assert_exact(np.asarray(found[1]), wanted_y)


def test_windows_that_stick_out_lose_what_is_outside_in_hlo_and_go_as_a_whole_in_primitives() -> None:
    text = """func.func @main(%x: tensor<5xf32>, %i: tensor<2x1xi32>, %u: tensor<2x3xf32>) -> tensor<5xf32> {
      %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %b : tensor<f32>
      }) : (tensor<5xf32>, tensor<2x1xi32>, tensor<2x3xf32>) -> tensor<5xf32>
      return %0 : tensor<5xf32>
    }"""
    x, i = np.zeros(5, np.float32), np.array([[-1], [3]], np.int32)
    u = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    for target in ("numpy", "cpu"):
        (found,) = compile_hlo(parse(text), target=target)(x, i, u)
        assert np.asarray(found).tolist() == [2.0, 3.0, 0.0, 4.0, 5.0]
    attrs = {"dimension_numbers": ScatterDimensionNumbers((1,), (), (0,)), "indices_are_sorted": False,
             "unique_indices": False, "mode": GatherScatterMode.FILL_OR_DROP}  # fmt: skip
    assert np.asarray(bz.jit(lambda *a: indexing.scatter(*a, **attrs))(x, i, u)).tolist() == [0.0] * 5
    attrs["mode"] = GatherScatterMode.CLIP
    found = bz.jit(lambda *a: indexing.scatter(*a, **attrs))(x, i, u)
    assert np.asarray(found).tolist() == [1.0, 2.0, 4.0, 5.0, 6.0]


def test_threads_do_not_change_bits() -> None:
    """Blocks share out columns; each column sees its updates in order."""
    rng = np.random.default_rng(0)
    attrs = {"dimension_numbers": ScatterDimensionNumbers((1,), (0,), (0,)), "indices_are_sorted": False,
             "unique_indices": False, "mode": GatherScatterMode.FILL_OR_DROP}  # fmt: skip
    x = np.zeros((3, 3000), np.float32)
    i = rng.integers(0, 3, (400, 1)).astype(np.int32)
    u = (rng.normal(size=(400, 3000)) * 10.0 ** rng.integers(-6, 6, (400, 1))).astype(np.float32)
    compiled = bz.jit(lambda x, i, u: indexing.scatter_add(x, i, u, **attrs)).lower(x, i, u).compile()
    assert [k.grid for k in compiled.kernels] != [1], "it is shared out"
    assert_exact(np.asarray(compiled(x, i, u)), indexing.scatter_add.numpy(x, i, u, **attrs))


def test_the_last_of_several_wins_in_its_derivative_too() -> None:
    x = np.zeros(3, np.float32)
    i = np.array([[1], [1], [0], [5]], np.int32)
    u = np.arange(1, 5, dtype=np.float32)
    attrs = {"dimension_numbers": ScatterDimensionNumbers((), (0,), (0,)), "indices_are_sorted": False,
             "unique_indices": False, "mode": GatherScatterMode.FILL_OR_DROP}  # fmt: skip

    def f(x: Any, u: Any) -> Any:
        return indexing.scatter(x, i, u, **attrs)

    assert np.asarray(bz.jit(f)(x, u)).tolist() == [3.0, 2.0, 0.0]
    weights = np.array([10.0, 20.0, 30.0], np.float32)
    dx, du = bz.jit(bz.grad(lambda x, u: (f(x, u) * weights).sum(), argnums=(0, 1)))(x, u)
    assert np.asarray(dx).tolist() == [0.0, 0.0, 30.0]
    assert np.asarray(du).tolist() == [0.0, 20.0, 10.0, 0.0]


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d not in dtypes.COMPLEX], ids=dtypes.short)
def test_every_dtype_adds_up_in_the_same_order_on_both_targets(dtype: dtypes.DType) -> None:
    """Single elements, a chunk at a time, and rows; halves round after every addition."""
    rng = np.random.default_rng(5)
    attrs: dict[str, Any] = {"indices_are_sorted": False, "unique_indices": False, "mode": MODES[1]}
    for shape, count, numbers in (((50,), 600, ((), (0,), (0,))), ((9, 33), 20, ((1,), (0,), (0,)))):
        x, u = (np.abs(rng.normal(size=(n, *shape[1:])) * 3).astype(dtype) for n in (shape[0], count))
        i = rng.integers(0, shape[0], (count, 1)).astype(np.int32)
        attrs["dimension_numbers"] = ScatterDimensionNumbers(*numbers)
        found = bz.jit(lambda x, i, u: indexing.scatter_add(x, i, u, **attrs))(x, i, u)
        assert_exact(np.asarray(found), indexing.scatter_add.numpy(x, i, u, **attrs))
