"""Functions that take, put, choose and find elements, against JAX: at once and, where shapes allow, in programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import errors

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5)).astype(np.float32)
V = np.array([3, 0, 0, 2, 5, 0, 3], np.int32)
I = np.array([[0, 3, -1], [2, 9, 1]], np.int32)
SORTED = np.array([-1.0, 0.0, 0.0, 2.0, 5.0, np.nan], np.float32)
Q = np.array([[-2.0, 0.0], [5.0, np.nan], [1.5, 7.0]], np.float32)
MASK = np.array([True, False, True, True, False])

STAGED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "take": (lambda m, x, i: m.take(x, i), (X, I)),
    "take axis": (lambda m, x, i: m.take(x, i, axis=1), (X, I)),
    "take clip": (lambda m, x, i: m.take(x, i, axis=0, mode="clip"), (X, I)),
    "take wrap": (lambda m, x, i: m.take(x, i, axis=0, mode="wrap"), (X, I)),
    "take fill": (lambda m, x, i: m.take(x, i, axis=0, fill_value=7.0), (X, I)),
    "take one": (lambda m, x: m.take(x, 2, axis=-1), (X,)),
    "take_along_axis": (lambda m, x, i: m.take_along_axis(x, i, 1), (X[:2], I)),
    "take_along_axis broadcast": (lambda m, x, i: m.take_along_axis(x, i[:1], 1), (X, I)),
    "take_along_axis of all": (lambda m, x, i: m.take_along_axis(x, i[0], None, mode="clip"), (X, I)),
    "take_along_axis of argsort": (lambda m, x: m.take_along_axis(x, m.argsort(x, axis=0), 0), (X,)),
    "put_along_axis": (lambda m, x, i: m.put_along_axis(x, i[:, :2], 9.0, 1, inplace=False), (X[:2], I)),
    "select": (lambda m, x: m.select([x > 1, x > 0], [x, 2 * x], -1), (X,)),
    "choose": (lambda m, v, x: m.choose(v, [x, x + 1, x + 2], mode="clip"), (V, V * 10)),
    "choose wrap": (lambda m, v, x: m.choose(v, [x, x + 1], mode="wrap"), (V, V * 10)),
    "nonzero": (lambda m, x: m.nonzero(x > 0, size=25, fill_value=-1), (X,)),
    "nonzero cut": (lambda m, x: m.nonzero(x > 0, size=3), (X,)),
    "nonzero fills": (lambda m, x: m.nonzero(x > 9, size=2, fill_value=(7, 8)), (X,)),
    "flatnonzero": (lambda m, v: m.flatnonzero(v, size=5, fill_value=99), (V,)),
    "argwhere": (lambda m, x: m.argwhere(x > 0, size=12), (X,)),
    "where": (lambda m, v: m.where(v > 1, size=4), (V,)),
    "extract": (lambda m, x: m.extract(x > 0, x, size=15, fill_value=-3.0), (X,)),
    "compress": (lambda m, c, x: m.compress(c, x, axis=1, size=4, fill_value=2.0), (MASK, X)),
    "searchsorted": (lambda m, a, v: m.searchsorted(a, v), (SORTED, Q)),
    "searchsorted right": (lambda m, a, v: m.searchsorted(a, v, side="right"), (SORTED, Q)),
    "searchsorted sorter": (lambda m, a, v: m.searchsorted(a, v, sorter=m.argsort(a)), (X[0], Q)),
    "digitize": (lambda m, x: m.digitize(x, np.array([-1.0, 0.0, 1.0], np.float32)), (X,)),
    "digitize right": (lambda m, v: m.digitize(v, np.array([0, 2, 3]), right=True), (V,)),
    "digitize falling": (lambda m, v: m.digitize(v, np.array([5, 3, 0])), (V,)),
    "bincount": (lambda m, v: m.bincount(v, length=5), (V,)),
    "bincount weights": (lambda m, v, w: m.bincount(v, w, length=7), (V, X.reshape(-1)[:7])),
    "histogram": (lambda m, x: m.histogram(x, bins=4, range=(-1.0, 1.0)), (X,)),
    "histogram edges": (lambda m, x: m.histogram(x, np.array([-1.0, 0.0, 0.5, 3.0], np.float32)), (X,)),
    "histogram weights": (lambda m, x: m.histogram(x, 3, (-2.0, 2.0), weights=x * x, density=True), (X,)),
    "histogram_bin_edges": (lambda m, x: m.histogram_bin_edges(x, 5), (X,)),
    "diagonal": (lambda m, x: m.diagonal(x), (X,)),
    "diagonal offset": (lambda m, x: m.diagonal(x.reshape(2, 2, 5), 1, 2, 0), (X,)),
    "diag": (lambda m, x: m.diag(x[0], -2), (X,)),
    "diag of a matrix": (lambda m, x: m.diag(x, 1), (X,)),
    "diagflat": (lambda m, x: m.diagflat(x[:2], 1), (X,)),
    "unravel_index": (lambda m, v: m.unravel_index(v, (2, 3)), (V,)),
    "ravel_multi_index": (lambda m, i, j: m.ravel_multi_index((i, j), (3, 4), mode="clip"), (V, V)),
    "ravel_multi_index F": (lambda m, i, j: m.ravel_multi_index((i, j), (3, 4), "wrap", "F"), (V, V)),
    "ix_": (lambda m, x, v: x[m.ix_(v[1:4], v[:2])], (X, V % 4)),
    "delete": (lambda m, x: m.delete(x, np.array([0, -1]), axis=1), (X,)),
    "delete one": (lambda m, x: m.delete(x, 3), (X,)),
    "delete slice": (lambda m, x: m.delete(x, slice(0, 4, 2), 1), (X,)),
    "insert": (lambda m, x: m.insert(x, 1, 5.0, axis=1), (X,)),
    "insert several": (lambda m, x: m.insert(x, np.array([3, 0, 3]), x[:3], axis=0), (X,)),
    "insert row": (lambda m, x: m.insert(x, 2, x[0], axis=0), (X,)),
    "insert flat": (lambda m, v: m.insert(v, np.array([1, -1]), np.array([7, 8], np.int32)), (V,)),
    "repeat": (lambda m, x: m.repeat(x, np.array([2, 0, 1, 3]), axis=0), (X,)),
    "repeat padded": (lambda m, v, n: m.repeat(v, n, total_repeat_length=20), (V, V)),
    "repeat cut": (lambda m, v, n: m.repeat(v, n, total_repeat_length=5), (V, V)),
    "append": (lambda m, x: m.append(x, x, axis=0), (X,)),
    "append flat": (lambda m, x, v: m.append(x, v), (X, X[0])),
    "unique": (lambda m, v: m.unique(v, True, True, True, size=6, fill_value=-1), (V,)),
    "unique cut": (lambda m, v: m.unique(v, size=2), (V,)),
    "unique of nans": (lambda m, x: m.unique(x, size=6), (SORTED,)),
    "isin": (lambda m, v: m.isin(v, np.array([0, 5], np.int32)), (V,)),
    "isin inverted": (lambda m, v: m.isin(v, np.array([0, 5], np.int32), invert=True), (V,)),
}  # fmt: skip
AT_ONCE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "nonzero": (lambda m, x: m.nonzero(x > 0), (X,)),
    "flatnonzero": (lambda m, v: m.flatnonzero(v), (V,)),
    "argwhere": (lambda m, x: m.argwhere(x > 0), (X,)),
    "where": (lambda m, v: m.where(v), (V,)),
    "extract": (lambda m, x: m.extract(x > 0, x), (X,)),
    "compress": (lambda m, c, x: m.compress(c, x, axis=1), (MASK, X)),
    "bincount": (lambda m, v: m.bincount(v, minlength=8), (V,)),
    "unique": (lambda m, v: m.unique(v, True, True, True), (V,)),
    "unique rows": (lambda m, x: m.unique(x, axis=0), (V.reshape(-1, 1),)),
    "tril_indices": (lambda m: m.tril_indices(3, 1, 4), ()),
    "triu_indices": (lambda m: m.triu_indices(3, -1), ()),
    "tril_indices_from": (lambda m, x: m.tril_indices_from(x), (X,)),
    "triu_indices_from": (lambda m, x: m.triu_indices_from(x, 1), (X,)),
    "diag_indices": (lambda m: m.diag_indices(3, 3), ()),
    "diag_indices_from": (lambda m, x: m.diag_indices_from(x), (X[:, :4],)),
    "indices": (lambda m: m.indices((2, 3)), ()),
    "indices sparse": (lambda m: m.indices((2, 3), sparse=True), ()),
}  # fmt: skip


def assert_same(found: Any, want: Any) -> None:
    have, wanted = (list(x) if isinstance(x, tuple | list) else [x] for x in (found, want))
    assert len(have) == len(wanted)
    for x, y in zip(have, wanted, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", STAGED)
def test_at_once_and_in_a_program(name: str) -> None:
    call, args = STAGED[name]
    want = call(jnp, *map(jnp.asarray, args))
    assert_same(call(bnp, *map(bnp.asarray, args)), want)
    assert_same(bz.jit(lambda *xs: call(bnp, *xs))(*args), want)


@pytest.mark.parametrize("name", AT_ONCE)
def test_at_once(name: str) -> None:
    call, args = AT_ONCE[name]
    assert_same(call(bnp, *map(bnp.asarray, args)), call(jnp, *map(jnp.asarray, args)))


@pytest.mark.parametrize("name", ["nonzero", "unique", "bincount"])
def test_shapes_that_depend_on_values_are_refused_in_programs(name: str) -> None:
    with pytest.raises(errors.ConcretizationError, match=rf"{name}: the shape of the result"):
        bz.jit(getattr(bnp, name))(V)


def test_a_mask_in_ix_is_its_positions() -> None:
    rows = np.array([0, 2])
    assert_same(bnp.array(X)[bnp.ix_(rows, MASK)], X[np.ix_(rows, MASK)])


def test_gradients_go_through() -> None:
    def f(m: Any) -> Callable[[Any], Any]:
        def g(x: Any) -> Any:
            order = m.argsort(x, axis=1)
            taken = m.take_along_axis(x, order, 1) * np.arange(5, dtype=np.float32)
            return taken.sum() + (m.take(x, I[:1], axis=1, mode="clip") ** 2).sum() + (m.diag(x) ** 2).sum()

        return g

    want = jax.grad(f(jnp))(X)
    np.testing.assert_allclose(np.asarray(bz.jit(bz.grad(f(bnp)))(X)), np.asarray(want), rtol=1e-5, atol=1e-6)
    batch = np.stack([X, -X])
    mapped = bz.jit(bz.vmap(bz.grad(f(bnp))))(batch)
    np.testing.assert_allclose(
        np.asarray(mapped), np.asarray(jax.vmap(jax.grad(f(jnp)))(batch)), rtol=1e-5, atol=1e-6
    )


def test_wrong_arguments_say_so() -> None:
    with pytest.raises(errors.ArgumentError, match="inplace=False"):
        bnp.put_along_axis(X, I, 1.0, 1)
    with pytest.raises(errors.OutOfBoundsError, match="not in 0 to 1"):
        bnp.choose(V, [V, V])
    with pytest.raises(errors.DTypeError, match="indices are integers"):
        bnp.take(X, X)
    with pytest.raises(errors.ArgumentError, match="side 'middle'"):
        bnp.searchsorted(SORTED, Q, "middle")
    with pytest.raises(errors.ShapeError, match="2 axes and indices have 1"):
        bnp.take_along_axis(X, V, 1)
