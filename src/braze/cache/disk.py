"""The object cache on disk: machine code from one process to the next.

One file per entry, named by the key's digest:

    magic · header length · image length · SHA-256 of what follows · header (JSON) · image

The header repeats the key's parts, the ISA features that LLVM was told of, and what the writer wants to know
again (`meta`). The image is an object file.

Invariants:
- A reader sees a whole entry or none: files are written under another name and renamed into place. Lengths and
  hash are checked nevertheless; a damaged entry is removed with one warning and the caller makes it anew.
- Nothing is unpickled or executed before the checks have passed; the folder is private to the user (0700), and
  one that others can write is not used, since it would let them choose what code runs here.
- Trouble with the cache never stops a program: it warns once and works without.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import struct
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from braze import knobs
from braze.cache.key import Key
from braze.errors import is_ours
from braze.record import Record

MAGIC = b"braze object 1\n\0"
_FRAME = struct.Struct("<16sQQ32s")
# Words for the scheduler and the instruction selector, not instructions: a machine need not "have" them.
_TUNING = ("prefer-", "fast-", "slow-", "tune", "no-", "false-deps-", "idiv", "macrofusion", "branchfusion")
_ABANDONED_SECONDS = 3600


@dataclass(slots=True, eq=False, repr=False)
class Entry(Record):
    """An object file and what its writer wants to know again (JSON values only)."""

    image: bytes
    meta: Mapping[str, Any] = field(default_factory=dict)


def isa_features(features: str) -> frozenset[str]:
    """The instruction sets in LLVM's feature string, without tuning flags.

    >>> sorted(isa_features("+avx2,-avx512f,+fma,+prefer-256-bit"))
    ['avx2', 'fma']
    """
    names = (word[1:] for word in features.split(",") if word.startswith("+"))
    return frozenset(name for name in names if not name.startswith(_TUNING))


class DiskCache:
    """Entries in one folder, which exists and is private when this object does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._swept = False

    def path(self, key: Key) -> Path:
        return self.folder / f"{key.digest}.o"

    def get(self, key: Key) -> Entry | None:
        """The entry of a key, or None; a damaged one is removed."""
        path = self.path(key)
        try:
            with open(path, "rb") as file:
                if _untrusted(os.fstat(file.fileno())):
                    raise _DamagedError("it is not yours alone to write")
                data = file.read()
        except FileNotFoundError:
            return None
        except (OSError, _DamagedError) as error:
            _warn(f"{path}: the entry cannot be used ({error}); compiling anew.")
            return None
        try:
            entry = _decode(data, key)
        except _DamagedError as error:
            with contextlib.suppress(OSError):
                path.unlink()
            _warn(f"{path}: a damaged entry was removed ({error}); compiling anew.")
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the date of last use, by which a size limit will choose
        return entry

    def put(self, key: Key, entry: Entry) -> None:
        """Write an entry; another process that writes the same key at the same time is no harm."""
        self._sweep()
        temporary = self.folder / f"{key.digest}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as file:
                file.write(_encode(key, entry))
            os.replace(temporary, self.path(key))
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            _warn(f"{self.folder}: an entry could not be written ({error}); going on without it.")

    def _sweep(self) -> None:
        """Once in a process, remove what writers that were killed have left."""
        if self._swept:
            return
        self._swept = True
        before = time.time() - _ABANDONED_SECONDS
        for path in self.folder.glob("*.tmp"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < before:
                    path.unlink()


class _DamagedError(Exception):
    """Why an entry is not to be trusted."""


def _encode(key: Key, entry: Entry) -> bytes:
    features = sorted(isa_features(dict(key.parts)["features"]))
    header = json.dumps({"key": key.parts, "features": features, "meta": dict(entry.meta)}).encode()
    digest = hashlib.sha256(header + entry.image).digest()
    return _FRAME.pack(MAGIC, len(header), len(entry.image), digest) + header + entry.image


def _decode(data: bytes, key: Key) -> Entry:
    if len(data) < _FRAME.size:
        raise _DamagedError("it is shorter than its frame")
    magic, header_length, image_length, digest = _FRAME.unpack_from(data)
    if magic != MAGIC:
        raise _DamagedError("it is no entry of this version")
    body = data[_FRAME.size :]
    if len(body) != header_length + image_length:
        raise _DamagedError(f"it holds {len(body)} bytes and announces {header_length + image_length}")
    if hashlib.sha256(body).digest() != digest:
        raise _DamagedError("its hash does not fit")
    header = json.loads(body[:header_length])
    if tuple((name, value) for name, value in header["key"]) != key.parts:
        raise _DamagedError("it belongs to another key")
    missing = set(header["features"]) - isa_features(dict(key.parts)["features"])
    if missing:
        raise _DamagedError(f"it needs {', '.join(sorted(missing))}, which this machine lacks")
    return Entry(body[header_length:], header["meta"])


# --- the folder -------------------------------------------------------------------------------------
def disk_cache() -> DiskCache | None:
    """The cache that the knob `cache` names in this thread, or None if it is off or not usable."""
    setting = knobs.get("cache")
    return None if setting == "off" else _open(setting or _default_folder())


@cache
def _default_folder() -> str:
    import platformdirs

    return os.path.join(platformdirs.user_cache_dir("braze", appauthor=False), "objects")


@cache
def _open(setting: str) -> DiskCache | None:
    folder = Path(setting).expanduser().absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        _warn(f"{folder}: no cache folder can be made there ({error}); every program will be compiled anew.")
        return None
    if _untrusted(status):
        _warn(
            f"{folder}: the cache is not used, since other users could put code there; "
            "it must belong to you and be writable by you alone (chmod 700)."
        )
        return None
    return DiskCache(folder)


def _untrusted(status: os.stat_result) -> bool:
    """Whether someone else could have written this; elsewhere than on POSIX the user's profile is private."""
    if os.name != "posix":
        return False
    return status.st_uid != os.geteuid() or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


_WARNED: set[str] = set()


def _warn(message: str) -> None:
    if message in _WARNED:
        return
    _WARNED.add(message)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and is_ours(frame.f_code):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"object cache: {message}", RuntimeWarning, stacklevel=level)
