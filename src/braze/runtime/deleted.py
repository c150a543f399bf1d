"""What takes the place of an array's type when its memory is given away, and the error it leads to.

No entry of a dispatcher holds such a marker, so a call with a deleted array misses without a test of its
own, and the slow path raises.
"""

from __future__ import annotations

from typing import Any, NoReturn

from braze.errors import AllocationError, DeletedArrayError
from braze.types import TensorType


class Deleted:
    """The former type of a deleted array, and what became of its memory (`was donated to f`)."""

    __slots__ = ("aval", "reason")

    def __init__(self, aval: TensorType, reason: str) -> None:
        self.aval = aval
        self.reason = reason

    def __repr__(self) -> str:
        return f"of type {self.aval}, which {self.reason}"


def raise_deleted(array: Any) -> NoReturn:
    """Raise the error for a use of a deleted array."""
    from braze.runtime import array as arrays

    state = arrays.state(array)
    assert isinstance(state, Deleted), "only deleted arrays come here"
    raise DeletedArrayError(
        f"array: this {state.aval} {state.reason}, so its values are gone.",
        hint="use the result of that call instead, or donate a copy.",
    )


def raise_out_of_memory(nbytes: int) -> NoReturn:
    """Raise the error for a block that could not be had."""
    raise AllocationError(f"array: {nbytes} bytes could not be allocated.")
