"""Keys, bits and distributions of `braze.random` beside JAX's, for the same seeds."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from scipy import special

import braze as bz
import braze.random as br
from braze import errors
from braze.hlo import parse
from braze.hlo.ir import equal as hlo_equal
from braze.hlo.text import print_module
from braze.ops import random as ops
from braze.stages import compile_hlo

jr = jax.random
KEY, THEIRS = br.key(42), jr.PRNGKey(42)
SHAPES = ((), (1,), (7,), (3, 5), (0,), (1000,))


def equal(have: Any, want: Any) -> None:
    have, want = np.asarray(have), np.asarray(want)
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("seed", [0, 1, -1, 7, 2**31, 2**32 + 5, 2**40 + 3, 2**63 - 1, -(2**40)])
def test_keys_of_seeds(seed: int) -> None:
    equal(br.PRNGKey(seed), jr.PRNGKey(seed))
    equal(br.key_data(br.key(seed)), jr.key_data(jr.key(seed)))


def test_keys_of_arrays() -> None:
    equal(bz.jit(br.key)(np.int32(-3)), jr.PRNGKey(np.int32(-3)))
    assert np.asarray(br.key(np.int64(2**40 + 3))).tolist() == [256, 3]  # what is named stays 64 bits wide


def test_split_and_fold_in() -> None:
    for num in (2, 1, 5, (2, 3)):
        equal(br.split(KEY, num), jr.split(THEIRS, num))
    for data in (0, 5, 2**31 - 1, 2**32 - 1):
        equal(br.fold_in(KEY, data), jr.fold_in(THEIRS, data))
    equal(bz.jit(br.fold_in)(KEY, np.int32(-1)), jr.fold_in(THEIRS, np.uint32(2**32 - 1)))


def test_known_answers_of_threefry() -> None:
    """From the authors' test vectors: Random123's kat_vectors, threefry2x32 with 20 rounds."""
    cases = (
        ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    )
    for key, words, wanted in cases:
        given = [np.uint32(v) for v in (*key, *words)]
        for target in ("cpu", "numpy"):
            found = bz.jit(lambda *v: ops.threefry2x32(*v), target=target)(*given)
            assert tuple(int(v) for v in found) == wanted


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_and_numbers_are_jaxs(shape: tuple[int, ...]) -> None:
    for dtype in ("uint8", "uint16", "uint32"):
        equal(br.bits(KEY, shape, dtype), jr.bits(THEIRS, shape, dtype))
    equal(br.uniform(KEY, shape), jr.uniform(THEIRS, shape))
    equal(bz.jit(lambda k: br.uniform(k, shape), target="numpy")(KEY), jr.uniform(THEIRS, shape))
    for low, high in ((-1.5, 2.7), (-1.0, 1.0), (5.0, 5.0)):
        equal(br.uniform(KEY, shape, None, low, high), jr.uniform(THEIRS, shape, minval=low, maxval=high))
    for low, high in ((0, 10), (-5, 7), (3, 3), (5, 2), (0, 2**31 - 1), (-(2**31), 2**31 - 1)):
        equal(br.randint(KEY, shape, low, high), jr.randint(THEIRS, shape, low, high))
    for dtype, low, high in (
        ("uint8", 0, 256),
        ("int8", -128, 128),
        ("int16", -7, 1000),
        ("uint16", 0, 70000),
    ):
        equal(br.randint(KEY, shape, low, high, dtype), jr.randint(THEIRS, shape, low, high, dtype))
    for mode in ("low", "high"):
        equal(br.bernoulli(KEY, 0.3, shape, mode), jr.bernoulli(THEIRS, 0.3, shape, mode))
    equal(br.rademacher(KEY, shape), jr.rademacher(THEIRS, shape))
    for name in ("exponential", "gumbel"):
        found, wanted = (np.asarray(getattr(m, name)(k, shape)) for m, k in ((br, KEY), (jr, THEIRS)))
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5)


def test_normal_numbers_are_near_the_quantiles_of_jaxs_uniform_ones() -> None:
    found = np.asarray(br.normal(KEY, (200_000,)))
    theirs = np.asarray(jr.normal(THEIRS, (200_000,)))
    u = np.asarray(
        jr.uniform(THEIRS, (200_000,), minval=np.nextafter(np.float32(-1), np.float32(0)), maxval=1.0)
    )
    exact = np.sqrt(2) * special.erfinv(u.astype(np.float64))
    ulps = np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert ulps.max() <= 4
    np.testing.assert_allclose(found, theirs, rtol=2e-5, atol=0)
    with jax.enable_x64(True):
        wanted = np.asarray(jr.normal(jr.PRNGKey(42), (1000,), "float64"))
    np.testing.assert_allclose(np.asarray(br.normal(KEY, (1000,), "float64")), wanted, rtol=1e-13, atol=1e-15)


def test_distributions_made_of_these() -> None:
    scale = np.array([0.5, 2.0], np.float32)
    for name, args in (
        ("lognormal", (0.3, (50,))),
        ("lognormal", (scale,)),
        ("rayleigh", (2.0, (50,))),
        ("rayleigh", (scale,)),
    ):
        found, wanted = (np.asarray(getattr(m, name)(k, *args)) for m, k in ((br, KEY), (jr, THEIRS)))
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=2e-5)
    exe = bz.jit(lambda k: br.normal(k, (100_000,))).lower(KEY).compile()
    assert len(exe.kernels) == 1


def test_ranges_may_be_arrays() -> None:
    low, high = np.array([[-3], [4]], np.int32), np.array([5, 9, 4], np.int32)
    equal(br.randint(KEY, (2, 3), low, high), jr.randint(THEIRS, (2, 3), low, high))
    f, g = low.astype(np.float32), np.array([5.5, 9.1, 4.7], np.float32)
    equal(br.uniform(KEY, (2, 3), None, f, g), jr.uniform(THEIRS, (2, 3), minval=f, maxval=g))
    p = np.array([0.1, 0.9, 0.5], np.float32)
    equal(br.bernoulli(KEY, p), jr.bernoulli(THEIRS, p))


def test_64_bits() -> None:
    with jax.enable_x64(True):
        theirs = jr.PRNGKey(42)
        equal(br.bits(KEY, (9,), "uint64"), jr.bits(theirs, (9,), "uint64"))
        equal(br.uniform(KEY, (9,), "float64"), jr.uniform(theirs, (9,), "float64"))
        low, high = np.int64(-5), np.int64(2**40)
        equal(br.randint(KEY, (9,), low, high, "int64"), jr.randint(theirs, (9,), low, high, "int64"))


@pytest.mark.parametrize("n", [1, 2, 10, 1000, 5000])
def test_permutations_of_ranges(n: int) -> None:
    equal(br.permutation(KEY, n), jr.permutation(THEIRS, n))


def test_permutations_and_choices_of_arrays() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for axis in (0, 1):
        for independent in (False, True):
            wanted = jr.permutation(THEIRS, x, axis, independent=independent)
            equal(br.permutation(KEY, x, axis, independent), wanted)
        equal(br.choice(KEY, x, (2, 3), axis=axis), jr.choice(THEIRS, x, (2, 3), axis=axis))
        equal(br.choice(KEY, x, (3,), False, axis=axis), jr.choice(THEIRS, x, (3,), False, axis=axis))
    p = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    for options in ({}, {"replace": False}, {"p": p}, {"p": p, "replace": False}):
        equal(br.choice(KEY, 4, (3,), **options), jr.choice(THEIRS, 4, (3,), **options))


def test_categories() -> None:
    logits = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    for options in ({}, {"axis": 0}, {"shape": (7, 3)}, {"shape": (2, 3), "replace": False}):
        equal(br.categorical(KEY, logits, **options), jr.categorical(THEIRS, logits, **options))


def test_functions_under_transformations() -> None:
    keys, theirs = br.split(KEY, 4), jr.split(THEIRS, 4)
    equal(bz.vmap(lambda k: br.uniform(k, (3,)))(keys), jax.vmap(lambda k: jr.uniform(k, (3,)))(theirs))
    equal(
        bz.vmap(br.fold_in, (None, 0))(KEY, np.arange(5)),
        jax.vmap(jr.fold_in, (None, 0))(THEIRS, np.arange(5)),
    )
    grad = bz.grad(lambda a: (br.uniform(KEY, (5,), None, 0.0, a) ** 2).sum())(2.0)
    wanted = jax.grad(lambda a: (jr.uniform(THEIRS, (5,), minval=0.0, maxval=a) ** 2).sum())(2.0)
    np.testing.assert_allclose(float(grad), float(wanted), rtol=1e-6)


def test_bits_are_made_in_the_kernel_that_uses_them() -> None:
    exe = bz.jit(lambda k: br.exponential(k, (100_000,))).lower(KEY).compile()
    assert len(exe.kernels) == 1
    assert exe.memory_analysis().temp_size_in_bytes == 0


@pytest.mark.parametrize(
    "shape", [(), (1,), (5,), (4,), (3, 5), (2, 3), (5, 3, 3), (3, 40), (300, 1001)], ids=str
)
def test_generators_of_stablehlo_are_xlas(shape: tuple[int, ...]) -> None:
    key = np.array([1, 2, 3, 4], np.uint32)
    for dtype in ("uint32", "uint8"):
        algorithm = jax.lax.RandomAlgorithm.RNG_THREE_FRY
        f = jax.jit(lambda k, d=dtype, a=algorithm: jax.lax.rng_bit_generator(k, shape, d, a))
        state, wanted = f(key)
        size = "".join(f"{n}x" for n in shape)
        result = f"tensor<{size}{dtype.replace('uint', 'ui')}>"
        module = parse(f"""
          func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, {result}) {{
            %r:2 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, {result})
            return %r#0, %r#1 : tensor<2xui64>, {result}
          }}""")
        assert hlo_equal(parse(print_module(module)), module)
        for target in ("cpu", "numpy"):
            after, found = compile_hlo(module, target)(key.view(np.uint64))
            equal(np.asarray(after).view(np.uint32), state)
            equal(found, wanted)


def test_errors() -> None:
    with pytest.raises(errors.ArgumentError, match=r"uniform: a key is u32\[2\], u32\[4,2\] was given"):
        br.uniform(br.split(KEY, 4))
    with pytest.raises(errors.DTypeError, match="key: a seed is an integer without axes, f32"):
        br.key(0.5)
    with pytest.raises(errors.ShapeError, match="do not broadcast"):
        br.uniform(KEY, (2,), None, np.zeros(3, np.float32))
    with pytest.raises(errors.DTypeError, match="randint: dtype is an integer"):
        br.randint(KEY, (), 0, 1, "float32")
    with pytest.raises(errors.ShapeError, match="5 elements are wanted and there are 4, without replacement"):
        br.choice(KEY, 4, (5,), replace=False)
    with pytest.raises(errors.IntegerOverflowError):
        br.fold_in(KEY, -1)
