"""f16 and bf16 as machine code: every value, and casts that round once."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from tests.targets.run import agree

import braze as bz
import braze.numpy as bnp
from braze.dtypes import BF16, F16, F32, DType
from braze.kernel.builder import Builder
from braze.kernel.check import check
from braze.targets.host import host

HALVES = pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
EVERY = np.arange(1 << 16, dtype=np.uint16)


def same(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    bits = f"u{wanted.dtype.itemsize}"
    with np.errstate(invalid="ignore"):
        nan = np.isnan(found.astype(np.float64)) & np.isnan(wanted.astype(np.float64))
    return (found.view(bits) == wanted.view(bits)) | nan


def singles() -> np.ndarray:
    rng = np.random.default_rng(0)
    patterns = [
        rng.integers(0, 1 << 32, 1 << 17, np.uint32),
        rng.integers(0x33000000, 0x48000000, 1 << 17, np.uint32),
        (np.arange(1 << 17, dtype=np.uint32) << 11) + 0x33000000,  # middles between f16
        np.arange(1 << 17, dtype=np.uint32) << 15,  # middles between bf16
    ]
    return np.concatenate(patterns).view(np.float32)


@HALVES
def test_casts_from_and_to_f32_are_exact(dtype: type) -> None:
    every = EVERY.view(dtype)
    with np.errstate(invalid="ignore"):
        wide = every.astype(np.float32)
    assert same(np.asarray(bz.jit(lambda x: x.astype(np.float32))(every)), wide).all()
    x = singles()
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype)
    assert same(np.asarray(bz.jit(lambda x: x.astype(dtype))(x)), wanted).all()


@pytest.mark.parametrize("dtype", [F16, BF16], ids=["f16", "bf16"])
def test_casts_need_no_instructions(dtype: DType) -> None:
    x = singles()
    every = EVERY.view(dtype)
    for source, kind in ((x, dtype), (every, F32)):
        b = Builder("casts", 16)
        given = b.memory("x", np.dtype(source.dtype), source.size, "in")
        found = b.memory("y", kind, source.size, "out")
        with b.region(), b.for_(0, source.size, 16) as i:
            b.store(found, i, b.cast(b.load(given, i, "unit"), kind), "unit")
        kernel = b.finish(1)
        check(kernel)
        old = (
            replace(host(), cpu="x86-64", features="+sse2", vector_bytes=16)
            if "x86" in host().triple
            else host()
        )
        with np.errstate(all="ignore"):
            wanted = source.astype(kind)
            out = agree(kernel, [source, np.zeros(source.size, kind)], target=old)[1]
        assert same(out, wanted).all()


def rounded(value: int | float, dtype: type) -> float:
    """The nearest half, ties to even, by exact arithmetic."""
    exact = Fraction(value)
    if exact == 0:
        return value
    mantissa, lowest, top = (11, -24, 65520) if dtype is np.float16 else (8, -133, (511 << 119))
    size = abs(exact)
    if size >= top:
        return float(np.copysign(np.inf, value))
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - mantissa - 1, lowest - 1)
    while size >= Fraction(2) ** (exponent + mantissa):
        exponent += 1
    exponent = max(exponent, lowest)
    unit = Fraction(2) ** exponent
    return float(np.copysign(float(round(size / unit) * unit), value))


@HALVES
@pytest.mark.parametrize(
    "source", [np.float64, np.int64, np.uint64, np.int32, np.uint32], ids=lambda t: t.__name__
)
def test_casts_from_wider_types_round_once(dtype: type, source: type) -> None:
    rng = np.random.default_rng(1)
    if source is np.float64:
        middles = np.arange(1, 4000) * 2.0 ** rng.integers(-140, 100, 3999)
        steps = rng.integers(-2, 3, 3999) * 2.0**-50
        x = np.concatenate([middles * (1 + steps), -middles, rng.standard_normal(2000)])
    else:
        info = np.iinfo(source)
        base = rng.integers(1, 1 << 10, 4000).astype(object) << rng.integers(0, info.bits - 10, 4000).astype(
            object
        )
        near = [int(v) + int(d) for v, d in zip(base, rng.integers(-2, 3, 4000))]
        signs = rng.integers(0, 2, 4000) if info.min < 0 else np.zeros(4000, int)
        x = np.array([int(np.clip(-v if s else v, info.min, info.max)) for v, s in zip(near, signs)], source)
    wanted = np.array([rounded(v, dtype) for v in x.tolist()])
    for target in ("cpu", "numpy"):
        found = np.asarray(bz.jit(lambda x: x.astype(dtype), target=target)(x)).astype(np.float64)
        wrong = found != wanted
        assert not wrong.any(), (target, x[wrong][:3], found[wrong][:3], wanted[wrong][:3])


@HALVES
def test_each_operation_rounds_and_equals_the_numpy_target(dtype: type) -> None:
    every = EVERY.view(dtype)
    other = np.random.default_rng(2).permutation(every)

    def exact(x, y):
        rows = x.reshape(256, 256)
        return [
            x + y * x - y, x / y, bnp.sqrt(x), -x, bnp.abs(x), bnp.maximum(x, y), bnp.minimum(x, y), x < y, x == y,
            bnp.floor(x), x * x * x, bnp.where(x > y, x, y), x.astype(np.int8), x.astype(np.uint32), x.astype(bool),
            rows.T, rows.max(0), rows.min(-1), bnp.concatenate([x, y]), x[::3], bnp.sign(x),
        ]  # fmt: skip

    found, wanted = (bz.jit(exact, target=target)(every, other) for target in ("cpu", "numpy"))
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype, k
        equal = same(a, b) if a.dtype == dtype else a == b
        assert equal.all(), (k, a[~equal][:3], b[~equal][:3])


FUNCTIONS = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "lgamma",
    "log",
    "log1p",
    "logistic",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]


@HALVES
def test_functions_of_every_value(dtype: type) -> None:
    """NaN where the NumPy target has it, whatever the bits of an operand's NaN, and the neighbour at most elsewhere."""
    every = EVERY.view(dtype)
    for name in FUNCTIONS:
        function = getattr(bz.lax, name)
        found, wanted = (np.asarray(bz.jit(function, target=t)(every)) for t in ("cpu", "numpy"))
        with np.errstate(invalid="ignore"):
            nan, expected = (np.isnan(r.astype(np.float32)) for r in (found, wanted))
        assert (nan == expected).all(), (name, every[nan != expected][:5])
        steps = np.abs(order(found) - order(wanted))[~nan]
        assert steps.max() <= 1, (name, every[~nan][steps.argmax()])


def order(x: np.ndarray) -> np.ndarray:
    """Numbers that count representable values; both zeros are 0."""
    bits = x.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


@HALVES
def test_moves_keep_the_bits_of_nan(dtype: type) -> None:
    every = EVERY.view(dtype)
    flipped = np.asarray(bz.jit(lambda x: bnp.where(x == x, x, -x))(every)).view(np.uint16)
    with np.errstate(invalid="ignore"):
        nan = np.isnan(every.astype(np.float32))
    np.testing.assert_array_equal(flipped, np.where(nan, EVERY ^ 0x8000, EVERY))


@HALVES
def test_sums_and_products_of_matrices_accumulate_in_f32(dtype: type) -> None:
    ones = np.ones((3, 5000), dtype)
    total = bz.jit(lambda x: x.sum(-1))(ones)
    assert (
        np.asarray(total).dtype == dtype
        and (np.asarray(total).astype(np.float32) == np.float32(dtype(5000))).all()
    )
    product = np.asarray(bz.jit(lambda x: x @ x.T)(ones)).astype(np.float32)
    assert (product == np.float32(dtype(5000))).all()


def softmax(x):
    e = bnp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@HALVES
def test_softmax_and_its_gradient(dtype: type) -> None:
    x = np.random.default_rng(3).standard_normal((7, 130)).astype(dtype)
    wide = np.asarray(bz.jit(softmax)(x.astype(np.float32)))
    found = np.asarray(bz.jit(softmax)(x))
    assert found.dtype == dtype
    np.testing.assert_allclose(found.astype(np.float32), wide, rtol=0.05 if dtype is not np.float16 else 0.01)
    grad = bz.jit(bz.grad(lambda x: (softmax(x) * x).sum()))
    a, b = (np.asarray(bz.jit(grad, target=t)(x)).astype(np.float32) for t in ("cpu", "numpy"))
    np.testing.assert_allclose(a, b, atol=0.02)
