"""A cache in memory: least recently used by bytes, and one maker when several threads ask at once.

Invariants:
- No lock is held while a value is made, but the one of its key.
- A maker that raises leaves nothing behind; whoever waited for it tries anew.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from braze.cache.explain import Parts, explain_miss

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class CacheInfo(NamedTuple):
    """Counts since the cache was made or cleared; sizes in bytes."""

    hits: int
    misses: int
    entries: int
    nbytes: int
    max_bytes: int


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    nbytes: int
    parts: Parts


class MemoryCache(Generic[K, V]):
    """Values by key, at most `max_bytes` of them; a value larger than that is not kept.

    >>> cache = MemoryCache[str, int](max_bytes=100)
    >>> cache.get_or_make("six", lambda: (6, 8)), cache.get_or_make("six", lambda: (7, 8))
    (6, 6)
    >>> cache.cache_info()
    CacheInfo(hits=1, misses=1, entries=1, nbytes=8, max_bytes=100)
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[K, threading.RLock] = {}
        self._hits = self._misses = self._nbytes = 0
        _CACHES.add(self)

    def get(self, key: K) -> V | None:
        """The value, or None; counts as a hit or nothing."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            self._hits += 1
            return entry.value

    def get_or_make(self, key: K, make: Callable[[], tuple[V, int]], parts: Parts = ()) -> V:
        """The value of a key, made by `make() -> (value, bytes)` if it is not there.

        Args:
            parts: names and values behind the key, for `explain`.
        """
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            turn = self._making.setdefault(key, threading.RLock())
        with turn:
            found = self.get(key)
            if found is not None:
                return found
            try:
                value, nbytes = make()
                self._put(key, _Entry(value, nbytes, parts))
            finally:
                with self._lock:
                    self._misses += 1
                    self._making.pop(key, None)
        return value

    def _put(self, key: K, entry: _Entry[V]) -> None:
        dropped = []
        with self._lock:
            if entry.nbytes <= self.max_bytes:
                self._entries[key] = entry
                self._nbytes += entry.nbytes
            while self._nbytes > self.max_bytes:
                _, oldest = self._entries.popitem(last=False)
                self._nbytes -= oldest.nbytes
                dropped.append(oldest)
        # Values are given up outside the lock: their own clean-up may come back here.
        dropped.clear()

    def explain(self, parts: Parts) -> str:
        """What a key with these parts differs in from the nearest one that is there."""
        with self._lock:
            present = [entry.parts for entry in self._entries.values()]
        return explain_miss(parts, present)

    def cache_info(self) -> CacheInfo:
        with self._lock:
            return CacheInfo(self._hits, self._misses, len(self._entries), self._nbytes, self.max_bytes)

    def clear(self) -> None:
        """Forget all values and counts."""
        with self._lock:
            dropped = self._entries
            self._entries = OrderedDict()
            self._hits = self._misses = self._nbytes = 0
        dropped.clear()

    def _after_fork(self) -> None:
        # The threads that held these locks do not exist in the child.
        self._lock = threading.Lock()
        self._making = {}


_CACHES: weakref.WeakSet[MemoryCache[Any, Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for cache in list(_CACHES):
        cache._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
