"""The allocator: size classes, reuse, the cap, and memory errors that name the bytes."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from braze import dtypes
from braze.errors import AllocationError
from braze.runtime import allocator
from braze.runtime.services import services
from braze.types import TensorType


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """No kept blocks before, nothing more in use after."""
    gc.collect()
    allocator.trim()
    used = allocator.heap_info().used
    yield
    gc.collect()
    assert allocator.heap_info().used == used


def _class_bytes(nbytes: int) -> int:
    """What a block really takes."""
    before = allocator.heap_info().used
    address = allocator.allocate(nbytes)
    taken = allocator.heap_info().used - before
    allocator.free(address, nbytes)
    return taken


@pytest.mark.parametrize(
    ("nbytes", "want"),
    [
        (0, 256), (1, 256), (256, 256), (257, 384), (384, 384), (385, 512), (512, 512), (513, 768), (769, 1024),
        (1025, 1536), (1 << 20, 1 << 20), ((1 << 20) + 1, 3 << 19), ((3 << 19) + 1, 2 << 20), (4 << 20, 4 << 20),
    ],
)  # fmt: skip
def test_sizes_round_up_to_two_classes_an_octave(nbytes: int, want: int) -> None:
    assert _class_bytes(nbytes) == want


def test_every_size_fits_in_its_class() -> None:
    for nbytes in [*range(1, 5000, 7), *(random.Random(0).randrange(1 << 22) for _ in range(200))]:
        taken = _class_bytes(nbytes)
        assert nbytes <= taken <= max(256, 1.5 * nbytes)


@pytest.mark.parametrize("nbytes", [1, 100, 257, 1000, 5000, 100_000, 5 << 20])
def test_blocks_are_aligned(nbytes: int) -> None:
    blocks = [allocator.allocate(nbytes) for _ in range(5)]
    alignment = 2 << 20 if nbytes >= 4 << 20 else 64
    assert all(address % alignment == 0 for address in blocks)
    for address in blocks:
        ctypes.memset(address, 1, nbytes)
        allocator.free(address, nbytes)


def test_a_freed_block_is_used_again() -> None:
    first = allocator.allocate(1000)
    allocator.free(first, 1000)
    assert allocator.heap_info().cached == 1024
    second = allocator.allocate(900)
    assert second == first
    assert allocator.heap_info().cached == 0
    allocator.free(second, 900)


def test_blocks_in_use_do_not_overlap() -> None:
    rng = random.Random(1)
    held: dict[int, tuple[int, int]] = {}
    for step in range(5000):
        if held and rng.random() < 0.5:
            address, (nbytes, mark) = held.popitem()
            assert set(ctypes.string_at(address, nbytes)) == {mark}
            allocator.free(address, nbytes)
        else:
            nbytes, mark = rng.randrange(1, 4000), step % 256
            address = allocator.allocate(nbytes)
            ctypes.memset(address, mark, nbytes)
            held[address] = (nbytes, mark)
    for address, (nbytes, mark) in held.items():
        assert set(ctypes.string_at(address, nbytes)) == {mark}
        allocator.free(address, nbytes)


def test_over_the_cap_the_idle_class_gives_back_first() -> None:
    cap = services().variable("braze_heap_cap")
    before, cap.value = cap.value, 100_000
    try:
        old, new = allocator.allocate(60_000), allocator.allocate(40_000)
        allocator.free(old, 60_000)  # keeps 65,536
        allocator.free(new, 40_000)  # keeps 49,152 more, which is too much: the older class goes
        assert allocator.heap_info().cached == 49_152
        assert allocator.allocate(40_000) == new
        allocator.free(new, 40_000)
    finally:
        cap.value = before


def test_a_block_larger_than_the_cap_goes_straight_back() -> None:
    cap = services().variable("braze_heap_cap")
    before, cap.value = cap.value, 100_000
    try:
        allocator.free(allocator.allocate(1 << 20), 1 << 20)
        assert allocator.heap_info().cached == 0
    finally:
        cap.value = before


@pytest.mark.parametrize("nbytes", [1 << 45, 1 << 62])
def test_memory_that_is_not_there_is_a_memory_error(nbytes: int) -> None:
    with pytest.raises(MemoryError, match=f"{nbytes:,} bytes are wanted"):
        allocator.allocate(nbytes)
    with pytest.raises(AllocationError):
        allocator.Block(nbytes)


def test_arrays_give_their_block_back() -> None:
    before = allocator.heap_info().used
    array = allocator.empty(TensorType((100, 7), dtypes.F32))
    array[...] = 3.0
    part = array[::2, 1:]
    del array
    assert allocator.heap_info().used == before + 3072
    assert float(part.sum()) == 3.0 * part.size
    del part
    assert allocator.heap_info().used == before


@pytest.mark.parametrize("dtype", [dtypes.BOOL, dtypes.BF16, dtypes.I64, dtypes.C64])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3)])
def test_arrays_of_every_kind_of_type(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    array = allocator.empty(TensorType(shape, dtype))
    assert (array.shape, array.dtype) == (shape, dtype)
    array[...] = 1
    assert (array == 1).all()


def test_four_threads_allocate_at_once() -> None:
    problems: list[object] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(3000):
            nbytes = rng.choice((300, 700, 700, 5000))
            address = allocator.allocate(nbytes)
            ctypes.memset(address, seed, nbytes)
            if ctypes.string_at(address, nbytes) != bytes([seed]) * nbytes:
                problems.append((seed, nbytes))
            allocator.free(address, nbytes)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")
def test_memory_stays_level_over_many_arrays() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    types = [TensorType((n,), dtypes.F32) for n in (100, 5000, 1_200_000)]
    for type_ in types:
        allocator.empty(type_)[...] = 1
    before = resident()
    for _ in range(20_000):
        allocator.empty(types[0])[:1] = 1
    for _ in range(100):
        allocator.empty(types[1])[...] = 1
        allocator.empty(types[2])[...] = 1
    assert resident() - before < 1 << 20
