"""Keys: the one function that makes them all, and what is in them.

A key is a list of named parts, so that a miss can say which part changed (`explain`), and a digest of it,
which names the file on disk. What is in it changes the machine code; nothing else is.

- `object`: LLVM IR text to an object file. Text, target and LLVM decide it alone.
- `program`: HLO text to an object file. braze itself and the keyed knobs stand between the two, so they are
  parts as well. braze counts by the state of its source files, not by its version alone: in a checkout the
  code changes under one version, and a stale program is a wrong number.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from braze import knobs
from braze.target import Target

Kind = Literal["object", "program"]


@dataclass(frozen=True, slots=True)
class Key:
    """Named parts, and their digest.

    Attributes:
        parts: (name, value) in a fixed order; long texts as their hash.
        digest: 64 hexadecimal digits, a file name on every system.
    """

    parts: tuple[tuple[str, str], ...]
    digest: str


def make_key(kind: Kind, text: str, target: Target) -> Key:
    """The cache key of a text compiled for a target under the settings of this thread.

    >>> from braze.target import NUMPY
    >>> make_key("object", "a", NUMPY) == make_key("object", "a", NUMPY)
    True
    >>> make_key("object", "a", NUMPY).digest == make_key("object", "b", NUMPY).digest
    False
    """
    parts = [
        ("kind", kind),
        ("text", hashlib.sha256(text.encode()).hexdigest()),
        ("target", target.name),
        ("triple", target.triple),
        ("cpu", target.cpu),
        ("features", target.features),
        ("llvmlite", llvmlite_version()),
    ]
    if kind == "program":
        parts.append(("machine", _shape_of(target)))
        parts.append(("braze", fingerprint()))
        parts.extend((f"knob {name}", repr(value)) for name, value in knobs.keyed())
    digest = hashlib.sha256("\0".join(f"{name}={value}" for name, value in parts).encode()).hexdigest()
    return Key(tuple(parts), digest)


def _shape_of(target: Target) -> str:
    """What the cost model reads, and LLVM does not know."""
    return (
        f"{target.vector_bytes} {target.masked_memory} {target.has_fma} "
        f"{target.l1_bytes} {target.l2_bytes} {target.cores}"
    )


@cache
def llvmlite_version() -> str:
    """The installed version, without importing llvmlite; it pins LLVM's."""
    try:
        return importlib.metadata.version("llvmlite")
    except importlib.metadata.PackageNotFoundError:
        return "none"


@cache
def fingerprint() -> str:
    """braze's version and the sizes and times of its source files: 0.5 ms, once in a process."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256(importlib.metadata.version("braze").encode())
    for path in sorted(root.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path.relative_to(root).as_posix()} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()
