"""Kernels built from fusions: checked, evaluated, run as machine code, compared with NumPy."""

import random

import numpy as np
import pytest
from tests.kernel.build.fusions import (
    Graph,
    f32,
    gaussian_sum,
    layernorm,
    log_softmax,
    logsumexp,
    rmsnorm,
    run,
    samples,
    softmax,
    variance,
)

from braze.dtypes import BOOL, F32, F64, I32, I64
from braze.hlo.ir import Builder, Region, Value
from braze.kernel.build import build
from braze.kernel.ir import For, Kernel, Load, Store
from braze.kernel.ir import Region as KernelRegion
from braze.ops.table import HLO_OPS
from braze.targets.host import host
from braze.types import TensorType

LANES = host().lanes(F32, 2)
SHAPES = [
    (),
    (1,),
    (0,),
    (3, 0),
    (7,),
    (LANES - 1,),
    (LANES,),
    (LANES + 1,),
    (1031,),
    (3, 1, 5),
    (17, 33),
    (2, 3, 4, 5),
]
CLOSE = {"rtol": 2e-5, "atol": 1e-6}


def statements(kernel: Kernel):
    work = list(kernel.body)
    while work:
        s = work.pop()
        yield s
        if isinstance(s, For | KernelRegion):
            work.extend(s.body)


# Elementwise --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elementwise_is_exact_at_every_shape(shape):
    g = Graph(f32(*shape), f32(*shape))
    x, y = g.parameters
    run(g.fusion(g.divide(g.add(g.multiply(x, y), g.full(2.0, shape)), y), g.subtract(x, y)))


@pytest.mark.parametrize("dtype", [F64, I32, I64, BOOL], ids=str)
def test_elementwise_takes_every_dtype(dtype):
    g = Graph(*[TensorType((77,), dtype)] * 2)
    x, y = g.parameters
    less = (
        g.compare(x, y, comparison_direction="LT", compare_type="FLOAT" if dtype == F64 else "SIGNED")
        if dtype != BOOL
        else g.xor(x, y)
    )
    run(g.fusion(g.select(less, x, y), g.convert(x, dtype=F32), g.maximum(x, y)))


def test_large_work_is_cut_into_blocks_that_cover_it():
    g = Graph(f32(1_000_003))
    executed = run(g.fusion(g.negate(g.parameters[0])))
    assert executed.built.launches[0].kernel.grid > 8


def test_elementwise_over_any_rank_runs_flat():
    g = Graph(f32(6, 5, 64), f32(6, 5, 64))
    kernel = build(g.fusion(g.add(*g.parameters)), "k", host()).launches[0].kernel
    assert sum(isinstance(s, For) for s in statements(kernel)) == 1
    assert all(s.access == "unit" for s in statements(kernel) if isinstance(s, Load | Store))


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)], ids=str)
def test_broadcast_reads_what_lies_along_the_lanes(axes):
    shape = (5, 6, 70)
    g = Graph(f32(*shape), f32(*(shape[a] for a in axes)))
    x, y = g.parameters
    executed = run(g.fusion(g.add(x, g.spread(y, shape, axes))))
    loads = [s for s in statements(executed.built.launches[0].kernel) if isinstance(s, Load)]
    assert all(s.access != "gather" for s in loads)


# Index maps ---------------------------------------------------------------------------------------


def test_shape_operations_are_exact():
    g = Graph(f32(7, 33), f32(7, 5))
    x, y = g.parameters
    run(
        g.fusion(
            g.negate(g.slice(x, start_indices=(1, 2), limit_indices=(7, 30), strides=(2, 3))),
            g.negate(g.concatenate(x, y, dimension=1)),
            g.negate(g.pad(x, g.constant(3.0), low=(2, -1), high=(0, 5), interior=(0, 2))),
            g.negate(g.reverse(x, dimensions=(1,))),
            g.negate(g.transpose(x, permutation=(1, 0))),
            g.add(g.iota(iota_dimension=1, shape=(7, 33), dtype=F32), x),
        )
    )


@pytest.mark.parametrize(
    "old, new", [((6, 35), (210,)), ((210,), (6, 35)), ((4, 6, 5), (8, 15)), ((1, 9), (9, 1, 1))]
)
def test_reshape_inside_a_kernel(old, new):
    g = Graph(f32(*old))
    run(g.fusion(g.negate(g.reshape(g.negate(g.parameters[0]), shape=new))))


@pytest.mark.parametrize("start", [-5, 0, 3, 99])
def test_dynamic_slice_clamps(start):
    g = Graph(f32(20, 40), TensorType((), I32), TensorType((), I32))
    x, i, j = g.parameters
    fusion = g.fusion(g.negate(g.dynamic_slice(x, i, j, slice_sizes=(4, 37))))
    args = [samples([x.type])[0], np.array(start, np.int32), np.array(start - 1, np.int32)]
    run(fusion, args)


@pytest.mark.parametrize("start", [-5, 0, 3, 99])
def test_update_in_place_writes_its_window_only(start):
    g = Graph(f32(20, 40), f32(1, 40), TensorType((), I32))
    x, u, i = g.parameters
    zero = g.constant(0, I32)
    fusion = g.fusion(g.dynamic_update_slice(x, g.negate(u), i, zero), kind="update", aliases=((0, 0),))
    args = [*samples([x.type, u.type]), np.array(start, np.int32)]
    executed = run(fusion, args)
    (launch,) = executed.built.launches
    assert ("operand", 0) in launch.buffers and ("result", 0) not in launch.buffers
    assert not [s for s in statements(launch.kernel) if isinstance(s, Load) and s.memory.size == 800]


def test_concatenate_of_computed_parts():
    g = Graph(f32(5), f32(70), f32(0))
    x, y, z = g.parameters
    run(g.fusion(g.add(g.concatenate(g.negate(x), y, z, x, dimension=0), g.full(1.0, (80,)))))


# Reductions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(5,), (77,), (1000, 3), (3, 1000), (33, 77), (20, 3, 40), (0, 5), (5, 0), (300_000,)], ids=str
)
@pytest.mark.parametrize("which", ["first", "last", "all"])
def test_sums_and_extremes_over_any_axes(shape, which):
    axes = {"first": (0,), "last": (len(shape) - 1,), "all": tuple(range(len(shape)))}[which]
    g = Graph(f32(*shape))
    (x,) = g.parameters
    g_max = Graph(f32(*shape))
    run(g.fusion(g.sum(x, *axes)), rtol=1e-5, atol=1e-4)
    run(g_max.fusion(g_max.max(g_max.parameters[0], *axes)))


@pytest.mark.parametrize("dtype, op, init", [
    (I32, "add", 5), (I64, "multiply", 3), (I32, "minimum", 2**31 - 1), (BOOL, "or", False), (BOOL, "and", True),
    (F64, "minimum", np.inf), (I32, "xor", 1),
])  # fmt: skip
def test_integer_reductions_are_exact_and_take_the_initial_value_once(dtype, op, init):
    g = Graph(TensorType((7, 100), dtype))
    (x,) = g.parameters
    run(g.fusion(g.reduce(op, x, init, (1,)), g.reduce(op, x, init, (0,)), g.reduce(op, x, init, (0, 1))))


@pytest.mark.parametrize(
    "values", [[1, np.nan, 3], [-0.0, 0.0, -0.0], [-0.0, -0.0, -0.0], [-np.inf] * 3, [0.0, -1.0, -0.0]]
)
@pytest.mark.parametrize("op, init", [("maximum", -np.inf), ("minimum", np.inf)])
def test_extremes_propagate_nan_and_order_zeros(values, op, init):
    x = np.tile(np.array(values, np.float32), 50)[:149]
    for axis, array in ((1, np.stack([x] * 3)), (0, np.stack([x] * 70, 1))):
        g = Graph(f32(*array.shape))
        run(g.fusion(g.reduce(op, g.parameters[0], init, (axis,))), [np.ascontiguousarray(array)])


def test_a_sum_of_many_equal_terms_keeps_its_digits():
    for shape, axes in (((3_000_000,), (0,)), ((100_000, 33), (0,)), ((3, 200_000), (1,))):
        g = Graph(f32(*shape))
        fusion = g.fusion(g.sum(g.parameters[0], *axes))
        built = run(fusion, [np.full(shape, 0.1, np.float32)], rtol=2e-6)
        wanted = np.float64(np.float32(0.1)) * np.prod([shape[a] for a in axes])
        np.testing.assert_allclose(built.results[0], wanted, rtol=2e-6)


def _argmax(g: Graph, x: Value, axis: int) -> tuple[Value, ...]:
    v, i = TensorType((), F32), TensorType((), I32)
    a, j, b, k = (Value(t) for t in (v, i, v, i))
    inner = Builder()
    op = lambda name, *operands, **attrs: inner.emit(HLO_OPS[name], *operands, **attrs)
    larger = op("compare", a, b, comparison_direction="GE", compare_type="FLOAT")
    results = op("select", larger, a, b), op("select", larger, j, k)
    index = g.iota(iota_dimension=axis, shape=x.type.shape, dtype=I32)
    inits = g.constant(-np.inf), g.constant(0, I32)
    return g.builder.emit_many(
        HLO_OPS["reduce"], x, index, *inits,
        regions=(Region((a, j, b, k), inner.instructions, results),), dimensions=(axis,),
    )  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(7, 100), (40, 3), (1, 5)], ids=str)
def test_a_reducer_over_several_operands(shape, axis):
    g = Graph(f32(*shape))
    run(g.fusion(*_argmax(g, g.parameters[0], axis)))


# Rows ---------------------------------------------------------------------------------------------

ROW_SHAPES = [(5, 300), (7, LANES + 1), (100, 3), (3, 4, 70), (0, 5), (4, 1)]


@pytest.mark.parametrize("shape", ROW_SHAPES, ids=str)
@pytest.mark.parametrize("make", [softmax, log_softmax, logsumexp, variance])
def test_row_programs_are_one_kernel(make, shape):
    g = Graph(f32(*shape))
    executed = run(g.fusion(make(g, g.parameters[0])), **CLOSE)
    assert len(executed.built.launches) == 1


@pytest.mark.parametrize("shape", ROW_SHAPES, ids=str)
def test_normalised_rows_are_one_kernel(shape):
    g = Graph(f32(*shape), f32(shape[-1]), f32(shape[-1]))
    assert len(run(g.fusion(layernorm(g, *g.parameters)), rtol=1e-3, atol=2e-5).built.launches) == 1
    g = Graph(f32(*shape), f32(shape[-1]))
    assert len(run(g.fusion(rmsnorm(g, *g.parameters)), **CLOSE).built.launches) == 1


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_over_any_axis(axis):
    g = Graph(f32(6, 5, 70))
    run(g.fusion(softmax(g, g.parameters[0], axis)), **CLOSE)


def test_softmax_computes_each_exponential_once():
    g = Graph(f32(8, 2 * LANES))
    kernel = build(g.fusion(softmax(g, g.parameters[0])), "k", host()).launches[0].kernel
    assert len(kernel.scratch) == 1, "the exponentials are kept in a row of scratch"


def test_rows_of_two_nests_are_kept_apart():
    g = Graph(f32(6, 33))
    t = g.tanh(g.parameters[0])
    down, across = g.spread(g.max(t, 0), (6, 33), (1,)), g.spread(g.max(t, 1), (6, 33), (0,))
    run(g.fusion(g.subtract(t, down), g.subtract(t, across)), **CLOSE)


@pytest.mark.parametrize("by_dot", [False, True])
def test_nested_sums_keep_no_temporary(by_dot):
    g = Graph(f32(90, 3), f32(37, 3), f32(37))
    executed = run(g.fusion(gaussian_sum(g, *g.parameters, by_dot=by_dot)), **CLOSE)
    assert not executed.built.temporaries and len(executed.built.launches) == 1


def test_a_full_sum_is_partial_results_and_their_combination():
    g = Graph(f32(1000, 1000), f32(1000, 1000))
    d = g.subtract(*g.parameters)
    loss = g.divide(g.sum(g.multiply(d, d), 0, 1), g.constant(1e6))
    executed = run(g.fusion(loss, g.max(d, 0, 1)), rtol=1e-5)
    assert len(executed.built.launches) == 2
    assert sum(t.nbytes for t in executed.built.temporaries) < 1 << 12


# Products -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "m, k, n", [(1, 1, 1), (3, 5, 7), (8, 300, 32), (33, 20, 77), (9, 0, 5), (64, 64, 64)]
)
def test_products_in_every_layout(m, k, n):
    for left, right, contract in (
        ((m, k), (k, n), ((1,), (0,))),
        ((m, k), (n, k), ((1,), (1,))),
        ((k, m), (k, n), ((0,), (0,))),
        ((k, m), (n, k), ((0,), (1,))),
    ):
        g = Graph(f32(*left), f32(*right))
        run(g.fusion(g.dot(*g.parameters, contract=contract)), rtol=1e-4, atol=1e-4)


def test_products_of_batches_and_of_vectors():
    for left, right, contract, batch in (
        ((5, 33, 20), (5, 20, 40), ((2,), (1,)), ((0,), (0,))),
        ((4, 2, 9, 8), (2, 4, 8, 70), ((3,), (2,)), ((0, 1), (1, 0))),
        ((33,), (20,), ((), ()), ((), ())),
        ((33, 40), (40,), ((1,), (0,)), ((), ())),
        ((40,), (40, 33), ((0,), (0,)), ((), ())),
        ((40,), (40,), ((0,), (0,)), ((), ())),
        ((3, 4, 5), (4, 5, 6), ((1, 2), (0, 1)), ((), ())),
    ):
        g = Graph(f32(*left), f32(*right))
        run(g.fusion(g.dot(*g.parameters, contract=contract, batch=batch)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [F64, I32])
def test_products_of_other_dtypes(dtype):
    g = Graph(TensorType((13, 40), dtype), TensorType((40, 50), dtype))
    run(g.fusion(g.dot(*g.parameters)), rtol=1e-12, atol=1e-12)


def test_work_on_a_product_happens_in_its_kernel():
    g = Graph(f32(33, 20), f32(20, 77), f32(77))
    x, w, b = g.parameters
    y = g.tanh(g.add(g.dot(x, w), g.spread(b, (33, 77), (1,))))
    assert len(run(g.fusion(y), rtol=1e-4, atol=1e-5).built.launches) == 1


# Everything ---------------------------------------------------------------------------------------


def _random_fusion(seed: int):
    r = random.Random(seed)
    shape = r.choice([(6, 33), (4, 3, 20), (70,), (3, 130), (40, 2)])
    g = Graph(f32(*shape), f32(*shape), f32(shape[-1]))
    values = [g.parameters[0], g.parameters[1], g.spread(g.parameters[2], shape, (len(shape) - 1,))]
    for _ in range(r.randint(3, 12)):
        x, y = r.choice(values), r.choice(values)
        match r.randint(0, 8):
            case 0 | 1:
                values.append(g.add(x, y))
            case 2:
                values.append(g.multiply(x, y))
            case 3:
                values.append(g.tanh(x))
            case 4:
                axis = r.randrange(len(shape))
                kept = [i for i in range(len(shape)) if i != axis]
                values.append(g.spread(g.max(x, axis), shape, kept))
            case 5:
                axis = len(shape) - 1
                values.append(g.spread(g.sum(x, axis), shape, range(axis)))
            case 6:
                values.append(g.reverse(x, dimensions=(r.randrange(len(shape)),)))
            case 7:
                values.append(g.negate(x))
            case 8:
                axis = r.randrange(len(shape))
                size = shape[axis] // 2
                low = g.slice(
                    x,
                    start_indices=[0] * len(shape),
                    strides=[1] * len(shape),
                    limit_indices=[size if i == axis else n for i, n in enumerate(shape)],
                )
                high = g.slice(
                    y,
                    start_indices=[size if i == axis else 0 for i in range(len(shape))],
                    strides=[1] * len(shape),
                    limit_indices=shape,
                )
                values.append(g.concatenate(low, high, dimension=axis))
    return g.fusion(values[-1], r.choice(values[3:]))


@pytest.mark.parametrize("seed", range(25))
def test_random_fusions(seed):
    run(_random_fusion(seed), rtol=3e-4, atol=3e-4)
