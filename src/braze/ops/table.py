"""The record of one operation, and the tables of all of them.

An operation is declared once, with every facet; `ops/` is the only place that knows what an op means. A
facet is a function or `Absent("the reason")`, never missing. See `docs/add-an-op.md` for a worked example.

| facet       | signature |
|-------------|-----------|
| `infer`     | `(*types, **attrs) -> type`, a list for ops with several results; raises with the spec's constraint number |
| `numpy`     | `(*arrays, **attrs) -> array`, a list for several results; with regions also `regions`, `apply` |
| `error`     | `EXACT`, `Ulp(f32, f64)`, `Bound(c)` for sums or `Factors(c)` for products |
| `effects`   | `NONE`, `READ`, `ORDERED` or `UNORDERED`; or `attrs -> one of them` |
| `jvp`       | a tuple with one rule per operand, `(t, *primals, **attrs) -> tangent`, summed over the operands that have a tangent (`ZERO`: none flows through this operand); or one function `(*tangents, *primals, **attrs)` with tangents instantiated; or `LINEAR` (the op itself on the tangents), `ZERO` (the derivative is zero almost everywhere) |
| `transpose` | `(ct, *operands, **attrs) -> cotangents`: an operand is `Undefined(type)` where it is linear; None for the others |
| `batch`     | `(size, args, axes, **attrs) -> (values, axes)`; `ELEMENTWISE` for n-ary elementwise ops |
| `partial`   | `DEFAULT`: evaluate if all operands are known, else stage; region ops give their own (see `trace/linearize.py`) |
| `lower`     | `(b, *values, **attrs) -> values`; `DEFAULT`: the HLO op of this record |
| `kernel`    | what the op is to kernels, one of `Structure`: lane code `(b, *lanes, **attrs) -> lane`, a list for several results; `IndexMap`, `Update`, `Axes`, `Regroup`, `Contraction`, `Immediate`, `Family`, `ProgramStep` or `Fused` |
| `cost`      | `(*types, **attrs) -> Cost` (flops, transcendentals, bytes) |
| `samples`   | `() -> iterable of (types, attrs)`: shapes 0, 1, odd, large; every dtype it takes |

Fusion, `kernel/build` and the Program dispatch on the class of `kernel` and on what it says, never on a
name: a new op that is like an old one in structure is known to them at once.

Region facets: a primitive whose attributes hold jaxprs lists their names in `jaxprs`; its `jvp`,
`transpose`, `batch` and `partial` then receive `transform`, the jaxpr-level transformations, as a keyword.
An HLO op with regions receives `regions` (tuple of hlo.ir.Region) in `infer` and `numpy`, and
`apply(region, *arrays) -> list` in `numpy`.

Invariant: `PRIMITIVES` and `HLO_OPS` are filled while `braze.ops` is imported and not changed afterwards.
"""  # noqa: E501  (a table has one line a row)

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from braze.record import Record
from braze.types import TensorType


@dataclass(slots=True, eq=False, repr=False)
class Absent(Record):
    """A facet that an op does not have, with the reason; asking for it is an error that quotes the reason."""

    reason: str


class Rule(Enum):
    """Facets that need no function of their own."""

    DEFAULT = "default"
    LINEAR = "linear"
    ZERO = "zero"
    ELEMENTWISE = "elementwise"


DEFAULT, LINEAR, ZERO, ELEMENTWISE = Rule.DEFAULT, Rule.LINEAR, Rule.ZERO, Rule.ELEMENTWISE


class Effect(Enum):
    """What an op does besides giving results. Ordered effects keep their order among each other."""

    NONE = "none"
    READ = "read"
    ORDERED = "ordered"
    UNORDERED = "unordered"


@dataclass(slots=True, eq=False, repr=False)
class Exact(Record):
    """Bit for bit; any NaN equals any NaN."""


@dataclass(slots=True, eq=False, repr=False)
class Ulp(Record):
    """Worst error in units in the last place of the result, by dtype; smaller results count as `least`."""

    f32: float
    f64: float
    least: float = 0.0


@dataclass(slots=True, eq=False, repr=False)
class Bound(Record):
    """At most c · log2(n) · eps · Σ|x| over the n terms of a sum."""

    c: float


@dataclass(slots=True, eq=False, repr=False)
class Factors(Record):
    """At most c · n · eps · |Π x| over the n factors of a product."""

    c: float


EXACT = Exact()
Error = Exact | Ulp | Bound | Factors


@dataclass(slots=True, eq=False, repr=False)
class IndexMap(Record):
    """An op that says at which index of its operands an element comes from.

    `code(b, index, *operands, **attrs)` gives the lane value at `index`, a tuple with one index value per
    result axis; `operand.at(index)` reads an operand (in a fusion: computes it) and `operand.type` is its
    type. It may select between operands by comparing indices. An op with regions receives them as
    `regions`; `b.inline(region, lanes)` is the lane code of one.

    Attributes:
        along: `(**attrs) -> axes`: the result axes whose index the code looks at; None for all of them.
        chooses: whether it takes each element from one of several operands, so that in a fusion all of them
            are computed at every element.
    """

    code: Callable[..., Any]
    along: Callable[..., tuple[int, ...]] | None = None
    chooses: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Update(IndexMap):
    """An op that writes its operand 1 into a part of its operand 0; the rest of the result is that operand.

    The result takes over the memory of operand 0, and only the part is written. `code` gives the whole
    result, for where there is no such memory.

    Attributes:
        place: `(b, index, *operands, **attrs) -> index` in the result of the element of operand 1 at `index`.
        reader: the op that reads the same part: as operands it takes the whole and what follows operand 1 here.
    """

    place: Callable[..., Sequence[Any]] = field(kw_only=True)
    reader: Op = field(kw_only=True)


@dataclass(slots=True, eq=False, repr=False)
class Axes(Record):
    """An op that repeats or exchanges axes of its one operand.

    `moved(x, **attrs)` gives, for each axis of the operand's type, the axis of the result that runs with it.
    An operand axis of size 1 may belong to a longer one: it is repeated.
    """

    moved: Callable[..., Sequence[int]]


@dataclass(slots=True, eq=False, repr=False)
class Regroup(Record):
    """The elements of the one operand, in row-major order, under another shape: no code where axes line up."""


@dataclass(slots=True, eq=False, repr=False)
class Contraction(Record):
    """An op that combines all elements along some axes: by its region, or as a sum of products of two operands.

    `roles(*types, **attrs)` gives, for each operand that is reduced, for each axis of it, `("r", axis of the
    result)` or `("k", number of the reduced axis)`. With a region, the operands are followed by as many
    initial values, which `types` has too.
    """

    roles: Callable[..., Sequence[Sequence[tuple[str, int]]]]


@dataclass(slots=True, eq=False, repr=False)
class Immediate(Record):
    """A constant: kernels have its number as an immediate, the Program keeps its array."""


@dataclass(slots=True, eq=False, repr=False)
class Family(Record):
    """A kernel of its own, never part of a fusion; `kernel/build` has the builder in its table `FAMILIES`.

    Attributes:
        overwrites: pairs of a result and the operand whose memory it takes over, or a function that gives them
            for a number of results. The caller of the kernel copies the operand where others still need it;
            the kernel has one `inout` parameter for both.
    """

    name: str
    overwrites: tuple[tuple[int, int], ...] | Callable[[int], tuple[tuple[int, int], ...]] = ()


@dataclass(slots=True, eq=False, repr=False)
class ProgramStep(Record):
    """A step of the Program, of that name in `program/schedule`: control flow, a call, Python.

    Attributes:
        captures: whether its regions see the values around it.
    """

    name: str
    captures: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Fused(Record):
    """One kernel made of the op's region, which sees nothing from around it."""


Lane = Callable[..., Any]
Structure = Lane | IndexMap | Axes | Regroup | Contraction | Immediate | Family | ProgramStep | Fused | Absent


@dataclass(slots=True, eq=False, repr=False)
class Cost(Record):
    """Work of one application: flops, calls of transcendental functions, bytes read and written."""

    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Undefined(Record):
    """Stands in a transpose rule for the operand whose cotangent is wanted."""

    type: TensorType


Sample = tuple[tuple[TensorType, ...], dict[str, Any]]


@dataclass(slots=True, eq=False)
class Op:
    """One operation of braze. See the module's table for the facets.

    Attributes:
        name: its name in jaxprs, or None for an HLO op that is no primitive.
        hlo: its StableHLO mnemonic, or None for a primitive that lowers to other ops.
        commutative: whether operands may be exchanged; rewrite patterns then match both orders.
        multiple_results: whether it gives a list of results.
        keeps_weak_type: whether all-weak operands give a weak result.
        keeps_bytes: whether a result of as many bytes is the operand's memory under another type.
        at_once: whether its `numpy` facet is about one call of NumPy, so that outside of programs an EXACT op runs by it.
        jaxprs: names of the attributes that hold closed jaxprs.
        attrs: names of its attributes, in the order in which they print.
        jax_attrs: `attrs -> dict`: the attributes under JAX's names and in JAX's order, for the jaxpr text.
    """

    name: str | None
    hlo: str | None
    infer: Callable[..., Any]
    numpy: Callable[..., Any] | Absent
    error: Error
    jvp: Any
    transpose: Any
    batch: Any
    kernel: Structure
    cost: Callable[..., Cost]
    samples: Callable[[], Iterable[Sample]]
    effects: Effect | Callable[[Mapping[str, Any]], Effect] = Effect.NONE
    partial: Any = DEFAULT
    lower: Any = DEFAULT
    commutative: bool = False
    multiple_results: bool = False
    keeps_weak_type: bool = True
    keeps_bytes: bool = False
    at_once: bool = True
    jaxprs: tuple[str, ...] = ()
    attrs: tuple[str, ...] = ()
    jax_attrs: Callable[[Mapping[str, Any]], dict[str, Any]] = field(default=dict)

    def __post_init__(self) -> None:
        assert not (
            self.multiple_results and isinstance(self.kernel, IndexMap | Axes | Regroup | Immediate)
        ), f"{self.title}: an op of structure {type(self.kernel).__name__} has one result"
        if self.name is not None:
            assert self.name not in PRIMITIVES, f"primitive {self.name} is declared twice"
            PRIMITIVES[self.name] = self
        if self.hlo is not None and self.lower is DEFAULT:
            assert self.hlo not in HLO_OPS, f"HLO op {self.hlo} is declared twice"
            HLO_OPS[self.hlo] = self

    @property
    def title(self) -> str:
        """The name in messages: the primitive's, else the HLO op's."""
        return self.name or self.hlo or "?"

    def effect(self, attrs: Mapping[str, Any]) -> Effect:
        """What one application does besides giving results; regions and jaxprs in it not counted."""
        return self.effects if isinstance(self.effects, Effect) else self.effects(attrs)

    @property
    def lane_code(self) -> Lane:
        """The kernel facet of an op that is computed lane by lane."""
        assert callable(self.kernel), f"{self.title} has no lane code: it is {self.kernel}"
        return self.kernel

    @property
    def broadcasts(self) -> bool:
        """Whether the primitive takes scalars and axes of size 1 beside full operands (`core.infer`)."""
        return self.batch is ELEMENTWISE

    def __repr__(self) -> str:
        return self.title

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Bind it: the op as a function of values (or of patterns, in a rewrite rule)."""
        from braze.core import bind

        return bind(self, *args, **attrs)


PRIMITIVES: dict[str, Op] = {}
"""All jaxpr primitives by name."""

HLO_OPS: dict[str, Op] = {}
"""All HLO ops by StableHLO mnemonic (braze's own as `braze.fusion`)."""
