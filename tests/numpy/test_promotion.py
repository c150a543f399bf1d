"""The dtype at which operands meet, beside JAX's: every pair of arrays, weak arrays, Python and NumPy scalars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import dtypes, knobs

PYTHON = (True, 3, 2.5, 1j)
WEAK = (3, 2.5, 1j)


@pytest.fixture(autouse=True)
def named_types_are_kept() -> Iterator[None]:
    """JAX keeps 64-bit types that are named, as braze does."""
    before = jax.config.jax_explicit_x64_dtypes
    jax.config.update("jax_explicit_x64_dtypes", "allow")
    yield
    jax.config.update("jax_explicit_x64_dtypes", before)


def _array(m: Any, dtype: Any) -> Any:
    return m.ones((2,), dtype=dtype)


def _numpy_scalar(m: Any, dtype: Any) -> Any:
    """JAX takes the dtype of a NumPy scalar for a wish; braze keeps it, as that of a NumPy array."""
    return m.ones((), dtype=dtype) if m is jnp else np.ones((), dtype)[()]


def _operands(m: Any) -> dict[str, Any]:
    made = {f"{d}[2]": _array(m, d) for d in dtypes.ALL}
    made |= {f"weak {type(s).__name__}": m.asarray(s) for s in WEAK}
    made |= {f"Python {type(s).__name__}": s for s in PYTHON}
    return made | {f"NumPy {d}": _numpy_scalar(m, d) for d in dtypes.ALL}


def _met(shaped: Any) -> tuple[str, bool]:
    return shaped.dtype.name, shaped.weak_type


def _beside_jax(second: list[str] | None = None) -> None:
    ours, theirs = _operands(bnp), _operands(jnp)
    wrong = []
    for x in ours:
        if x.startswith(("NumPy", "Python")):
            continue  # only beside an array; the other order is among the pairs
        for y in second or ours:
            for pair in ((x, y), (y, x)):
                got = _met(bz.eval_shape(bnp.add, *(ours[n] for n in pair)))
                want = _met(jax.eval_shape(jnp.add, *(theirs[n] for n in pair)))
                if got != want:
                    wrong.append((*pair, got, want))
    assert not wrong


def test_pairs() -> None:
    _beside_jax()


def test_pairs_where_defaults_have_64_bits() -> None:
    with jax.enable_x64(True), knobs.config(x64=True):
        _beside_jax([*(f"{d}[2]" for d in dtypes.ALL), *(f"Python {type(s).__name__}" for s in PYTHON)])


def test_64_bits_of_an_operand_are_kept() -> None:
    for wide in (np.int64, np.uint64):
        for narrow in (np.int8, np.int32):
            got = dtypes.promote([(np.dtype(wide), False), (np.dtype(narrow), False)])
            want = np.dtype(jnp.add(_array(jnp, wide), _array(jnp, narrow)).dtype)
            assert got[0] == want
    mixed = [(dtypes.I8, False), (dtypes.U32, False), (dtypes.I64, False)]
    assert dtypes.promote(mixed)[0] == dtypes.I64
