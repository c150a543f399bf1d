"""Every switch of braze, in one table: environment variable, `with braze.config(...)`, documentation.

A knob that changes generated code is `keyed`: it is part of every cache key. `epoch()` counts the changes
of configuration; the dispatchers compare it, so a call never runs an entry made under other settings.

Invariants:
- At most twenty knobs; a new one removes an old one or argues.
- An unknown `BRAZE_*` variable is an error, so that a misspelt one is not silently ignored.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from braze.errors import ConfigError
from braze.record import Record


@dataclass(slots=True, eq=False, repr=False)
class Knob(Record):
    name: str
    parse: Callable[[str], Any]
    default: Any
    doc: str
    keyed: bool = False

    @property
    def variable(self) -> str:
        return f"BRAZE_{self.name.upper()}"


def _flag(text: str) -> bool:
    if text in ("1", "true", "True"):
        return True
    if text in ("0", "false", "False", ""):
        return False
    raise ValueError("0 or 1")


def _is_decimal(text: str) -> bool:
    """Digits that `int` reads: not superscripts, nor more than it takes."""
    return text.isascii() and text.isdigit() and len(text) < 20


def _level(limit: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _is_decimal(text) or int(text) > limit:
            raise ValueError(f"an integer from 0 to {limit}")
        return int(text)

    return parse


def _count(text: str) -> int | None:
    if text == "":
        return None
    if not _is_decimal(text):
        raise ValueError("a non-negative integer")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(sorted(part.strip() for part in text.split(",") if part.strip()))


def _threads(text: str) -> int | None:
    if text == "":
        return None
    if not _is_decimal(text) or int(text) < 1:
        raise ValueError("a positive integer")
    return int(text)


def _text(text: str) -> str:
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return text


def _target(text: str) -> str:
    if text not in ("cpu", "numpy"):
        raise ValueError("cpu or numpy")
    return text


def _traceback(text: str) -> str:
    if text not in ("user", "full"):
        raise ValueError("user or full")
    return text


KNOBS: Mapping[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("debug", _level(6), 0,
             "What to print: 1 compiles and cache misses, 2 jaxpr, 3 HLO in and out, 4 every pass that changed it, "
             "5 Program, kernels and LLVM IR, 6 assembly."),
        Knob("dump", _text, "", "A folder that takes the same, whole, as numbered files."),
        Knob("only", _pattern, "", "A regular expression: the functions that the two above speak of."),
        Knob("skip", _names, (), "Passes (`cse`) or single rules (`simplify.neg_neg`) to leave out.", keyed=True),
        Knob("fuel", _count, None, "Stop rewriting after this many rewrites, to find a bad one by halving.", keyed=True),
        Knob("verify", _level(2), 1,
             "When to check the IR: 0 never, 1 at the ends of a stage, 2 after every pass, kernels and jaxprs too."),
        Knob("target", _target, "cpu", "Where functions run unless `jit(target=...)` says otherwise.", keyed=True),
        Knob("check", _flag, False, "Run the NumPy target too and compare every result."),
        Knob("fast_math", _flag, False, "Allow rules that reassociate.", keyed=True),
        Knob("x64", _flag, False, "The default float and integer are 64-bit.", keyed=True),
        Knob("cache", _text, "", "Folder of the object cache, or `off`; empty: the user's cache folder."),
        Knob("threads", _threads, None, "Threads that one call may use; empty: all that the system allows."),
        Knob("traceback", _traceback, "user", "`full` keeps braze's own frames in tracebacks."),
    )
}  # fmt: skip


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    values = {name: knob.default for name, knob in KNOBS.items()}
    for variable, text in environ.items():
        if not variable.startswith("BRAZE_"):
            continue
        name = variable.removeprefix("BRAZE_").lower()
        if name not in KNOBS:
            known = ", ".join(sorted(knob.variable for knob in KNOBS.values()))
            raise ConfigError(f"environment: {variable} is not a variable of braze.", hint=f"known: {known}")
        values[name] = _parse(KNOBS[name], text, variable)
    return values


def _parse(knob: Knob, text: str, shown: str) -> Any:
    try:
        return knob.parse(text)
    except ValueError as error:
        raise ConfigError(f"{shown}: {text!r} was given, {error} is wanted.") from None


class _Configuration(threading.local):
    """Values per thread, begun from the environment; `epoch` changes with every change of them."""

    def __init__(self) -> None:
        self.values = dict(_ENVIRONMENT)
        self.epoch = _epoch_of(self.values)


_EPOCHS: dict[tuple[Any, ...], int] = {}
_EPOCHS_LOCK = threading.Lock()


def _epoch_of(values: Mapping[str, Any]) -> int:
    """A small number for this set of values: equal settings share entries, however they came about."""
    key = tuple(values[name] for name in KNOBS)
    with _EPOCHS_LOCK:
        return _EPOCHS.setdefault(key, len(_EPOCHS))


_ENVIRONMENT = _from_environment(os.environ)
_CONFIGURATION = _Configuration()
_LISTENERS: list[Callable[[int], None]] = []


def get(name: str) -> Any:
    """The value of a knob in this thread."""
    return _CONFIGURATION.values[name]


def epoch() -> int:
    """A number that is equal for equal settings; part of the dispatchers' check."""
    return _CONFIGURATION.epoch


def keyed() -> tuple[tuple[str, Any], ...]:
    """Names and values of the knobs that change generated code, for cache keys."""
    return tuple((name, _CONFIGURATION.values[name]) for name, knob in KNOBS.items() if knob.keyed)


def on_change(listener: Callable[[int], None]) -> None:
    """Call `listener(epoch)` after each change in the changing thread (the native dispatcher's mirror)."""
    _LISTENERS.append(listener)


@contextlib.contextmanager
def config(**settings: Any) -> Iterator[None]:
    """Set knobs for the code inside the `with` block, in this thread.

    Raises: ConfigError for an unknown knob or a value that it does not take.

    >>> with config(target="numpy"):
    ...     get("target")
    'numpy'
    """
    before = dict(_CONFIGURATION.values)
    for name, value in settings.items():
        if name not in KNOBS:
            raise ConfigError(f"config: {name} is not a knob.", hint=f"known: {', '.join(sorted(KNOBS))}")
        _CONFIGURATION.values[name] = _normalise(KNOBS[name], value)
    _changed()
    try:
        yield
    finally:
        _CONFIGURATION.values = before
        _changed()


def _normalise(knob: Knob, value: Any) -> Any:
    if value is None:
        return knob.default
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, tuple | list):
        value = ",".join(value)
    return _parse(knob, str(value), f"config({knob.name}=...)")


def _changed() -> None:
    _CONFIGURATION.epoch = _epoch_of(_CONFIGURATION.values)
    for listener in _LISTENERS:
        listener(_CONFIGURATION.epoch)
