"""Patterns and rules: what `simplify`'s table is written in, and how a pattern is matched.

A pattern is made by calling operations on pattern variables, so a rule reads like the code it rewrites:

    Rule("neg_neg", neg(neg(x)), x)

| in a pattern              | matches |
|---------------------------|---------|
| a variable (`variables`)  | any value; the same value wherever it is repeated |
| a constant (`constants`)  | a splat: a constant of equal elements, or a broadcast of one |
| a number                  | a splat of exactly this number, the sign of zero included |
| an attribute variable     | any attribute value; the same wherever it is repeated |
| `ANY`                     | any attribute value |
| `rest*`, the last operand | all operands that follow |

Commutative ops match both orders, at every level of a pattern: a rule is expanded into its `orders` once, so
that matching one of them needs no search.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from braze import core, dtypes
from braze.core import Tracer
from braze.hlo.ir import Instruction, Value
from braze.ops.table import HLO_OPS, Immediate, Op
from braze.record import Record

SPLAT_SOURCES = frozenset(HLO_OPS[name] for name in ("constant", "broadcast_in_dim", "reshape"))
"""Ops whose results may be splats."""

LARGEST_SPLAT = 4096
"""Elements of a constant that are still compared to find that they are equal."""


class Numerics(Enum):
    """What a rule does to results. All but EXACT fire only under `fast_math`."""

    EXACT = "exact"
    REASSOCIATES = "reassociates"


class Wildcard:
    """Matches any attribute value; `_` in tables of rules."""


ANY = Wildcard()


@dataclass(slots=True, eq=False, repr=False)
class Attribute(Record):
    """An attribute variable of a pattern."""

    name: str


class _PatternTrace(core.Trace):
    """Turns operations on patterns into patterns."""

    def process(self, op: Op, args: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
        return [Pattern(op=op, operands=tuple(args), attrs=attrs)]


class Pattern(Tracer):
    """A variable (`name`), or an op applied to patterns and numbers.

    Attributes:
        name: of a variable; an op's is its text, the same in every order of its operands.
        constant: whether the variable matches splats only.
    """

    __slots__ = ("attrs", "constant", "name", "op", "operands")

    def __init__(
        self,
        name: str = "",
        *,
        constant: bool = False,
        op: Op | None = None,
        operands: tuple[Any, ...] = (),
        attrs: dict[str, Any] | None = None,
    ) -> None:
        self._trace = _PATTERNS
        self.constant = constant
        self.op = op
        self.operands = operands
        self.attrs = attrs or {}
        self.name = name or repr(self)

    def __repr__(self) -> str:
        if self.op is None:
            return self.name
        inner = [repr(o) for o in self.operands]
        inner += [f"{k}={'_' if v is ANY else getattr(v, 'name', v)}" for k, v in self.attrs.items()]
        return f"{self.op.hlo}({', '.join(inner)})"

    @property
    def rest(self) -> str | None:
        """The name that the operands after the others are bound to, for `rest*`."""
        last = self.operands[-1] if self.operands else None
        return last.name[:-1] if isinstance(last, Pattern) and last.name.endswith("*") else None


_PATTERNS = _PatternTrace()
# Patterns are made while rule tables are imported, in whatever thread; they belong to no nesting of traces.
_PATTERNS.alive = True
_PATTERNS.level = 0
_PATTERNS.thread = threading.get_ident()


def variables(names: str) -> list[Pattern]:
    """Pattern variables."""
    return [Pattern(name) for name in names.split()]


def constants(names: str) -> list[Pattern]:
    """Pattern variables that match splats only."""
    return [Pattern(name, constant=True) for name in names.split()]


def attributes(names: str) -> list[Attribute]:
    """Attribute variables."""
    return [Attribute(name) for name in names.split()]


@dataclass(slots=True, eq=False, repr=False)
class Rule(Record):
    """A named equation: the left side is replaced by the right.

    Attributes:
        left: a pattern whose root is an op.
        right: a pattern; a number, as a splat of the left side's type; or a function of the bound variables
            (by name) that builds the replacement by calling operations.
        when: a condition on bound variables, by name.
        why: the reason of the condition, or of an equation that surprises.
    """

    name: str
    left: Pattern
    right: Pattern | Callable[..., Any] | int
    when: Callable[..., bool] | None = None
    why: str = ""
    numerics: Numerics = Numerics.EXACT


# Matching ---------------------------------------------------------------------------------------------

Bindings: TypeAlias = "dict[str, Any]"


def orders(pattern: Any) -> list[Any]:
    """The pattern with the operands of commutative ops in every order, without repeats."""
    if not isinstance(pattern, Pattern) or pattern.op is None:
        return [pattern]
    found: dict[str, Pattern] = {}
    for operands in itertools.product(*map(orders, pattern.operands)):
        both = (operands, operands[::-1]) if pattern.op.commutative else (operands,)
        for order in both:
            made = Pattern(pattern.name, op=pattern.op, operands=order, attrs=pattern.attrs)
            found.setdefault(repr(made), made)
    return list(found.values())


class Splats:
    """The one number that all elements of a value are, where that is known; each value is asked once."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Value, np.generic | None] = {}

    def __call__(self, value: Value) -> np.generic | None:
        if value.producer is None or value.producer.op not in SPLAT_SOURCES:
            return None
        if value not in self._known:
            self._known[value] = splat(value)
        return self._known[value]


def splat(value: Value) -> np.generic | None:
    """The one number that all elements of a value are, where that is known."""
    producer = value.producer
    while producer is not None and producer.op in SPLAT_SOURCES and producer.operands:
        producer = producer.operands[0].producer
    if producer is None or not isinstance(producer.op.kernel, Immediate):
        return None
    array: np.ndarray[Any, Any] = producer.attrs["value"]
    if not 0 < array.size <= LARGEST_SPLAT:
        return None
    flat = array.reshape(-1)
    first: np.generic = flat[0]
    if array.size == 1:
        return first
    bits = np.ascontiguousarray(flat).view(f"V{array.itemsize}")
    return first if bool((bits == bits[0]).all()) else None


def matches(pattern: Pattern, instruction: Instruction, bindings: Bindings, splats: Splats) -> bool:
    """Whether the instruction is of the pattern's form.

    Fills `bindings` (also in part, when it is not): variables, attribute variables, and what stands for the
    ops below the root, so that a right side that repeats one of them needs no new instruction.
    """
    if instruction.op is not pattern.op:
        return False
    wanted, given = pattern.operands, instruction.operands
    if pattern.rest is not None:
        wanted = wanted[:-1]
        bindings[pattern.rest] = given[len(wanted) :]
        given = given[: len(wanted)]
    if len(wanted) != len(given):
        return False
    for name, attribute in pattern.attrs.items():
        if attribute is not ANY and not _attribute_matches(attribute, instruction.attrs.get(name), bindings):
            return False
    return all(_matches_value(o, v, bindings, splats) for o, v in zip(wanted, given))


def _attribute_matches(wanted: Any, value: Any, bindings: Bindings) -> bool:
    if not isinstance(wanted, Attribute):
        return bool(wanted == value)
    return bool(bindings.setdefault(wanted.name, value) == value)


def _matches_value(pattern: Any, value: Value, bindings: Bindings, splats: Splats) -> bool:
    if not isinstance(pattern, Pattern):
        return is_number(pattern, splats(value))
    if pattern.op is None:
        if pattern.constant and splats(value) is None:
            return False
        return bindings.setdefault(pattern.name, value) is value
    if value.producer is None or not matches(pattern, value.producer, bindings, splats):
        return False
    bindings[pattern.name] = value
    return True


def is_number(wanted: float, found: np.generic | None) -> bool:
    """Whether a splat is a pattern's number.

    Zeros have a sign: 0 is +0.0 and not -0.0. In bools 0 and 1 are False and True, and there is no other
    number; a Python float is a number of float dtypes only, no number wraps around, and a complex zero has two
    signs, so no number is complex.

    >>> is_number(0, np.float32(-0.0)), is_number(-1, np.uint8(255)), is_number(1, np.bool_(True))
    (False, False, True)
    """
    if found is None or found.dtype in dtypes.COMPLEX:
        return False
    if found.dtype in dtypes.FLOATS:
        return bool(found == wanted) and bool(np.signbit(found) == np.signbit(wanted))
    return not isinstance(wanted, float) and bool(found == wanted)


# The index --------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class Form(Record):
    """One order of a rule's left side."""

    rule: Rule
    left: Pattern

    def fits(self, producers: Sequence[Op | None]) -> bool:
        """Whether operands made by these ops can match, as far as ops alone tell."""
        wanted = self.left.operands if self.left.rest is None else self.left.operands[:-1]
        if len(wanted) > len(producers):
            return False
        return all(map(_may_come_from, wanted, producers))


def _may_come_from(pattern: Any, producer: Op | None) -> bool:
    if not isinstance(pattern, Pattern) or pattern.constant:
        return producer in SPLAT_SOURCES
    return pattern.op is None or pattern.op is producer


class Index:
    """Rules by the op at their root and the ops that make its operands, in the order of the table."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._by_root: dict[Op, list[Form]] = {}
        self._by_operands: dict[tuple[Op | None, ...], tuple[Form, ...]] = {}
        for rule in rules:
            assert rule.left.op is not None, f"{rule.name}: the left side is an op"
            forms = [Form(rule, left) for left in orders(rule.left)]
            self._by_root.setdefault(rule.left.op, []).extend(forms)

    def forms(self, instruction: Instruction) -> tuple[Form, ...]:
        """The forms that an instruction may have; few are left."""
        producers = [v.producer.op if v.producer is not None else None for v in instruction.operands]
        key = (instruction.op, *producers)
        found = self._by_operands.get(key)
        if found is None:
            of_root = self._by_root.get(instruction.op, ())
            found = self._by_operands[key] = tuple(form for form in of_root if form.fits(producers))
        return found


def wanted_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a condition's or right side's parameters."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def attrs_of(pattern: Pattern, bindings: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a pattern with its variables filled in."""
    return {k: bindings[v.name] if isinstance(v, Attribute) else v for k, v in pattern.attrs.items()}
