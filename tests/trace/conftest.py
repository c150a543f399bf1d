"""Runs operations by their `numpy` facets where nothing else has been set to run them."""

from __future__ import annotations

import numpy as np

import braze
import braze.ops  # noqa: F401
from braze import core
from braze.trace import jaxpr as ir


def _run(closed, *args):
    return ir.evaluate(closed.jaxpr, closed.consts, *args)


def _while(args, attrs):
    nc, nb = attrs["cond_nconsts"], attrs["body_nconsts"]
    cond_consts, body_consts, state = args[:nc], args[nc : nc + nb], args[nc + nb :]
    while bool(_run(attrs["cond_jaxpr"], *cond_consts, *state)[0]):
        state = _run(attrs["body_jaxpr"], *body_consts, *state)
    return list(state)


def _scan(args, attrs):
    nc, carry = attrs["num_consts"], attrs["num_carry"]
    consts, state, xs = args[:nc], list(args[nc : nc + carry]), args[nc + carry :]
    types = attrs["jaxpr"].out_avals[carry:]
    ys = [np.zeros((attrs["length"], *t.shape), t.dtype) for t in types]
    steps = range(attrs["length"])
    for i in reversed(steps) if attrs["reverse"] else steps:
        found = _run(attrs["jaxpr"], *consts, *state, *[np.asarray(x)[i] for x in xs])
        state = found[:carry]
        for y, value in zip(ys, found[carry:]):
            y[i] = np.asarray(value)
    return [*state, *ys]


def _cond(args, attrs):
    index, branches = int(np.asarray(args[0])), attrs["branches"]
    return _run(branches[index if 0 <= index < len(branches) else -1], *args[1:])


def eager(op, args, attrs):
    if op.name == "jit":
        return _run(attrs["jaxpr"], *args)
    if op.name in ("while", "scan", "cond"):
        return {"while": _while, "scan": _scan, "cond": _cond}[op.name](args, attrs)
    types = [core.typeof(a) for a in args]
    wanted = core.infer(op, types, attrs)
    found = op.numpy(*[np.asarray(a, t.dtype) for a, t in zip(args, types)], **attrs)
    results = list(found) if op.multiple_results else [found]
    for value, t in zip(results, wanted):
        assert np.shape(value) == t.shape and np.asarray(value).dtype == t.dtype, (op, types, t)
    return results


if not core._EAGER:
    core.set_eager(eager)
