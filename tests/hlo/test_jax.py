"""What JAX lowers, braze reads and runs, with and without locations; braze's text is JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from braze.hlo import parse  # noqa: E402
from braze.hlo.evaluate import evaluate  # noqa: E402
from braze.hlo.ir import equal  # noqa: E402
from braze.hlo.text import print_module  # noqa: E402
from braze.hlo.verify import verify  # noqa: E402

jnp, lax = jax.numpy, jax.lax


def softmax(x: Any) -> Any:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def loop(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda i, s: s * 0.5 + x[i].sum(), x.sum())


def scanned(x: Any) -> Any:
    return lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(3), x)


def branches(x: Any) -> Any:
    return lax.switch(x[0, 0].astype(int), [jnp.sin, jnp.cos, lambda y: y + 1], x)


def shapes(x: Any) -> Any:
    y = jnp.concatenate([x[:, :2], x[1:, ::2]], axis=0)[:, ::-1]
    return (
        jnp.pad(y, ((1, 2), (0, 1)), constant_values=3),
        lax.dynamic_slice(x, (1, 0), (2, 2)),
        x.reshape(-1),
    )


def updates(x: Any) -> Any:
    return lax.dynamic_update_slice(x, jnp.ones((2, 2)), (1, 1)), jnp.where(x > 1, x, -x), jnp.clip(x, 0, 1)


def matmul(x: Any) -> Any:
    return x @ x.T, jnp.einsum("bij,bjk->bik", x[None], x.T[None]), jnp.argmax(x, axis=1)


def through_grad(x: Any) -> Any:
    return jax.grad(lambda y: jnp.sum(jnp.tanh(y) @ jnp.ones((3, 2)) ** 2))(x)


def numbers(x: Any) -> Any:
    i = x.astype(jnp.int32)
    return i // 2, i % 3, i << 1, (i > 0) & (i < 3), jnp.arange(7), jnp.float16(x) + 1, x.astype(jnp.uint8)


def windows(x: Any) -> Any:
    pooled = lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 2), ((0, 1), (1, 0)), window_dilation=(2, 1))
    grad = jax.grad(lambda y: lax.reduce_window(y, -jnp.inf, lax.max, (2, 2), (1, 1), "SAME").sum())(x)
    return pooled, grad, jnp.cumsum(x, 0), lax.cumprod(x, 1, reverse=True)


PROGRAMS = [windows, softmax, loop, scanned, branches, shapes, updates, matmul, through_grad, numbers]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_of_jax_run(f: Callable[[Any], Any]) -> None:
    x = np.linspace(0, 2.5, 12, dtype=np.float32).reshape(4, 3)
    lowered = jax.jit(f).lower(x)
    module = parse(lowered.as_text())
    verify(module)
    assert equal(parse(lowered.as_text(debug_info=True)), module)
    assert equal(parse(lowered.compiler_ir().operation.get_asm(print_generic_op_form=True)), module)
    assert print_module(module) == lowered.as_text()
    for got, want in zip(evaluate(module, [x]), jax.tree.leaves(jax.jit(f)(x)), strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=2e-6, atol=1e-6)


def test_donation_prints_as_jax_prints_it() -> None:
    text = jax.jit(scanned, donate_argnums=0).lower(np.zeros((4, 3), np.float32)).as_text()
    assert print_module(parse(text)) == text
