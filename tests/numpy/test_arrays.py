"""Arrays as objects: operators, methods, indexing, conversions, protocols; the same on tracers where no value is needed."""

from __future__ import annotations

import copy
import operator
import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import braze as bz
import braze.numpy as bnp

RNG = np.random.default_rng(2)
X = np.asarray(RNG.standard_normal((3, 4)), np.float32)
N = np.asarray(RNG.integers(1, 5, (3, 4)), np.int32)


def both(call: Any, *args: Any) -> list[Any]:
    """Results outside jit and inside, on both targets."""
    arrays = [bnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    return [call(*arrays), *(bz.jit(call, target=t)(*arrays) for t in ("cpu", "numpy"))]


def check(call: Any, *args: Any) -> None:
    """A call on arrays gives what it gives on JAX's arrays."""
    wanted = call(*[jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args])
    for found in both(call, *args):
        assert (found.shape, found.dtype, found.weak_type) == (wanted.shape, wanted.dtype, wanted.weak_type)
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=2e-6, atol=1e-6)


# Operators -------------------------------------------------------------------------------------------

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]


@pytest.mark.parametrize("op", ARITHMETIC, ids=lambda f: f.__name__)
def test_arithmetic(op: Any) -> None:
    for a, b in [(X, X[0]), (X, 2), (3, X), (X, 1.5), (N, 2), (2, N), (N, X), (N, np.int32(3))]:
        check(op, a, b)


@pytest.mark.parametrize("op", [operator.lt, operator.le, operator.gt, operator.ge], ids=lambda f: f.__name__)
def test_order(op: Any) -> None:
    for found in both(op, X, 0.5):
        assert np.array_equal(found, op(X, 0.5))
    for found in both(op, 2, N):
        assert np.array_equal(found, op(2, N))


def test_equality_is_elementwise() -> None:
    x = bnp.asarray(N)
    assert np.array_equal(x == 2, N == 2) and np.array_equal(x != x, N != N)
    assert (x == "two") is False and (x != None) is True  # noqa: E711


def test_bits_powers_and_products() -> None:
    for op in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        check(op, N, 2)
        check(op, 3, N)
    check(lambda x: x**3, X)
    check(lambda x: x @ x.T, X)
    check(lambda x: (-x, +x, abs(x))[2], X)
    check(lambda x: -x, N)
    check(lambda x: ~x, N)
    check(lambda x: divmod(x, 2)[1], N)
    check(lambda x: round(x, 1), X)


def test_numpy_arrays_on_the_left_give_braze_arrays() -> None:
    x = bnp.asarray(X)
    for found in (X + x, X @ x.T, np.float32(2) * x, x > X):
        assert isinstance(found, bz.Array) and not isinstance(found, np.ndarray)
    assert isinstance(bz.jit(lambda x: X + x)(x), bz.Array)


def test_other_types_get_their_own_say() -> None:
    class Other:
        def __radd__(self, x: Any) -> str:
            return "mine"

    assert bnp.ones(2) + Other() == "mine"
    with pytest.raises(TypeError):
        bnp.ones(2) + "text"


# Methods ---------------------------------------------------------------------------------------------

METHODS: dict[str, Any] = {
    "sum": lambda x: x.sum(axis=0), "prod": lambda x: x.prod(1), "mean": lambda x: x.mean(),
    "var": lambda x: x.var(axis=1, ddof=1), "std": lambda x: x.std(keepdims=True), "max": lambda x: x.max(0),
    "min": lambda x: x.min(axis=-1), "argmax": lambda x: x.argmax(), "argmin": lambda x: x.argmin(1),
    "any": lambda x: (x > 1).any(), "all": lambda x: (x > 1).all(axis=0), "reshape": lambda x: x.reshape(2, -1),
    "reshape tuple": lambda x: x.reshape((4, 3)), "transpose": lambda x: x.transpose(), "axes": lambda x: x.transpose(1, 0),
    "T": lambda x: x.T, "mT": lambda x: x.mT, "ravel": lambda x: x.ravel(), "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x[None].squeeze(0), "swapaxes": lambda x: x.swapaxes(0, 1), "astype": lambda x: x.astype(int),
    "astype bool": lambda x: x.astype(bool), "clip": lambda x: x.clip(-0.5, 0.5), "dot": lambda x: x.dot(x[0]),
    "round": lambda x: x.round(1), "astype name": lambda x: x.astype("float32"),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    check(METHODS[name], X)


def test_attributes_need_no_values() -> None:
    seen = []

    def look(x: Any) -> Any:
        seen.append((x.shape, x.dtype, x.ndim, x.size, x.nbytes, x.itemsize, x.weak_type, len(x)))
        return x

    look(bnp.asarray(X)), bz.jit(look)(bnp.asarray(X))
    assert seen == [((3, 4), np.float32, 2, 12, 48, 4, False, 3)] * 2


def test_arrays_and_tracers_are_instances_of_array() -> None:
    seen = []
    bz.jit(lambda x: seen.append(isinstance(x, bz.Array)) or x)(1.0)
    assert seen == [True] and isinstance(bnp.ones(2), bz.Array) and not isinstance(X, bz.Array)
    with pytest.raises(bz.ArgumentError):
        bz.Array(3)


# Indexing --------------------------------------------------------------------------------------------

INDICES: list[Any] = [
    0, -1, (1, 2), (-1, -4), slice(None), slice(1, 3), slice(None, None, 2), slice(-2, None), slice(5, 9), slice(2, 1),
    slice(None, None, -1), slice(2, None, -2), (slice(None), slice(3, 0, -1)), ..., (..., 1), (1, ...), None, (None, 0),
    (slice(None), None), (..., None), (0, ..., 1), (None, ..., None, slice(1, 2)), np.int64(1), (np.int32(2), slice(0, 2)), (),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_basic_indexing(index: Any) -> None:
    for found in both(lambda x: x[index], X):
        assert found.shape == X[index].shape and np.array_equal(found, X[index])


def test_indices_known_at_run_time_clamp() -> None:
    for call, wanted in [
        (lambda x, i: x[i], [X[1], X[2], X[0], X[2]]),
        (lambda x, i: x[:, i], [X[:, 1], X[:, -1], X[:, 0], X[:, 3]]),
    ]:
        for target in ("cpu", "numpy"):
            f = bz.jit(call, target=target)
            for i, w in zip([1, -1, -9, 9], wanted, strict=True):
                assert np.array_equal(f(X, np.int32(i)), w)


def test_indexing_with_arrays_of_one_integer() -> None:
    assert np.array_equal(bnp.asarray(X)[bnp.asarray(1)], X[1])
    assert [1, 2, 3][bnp.asarray(1)] == 2 and list(range(bnp.asarray(3))) == [0, 1, 2]


def test_iteration_and_unpacking() -> None:
    rows = list(bnp.asarray(X))
    assert len(rows) == 3 and all(np.array_equal(a, b) for a, b in zip(rows, X, strict=True))
    _, second, _ = bz.jit(lambda x: tuple(x))(X)
    assert np.array_equal(second, X[1])
    with pytest.raises(TypeError):
        iter(bnp.ones(())).__next__()
    assert 2 in bnp.arange(3) and 3 not in bnp.arange(3)


# Conversions -----------------------------------------------------------------------------------------


def test_repr_is_jaxs() -> None:
    values: list[Any] = [
        1.5, 2, True, [1.0, 2.0], [[1, 2], [3, 4]], np.zeros((0, 3), np.float32), np.arange(3, dtype=np.int8),
        np.linspace(0, 1, 5, dtype=np.float32), np.full((2, 2), 1e-8, np.float32), np.arange(2000, dtype=np.int32),
    ]  # fmt: skip
    for value in values:
        assert repr(bnp.asarray(value)) == repr(jnp.asarray(value))
        assert str(bnp.asarray(value)) == str(jnp.asarray(value))


def test_python_scalars() -> None:
    x = bnp.asarray(2.5)
    assert (float(x), int(x), bool(x), complex(x), x.item(), f"{x:.2f}") == (
        2.5,
        2,
        True,
        2.5 + 0j,
        2.5,
        "2.50",
    )
    assert bnp.asarray([[3]]).item() == 3 and bnp.asarray(N).item(1, 2) == N[1, 2]
    assert bnp.asarray(N).tolist() == N.tolist() and type(bnp.asarray(N).tolist()[0][0]) is int
    assert bool(bnp.asarray([[1]])) and operator.index(bnp.asarray(3)) == 3
    for convert in (float, int, bool):
        with pytest.raises(bz.ArgumentError):
            convert(bnp.ones(2))
    with pytest.raises(TypeError):
        operator.index(bnp.asarray(1.5))
    with pytest.raises(TypeError):
        hash(bnp.ones(2))


def test_array_copies_and_asarray_shares() -> None:
    theirs = np.zeros(100, np.float32)
    copied, shared = bnp.array(theirs), bnp.asarray(theirs)
    theirs[0] = 1
    assert copied[0] == 0 and shared[0] == 1
    assert np.shares_memory(np.asarray(shared), theirs) and not np.shares_memory(np.asarray(copied), theirs)
    assert not np.asarray(copied).flags.writeable
    strided = bnp.asarray(theirs[::2])
    theirs[:] = 5
    assert strided[1] == 0, "what is not contiguous is copied"


def test_dlpack_both_ways_without_copies() -> None:
    x = bnp.asarray(X)
    assert np.shares_memory(np.from_dlpack(x), np.asarray(x))
    back = bnp.from_dlpack(X.copy())
    assert np.array_equal(back, X)
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6.0).reshape(2, 3)
    shared = bnp.from_dlpack(tensor)
    tensor[0, 0] = 9
    assert shared.shape == (2, 3) and float(shared[0, 0]) == 9.0
    assert torch.from_dlpack(bnp.ones(3)).tolist() == [1.0, 1.0, 1.0]
    assert float(bnp.asarray(tensor)[0, 0]) == 9.0


def test_buffers() -> None:
    import array

    assert memoryview(bnp.asarray(X)).shape == (3, 4) and memoryview(bnp.asarray(X)).readonly
    assert bytes(memoryview(bnp.asarray(N))) == N.tobytes()
    assert bnp.array(array.array("d", [1.0, 2.0])).dtype == np.float64
    assert bnp.array(memoryview(b"ab")).tolist() == [97, 98]


def test_pickle_and_copies_keep_type_and_weakness() -> None:
    for x in (bnp.asarray(X), bnp.asarray(2.0), bnp.zeros((0, 2)), bnp.asarray(True)):
        for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x), x.copy()):
            assert y.aval is x.aval and np.array_equal(x, y)


def test_device_functions() -> None:
    moved = bz.device_put({"a": X, "b": [1.0, None]})
    assert isinstance(moved["a"], bz.Array) and moved["b"][0].weak_type and moved["b"][1] is None
    assert isinstance(bz.device_get(moved)["a"], np.ndarray)
    assert bz.block_until_ready(moved) is moved and moved["a"].block_until_ready() is moved["a"]


def test_numpy_functions_take_arrays() -> None:
    x = bnp.asarray(X)
    assert np.allclose(np.sin(x), np.sin(X)) and np.allclose(np.sum(x), np.sum(X))
    assert np.asarray(x, np.float64).dtype == np.float64


def test_arrays_of_tracers() -> None:
    f = bz.jit(lambda a, b: bnp.array([[a, b], [1.0, a * b]]))
    assert f(2.0, 3.0).tolist() == [[2, 3], [1, 6]]
    assert bz.jit(lambda x: bnp.stack([x, x]))(np.float32(1)).tolist() == [1, 1]


def test_functions_of_numpy_inputs_give_arrays_of_their_own() -> None:
    calls: list[Any] = [
        lambda a: bnp.reshape(a, (3, 4)), bnp.positive, lambda a: bnp.transpose(a, (0, 1)), bnp.floor, bnp.abs,
        lambda a: bnp.broadcast_to(a, (3, 4)), lambda a: bnp.roll(a, 0), bnp.atleast_1d, lambda a: bnp.squeeze(a),
        lambda a: bnp.clip(a), lambda a: bnp.round(a), lambda a: bnp.concatenate([a]), lambda a: bnp.flip(a, ()),
    ]  # fmt: skip
    for dtype in (np.float32, np.int32):
        for call in calls:
            theirs = np.ones((3, 4), dtype)
            found = call(theirs)
            theirs[:] = 7
            assert isinstance(found, bz.Array) and found.tolist() == np.ones((3, 4)).tolist()
