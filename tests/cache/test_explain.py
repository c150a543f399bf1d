"""explain: what changed since the nearest entry."""

from __future__ import annotations

from braze.cache.explain import explain_miss

PRESENT = [
    (("argument 0", "f32[3]"), ("argument 1", "f32[4]"), ("static n", "3")),
    (("argument 0", "f32[3]"), ("argument 1", "i32[4]"), ("static n", "7")),
]


def test_the_nearest_entry_is_compared() -> None:
    asked = (("argument 0", "f32[3]"), ("argument 1", "f32[4]"), ("static n", "4"))
    assert explain_miss(asked, PRESENT) == "static n was 3 and is 4"


def test_parts_that_come_and_go_are_named() -> None:
    asked = (("argument 0", "f32[3]"), ("argument 1", "f32[4]"), ("static m", "4"))
    assert explain_miss(asked, PRESENT) == "static m is new: 4; static n is gone: it was 3"


def test_an_entry_that_was_dropped_is_said_to_be() -> None:
    assert "has been dropped" in explain_miss(PRESENT[0], PRESENT)


def test_long_values_are_cut() -> None:
    asked = (("text", "a" * 64),)
    assert explain_miss(asked, [(("text", "b" * 64),)]) == f"text was {'b' * 37}... and is {'a' * 37}..."
