"""The passes in their order, each with what it must come after and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from braze.hlo.ir import Module
from braze.passes.cse import cse
from braze.passes.dce import dce
from braze.passes.fold import fold
from braze.passes.fusion import fusion
from braze.passes.inline import inline
from braze.passes.layout import layout
from braze.passes.loops import loops
from braze.passes.simplify import simplify
from braze.record import Record


@dataclass(slots=True, eq=False, repr=False)
class Pass(Record):
    """A row of the pipeline.

    Attributes:
        name: the handle in dumps, `BRAZE_SKIP` and `braze opt`.
        run: `Module -> Module`; keyword arguments are its options.
        after: rows that must come before.
        why: the reason of its place.
    """

    name: str
    run: Callable[..., Module]
    why: str
    after: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()


PIPELINE: tuple[Pass, ...] = (
    Pass("inline", inline, "one function to look at"),
    Pass("simplify", simplify, "calls hide operands from rules", after=("inline",)),
    Pass("fold", fold, "simplify moves constants next to each other", after=("simplify",)),
    Pass("cse", cse, "equal forms are equal only once they are canonical", after=("simplify", "fold")),
    Pass("loops", loops, "invariant code is recognised in canonical form", after=("cse",)),
    Pass(
        "simplify.after_loops",
        simplify,
        "slots that became constants enable rules in bodies",
        after=("loops",),
    ),
    Pass(
        "layout",
        layout,
        "rules may remove a transpose before it has to be absorbed",
        after=("simplify.after_loops",),
    ),
    Pass("dce", dce, "all passes above leave unused instructions behind", after=("layout",)),
    Pass("fusion", fusion, "a dead user would keep a value in memory", after=("dce",)),
)


def _check_order() -> None:
    seen: set[str] = set()
    for row in PIPELINE:
        missing = [name for name in row.after if name not in seen]
        assert not missing, f"pass {row.name} stands before {missing}, which it must come after"
        assert row.name not in seen, f"pass {row.name} stands twice; name the second row for its reason"
        seen.add(row.name)


_check_order()

PASSES: dict[str, Pass] = {row.name: row for row in PIPELINE}
