"""Keys: equal for equal code, different for everything that changes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from braze.cache.key import make_key
from braze.target import Target

TARGET = Target(
    "cpu", triple="x86_64-unknown-linux-gnu", cpu="skylake", features="+avx2,+fma", llvm="llvmlite 0.50.0"
)
OTHER = {
    "triple": "aarch64-unknown-linux-gnu", "cpu": "znver4", "features": "+avx2", "llvm": "llvmlite 0.51.0",
}  # fmt: skip


def test_equal_questions_have_equal_keys() -> None:
    assert make_key("text", TARGET) == make_key("text", replace(TARGET))


def test_the_text_is_in_the_key() -> None:
    assert make_key("a", TARGET).digest != make_key("b", TARGET).digest


@pytest.mark.parametrize("name", OTHER)
def test_what_llvm_is_told_is_in_the_key(name: str) -> None:
    changed = replace(TARGET, **{name: OTHER[name]})
    assert make_key("text", TARGET).digest != make_key("text", changed).digest


def test_what_the_text_already_shows_is_not_in_the_key() -> None:
    changed = replace(
        TARGET, vector_bytes=64, masked_memory=True, has_fma=True, l1_bytes=1, l2_bytes=2, cores=3
    )
    assert make_key("text", TARGET) == make_key("text", changed)
