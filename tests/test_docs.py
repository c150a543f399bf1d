"""Generated pages are current; `pytest tests/test_docs.py --bless` writes them anew. (docs/ops.md: tests/ops.)"""

from __future__ import annotations

import re
from pathlib import Path

from tests.golden import compare

from braze.inspect import journey, knobs
from braze.knobs import KNOBS

ROOT = Path(__file__).parents[1]


def test_knobs_page(bless: bool) -> None:
    compare(ROOT / "docs" / "knobs.md", knobs.markdown(), bless)


def test_journey_page(bless: bool) -> None:
    compare(ROOT / "docs" / "journey.md", journey.page(), bless)


def test_there_are_at_most_twenty_knobs() -> None:
    assert 0 < len(KNOBS) <= 20


def test_links_and_paths_in_the_pages_exist() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    missing = []
    for page in pages:
        for path in re.findall(
            r"`((?:docs|src|tests|examples|tools|benchmarks)/[\w./-]+\.\w+)`", page.read_text()
        ):
            if not (ROOT / path).exists():
                missing.append(f"{page.name}: {path}")
    assert missing == []
