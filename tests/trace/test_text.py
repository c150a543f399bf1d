"""The printed form of jaxprs is JAX's."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import BRAZE, jax_world

from braze.ops import elementwise, transcendental
from braze.trace import jaxpr as ir
from braze.trace.make_jaxpr import make_jaxpr
from braze.trace.text import text

JAX = jax_world()
C = np.arange(3, dtype=np.float32)
ONE = np.float32(1)


def one_line(w):
    return w.sin


def literals(w):
    return lambda x: w.add(w.mul(x, 2.0), 0.5)


def constants(w):
    return lambda x: w.add(w.mul(x, C), C)


def results_of_all_kinds(w):
    return lambda x: (x, x, 3, 4.0, C, True)


def no_equations_over_many_lines(w):
    return lambda x: (x,) * 40


def inner_names_follow_outer(w):
    return lambda x: w.jit(lambda y, z: (w.mul(w.sin(y), z), z))(x, w.cos(x))


def unused_results(w):
    return lambda x: w.jit(lambda y: (w.sin(y), w.cos(y), y))(x)[1]


def long_inner_jaxpr_comes_first(w):
    def long(x):
        for _ in range(7):
            x = w.sin(w.cos(x))
        return x

    return lambda x: w.jit(long)(x)


def loops(w):
    def f(x):
        c, ys = w.scan(lambda c, y: (w.add(w.mul(c, y), ONE), c), ONE, x)
        return w.while_loop(lambda c: w.lt(c, np.float32(3)), lambda c: w.add(c, ONE), c), ys

    return f


def attributes(w):
    return lambda x: (w.where(w.lt(x, 0.0), x, w.power(x, 3)), w.to_int(w.lt(x, 0.0)))


def names_beyond_z(w):
    return lambda x: tuple(w.mul(x, float(i)) for i in range(30))


PROGRAMS = [
    one_line,
    literals,
    constants,
    results_of_all_kinds,
    no_equations_over_many_lines,
    inner_names_follow_outer,
    unused_results,
    long_inner_jaxpr_comes_first,
    loops,
    attributes,
    names_beyond_z,
]


@pytest.mark.skipif(JAX is None, reason="jax is not installed")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_text_is_that_of_jax(program):
    import jax

    x = np.ones(3, np.float32)
    assert str(make_jaxpr(program(BRAZE))(x)) == str(jax.make_jaxpr(program(JAX))(x))


def test_branches_print_one_below_the_other():
    f = lambda x: BRAZE.switch(np.int32(1), [lambda x: BRAZE.sub(x, x), lambda x: BRAZE.add(x, ONE)], x)
    assert str(make_jaxpr(f)(np.ones(3, np.float32))) == (
        "{ lambda ; a:f32[3]. let\n"
        "    b:f32[3] = cond[\n"
        "      branches=(\n"
        "        { lambda ; c:f32[3]. let d:f32[3] = sub c c in (d,) }\n"
        "        { lambda ; e:f32[3]. let f:f32[3] = add e 1.0:f32[] in (f,) }\n"
        "      )\n"
        "    ] 1:i32[] a\n"
        "  in (b,) }"
    )


def test_jaxpr_used_twice_prints_once():
    inner = make_jaxpr(lambda x: BRAZE.mul(x, x))(ONE)
    attrs = {
        "jaxpr": inner,
        "name": "<square>",
        "inline": False,
        "keep_unused": False,
        "donated_invars": (False,),
    }
    from braze.ops import control

    f = lambda x: control.jit(*control.jit(x, **attrs), **attrs)
    assert str(make_jaxpr(f)(ONE)) == (
        "let square = { lambda ; a:f32[]. let b:f32[] = mul a a in (b,) } in\n"
        "{ lambda ; c:f32[]. let\n"
        "    d:f32[] = jit[name=<square> jaxpr=square] c\n"
        "    e:f32[] = jit[name=<square> jaxpr=square] d\n"
        "  in (e,) }"
    )


def test_source_adds_the_users_lines():
    def f(x):
        y = BRAZE.sin(x)
        return BRAZE.mul(y, y)

    line = f.__code__.co_firstlineno
    assert text(make_jaxpr(f)(ONE), source=True) == (
        "{ lambda ; a:f32[]. let\n"
        f"    b:f32[] = sin a  # test_text.py:{line + 1}\n"
        f"    c:f32[] = mul b b  # test_text.py:{line + 2}\n"
        "  in (c,) }"
    )


def test_derived_jaxprs_keep_the_users_lines():
    def f(x):
        return transcendental.sin(elementwise.mul(x, x))

    line = f.__code__.co_firstlineno + 1
    calls = make_jaxpr(BRAZE.grad(BRAZE.jit(f)))(ONE).eqns
    found = {eqn.source.short for call in calls for eqn in call.attrs["jaxpr"].eqns}
    assert len(calls) == 2 and found == {f"test_text.py:{line}"}


def test_broken_ir_prints():
    v, lost = ir.Var(make_jaxpr(BRAZE.sin)(ONE).in_avals[0]), ir.Var(make_jaxpr(BRAZE.sin)(C).in_avals[0])
    eqn = ir.Equation(elementwise.convert_element_type, [lost, lost], [v], {})
    assert str(ir.Jaxpr([], [], [eqn], [v])) == (
        "{ lambda ; . let a:f32[] = convert_element_type b b in (a,) }"
    )
