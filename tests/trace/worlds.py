"""The same programs written once, for braze and for JAX: a world is a table of the functions they use."""

from __future__ import annotations

import types

import numpy as np

from braze import core
from braze.ops import control, elementwise, reduce, shape, transcendental
from braze.trace import grad as grad_module
from braze.trace import jaxpr as ir
from braze.trace.jvp import jvp
from braze.trace.linearize import linearize
from braze.trace.staging import trace_to_jaxpr
from braze.trace.vmap import vmap


def _types(values):
    return [core.typeof(v).strong for v in values]


def jit(f):
    def compiled(*args):
        closed, out_tree = trace_to_jaxpr(f, [core.typeof(a) for a in args])
        closed, captured = ir.lift_tracers(closed)
        found = core.bind(
            control.jit, *captured, *args, jaxpr=closed, name=f.__name__, inline=False, keep_unused=False,
            donated_invars=(False,) * (len(captured) + len(args)),
        )  # fmt: skip
        return out_tree.unflatten(found)

    return compiled


def scan(f, init, xs, reverse=False):
    row = core.typeof(xs)
    body, _ = trace_to_jaxpr(f, [*_types([init]), row.strong.with_(shape=row.shape[1:])])
    body, consts = ir.consts_as_inputs(body)
    return tuple(
        core.bind(
            control.scan, *consts, init, xs, jaxpr=body, num_consts=len(consts), num_carry=1,
            length=row.shape[0], reverse=reverse, unroll=1,
        )
    )  # fmt: skip


def switch(index, branches, *operands):
    closed = [trace_to_jaxpr(f, _types(operands))[0] for f in branches]
    closed, consts = ir.common_consts(closed)
    return core.bind(control.cond, index, *consts, *operands, branches=tuple(closed))[0]


def while_loop(condition, step, init):
    cond, cond_consts = ir.consts_as_inputs(trace_to_jaxpr(condition, _types([init]))[0])
    body, body_consts = ir.consts_as_inputs(trace_to_jaxpr(step, _types([init]))[0])
    return core.bind(
        control.while_, *cond_consts, *body_consts, init, cond_jaxpr=cond, body_jaxpr=body,
        cond_nconsts=len(cond_consts), body_nconsts=len(body_consts),
    )[0]  # fmt: skip


def total(x):
    return reduce.reduce_sum(x, axes=tuple(range(core.typeof(x).ndim)))


def stack(*xs):
    rows = [shape.reshape(x, shape=(1, *core.typeof(x).shape)) for x in xs]
    return shape.concatenate(*rows, dimension=0)


BRAZE = types.SimpleNamespace(
    name="braze", jit=jit, scan=scan, switch=switch, while_loop=while_loop, total=total, stack=stack,
    add=elementwise.add, sub=elementwise.sub, mul=elementwise.mul, div=elementwise.div, sin=transcendental.sin,
    cos=transcendental.cos, exp=transcendental.exp, tanh=transcendental.tanh, max=elementwise.max, lt=elementwise.lt,
    power=lambda x, n: elementwise.integer_pow(x, y=n),
    where=lambda c, x, y: elementwise.select_n(c, y, x),
    to_int=lambda c: elementwise.convert_element_type(c, new_dtype=np.dtype("int32"), weak_type=False),
    jvp=jvp, vmap=vmap, linearize=linearize, grad=grad_module.grad, vjp=grad_module.vjp,
    value_and_grad=grad_module.value_and_grad, jacfwd=grad_module.jacfwd, jacrev=grad_module.jacrev,
    hessian=grad_module.hessian,
)  # fmt: skip


def jax_world():
    """The same table for JAX; None where it is not installed."""
    try:
        import jax
    except ImportError:
        return None
    import jax.numpy as jnp
    from jax import lax

    return types.SimpleNamespace(
        name="jax", jit=jax.jit, scan=lax.scan, switch=lax.switch, while_loop=lax.while_loop, total=jnp.sum,
        stack=lambda *xs: jnp.stack(xs), add=lax.add, sub=lax.sub, mul=lax.mul, div=lax.div, sin=lax.sin,
        cos=lax.cos, exp=lax.exp, tanh=lax.tanh, max=lax.max, lt=lax.lt, power=lax.integer_pow,
        where=lambda c, x, y: lax.select(c, x, y), to_int=lambda c: lax.convert_element_type(c, np.int32),
        jvp=jax.jvp, vmap=jax.vmap, linearize=jax.linearize, grad=jax.grad, vjp=jax.vjp,
        value_and_grad=jax.value_and_grad, jacfwd=jax.jacfwd, jacrev=jax.jacrev, hessian=jax.hessian,
    )  # fmt: skip
