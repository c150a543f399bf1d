"""What `build` returns: kernels in launch order, and which buffer each parameter is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from braze.kernel.ir import Kernel
from braze.record import Record
from braze.types import TensorType

BufferName = tuple[Literal["operand", "result", "temporary"], int]


@dataclass(slots=True, eq=False, repr=False)
class BuiltLaunch(Record):
    """A kernel, and per parameter the operand, result or temporary of the fusion that it is.

    A parameter of space `inout` is an operand whose memory becomes the result that the fusion's `aliases`
    pair with it.
    """

    kernel: Kernel
    buffers: tuple[BufferName, ...]


@dataclass(slots=True, eq=False, repr=False)
class Built(Record):
    """Launches in order, and the temporaries that live between them."""

    launches: tuple[BuiltLaunch, ...]
    temporaries: tuple[TensorType, ...]
