"""`braze.debug`: effects of compiled programs: `print` and `callback`, in program order."""

from __future__ import annotations

import builtins
import string
from collections.abc import Callable
from typing import Any

from braze import core, errors, tree
from braze.core import bind
from braze.ops import control


def callback(callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call a Python function with the values of arrays when the program gets here.

    Args:
        callback: called with NumPy arrays in place of the arrays; what it returns is dropped.
        ordered: accepted for JAX's sake; effects always happen in program order.
    Raises: what the function raises, from the call of the compiled function.
    """
    leaves, in_tree = tree.flatten((args, kwargs))
    static = {i: leaf for i, leaf in enumerate(leaves) if not _is_value(leaf)}
    dynamic = [leaf for i, leaf in enumerate(leaves) if i not in static]

    def flat(*values: Any) -> None:
        given = iter(values)
        found = [static[i] if i in static else next(given) for i in range(len(leaves))]
        positional, named = in_tree.unflatten(found)
        callback(*positional, **named)

    bind(control.debug_callback, *dynamic, callback=flat, ordered=bool(ordered))


def _is_value(leaf: Any) -> bool:
    try:
        core.typeof(leaf)
    except errors.BrazeError:
        return False
    return True


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print a format string with the values of arrays when the program gets here.

    >>> from braze import jit
    >>> @jit
    ... def f(x):
    ...     print("x is {}", x)
    ...     return x + 1
    >>> _ = f(1.0)
    x is 1.0
    """
    _check_format(fmt, args, kwargs)

    def show(*values: Any, **named: Any) -> None:
        builtins.print(fmt.format(*values, **named))

    callback(show, *args, ordered=ordered, **kwargs)


def _check_format(fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise now for fields without a value, rather than inside the running program."""
    if not isinstance(fmt, str):
        raise errors.ArgumentError(f"debug.print: a format string is wanted, not {type(fmt).__name__}.")
    position = 0
    for _, field, _, _ in string.Formatter().parse(fmt):
        if field is None:
            continue
        name = field.split(".")[0].split("[")[0]
        if name == "":
            name, position = str(position), position + 1
        known = int(name) < len(args) if name.isdigit() else name in kwargs
        if not known:
            raise errors.ArgumentError(
                f"debug.print: the format {fmt!r} has a field {{{name}}} without a value.",
                hint="pass the value as an argument; f-strings would format the tracer instead.",
            )
