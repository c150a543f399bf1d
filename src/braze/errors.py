"""Error classes: what users see when a program is wrong, and what we see when braze is.

Two roots. `BrazeError` is the caller's to fix; its subclasses also inherit the built-in exception that
NumPy or JAX users would catch. `InternalError` is a fault of braze and says so.

A message has one form, always in this order: the rule with its constraint and what holds against what
was wanted; the values; the user's line; a hint where it is usually right. The parts are kept apart on the
exception, so that a layer further out can add what it knows (`bind` adds the user's line).

Invariant: this module imports nothing from braze and reads no knob.
"""

from __future__ import annotations

import contextlib
import linecache
from types import CodeType, TracebackType

_HERE = __file__.rsplit("errors.py", 1)[0]
_OURS = (_HERE, contextlib.__file__)


def is_ours(code: CodeType) -> bool:
    """Whether a frame of this code is braze's (or contextlib's, which only passes on), not the user's."""
    return code.co_filename.startswith(_OURS)


class Source:
    """A place in the user's program: the file, line and function of a Python frame.

    Holding the code object and a line number instead of strings keeps recording one to a few hundred
    nanoseconds; the text is read only when something is printed.
    """

    __slots__ = ("code", "line")

    def __init__(self, code: CodeType, line: int) -> None:
        self.code = code
        self.line = line

    @property
    def file(self) -> str:
        return self.code.co_filename

    @property
    def function(self) -> str:
        return self.code.co_name

    @property
    def short(self) -> str:
        """`file.py:12`, the file without its folders."""
        return f"{self.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{self.line}"

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        where = f"{self.short} in {self.function}"
        return f"{where}:  {text}" if text else where

    def __repr__(self) -> str:
        return f"<Source {self.short}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and (self.code, self.line) == (other.code, other.line)

    def __hash__(self) -> int:
        return hash((self.code, self.line))


class BrazeError(Exception):
    """Base of all errors that the caller can fix.

    Args:
        message: one sentence: the rule, its constraint, what holds and what was wanted, with numbers.
        values: the operands and attributes concerned, on one line.
        source: the user's line; `bind` fills it in where it is missing.
        hint: the way out, only where it is usually right.
    """

    def __init__(
        self,
        message: str,
        *,
        values: str | None = None,
        source: Source | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.values = values
        self.hint = hint
        self._source = source

    @property
    def source(self) -> Source | None:
        """The user's line: the one that was recorded, else the innermost that the error came through so far."""
        if self._source is not None:
            return self._source
        found = None
        entry = self.__traceback__
        while entry is not None:
            if not is_ours(entry.tb_frame.f_code):
                found = Source(entry.tb_frame.f_code, entry.tb_lineno)
            entry = entry.tb_next
        return found

    @source.setter
    def source(self, source: Source | None) -> None:
        self._source = source

    def __str__(self) -> str:
        lines = [self.message]
        if self.values:
            lines.append(f"  {self.values}")
        if self.source:
            lines.append(f"  at {self.source}")
        if self.hint:
            lines.append(f"  Hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # A Source holds a code object, which does not pickle; its text is what a reader wants.
        return (_rebuild, (type(self), self.message, self.values, self.hint))


def users_frames(entry: TracebackType | None) -> TracebackType | None:
    """A traceback without braze's frames."""
    kept = []
    while entry is not None:
        if not is_ours(entry.tb_frame.f_code):
            kept.append(entry)
        entry = entry.tb_next
    found = None
    for one in reversed(kept):
        found = TracebackType(found, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return found


def _rebuild(cls: type[BrazeError], message: str, values: str | None, hint: str | None) -> BrazeError:
    return cls(message, values=values, hint=hint)


class ShapeError(BrazeError, TypeError, ValueError):
    """Shapes, axes or sizes that do not fit an operation.

    >>> import braze.numpy as bnp
    >>> bnp.ones(3) + bnp.ones(4)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ShapeError: …
    """


class DTypeError(BrazeError, TypeError):
    """A dtype that an operation does not take, or dtypes that do not fit each other.

    >>> import numpy, braze.lax
    >>> braze.lax.add(numpy.float32(1), numpy.float64(2))  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    DTypeError: …
    """


class ArgumentError(BrazeError, TypeError, ValueError):
    """An argument of the wrong kind or value: an unknown option, an unhashable static, a bad pytree.

    >>> import braze
    >>> braze.jit(lambda x, n: x, static_argnums=1)(1.0, [2])  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ArgumentError: …
    """


class OutOfBoundsError(BrazeError, IndexError):
    """A static index outside the array.

    >>> import braze.numpy as bnp
    >>> bnp.ones(3)[3]  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    OutOfBoundsError: …
    """


class ConcretizationError(BrazeError, TypeError):
    """Python asked a tracer for a value that does not exist until the compiled program runs.

    >>> import braze
    >>> braze.jit(lambda x: 1 if x > 0 else 2)(1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ConcretizationError: …
    """


class LeakedTracerError(BrazeError, RuntimeError):
    """A tracer outlived the function in which it was made.

    >>> import braze; kept = []; f = braze.jit(lambda x: kept.append(x))
    >>> f(1.0); kept[0] + 1  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    LeakedTracerError: …
    """


class DeletedArrayError(BrazeError, RuntimeError, ValueError):
    """An array whose memory was donated or deleted was used again.

    >>> import braze, braze.numpy as bnp; x = bnp.ones(3)
    >>> braze.jit(lambda x: x + 1, donate_argnums=0)(x) + x  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    DeletedArrayError: …
    """


class IntegerOverflowError(BrazeError, OverflowError):
    """A Python int does not fit the dtype it is to become.

    >>> import braze.numpy as bnp
    >>> bnp.array(2**40)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    IntegerOverflowError: …
    """


class AllocationError(BrazeError, MemoryError):
    """Memory for an array or a temporary could not be had; the message names the bytes wanted.

    >>> import braze.numpy as bnp
    >>> bnp.zeros(1 << 50)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    AllocationError: …
    """


class DifferentiationError(BrazeError, TypeError, NotImplementedError):
    """A derivative was asked for that is not defined or not available, with the reason.

    >>> import braze, braze.numpy as bnp
    >>> braze.grad(lambda x: x * 2)(bnp.ones(3))  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    DifferentiationError: …
    """


class UnsupportedError(BrazeError, NotImplementedError):
    """A legal program that this target or this version does not take, with the way out.

    >>> import braze, numpy
    >>> braze.jit(lambda z: z * z)(numpy.ones(3, numpy.complex64))  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    UnsupportedError: …
    """


class ParseError(BrazeError, ValueError):
    """Text of an IR that cannot be read; names line and column.

    >>> import braze
    >>> braze.hlo.parse("func.func @main(")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ParseError: …
    """


class VerificationError(BrazeError, ValueError):
    """An IR that breaks its rules; lists every fault under the offending line.

    >>> import braze
    >>> reshape = "stablehlo.reshape %x : (tensor<3xf32>) -> tensor<4xf32>"
    >>> text = f"func.func @main(%x: tensor<3xf32>) -> tensor<4xf32> {{ %0 = {reshape} return %0 : tensor<4xf32> }}"
    >>> braze.hlo.compile(text)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    VerificationError: …
    """


class ConfigError(BrazeError, ValueError):
    """An unknown knob or a value that the knob does not take.

    >>> import braze
    >>> braze.config(colour=1).__enter__()  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ConfigError: …
    """


class InternalError(Exception):
    """A fault of braze itself: names the stage, and the file that reproduces it where there is one."""

    def __init__(self, message: str, *, stage: str | None = None, reproducer: str | None = None) -> None:
        where = f" in {stage}" if stage else ""
        replay = f"\n  Reproducer: {reproducer}" if reproducer else ""
        super().__init__(f"internal error{where}: {message}{replay}")
        self.stage = stage
        self.reproducer = reproducer
