"""Keys: equal for equal code, different for everything that changes it."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from braze import knobs
from braze.cache import key
from braze.cache.key import make_key
from braze.target import Target

TARGET = Target("cpu", triple="x86_64-unknown-linux-gnu", cpu="skylake", features="+avx2,+fma")
OTHER = {
    "name": "numpy", "triple": "aarch64-unknown-linux-gnu", "cpu": "znver4", "features": "+avx2", "vector_bytes": 64,
    "masked_memory": True, "has_fma": True, "l1_bytes": 1, "l2_bytes": 2, "cores": 3,
}  # fmt: skip


def test_equal_questions_have_equal_keys() -> None:
    assert make_key("program", "text", TARGET) == make_key("program", "text", replace(TARGET))


def test_text_and_kind_are_in_the_key() -> None:
    digests = {make_key(kind, text, TARGET).digest for kind in ("object", "program") for text in ("a", "b")}
    assert len(digests) == 4


@pytest.mark.parametrize("name", [field.name for field in fields(Target)])
def test_every_field_of_the_target_is_in_the_key_of_a_program(name: str) -> None:
    changed = replace(TARGET, **{name: OTHER[name]})
    assert make_key("program", "text", TARGET).digest != make_key("program", "text", changed).digest


@pytest.mark.parametrize("name", [name for name, knob in knobs.KNOBS.items() if knob.keyed])
def test_keyed_knobs_are_in_the_key_of_a_program_only(name: str) -> None:
    settings = {"skip": ("cse",), "fuel": 3, "target": "numpy", "fast_math": True, "x64": True}
    with knobs.config(**{name: settings[name]}):
        program, image = (make_key(kind, "text", TARGET) for kind in ("program", "object"))
    assert program.digest != make_key("program", "text", TARGET).digest
    assert image == make_key("object", "text", TARGET)


def test_other_knobs_are_not_in_the_key() -> None:
    with knobs.config(verify=0, debug=0, threads=1):
        assert make_key("program", "text", TARGET) == make_key("program", "text", replace(TARGET))


def test_versions_are_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = make_key("program", "text", TARGET).digest
    monkeypatch.setattr(key, "fingerprint", lambda: "another braze")
    changed = make_key("program", "text", TARGET).digest
    monkeypatch.setattr(key, "llvmlite_version", lambda: "another LLVM")
    assert len({before, changed, make_key("program", "text", TARGET).digest}) == 3


def test_a_changed_source_file_changes_the_fingerprint(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("braze")
    (root / "cache").mkdir()
    (root / "ops.py").write_text("x = 1")
    monkeypatch.setattr(key, "__file__", str(root / "cache" / "key.py"))
    before = key.fingerprint.__wrapped__()
    (root / "ops.py").write_text("x = 10")
    assert key.fingerprint.__wrapped__() != before
