"""What passes did: rewrites by name, in a budget that can be cut to find a bad one.

Source: optimisation fuel, D. Whalley 1994; GHC and LLVM's opt-bisect have the same.
"""

from __future__ import annotations

from collections import Counter


class Log:
    """Counts rewrites; with `fuel`, no more than so many happen.

    Invariant: a pass asks `exhausted` before each rewrite and says `count` after it. What only makes sense
    together is one rewrite, so the module is right wherever the fuel ends.
    """

    __slots__ = ("counts", "fuel")

    def __init__(self, fuel: int | None = None) -> None:
        self.fuel = fuel
        self.counts: Counter[str] = Counter()

    @property
    def exhausted(self) -> bool:
        return self.fuel is not None and self.fuel <= 0

    def count(self, name: str) -> None:
        self.counts[name] += 1
        if self.fuel is not None:
            self.fuel -= 1
