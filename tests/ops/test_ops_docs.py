"""docs/ops.md is current, and its list of StableHLO's operations is the dialect's."""

from __future__ import annotations

from pathlib import Path

import braze.ops
from braze.ops import docs
from golden import compare

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


def test_page_is_current(bless: bool) -> None:
    assert braze.ops.PRIMITIVES, "the tables are filled"
    compare(PAGE, docs.markdown(), bless)


def test_page_names_every_record_and_every_reason() -> None:
    page = docs.markdown()
    for op in {*braze.ops.PRIMITIVES.values(), *braze.ops.HLO_OPS.values()}:
        assert f"| `{op.title}` |" in page
    assert "None" not in page


def test_stablehlo_list_is_jaxlibs() -> None:
    from jaxlib.mlir.dialects import _stablehlo_ops_gen

    known = {
        item.OPERATION_NAME.removeprefix("stablehlo.")
        for item in vars(_stablehlo_ops_gen).values()
        if getattr(item, "OPERATION_NAME", "").startswith("stablehlo.")
    }
    assert set(docs.STABLEHLO) == known


def test_own_operations_are_few_and_named() -> None:
    own = {name for name in set(braze.ops.HLO_OPS) - set(docs.STABLEHLO) if not name.startswith("chlo.")}
    assert own == {"call", "braze.fusion", "braze.log2", "braze.log10"}


def test_operations_of_chlo_are_jaxlibs() -> None:
    from jaxlib.mlir.dialects import _chlo_ops_gen

    known = {getattr(item, "OPERATION_NAME", "") for item in vars(_chlo_ops_gen).values()}
    assert {name for name in braze.ops.HLO_OPS if name.startswith("chlo.")} <= known
