"""Containers of a call as words for a small machine: how arguments are taken apart and results built.

From `tree.PyTreeDef` to the two readers, in machine code (`dispatch_native`) and in Python
(`dispatch_python`). A program is the structure in preorder:

| word | followed by | arguments | results |
|---|---|---|---|
| LEAF | | the next leaf | the next result |
| NONE | | must be None | None |
| TUPLE | n | a tuple of n | a tuple |
| LIST | n | a list of n | a list |
| DICT | n, then n times key and child | a dict with exactly these keys | a dict |
| NAMED | class, n | an instance of exactly this class with n items | |
| CALL | container, auxiliary data, n | | `unflatten(auxiliary data, children)` |

Invariants:
- Types are compared exactly: a subclass of dict is another structure.
- Keys of dicts are exact str or int, so that looking one up runs no code of the user's.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from braze.tree import PyTreeDef

LEAF, NONE, TUPLE, LIST, DICT, NAMED, CALL = range(7)


class Reference:
    """An object in a program; the wrapper tells an int key from a number of the program."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


Program: TypeAlias = tuple[Any, ...]
"""Words: numbers, and references to objects."""


def arguments(trees: tuple[PyTreeDef, ...]) -> Program | None:
    """The program that takes one call's arguments apart, or None where a container is of another kind."""
    words: list[Any] = []
    for tree in trees:
        if not _arguments(tree, words):
            return None
    return tuple(words)


def _arguments(tree: PyTreeDef, words: list[Any]) -> bool:
    keys: list[Any] = []  # keys of children yet to come, the next one last; None where there is no key
    for container, arity, aux in tree.nodes:
        key = keys.pop() if keys else None
        if key is not None:
            words.append(key)
        children: tuple[Any, ...] = (None,) * arity
        match _kind(container, aux):
            case None:
                return False
            case (head, *more):
                if head == DICT:
                    if any(type(k) not in (str, int) for k in aux):
                        return False
                    children = tuple(Reference(k) for k in aux)
                words += [head, *more] if head in (LEAF, NONE) else [head, *more, arity]
        keys.extend(reversed(children))
    return True


def _kind(container: Any, aux: Any) -> Program | None:
    if container is None:
        return (LEAF,)
    if container.cls is tuple and aux is not None:
        return (NAMED, Reference(aux))
    simple = {tuple: TUPLE, list: LIST, dict: DICT, type(None): NONE}.get(container.cls)
    return None if simple is None else (simple,)


def results(tree: PyTreeDef) -> Program:
    """The program that builds the result of a call; every structure has one."""
    words: list[Any] = []
    keys: list[Any] = []
    for container, arity, aux in tree.nodes:
        key = keys.pop() if keys else None
        if key is not None:
            words.append(key)
        children: tuple[Any, ...] = (None,) * arity
        match _kind(container, aux):
            case (head,) if head in (LEAF, NONE):
                words.append(head)
            case (head,):
                if head == DICT:
                    children = tuple(Reference(k) for k in aux)
                words += [head, arity]
            case _:
                assert container is not None, "a leaf is of a kind of its own"
                words += [CALL, Reference(container.unflatten), Reference(aux), arity]
        keys.extend(reversed(children))
    return tuple(words)


def is_flat(program: Program) -> bool:
    """Whether the arguments are leaves, all of them."""
    return all(word == LEAF for word in program)
