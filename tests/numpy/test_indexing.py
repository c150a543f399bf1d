"""Indexing with random expressions: values against NumPy, updates and derivatives against JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp
from braze import errors

SHAPE = (4, 5, 3)


def random_part(rng: np.random.Generator, size: int, block: tuple[int, ...]) -> Any:
    kind = rng.integers(6)
    if kind == 0:
        return int(rng.integers(-size, size))
    if kind == 1:
        bounds = [None if rng.random() < 0.3 else int(rng.integers(-size - 2, size + 3)) for _ in range(2)]
        return slice(*bounds, [None, 1, 2, -1, -2, 3][int(rng.integers(6))])
    if kind == 2:
        return slice(None)
    if kind == 3:
        return rng.integers(-size, size, block[rng.integers(0, len(block) + 1) :])
    return rng.integers(-size, size, block).astype(np.int32)


def random_index(rng: np.random.Generator) -> tuple[Any, ...]:
    """Integers, slices, arrays that broadcast, masks, None and Ellipsis."""
    block = tuple(rng.integers(1, 4, int(rng.integers(1, 3))).tolist())
    if rng.random() < 0.15:
        return (rng.random(SHAPE[:2]) < 0.4, *([slice(None, None, -1)] if rng.random() < 0.5 else []))
    parts = [random_part(rng, n, block) for n in SHAPE]
    if rng.random() < 0.4:
        at = int(rng.integers(0, 3))
        parts[at : at + int(rng.integers(1, 3))] = [Ellipsis]
    for _ in range(int(rng.integers(0, 2))):
        parts.insert(int(rng.integers(0, len(parts) + 1)), None)
    return tuple(parts[: int(rng.integers(1, len(parts) + 1))])


@pytest.mark.parametrize("seed", range(150))
def test_values_are_numpys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = random_index(rng)
    x = rng.normal(size=SHAPE).astype(np.float32)
    want = x[index]
    found = bnp.array(x)[index]
    assert found.shape == want.shape, index
    assert np.array_equal(np.asarray(found), want), index


@pytest.mark.parametrize("block", range(4))
def test_values_inside_jit(block: int) -> None:
    rng = np.random.default_rng(1000 + block)
    x = rng.normal(size=SHAPE).astype(np.float32)
    indices = [random_index(rng) for _ in range(12)]

    def arrays(index: tuple[Any, ...]) -> list[Any]:
        return [p for p in index if isinstance(p, np.ndarray) and p.dtype != bool]

    def f(x: Any, given: Any) -> list[Any]:
        out = []
        for index, mine in zip(indices, given):
            left = iter(mine)
            out.append(
                x[tuple(next(left) if isinstance(p, np.ndarray) and p.dtype != bool else p for p in index)]
            )
        return out

    found = bz.jit(f)(x, [arrays(i) for i in indices])
    for have, index in zip(found, indices, strict=True):
        assert np.array_equal(np.asarray(have), x[index]), index


METHODS = ("set", "add", "subtract", "multiply", "divide", "min", "max")


@pytest.mark.parametrize("seed", range(32))
def test_updates_are_those_of_jax(seed: int) -> None:
    rng = np.random.default_rng(2000 + seed)
    index = random_index(rng)
    x = rng.integers(1, 9, SHAPE).astype(np.float32)
    name = METHODS[seed % len(METHODS)]
    y = (
        np.float32(2.0)
        if name == "set" or seed % 3 == 0
        else rng.integers(1, 4, x[index].shape).astype(np.float32)
    )
    want = np.asarray(getattr(jnp.array(x).at[index], name)(y))
    found = np.asarray(getattr(bnp.array(x).at[index], name)(y))
    np.testing.assert_allclose(found, want, rtol=1e-6, err_msg=f"{name} at {index}")
    inside = bz.jit(lambda x, y: getattr(x.at[index], name)(y))(x, y)
    np.testing.assert_allclose(np.asarray(inside), want, rtol=1e-6, err_msg=f"{name} at {index}")


@pytest.mark.parametrize("seed", range(12))
def test_gradients_and_batches_are_those_of_jax(seed: int) -> None:
    rng = np.random.default_rng(3000 + seed)
    index = random_index(rng)
    x = rng.normal(size=SHAPE).astype(np.float32)
    w = rng.normal(size=x[index].shape).astype(np.float32)
    name = ("add", "set", "max")[seed % 3]

    def f(module: Any) -> Any:
        def g(x: Any, w: Any) -> Any:
            changed = getattr((x * x).at[index], name)(w)
            return (changed[index] * w).sum() + (changed * changed).sum()

        return g

    theirs = jax.grad(f(jnp), argnums=(0, 1))(jnp.array(x), jnp.array(w))
    ours = bz.jit(bz.grad(f(bnp), argnums=(0, 1)))(x, w)
    batch = np.stack([x, 2 * x, -x])
    mapped = bz.jit(bz.vmap(bz.grad(f(bnp)), in_axes=(0, None)))(batch, w)
    if name == "add" or _is_unique(index):
        for have, want in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(
                np.asarray(have), np.asarray(want), rtol=2e-5, atol=1e-5, err_msg=str(index)
            )
        want = jax.vmap(jax.grad(f(jnp)), in_axes=(0, None))(batch, w)
        np.testing.assert_allclose(
            np.asarray(mapped), np.asarray(want), rtol=2e-5, atol=1e-5, err_msg=str(index)
        )
    np.testing.assert_allclose(np.asarray(mapped)[0], np.asarray(ours[0]), rtol=1e-6, err_msg=str(index))


def _is_unique(index: tuple[Any, ...]) -> bool:
    """Whether no element is indexed twice; of repeated ones JAX does not say which wins."""
    places = np.arange(np.prod(SHAPE)).reshape(SHAPE)[index]
    return len(np.unique(places)) == places.size


@pytest.mark.parametrize("index", [7, -9, np.array([0, 7, -9, 2])], ids=str)
@pytest.mark.parametrize("mode", [None, "clip", "fill", "promise_in_bounds"])
def test_out_of_range(index: Any, mode: str | None) -> None:
    x = np.arange(5, dtype=np.float32)
    ours, theirs = bnp.array(x).at[index], jnp.array(x).at[index]
    assert np.array_equal(np.asarray(ours.get(mode=mode)), np.asarray(theirs.get(mode=mode)), equal_nan=True)
    if mode != "promise_in_bounds":
        assert np.array_equal(np.asarray(ours.set(9.0, mode=mode)), np.asarray(theirs.set(9.0, mode=mode)))
        assert np.array_equal(np.asarray(ours.add(9.0, mode=mode)), np.asarray(theirs.add(9.0, mode=mode)))
    filled = ours.get(mode="fill", fill_value=-1.0)
    assert np.array_equal(np.asarray(filled), np.asarray(theirs.get(mode="fill", fill_value=-1.0)))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_index_dtypes(dtype: str) -> None:
    x = np.arange(300, dtype=np.float32)
    index = np.array([0, 1, 127, 5], dtype)
    if not dtype.startswith("u"):
        index[3] = -3
    assert np.array_equal(np.asarray(bnp.array(x)[index]), x[index])
    assert np.array_equal(np.asarray(bz.jit(lambda x, i: x[i])(x, index)), x[index])
    want = x.copy()
    want[index] = 0.0
    assert np.array_equal(np.asarray(bz.jit(lambda x, i: x.at[i].set(0.0))(x, index)), want)


def test_a_mask_in_a_program_selects_where_a_scalar_is_written() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    f = bz.jit(lambda x: x.at[x > 5].set(0.0).at[x[:, 0] > 3].add(1.0))
    want = np.where(x > 5, 0, x) + (x[:, :1] > 3)
    assert np.array_equal(np.asarray(f(x)), want)
    with pytest.raises(errors.ConcretizationError, match="a mask of type bool"):
        bz.jit(lambda x: x[x > 5])(x)


def test_truth_values_are_axes() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for index in (True, False, (True, 1), (np.array(True), slice(None), np.array([0, 2]))):
        assert np.array_equal(np.asarray(bnp.array(x)[index]), x[index]), index


def test_updates_of_other_dtypes_keep_the_arrays() -> None:
    x = np.arange(4, dtype=np.int32)
    assert np.asarray(bnp.array(x).at[1].multiply(0.5)).tolist() == [0, 0, 2, 3]
    assert np.asarray(bnp.array(x).at[bnp.array([1, 3])].add(np.float32(2.0))).dtype == np.int32
    assert np.asarray(bnp.array([4.0, 2.0]).at[0].apply(bnp.sqrt)).tolist() == [2.0, 2.0]


def test_wrong_indices_say_so() -> None:
    x = bnp.ones((3, 4))
    with pytest.raises(errors.UnsupportedError, match="a list is no index"):
        x[[0, 1]]
    with pytest.raises(errors.DTypeError, match="f32 was given"):
        x[bnp.ones(3)]
    with pytest.raises(errors.ShapeError, match=r"mask has shape \(4,\)"):
        x[np.ones(4, bool)]
    with pytest.raises(errors.ShapeError, match="do not broadcast"):
        x[np.array([0, 1]), np.array([0, 1, 2])]
    with pytest.raises(errors.OutOfBoundsError, match="3 indices were given"):
        x[np.array([0]), 0, 0]
    with pytest.raises(errors.ArgumentError, match=r"x.at\[index\].set"):
        x[0] = 1.0


def test_a_gather_fuses_with_what_reads_it_and_with_its_indices() -> None:
    x, i = bnp.arange(1000.0), bnp.arange(500)
    compiled = bz.jit(lambda x, i: bnp.tanh(x[i * 2 - 3]) + 1.0).lower(x, i).compile()
    assert len(compiled.kernels) == 1
    assert "gather" in compiled.as_text("kernel"), "lanes load at their own indices"


def test_few_elements_that_are_taken_many_times_are_computed_once() -> None:
    compiled = bz.jit(lambda x, i: bnp.exp(x)[i]).lower(bnp.ones(100), bnp.arange(100_000)).compile()
    assert len(compiled.kernels) == 2


def test_a_donated_array_is_updated_in_place() -> None:
    x, i = bnp.zeros(1000), bnp.array([3, 3, -1])
    f = bz.jit(lambda x, i: x.at[i].add(1.0), donate_argnums=0)
    text = f.lower(x, i).compile().as_text("program")
    assert "copy" not in text and "scatter" in text
    assert np.asarray(f(x, i))[[3, 999]].tolist() == [2.0, 1.0]


def test_updates_in_a_loop_stay_in_one_array() -> None:
    def f(x: Any, indices: Any) -> Any:
        return bz.lax.fori_loop(0, 50, lambda k, x: x.at[indices[k]].add(1.0).at[k % 3].max(2.0), x)

    indices = np.arange(50, dtype=np.int32)[:, None] % np.array([7, 5])
    found = np.asarray(bz.jit(f)(np.zeros(8, np.float32), indices))
    want = np.zeros(8, np.float32)
    for k in range(50):
        np.add.at(want, indices[k], 1.0)
        want[k % 3] = max(want[k % 3], 2.0)
    assert found.tolist() == want.tolist()
