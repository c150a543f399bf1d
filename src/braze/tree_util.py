"""Pytrees under JAX's long names (`jax.tree_util`); the mechanism is in `tree`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from braze import tree as _tree
from braze.tree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyPath,
    PyTreeDef,
    SequenceKey,
    keystr,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)
from braze.tree import all as tree_all
from braze.tree import broadcast as tree_broadcast
from braze.tree import flatten as tree_flatten
from braze.tree import flatten_with_path as tree_flatten_with_path
from braze.tree import leaves as tree_leaves
from braze.tree import leaves_with_path as tree_leaves_with_path
from braze.tree import map as tree_map
from braze.tree import map_with_path as tree_map_with_path
from braze.tree import reduce as tree_reduce
from braze.tree import structure as tree_structure
from braze.tree import transpose as tree_transpose
from braze.tree import unflatten as tree_unflatten

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is a single leaf."""
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures one level down."""
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees of the given structures."""
    return _tree._tuple_of(treedefs)


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether every element is a leaf."""
    return not any(not treedef_is_leaf(tree_structure(item, is_leaf)) for item in iterable)


class Partial(functools.partial):  # type: ignore[type-arg]
    """`functools.partial` as a container: its arguments are leaves, its function is structure."""


def _partial_keys(obj: Any) -> Any:
    return ((GetAttrKey("args"), obj.args), (GetAttrKey("keywords"), obj.keywords)), obj.func


register_pytree_node(
    Partial,
    lambda obj: ((obj.args, obj.keywords), obj.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
    _partial_keys,
)
