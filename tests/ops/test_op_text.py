"""Attributes print in jaxprs under JAX's names and in JAX's order."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from braze.dtypes import F32, I32
from braze.ops import cumulative, dot, elementwise, indexing, reduce, shape, sorting, transcendental, windows
from braze.trace.staging import stage
from braze.types import TensorType

ZERO, ONE = np.float32(0), np.float32(1)
INDICES = np.array([[2], [0]], np.int32)
DOT = {"lhs_batching_dimensions": (0,), "rhs_batching_dimensions": (0,), "lhs_contracting_dimensions": (1,),
       "rhs_contracting_dimensions": (1,), "dtype": F32, "precision": None}  # fmt: skip

WINDOW = {"window_dimensions": (2, 2), "window_strides": (1, 2), "padding": ((0, 1), (1, 0)),
          "base_dilation": (1, 1), "window_dilation": (1, 1)}  # fmt: skip

CASES: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda x: elementwise.integer_pow(x, y=3), lambda x: lax.integer_pow(x, 3)),
    (lambda x: elementwise.round(x, rounding_method=1), lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
    (lambda x: elementwise.convert_element_type(x, new_dtype=I32, weak_type=False),
     lambda x: lax.convert_element_type(x, np.int32)),
    (lambda x: elementwise.bitcast_convert_type(x, dtype=I32), lambda x: lax.bitcast_convert_type(x, np.int32)),
    (lambda x: elementwise.clamp(ZERO, x, ONE), lambda x: lax.clamp(ZERO, x, ONE)),
    (lambda x: elementwise.select_n(elementwise.gt(x, ZERO), x, x), lambda x: lax.select_n(lax.gt(x, ZERO), x, x)),
    (lambda x: shape.iota(iota_dimension=1, shape=(3, 4), dtype=I32),
     lambda x: lax.broadcasted_iota(np.int32, (3, 4), 1)),
    (lambda x: shape.broadcast_in_dim(x, shape=(2, 3, 4), broadcast_dimensions=(1, 2)),
     lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1, 2))),
    (lambda x: shape.broadcast_in_dim(ONE, shape=(2, 3), broadcast_dimensions=()),
     lambda x: lax.broadcast_in_dim(ONE, (2, 3), ())),
    (lambda x: shape.reshape(x, shape=(12,)), lambda x: lax.reshape(x, (12,))),
    (lambda x: shape.squeeze(shape.reshape(x, shape=(1, 12)), dimensions=(0,)),
     lambda x: lax.squeeze(lax.reshape(x, (1, 12)), (0,))),
    (lambda x: shape.transpose(x, permutation=(1, 0)), lambda x: lax.transpose(x, (1, 0))),
    (lambda x: shape.slice(x, start_indices=(0, 1), limit_indices=(2, 3), strides=(1, 1)),
     lambda x: lax.slice(x, (0, 1), (2, 3))),
    (lambda x: shape.slice(x, start_indices=(0, 1), limit_indices=(2, 3), strides=(1, 2)),
     lambda x: lax.slice(x, (0, 1), (2, 3), (1, 2))),
    (lambda x: shape.concatenate(x, x, dimension=0), lambda x: lax.concatenate([x, x], 0)),
    (lambda x: shape.pad(x, ZERO, low=(0, -1), high=(1, 0), interior=(2, 0)),
     lambda x: lax.pad(x, ZERO, ((0, 1, 2), (-1, 0, 0)))),
    (lambda x: shape.rev(x, dimensions=(0,)), lambda x: lax.rev(x, (0,))),
    (lambda x: shape.dynamic_slice(x, np.int32(1), np.int32(2), slice_sizes=(2, 2)),
     lambda x: lax.dynamic_slice(x, (np.int32(1), np.int32(2)), (2, 2))),
    (lambda x: reduce.reduce_sum(x, axes=(0,)), lambda x: jnp.sum(x, 0)),
    (lambda x: indexing.gather(x, INDICES, dimension_numbers=indexing.GatherDimensionNumbers((1,), (0,), (0,)),
                               slice_sizes=(1, 4), indices_are_sorted=False, unique_indices=True,
                               mode=indexing.GatherScatterMode.CLIP, fill_value=None),
     lambda x: lax.gather(x, INDICES, lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4), unique_indices=True,
                          mode="clip")),
    (lambda x: reduce.argmax(x, axes=(0,), index_dtype=I32), lambda x: lax.argmax(x, 0, np.int32)),
    (lambda x: transcendental.erf_inv(x), lambda x: lax.erf_inv(x)),
    (lambda x: cumulative.cumsum(x, axis=1, reverse=True), lambda x: lax.cumsum(x, 1, reverse=True)),
    (lambda x: cumulative.cumlogsumexp(x, axis=0, reverse=False), lambda x: lax.cumlogsumexp(x, 0)),
    (lambda x: sorting.sort(x, x, dimension=1, is_stable=True, num_keys=2)[1], lambda x: lax.sort((x, x), 1, num_keys=2)[1]),
    (lambda x: windows.reduce_window_max(x, **WINDOW),
     lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 2), ((0, 1), (1, 0)))),
    (lambda x: dot.dot_general(x, x, **DOT),
     lambda x: lax.dot_general(x, x, (((1,), (1,)), ((0,), (0,))), preferred_element_type=np.float32)),
]  # fmt: skip


def plain(text: str) -> str:
    """On one line, without the parameters that braze lacks."""
    return re.sub(r"\s+", " ", re.sub(r" ?(out_)?sharding=None", "", text))


@pytest.mark.parametrize(("ours", "theirs"), CASES)
def test_equation_prints_as_jax_prints_it(ours: Callable[[Any], Any], theirs: Callable[[Any], Any]) -> None:
    x = np.ones((3, 4), np.float32)
    closed = stage(lambda v: [ours(v)], [TensorType(x.shape, F32)], name="f")
    assert plain(str(closed)) == plain(str(jax.make_jaxpr(theirs)(x)))
