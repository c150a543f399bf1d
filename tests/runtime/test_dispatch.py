"""Both dispatchers: what passes, what misses, what happens to memory, errors and other threads."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import weakref
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from call_programs import BOTH, F4, array, descriptor, entry, function, using, values

from braze import core, dtypes, knobs, tree
from braze.errors import AllocationError, DeletedArrayError, DTypeError, InternalError
from braze.runtime import array as arrays
from braze.runtime import dispatch, gate
from braze.runtime.descriptor import RELEASES_GIL
from braze.runtime.dispatch_python import runner
from braze.types import TensorType

Pair = namedtuple("Pair", "a b")


@pytest.fixture(params=BOTH, autouse=True)
def implementation(request: pytest.FixtureRequest) -> Iterator[str]:
    with using(request.param):
        yield request.param


def is_hit(made: Any, *args: Any, **kwargs: Any) -> bool:
    result = made(*args, **kwargs)
    return not isinstance(result, str)


def scalar(dtype: Any, weak: bool = False) -> TensorType:
    return TensorType((), dtype, weak)


# Hits.


def test_a_call_runs_the_program() -> None:
    x = array(1, 2, 3, 4)
    result = function(entry(x))(x)
    assert values(result) == [2, 3, 4, 5] and result.aval is F4 and values(x) == [1, 2, 3, 4]
    assert arrays.owns_memory(result)


def test_leaves_of_every_kind_arrive() -> None:
    cases: list[tuple[Any, TensorType]] = [
        (2.5, scalar(dtypes.F32, True)),
        (-7, scalar(dtypes.I32, True)),
        (True, scalar(dtypes.BOOL)),
        (False, scalar(dtypes.BOOL)),
        (1.5 - 2j, scalar(dtypes.C64, True)),
        *((dtype.type(3), scalar(dtype)) for dtype in dtypes.ALL),
        *((np.array(3, dtype), scalar(dtype)) for dtype in dtypes.ALL),
        (np.array([1, 2], np.float32), TensorType((2,), dtypes.F32)),
        (np.array([[1, 2]], np.int64), TensorType((1, 2), dtypes.I64)),
    ]
    for value, aval in cases:
        made = function(entry(value, program=f"copy{aval.nbytes}", results=(aval,)))
        result = made(value)
        assert not isinstance(result, str), value
        assert result.aval is aval
        assert arrays.to_numpy(result).tolist() == np.asarray(value, aval.dtype).tolist()


def test_python_scalars_are_64_bits_wide_where_the_types_say_so() -> None:
    with knobs.config(x64=True):
        for value in (1e300, 1 << 40, -(1 << 63)):
            made = function(entry(value, program="copy8", results=(core.typeof(value),)))
            assert values(made(value)) == value
        made = function(entry(1e300j, program="copy16", results=(core.typeof(1j),)))
        assert values(made(2.5 + 1e300j)) == 2.5 + 1e300j


def test_results_above_the_inline_size_are_right_and_their_own() -> None:
    aval = TensorType((1000,), dtypes.F32)
    x = arrays.from_numpy(np.arange(1000, dtype=np.float32), copy=True)
    made = function(entry(x, program="increment_many", results=(aval,)))
    one, two = made(x), made(x)
    assert arrays.address(one) != arrays.address(two)
    np.testing.assert_array_equal(arrays.to_numpy(one), np.arange(1, 1001))


def test_four_arguments_and_keywords_in_the_order_of_the_call() -> None:
    a, b = array(1, 1, 1, 1), array(5, 5, 5, 5)
    made = function(
        entry(kwargs={"a": a, "b": b}, program="one2", results=(F4, F4), result=(0, 0)),
    )
    assert [values(r)[0] for r in made(a=a, b=b)] == [2, 6]
    assert not is_hit(made, b=b, a=a)
    assert not is_hit(made, a=a) and not is_hit(made, a, b) and not is_hit(made, a, b=b)
    assert not is_hit(made, a=a, c=b) and not is_hit(made, a=a, b=b, c=b)
    # The other order is another entry, whose leaves go to the same parameters.
    other = entry(kwargs={"b": b, "a": a}, program="one2", results=(F4, F4), result=(0, 0))
    for leaf, parameter in zip(other.leaves, (1, 0)):
        leaf.parameter = parameter
    dispatch.add_entry(made, other)
    assert [values(r)[0] for r in made(b=b, a=a)] == [2, 6]
    assert [values(r)[0] for r in made(a=a, b=b)] == [2, 6]


STRUCTURES: tuple[Callable[[Any, Any, Any, Any], Any], ...] = (
    lambda a, b, c, d: {"a": a, "b": b, "c": c, "d": d},
    lambda a, b, c, d: [a, (b, c), d],
    lambda a, b, c, d: ((), (a, [b]), {"x": c, "y": {"z": d}}, None),
    lambda a, b, c, d: {"x": Pair(a, [b]), "y": Pair({1: c, 2: d}, None)},
    lambda a, b, c, d: {3: a, 20: b, 100: (c, {"d": d})},
)


@pytest.mark.parametrize("build", STRUCTURES)
def test_containers_go_in_and_come_out(build: Callable[..., Any]) -> None:
    leaves = [array(*[float(i)] * 4) for i in range(4)]
    example = build(*leaves)
    made = function(entry(example, program="one4", results=(F4,) * 4, result=example))
    result = made(example)
    assert tree.structure(result) == tree.structure(example)
    assert [values(leaf)[0] for leaf in tree.leaves(result)] == [1, 2, 3, 4]
    first = weakref.ref(tree.leaves(result)[0])
    del result
    gc.collect()
    assert first() is None


def test_custom_containers_come_out() -> None:
    x = array(1, 2, 3, 4)
    example = OrderedDict(b=0, a=(0, None))
    made = function(entry({"a": x, "b": x}, program="one2", results=(F4, F4), result=example))
    result = made({"a": x, "b": x})
    assert type(result) is OrderedDict and list(result) == ["b", "a"] and result["a"][1] is None
    assert tree.structure(Pair(0, 0)) == tree.structure(Pair(1, 1))
    assert not dispatch.can_enter((tree.structure(example),))
    assert not dispatch.can_enter((tree.structure({1.5: 0}),))
    assert dispatch.can_enter((tree.structure(Pair(0, {"a": [None, ()]})),))


def test_keys_in_another_order_are_the_same_dict() -> None:
    a, b, c, d = (array(*[float(i)] * 4) for i in range(4))
    example = {"a": a, "b": b, "c": c, "d": d}
    made = function(entry(example, program="one4", results=(F4,) * 4, result=example))
    for keys in ("abcd", "dcba", "abdc", "bacd"):
        result = made({key: example[key] for key in keys})
        assert {key: values(leaf)[0] for key, leaf in result.items()} == {"a": 1, "b": 2, "c": 3, "d": 4}
    grown = {"".join([key]): value for key, value in example.items()}
    assert is_hit(made, grown)


def test_forty_leaves_use_a_larger_frame() -> None:
    x = array(1, 1, 1, 1)
    example = {f"k{i:02}": x for i in range(40)}
    made = function(entry(example, program="one40", results=(F4,) * 40, result=example))
    assert all(values(leaf) == [2] * 4 for leaf in made(example).values())


def test_frames_too_large_for_the_stack_are_on_the_heap() -> None:
    x = array(1, 1, 1, 1)
    example = [x] * 700
    leaves = [dispatch.leaf_for(x, i if i < 40 else None) for i in range(700)]
    made_entry = entry(example, program=descriptor("one40", 40, 40), results=(F4,) * 40, result=(0,) * 40)
    made_entry.leaves = tuple(leaves)
    made = function(made_entry)
    assert all(values(leaf) == [2] * 4 for leaf in made(example))
    assert not is_hit(made, example[1:])


def test_unused_leaves_are_tested_all_the_same() -> None:
    x, y = array(1, 2, 3, 4), array(1, 2)
    made_entry = entry(x, y, program="one1")
    made_entry.leaves[1].parameter = None
    made = function(made_entry)
    assert is_hit(made, x, y) and not is_hit(made, x, x) and not is_hit(made, x, 1.0)


def test_captured_arrays_are_parameters() -> None:
    x, hidden = array(1, 2, 3, 4), array(10, 10, 10, 10)
    made_entry = entry(x, program=descriptor("add", 2, 1), captured={0: hidden})
    made_entry.leaves[0].parameter = 1
    assert values(function(made_entry)(x)) == [11, 12, 13, 14]


def test_a_program_without_arguments_or_results() -> None:
    none = function(entry(program=descriptor("one1", 0, 1), captured={0: array(1, 2, 3, 4)}))
    assert values(none()) == [2, 3, 4, 5]
    x = array(1)
    nothing = function(entry(x, program="copy4", results=(TensorType((1,), dtypes.F32),), result=[0, None]))
    assert nothing(x)[1] is None


# Misses.


def test_arrays_of_another_type_miss() -> None:
    x = array(1, 2, 3, 4)
    made = function(entry(x))
    others: list[Any] = [
        array(1, 2, 3),
        array(1, 2, 3, 4, weak=True),
        arrays.from_numpy(np.ones((4, 1), np.float32), copy=True),
        arrays.from_numpy(np.ones(4, np.int32), copy=True),
        np.ones(4, np.float32), 1.0, 1, True, None, "text", [x], (x,), {"a": x}, np.float32(1), object(),
    ]  # fmt: skip
    for other in others:
        assert not is_hit(made, other), other
    assert not is_hit(made) and not is_hit(made, x, x) and not is_hit(made, x=x)


def test_numpy_arrays_of_another_layout_miss() -> None:
    source = np.ones((4, 2), np.float32)
    made = function(entry(source, program="copy4", results=(scalar(dtypes.F32),)))
    misaligned = np.frombuffer(bytearray(33), np.float32, count=8, offset=1).reshape(4, 2)
    others = [
        np.ones((2, 4), np.float32), np.ones(8, np.float32), np.ones((4, 2, 1), np.float32),
        np.ones((4, 2)), np.ones((4, 2), ">f4"), np.ones((8, 2), np.float32)[::2],
        np.ones((2, 4), np.float32).T, misaligned, np.ma.ones((4, 2), np.float32),
    ]  # fmt: skip
    for other in others:
        assert not is_hit(made, other), other.dtype
    assert is_hit(made, np.zeros((4, 2), np.float32))
    frozen = np.zeros((4, 2), np.float32)
    frozen.flags.writeable = False
    assert is_hit(made, frozen)


def test_scalars_of_another_kind_miss() -> None:
    examples: list[Any] = [1.5, 2, True, 1j, np.float32(1), np.float64(1), np.int64(1), np.bool_(True)]
    for i, example in enumerate(examples):
        aval = core.typeof(example)
        made = function(entry(example, program=f"copy{aval.nbytes}", results=(aval,)))
        assert [is_hit(made, other) for other in examples] == [i == j for j in range(len(examples))]


def test_an_array_passes_for_a_scalar_of_the_same_type() -> None:
    made = function(entry(1.5, program="copy4", results=(scalar(dtypes.F32, True),)))
    weak = arrays.from_numpy(np.float32(2), copy=True, aval=scalar(dtypes.F32, True))
    strong = arrays.from_numpy(np.float32(2), copy=True)
    assert values(made(weak)) == 2 and not is_hit(made, strong)


def test_integers_that_do_not_fit_miss() -> None:
    made = function(entry(1, program="copy4", results=(scalar(dtypes.I32, True),)))
    for value in (-(1 << 31), (1 << 31) - 1):
        assert values(made(value)) == value
    for value in (1 << 31, -(1 << 31) - 1, 1 << 62, 1 << 63, -(1 << 63) - 1, 1 << 100, -(1 << 100)):
        assert not is_hit(made, value), value


def test_containers_of_another_kind_miss() -> None:
    x = array(1, 2, 3, 4)

    class SubDict(dict[str, Any]):
        pass

    class SubList(list[Any]):
        pass

    def check(example: Any, *others: Any) -> None:
        made = function(entry(example, program="one2", results=(F4, F4), result=(0, 0)))
        assert is_hit(made, example)
        for other in others:
            assert not is_hit(made, other), other

    check([x, x], (x, x), [x], [x, x, x], [x, [x]], SubList([x, x]), Pair(x, x), x, None, {"a": x, "b": x})
    check((x, x), [x, x], Pair(x, x), (x, None), ())
    check(Pair(x, x), (x, x), namedtuple("Pair", "a b")(x, x), Pair(x, None))
    check((x, None, x), (x, x, None), (x, 0, x), (x, (), x))
    two = {"a": x, "b": x}
    check(
        two, {"a": x}, {"a": x, "c": x}, {"a": x, "b": x, "c": x}, SubDict(two), OrderedDict(two),
        {"b": x, "c": x}, {}, {1: x, "a": x}, [x, x],
    )  # fmt: skip


def test_statics_pass_by_identity() -> None:
    x, one, two = array(1, 2, 3, 4), object(), object()
    made_entry = entry(x, x)
    made_entry.leaves = (made_entry.leaves[0], dispatch.static_leaf(one))
    made = function(made_entry)
    assert is_hit(made, x, one) and not is_hit(made, x, two) and not is_hit(made, x, x)


def test_a_static_is_kept_alive_by_its_entry() -> None:
    class Static:
        pass

    x, static = array(1, 2, 3, 4), Static()
    made_entry = entry(x, x)
    made_entry.leaves = (made_entry.leaves[0], dispatch.static_leaf(static))
    made, reference = function(made_entry), weakref.ref(static)
    del made_entry, static
    gc.collect()
    assert reference() is not None and is_hit(made, x, reference())
    dispatch.clear_entries(made)
    gc.collect()
    assert reference() is None


def test_deleted_arrays_miss_and_the_slow_path_raises() -> None:
    x = array(1, 2, 3, 4)
    seen: list[Any] = []
    made = function(entry(x), slow=lambda value: seen.append(value) or arrays.to_numpy(value))
    arrays.donate(x, "f")
    with pytest.raises(DeletedArrayError):
        made(x)
    assert seen == [x]


def test_tracers_miss() -> None:
    class Tracer(core.Tracer):
        __slots__ = ()
        aval = F4

    assert not is_hit(function(entry(array(1, 2, 3, 4))), Tracer())


def test_values_that_no_test_recognises_have_none() -> None:
    strided, swapped = np.ones(8, np.float32)[::2], np.ones(4, ">f4")
    for value in (strided, swapped, np.ones(4, np.longlong), np.longlong(1), swapped[0]):
        leaf = dispatch.leaf_for(value, 0)
        if leaf is not None:  # where `long long` is the same type as `int64`
            assert is_hit(function(entry(value, program="copy4", results=(scalar(dtypes.F32),))), value)
    assert dispatch.leaf_for(strided, 0) is dispatch.leaf_for(swapped, 0) is None
    for refused in ("text", np.ma.ones(4, np.float32)):
        with pytest.raises(DTypeError):
            dispatch.leaf_for(refused, 0)


# The gate.


def test_a_call_while_staging_goes_the_slow_way() -> None:
    x = array(1, 2, 3, 4)
    made = function(entry(x))
    with core.activate(core.Trace(), dynamic=True):
        assert not is_hit(made, x)
        with core.activate(core.Trace(), dynamic=True):
            assert not is_hit(made, x)
        assert not is_hit(made, x)
        assert all(_in_threads(lambda: is_hit(made, x)))
    assert is_hit(made, x)
    with core.activate(core.Trace()):
        assert is_hit(made, x)


def test_entries_belong_to_a_configuration() -> None:
    x = array(1, 2, 3, 4)
    made = function(entry(x))
    with knobs.config(fast_math=True):
        assert not is_hit(made, x)
        dispatch.add_entry(made, entry(x))
        assert is_hit(made, x)
        assert all(_in_threads(lambda: is_hit(made, x)))
        with knobs.config(skip="cse"):
            assert not is_hit(made, x)
    assert is_hit(made, x)
    dispatch.clear_entries(made)
    with knobs.config(fast_math=True):
        dispatch.add_entry(made, entry(x))
    assert not is_hit(made, x)
    assert gate.WORDS.mode == 0


def test_two_threads_under_other_settings_never_meet_wrong_entries() -> None:
    x = array(1, 2, 3, 4)
    made = function(entry(x))
    inside, leave = threading.Barrier(3), threading.Barrier(3)
    hits: list[bool] = []

    def other() -> None:
        with knobs.config(x64=True):
            inside.wait()
            hits.append(is_hit(made, x))
            leave.wait()

    threads = [threading.Thread(target=other) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    assert gate.WORDS.mode == 2
    leave.wait()
    for thread in threads:
        thread.join()
    assert hits == [False, False] and gate.WORDS.mode == 0 and is_hit(made, x)


def _in_threads(work: Callable[[], Any], count: int = 4) -> list[Any]:
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == count
    return results


# The list of entries.


def test_the_newest_entry_is_tried_first_and_old_ones_are_dropped() -> None:
    sizes = range(1, 12)
    xs = [arrays.from_numpy(np.ones(n, np.float32), copy=True) for n in sizes]
    made = function()
    assert dispatch.entries(made) == () and not is_hit(made, xs[0])
    made_entries = [entry(x, program="copy4", results=(scalar(dtypes.F32),)) for x in xs]
    for e in made_entries:
        dispatch.add_entry(made, e)
    assert dispatch.entries(made) == tuple(made_entries[::-1][: dispatch.MOST_ENTRIES])
    assert [is_hit(made, x) for x in xs] == [i >= len(xs) - dispatch.MOST_ENTRIES for i in range(len(xs))]
    dispatch.add_entry(made, made_entries[5])
    assert dispatch.entries(made)[0] is made_entries[5] and len(dispatch.entries(made)) == 8
    assert all(is_hit(made, x) for x in xs[4:])
    dispatch.clear_entries(made)
    assert not any(is_hit(made, x) for x in xs)


def test_a_slow_path_may_add_the_entry_it_missed() -> None:
    x = array(1, 2, 3, 4)
    calls: list[Any] = []

    def slow(value: Any) -> Any:
        calls.append(value)
        dispatch.add_entry(made, entry(value))
        return made(value)

    made = function(slow=slow)
    assert values(made(x)) == values(made(x)) == [2, 3, 4, 5] and len(calls) == 1


def test_entries_may_be_replaced_while_one_runs() -> None:
    x = array(1, 2, 3, 4)

    def host(callback: int, operands: Any, results: Any) -> None:
        dispatch.clear_entries(made)
        gc.collect()

    program = descriptor("host", 1, 1, host=host)
    made = function(entry(x, program=program))
    gc.collect()
    assert made(x).aval is F4 and made(x) == "slow"


# Functions as objects.


def test_a_function_looks_like_what_it_wraps() -> None:
    def f(x: int, *, y: int = 2) -> int:
        """Say what f does."""
        return x

    f.mark = "set before"  # type: ignore[attr-defined]
    made = dispatch.make_function(lambda *a, **k: (a, k), f)
    assert made.__wrapped__ is f and made.__name__ == "f" and made.__doc__ == "Say what f does."
    assert made.__qualname__ == f.__qualname__ and made.__module__ == __name__
    assert str(inspect.signature(made)) == str(inspect.signature(f))
    assert made.mark == "set before" and callable(made) and dispatch.is_function(made)
    made.attribute = 3
    assert made.attribute == 3 and repr(made).startswith("<jit of ")
    assert not dispatch.is_function(f)
    with pytest.raises(AttributeError):
        made.missing  # noqa: B018
    with pytest.raises(TypeError, match="cannot create"):
        type(made)()


def test_methods_are_set_on_the_type() -> None:
    seen: list[type] = []

    def install(kind: Any) -> None:
        seen.append(kind)
        kind.name_of = lambda self: self.__name__

    dispatch.on_type(install)
    dispatch._INSTALLERS.remove(install)
    made = function()
    assert type(made) in seen and made.name_of() == "wrapped"


def test_a_function_binds_as_a_method() -> None:
    class Model:
        call = dispatch.make_function(lambda *a, **k: (a, k), lambda: None)

    model = Model()
    assert model.call(1, y=2) == ((model, 1), {"y": 2})
    bound = model.call
    assert bound(3) == ((model, 3), {}) and bound.__self__ is model
    assert Model.call is Model.__dict__["call"]


def test_weak_references_and_cycles_are_collected() -> None:
    class Marker:
        pass

    def make() -> tuple[Any, Any]:
        marker = Marker()

        def slow(*args: Any) -> Any:
            return marker, made

        made = function(entry(array(1, 2, 3, 4)), slow=slow)
        made.itself = made
        return weakref.ref(made), weakref.ref(marker)

    references = make()
    gc.collect()
    assert [r() for r in references] == [None, None]


def test_the_slow_path_gets_what_was_passed_and_its_errors_come_through() -> None:
    def slow(*args: Any, **kwargs: Any) -> Any:
        if not args:
            raise ZeroDivisionError("from the slow path")
        return args, kwargs

    made = function(slow=slow)
    assert made(1, [2], z=3, a=4) == ((1, [2]), {"z": 3, "a": 4})
    assert made(*range(50)) == (tuple(range(50)), {})
    assert made(0, **{"x y": 1}) == ((0,), {"x y": 1})
    with pytest.raises(ZeroDivisionError, match="from the slow path"):
        made()
    with pytest.raises(ZeroDivisionError):
        made(x=1)


# Programs that fail, call Python, or use memory of their own.


def test_a_broken_program_is_an_internal_error() -> None:
    x = array(1, 2, 3, 4)
    made = function(entry(x, program="broken"))
    before = sys.getrefcount(F4)
    for _ in range(50):
        with pytest.raises(InternalError, match="f ended with status 2"):
            made(x)
    gc.collect()
    assert abs(sys.getrefcount(F4) - before) <= 2


def test_memory_for_temporaries_that_cannot_be_had() -> None:
    x = array(1, 2, 3, 4)
    made = function(entry(x, program=descriptor("one1", 1, 1, arena=1 << 60)))
    with pytest.raises(AllocationError, match=r"f: 1152921504606846976 bytes for temporaries"):
        made(x)


def test_results_that_cannot_be_had() -> None:
    x = array(1, 2, 3, 4)
    huge = TensorType((1 << 58,), dtypes.I8)
    made = function(entry(x, program="one1", results=(F4, huge), result=(0, 0)))
    with pytest.raises(AllocationError, match="288230376151711744 bytes"):
        made(x)


def test_errors_of_callbacks_come_through_and_leak_nothing() -> None:
    x = array(1, 2, 3, 4)

    def host(callback: int, operands: Any, results: Any) -> None:
        raise KeyError(callback)

    made = function(entry(x, program=descriptor("host", 1, 1, host=host)))
    gc.collect()
    before = sys.getrefcount(F4)
    for _ in range(100):
        with pytest.raises(KeyError, match="7"):
            made(x)
    gc.collect()
    assert abs(sys.getrefcount(F4) - before) <= 2 and arrays.readers(x) == 0


@pytest.mark.parametrize("flags", [0, RELEASES_GIL])
def test_calls_inside_callbacks(flags: int) -> None:
    x = array(1, 2, 3, 4)
    depth = 0

    def host(callback: int, operands: Any, results: Any) -> None:
        nonlocal depth
        depth += 1
        if depth < 20:
            made(x)
        depth -= 1

    made = function(entry(x, program=descriptor("host", 1, 1, host=host, flags=flags)))
    assert made(x).aval is F4 and depth == 0


@pytest.mark.parametrize("flags", [0, RELEASES_GIL])
def test_arguments_dropped_in_a_callback_live_until_the_end(flags: int) -> None:
    xs = [arrays.from_numpy(np.ones(1000, np.float32), copy=True) for _ in range(2)]
    reference = weakref.ref(xs[0])
    alive: list[bool] = []

    def host(callback: int, operands: Any, results: Any) -> None:
        arrays.delete(xs[1])
        xs.clear()
        gc.collect()
        alive.append(reference() is not None)

    made = function(
        entry([*xs], program=descriptor("host", 2, 1, host=host, flags=flags), results=(F4,), result=0)
    )
    made(xs)
    assert alive == [True] and reference() is None


def test_leaves_that_are_known_to_fit_run_without_a_call() -> None:
    x, y = array(1, 2, 3, 4), np.ones(4, np.float32)
    made = entry(x, x, program="add")
    assert values(runner(made)((x, y))) == [2, 3, 4, 5]


# Donation.


def many(value: float) -> Any:
    return arrays.from_numpy(np.full(1000, value, np.float32), copy=True)


def in_place(*donated: int, count: int = 1) -> dispatch.Entry:
    """result 0 takes the memory of parameter 0."""
    aval = TensorType((1000,), dtypes.F32)
    return entry(
        *(many(0) for _ in range(count)),
        program=descriptor("increment_many", count, 1), results=(aval,), donated=donated, aliases={0: 0},
    )  # fmt: skip


def test_donated_memory_becomes_the_result() -> None:
    x = many(1)
    address = arrays.address(x)
    made = function(in_place(0))
    for step in range(2, 5):
        before, x = x, made(x)
        assert arrays.is_deleted(before) and arrays.address(x) == address
        assert set(values(x)) == {step}
    with pytest.raises(DeletedArrayError, match=r"donated to f"):
        before.aval  # noqa: B018
    assert made(before) == "slow"


def test_donated_memory_that_somebody_reads_is_copied() -> None:
    x = many(1)
    view = np.asarray(x)
    result = function(in_place(0))(x)
    assert arrays.is_deleted(x) and set(values(result)) == {2} and set(view.tolist()) == {1}


def test_memory_of_others_is_never_donated() -> None:
    source = np.full(1000, 1, np.float32)
    x = arrays.from_numpy(source, copy=False)
    made = function(in_place(0))
    assert set(values(made(x))) == {2} and set(source.tolist()) == {1} and arrays.is_deleted(x)
    direct = function(
        entry(source, program="increment_many", results=(x_type(),), donated=(0,), aliases={0: 0})
    )
    assert set(values(direct(source))) == {2} and set(source.tolist()) == {1}


def x_type() -> TensorType:
    return TensorType((1000,), dtypes.F32)


def test_small_donated_arrays() -> None:
    x = array(1, 2, 3, 4)
    made = function(entry(x, donated=(0,), aliases={0: 0}))
    result = made(x)
    assert values(result) == [2, 3, 4, 5] and arrays.is_deleted(x)


def test_an_array_that_is_donated_and_passed_again_is_copied() -> None:
    x = many(1)
    made = function(in_place(0, count=2))
    assert set(values(made(x, x))) == {2} and arrays.is_deleted(x)
    y, z = many(1), many(5)
    assert set(values(made(y, z))) == {2} and arrays.is_deleted(y) and set(values(z)) == {5}


def test_donation_without_a_result_that_fits_frees_the_memory(implementation: str) -> None:
    x, y = array(1, 2, 3, 4), many(7)
    address = arrays.address(y)
    made_entry = entry(x, y, donated=(1,))
    made = function(made_entry)
    assert values(made(x, y)) == [2, 3, 4, 5]
    assert arrays.is_deleted(y) and not arrays.is_deleted(x) and arrays.readers(y) == 0
    if implementation == "native":
        assert arrays.address(many(0)) == address


def test_donated_arrays_are_gone_after_a_failure_too() -> None:
    x = many(1)
    made_entry = in_place(0)
    made_entry.descriptor = descriptor("broken", 1, 1)
    with pytest.raises(InternalError):
        function(made_entry)(x)
    assert arrays.is_deleted(x)


# Threads and the long run.


@pytest.mark.parametrize("flags", [0, RELEASES_GIL])
def test_four_threads_at_once(flags: int, implementation: str) -> None:
    xs = [many(i) for i in range(4)]
    made = function(
        entry(xs[0], program=descriptor("increment_many", 1, 1, flags=flags), results=(x_type(),))
    )
    rounds = 5000 if implementation == "native" else 500

    def work() -> bool:
        mine = xs[threading.get_ident() % 4]
        expected = values(mine)[0] + 1
        return all(values(made(mine))[::500] == [expected] * 2 for _ in range(rounds))

    assert all(_in_threads(work))
    assert all(arrays.readers(x) == 0 for x in xs)


def test_entries_change_while_other_threads_call(implementation: str) -> None:
    x, d = array(1, 2, 3, 4), {"b": array(1, 1, 1, 1), "a": array(2, 2, 2, 2)}
    made = function()
    first, second = entry(x), entry(d, program="one2", results=(F4, F4), result=(0, 0))
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            dispatch.add_entry(made, first)
            dispatch.add_entry(made, second)
            dispatch.clear_entries(made)

    def call() -> bool:
        for _ in range(20000 if implementation == "native" else 2000):
            result = made(x)
            assert result == "slow" if isinstance(result, str) else values(result) == [2, 3, 4, 5]
            made(d)
        return True

    changer = threading.Thread(target=change)
    changer.start()
    try:
        assert all(_in_threads(call, 3))
    finally:
        stop.set()
        changer.join()


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_counts_and_memory_stay_level(implementation: str) -> None:
    x, number, data = array(1, 2, 3, 4), 2.5, np.ones(4, np.float32)
    d = {"a": (x, [x]), "b": None, "c": {"e": x, "d": x}}
    large = many(1)
    aval = scalar(dtypes.F32, True)
    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (function(entry(x)), (x,), {}),
        (function(entry(number, program="copy4", results=(aval,))), (number,), {}),
        (function(entry(data)), (data,), {}),
        (function(entry(d, program="one4", results=(F4,) * 4, result=d)), (d,), {}),
        (function(entry(large, program="increment_many", results=(x_type(),))), (large,), {}),
        (function(entry(kwargs={"x": x})), (), {"x": x}),
        (function(entry(x, program=descriptor("one1", 1, 1, flags=RELEASES_GIL))), (x,), {}),
        (function(entry(x), slow=lambda *a: None), (large,), {}),
    ]
    rounds = 125_000 if implementation == "native" else 1_000

    def run(count: int) -> None:
        for made, args, kwargs in calls:
            for _ in range(count):
                made(*args, **kwargs)

    run(rounds // 10)
    watched = (x, F4, aval, x_type(), data, large, None, type(x), *d)
    gc.collect()
    counts, memory = [sys.getrefcount(w) for w in watched], resident()
    run(rounds)
    gc.collect()
    after = [sys.getrefcount(w) for w in watched]
    assert all(abs(b - a) <= 20 for a, b in zip(counts, after)), (counts, after)
    assert resident() - memory < 1 << 20
