"""Executable: a program as machine code, ready to be called.

From `targets/` and `cache/` (an object file, the numbers that go with it) to the user, by two ways that meet in
`braze_call`: the machine-code dispatcher, which reads `descriptor`, and `run` and `call` here, through `ctypes`.

Invariants:
- An Executable holds all that its code needs: library, descriptor, callbacks. It may run in several threads at
  once, and from one of its own callbacks.
- `run` trusts its addresses; `call` checks its arrays and copies what machine code could not read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braze.errors import AllocationError, ArgumentError, DTypeError, InternalError, ShapeError
from braze.record import Record
from braze.runtime import allocator, descriptor, engine, pool
from braze.runtime.context import Host, HostCallback
from braze.runtime.descriptor import CHECKS_SIGNALS, RELEASES_GIL, Descriptor
from braze.runtime.services import services
from braze.types import TensorType

Array = np.ndarray[Any, Any]

ENTRY = "braze_run"
SHORT_SECONDS = 10e-6
"""Programs estimated below this keep the GIL: giving it up and taking it back costs 60 ns each time."""


@dataclass(slots=True, eq=False, repr=False)
class Signature(Record):
    """What a program takes, gives and needs.

    Attributes:
        name: for messages.
        inputs, outputs: types of parameters and results.
        arena_bytes: temporaries of one call.
        scratch_bytes: kernels' working memory, per thread.
        parallel: whether some launch may be shared among threads.
        loops: whether it has a loop, which looks at signals.
        seconds: estimated running time.
    """

    name: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    arena_bytes: int = 0
    scratch_bytes: int = 0
    parallel: bool = False
    loops: bool = False
    seconds: float = 0.0


class Executable:
    """A loaded program.

    Attributes:
        signature: its types and needs.
        descriptor: what native code reads to call it.
        library: its machine code.
    """

    __slots__ = ("_call", "_host", "descriptor", "library", "signature")

    def __init__(
        self,
        image: bytes | Sequence[bytes],
        signature: Signature,
        callbacks: Sequence[HostCallback] = (),
        symbols: Mapping[str, int] | None = None,
    ) -> None:
        """Link a program's object file.

        Args:
            image: object file with the entry `braze_run`, or several of which one has it.
            callbacks: Python functions of its host steps, by number.
            symbols: addresses of what it imports besides the runtime (micro-kernels, LAPACK).
        """
        runtime = services()
        self.signature = signature
        self.library = engine.load(image, {**(symbols or {}), **runtime.symbols}, signature.name)
        self._call = runtime.call
        self._host = Host(callbacks) if callbacks else None
        threads = pool.start() if signature.parallel else 1
        releases = (
            signature.parallel or signature.loops or bool(callbacks) or signature.seconds > SHORT_SECONDS
        )
        self.descriptor = Descriptor(
            entry=self.library.address(ENTRY),
            arena_bytes=descriptor.aligned(signature.arena_bytes),
            scratch_bytes=descriptor.aligned(signature.scratch_bytes),
            threads=threads,
            flags=RELEASES_GIL * releases | CHECKS_SIGNALS * signature.loops,
            host=id(self._host) if self._host else None,
            inputs=len(signature.inputs),
            outputs=len(signature.outputs),
        )

    @property
    def releases_gil(self) -> bool:
        """Whether other Python threads run while this program does."""
        return bool(self.descriptor.flags & RELEASES_GIL)

    def run(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Run on data addresses; memory of the right sizes, not checked.

        Raises: AllocationError when the temporaries do not fit; what a callback or a signal handler raised.
        """
        status = self._call(
            ctypes.addressof(self.descriptor),
            (ctypes.c_uint64 * len(inputs))(*inputs),
            (ctypes.c_uint64 * len(outputs))(*outputs),
        )
        if status != descriptor.OK:
            raise self.failure(status)

    def failure(self, status: int) -> Exception:
        """The exception for a status that left none set."""
        if status == descriptor.NO_MEMORY:
            return AllocationError(
                f"{self.signature.name}: {self.descriptor.lease_bytes:,} bytes are wanted for temporaries, "
                "which the system does not give."
            )
        return InternalError(f"{self.signature.name} ended with status {status}.", stage="run")

    def call(self, arrays: Sequence[Any]) -> list[Array]:
        """Run on arrays and return the results as new NumPy arrays.

        Arrays that are strided, misaligned or byte-swapped are copied first.
        Raises: ArgumentError, ShapeError, DTypeError when they are not what the program takes.
        """
        signature = self.signature
        if len(arrays) != len(signature.inputs):
            raise ArgumentError(
                f"{signature.name}: {len(arrays)} arguments were given and {len(signature.inputs)} are wanted."
            )
        given = [_operand(signature.name, i, a, t) for i, (a, t) in enumerate(zip(arrays, signature.inputs))]
        results = [allocator.empty(type_) for type_ in signature.outputs]
        self.run([_address(array) for array in given], [_address(array) for array in results])
        return results


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def _operand(name: str, position: int, value: Any, type_: TensorType) -> Array:
    """The value as memory that machine code can read."""
    array = np.asarray(value)
    if array.shape != type_.shape:
        raise ShapeError(f"{name}: argument {position} has shape {array.shape}, and {type_.shape} is wanted.")
    if array.dtype != type_.dtype and array.dtype.newbyteorder("=") != type_.dtype:
        raise DTypeError(f"{name}: argument {position} has dtype {array.dtype}, and {type_} is wanted.")
    return np.require(array, type_.dtype, ("C_CONTIGUOUS", "ALIGNED"))
