"""`jit`: its options, its methods, what is traced again and what is not."""

from __future__ import annotations

import threading
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field

import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import lax
from braze.runtime import array as arrays

TARGETS = ("cpu", "numpy")


class Counter:
    """Counts how often a function is traced."""

    def __init__(self, function):
        self.function = function
        self.traces = 0

    def __call__(self, *args, **kwargs):
        self.traces += 1
        return self.function(*args, **kwargs)


@pytest.fixture(params=TARGETS)
def target(request):
    with bz.config(target=request.param):
        yield request.param


# Static arguments ------------------------------------------------------------------------------------


def test_statics_are_python_values_inside(target):
    @bz.jit
    def wrong(x, n):
        return x if n > 1 else -x

    right = bz.jit(wrong.__wrapped__, static_argnums=1)
    assert float(right(2.0, 2)) == 2.0
    assert float(right(2.0, 0)) == -2.0
    assert float(right(2.0, n=0)) == -2.0, "a number is known by its name too"
    with pytest.raises(bz.ConcretizationError):
        wrong(2.0, 2)


def test_static_names_hold_for_positions_too():
    f = bz.jit(lambda x, mode="up": x + 1 if mode == "up" else x - 1, static_argnames="mode")
    assert [float(f(1.0)), float(f(1.0, "down")), float(f(1.0, mode="down"))] == [2, 0, 0]


def test_negative_static_numbers():
    f = bz.jit(lambda x, n: x * n, static_argnums=-1)
    assert float(f(2.0, 3)) == 6.0


def test_equal_statics_of_other_types_trace_anew():
    f = bz.jit(lambda x, n: bnp.asarray(n) + 0 * x, static_argnums=1)
    kinds = [f(np.int32(0), n).dtype.kind for n in (1, 1.0, True, 1)]
    assert kinds == ["i", "f", "i", "i"]


def test_equal_statics_within_tuples_trace_anew():
    f = bz.jit(lambda x, n: x * n[0][0], static_argnums=1)
    kinds = [f(np.int32(0), ((n,),)).dtype.kind for n in (1, 1.0, True, 1)]
    assert kinds == ["i", "f", "i", "i"]


@pytest.mark.parametrize(
    "wrap", [lambda n: n, lambda n: (n,), lambda n: complex(n, 1.0), lambda n: complex(1.0, n)]
)
def test_zeros_of_both_signs_trace_anew(wrap):
    counted = Counter(lambda x, n: x)
    f = bz.jit(counted, static_argnums=1)
    for n in (0.0, -0.0, 0.0, -0.0):
        f(1.0, wrap(n))
    assert counted.traces == 2


def test_equal_statics_that_are_other_objects_find_the_trace():
    counted = Counter(lambda x, sizes: x.reshape(sizes))
    f = bz.jit(counted, static_argnums=1)
    for sizes in ([2, 3], [2, 3], [2, 3]):
        assert f(bnp.ones(6), tuple(sizes)).shape == (2, 3)
    assert counted.traces == 1


def test_static_functions_and_objects():
    f = bz.jit(lambda g, x: g(x), static_argnums=0)
    assert float(f(bnp.sin, 0.0)) == 0.0
    assert float(f(bnp.cos, 0.0)) == 1.0


# What is traced again --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "twin", [2.5, np.float32(2.5), np.ones(3, np.float32), (1.0, [2.0]), {"a": 1, "b": 2.0}]
)
def test_a_signature_is_traced_once(twin, target):
    counted = Counter(lambda x: bz.tree.map(lambda leaf: leaf * 2, x))
    f = bz.jit(counted)
    for _ in range(4):
        f(twin)
    assert counted.traces == 1


def test_shape_dtype_weakness_and_structure_each_trace():
    counted = Counter(lambda x: bz.tree.map(lambda leaf: leaf + 1, x))
    f = bz.jit(counted)
    x = bnp.ones(3)
    given = [x, bnp.ones(4), x.astype(int), 1.0, np.float32(1), [x], (x,), {"a": x}, {"b": x}, (x, None)]
    for count, value in enumerate(given, 1):
        f(value), f(value)
        assert counted.traces == count, value


def test_an_array_and_a_python_float_of_the_same_type_share_a_trace():
    counted = Counter(lambda x: x * 2)
    f = bz.jit(counted)
    weak = f(1.0)
    assert weak.weak_type
    f(weak)
    assert counted.traces == 1


def test_keyed_settings_trace_anew_and_come_back():
    counted = Counter(lambda x: x * 2)
    f = bz.jit(counted)
    f(1.0)
    with bz.config(x64=True):
        assert f(1.0).dtype == np.float64
    assert f(1.0).dtype == np.float32
    with bz.config(target="numpy"):
        assert float(f(3.0)) == 6.0
    assert counted.traces == 3


def test_cache_info_and_clear_cache():
    counted = Counter(lambda x: x * 2)
    f = bz.jit(counted)
    f(1.0), f(bnp.ones(3))
    assert (f.cache_info().traces, f.cache_info().entries) == (2, 2)
    assert f.cache_info().types == ("f32[]", "f32[3]")
    f.clear_cache()
    assert (f.cache_info().traces, f.cache_info().entries) == (0, 0)
    f(1.0)
    assert counted.traces == 3


def test_more_statics_than_entries_stay_known():
    counted = Counter(lambda x, n: x + n)
    f = bz.jit(counted, static_argnums=1)
    for _ in range(2):
        assert [float(f(0.0, n)) for n in range(20)] == list(range(20))
    assert counted.traces == 20


# Arguments -------------------------------------------------------------------------------------------

Pair = namedtuple("Pair", "first second")


@dataclass
class Model:
    weight: object
    name: str = field(default="model", metadata={"static": True})


class Box:
    def __init__(self, content):
        self.content = content


bz.tree_util.register_dataclass(Model, data_fields=["weight"], meta_fields=["name"])
bz.tree_util.register_pytree_node(
    Box, lambda box: ((box.content,), None), lambda _, children: Box(children[0])
)


def test_containers_in_and_out(target):
    @bz.jit
    def f(tree):
        return bz.tree.map(lambda leaf: leaf * 2, tree)

    given = {"pair": Pair(1.0, [2.0, None]), "none": None, "empty": ((), {}), "a": (bnp.ones(2), 3)}
    for _ in range(2):
        found = f(given)
        assert isinstance(found["pair"], Pair) and found["none"] is None and found["empty"] == ((), {})
        assert [float(found["pair"].first), float(found["pair"].second[0])] == [2.0, 4.0]
        assert int(found["a"][1]) == 6


def test_registered_containers(target):
    scale = bz.jit(lambda model, by: Model(model.weight * by, model.name))
    for _ in range(3):
        found = scale(Model(bnp.ones(2), "mine"), 3.0)
        assert found.name == "mine" and found.weight.tolist() == [3.0, 3.0]
    box = bz.jit(lambda box: Box([box.content, 1.0]))(Box(2.0))
    assert [float(v) for v in box.content] == [2.0, 1.0]


def test_ordered_dicts_keep_their_order(target):
    found = bz.jit(lambda d: d)(OrderedDict(b=1.0, a=2.0))
    assert isinstance(found, OrderedDict) and list(found) == ["b", "a"]


def test_keywords_in_any_order_and_defaults(target):
    f = bz.jit(lambda a, b=10.0, *, c=100.0: a + 2 * b + 3 * c)
    for _ in range(2):
        assert float(f(1.0)) == 321.0
        assert float(f(1.0, c=1.0, b=2.0)) == 8.0
        assert float(f(1.0, b=2.0, c=1.0)) == 8.0
        assert float(f(b=2.0, c=1.0, a=1.0)) == 8.0
        assert float(f(1.0, 2.0, c=1.0)) == 8.0


def test_star_arguments(target):
    f = bz.jit(lambda *args, **kwargs: sum(args) - sum(kwargs.values()))
    assert float(f(1.0, 2.0, 3.0, z=1.0, a=2.0)) == 3.0
    assert int(f()) == 0


def test_methods():
    class Layer:
        def __init__(self, factor):
            self.factor = factor

        @bz.jit
        def pure(self_or_x):
            return self_or_x

        def apply(self, x):
            return self.factor * x

        apply = bz.jit(apply, static_argnums=0)

        @staticmethod
        @bz.jit
        def double(x):
            return 2 * x

        @classmethod
        def make(cls, factor):
            return cls(factor)

    two, three = Layer(2.0), Layer(3.0)
    assert [float(two.apply(1.0)), float(three.apply(1.0)), float(two.apply(5.0))] == [2.0, 3.0, 10.0]
    assert float(Layer.double(2.0)) == float(two.double(2.0)) == 4.0


def test_callables_that_are_no_functions(target):
    import functools

    class Affine:
        def __call__(self, x, b=1.0):
            return x * 2 + b

    assert float(bz.jit(functools.partial(lambda a, b: a - b, 5.0))(2.0)) == 3.0
    assert float(bz.jit(Affine())(2.0, b=3.0)) == 7.0
    assert float(bz.jit(bnp.sin)(0.0)) == 0.0
    with pytest.raises(bz.ArgumentError, match="static_argnums=7 names no parameter; partial has 1"):
        bz.jit(functools.partial(lambda a, b: a - b, 5.0), static_argnums=7)


def test_a_function_that_calls_its_jit(target):
    def count(x, depth):
        return x if depth == 0 else jitted(x + 1, depth - 1)

    jitted = bz.jit(count, static_argnums=1)
    assert float(jitted(0.0, 5)) == 5.0


def test_numpy_inputs_keep_their_dtype(target):
    f = bz.jit(lambda x: x + 1)
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        found = f(np.arange(3, dtype=dtype))
        assert found.dtype == dtype and found.tolist() == [1, 2, 3]
    assert f(np.float64(1)).dtype == np.float64


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2],
        lambda a: a[::-1],
        lambda a: a.reshape(2, 6).T,
        lambda a: np.asfortranarray(a.reshape(3, 4)),
        lambda a: a.astype(">f4"),
        lambda a: a[1:],
        lambda a: np.broadcast_to(a[:1], (5,)),
        lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(np.float32),
    ],
)
def test_numpy_views_of_any_layout(view, target):
    given = view(np.arange(12, dtype=np.float32))
    for _ in range(2):
        assert np.array_equal(bz.jit(lambda x: x + 1)(given), given + 1)


# Results ---------------------------------------------------------------------------------------------


def test_results_that_are_inputs_duplicates_constants_and_scalars(target):
    x = bnp.arange(3)
    captured = bnp.ones(100)

    @bz.jit
    def f(x):
        y = x + 1
        return x, y, y, 2.5, True, np.arange(2), captured, None, (), x

    for _ in range(2):
        a, b, c, d, e, g, h, none, empty, again = f(x)
        assert a.tolist() == again.tolist() == [0, 1, 2]
        assert b.tolist() == c.tolist() == [1, 2, 3]
        assert (float(d), d.weak_type, bool(e), e.dtype) == (2.5, True, True, np.bool_)
        assert g.tolist() == [0, 1] and h.size == 100 and none is None and empty == ()


def test_results_share_no_memory_with_arguments_and_each_other(target):
    x = np.zeros(1000, np.float32)
    a, b = bz.jit(lambda x: (x, x))(x)
    x[:] = 7
    assert float(a.sum()) == float(b.sum()) == 0.0
    y = bnp.ones(1000)
    kept, _ = bz.jit(lambda y: (y, y * 2))(y)
    y.delete()
    assert float(kept.sum()) == 1000.0


def test_functions_without_results_or_arguments(target):
    assert bz.jit(lambda: ())() == ()
    assert bz.jit(lambda x: None)(1.0) is None
    assert bz.jit(lambda: bnp.arange(3))().tolist() == [0, 1, 2]


def test_results_are_weak_where_all_that_went_in_was(target):
    assert bz.jit(lambda x: x * 2.0)(1.0).weak_type
    assert not bz.jit(lambda x: x * 2.0)(np.float32(1)).weak_type


# Captured values -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 64, 65, 1000])
def test_captured_numpy_arrays_are_copied_when_traced(size, target):
    captured = np.ones(size, np.float32)
    f = bz.jit(lambda x: x + captured)
    first = f(0.0)
    captured[:] = 5
    assert first.tolist() == f(0.0).tolist() == [1.0] * size
    assert f(np.zeros(size, np.float32)).tolist() == [5.0] * size, "a new signature is traced anew"


def test_captured_arrays_are_no_constants_of_the_text():
    captured = bnp.arange(1000)
    lowered = bz.jit(lambda x: x + captured).lower(1)
    assert len(lowered.as_text()) < 1000
    assert lowered.compile()(1).tolist() == list(range(1, 1001))


def test_one_captured_array_used_twice_and_in_a_loop(target):
    captured = bnp.arange(100.0)

    @bz.jit
    def f(x):
        body = lambda i, s: s + captured * i
        return lax.fori_loop(0, 3, body, captured + x)

    assert f(1.0).tolist() == [v + 1 + 3 * v for v in range(100)]


def test_captured_scalars_are_constants(target):
    k = 3.0
    f = bz.jit(lambda x: x * k)
    assert float(f(2.0)) == 6.0
    k = 4.0
    assert float(f(2.0)) == 6.0


# Donation --------------------------------------------------------------------------------------------


def test_donated_memory_is_reused():
    f = bz.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = bnp.ones(1000), bnp.ones(1000)
    where = arrays.address(x)
    found = f(x, y)
    assert x.is_deleted() and not y.is_deleted() and float(found.sum()) == 2000.0
    assert where == arrays.address(found)


def test_donation_by_name_in_containers(target):
    f = bz.jit(lambda scale, params: bz.tree.map(lambda p: p * scale, params), donate_argnames="params")
    params = {"w": bnp.ones(100), "b": bnp.ones(3)}
    found = f(2.0, params=params)
    assert params["w"].is_deleted() and params["b"].is_deleted()
    assert float(found["w"].sum()) == 200.0


def test_an_array_given_twice_and_donated_once(target):
    f = bz.jit(lambda x, y: (x + 1, x + y), donate_argnums=0)
    for _ in range(2):
        x = bnp.ones(100)
        a, b = f(x, x)
        assert float(a.sum()) == float(b.sum()) == 200.0 and x.is_deleted()


def test_memory_of_others_is_not_taken(target):
    f = bz.jit(lambda x: x + 1, donate_argnums=0)
    theirs = np.zeros(1000, np.float32)
    f(theirs), f(bnp.asarray(theirs))
    assert theirs.sum() == 0


def test_a_view_keeps_donated_memory(target):
    f = bz.jit(lambda x: x + 1, donate_argnums=0)
    x = bnp.zeros(1000)
    view = np.asarray(x)
    f(x)
    assert view.sum() == 0


def test_donation_in_a_loop(target):
    step = bz.jit(lambda x: lax.fori_loop(0, 5, lambda i, s: s * 2 + i, x), donate_argnums=0)
    x = bnp.ones(100)
    for _ in range(3):
        x = step(x)
    wanted = np.ones(100)
    for _ in range(3):
        for i in range(5):
            wanted = wanted * 2 + i
    assert np.array_equal(x, wanted)


# Calls inside calls ----------------------------------------------------------------------------------


def test_jit_of_jit_and_calls_while_tracing(target):
    inner = bz.jit(lambda x: {"y": x * 2})
    inner(1.0)
    outer = bz.jit(bz.jit(lambda x: inner(x)["y"] + inner(x + 1)["y"]))
    for _ in range(2):
        assert float(outer(1.0)) == 6.0


def test_a_call_while_tracing_is_part_of_the_program():
    inner = bz.jit(lambda x: x * 2)
    inner(1.0)
    jaxpr = str(bz.make_jaxpr(lambda x: inner(x) + inner(2.0))(1.0))
    assert jaxpr.count("jit[") == 2


def test_inline_writes_the_body_out():
    inner = bz.jit(lambda x: x * 2, inline=True)
    assert "jit" not in str(bz.make_jaxpr(lambda x: inner(x))(1.0))


def test_keep_unused():
    x, y = bnp.ones(3), bnp.ones(4)
    dropped = bz.jit(lambda x, y: x).lower(x, y).as_text()
    kept = bz.jit(lambda x, y: x, keep_unused=True).lower(x, y).as_text()
    assert "tensor<4xf32>" not in dropped and "tensor<4xf32>" in kept
    assert bz.jit(lambda x, y: x, keep_unused=True)(x, y).tolist() == [1, 1, 1]


def test_recursion_through_a_callback(target):
    found = []

    @bz.jit
    def f(n):
        bz.debug.callback(again, n)
        return n * 2

    def again(n):
        found.append(int(n))
        if n > 0:
            found.append(int(f(np.int32(n - 1))))

    assert int(f(np.int32(3))) == 6
    assert found == [3, 2, 1, 0, 0, 2, 4]


def test_target_option():
    f = bz.jit(lambda x: x + 1, target="numpy")
    assert f.lower(1.0).compile().target.name == "numpy" and float(f(1.0)) == 2.0
    with bz.config(target="numpy"):
        assert bz.jit(lambda x: x, target="cpu").lower(1.0).compile().executable.program is not None


def test_fast_math_is_part_of_the_key():
    x = bnp.linspace(0, 1, 100)
    strict, fast = bz.jit(lambda x: x * 3 + 1), bz.jit(lambda x: x * 3 + 1, fast_math=True)
    assert np.allclose(strict(x), fast(x), rtol=1e-6)


def test_check_compares_with_the_numpy_target():
    with bz.config(check=True):
        f = bz.jit(lambda x: bnp.sin(x) + 1)
        for _ in range(2):
            assert np.allclose(f(np.arange(5.0)), np.sin(np.arange(5.0)) + 1)


def test_an_exception_in_the_function_leaves_everything_usable(target):
    ready = False

    @bz.jit
    def f(x):
        y = x * 2
        if not ready:
            raise KeyError("not ready")
        return y

    for _ in range(2):
        with pytest.raises(KeyError, match="not ready"):
            f(1.0)
        with pytest.raises(KeyError, match="not ready"):
            bz.grad(bz.vmap(f))(bnp.ones(3))
    ready = True
    assert float(f(1.0)) == 2.0
    assert float(bz.grad(f)(1.0)) == 2.0


def test_an_exception_in_a_callback_leaves_everything_usable(target):
    fail = True

    def check(x):
        if fail:
            raise ValueError("refused")

    @bz.jit
    def f(x):
        bz.debug.callback(check, x)
        return x + 1

    for _ in range(3):
        with pytest.raises(ValueError, match="refused"):
            f(1.0)
    fail = False
    assert float(f(1.0)) == 2.0


def test_four_threads(target):
    counted = Counter(lambda x, n: lax.fori_loop(0, 10, lambda i, s: s + bnp.sin(s) * n, x))
    f = bz.jit(counted, static_argnums=1)
    wanted = {n: np.asarray(f(bnp.arange(50.0), n)) for n in range(4)}
    f.clear_cache()
    wrong = []

    def work(seed):
        with bz.config(target=target):
            for k in range(40):
                n = (seed + k) % 4
                if not np.array_equal(f(bnp.arange(50.0), n), wanted[n]):
                    wrong.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# Stages ----------------------------------------------------------------------------------------------


def test_stages_hold_and_print_their_program():
    @bz.jit
    def compute(x):
        return x * x + 2.0

    traced = compute.trace(bnp.ones(3))
    lowered = traced.lower()
    compiled = lowered.compile()
    assert traced.as_text() == compiled.as_text("jaxpr") == str(traced.jaxpr)
    assert lowered.as_text() == compiled.as_text("hlo")
    assert "test_jit.py" in traced.as_text(source=True)
    for stage in ("jaxpr", "hlo", "hlo-opt", "program", "kernel", "llvm", "asm"):
        assert compiled.as_text(stage) == compiled.as_text(stage) and "mul" in compiled.as_text(stage)
    assert compiled(bnp.ones(3)).tolist() == [3.0, 3.0, 3.0]
    assert compute.eval_shape(bnp.ones(3)) == traced.out_info == bz.ShapeDtypeStruct((3,), np.float32)


def test_stages_take_shapes_in_place_of_arrays():
    f = bz.jit(lambda x, n: x * n, static_argnums=1)
    compiled = f.lower(bz.ShapeDtypeStruct((4,), np.float32), 2).compile()
    assert compiled(bnp.ones(4)).tolist() == [2.0] * 4


def test_a_call_wants_arrays_not_shapes():
    with pytest.raises(bz.ArgumentError, match="has no values"):
        bz.jit(lambda x: x)(bz.ShapeDtypeStruct((4,), np.float32))


def test_analyses():
    f = bz.jit(lambda x, y: bnp.exp(x) @ y, donate_argnums=0)
    compiled = f.lower(bnp.ones((8, 8)), bnp.ones((8, 8))).compile()
    memory = compiled.memory_analysis()
    assert (memory.argument_size_in_bytes, memory.output_size_in_bytes) == (512, 256)
    assert memory.alias_size_in_bytes in (0, 256) and memory.temp_size_in_bytes >= 0
    assert compiled.cost_analysis()["flops"] >= 2 * 8**3 - 8**2
    record = compiled.kernels[0]
    assert record.name and record.ops and record.grid >= 1 and record.bytes_written >= 256
    for decision in compiled.fusion_decisions:
        assert isinstance(decision.fused, bool) and decision.rule and decision.reason
        assert decision.producer and decision.consumer and decision.bytes_saved >= 0


def test_compiled_takes_python_scalars_and_weak_arrays():
    compiled = bz.jit(lambda x: x * 2).lower(np.float32(1)).compile()
    assert float(compiled(3.0)) == float(compiled(bnp.asarray(3.0))) == 6.0


def test_names_docstrings_and_attributes_are_the_functions():
    def f(x):
        """Document me."""
        return x

    f.tag = 7
    g = bz.jit(f)
    assert (g.__name__, g.__doc__, g.tag, g.__wrapped__) == ("f", "Document me.", 7, f)
    assert repr(g) == f"<jit of {f.__qualname__}>"


def test_a_deleted_array_still_says_what_it_was():
    x = bnp.ones(100)
    bz.jit(lambda x: x * 2, donate_argnums=0)(x)
    assert repr(x) == str(x) == "<deleted Array of type f32[100], which was donated to <lambda>>"


def test_tracers_have_no_items():
    for convert in (lambda x: x.item(), lambda x: x.tolist()):
        with pytest.raises(bz.ConcretizationError, match=r"(item|tolist): a value of type f32"):
            bz.jit(convert)(bnp.ones(1))


def test_gradients_are_as_weak_as_their_arguments():
    functions = (
        lambda x: x * x,
        lambda x: 3.0,
        lambda x: bnp.sin(x) * np.float32(2),
        bz.grad(lambda x: x**3),
    )
    for f in functions:
        assert bz.grad(f)(3.0).weak_type and bz.jit(bz.grad(f))(3.0).weak_type
        assert not bz.grad(f)(np.float32(3)).weak_type


def test_masked_arrays_do_not_lose_their_mask():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    double = bz.jit(lambda x: x * 2)
    double(np.ones(2))
    for take in (double, bnp.sin, bnp.array):
        with pytest.raises(bz.DTypeError, match="a masked array is no array of braze"):
            take(masked)


@pytest.mark.parametrize("option", ["static_argnums", "donate_argnums"])
def test_positions_are_integers(option):
    for value in ("a", 1.5, (0, None)):
        with pytest.raises(bz.ArgumentError, match=f"{option}=.*an integer or a sequence of integers"):
            bz.jit(lambda x: x, **{option: value})


def test_integers_out_of_range_are_named_wherever_they_are():
    with pytest.raises(OverflowError, match="the Python int 1099511627776 does not fit i32"):
        bz.jit(lambda x: 2**40)(1.0)
    with pytest.raises(OverflowError, match="the Python int of 16610 bits does not fit i32"):
        bz.jit(lambda x: x)(10**5000)
