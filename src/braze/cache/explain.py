"""Why a key missed: the nearest key that is there, and the parts in which they differ."""

from __future__ import annotations

from collections.abc import Iterable

Parts = tuple[tuple[str, str], ...]


def explain_miss(asked: Parts, present: Iterable[Parts]) -> str:
    """One line that says what changed since the most similar entry.

    >>> explain_miss((("x", "f32[3]"), ("y", "f32[3]")), [(("x", "f32[3]"), ("y", "f32[4]"))])
    'y was f32[4] and is f32[3]'
    >>> explain_miss((("x", "f32[3]"),), [])
    'its first call'
    """
    nearest = min(present, key=lambda parts: len(_changes(asked, parts)), default=None)
    if nearest is None:
        return "its first call"
    return "; ".join(_changes(asked, nearest)) or "the same entry was there and has been dropped"


def _changes(asked: Parts, present: Parts) -> list[str]:
    was, now = dict(present), dict(asked)
    changes = [f"{name} is new: {_short(value)}" for name, value in asked if name not in was]
    changes += [f"{name} is gone: it was {_short(value)}" for name, value in present if name not in now]
    changes += [
        f"{name} was {_short(was[name])} and is {_short(value)}"
        for name, value in asked
        if name in was and was[name] != value
    ]
    return changes


def _short(value: str) -> str:
    return value if len(value) <= 40 else f"{value[:37]}..."
