"""The fusion pass: what becomes one kernel, what does not and why, and that nothing changes its value."""

import random
import time

import numpy as np
import pytest
from tests.kernel.build.fusions import (
    Executed,
    Graph,
    f32,
    gaussian_sum,
    layernorm,
    log_softmax,
    logsumexp,
    rmsnorm,
    samples,
    softmax,
    variance,
)
from tests.passes.random_modules import Generator
from tests.rules.values import arguments

from braze.dtypes import F32, I32
from braze.errors import Source
from braze.hlo.evaluate import evaluate
from braze.hlo.ir import Builder, Function, Instruction, Module, Region, Value, walk
from braze.hlo.verify import verify
from braze.kernel.build import build
from braze.ops.table import HLO_OPS
from braze.passes.fusion import fusion
from braze.passes.log import Decision, Log
from braze.target import Target
from braze.targets.host import host
from braze.types import TensorType


def fusions(module: Module) -> list[Instruction]:
    return [i for i in walk(module.main.region) if i.op.hlo == "braze.fusion"]


def launches(module: Module) -> int:
    return sum(len(build(f, "k", host()).launches) for f in fusions(module))


def decided(module: Module) -> list[Decision]:
    log = Log()
    fusion(module, target=host(), log=log)
    return log.decisions


def fused(module: Module, target: Target | None = None) -> Module:
    """The module after the pass, verified, and of the same value."""
    after = fusion(module, target=target or host())
    verify(after)
    args = samples([p.type for p in module.main.region.parameters])
    for x, y in zip(evaluate(module, args), evaluate(after, args), strict=True):
        np.testing.assert_array_equal(x, y)
    return after


def run_on_machine(module: Module, args: list[np.ndarray]) -> list[np.ndarray]:
    """Run a fused module without control flow, its fusions as machine code."""
    values: dict[Value, np.ndarray] = dict(zip(module.main.region.parameters, args, strict=True))
    for i in module.main.region.instructions:
        operands = [values[v] for v in i.operands]
        results = (
            Executed(i, operands).results
            if i.op.hlo == "braze.fusion"
            else [i.op.numpy(*operands, **i.attrs)]
        )
        values.update(zip(i.results, results, strict=True))
    return [values[v] for v in module.main.region.results]


# One launch ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(64, 96), (4, 5, 96)], ids=["2-D", "3-D"])
@pytest.mark.parametrize("make", [softmax, log_softmax, logsumexp, variance, layernorm, rmsnorm])
def test_row_programs_are_one_launch(make, shape):
    weights = {layernorm: 2, rmsnorm: 1}.get(make, 0)
    g = Graph(f32(*shape), *[f32(shape[-1])] * weights)
    assert launches(fused(g.module(make(g, *g.parameters)))) == 1


@pytest.mark.parametrize("by_dot", [False, True], ids=["sum", "dot"])
def test_nested_sums_are_one_launch_with_small_temporaries(by_dot):
    g = Graph(f32(4096, 3), f32(2048, 3), f32(2048))
    after = fusion(g.module(gaussian_sum(g, *g.parameters, by_dot=by_dot)), target=host())
    (only,) = fusions(after)
    built = build(only, "k", host())
    assert len(built.launches) == 1
    assert sum(t.nbytes for t in built.temporaries) <= 1 << 20


def test_a_full_sum_is_one_launch_and_a_combination():
    g = Graph(f32(1000, 1000), f32(1000, 1000))
    d = g.subtract(*g.parameters)
    after = fused(g.module(g.divide(g.sum(g.multiply(d, d), 0, 1), g.constant(1e6))))
    assert len(fusions(after)) == 1 and launches(after) == 2


def test_consumers_of_one_producer_share_a_kernel():
    g = Graph(f32(100_000))
    e = g.exponential(g.parameters[0])
    after = fused(g.module(g.negate(e), g.tanh(e)))
    (only,) = fusions(after)
    assert len(only.results) == 2


def test_a_value_and_its_row_sums_share_a_kernel():
    g = Graph(f32(1000, 100))
    e = g.exponential(g.parameters[0])
    assert launches(fused(g.module(g.negate(e), g.sum(e, 1)))) == 1


def test_reductions_of_one_input_share_a_kernel():
    g = Graph(f32(1000, 1000))
    (x,) = g.parameters
    after = fused(g.module(g.sum(x, 0, 1), g.max(x, 0, 1), g.sum(g.multiply(x, x), 0, 1)))
    assert len(fusions(after)) == 1 and launches(after) == 2


def test_work_on_a_product_joins_its_kernel_and_work_before_it_does_not():
    g = Graph(f32(64, 32), f32(32, 48), f32(48), f32(48, 64))
    x, w, b, v = g.parameters
    h = g.tanh(g.add(g.dot(g.exponential(x), w), g.spread(b, (64, 48), (1,))))
    after = fused(g.module(g.dot(h, v)))
    assert [[i.op.hlo for i in f.regions[0].instructions] for f in fusions(after)] == [
        ["exponential"],
        ["dot_general", "broadcast_in_dim", "add", "tanh"],
        ["dot_general"],
    ]


def test_an_expensive_value_is_not_computed_per_row():
    g = Graph(f32(1000, 64), f32(64))
    x, y = g.parameters
    decisions = decided(g.module(g.add(x, g.spread(g.exponential(y), (1000, 64), (1,)))))
    (refused,) = [d for d in decisions if not d.fused]
    assert refused.producer.startswith("exponential") and "1000 times" in refused.reason


def test_a_sum_of_all_stays_apart_from_large_work_that_needs_it():
    g = Graph(f32(1000, 1000))
    (x,) = g.parameters
    after = fused(g.module(g.divide(x, g.spread(g.sum(x, 0, 1), (1000, 1000)))))
    assert len(fusions(after)) == 2


# Small kernels and loops --------------------------------------------------------------------------


def test_independent_scalar_chains_are_one_kernel():
    g = Graph(*[f32()] * 60)
    after = fused(g.module(*[g.add(g.multiply(p, p), g.constant(1.0)) for p in g.parameters]))
    assert len(fusions(after)) == 1


def _scan(steps: int) -> Module:
    """ys[i] = tanh(x[i] * s); s += ys[i].sum(), as a scan lowers."""
    g = Graph(f32(steps, 40), f32())
    xs, s0 = g.parameters
    state = [TensorType((), I32), f32(), f32(steps, 40)]
    i, s, ys = (Value(t) for t in state)
    body = Graph()
    zero = body.constant(0, I32)
    x = body.reshape(body.dynamic_slice(xs, i, zero, slice_sizes=(1, 40)), shape=(40,))
    y = body.tanh(body.multiply(x, body.spread(s, (40,))))
    ys_next = body.dynamic_update_slice(ys, body.reshape(y, shape=(1, 40)), i, zero)
    s_next = body.add(s, body.sum(y, 0))
    i_next = body.add(i, body.constant(1, I32))
    j, t, zs = (Value(t) for t in state)
    condition = Graph()
    more = condition.compare(
        j, condition.constant(steps, I32), comparison_direction="LT", compare_type="SIGNED"
    )
    regions = (
        Region((j, t, zs), condition.builder.instructions, (more,)),
        Region((i, s, ys), body.builder.instructions, (i_next, s_next, ys_next)),
    )
    inits = g.constant(0, I32), s0, g.full(0.0, (steps, 40))
    results = g.builder.emit_many(HLO_OPS["while"], *inits, regions=regions)
    return g.module(results[1], results[2])


def test_a_scan_writes_its_row_in_place():
    after = fused(_scan(5))
    loop = next(i for i in after.main.region.instructions if i.op.hlo == "while")
    updates = [i for i in loop.regions[1].instructions if i.attrs.get("aliases")]
    (update,) = updates
    ((result, operand),) = update.attrs["aliases"]
    assert update.operands[operand] is loop.regions[1].parameters[2]
    assert update.results[result].type == f32(5, 40)
    assert len([i for i in loop.regions[1].instructions if i.op.hlo == "braze.fusion"]) <= 3


def test_an_update_reads_its_own_window_only():
    for other, kernels in ((False, 1), (True, 2)):
        g = Graph(f32(20, 40), TensorType((), I32), TensorType((), I32))
        x, i, j = g.parameters
        zero = g.constant(0, I32)
        window = g.dynamic_slice(x, j if other else i, zero, slice_sizes=(1, 40))
        after = fused(g.module(g.dynamic_update_slice(x, g.negate(window), i, zero)))
        assert len(fusions(after)) == kernels


# Records ------------------------------------------------------------------------------------------


def test_every_edge_leaves_a_record_with_its_line():
    line = Source(test_every_edge_leaves_a_record_with_its_line.__code__, 7)
    g = Graph(f32(8, 96))
    g.builder.source = line
    decisions = decided(g.module(softmax(g, g.parameters[0])))
    producers = {d.producer.split(".")[0] for d in decisions}
    assert {"reduce", "exponential", "subtract", "broadcast_in_dim"} <= producers
    assert all(d.reason and d.rule and d.source == line for d in decisions)
    assert all(d.bytes_saved > 0 for d in decisions if d.producer.startswith("exponential"))


def test_kernels_come_after_what_they_need_and_effects_keep_their_order():
    g = Graph(f32(8))
    (x,) = g.parameters
    order = []
    for k in range(3):
        g.builder.emit_many(
            HLO_OPS["custom_call"], g.add(x, g.full(float(k), (8,))), call_target_name=f"show{k}",
            has_side_effect=True, backend_config="", callback=order.append, result_types=(),
        )  # fmt: skip
    after = fusion(g.module(g.negate(x)), target=host())
    verify(after)
    names = [i.attrs["call_target_name"] for i in after.main.region.instructions if i.op.hlo == "custom_call"]
    assert names == ["show0", "show1", "show2"]


# Large programs -----------------------------------------------------------------------------------


def _tangle(count: int, seed: int, shape: tuple[int, ...]) -> Module:
    r = random.Random(seed)
    g = Graph(*[TensorType(shape, F32)] * 4)
    values = list(g.parameters)
    for _ in range(count):
        op = r.choice(["add", "multiply", "subtract", "negate", "sine", "tanh", "maximum"])
        x, y = r.choice(values[-20:]), r.choice(values[-20:])
        two = op in ("add", "multiply", "subtract", "maximum")
        values.append(getattr(g, op)(x, y) if two else getattr(g, op)(x))
    return g.module(*values[-5:])


@pytest.mark.parametrize("seed", range(12))
def test_tangled_programs_keep_their_value(seed):
    shape = ((), (40,), (30_000,))[seed % 3]
    fused(_tangle(30 + 40 * seed, seed, shape))


def test_tangled_programs_run_as_machine_code():
    module = _tangle(60, 1, (70,))
    args = samples([p.type for p in module.main.region.parameters])
    after = fused(module)
    for x, y in zip(run_on_machine(after, args), evaluate(module, args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


def test_long_chains_need_no_recursion_and_linear_time():
    times = []
    for count in (1000, 4000):
        g = Graph(f32(100))
        x = g.parameters[0]
        for _ in range(count):
            x = g.add(x, g.parameters[0])
        module = Module({"main": Function("main", g.region(x))})
        start = time.perf_counter()
        after = fusion(module, target=host())
        times.append(time.perf_counter() - start)
        verify(after)
        assert all(len(f.regions[0].instructions) <= 601 for f in fusions(after))
    assert times[1] < 20 * times[0], f"{times} s for 1,000 and 4,000 operations"


# Effects ------------------------------------------------------------------------------------------


def _effect(b: Builder, x: Value, log: list[float]) -> Value:
    def callback(value: np.ndarray) -> list[np.ndarray]:
        log.append(float(value.sum()))
        return [value + np.float32(1)]

    attrs = {"call_target_name": "braze_callback", "has_side_effect": True, "backend_config": ""}
    return b.emit_many(HLO_OPS["custom_call"], x, callback=callback, result_types=(x.type,), **attrs)[0]


@pytest.mark.parametrize("size", [8, 30_000], ids=["small", "large"])
def test_kernels_on_both_sides_of_effects_stay_apart(size):
    """The first kernel feeds one effect, the next effect feeds the second: they share an input, no launch."""
    log: list[float] = []
    x = Value(f32(size))
    b = Builder()
    early = b.emit(HLO_OPS["sine"], x)
    first = _effect(b, early, log)
    second = _effect(b, b.constant(np.ones(size), F32), log)
    late = b.emit(HLO_OPS["add"], b.emit(HLO_OPS["sine"], second), x)
    both = b.emit(HLO_OPS["multiply"], late, early)
    module = Module({"main": Function("main", Region((x,), b.instructions, (late, both, first)))})
    after = fused(module)
    assert log[:2] == log[2:]
    assert len(fusions(after)) == 2


@pytest.mark.parametrize("seed", range(40))
def test_random_modules_keep_results_and_effects(seed):
    log: list[object] = []
    module = Generator(seed, log).module()
    args = arguments(module, np.random.default_rng(seed))
    expected, expected_log = evaluate(module, args), list(log)
    log.clear()
    after = fusion(module, target=host())
    verify(after)
    for x, y in zip(evaluate(after, args), expected, strict=True):
        np.testing.assert_array_equal(x, y)
    assert log == expected_log


def test_constants_that_kernels_have_as_immediates_leave_the_program():
    zero, i, x = Value(TensorType((), I32)), Value(TensorType((), I32)), Value(f32(8))
    b = Builder()
    half = b.constant(np.full(8, 0.5), F32)
    condition = Builder()
    less = condition.emit(
        HLO_OPS["compare"], i, condition.constant(3, I32), comparison_direction="LT", compare_type="SIGNED"
    )
    body, j, y = Builder(), Value(i.type), Value(x.type)
    results = (body.emit(HLO_OPS["add"], j, body.constant(1, I32)), body.emit(HLO_OPS["multiply"], y, half))
    regions = (
        Region((i, Value(x.type)), condition.instructions, (less,)),
        Region((j, y), body.instructions, results),
    )
    _, last = b.emit_many(HLO_OPS["while"], zero, x, regions=regions)
    module = Module({"main": Function("main", Region((zero, x), b.instructions, (last,)))})
    after = fused(module)
    inside = {i for f in fusions(after) for i in f.regions[0].instructions}
    assert not [i for i in walk(after.main.region) if i.op.hlo == "constant" and i not in inside]


def test_records_list_operations_and_no_immediates():
    g = Graph(f32(8))
    x = g.parameters[0]
    (fusion_,) = fusions(fused(g.module(g.add(g.multiply(x, x), g.full(2, (8,))))))
    assert build(fusion_, "k", host()).launches[0].kernel.ops == ("multiply", "add")
