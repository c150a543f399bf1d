"""What the tests of arrays and calls share: both implementations, and programs written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from braze import dtypes, knobs, tree
from braze.runtime import array as arrays
from braze.runtime import dispatch, engine
from braze.runtime.descriptor import Descriptor
from braze.runtime.services import services
from braze.target import Target
from braze.types import TensorType

BOTH = ("native", "python")
F4 = TensorType((4,), dtypes.F32)
LEAF = tree.structure(0)


@contextmanager
def using(name: str) -> Iterator[None]:
    """Make new arrays and functions of one implementation."""
    before = arrays._CHOSEN[:], dispatch._CHOSEN[:]
    arrays._CHOSEN.clear(), dispatch._CHOSEN.clear()
    try:
        if name == "python":
            arrays._CHOSEN.append(arrays.python_implementation())
            dispatch._CHOSEN.append(dispatch.python_implementation())
        assert arrays.implementation().name == dispatch.implementation().name == name
        yield
    finally:
        arrays._CHOSEN[:], dispatch._CHOSEN[:] = before


def _add_one(name: str, count: int) -> str:
    """An entry that adds one to each of `count` f32[4]."""
    lines = [f"define i32 @{name}(ptr %context, ptr %in, ptr %out) {{"]
    for i in range(count):
        lines += [
            f"  %a{i} = getelementptr ptr, ptr %in, i64 {i}",
            f"  %p{i} = load ptr, ptr %a{i}",
            f"  %v{i} = load <4 x float>, ptr %p{i}, align 4",
            f"  %c{i} = fadd <4 x float> %v{i}, splat (float 1.0)",
            f"  %b{i} = getelementptr ptr, ptr %out, i64 {i}",
            f"  %q{i} = load ptr, ptr %b{i}",
            f"  store <4 x float> %c{i}, ptr %q{i}, align 4",
        ]
    return "\n".join([*lines, "  ret i32 0", "}"])


# add(x, y) on f32[4]; copy of 4, 8 and 16 bytes; a big fill that writes its result in place of its input;
# one that calls Python; two that fail.
_PROGRAMS = """
declare i32 @braze_host(ptr, i32, ptr, ptr)

define i32 @add(ptr %context, ptr %in, ptr %out) {
  %a = load ptr, ptr %in
  %second = getelementptr ptr, ptr %in, i64 1
  %b = load ptr, ptr %second
  %x = load <4 x float>, ptr %a, align 4
  %y = load <4 x float>, ptr %b, align 4
  %z = fadd <4 x float> %x, %y
  %c = load ptr, ptr %out
  store <4 x float> %z, ptr %c, align 4
  ret i32 0
}

define i32 @increment_many(ptr %context, ptr %in, ptr %out) {
entry:
  %a = load ptr, ptr %in
  %c = load ptr, ptr %out
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %p
  %y = fadd float %x, 1.0
  %q = getelementptr float, ptr %c, i64 %i
  store float %y, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 1000
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}

define i32 @host(ptr %context, ptr %in, ptr %out) {
  %status = call i32 @braze_host(ptr %context, i32 7, ptr %in, ptr %out)
  ret i32 %status
}

define i32 @broken(ptr %context, ptr %in, ptr %out) {
  ret i32 2
}
"""


def _copy(nbytes: int) -> str:
    return f"""define i32 @copy{nbytes}(ptr %context, ptr %in, ptr %out) {{
  %a = load ptr, ptr %in
  %c = load ptr, ptr %out
  %x = load i{8 * nbytes}, ptr %a, align 1
  store i{8 * nbytes} %x, ptr %c, align 1
  ret i32 0
}}"""


@cache
def _library() -> engine.Library:
    text = "\n".join(
        [_PROGRAMS, *(_add_one(f"one{n}", n) for n in (1, 2, 4, 40)), *map(_copy, (1, 2, 4, 8, 16))]
    )
    image = engine.compile_object(text, Target("cpu", triple=engine.process_triple()))
    library = engine.load(image, services().symbols, "tests")
    engine.keep_forever(library)
    return library


def descriptor(
    name: str, inputs: int, outputs: int, *, flags: int = 0, host: Any = None, arena: int = 0
) -> Descriptor:
    """A program of `_PROGRAMS`; the caller keeps `host`, which the descriptor borrows."""
    made = Descriptor(_library().address(name), arena, 0, 1, flags, None, inputs, outputs)
    if host is not None:
        made.host = id(host)
    return made


def array(*values: float, weak: bool = False) -> Any:
    data = np.array(values, np.float32)
    return arrays.from_numpy(data, copy=True, aval=TensorType(data.shape, dtypes.F32, weak))


def values(result: Any) -> list[Any]:
    return arrays.to_numpy(result).tolist()  # type: ignore[no-any-return]


class Misses(list[Any]):
    """A slow path that notes its arguments and gives `"slow"`."""

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        self.append((args, kwargs))
        return "slow"


def function(*entries: dispatch.Entry, slow: Any = None) -> Any:
    """A function with entries; the first is tried first."""

    def wrapped(*args: Any, **kwargs: Any) -> None:
        """Documented."""

    made = dispatch.make_function(Misses() if slow is None else slow, wrapped)
    for entry in reversed(entries):
        dispatch.add_entry(made, entry)
    return made


def entry(
    *args: Any,
    program: Descriptor | str = "one1",
    results: tuple[TensorType, ...] = (F4,),
    result: Any = 0,
    kwargs: dict[str, Any] | None = None,
    donated: tuple[int, ...] = (),
    **more: Any,
) -> dispatch.Entry:
    """An entry for arguments like these; `result` is an example of the structure of the result."""
    named = kwargs or {}
    trees = tuple(map(tree.structure, (*args, *named.values())))
    leaves = [leaf for value in (*args, *named.values()) for leaf in tree.leaves(value)]
    if isinstance(program, str):
        program = descriptor(program, len(leaves), len(results))
    return dispatch.Entry(
        positional=len(args),
        keywords=tuple(named),
        arguments=trees,
        leaves=tuple(dispatch.leaf_for(v, i, donated=i in donated) for i, v in enumerate(leaves)),
        results=results,
        result=tree.structure(result),
        descriptor=program,
        epoch=knobs.epoch(),
        name="f",
        **more,
    )
