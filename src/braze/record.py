"""Record: equality, hash and repr by fields, for small values that are never changed; and tables of them.

`@dataclass(frozen=True)` writes and compiles six methods for every class, 0.7 ms each; with over forty such
classes that was a tenth of a program's first call. A record takes `__init__` and the slots from `dataclass`
and the rest from here, once for all. Like the nodes of the IRs it is not frozen, and not mutated either.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, TypeVar


def _nothing(_: Any) -> tuple[()]:
    return ()


class Record:
    """The base of a `@dataclass(slots=True, eq=False, repr=False)` that is compared by value.

    >>> from dataclasses import dataclass
    >>> @dataclass(slots=True, eq=False, repr=False)
    ... class Size(Record):
    ...     rows: int
    ...     columns: int = 1
    >>> Size(3) == Size(3, 1), len({Size(3), Size(3, 1)}), Size(3)
    (True, 1, Size(rows=3, columns=1))
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()
    _values: ClassVar[Callable[[Any], Any]] = staticmethod(_nothing)

    def __init_subclass__(cls) -> None:
        # `dataclass` makes the class a second time for its slots, with what the first one was given.
        inherited: tuple[str, ...] = getattr(cls.__base__, "_fields", ())
        own = cls.__dict__.get("__annotations__", {})
        cls._fields = (*inherited, *(name for name, of in own.items() if not of.startswith("ClassVar")))
        cls._values = staticmethod(attrgetter(*cls._fields) if cls._fields else _nothing)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(type(self)._values(self) == type(self)._values(other))

    def __hash__(self) -> int:
        return hash((type(self), type(self)._values(self)))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self._fields)})"


T = TypeVar("T", bound=Record)


class Records(tuple[T, ...]):
    """A tuple of records of one class that prints as a table, a record a line.

    >>> from dataclasses import dataclass
    >>> @dataclass(slots=True, eq=False, repr=False)
    ... class Size(Record):
    ...     rows: int
    ...     columns: tuple[str, ...]
    >>> Records([Size(3, ("a", "b")), Size(1000, ())])
    rows  columns
    3     a, b
    1000
    """

    __slots__ = ()

    def __repr__(self) -> str:
        if not self:
            return "()"
        fields = self[0]._fields
        rows = [fields, *([_cell(getattr(record, name)) for name in fields] for record in self)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(fields))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows)


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(getattr(value, "short", value))
