"""The text of jaxprs, as JAX 0.10 prints it, laid out by a small Wadler printer.

A jaxpr that occurs more than once, or is long, is printed once in front (`let g = { lambda ... } in`).
Variables are named by position, a jit's inner variables like the values outside. Never raises on broken IR:
a variable without a definition simply gets the next name.

Source: JAX's `core.pp_jaxpr`; Wadler 1998, "A prettier printer"; Lindig 2000, "Strictly pretty".
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from braze.trace.jaxpr import Atom, ClosedJaxpr, Equation, Jaxpr, Literal, Var, regions

WIDTH = 80
SHARED_FROM = 10
"""Inner jaxprs with more equations than this are printed in front."""


@dataclass(slots=True)
class _Break:
    text: str = " "


@dataclass(slots=True)
class _Group:
    doc: _Doc


@dataclass(slots=True)
class _Nest:
    doc: _Doc
    depth: int = 2


@dataclass(slots=True)
class _Comment:
    """Text at the end of the line; takes no room."""

    text: str


_Doc = Union[str, _Break, _Group, _Nest, _Comment, "list[_Doc]"]


def _fits(doc: _Doc, room: int) -> bool:
    """Whether the document fits the room without a line break."""
    pending = [doc]
    while pending and room >= 0:
        part = pending.pop()
        if isinstance(part, str):
            room -= len(part)
        elif isinstance(part, list):
            pending.extend(reversed(part))
        elif isinstance(part, _Break):
            room -= len(part.text)
        elif isinstance(part, _Comment):
            return False
        else:
            pending.append(part.doc)
    return room >= 0


def _layout(doc: _Doc) -> str:
    lines: list[str] = []
    line: list[str] = []
    comment = ""
    column = 0
    pending: list[tuple[int, bool, _Doc]] = [(0, False, doc)]
    while pending:
        indent, flat, part = pending.pop()
        if isinstance(part, str):
            line.append(part)
            column += len(part)
        elif isinstance(part, list):
            pending.extend((indent, flat, child) for child in reversed(part))
        elif isinstance(part, _Break):
            if flat:
                line.append(part.text)
                column += len(part.text)
            else:
                lines.append("".join(line) + comment)
                line, comment, column = [" " * indent], "", indent
        elif isinstance(part, _Group):
            pending.append((indent, _fits(part.doc, WIDTH - column), part.doc))
        elif isinstance(part, _Nest):
            pending.append((indent + part.depth, flat, part.doc))
        else:
            comment += part.text
    lines.append("".join(line) + comment)
    return "\n".join(lines)


def _join(separator: Sequence[_Doc], docs: Iterable[_Doc]) -> list[_Doc]:
    joined: list[_Doc] = []
    for doc in docs:
        if joined:
            joined.extend(separator)
        joined.append(doc)
    return joined


def _names() -> Iterator[str]:
    """a, b, …, z, ba, bb, …: numbers to the base 26."""
    for n in itertools.count():
        name = ""
        while not name or n:
            n, digit = divmod(n, 26)
            name = chr(97 + digit) + name
        yield name


class _Printer:
    def __init__(self, top: Jaxpr, source: bool) -> None:
        self.source = source
        self.names: dict[Atom, str] = dict.fromkeys(_unused(top), "_")
        self.shared = _shared(top)
        taken = set(self.shared.values())
        self.fresh = (name for name in _names() if name not in taken)

    def document(self, top: Jaxpr) -> _Doc:
        docs: list[_Doc] = []
        for jaxpr, name in self.shared.items():
            docs += [f"let {name} = ", self.skeleton(jaxpr), " in", _Break()]
        return [*docs, self.jaxpr(top)]

    def name(self, v: Atom) -> str:
        if isinstance(v, Literal):
            return f"{_scalar(v.value)}:{v.type}"
        found = self.names.get(v)
        if found is None:
            found = self.names[v] = next(self.fresh)
        return found

    def atoms(self, atoms: Sequence[Atom], *, separator: str = "", types: bool = False) -> _Doc:
        shown: list[_Doc] = [f"{self.name(v)}:{v.type}" if types else self.name(v) for v in atoms]
        return _Nest(_Group(_join([separator, _Group(_Break())], shown)))

    def jaxpr(self, jaxpr: Jaxpr) -> _Doc:
        return self.shared.get(jaxpr) or self.skeleton(jaxpr)

    def skeleton(self, jaxpr: Jaxpr) -> _Doc:
        head: list[_Doc] = ["{ lambda ", self.atoms(jaxpr.constvars, types=True), "; "]
        head += [self.atoms(jaxpr.invars, types=True), ". let"]
        eqns = _join([_Break("; ")], [self.equation(eqn) for eqn in jaxpr.eqns])
        results = self.atoms(jaxpr.outvars, separator=",")
        tail: list[_Doc] = ["in (", results, ")" if len(jaxpr.outvars) != 1 else ",)"]
        return _Group([_Nest([*head, _Nest([_Break(), eqns]), _Break(), *tail]), " }"])

    def equation(self, eqn: Equation) -> _Doc:
        if eqn.op.name == "jit":
            self.name_inner(eqn)
        doc: list[_Doc] = []
        if eqn.outputs:
            doc += [self.atoms(eqn.outputs, types=True), " = "]
        doc += [eqn.op.title, self.attrs(eqn), " ", self.atoms(eqn.inputs)]
        if self.source and eqn.source is not None:
            doc.append(_Comment(f"  # {eqn.source.short}"))
        return doc

    def name_inner(self, eqn: Equation) -> None:
        """Name the inputs and results of a jit's jaxpr like the values outside."""
        for inner in regions(eqn.op, eqn.attrs):
            if inner.jaxpr in self.shared:
                continue
            for mine, others in ((inner.jaxpr.invars, eqn.inputs), (inner.jaxpr.outvars, eqn.outputs)):
                used: set[Atom] = set()
                for v, like in zip(mine, others):
                    if (
                        isinstance(v, Var)
                        and isinstance(like, Var)
                        and like not in used
                        and v not in self.names
                    ):
                        used.add(like)
                        self.names[v] = self.name(like)

    def attrs(self, eqn: Equation) -> _Doc:
        attrs = _jax_attrs(eqn)
        order = sorted(attrs, key=lambda key: (not (eqn.op.name == "jit" and key == "name"), key))
        if not order:
            return ""
        pairs = _join([_Break()], [[f"{key}=", self.value(attrs[key])] for key in order])
        return _Group([_Nest(["[", _Break(""), pairs]), _Break(""), "]"])

    def value(self, value: Any) -> _Doc:
        if isinstance(value, ClosedJaxpr):
            return self.jaxpr(value.jaxpr)
        if isinstance(value, tuple) and value and all(isinstance(v, ClosedJaxpr) for v in value):
            inner = _join([_Break()], [self.jaxpr(v.jaxpr) for v in value])
            return _Group([_Nest(["(", _Break(""), inner]), _Break(""), ")"])
        return re.sub(r" at 0x[0-9a-fA-F]+", " at 0xX", str(value))


def _jax_attrs(eqn: Equation) -> Mapping[str, Any]:
    try:
        return eqn.op.jax_attrs(eqn.attrs)
    except Exception:  # a printer shows broken IR as it is
        return eqn.attrs


def _scalar(value: Any) -> str:
    return str(np.asarray(value).item()) if np.ndim(value) == 0 else "[...]"


def _unused(jaxpr: Jaxpr) -> set[Var]:
    used = {v for v in jaxpr.outvars if isinstance(v, Var)}
    unused: set[Var] = set()
    for eqn in reversed(jaxpr.eqns):
        unused.update(v for v in eqn.outputs if v not in used)
        used.update(v for v in eqn.inputs if isinstance(v, Var))
    return unused


def _shared(top: Jaxpr) -> dict[Jaxpr, str]:
    """The inner jaxprs that are printed in front, with their names, in order of first use."""
    names: dict[Jaxpr, str] = {}
    counts: Counter[Jaxpr] = Counter()
    queue = [top]
    for jaxpr in queue:
        counts[jaxpr] += 1 if jaxpr is top or len(jaxpr.eqns) <= SHARED_FROM else 2
        for eqn in jaxpr.eqns:
            for inner in regions(eqn.op, eqn.attrs):
                queue.append(inner.jaxpr)
                if "name" in eqn.attrs:
                    names.setdefault(inner.jaxpr, str(eqn.attrs["name"]).strip("<>"))
    shared: dict[Jaxpr, str] = {}
    taken: Counter[str] = Counter()
    for jaxpr, count in counts.items():
        if count > 1:
            name = names.get(jaxpr, "jaxpr")
            number = taken[name]
            taken[name] += 1
            shared[jaxpr] = f"{name}{number}" if number else name
            taken[shared[jaxpr]] += 1 if number else 0
    return shared


def text(jaxpr: Jaxpr | ClosedJaxpr, *, source: bool = False) -> str:
    """Print a jaxpr.

    Args:
        source: whether to add the user's file and line to each equation.
    """
    top = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    return _layout(_Printer(top, source).document(top))
