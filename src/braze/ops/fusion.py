"""braze.fusion: instructions that become one kernel. The fusion pass makes it; `kernel/build` reads it.

Its one region is closed: parameters stand for the operands. `kind` says which rule led to it (`loop`,
`reduce`, `row`, `dot`, `update`), `name` becomes the kernel's. `aliases` pairs a result with the operand
whose memory it takes over: such a result is a dynamic_update_slice of the operand, and the kernel writes
the window only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from braze.ops.table import EXACT, Absent, Cost, Fused, Op, Sample
from braze.types import TensorType

_HLO_ONLY = Absent("HLO only; fusion follows all transformations")


def _fusion_infer(*types: TensorType, regions: Sequence[Any], **attrs: Any) -> list[TensorType]:
    return list(regions[0].result_types)


def _fusion_numpy(
    *arrays: np.ndarray[Any, Any],
    regions: Sequence[Any],
    apply: Callable[..., list[np.ndarray[Any, Any]]],
    **attrs: Any,
) -> list[np.ndarray[Any, Any]]:
    return apply(regions[0], *arrays)


def _fusion_cost(*types: TensorType, regions: Sequence[Any], **attrs: Any) -> Cost:
    """The work of everything inside, and the traffic of operands and results alone."""
    flops = transcendentals = 0
    for instruction in regions[0].instructions:
        inner = {"regions": instruction.regions} if instruction.regions else {}
        cost = instruction.op.cost(*[v.type for v in instruction.operands], **inner, **instruction.attrs)
        flops += cost.flops
        transcendentals += cost.transcendentals
    moved = sum(t.nbytes for t in types) + sum(t.nbytes for t in regions[0].result_types)
    return Cost(flops, transcendentals, moved)


def _fusion_samples() -> Iterator[Sample]:
    """None: a fusion is made by the pass from samples of what it holds."""
    return iter(())


fusion_hlo = Op(
    None,
    hlo="braze.fusion",
    infer=_fusion_infer,
    numpy=_fusion_numpy,
    error=EXACT,
    jvp=_HLO_ONLY,
    transpose=_HLO_ONLY,
    batch=_HLO_ONLY,
    kernel=Fused(),
    cost=_fusion_cost,
    samples=_fusion_samples,
    multiple_results=True,
    attrs=("kind", "name", "aliases"),
)
