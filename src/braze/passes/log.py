"""What passes did: rewrites by name, in a budget that can be cut to find a bad one.

Source: optimisation fuel, D. Whalley 1994; GHC and LLVM's opt-bisect have the same.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from braze.errors import Source
from braze.record import Record


@dataclass(slots=True, eq=False, repr=False)
class Decision(Record):
    """One candidate edge.

    Attributes:
        producer, consumer: the operations; `source` tells several of a name apart.
        fused: whether the producer is computed in the consumer's kernel.
        bytes_saved: memory traffic that fusing saves.
        source: the producer's line in the user's program.
        rule, reason: which rule decided, and why.
    """

    producer: str
    consumer: str
    fused: bool
    bytes_saved: int
    source: Source | None
    rule: str
    reason: str


class Log:
    """Counts rewrites; with `fuel`, no more than so many happen.

    Invariant: a pass asks `exhausted` before each rewrite and says `count` after it. What only makes sense
    together is one rewrite, so the module is right wherever the fuel ends.

    Attributes:
        counts: rewrites by name.
        decisions: what fusion decided about every edge it looked at.
    """

    __slots__ = ("counts", "decisions", "fuel")

    def __init__(self, fuel: int | None = None) -> None:
        self.fuel = fuel
        self.counts: Counter[str] = Counter()
        self.decisions: list[Decision] = []

    @property
    def exhausted(self) -> bool:
        return self.fuel is not None and self.fuel <= 0

    def count(self, name: str) -> None:
        self.counts[name] += 1
        if self.fuel is not None:
            self.fuel -= 1
