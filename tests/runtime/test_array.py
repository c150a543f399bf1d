"""Both array types: memory, views, deletion, protocols."""

from __future__ import annotations

import gc
import pickle
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from call_programs import BOTH, F4, array, using, values

from braze import core, dtypes
from braze.errors import AllocationError, DeletedArrayError, DTypeError
from braze.runtime import array as arrays
from braze.types import TensorType


@pytest.fixture(params=BOTH, autouse=True)
def implementation(request: pytest.FixtureRequest) -> Any:
    with using(request.param):
        yield request.param


SHAPES = ((), (0,), (1,), (7,), (2, 3), (3, 0, 2), (65,), (33, 5, 2))


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_values_and_types_survive_for_all_dtypes(dtype: Any) -> None:
    for shape in SHAPES:
        source = (np.arange(int(np.prod(shape))) % 5).astype(dtype).reshape(shape)
        for copy in (True, False):
            made = arrays.from_numpy(source, copy=copy)
            assert made.aval is TensorType(shape, dtype)
            assert core.typeof(made) is made.aval
            view = arrays.to_numpy(made)
            assert view.dtype == dtype and view.shape == shape
            assert view.tobytes() == source.tobytes()


def test_an_array_is_of_one_of_the_types(implementation: str) -> None:
    made = array(1, 2)
    assert type(made) is arrays.implementation().kind
    assert type(made) in arrays.array_types() and arrays.is_array(made)
    assert not arrays.is_array(np.zeros(2))
    assert implementation in (a.name for a in (arrays.implementation(),))


def test_nobody_makes_an_array_by_hand() -> None:
    with pytest.raises(TypeError, match=r"cannot create 'braze\.Array' instances"):
        arrays.implementation().kind()


def test_a_copy_is_apart_and_sharing_is_not() -> None:
    source = np.arange(4, dtype=np.float32)
    copied, shared = arrays.from_numpy(source, copy=True), arrays.from_numpy(source, copy=False)
    source[0] = 9
    assert values(copied) == [0, 1, 2, 3] and values(shared) == [9, 1, 2, 3]
    assert arrays.address(shared) == source.ctypes.data != arrays.address(copied)
    assert arrays.owns_memory(copied) and not arrays.owns_memory(shared)


def test_shared_memory_is_kept_and_let_go() -> None:
    source = np.arange(1000, dtype=np.float32)
    before = sys.getrefcount(source)
    shared = arrays.from_numpy(source, copy=False)
    assert sys.getrefcount(source) == before + 1
    del shared
    assert sys.getrefcount(source) == before


def test_memory_that_programs_cannot_read_is_copied() -> None:
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    misaligned = np.frombuffer(b"\0" + base.tobytes(), np.float32, offset=1)
    assert not misaligned.flags.aligned
    for source in (base.T, base[:, ::2], base[::-1], base.astype(">f4"), misaligned):
        made = arrays.from_numpy(source, copy=False)
        assert arrays.owns_memory(made)
        assert made.aval.dtype == dtypes.F32
        np.testing.assert_array_equal(arrays.to_numpy(made), source)


def test_scalars_of_numpy_become_arrays() -> None:
    made = arrays.from_numpy(np.float64(2.5), copy=True)
    assert made.aval is TensorType((), dtypes.F64) and values(made) == 2.5


def test_unknown_dtypes_are_refused() -> None:
    with pytest.raises(DTypeError):
        arrays.from_numpy(np.array(["a"]), copy=True)


def test_a_given_type_may_be_weak() -> None:
    assert array(1.0, weak=True).aval.weak_type


def test_empty_gives_memory_to_write() -> None:
    for shape in SHAPES:
        aval = TensorType(shape, dtypes.F64)
        made, address = arrays.empty(aval)
        assert made.aval is aval and arrays.address(made) == address
        assert address % 8 == 0 and address


def test_memory_that_cannot_be_had_is_an_error_with_the_bytes() -> None:
    aval = TensorType((1 << 58,), dtypes.I8)
    with pytest.raises(MemoryError, match="288230376151711744 bytes") as info:
        arrays.empty(aval)
    assert isinstance(info.value, AllocationError)


# Views.


def test_views_are_read_only_and_without_copy() -> None:
    made = array(1, 2, 3)
    for view in (arrays.to_numpy(made), np.asarray(made)):
        assert view.ctypes.data == arrays.address(made)
        assert view.flags.c_contiguous and view.flags.aligned and not view.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 5
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            view.flags.writeable = True


@pytest.mark.parametrize("count", [4, 1000])
def test_views_keep_the_memory(count: int) -> None:
    source = np.arange(count, dtype=np.float32)
    made = arrays.from_numpy(source, copy=True)
    view, part = arrays.to_numpy(made), arrays.to_numpy(made)[1:3]
    del made
    gc.collect()
    others = [arrays.from_numpy(np.full(count, 7, np.float32), copy=True) for _ in range(20)]
    np.testing.assert_array_equal(view, source)
    assert part.tolist() == [1, 2] and len(others) == 20


def test_readers_are_counted() -> None:
    made = array(1, 2, 3)
    assert arrays.readers(made) == 0
    one, two = arrays.to_numpy(made), arrays.to_numpy(made)
    assert arrays.readers(made) == 2
    del one
    assert arrays.readers(made) == 1
    two = two[:1]
    assert arrays.readers(made) == 1
    del two
    assert arrays.readers(made) == 0


def test_numpy_functions_take_arrays() -> None:
    made = array(1, 2, 3)
    assert np.add(made, 1).tolist() == [2, 3, 4]
    assert np.array(made).flags.owndata
    assert np.asarray(made, np.float64).dtype == np.float64
    bf16 = arrays.from_numpy(np.ones(3, dtypes.BF16), copy=True)
    assert np.asarray(bf16).dtype == dtypes.BF16


def test_the_buffer_protocol_gives_format_and_shape(implementation: str) -> None:
    if implementation == "python" and sys.version_info < (3, 12):
        pytest.skip("a class in Python has buffers from 3.12 on")
    made = arrays.from_numpy(np.arange(6, dtype=np.int32).reshape(2, 3), copy=True)
    with memoryview(made) as view:
        assert view.readonly and view.shape == (2, 3) and view.format == "i"
        assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert arrays.readers(made) == 1
    assert arrays.readers(made) == 0
    with pytest.raises(ValueError, match="read-only"):
        np.frombuffer(made, np.int32)[0] = 1


# Deletion.


@pytest.mark.parametrize("count", [4, 1000])
def test_a_deleted_array_raises_on_every_use(count: int) -> None:
    made = arrays.from_numpy(np.zeros(count, np.float32), copy=True)
    assert not arrays.is_deleted(made)
    arrays.donate(made, "step")
    assert arrays.is_deleted(made)
    uses = (arrays.to_numpy, arrays.address, core.typeof, np.asarray, pickle.dumps, lambda a: a.aval)
    for use in uses:
        with pytest.raises(DeletedArrayError, match=rf"this f32\[{count}\] was donated to step"):
            use(made)
    with pytest.raises(DeletedArrayError):
        made.__dlpack__()


def test_deleting_twice_keeps_the_first_reason() -> None:
    made = array(1)
    arrays.donate(made, "f")
    arrays.delete(made)
    with pytest.raises(DeletedArrayError, match="donated to f"):
        made.aval  # noqa: B018


@pytest.mark.parametrize("count", [4, 1000])
def test_deletion_waits_for_views(count: int) -> None:
    source = np.arange(count, dtype=np.float32)
    made = arrays.from_numpy(source, copy=True)
    view = np.asarray(made)
    arrays.delete(made)
    others = [arrays.from_numpy(np.full(count, 7, np.float32), copy=True) for _ in range(20)]
    np.testing.assert_array_equal(view, source)
    assert len(others) == 20


def test_deletion_gives_memory_back_at_once(implementation: str) -> None:
    if implementation == "python":
        made, _ = arrays.empty(F4)
        memory = weakref.ref(made._data)
        arrays.delete(made)
        assert memory() is None
        return
    made, address = arrays.empty(TensorType((1 << 20,), dtypes.F32))
    arrays.delete(made)
    again, second = arrays.empty(TensorType((1 << 20,), dtypes.F32))
    assert second == address
    view = arrays.to_numpy(again)
    arrays.delete(again)
    _, third = arrays.empty(TensorType((1 << 20,), dtypes.F32))
    assert third != address
    del view
    _, fourth = arrays.empty(TensorType((1 << 20,), dtypes.F32))
    assert fourth == address


def test_deletion_lets_go_of_shared_memory() -> None:
    source = np.arange(10, dtype=np.float32)
    before = sys.getrefcount(source)
    made = arrays.from_numpy(source, copy=False)
    arrays.delete(made)
    assert sys.getrefcount(source) == before


def test_memory_moves_to_a_new_array_unless_somebody_reads_it() -> None:
    aval = TensorType((1000,), dtypes.F32)
    source = np.arange(1000, dtype=np.float32)
    made = arrays.from_numpy(source, copy=True)
    address = arrays.address(made)
    view = arrays.to_numpy(made)
    assert arrays.take(made, aval, "f") is None and not arrays.is_deleted(made)
    del view
    taken = arrays.take(made, aval, "f")
    assert arrays.address(taken) == address and arrays.is_deleted(made)
    del made
    np.testing.assert_array_equal(arrays.to_numpy(taken), source)
    shared = arrays.from_numpy(source, copy=False)
    assert arrays.take(shared, aval, "f") is None
    arrays.delete(shared)
    with pytest.raises(DeletedArrayError):
        arrays.take(shared, aval, "f")


# Life and death.


def test_weak_references_see_the_end() -> None:
    seen = []
    made = array(1, 2)
    reference = weakref.ref(made, seen.append)
    assert reference() is made
    del made
    assert reference() is None and seen == [reference]


def test_types_keep_their_reference_counts() -> None:
    kind = arrays.implementation().kind
    gc.collect()
    before = sys.getrefcount(F4), sys.getrefcount(kind), sys.getrefcount(F4.dtype)
    for _ in range(1000):
        made = array(1, 2, 3, 4)
        np.asarray(made), made.aval
        arrays.delete(made)
    del made
    gc.collect()
    after = sys.getrefcount(F4), sys.getrefcount(kind), sys.getrefcount(F4.dtype)
    assert all(abs(x - y) <= 2 for x, y in zip(before, after))


def test_pickle_keeps_values_and_type() -> None:
    for made in (array(1, 2, weak=True), arrays.from_numpy(np.ones((2, 3), dtypes.BF16), copy=True)):
        again = pickle.loads(pickle.dumps(made))
        assert again.aval is made.aval and values(again) == values(made)


def test_types_made_later_are_announced() -> None:
    seen: list[type] = []
    arrays.on_type(seen.append)
    arrays._INSTALLERS.remove(seen.append)
    assert set(arrays.array_types()) == set(seen)


def test_operators_and_methods_can_be_set() -> None:
    kind: Any = arrays.implementation().kind
    methods: dict[str, Any] = {
        "__add__": lambda self, other: ("add", other),
        "__radd__": lambda self, other: ("radd", other),
        "__getitem__": lambda self, index: index,
        "__len__": lambda self: self.aval.shape[0],
        "__float__": lambda self: 2.5,
        "__bool__": lambda self: False,
        "__eq__": lambda self, other: "eq",
        "__hash__": lambda self: 3,
        "__repr__": lambda self: "Array",
        "shape": property(lambda self: self.aval.shape),
        "total": lambda self: sum(values(self)),
    }
    before = {name: kind.__dict__.get(name) for name in methods}
    for name, method in methods.items():
        setattr(kind, name, method)
    try:
        x = array(1, 2, 3)
        assert x + 1 == ("add", 1) and 1 + x == ("radd", 1) and x[0:1] == slice(0, 1) and len(x) == 3
        assert float(x) == 2.5 and not x and (x == 1) == "eq" and hash(x) == 3 and repr(x) == "Array"
        assert x.shape == (3,) and x.total() == 6
    finally:
        for name, method in before.items():
            delattr(kind, name) if method is None else setattr(kind, name, method)


# DLPack.


def test_dlpack_shares_memory_both_ways() -> None:
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = arrays.from_numpy(source, copy=True)
    there = np.from_dlpack(made)
    assert there.ctypes.data == arrays.address(made) and there.tolist() == source.tolist()
    assert made.__dlpack_device__() == (1, 0)
    back = arrays.from_dlpack(source)
    assert arrays.address(back) == source.ctypes.data
    del made
    assert there.tolist() == source.tolist()


def test_dlpack_with_torch() -> None:
    torch = pytest.importorskip("torch")
    made = array(1, 2, 3)
    there = torch.from_dlpack(made)
    assert there.data_ptr() == arrays.address(made) and there.tolist() == [1, 2, 3]
    back = arrays.from_dlpack(torch.arange(3, dtype=torch.float32))
    assert values(back) == [0, 1, 2]


def test_dlpack_with_jax() -> None:
    jax = pytest.importorskip("jax")
    made = arrays.from_numpy(np.arange(64, dtype=np.float32), copy=True)
    assert np.asarray(jax.dlpack.from_dlpack(made)).tolist() == values(made)
    assert values(arrays.from_dlpack(jax.numpy.arange(3.0))) == [0, 1, 2]
