"""The goldens of all passes: tests/passes/<pass>/<what it shows>.mlir."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import golden

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", golden.goldens(HERE), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_golden(path: Path, bless: bool) -> None:
    golden.check_passes(path, bless)


def test_goldens_stay_small() -> None:
    for path in golden.goldens(HERE):
        given = path.read_text().partition(golden.ARROW)[0]
        assert len(given.splitlines()) <= 32, f"{path.name} is more than one idea"


def test_a_golden_that_differs_shows_a_diff_and_the_command(tmp_path: Path) -> None:
    path = tmp_path / "some.txt"
    path.write_text("one\ntwo\n")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)-two\n\+three\n.*pytest .*--bless"):
        golden.compare(path, "one\nthree\n", bless=False)
    golden.compare(path, "one\ntwo\n", bless=False)


def test_ci_does_not_bless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.txt"
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError, match="not blessed in CI"):
        golden.compare(path, "new\n", bless=True)
    assert not path.exists()
    monkeypatch.delenv("CI")
    golden.compare(path, "new\n", bless=True)
    assert path.read_text() == "new\n"
