"""The memory cache: least recently used by bytes, one maker for all who ask at once."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from braze.cache.memory import CacheInfo, MemoryCache


def _fill(cache: MemoryCache[str, str], names: str, nbytes: int = 10) -> None:
    for name in names:
        cache.get_or_make(name, lambda name=name: (name.upper(), nbytes))


def test_the_least_recently_used_goes_first() -> None:
    cache = MemoryCache[str, str](max_bytes=30)
    _fill(cache, "abc")
    assert cache.get("a") == "A"
    _fill(cache, "d")
    assert [cache.get(name) for name in "abcd"] == ["A", None, "C", "D"]
    assert cache.cache_info() == CacheInfo(hits=4, misses=4, entries=3, nbytes=30, max_bytes=30)


def test_what_is_larger_than_the_cache_is_made_but_not_kept() -> None:
    cache = MemoryCache[str, str](max_bytes=30)
    _fill(cache, "ab")
    assert cache.get_or_make("big", lambda: ("B", 31)) == "B"
    assert cache.cache_info().entries == 2


def test_threads_that_ask_at_once_share_one_maker() -> None:
    cache = MemoryCache[str, object](max_bytes=100)
    made: list[int] = []
    gate = threading.Barrier(8)

    def make() -> tuple[object, int]:
        made.append(1)
        threading.Event().wait(0.05)
        return object(), 1

    def ask() -> object:
        gate.wait()
        return cache.get_or_make("key", make)

    with ThreadPoolExecutor(8) as executor:
        values = {id(job.result()) for job in [executor.submit(ask) for _ in range(8)]}
    assert (len(made), len(values)) == (1, 1)
    assert cache.cache_info()[:2] == (7, 1)


def test_other_keys_are_made_meanwhile() -> None:
    cache = MemoryCache[str, str](max_bytes=100)
    inside, leave = threading.Event(), threading.Event()

    def slow() -> tuple[str, int]:
        inside.set()
        assert leave.wait(10)
        return "slow", 1

    thread = threading.Thread(target=cache.get_or_make, args=("slow", slow))
    thread.start()
    assert inside.wait(10)
    assert cache.get_or_make("quick", lambda: ("quick", 1)) == "quick"
    leave.set()
    thread.join()
    assert cache.get("slow") == "slow"


def test_a_maker_that_fails_leaves_nothing() -> None:
    cache = MemoryCache[str, str](max_bytes=100)

    def fail() -> tuple[str, int]:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            cache.get_or_make("key", fail)
    assert cache.get_or_make("key", lambda: ("yes", 1)) == "yes"


def test_clear_forgets_values_and_counts() -> None:
    cache = MemoryCache[str, str](max_bytes=100)
    _fill(cache, "abc")
    cache.clear()
    assert cache.cache_info() == CacheInfo(0, 0, 0, 0, 100)
    assert cache.get("a") is None


def test_dropped_values_are_freed_and_may_use_the_cache_then() -> None:
    cache = MemoryCache[str, object](max_bytes=10)

    class Value:
        def __del__(self) -> None:
            cache.cache_info()

    cache.get_or_make("a", lambda: (Value(), 10))
    gone = weakref.ref(cache.get("a"))  # type: ignore[arg-type]
    cache.get_or_make("b", lambda: (Value(), 10))
    gc.collect()
    assert gone() is None


def test_a_miss_says_what_changed() -> None:
    cache = MemoryCache[str, int](max_bytes=100)
    cache.get_or_make("a", lambda: (1, 1), parts=(("x", "f32[3]"),))
    assert cache.explain((("x", "f32[4]"),)) == "x was f32[3] and is f32[4]"
