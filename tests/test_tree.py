"""Pytrees: round trips, printed form, key paths, errors, depth; compared with JAX where it is installed."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest

from braze import tree, tree_util
from braze.errors import ArgumentError

Point = collections.namedtuple("Point", "x y")


@tree_util.register_pytree_node_class
class Box:
    def __init__(self, a):
        self.a = a

    def tree_flatten(self):
        return (self.a,), "aux"

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)

    def __repr__(self):
        return f"Box({self.a!r})"

    def __eq__(self, other):
        return isinstance(other, Box) and self.a == other.a


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: object
    name: str = dataclasses.field(metadata={"static": True})


TREES = [
    1,
    (1,),
    [1, 2],
    {"b": 1, "a": (2, 3)},
    None,
    Point(1, [2]),
    collections.OrderedDict(b=1, a=2),
    collections.defaultdict(list, b=1, a=2),
    Box(1),
    Layer({"k": 1}, "first"),
    (),
    [],
    {},
    [None, ()],
    {1: 2, 2: (3, [4, {"z": None, "y": 5}])},
]


@pytest.mark.parametrize("value", TREES, ids=repr)
def test_unflatten_inverts_flatten(value):
    leaves, treedef = tree.flatten(value)
    back = tree.unflatten(treedef, leaves)
    assert back == value and type(back) is type(value)
    assert tree.structure(back) == treedef and hash(tree.structure(back)) == hash(treedef)
    assert treedef.num_leaves == len(leaves)


def test_defaultdict_keeps_its_factory():
    value = collections.defaultdict(list, a=1)
    assert tree.map(lambda x: x, value).default_factory is list


def test_structure_prints_as_in_jax():
    jax = pytest.importorskip("jax")
    plain = [t for t in TREES if not isinstance(t, Box | Layer)]
    for value in plain:
        assert repr(tree.structure(value)) == repr(jax.tree.structure(value))
    assert repr(tree.structure(Box(1))) == "PyTreeDef(CustomNode(Box[aux], [*]))"
    assert repr(tree.structure(Layer(1, "n"))) == "PyTreeDef(CustomNode(Layer[('n',)], [*]))"


def test_structures_differ_by_class_key_and_data():
    different = [
        [1],
        (1,),
        {"a": 1},
        {"b": 1},
        Box(1),
        Layer(1, "a"),
        Layer(1, "b"),
        Point(1, 2),
        (1, 2),
        1,
        None,
    ]
    treedefs = [tree.structure(value) for value in different]
    assert len(set(treedefs)) == len(different)


def test_map_takes_subtrees_of_the_rest():
    assert tree.map(lambda x, y: (x, y), [1, {"a": 2}], [(3, 4), {"a": None}]) == [
        (1, (3, 4)),
        {"a": (2, None)},
    ]


def test_is_leaf_stops_the_walk():
    assert tree.leaves([(1, 2), 3], is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2), 3]
    assert tree.leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]


def test_key_paths_name_every_way_in():
    value = {"a": Point(1, [2]), "b": Box(3), "c": Layer(4, "n")}
    paths = [tree_util.keystr(path) for path, _ in tree.leaves_with_path(value)]
    assert paths == ["['a'].x", "['a'].y[0]", "['b'][<flat index 0>]", "['c'].w"]
    simple = [tree_util.keystr(path, simple=True, separator="/") for path, _ in tree.leaves_with_path(value)]
    assert simple == ["a/x", "a/y/0", "b/0", "c/w"]
    assert tree.map_with_path(lambda path, x, y: (path[-1], x, y), [1], [2]) == [
        (tree_util.SequenceKey(0), 1, 2)
    ]


@pytest.mark.parametrize(
    "wanted, given, words",
    [
        ({"a": (1, 2)}, {"a": [1, 2]}, ["at ['a']", "a tuple is wanted", "a value of type list was given"]),
        ((1, 2), (1, 2, 3), ["at the root", "length 2", "length 3"]),
        ({"a": 1}, {"b": 1}, ["keys ['a']", "['b'] was given"]),
        ([Point(1, 2)], [(1, 2)], ["at [0]", "a Point is wanted", "tuple was given"]),
        ([Layer(1, "a")], [Layer(1, "b")], ["structure data ['a']", "['b'] was given"]),
        (Box((1,)), Box(1), ["at [<flat index 0>]", "a tuple is wanted", "int was given"]),
    ],
)
def test_mismatch_names_the_path_and_both_sides(wanted, given, words):
    with pytest.raises(ArgumentError) as caught:
        tree.map(lambda x, y: x, wanted, given)
    for word in words:
        assert word in str(caught.value)
    assert repr(tree.structure(wanted)) in str(caught.value) and repr(tree.structure(given)) in str(
        caught.value
    )


def test_keys_that_do_not_sort_are_an_error():
    with pytest.raises(ArgumentError, match="must sort"):
        tree.flatten({1: 2, "a": 3})


def test_unflatten_counts_leaves():
    with pytest.raises(ArgumentError, match="2 leaves and 1 were given"):
        tree.unflatten(tree.structure((1, 2)), [1])


def test_transpose_reduce_all():
    outer, inner = tree.structure([0, 0]), tree.structure({"a": 0, "b": 0})
    assert tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}]) == {"a": [1, 3], "b": [2, 4]}
    assert tree.transpose(outer, None, [(1, 2), (3, 4)]) == ([1, 3], [2, 4])
    with pytest.raises(ArgumentError, match="transpose"):
        tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3}])
    assert tree.reduce(lambda x, y: x + y, [1, (2, 3)], 10) == 16
    assert tree.all([True, {"a": 1}]) and not tree.all([True, {"a": 0}])


def test_broadcast_repeats_a_prefix():
    assert tree.broadcast((1, {"a": 2}), ([0, 0], {"a": (0,)})) == ([1, 1], {"a": (2,)})
    with pytest.raises(ArgumentError):
        tree.broadcast((1, 2), [0, 0])


def test_deep_trees_meet_no_recursion_limit():
    value: object = 1
    for _ in range(3000):
        value = [value]
    leaves, treedef = tree.flatten(value)
    assert leaves == [1] and treedef.num_nodes == 3001
    back = tree.map(lambda x, y: x + y, value, tree.unflatten(treedef, [1]))
    assert tree.leaves(back) == [2]
    assert repr(treedef).count("[") == 3000
    assert len(tree.leaves_with_path(value)[0][0]) == 3000
    assert hash(treedef) == hash(tree.structure(back))


def test_children_and_tuple_are_inverse():
    treedef = tree.structure(([1, (2, None)], {"a": 3}, 4))
    parts = tree_util.treedef_children(treedef)
    assert parts == [tree.structure([1, (2, None)]), tree.structure({"a": 3}), tree.structure(4)]
    assert tree_util.treedef_tuple(parts) == treedef
    assert tree_util.treedef_is_leaf(parts[2]) and not tree_util.treedef_is_leaf(parts[1])
    assert not tree_util.treedef_is_leaf(tree.structure(None))


def test_partial_and_static_are_containers():
    leaves, treedef = tree.flatten(tree_util.Partial(max, 1, key=2))
    assert leaves == [1, 2]
    assert tree.unflatten(treedef, [3, 4]).args == (3,)

    @tree_util.register_static
    class Mode(str):
        pass

    assert tree.leaves([Mode("a"), 1]) == [1]
    assert tree.structure(Mode("a")) == tree.structure(Mode("a")) != tree.structure(Mode("b"))


def test_classes_are_registered_once():
    with pytest.raises(ArgumentError, match="already"):
        tree_util.register_pytree_node(Box, lambda b: ((b.a,), None), lambda _, c: Box(*c))


def test_dataclass_fields_must_be_complete():
    @dataclasses.dataclass
    class Pair:
        a: int
        b: int

    with pytest.raises(ArgumentError, match="'b'"):
        tree_util.register_dataclass(Pair, ["a"], [])
    tree_util.register_dataclass(Pair, ["a"], ["b"])
    assert tree.leaves(Pair(1, 2)) == [1]
    assert tree.map(lambda x: x + 1, Pair(1, 2)) == Pair(2, 2)


@pytest.mark.parametrize("flatten", [tree.flatten, tree.flatten_with_path])
def test_a_container_in_itself_is_an_error(flatten):
    own, far = [1.0], {"a": [2.0]}
    own.append(own)
    far["a"].append({"b": (far,)})
    for cyclic, kind in ((own, "list"), (far, "dict")):
        with pytest.raises(ArgumentError, match=f"a {kind} contains itself"):
            flatten(cyclic)


def test_a_large_tree_with_shared_parts_is_no_cycle():
    shared = [0.0] * 1000
    assert len(tree.flatten([shared] * 200)[0]) == len(tree.flatten_with_path([shared] * 200)[0]) == 200_000


def test_meta_fields_without_a_hash_are_named():
    @dataclasses.dataclass
    class Model:
        weight: Any
        name: Any

    tree_util.register_dataclass(Model, data_fields=["weight"], meta_fields=["name"])
    treedef = tree.flatten(Model(1.0, ["a"]))[1]
    with pytest.raises(ArgumentError, match=r"(?s)what Model holds beside .*\[\['a'\]\]"):
        hash(treedef)
