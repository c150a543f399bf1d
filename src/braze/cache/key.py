"""Keys: the one function that makes them, and what is in them.

A key is a list of named parts, so that a miss can say which part changed (`explain`), and a digest of it,
which names the file on disk. What is in it changes the machine code; nothing else is: LLVM IR text, target
and LLVM's version decide an object file alone (decisions/0003).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from braze.record import Record
from braze.target import Target


@dataclass(slots=True, eq=False, repr=False)
class Key(Record):
    """Named parts, and their digest.

    Attributes:
        parts: (name, value) in a fixed order; long texts as their hash.
        digest: 64 hexadecimal digits, a file name on every system.
    """

    parts: tuple[tuple[str, str], ...]
    digest: str


def make_key(text: str, target: Target) -> Key:
    """The cache key of LLVM IR text compiled for a target.

    >>> from braze.target import NUMPY
    >>> make_key("a", NUMPY) == make_key("a", NUMPY)
    True
    >>> make_key("a", NUMPY).digest == make_key("b", NUMPY).digest
    False
    """
    parts = (
        ("text", hashlib.sha256(text.encode()).hexdigest()),
        ("triple", target.triple),
        ("cpu", target.cpu),
        ("features", target.features),
        ("llvm", target.llvm),
    )
    digest = hashlib.sha256("\0".join(f"{name}={value}" for name, value in parts).encode()).hexdigest()
    return Key(parts, digest)
