"""Program: steps over buffers, the last form before code. Data only.

| step | does |
|---|---|
| `Launch` | runs a kernel over its grid, buffers in the order of the kernel's parameters |
| `Copy` | moves bytes from one slice to another of equal size |
| `Loop` | runs `condition_steps`, reads one bool, while it holds runs `body_steps`; or so many times |
| `Branch` | reads one i32 and runs one of the branches (an index out of range means the last) |
| `CallSymbol` | calls C code that needs no Python with the slices' addresses |
| `Host` | calls Python through the callback table, holding the GIL; effects stay in program order |

A `Buffer` is a piece of memory with a lifetime, made by `schedule`; `assign` gives each one its place:
a slice of the arena, a parameter, a result, or a constant of the object.

Invariants:
- After `assign`, every slice lies inside its space, and two buffers live at the same time do not overlap.
- Parameter memory is written only if it was donated; results never alias other memory of the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from braze.kernel.ir import Kernel
from braze.record import Record
from braze.types import TensorType

Place = Literal["arena", "parameter", "result", "constant"]


@dataclass(slots=True, eq=False)
class Buffer:
    """A value's memory before it has a place.

    Attributes:
        name: for the text (`t3`, `x`, `out0`).
        type: shape and dtype of what it holds.
        place: `parameter`, `result` or `constant` where that is settled from the start; else `arena`.
        index: number of the parameter, result or constant.
    """

    name: str
    type: TensorType
    place: Place = "arena"
    index: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Slice(Record):
    """Where a buffer lies: `index` of the parameter, result or constant, byte `offset` in it or in the arena."""

    place: Place
    index: int
    offset: int
    nbytes: int


@dataclass(slots=True, eq=False)
class Launch:
    kernel: Kernel
    buffers: tuple[Buffer, ...]


@dataclass(slots=True, eq=False)
class Copy:
    source: Buffer
    destination: Buffer


@dataclass(slots=True, eq=False)
class Loop:
    """Runs `body_steps` while `condition`, which `condition_steps` write, holds.

    A counted loop has no condition and runs `trip_count` times. Where a condition has effects, a known
    `trip_count` is for records only.
    """

    condition_steps: tuple[Step, ...]
    condition: Buffer | None
    body_steps: tuple[Step, ...]
    trip_count: int | None = None


@dataclass(slots=True, eq=False)
class Branch:
    index: Buffer
    branches: tuple[tuple[Step, ...], ...]


@dataclass(slots=True, eq=False)
class CallSymbol:
    """`i32 symbol(operands..., results...)`, pointers all: reads the former, fills the latter, gives 0 or a status."""

    symbol: str
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]


@dataclass(slots=True, eq=False)
class Host:
    """`callback` numbers the Python function in the program's table; it reads `operands`, fills `results`.

    The types are what Python sees; the buffers may have been made for other shapes of the same bytes.
    """

    callback: int
    operands: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    operand_types: tuple[TensorType, ...]
    result_types: tuple[TensorType, ...]


Step: TypeAlias = Launch | Copy | Loop | Branch | CallSymbol | Host


@dataclass(slots=True, eq=False)
class Program:
    """Steps in order, and where their buffers lie.

    Attributes:
        parameters, results: buffers of the entry, in order. A result may be a parameter's buffer only where
            that parameter is donated.
        result_types: types of the results; an aliased parameter may have another one of as many bytes.
        constants: arrays that become data of the object, by index.
        callbacks: Python functions of `Host` steps, by index.
        donated: per parameter, whether its memory may be written; empty: none.
        slices: place of every buffer, filled by `assign`.
        arena_bytes: size of the arena; lower_bound_bytes: the most that is live at once.
        aliases: result index to the donated parameter whose memory it takes.
    """

    name: str
    parameters: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    result_types: tuple[TensorType, ...] = ()
    constants: tuple[np.ndarray[Any, Any], ...] = ()
    callbacks: tuple[Any, ...] = ()
    donated: tuple[bool, ...] = ()
    slices: dict[Buffer, Slice] = field(default_factory=dict)
    arena_bytes: int = 0
    lower_bound_bytes: int = 0
    aliases: dict[int, int] = field(default_factory=dict)
