"""Programs that are wrong, one per error message. Their texts are the golden files beside this one.

Add new programs at the end: the messages name line numbers of this file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import braze as bz
import braze.numpy as bnp
from braze import knobs, lax

PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(function: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[function.__name__] = function
    return function


# Values that Python asks for -------------------------------------------------------------------------


@program
def if_on_a_tracer():
    @bz.jit
    def relu(x):
        if x > 0:
            return x
        return 0.0

    relu(1.0)


@program
def if_on_a_tracer_of_a_dict():
    @bz.jit
    def step(params, rate):
        if params["w"].sum() > rate:
            return params
        return params

    step({"w": bnp.ones(3), "b": bnp.ones(2)}, 0.1)


@program
def while_on_a_tracer():
    @bz.jit
    def halve(x):
        while x > 1:
            x = x / 2
        return x

    halve(8.0)


@program
def int_of_a_tracer():
    bz.jit(lambda x: int(x))(2)


@program
def float_of_a_tracer():
    bz.jit(lambda x: float(x) + 1.0)(2.0)


@program
def numpy_function_of_a_tracer():
    bz.jit(lambda x: np.sin(x))(bnp.ones(3))


@program
def list_index_of_a_tracer():
    names = ["a", "b"]
    bz.jit(lambda i: len(names[i]))(1)


@program
def size_of_a_tracer():
    bz.jit(lambda n: bnp.arange(n))(3)


@program
def slice_bound_of_a_tracer():
    bz.jit(lambda x, n: x[:n])(bnp.ones(4), 2)


@program
def leaked_tracer():
    kept = []

    @bz.jit
    def f(x):
        kept.append(x * 2)
        return x

    f(1.0)
    kept[0] + 1


# Shapes and dtypes -----------------------------------------------------------------------------------


@program
def shapes_of_add():
    bnp.ones((3, 4)) + bnp.ones((3,))


@program
def shapes_of_add_in_jit():
    @bz.jit
    def forward(x, bias):
        y = x + bias
        return y * 2

    forward(bnp.ones((3, 4)), bnp.ones(5))


@program
def shapes_of_matmul():
    bnp.ones((2, 3)) @ bnp.ones((4, 5))


@program
def shapes_of_concatenate():
    bnp.concatenate([bnp.ones((2, 3)), bnp.ones((2, 4))], axis=0)


@program
def size_of_reshape():
    bnp.ones((2, 3)).reshape(4, 2)


@program
def unknown_sizes_of_reshape():
    bnp.ones((2, 3)).reshape(-1, -1)


@program
def shape_of_broadcast():
    bnp.broadcast_to(bnp.ones(3), (2, 4))


@program
def dtypes_of_lax_add():
    lax.add(np.float32(1), np.float64(2))


@program
def shapes_of_lax_add():
    lax.add(bnp.ones((2, 3)), bnp.ones(3))


@program
def dtype_of_sine():
    lax.sin(bnp.arange(3))


@program
def axis_out_of_bounds():
    bnp.sum(bnp.ones((2, 3)), axis=2)


@program
def axis_twice():
    bnp.sum(bnp.ones((2, 3)), axis=(0, -2))


@program
def index_out_of_bounds():
    bnp.ones((2, 3))[0, 3]


@program
def too_many_indices():
    bnp.ones(3)[0, 0]


@program
def index_by_a_list():
    bnp.ones(3)[[0, 1]]


@program
def ragged_array():
    bnp.array([[1, 2], [3]])


@program
def array_of_a_string():
    bnp.array("abc")


@program
def array_of_nested_none():
    bnp.array([1.0, [None]])


@program
def empty_maximum():
    bnp.max(bnp.zeros((0, 3)), axis=0)


@program
def list_as_an_array():
    bnp.exp([1.0, 2.0])


@program
def assignment():
    x = bnp.ones(3)
    x[0] = 2.0


@program
def truth_of_an_array():
    if bnp.ones(3) > 0:
        pass


@program
def hash_of_an_array():
    {bnp.ones(3): 1}


@program
def python_int_too_large():
    bnp.ones(3, dtype=np.int8) + 300


@program
def python_int_too_large_for_the_default():
    bnp.array(2**40)


@program
def python_int_too_large_as_an_argument():
    bz.jit(lambda n: n + 1)(2**40)


@program
def negative_power_of_an_integer():
    bnp.arange(3) ** -1


@program
def too_much_memory():
    bnp.zeros((1 << 50,))


# jit -------------------------------------------------------------------------------------------------


@program
def unhashable_static():
    bz.jit(lambda x, sizes: x.reshape(sizes), static_argnums=1)(bnp.ones(6), [2, 3])


@program
def static_tracer():
    inner = bz.jit(lambda x, n: x * n, static_argnames="n")
    bz.jit(lambda x: inner(x, n=x))(2.0)


@program
def static_name_unknown():
    bz.jit(lambda x: x, static_argnames="y")


@program
def static_number_unknown():
    bz.jit(lambda x: x, static_argnums=1)


@program
def static_and_donated():
    bz.jit(lambda x: x, static_argnums=0, donate_argnums=0)


@program
def donated_array_used_again():
    update = bz.jit(lambda x: x + 1, donate_argnums=0)
    x = bnp.ones(1000)
    update(x)
    x + 1


@program
def deleted_array_as_an_argument():
    x = bnp.ones(3)
    x.delete()
    bz.jit(lambda x: x + 1)(x)


@program
def argument_that_is_no_array():
    bz.jit(lambda x, mode: x)(1.0, "fast")


@program
def argument_object_in_a_dict():
    bz.jit(lambda params: params["w"])({"w": object()})


@program
def result_that_is_no_array():
    bz.jit(lambda x: {"x": x, "name": "x"})(1.0)


@program
def jit_of_no_function():
    bz.jit(3)


@program
def compiled_for_other_types():
    compiled = bz.jit(lambda x: x + 1).lower(bnp.ones(3)).compile()
    compiled(bnp.ones(4))


@program
def compiled_for_another_structure():
    compiled = bz.jit(lambda x: x).lower((bnp.ones(3), 1.0)).compile()
    compiled([bnp.ones(3), 1.0])


@program
def stage_of_traced_missing():
    bz.jit(lambda x: x).trace(1.0).as_text("llvm")


@program
def stage_on_numpy_missing():
    bz.jit(lambda x: x, target="numpy").lower(1.0).compile().as_text("kernel")


@program
def stage_of_text_missing():
    text = bz.jit(lambda x: x + 1).lower(1.0).as_text()
    bz.hlo.compile(text).as_text("jaxpr")


@program
def target_unknown():
    bz.jit(lambda x: x, target="gpu")


@program
def knob_unknown():
    with bz.config(colour=1):
        pass


@program
def knob_value():
    with bz.config(verify=3):
        pass


@program
def variable_unknown():
    knobs._from_environment({"BRAZE_DEBGU": "1"})


@program
def custom_call_unknown():
    text = """
    func.func @main(%arg0: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.custom_call @mystery(%arg0) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    """
    bz.hlo.compile(text)(1.0)


# Loops, branches and transformations -----------------------------------------------------------------


@program
def carry_of_scan():
    lax.scan(lambda c, x: (c * 1.5, x), np.int32(0), bnp.ones(3))


@program
def body_of_scan():
    lax.scan(lambda c, x: c + x, 0.0, bnp.ones(3))


@program
def lengths_of_scan():
    lax.scan(lambda c, x: (c, x), 0.0, (bnp.ones(3), bnp.ones(4)))


@program
def carry_of_while():
    lax.while_loop(
        lambda s: s["i"] < 3, lambda s: {"i": s["i"] + 1, "x": s["x"][:1]}, {"i": 0, "x": bnp.ones(2)}
    )


@program
def structure_of_while():
    lax.while_loop(lambda c: c[0] < 3, lambda c: [c[0] + 1, c[1]], (0, 1.0))


@program
def condition_of_while():
    lax.while_loop(lambda x: x, lambda x: x - 1, 3)


@program
def condition_of_while_is_an_array():
    lax.while_loop(lambda x: x < 3, lambda x: x + 1, bnp.ones(3))


@program
def branches_of_cond():
    lax.cond(True, lambda x: x, lambda x: x > 0, bnp.ones(3))


@program
def structures_of_cond():
    lax.cond(True, lambda x: (x, x), lambda x: x, bnp.ones(3))


@program
def predicate_of_cond():
    lax.cond(bnp.ones(3) > 0, lambda x: x, lambda x: -x, 1.0)


@program
def index_of_switch():
    lax.switch(1.0, [lambda x: x, lambda x: -x], 1.0)


@program
def gradient_of_a_vector():
    bz.grad(lambda x: x * 2)(bnp.ones(3))


@program
def gradient_of_an_integer():
    bz.grad(lambda n: n * 2.0)(3)


@program
def gradient_through_float():
    bz.grad(lambda x: float(x) * x)(3.0)


@program
def gradient_of_while():
    bz.grad(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 2, x))(1.0)


@program
def sizes_of_vmap():
    bz.vmap(lambda x, y: x + y)(bnp.ones(3), bnp.ones(4))


@program
def axis_of_vmap():
    bz.vmap(lambda x: x, in_axes=1)(bnp.ones(3))


@program
def tangents_of_jvp():
    bz.jvp(lambda x: x, (bnp.ones(3),), (bnp.ones(4),))


@program
def field_of_debug_print():
    bz.jit(lambda x: bz.debug.print("x = {y}", x))(1.0)


@program
def exception_in_a_callback():
    def refuse(x):
        raise ValueError(f"x is {x}")

    bz.jit(lambda x: bz.debug.callback(refuse, x))(1.0)


@program
def out_is_given():
    bnp.sum(bnp.ones(3), out=bnp.zeros(()))


@program
def len_of_a_scalar():
    len(bnp.ones(()))


@program
def exponent_of_power():
    lax.pow(bnp.ones(3), bnp.ones(3, dtype="int32"))


@program
def sizes_of_stack():
    bnp.stack([bnp.ones(2), bnp.ones(3)])


@program
def memory_of_results_in_jit():
    bz.jit(lambda x: bnp.broadcast_to(x, (1 << 24, 1 << 24)))(1.0)


@program
def length_of_scan():
    lax.scan(lambda c, _: (c, c), 0.0, None, length=-3)


@program
def only_is_no_expression():
    bz.config(only="[").__enter__()


@program
def threads_are_no_decimal():
    bz.config(threads="\u00b2").__enter__()


@program
def dump_is_no_folder():
    with bz.config(dump="/dev/null/dump"):
        bz.jit(lambda x: x + 41)(1.0)
