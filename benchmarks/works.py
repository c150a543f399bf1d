"""The works of the speed table: one formula each, written once for every library that speaks NumPy.

A work gives, per library, a function that does it n times. Inputs are made before, in each library's own
arrays; JAX's calls end with `block_until_ready`, braze's and NumPy's are done when they return. The loop over
the n calls is inside, so that calls of some dozens of nanoseconds are not measured through another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Repeat = Callable[[int], None]


@dataclass(frozen=True)
class Work:
    """A row of the table.

    Attributes:
        bars: JAX's time over braze's, wanted on one core and on two.
        formula: `formula(xp, lax) -> function`, for braze.numpy, jax.numpy and numpy.
        inputs: shapes of its f32 inputs, or arrays.
        peers: libraries beside JAX that run the same formula.
        number: calls per measurement, for works far shorter than the clock's grain.
    """

    name: str
    bars: tuple[float, float]
    formula: Callable[[Any, Any], Callable[..., Any]]
    inputs: Callable[[], Sequence[Any]]
    peers: tuple[str, ...] = ("jax", "numpy")
    number: int = 1


def normal(*shapes: tuple[int, ...]) -> Callable[[], Sequence[Any]]:
    rng = np.random.default_rng(0)
    return lambda: [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def halved(*shapes: tuple[int, ...]) -> Callable[[], Sequence[Any]]:
    """The same in bf16."""
    make = normal(*shapes)

    def inputs() -> Sequence[Any]:
        import ml_dtypes

        return [x.astype(ml_dtypes.bfloat16) for x in make()]

    return inputs


def places() -> np.ndarray[Any, Any]:
    """100,000 indices below 10,000."""
    return np.random.default_rng(1).integers(0, 10_000, 100_000).astype(np.int32)


def softmax(xp: Any, lax: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    return f


def log_softmax(xp: Any, lax: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        s = x - xp.max(x, axis=-1, keepdims=True)
        return s - xp.log(xp.sum(xp.exp(s), axis=-1, keepdims=True))

    return f


def layernorm(xp: Any, lax: Any) -> Callable[..., Any]:
    def f(x: Any, g: Any, b: Any) -> Any:
        c = x - xp.mean(x, axis=-1, keepdims=True)
        return c / xp.sqrt(xp.mean(c * c, axis=-1, keepdims=True) + 1e-5) * g + b

    return f


def logsumexp(xp: Any, lax: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        m = xp.max(x, axis=-1, keepdims=True)
        return (m + xp.log(xp.sum(xp.exp(x - m), axis=-1, keepdims=True)))[:, 0]

    return f


def sum_over(axis: int | None) -> Callable[[Any, Any], Callable[..., Any]]:
    return lambda xp, lax: lambda x: xp.sum(x, axis=axis)


def reduced(name: str, axis: int) -> Callable[[Any, Any], Callable[..., Any]]:
    return lambda xp, lax: lambda x: getattr(xp, name)(x, axis)


def normal_numbers(xp: Any, lax: Any) -> Callable[..., Any]:
    if lax.__name__.startswith("braze"):
        from braze import random
    else:
        from jax import random  # type: ignore[no-redef]
    return lambda key: random.normal(key, (1_000_000,))


def loop(xp: Any, lax: Any) -> Callable[..., Any]:
    return lambda s: lax.fori_loop(0, 10_000, lambda i, s: s * 0.999 + xp.sin(s), s)


def scan_loss(xp: Any, lax: Any) -> Callable[..., Any]:
    """The loss whose gradient is taken: 1,000 steps of 60 scalars, each pulled a little by its neighbour."""

    def step(carry: dict[str, Any], _: Any) -> tuple[dict[str, Any], None]:
        keys = sorted(carry)
        following = [*keys[1:], keys[0]]
        return {k: carry[k] * 0.999 + xp.sin(carry[n]) * 0.01 for k, n in zip(keys, following)}, None

    def f(p: dict[str, Any]) -> Any:
        last, _ = lax.scan(step, p, None, length=1000)
        return sum(last[k] ** 2 for k in sorted(last))

    return f


def scalars() -> Sequence[Any]:
    return [{f"k{i:02}": np.float32(i / 60) for i in range(60)}]


ALL = ("jax", "numpy", "torch", "numba")
WORKS: tuple[Work, ...] = (
    Work("x**4 + 1, scalar, per call", (100, 100), lambda xp, lax: lambda x: x**4 + 1, normal(()), ALL, 200),
    Work("x**4 + 1, f32[4], per call", (100, 100), lambda xp, lax: lambda x: x**4 + 1, normal((4,)), ALL, 200),
    Work("x**4 + 1, dict of four f32[4], per call", (30, 30),
         lambda xp, lax: lambda d: {k: v**4 + 1 for k, v in d.items()},
         lambda: [dict(zip("abcd", normal((4,), (4,), (4,), (4,))(), strict=True))], ("jax",), 200),
    Work("a*sin(x)+b, 1M f32", (6, 8), lambda xp, lax: lambda a, x, b: a * xp.sin(x) + b,
         normal((1 << 20,), (1 << 20,), (1 << 20,)), ALL),
    Work("a*sin(x)+b, 16K f32", (6, 6), lambda xp, lax: lambda a, x, b: a * xp.sin(x) + b,
         normal((1 << 14,), (1 << 14,), (1 << 14,)), ALL, 10),
    Work("softmax, 1024x1024", (1.7, 2.2), softmax, normal((1024, 1024)), ("jax", "numpy", "torch")),
    Work("log-softmax, 1024x1024", (1.7, 2.2), log_softmax, normal((1024, 1024)), ("jax", "numpy", "torch")),
    Work("layernorm, 1024x1024", (1.9, 2.6), layernorm, normal((1024, 1024), (1024,), (1024,)), ("jax", "numpy", "torch")),
    Work("logsumexp, 1024x1024", (1.9, 2.6), logsumexp, normal((1024, 1024)), ("jax", "numpy", "torch")),
    Work("softmax, 128x512", (3, 3), softmax, normal((128, 512)), ("jax", "numpy", "torch"), 5),
    Work("layernorm, 128x512", (4, 4), layernorm, normal((128, 512), (512,), (512,)), ("jax", "numpy", "torch"), 5),
    Work("logsumexp, 128x512", (4, 4), logsumexp, normal((128, 512)), ("jax", "numpy", "torch"), 5),
    Work("bf16 softmax, 1024x1024", (2, 2), softmax, halved((1024, 1024)), ("jax",)),
    Work("bf16 layernorm, 1024x1024", (2, 2), layernorm, halved((1024, 1024), (1024,), (1024,)), ("jax",)),
    Work("sum over axis 0, 1024x1024", (1.7, 2.5), sum_over(0), normal((1024, 1024)), ("jax", "numpy", "torch"), 3),
    Work("sum over axis 1, 1024x1024", (1.7, 2.5), sum_over(1), normal((1024, 1024)), ("jax", "numpy", "torch"), 3),
    Work("sum over all, 1024x1024", (1.7, 2.5), sum_over(None), normal((1024, 1024)), ("jax", "numpy", "torch"), 3),
    *(Work(f"{name} over axis {axis}, 1024x1024", (1.7, 1.7), reduced(name, axis), normal((1024, 1024)), ("jax", "numpy"), 3)
      for name in ("prod", "max", "argmax", "mean", "var") for axis in (0, 1)),
    Work("cumsum, 1M", (3, 3), lambda xp, lax: lambda x: xp.cumsum(x), normal((1 << 20,)), ("jax", "numpy")),
    *(Work(f"cumsum over axis {axis}, 1024x1024", (3, 3), reduced("cumsum", axis), normal((1024, 1024)), ("jax", "numpy"))
      for axis in (0, 1)),
    Work("sort, 1M f32", (3, 3), lambda xp, lax: lambda x: xp.sort(x), normal((1 << 20,)), ("jax", "numpy")),
    Work("scatter-add, 100k updates into 10k bins", (2, 2), lambda xp, lax: lambda x, i, u: x.at[i].add(u),
         lambda: (np.zeros(10_000, np.float32), places(), normal((100_000,))()[0]), ("jax",)),
    Work("gather, 100k rows of 64 f32", (1.5, 1.5), lambda xp, lax: lambda x, i: x[i],
         lambda: (normal((10_000, 64))()[0], places()), ("jax", "numpy")),
    Work("argsort over axis 1, 1024x1024", (3, 3), reduced("argsort", 1), normal((1024, 1024)), ("jax", "numpy")),
    Work("normal, 1M", (2, 2), normal_numbers, lambda: [np.array([0, 7], np.uint32)], ("jax",)),
    Work("x + 1, 64 MB", (3, 3), lambda xp, lax: lambda x: x + 1, normal((16 << 20,)), ALL),
    Work("fori_loop, 10,000 steps on 16 elements", (20, 20), loop, normal((16,)), ("jax",)),
    Work("grad through scan, 1,000 steps of 60 scalars", (10, 10), scan_loss, scalars, ("jax",)),
)  # fmt: skip


def compiled(work: Work, library: str) -> Repeat:
    """The work in a library, inputs in place."""
    return {"braze": _braze, "jax": _jax, "numpy": _numpy, "torch": _torch, "numba": _numba}[library](work)


def _repeat(f: Callable[..., Any], args: Sequence[Any]) -> Repeat:
    def one(n: int, f: Callable[..., Any] = f, x: Any = args[0]) -> None:
        for _ in range(n):
            f(x)

    def several(n: int) -> None:
        for _ in range(n):
            f(*args)

    return one if len(args) == 1 else several


def _differentiated(work: Work, f: Callable[..., Any], grad: Any) -> Callable[..., Any]:
    return grad(f) if work.formula is scan_loss else f  # type: ignore[no-any-return]


def _braze(work: Work) -> Repeat:
    import braze as bz
    import braze.numpy as bnp

    f = bz.jit(_differentiated(work, work.formula(bnp, bz.lax), bz.grad))
    return _repeat(f, bz.device_put(list(work.inputs())))


def _jax(work: Work) -> Repeat:
    import jax
    import jax.numpy as jnp

    f = jax.jit(_differentiated(work, work.formula(jnp, jax.lax), jax.grad))
    args = jax.device_put(list(work.inputs()))
    if isinstance(args[0], dict):

        def trees(n: int) -> None:
            for _ in range(n):
                jax.block_until_ready(f(*args))

        return trees

    def arrays(n: int) -> None:
        for _ in range(n):
            f(*args).block_until_ready()

    return arrays


def _numpy(work: Work) -> Repeat:
    return _repeat(work.formula(np, None), work.inputs())


class _TorchNumpy:
    """The few names that the formulas use, on torch."""

    def __init__(self) -> None:
        import torch

        self.exp, self.log, self.sin, self.sqrt = torch.exp, torch.log, torch.sin, torch.sqrt
        self._torch = torch

    def max(self, x: Any, axis: int, keepdims: bool) -> Any:
        return self._torch.amax(x, dim=axis, keepdim=keepdims)

    def mean(self, x: Any, axis: int, keepdims: bool) -> Any:
        return self._torch.mean(x, dim=axis, keepdim=keepdims)

    def sum(self, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        return self._torch.sum(x) if axis is None else self._torch.sum(x, dim=axis, keepdim=keepdims)


def _torch(work: Work) -> Repeat:
    import torch

    f = work.formula(_TorchNumpy(), None)
    return _repeat(f, [torch.from_numpy(np.asarray(a)) for a in work.inputs()])


def _numba(work: Work) -> Repeat:
    import numba

    f = numba.njit(work.formula(np, None))
    return _repeat(f, [a if a.shape else a[()] for a in map(np.asarray, work.inputs())])
