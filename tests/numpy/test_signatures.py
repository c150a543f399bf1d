"""Functions take the parameters that JAX's take, under the same names; what deviates is in one list."""

from __future__ import annotations

import inspect
from typing import Any

import jax.lax
import jax.numpy
import pytest

import braze.lax
import braze.numpy

ABSENT_EVERYWHERE = {
    "device": "there is one device, the CPU",
    "out_sharding": "arrays are not sharded",
    "sharding": "arrays are not sharded",
    "accuracy": "the accuracy of every operation is stated and fixed",
    "_split_transpose": "private",
}
"""Parameters of JAX that no function of braze takes."""

DEVIATIONS = {
    "numpy.array": {"args"},  # only there to give a message for positional use
    "numpy.pad": {"kwargs", "constant_values"},  # of the modes, `constant` exists
    "lax.cond": {"operand"},  # deprecated
    "lax.switch": {"operand"},  # deprecated
    "lax.dot": {"dimension_numbers"},  # dot_general has them
    "lax.map": {"batch_size"},
    "lax.mul": {"out_dtype"},
}
"""Parameters that one side has and the other does not, by function."""

UFUNCS = {"out", "where", "args"}
"""JAX makes objects of some functions of two arrays; braze has plain functions of x and y."""


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


def functions() -> list[tuple[str, Any, Any]]:
    found = []
    for ours, theirs, module in (
        (braze.numpy, jax.numpy, "numpy"),
        (braze.lax, jax.lax, "lax"),
    ):
        for name in ours.__all__:
            function = getattr(ours, name)
            if callable(function) and not isinstance(function, type):
                found.append((f"{module}.{name}", function, getattr(theirs, name, None)))
    return found


FUNCTIONS = functions()


@pytest.mark.parametrize(("name", "ours", "theirs"), FUNCTIONS, ids=[f[0] for f in FUNCTIONS])
def test_signature(name: str, ours: Any, theirs: Any) -> None:
    assert theirs is not None, f"jax has no {name}"
    have, want = parameters(ours), parameters(theirs)
    if isinstance(theirs, jax.numpy.ufunc):
        assert all(p.kind is p.POSITIONAL_ONLY for p in have.values()) and set(want) >= UFUNCS
        return
    dropped = DEVIATIONS.get(name, set()) | set(ABSENT_EVERYWHERE)
    for_names = [p for p in have if p not in dropped]
    assert [shown(have[p]) for p in for_names] == [shown(want[p]) for p in want if p not in dropped], name


def shown(p: inspect.Parameter) -> str:
    """The name where it can be used, the kind, and whether there is a default."""
    name = "" if p.kind is p.POSITIONAL_ONLY else p.name
    return f"{p.kind.name} {name} {'optional' if p.default is not p.empty or name == '' else ''}"


def test_deviations_are_no_longer_than_needed() -> None:
    for name, dropped in DEVIATIONS.items():
        ours, theirs = next((o, t) for n, o, t in FUNCTIONS if n == name)
        assert dropped <= set(parameters(ours)) ^ set(parameters(theirs)), name


def test_there_are_enough_functions() -> None:
    assert sum(name.startswith("numpy.") for name, _, _ in FUNCTIONS) >= 100


def test_every_function_has_a_docstring() -> None:
    assert [name for name, ours, _ in FUNCTIONS if not (ours.__doc__ or "").strip()] == []
