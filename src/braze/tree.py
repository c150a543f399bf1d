"""Pytrees: nested containers of arrays, taken apart to a list of leaves and put together again.

This module is the mechanism and, under the short names, JAX's `jax.tree`; `tree_util` has JAX's long names.
Containers are dict (by sorted key), OrderedDict, defaultdict, list, tuple, namedtuple, None, and every class
that was registered. Anything else is a leaf.

Invariants:
- A `PyTreeDef` is immutable, hashable, and a flat tuple of nodes in preorder; nothing here recurses, so depth
  is not limited by Python's stack.
- `flatten` and `unflatten` are inverse: the same class, the same keys, the same order.

Source: the semantics, the printed form and the names are those of JAX's pytrees.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from braze.errors import ArgumentError
from braze.record import Record

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "structure",
    "transpose",
    "unflatten",
]

T = TypeVar("T", bound=type)
IsLeaf = Callable[[Any], bool]


# Key paths.


@dataclass(slots=True, eq=False, repr=False)
class SequenceKey(Record):
    """The way into a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclass(slots=True, eq=False, repr=False)
class DictKey(Record):
    """The way into a dict."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclass(slots=True, eq=False, repr=False)
class GetAttrKey(Record):
    """The way into an attribute of a namedtuple or dataclass."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclass(slots=True, eq=False, repr=False)
class FlattenedIndexKey(Record):
    """The way into a container that names no keys: the position among its children."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyPath = tuple[Any, ...]


def _simple(key: Any) -> str:
    for name in ("key", "idx", "name"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


def keystr(path: Iterable[Any], *, simple: bool = False, separator: str = "") -> str:
    """Write a key path as the Python expression that follows it.

    >>> keystr((DictKey("w"), SequenceKey(0)))
    "['w'][0]"
    >>> keystr((DictKey("w"), SequenceKey(0)), simple=True, separator="/")
    'w/0'
    """
    return separator.join(_simple(key) if simple else str(key) for key in path)


# The registry of containers.


class _Container:
    """How one class of containers is taken apart and put together.

    Attributes:
        flatten: object -> (children, auxiliary data); the data takes part in equality and hash.
        unflatten: (auxiliary data, children) -> object.
        keys: (object, auxiliary data) -> key-path entries, one per child; None: positions.
        show: (auxiliary data, texts of the children) -> text, as `PyTreeDef` prints it.
    """

    __slots__ = ("cls", "flatten", "keys", "show", "unflatten")

    def __init__(
        self,
        cls: type,
        flatten: Callable[[Any], tuple[Iterable[Any], Any]],
        unflatten: Callable[[Any, Sequence[Any]], Any],
        keys: Callable[[Any, Any], Sequence[Any]] | None = None,
        show: Callable[[Any, Sequence[str]], str] | None = None,
    ) -> None:
        self.cls = cls
        self.flatten = flatten
        self.unflatten = unflatten
        self.keys = keys
        self.show = show or (
            lambda aux, children: f"CustomNode({cls.__name__}[{aux}], [{', '.join(children)}])"
        )


_REGISTRY: dict[type, _Container] = {}


def _find(obj: Any) -> _Container | None:
    found = _REGISTRY.get(type(obj))
    if found is None and isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return _NAMEDTUPLE
    return found


def _sorted_keys(obj: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(obj))
    except TypeError as error:
        raise ArgumentError(
            f"pytree: the keys of a dict must sort, so that their order is fixed; {error}.",
            values=f"keys {list(obj)!r}",
            hint="use an OrderedDict, which keeps the order of insertion.",
        ) from None


def _flatten_dict(obj: dict[Any, Any]) -> tuple[list[Any], Any]:
    keys = _sorted_keys(obj)
    return [obj[key] for key in keys], keys


def _dict_keys(obj: Any, keys: Any) -> list[Any]:
    return [DictKey(key) for key in keys]


def _sequence_keys(obj: Any, aux: Any) -> list[Any]:
    return [SequenceKey(index) for index in range(len(obj))]


def _show_tuple(aux: Any, children: Sequence[str]) -> str:
    return f"({children[0]},)" if len(children) == 1 else f"({', '.join(children)})"


def _flatten_defaultdict(obj: defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    children, keys = _flatten_dict(obj)
    return children, (obj.default_factory, keys)


def _enter(container: _Container) -> None:
    _REGISTRY[container.cls] = container


_enter(
    _Container(
        tuple, lambda obj: (obj, None), lambda _, children: tuple(children), _sequence_keys, _show_tuple
    )
)
_enter(_Container(
    list, lambda obj: (obj, None), lambda _, children: list(children), _sequence_keys,
    lambda _, children: f"[{', '.join(children)}]",
))  # fmt: skip
_enter(_Container(
    dict, _flatten_dict, lambda keys, children: dict(zip(keys, children)), _dict_keys,
    lambda keys, children: "{" + ", ".join(f"{key!r}: {child}" for key, child in zip(keys, children)) + "}",
))  # fmt: skip
_enter(_Container(
    OrderedDict, lambda obj: (list(obj.values()), tuple(obj)),
    lambda keys, children: OrderedDict(zip(keys, children)), _dict_keys,
))  # fmt: skip
_enter(_Container(
    defaultdict, _flatten_defaultdict, lambda aux, children: defaultdict(aux[0], zip(aux[1], children)),
    lambda obj, aux: _dict_keys(obj, aux[1]),
))  # fmt: skip
_enter(_Container(
    type(None), lambda obj: ((), None), lambda _, children: None, lambda obj, aux: (), lambda _, children: "None"
))  # fmt: skip

# The auxiliary data of a namedtuple is its class.
_NAMEDTUPLE = _Container(
    tuple,
    lambda obj: (obj, type(obj)),
    lambda cls, children: cls(*children),
    lambda obj, cls: [GetAttrKey(name) for name in cls._fields],
    lambda cls, children: f"CustomNode(namedtuple[{cls.__name__}], [{', '.join(children)}])",
)


def _register(container: _Container) -> None:
    if container.cls in _REGISTRY:
        raise ArgumentError(f"pytree: {container.cls.__name__} is registered already.")
    _enter(container)


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make a class a container.

    Args:
        flatten_func: object -> (children, auxiliary data); the data must be hashable and comparable.
        unflatten_func: (auxiliary data, children) -> object.
        flatten_with_keys_func: object -> ((key, child) pairs, auxiliary data), for key paths.
    Raises: ArgumentError if the class is registered already.
    """
    keys: Callable[[Any, Any], Sequence[Any]] | None = None
    if flatten_with_keys_func is not None:
        pairs = flatten_with_keys_func
        keys = lambda obj, aux: [key for key, _ in pairs(obj)[0]]
    _register(
        _Container(nodetype, flatten_func, lambda aux, children: unflatten_func(aux, tuple(children)), keys)
    )


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make a class a container whose children have names in key paths."""

    def flatten_children(obj: Any) -> tuple[Iterable[Any], Any]:
        pairs, aux = flatten_with_keys(obj)
        return [child for _, child in pairs], aux

    register_pytree_node(nodetype, flatten_func or flatten_children, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: T) -> T:
    """Make a class with `tree_flatten` and `tree_unflatten` a container (decorator)."""
    rebuild: Callable[[Any, Any], Any] = getattr(cls, "tree_unflatten")  # noqa: B009
    register_pytree_node(cls, lambda obj: obj.tree_flatten(), rebuild)
    return cls


def register_pytree_with_keys_class(cls: T) -> T:
    """Make a class with `tree_flatten_with_keys` and `tree_unflatten` a container (decorator)."""
    rebuild: Callable[[Any, Any], Any] = getattr(cls, "tree_unflatten")  # noqa: B009
    flatten_only = (lambda obj: obj.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda obj: obj.tree_flatten_with_keys(), rebuild, flatten_only)
    return cls


def register_dataclass(
    nodetype: T,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> T:
    """Make a dataclass a container: `data_fields` are children, `meta_fields` are part of the structure.

    Without the two, fields declared with `metadata=dict(static=True)` are meta fields and the others data.
    Raises: ArgumentError where the fields given are not those of the class.
    """
    if (data_fields is None) != (meta_fields is None):
        raise ArgumentError("register_dataclass: give both data_fields and meta_fields, or neither.")
    if data_fields is None or meta_fields is None:
        if not dataclasses.is_dataclass(nodetype):
            raise ArgumentError(
                f"register_dataclass: {nodetype.__name__} is not a dataclass, so its fields must be given."
            )
        fields = [field for field in dataclasses.fields(nodetype) if field.name not in drop_fields]
        meta_fields = [field.name for field in fields if field.metadata.get("static", False)]
        data_fields = [field.name for field in fields if not field.metadata.get("static", False)]
    elif dataclasses.is_dataclass(nodetype):
        wanted = {field.name for field in dataclasses.fields(nodetype) if field.init} - set(drop_fields)
        if wanted != {*data_fields, *meta_fields}:
            raise ArgumentError(
                "register_dataclass: data_fields and meta_fields must name every field of the class once; "
                f"{sorted(wanted ^ {*data_fields, *meta_fields})} differ."
            )
    data, meta = tuple(data_fields), tuple(meta_fields)

    def flatten_fields(obj: Any) -> tuple[list[Any], Any]:
        return [getattr(obj, name) for name in data], tuple(getattr(obj, name) for name in meta)

    def unflatten_fields(aux: Any, children: Sequence[Any]) -> Any:
        return nodetype(**dict(zip(meta, aux)), **dict(zip(data, children)))

    keys = [GetAttrKey(name) for name in data]
    _register(_Container(nodetype, flatten_fields, unflatten_fields, lambda obj, aux: keys))
    return nodetype


def register_static(cls: T) -> T:
    """Make a class a container without children: all of it is part of the structure (decorator)."""
    register_pytree_node(cls, lambda obj: ((), obj), lambda obj, children: obj)
    return cls


# Structures.

_Node = tuple[_Container | None, int, Any]
_LEAF: _Node = (None, 0, None)


class PyTreeDef:
    """The structure of a pytree without its leaves.

    >>> structure({"a": 1, "b": (2, 3)})
    PyTreeDef({'a': *, 'b': (*, *)})
    """

    __slots__ = ("_hash", "nodes", "num_leaves")

    nodes: tuple[_Node, ...]
    num_leaves: int

    def __init__(self, nodes: tuple[_Node, ...], num_leaves: int) -> None:
        self.nodes = nodes
        self.num_leaves = num_leaves
        self._hash: int | None = None

    @property
    def num_nodes(self) -> int:
        return len(self.nodes)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, PyTreeDef) and self.nodes == other.nodes)

    def __hash__(self) -> int:
        if self._hash is None:
            try:
                self._hash = hash(self.nodes)
            except TypeError:
                raise self._unhashable() from None
        return self._hash

    def _unhashable(self) -> ArgumentError:
        for container, _, aux in self.nodes:
            try:
                hash(aux)
            except TypeError as error:
                kind = container.cls.__name__ if container is not None else "a leaf"
                return ArgumentError(
                    f"pytree: what {kind} holds beside its children has no hash ({error}).",
                    values=f"auxiliary data {_plain(aux)}",
                    hint="make arrays and lists children (data fields), and constants hashable (meta fields).",
                )
        raise AssertionError("the nodes have no hash, though each of their parts has one")

    def __repr__(self) -> str:
        def show(container: _Container | None, aux: Any, children: list[str]) -> str:
            return "*" if container is None else container.show(aux, children)

        return f"PyTreeDef({self._fold(show)})"

    def _fold(self, combine: Callable[[_Container | None, Any, list[Any]], Any]) -> Any:
        """Combine the nodes from the leaves up; leaves arrive last to first."""
        done: list[Any] = []
        for container, arity, aux in reversed(self.nodes):
            children = done[len(done) - arity :][::-1] if arity else []
            if arity:
                del done[len(done) - arity :]
            done.append(combine(container, aux, children))
        return done[0]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Put leaves into this structure."""
        remaining = list(leaves)
        if len(remaining) != self.num_leaves:
            raise ArgumentError(
                f"unflatten: the structure has {self.num_leaves} leaves and {len(remaining)} were given.",
                values=repr(self),
            )

        def build(container: _Container | None, aux: Any, children: list[Any]) -> Any:
            return remaining.pop() if container is None else container.unflatten(aux, children)

        return self._fold(build)

    def children(self) -> list[PyTreeDef]:
        """The structures one level down."""
        found: list[PyTreeDef] = []
        start = 1
        for _ in range(self.nodes[0][1]):
            end, open_nodes = start, 1
            while open_nodes:
                open_nodes += self.nodes[end][1] - 1
                end += 1
            nodes = self.nodes[start:end]
            found.append(PyTreeDef(nodes, sum(node[0] is None for node in nodes)))
            start = end
        return found

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of `tree` at the places of this structure's leaves.

        Raises: ArgumentError, which names the place, where the tree does not have this structure above them.
        """
        found: list[Any] = []
        pending = [tree]
        for container, arity, aux in self.nodes:
            obj = pending.pop()
            if container is None:
                found.append(obj)
                continue
            if _find(obj) is not container:
                raise _mismatch(self, tree, "pytree")
            children, other = container.flatten(obj)
            children = list(children)
            if len(children) != arity or other != aux:
                raise _mismatch(self, tree, "pytree")
            pending.extend(reversed(children))
        return found


def _tuple_of(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    parts = list(treedefs)
    nodes = ((_REGISTRY[tuple], len(parts), None), *(node for part in parts for node in part.nodes))
    return PyTreeDef(nodes, sum(part.num_leaves for part in parts))


def _mismatch(treedef: PyTreeDef, tree: Any, what: str) -> ArgumentError:
    """The error for the first place where `tree` leaves `treedef`, with the path to it and both sides."""
    pending: list[tuple[Any, KeyPath]] = [(tree, ())]
    for container, arity, aux in treedef.nodes:
        obj, path = pending.pop()
        if container is None:
            continue
        place = f"at {keystr(path)}" if path else "at the root"
        kind = aux if container is _NAMEDTUPLE else container.cls
        if _find(obj) is not container:
            return ArgumentError(
                f"{what}: the structures differ {place}: a {kind.__name__} is wanted, "
                f"a value of type {type(obj).__name__} was given.",
                values=f"wanted {treedef}, given {structure(tree)}",
            )
        children, other = container.flatten(obj)
        children = list(children)
        if container.cls in (tuple, list) and len(children) != arity:
            return ArgumentError(
                f"{what}: the structures differ {place}: a {kind.__name__} of length {arity} is wanted, "
                f"one of length {len(children)} was given.",
                values=f"wanted {treedef}, given {structure(tree)}",
            )
        if len(children) != arity or other != aux:
            noun = "keys" if issubclass(container.cls, dict) else "structure data"
            return ArgumentError(
                f"{what}: the structures differ {place}: a {kind.__name__} with {noun} {_plain(aux)} is wanted, "
                f"one with {_plain(other)} was given.",
                values=f"wanted {treedef}, given {structure(tree)}",
            )
        pending.extend(
            reversed([(child, (*path, key)) for child, key in zip(children, _keys(container, obj, other))])
        )
    raise AssertionError("the tree has the structure after all")


def _plain(aux: Any) -> str:
    return repr(list(aux)) if isinstance(aux, tuple) else repr(aux)


def _keys(container: _Container, obj: Any, aux: Any) -> Sequence[Any]:
    if container.keys is not None:
        return container.keys(obj, aux)
    return [FlattenedIndexKey(index) for index in range(len(list(container.flatten(obj)[0])))]


_LEAF_TREE = PyTreeDef((_LEAF,), 1)


_LOOKED_THROUGH = 1 << 12
"""Nodes after which a tree is searched for a container that holds itself; again at twice as many, and so on."""


def _refuse_cycles(tree: Any, is_leaf: Callable[[Any], bool] | None) -> None:
    """Raise ArgumentError if some container is inside itself: taking it apart would never end."""
    above: set[int] = set()
    done: set[int] = set()
    pending: list[tuple[Any, bool]] = [(tree, False)]
    while pending:
        obj, leaving = pending.pop()
        if leaving:
            above.discard(id(obj))
            done.add(id(obj))
            continue
        container = None if is_leaf is not None and is_leaf(obj) else _find(obj)
        if container is None or id(obj) in done:
            continue
        if id(obj) in above:
            raise ArgumentError(f"pytree: a {type(obj).__name__} contains itself, so it has no end.")
        above.add(id(obj))
        pending.append((obj, True))
        # Children that `flatten` makes anew each time cannot be told apart, nor can they hold themselves.
        pending.extend((child, False) for child in container.flatten(obj)[0])


# The public functions; from here on `map`, `all` and `reduce` are the pytree functions.


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """Take a pytree apart: its leaves in order, and its structure.

    >>> flatten({"b": 1, "a": [2, 3]})
    ([2, 3, 1], PyTreeDef({'a': [*, *], 'b': *}))
    """
    if is_leaf is None and _find(tree) is None:
        return [tree], _LEAF_TREE
    found: list[Any] = []
    nodes: list[_Node] = []
    pending = [tree]
    limit = _LOOKED_THROUGH
    while pending:
        if len(nodes) >= limit:
            _refuse_cycles(tree, is_leaf)
            limit *= 2
        obj = pending.pop()
        container = None if is_leaf is not None and is_leaf(obj) else _find(obj)
        if container is None:
            found.append(obj)
            nodes.append(_LEAF)
            continue
        children, aux = container.flatten(obj)
        count = len(pending)
        pending.extend(children)
        pending[count:] = pending[count:][::-1]
        nodes.append((container, len(pending) - count, aux))
    return found, PyTreeDef(tuple(nodes), len(found))


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Put leaves into a structure.

    >>> unflatten(structure([0, {"a": 0}]), [1, 2])
    [1, {'a': 2}]
    """
    return treedef.unflatten(leaves)


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a pytree, in order."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a pytree."""
    return flatten(tree, is_leaf)[1]


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Apply a function to each leaf (and to the subtrees of `rest` at the same places).

    >>> map(lambda x, y: x + y, {"a": 1, "b": 2}, {"a": 10, "b": 20})
    {'a': 11, 'b': 22}
    """
    found, treedef = flatten(tree, is_leaf)
    columns = [found, *(treedef.flatten_up_to(other) for other in rest)]
    return treedef.unflatten([f(*row) for row in zip(*columns)])


def flatten_with_path(
    tree: Any, is_leaf: IsLeaf | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Take a pytree apart into (key path, leaf) pairs, and its structure.

    >>> [(keystr(path), leaf) for path, leaf in flatten_with_path({"a": [1, 2]})[0]]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    found: list[tuple[KeyPath, Any]] = []
    nodes: list[_Node] = []
    pending: list[tuple[Any, KeyPath]] = [(tree, ())]
    limit = _LOOKED_THROUGH
    while pending:
        if len(nodes) >= limit:
            _refuse_cycles(tree, None)
            limit *= 2
        obj, path = pending.pop()
        stop = is_leaf is not None and (is_leaf(path, obj) if is_leaf_takes_path else is_leaf(obj))  # type: ignore[call-arg]
        container = None if stop else _find(obj)
        if container is None:
            found.append((path, obj))
            nodes.append(_LEAF)
            continue
        children, aux = container.flatten(obj)
        children = list(children)
        nodes.append((container, len(children), aux))
        keys = _keys(container, obj, aux)
        pending.extend(reversed([(child, (*path, key)) for child, key in zip(children, keys)]))
    return found, PyTreeDef(tuple(nodes), len(found))


def leaves_with_path(
    tree: Any, is_leaf: IsLeaf | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The (key path, leaf) pairs of a pytree."""
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: IsLeaf | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Apply `f(key path, leaf, *others)` to each leaf."""
    found, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [treedef.flatten_up_to(other) for other in rest]
    return treedef.unflatten([f(path, leaf, *row) for (path, leaf), *row in zip(found, *columns)])


def transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """Turn a tree of trees inside out: `outer` of `inner` becomes `inner` of `outer`.

    >>> transpose(structure([0, 0]), structure({"a": 0}), [{"a": 1}, {"a": 2}])
    {'a': [1, 2]}
    """
    subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = structure(subtrees[0])
    rows = []
    for subtree in subtrees:
        found, treedef = flatten(subtree)
        if treedef != inner_treedef:
            raise _mismatch(inner_treedef, subtree, "transpose")
        rows.append(found)
    return inner_treedef.unflatten([outer_treedef.unflatten(list(column)) for column in zip(*rows)])


_NOTHING = object()


def reduce(
    f: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NOTHING, is_leaf: IsLeaf | None = None
) -> Any:
    """Combine the leaves from left to right.

    >>> reduce(lambda x, y: x + y, {"a": 1, "b": [2, 3]})
    6
    """
    if initializer is _NOTHING:
        return functools.reduce(f, leaves(tree, is_leaf))
    return functools.reduce(f, leaves(tree, is_leaf), initializer)


def all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether every leaf is true."""
    return not any(not leaf for leaf in leaves(tree, is_leaf))


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a prefix, each repeated for every leaf of `full_tree` below it.

    >>> broadcast_prefix((1, 2), ([0, 0], {"a": 0}))
    [1, 1, 2]
    """
    found, treedef = flatten(prefix_tree, is_leaf)
    repeated: list[Any] = []
    for leaf, subtree in zip(found, treedef.flatten_up_to(full_tree)):
        repeated += [leaf] * structure(subtree).num_leaves
    return repeated


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """A prefix with the structure of `full_tree`: each of its leaves repeated below it."""
    return structure(full_tree).unflatten(broadcast_prefix(prefix_tree, full_tree, is_leaf))
