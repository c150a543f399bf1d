"""Passes on random modules: the same results and effects, the same object when nothing changed, fuel to the unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.random_modules import Generator
from tests.rules.values import arguments, same_bits

from braze.hlo.evaluate import evaluate
from braze.hlo.ir import Module, equal
from braze.hlo.text import print_module
from braze.hlo.verify import verify
from braze.passes import manager
from braze.passes.log import Log
from braze.passes.pipeline import PIPELINE, Pass
from braze.passes.simplify import simplify
from braze.target import NUMPY

SEEDS = range(60)
BEFORE_FUSION = [row for row in PIPELINE if row.name != "fusion"]
PASSES = {row.name: row for row in BEFORE_FUSION if "." not in row.name}


def run_of(module: Module, log: list[Any], seed: int) -> tuple[list[Any], list[Any]]:
    """Results and effects of a module on arguments that depend on the seed."""
    log.clear()
    results = evaluate(module, arguments(module, np.random.default_rng(seed)))
    return results, list(log)


def after(row: Pass, module: Module, log: Log | None = None) -> Module:
    return row.run(module, log=log)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_alone_keeps_results_and_effects_and_mutates_nothing(name: str) -> None:
    changed = 0
    for seed in SEEDS:
        noted: list[Any] = []
        module = Generator(seed, noted).module()
        verify(module)
        text, before = print_module(module), run_of(module, noted, seed)
        counts = Log()
        made = after(PASSES[name], module, counts)
        assert print_module(module) == text
        assert (made is module) == (not counts.counts)
        verify(made)
        results, effects = run_of(made, noted, seed)
        assert same_bits(results, before[0]), f"seed {seed}\n{text}\n{print_module(made)}"
        assert effects == before[1], f"seed {seed}"
        changed += made is not module
    assert changed > 0


def test_the_pipeline_keeps_results_and_effects_at_every_step() -> None:
    for seed in SEEDS:
        noted: list[Any] = []
        module = Generator(seed, noted).module()
        before = run_of(module, noted, seed)
        for row in BEFORE_FUSION:
            module = after(row, module)
            results, effects = run_of(module, noted, seed)
            assert same_bits(results, before[0]), f"seed {seed}, {row.name}"
            assert effects == before[1], f"seed {seed}, {row.name}"


def test_passes_find_nothing_the_second_time() -> None:
    for seed in SEEDS:
        module = Generator(seed, []).module()
        for row in BEFORE_FUSION:
            module = after(row, module)
            if row.run in (simplify, PASSES["inline"].run, PASSES["cse"].run, PASSES["dce"].run):
                again = after(row, module)
                assert again is module, (
                    f"seed {seed}, {row.name}\n{print_module(module)}\n{print_module(again)}"
                )


def test_fuel_ends_after_exactly_so_many_rewrites() -> None:
    for seed in list(SEEDS)[:15]:
        noted: list[Any] = []
        module = Generator(seed, noted).module()
        before = run_of(module, noted, seed)
        total = rewrites(module, None)[1]
        for fuel in sorted({0, 1, 2, 3, *range(5, total, 7), total, total + 5}):
            made, count = rewrites(module, fuel)
            assert count == min(fuel, total), f"seed {seed}, fuel {fuel}"
            assert (made is module) == (fuel == 0 or total == 0)
            results, effects = run_of(made, noted, seed)
            assert same_bits(results, before[0]), f"seed {seed}, fuel {fuel}"
            assert effects == before[1]


def rewrites(module: Module, fuel: int | None) -> tuple[Module, int]:
    steps: list[manager.Step] = []
    made = manager.run(
        module, NUMPY, passes=BEFORE_FUSION, fuel=fuel, skip=(), verify=2, observe=steps.append
    )
    return made, sum(sum(step.counts.values()) for step in steps)


def test_passes_give_the_same_module_every_time() -> None:
    for seed in list(SEEDS)[:10]:
        first, second = (rewrites(Generator(seed, []).module(), None)[0] for _ in range(2))
        assert print_module(first) == print_module(second)


def test_modules_survive_without_a_pass() -> None:
    """Skipping any pass leaves a right program, `inline` too."""
    for seed in list(SEEDS)[:12]:
        noted: list[Any] = []
        module = Generator(seed, noted).module()
        before = run_of(module, noted, seed)
        for name in PASSES:
            made = manager.run(module, NUMPY, passes=BEFORE_FUSION, skip=(name,), verify=2)
            results, effects = run_of(made, noted, seed)
            assert same_bits(results, before[0]), f"seed {seed} without {name}"
            assert effects == before[1]
            assert equal(made, manager.run(module, NUMPY, passes=BEFORE_FUSION, skip=(name,)))
