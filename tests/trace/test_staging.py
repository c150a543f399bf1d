"""Tracing: what becomes an input, a constant, a literal; effects; errors; cost."""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest

from braze import core
from braze.dtypes import F32
from braze.errors import ArgumentError, ConcretizationError, LeakedTracerError, VerificationError
from braze.ops import control
from braze.ops.elementwise import add, convert_element_type, gt, mul
from braze.ops.table import Effect
from braze.ops.transcendental import sin
from braze.trace import jaxpr as ir
from braze.trace.jaxpr import Literal
from braze.trace.make_jaxpr import ShapeDtypeStruct, eval_shape, make_jaxpr
from braze.trace.staging import stage, trace_to_jaxpr
from braze.trace.vmap import vmap
from braze.types import TensorType

X = np.float32(1.5)
XS = np.arange(3, dtype=np.float32)


def test_scalars_become_literals_in_their_dtype():
    closed = make_jaxpr(lambda x: (mul(x, 0.1), mul(x, np.float32(2)), mul(x, np.array(3, np.float32))))(X)
    literals = [v for eqn in closed.eqns for v in eqn.inputs if isinstance(v, Literal)]
    assert [v.value for v in literals] == [np.float32(0.1), 2, 3]
    assert [v.type.weak_type for v in literals] == [True, False, False]
    assert closed.consts == ()


def test_captured_arrays_become_constants_once():
    closed = make_jaxpr(lambda x: add(mul(x, XS), XS))(XS)
    assert len(closed.consts) == 1 and len(closed.jaxpr.constvars) == 1
    np.testing.assert_array_equal(closed.consts[0], XS)


def test_captured_arrays_are_copied_when_they_are_met():
    table = np.zeros(2, np.float32)

    def f(x):
        y = add(x, table)
        table[0] = 7
        return mul(y, table)

    closed = make_jaxpr(f)(np.ones(2, np.float32))
    table[:] = 100
    assert [list(c) for c in closed.consts] == [[0, 0], [7, 0]]
    with pytest.raises(ValueError):
        closed.consts[0][0] = 1
    (found,) = ir.evaluate(closed.jaxpr, closed.consts, np.ones(2, np.float32))
    np.testing.assert_array_equal(np.asarray(found), [7, 0])


def test_constant_expressions_are_staged_too():
    closed = make_jaxpr(lambda: sin(add(XS, 1.0)))()
    assert [eqn.op.name for eqn in closed.eqns] == ["add", "sin"]


def test_outer_tracers_become_operands_of_the_inner_call():
    inner = []

    def f(x):
        closed, _ = trace_to_jaxpr(lambda y: mul(y, mul(x, XS)), [core.typeof(XS)])
        opened, captured = ir.lift_tracers(closed)
        inner.append((closed, opened, captured))
        return x

    make_jaxpr(f)(X)
    closed, opened, captured = inner[0]
    assert any(c is captured[0] for c in closed.consts) and len(captured) == 1
    assert [t.shape for t in opened.in_avals] == [(), (3,)]
    assert len(opened.consts) == 1 and not isinstance(opened.consts[0], core.Tracer)


def test_common_consts_give_branches_equal_inputs():
    one = make_jaxpr(lambda x: add(x, XS))(XS)
    two = make_jaxpr(lambda x: mul(mul(x, XS), 2 * XS))(XS)
    opened, consts = ir.common_consts([one, two])
    assert len(consts) == 3 and opened[0].in_avals == opened[1].in_avals
    for closed, expected in zip(opened, (XS + XS, XS * XS * 2 * XS)):
        ir.check(closed)
        np.testing.assert_allclose(np.asarray(ir.evaluate(closed.jaxpr, (), *consts, XS)[0]), expected)


def test_pytrees_in_and_out():
    f = lambda p, *, scale: {"y": mul(p["w"], scale), "p": p}
    closed, shapes = make_jaxpr(f, return_shape=True)({"w": XS, "b": X}, scale=2.0)
    assert [str(t) for t in closed.in_avals] == ["f32[]", "f32[3]", "f32[]"]
    assert shapes["y"] == ShapeDtypeStruct((3,), "float32") and shapes["p"]["b"].shape == ()


def test_static_arguments_are_passed_as_they_are():
    f = lambda mode, x: sin(x) if mode == "sin" else x
    assert len(make_jaxpr(f, static_argnums=0)("sin", X).eqns) == 1
    assert len(make_jaxpr(f, static_argnums=0)("same", X).eqns) == 0
    with pytest.raises(ArgumentError, match="static_argnums=3"):
        make_jaxpr(f, static_argnums=3)("sin", X)


def test_eval_shape_computes_nothing():
    calls = []
    found = eval_shape(lambda x: (calls.append(type(x)), mul(x, x))[1], ShapeDtypeStruct((10**9,), "float32"))
    assert found == ShapeDtypeStruct((10**9,), F32)
    assert issubclass(calls[0], core.Tracer)


def test_dead_equations_stay_until_dce():
    closed = make_jaxpr(lambda x: (sin(x), add(x, x))[1])(X)
    assert [eqn.op.name for eqn in closed.eqns] == ["sin", "add"]
    assert [eqn.op.name for eqn in ir.dce(closed.jaxpr).eqns] == ["add"]


def test_effects_are_recorded_through_regions_and_survive_dce():
    def f(x):
        control.debug_callback(x, callback=print, ordered=True)
        return x

    inner = make_jaxpr(f)(X)
    attrs = {"name": "f", "inline": False, "keep_unused": False, "donated_invars": (False,)}
    closed = make_jaxpr(lambda x: (control.jit(x, jaxpr=inner, **attrs), sin(x))[1])(X)
    assert inner.effects == closed.effects == frozenset((Effect.ORDERED,))
    assert make_jaxpr(sin)(X).effects == frozenset()
    assert [eqn.op.name for eqn in ir.dce(closed.jaxpr).eqns] == ["jit", "sin"]


def test_cse_merges_equal_equations_only():
    def f(x):
        control.debug_callback(x, callback=print, ordered=True)
        control.debug_callback(x, callback=print, ordered=True)
        return add(sin(x), sin(x)), mul(x, 0.0), mul(x, -0.0), mul(x, 0.0)

    names = [eqn.op.name for eqn in ir.cse(make_jaxpr(f)(X).jaxpr).eqns]
    assert names == ["debug_callback", "debug_callback", "sin", "add", "mul", "mul"]


def test_check_lists_every_fault():
    closed = make_jaxpr(lambda x: sin(add(x, 1.0)))(XS)
    ir.check(closed)
    first, second = closed.eqns
    wrong = ir.Var(TensorType((4,), F32))
    swapped = ir.Jaxpr((), closed.jaxpr.invars, (second, first), closed.jaxpr.outvars)
    with pytest.raises(
        VerificationError, match=r"equation 0 \(sin\) uses a variable of type f32\[3\] before"
    ):
        ir.check(swapped)
    typed = ir.Equation(first.op, first.inputs, [wrong], first.attrs)
    again = ir.Jaxpr((), closed.jaxpr.invars, (typed, typed, second), closed.jaxpr.outvars)
    with pytest.raises(VerificationError) as caught:
        ir.check(again)
    for words in (
        "4 faults",
        "equation 0 (add) has results [f32[4]], its rule gives [f32[3]]",
        "a second time",
    ):
        assert words in str(caught.value)


def test_branching_on_a_tracer_names_argument_line_and_way_out():
    def f(p, y):
        z = gt(mul(p["w"], 2.0), 0.0)
        return y if z else p["w"]

    with pytest.raises(ConcretizationError) as caught:
        make_jaxpr(f)({"w": X}, X)
    message = str(caught.value)
    assert message.startswith(
        "bool: a value of type bool[] is needed in Python, but it depends on the value of argument p['w'], "
        "not known while f is traced."
    )
    assert f"test_staging.py:{f.__code__.co_firstlineno + 2} in f:  return y if z" in message
    assert "braze.lax.cond" in message and "static_argnums" in message


@pytest.mark.parametrize(
    "convert, title",
    [
        (int, "int"),
        (float, "float"),
        (complex, "complex"),
        (lambda x: [1, 2][x], "index"),
        (np.asarray, "numpy"),
    ],
)
def test_conversions_of_tracers_are_errors(convert, title):
    with pytest.raises(ConcretizationError, match=f"{title}: a value of type"):
        make_jaxpr(convert)(np.int32(1))
    with pytest.raises(TypeError, match="no hash"):
        make_jaxpr(lambda x: {x})(X)


def test_values_computed_inside_are_said_to_be_so():
    with pytest.raises(ConcretizationError, match="computed inside <lambda>, which is being traced"):
        make_jaxpr(lambda: float(sin(1.0)))()
    with pytest.raises(ConcretizationError, match="stands for a whole batch under vmap"):
        vmap(lambda x: 1.0 if gt(x, 0.0) else 2.0)(XS)


def test_leaked_tracers_are_errors_where_they_are_used():
    kept = []
    make_jaxpr(lambda x: kept.append(x) or x)(X)
    for use in (
        lambda: sin(kept[0]),
        lambda: make_jaxpr(lambda y: add(y, kept[0]))(X),
        lambda: make_jaxpr(lambda: kept[0])(),
    ):
        with pytest.raises(LeakedTracerError, match="after the function that made it had ended"):
            use()


def test_results_that_are_no_arrays_are_errors_with_the_path():
    with pytest.raises(ArgumentError, match=r"the result at \['a'\]\[1\] is a value of type str"):
        make_jaxpr(lambda x: {"a": [x, "text"]})(X)


def test_traces_end_when_the_function_raises():
    with pytest.raises(ZeroDivisionError):
        make_jaxpr(lambda x: vmap(lambda y: 1 / 0)(x))(XS)
    assert core.CONTEXT.stack == [] and core.CONTEXT.dynamic is None


def _chain(n):
    def f(x):
        values = [x]
        for i in range(n):
            y = values[-1]
            values.append(add(mul(y, 0.5), sin(values[len(values) // 2])) if i % 3 else mul(y, y))
        return values[-1:]

    return f


def test_large_programs_are_traced_in_linear_time_without_recursion():
    def per_equation(n):
        times = []
        for _ in range(3):
            gc.collect()
            start = time.perf_counter()
            closed = stage(_chain(n), [TensorType((8,), F32)])
            times.append((time.perf_counter() - start) / len(closed.eqns))
        return min(times), closed

    small, _ = per_equation(1000)
    large, closed = per_equation(10_000)
    assert large < 5 * small  # quadratic growth would give 10
    ir.check(closed)
    assert str(closed).count("\n") == len(closed.eqns) + 1
    assert len(ir.dce(closed.jaxpr).eqns) <= len(closed.eqns)


def test_weak_types_are_kept_by_weak_operands_alone():
    weak, strong, named = make_jaxpr(
        lambda x: (mul(x, 2.0), mul(x, X), convert_element_type(x, new_dtype=F32, weak_type=False))
    )(1.0).out_avals
    assert weak.weak_type and not strong.weak_type and not named.weak_type


def test_attributes_of_tracers_hide_no_method() -> None:
    """Tracers have the methods of arrays; a slot of the same name would hide one."""
    import braze.numpy  # noqa: F401  (sets the methods)
    from braze.core import Tracer
    from braze.trace.jvp import JVPTracer
    from braze.trace.staging import StagingTracer
    from braze.trace.vmap import BatchTracer

    for kind in (StagingTracer, JVPTracer, BatchTracer):
        own = set(vars(kind)) & {name for name in vars(Tracer) if not name.startswith("_")}
        assert own <= {"aval", "concrete", "origin"}, f"{kind.__name__} hides {own}"
