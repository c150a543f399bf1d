"""The dispatcher in machine code: LLVM IR for a callable type, and the tables that it reads.

```
function_call        frame on the stack, gate, then entry by entry:
  entry_match        count, keyword names, containers (dispatch_flatten), a test per leaf
  entry_run          results, donation, braze_call, containers of the result (dispatch_build)
else                 the slow path, called with the same arguments
```

All memory of a call is in its frame, so a call may happen inside another one through a callback, and in
several threads. The frame has, in this order: 16 bytes per leaf for the values of Python scalars, the
leaves, the parameters and one place for leaves without any, addresses of the results, the results.

Invariants:
- The list `keep` of a function holds its tables; a call holds the list, so entries may be replaced meanwhile.
- Statics, avals and keys in tables are held by `keep`, so an address that is equal is the object itself.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from typing import Any

from braze.runtime import array as arrays
from braze.runtime import trees
from braze.runtime.array_native import Fields, decrement, increment, is_live
from braze.runtime.deleted import Deleted
from braze.runtime.descriptor import RELEASES_GIL
from braze.runtime.dispatch import Entry, Kind, Leaf, standard
from braze.runtime.heaptype import (
    DISALLOW_INSTANTIATION,
    HAVE_GC,
    HAVE_VECTORCALL,
    METH_FASTCALL,
    METH_O,
    METHOD_DESCRIPTOR,
    make_functions,
    make_type,
    python_address,
)
from braze.runtime.irtext import Function, Module
from braze.runtime.layout import CONTIGUOUS_ALIGNED, Layout

STACK_BYTES = 16 << 10
"""Frames up to this size are on the stack."""

_PINS, _DONATES = 1, 2


class _Leaf(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int64),
        ("aval", ctypes.c_void_p),  # 0 for statics
        ("what", ctypes.c_void_p),  # dtype, NumPy scalar type or static
        ("size", ctypes.c_int64),  # axes of an ndarray, else bytes of the value
        ("dims", ctypes.c_void_p),
        ("parameter", ctypes.c_int64),
        ("marker", ctypes.c_void_p),  # the Deleted marker if donated, else 0
    ]


class _Result(ctypes.Structure):
    _fields_ = [
        ("aval", ctypes.c_void_p),
        ("nbytes", ctypes.c_int64),
        ("source", ctypes.c_int64),  # leaf whose memory it takes, or -1
    ]


class _Captured(ctypes.Structure):
    _fields_ = [("parameter", ctypes.c_int64), ("address", ctypes.c_void_p)]


class _Entry(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "entry", "epoch", "positional", "keyword_count", "keywords", "arguments", "leaf_count", "leaves",
            "captured_count", "captured", "result_count", "results", "result", "descriptor", "flags",
            "at_leaves", "at_parameters", "at_addresses", "at_results",
        )
    ]  # fmt: skip


def _offset(structure: type[ctypes.Structure], name: str) -> int:
    return int(getattr(structure, name).offset)


class FunctionFields:
    """Byte offsets in a function object."""

    def __init__(self, header: int) -> None:
        self.vectorcall, self.chain, self.slow, self.dict, self.weak, self.keep, self.frame = (
            header + 8 * i for i in range(7)
        )
        self.size = header + 56


def emit(module: Module, at: Layout) -> None:
    """Add the functions of the dispatcher to a module that has the array's."""
    fields, array = FunctionFields(at.header), Fields(at.header)
    _emit_flatten(module, at)
    _emit_build(module, at)
    _emit_match(module, at, array)
    _emit_pins(module, at, array)
    _emit_donate(module, at, array)
    _emit_run(module, array)
    _emit_gate(module)
    _emit_search(module, at, fields)
    _emit_call(module, fields)
    _emit_type(module, at, fields)
    _emit_functions(module, at, fields)


def _field(f: Function, entry: str, name: str, kind: str = "i64") -> str:
    return f.load(kind, entry, _offset(_Entry, name))


def _next_word(f: Function, cursor: str, kind: str = "i64") -> str:
    """Read one word of a tree program and step over it."""
    place = f.load("ptr", cursor)
    word = f.load(kind, place)
    f.store("ptr", f.at(place, 8), cursor)
    return word


def _switch(f: Function, value: str, otherwise: str, cases: Mapping[int, str]) -> None:
    rows = " ".join(f"i64 {number}, label %{label}" for number, label in cases.items())
    f.line(f"switch i64 {value}, label %{otherwise} [ {rows} ]")


def _emit_flatten(module: Module, at: Layout) -> None:
    """dispatch_flatten(object, cursor, place): append the object's leaves; false if the structure differs."""
    f = module.function("dispatch_flatten", "i1", "ptr", "ptr", "ptr")
    value, cursor, place = f.parameters
    position, key, item = (f.value(f"alloca {kind}") for kind in ("i64", "ptr", "ptr"))
    miss, leaf, none, tuple_, list_, dict_, named, items = (f.label() for _ in range(8))
    word = _next_word(f, cursor)
    kind = f.load("ptr", value, at.kind)
    _switch(f, word, miss, {
        trees.LEAF: leaf, trees.NONE: none, trees.TUPLE: tuple_, trees.LIST: list_, trees.DICT: dict_,
        trees.NAMED: named,
    })  # fmt: skip

    f.start(miss)
    f.ret("false")

    f.start(leaf)
    target = f.load("ptr", place)
    f.store("ptr", value, target)
    f.store("ptr", f.at(target, 8), place)
    f.ret("true")

    f.start(none)
    f.ret(f.same(value, module.external("_Py_NoneStruct")))

    incoming = []
    f.start(tuple_)
    f.require(f.same(kind, module.external("PyTuple_Type")), miss)
    incoming.append((f.at(value, at.tuple_items), f.block))
    f.jump(items)
    f.start(named)
    f.require(f.same(kind, _next_word(f, cursor, "ptr")), miss)
    incoming.append((f.at(value, at.tuple_items), f.block))
    f.jump(items)
    f.start(list_)
    f.require(f.same(kind, module.external("PyList_Type")), miss)
    incoming.append((f.load("ptr", value, at.list_items), f.block))
    f.jump(items)

    f.start(items)
    first = f.phi("ptr", *incoming)
    count = _next_word(f, cursor)
    f.require(f.compare("eq", "i64", f.load("i64", value, at.header), count), miss)
    with f.loop(count) as i:
        child = f.load("ptr", f.item(first, i))
        f.require(f.call("i1", "dispatch_flatten", f"ptr {child}", f"ptr {cursor}", f"ptr {place}"), miss)
    f.ret("true")

    # A dict in the order of the program, the usual case, is read as it lies; from the first key that is
    # elsewhere on, each is looked up. Sizes are equal and keys distinct, so all found means the same keys.
    f.start(dict_)
    f.require(f.same(kind, module.external("PyDict_Type")), miss)
    count = _next_word(f, cursor)
    f.require(f.compare("eq", "i64", f.load("i64", value, at.header), count), miss)
    f.store("i64", 0, position)
    ordered = f.value("alloca i64")
    f.store("i64", 1, ordered)
    with f.loop(count) as _:
        wanted = _next_word(f, cursor, "ptr")
        search, found = f.label(), f.label()
        f.require(f.compare("ne", "i64", f.load("i64", ordered), 0), search)
        f.call("i32", "PyDict_Next", f"ptr {value}", f"ptr {position}", f"ptr {key}", f"ptr {item}")
        f.require(f.same(f.load("ptr", key), wanted), search)
        incoming = [(f.load("ptr", item), f.block)]
        f.jump(found)
        f.start(search)
        f.store("i64", 0, ordered)
        got = f.call("ptr", "PyDict_GetItemWithError", f"ptr {value}", f"ptr {wanted}")
        with f.when(f.is_null(got), returns=True):
            f.call("void", "PyErr_Clear")
            f.jump(miss)
        incoming.append((got, f.block))
        f.jump(found)
        f.start(found)
        child = f.phi("ptr", *incoming)
        f.require(f.call("i1", "dispatch_flatten", f"ptr {child}", f"ptr {cursor}", f"ptr {place}"), miss)
    f.ret("true")


def _emit_build(module: Module, at: Layout) -> None:
    """dispatch_build(cursor, place): the result's container; takes results and leaves null in their place."""
    f = module.function("dispatch_build", "ptr", "ptr", "ptr")
    cursor, place = f.parameters
    leaf, none, tuple_, list_, dict_, call, items, failed = (f.label() for _ in range(8))
    word = _next_word(f, cursor)
    _switch(f, word, none, {
        trees.LEAF: leaf, trees.TUPLE: tuple_, trees.LIST: list_, trees.DICT: dict_, trees.CALL: call,
    })  # fmt: skip

    f.start(leaf)
    source = f.load("ptr", place)
    value = f.load("ptr", source)
    f.store("ptr", "null", source)
    f.store("ptr", f.at(source, 8), place)
    f.ret(value)

    f.start(none)
    nothing = module.external("_Py_NoneStruct")
    f.call("void", "Py_IncRef", f"ptr {nothing}")
    f.ret(nothing)

    # Tuples, the arguments of CALL among them, and lists.
    incoming, counts, first, maker = [], [], [], []
    zero = "null"
    f.start(call)
    unflatten, aux = _next_word(f, cursor, "ptr"), _next_word(f, cursor, "ptr")
    before_call = f.block
    f.jump(tuple_)
    f.start(tuple_)
    # Reached from the switch in the entry block too, where there is nothing to call.
    f.line(f"%unflatten = phi ptr [ {unflatten}, %{before_call} ], [ {zero}, %entry ]")
    f.line(f"%aux = phi ptr [ {aux}, %{before_call} ], [ {zero}, %entry ]")
    count = _next_word(f, cursor)
    made = f.call("ptr", "PyTuple_New", f"i64 {count}")
    with f.when(f.is_null(made), returns=True):
        f.ret("null")
    incoming.append((made, f.block))
    counts.append((count, f.block))
    first.append((f.at(made, at.tuple_items), f.block))
    maker.append(("%unflatten", f.block))
    data = [("%aux", f.block)]
    f.jump(items)
    f.start(list_)
    count = _next_word(f, cursor)
    made = f.call("ptr", "PyList_New", f"i64 {count}")
    with f.when(f.is_null(made), returns=True):
        f.ret("null")
    incoming.append((made, f.block))
    counts.append((count, f.block))
    first.append((f.load("ptr", made, at.list_items), f.block))
    maker.append(("null", f.block))
    data.append(("null", f.block))
    f.jump(items)

    f.start(items)
    made, count, start = f.phi("ptr", *incoming), f.phi("i64", *counts), f.phi("ptr", *first)
    function, aux = f.phi("ptr", *maker), f.phi("ptr", *data)
    with f.loop(count) as i:
        child = f.call("ptr", "dispatch_build", f"ptr {cursor}", f"ptr {place}")
        with f.when(f.is_null(child), returns=True):
            f.call("void", "Py_DecRef", f"ptr {made}")
            f.ret("null")
        f.store("ptr", child, f.item(start, i))
    with f.when(f.is_null(function), returns=True):
        f.ret(made)
    pair = f.value("alloca [2 x ptr]")
    f.store("ptr", aux, pair)
    f.store("ptr", made, pair, 8)
    value = f.call("ptr", "PyObject_Vectorcall", f"ptr {function}", f"ptr {pair}", "i64 2", "ptr null")
    f.call("void", "Py_DecRef", f"ptr {made}")
    f.ret(value)

    f.start(dict_)
    count = _next_word(f, cursor)
    made = f.call("ptr", "PyDict_New")
    with f.when(f.is_null(made), returns=True):
        f.ret("null")
    with f.loop(count) as _:
        key = _next_word(f, cursor, "ptr")
        child = f.call("ptr", "dispatch_build", f"ptr {cursor}", f"ptr {place}")
        f.require(f.not_null(child), failed)
        status = f.call("i32", "PyDict_SetItem", f"ptr {made}", f"ptr {key}", f"ptr {child}")
        f.call("void", "Py_DecRef", f"ptr {child}")
        f.require(f.compare("eq", "i32", status, 0), failed)
    f.ret(made)
    f.start(failed)
    f.call("void", "Py_DecRef", f"ptr {made}")
    f.ret("null")


def _emit_match(module: Module, at: Layout, array: Fields) -> None:
    """entry_match(entry, arguments, keyword names, frame): the leaves, or null if the entry is not for them."""
    f = module.function("entry_match", "ptr", "ptr", "ptr", "ptr", "ptr")
    entry, arguments, names, frame = f.parameters
    overflow, cursor, place = (f.value(f"alloca {kind}") for kind in ("i32", "ptr", "ptr"))
    miss, test = f.label(), f.label()
    keywords = _field(f, entry, "keyword_count")
    wanted = _field(f, entry, "keywords", "ptr")
    with f.loop(keywords) as i:
        name = f.load("ptr", f.item(f.at(names, at.tuple_items), i))
        f.require(f.same(name, f.load("ptr", f.item(wanted, i))), miss)
    program = _field(f, entry, "arguments", "ptr")
    straight = f.block
    flatten = f.label()
    f.branch(f.is_null(program), test, flatten)

    f.start(flatten)
    leaves_at = f.at(frame, _field(f, entry, "at_leaves"))
    f.store("ptr", program, cursor)
    f.store("ptr", leaves_at, place)
    with f.loop(f.add(_field(f, entry, "positional"), keywords)) as i:
        value = f.load("ptr", f.item(arguments, i))
        f.require(f.call("i1", "dispatch_flatten", f"ptr {value}", f"ptr {cursor}", f"ptr {place}"), miss)
    flattened = f.block
    f.jump(test)

    f.start(test)
    values = f.phi("ptr", (arguments, straight), (leaves_at, flattened))
    tests = _field(f, entry, "leaves", "ptr")
    parameters = f.at(frame, _field(f, entry, "at_parameters"))
    array_type = f.load("ptr", module.variable("array_type"))
    with f.loop(_field(f, entry, "leaf_count")) as i:
        value = f.load("ptr", f.item(values, i))
        leaf = f.at(tests, f.binary("mul", "i64", i, ctypes.sizeof(_Leaf)))
        scratch = f.at(frame, f.binary("shl", "i64", i, 4))
        address = _leaf_test(f, at, array, value, leaf, scratch, overflow, array_type, miss)
        parameter = f.load("i64", leaf, _offset(_Leaf, "parameter"))
        f.store("ptr", address, f.item(parameters, parameter))
    f.ret(values)
    f.start(miss)
    f.ret("null")


def _leaf_test(
    f: Function, at: Layout, array: Fields, value: str, leaf: str, scratch: str, overflow: str,
    array_type: str, miss: str,
) -> str:  # fmt: skip
    """Jump to `miss`, or give the address of the leaf's value (null for a static)."""
    module, hit = f.module, f.label()
    kind = f.load("ptr", value, at.kind)
    incoming: list[tuple[str | int, str]] = []

    def passes(address: str) -> None:
        incoming.append((address, f.block))
        f.jump(hit)

    other = f.label()
    f.require(f.same(kind, array_type), other)
    f.require(f.same(f.load("ptr", value, array.aval), f.load("ptr", leaf, _offset(_Leaf, "aval"))), miss)
    passes(f.load("ptr", value, array.data))

    f.start(other)
    cases: dict[Kind, str] = {k: f.label() for k in Kind if k is not Kind.ARRAY}
    what = f.load("ptr", leaf, _offset(_Leaf, "what"))
    size = f.load("i64", leaf, _offset(_Leaf, "size"))
    _switch(f, f.load("i64", leaf), miss, {int(k): label for k, label in cases.items()})

    f.start(cases[Kind.STATIC])
    f.require(f.same(value, what), miss)
    passes("null")

    f.start(cases[Kind.SCALAR])
    f.require(f.same(kind, what), miss)
    passes(f.at(value, at.header))

    f.start(cases[Kind.BOOL])
    f.require(f.same(kind, module.external("PyBool_Type")), miss)
    truth = f.same(value, module.external("_Py_TrueStruct"))
    f.store("i64", f.value(f"zext i1 {truth} to i64"), scratch)
    passes(scratch)

    f.start(cases[Kind.INT])
    f.require(f.same(kind, module.external("PyLong_Type")), miss)
    number = f.call("i64", "PyLong_AsLongLongAndOverflow", f"ptr {value}", f"ptr {overflow}")
    f.require(f.compare("eq", "i32", f.load("i32", overflow), 0), miss)
    low = f.value(f"sext i32 {f.value(f'trunc i64 {number} to i32')} to i64")
    wide = f.compare("eq", "i64", size, 8)
    f.require(f.binary("or", "i1", wide, f.compare("eq", "i64", low, number)), miss)
    f.store("i64", number, scratch)  # its low half, in place, where the value is an i32
    passes(scratch)

    for case, type_name, parts in ((Kind.FLOAT, "PyFloat_Type", 1), (Kind.COMPLEX, "PyComplex_Type", 2)):
        f.start(cases[case])
        f.require(f.same(kind, module.external(type_name)), miss)
        doubles = [f.load("double", value, at.header + 8 * part) for part in range(parts)]
        narrow = f.label()
        f.require(f.compare("eq", "i64", size, 8 * parts), narrow)
        for part, double in enumerate(doubles):
            f.store("double", double, scratch, 8 * part)
        passes(scratch)
        f.start(narrow)
        for part, double in enumerate(doubles):
            f.store("float", f.value(f"fptrunc double {double} to float"), scratch, 4 * part)
        passes(scratch)

    f.start(cases[Kind.NDARRAY])
    f.require(f.same(kind, module.external("PyArray_Type")), miss)
    f.require(f.same(f.load("ptr", value, at.descr), what), miss)
    rank = f.value(f"sext i32 {f.load('i32', value, at.nd)} to i64")
    f.require(f.compare("eq", "i64", rank, size), miss)
    flags = f.binary("and", "i32", f.load("i32", value, at.flags), CONTIGUOUS_ALIGNED)
    f.require(f.compare("eq", "i32", flags, CONTIGUOUS_ALIGNED), miss)
    dims, wanted = f.load("ptr", value, at.dims), f.load("ptr", leaf, _offset(_Leaf, "dims"))
    with f.loop(size) as i:
        axis = f.load("i64", f.item(dims, i))
        f.require(f.compare("eq", "i64", axis, f.load("i64", f.item(wanted, i))), miss)
    passes(f.load("ptr", value, at.header))

    f.start(hit)
    return f.phi("ptr", *incoming)


def _each_leaf(f: Function, entry: str) -> tuple[str, str]:
    return _field(f, entry, "leaf_count"), _field(f, entry, "leaves", "ptr")


def _emit_pins(module: Module, at: Layout, array: Fields) -> None:
    """entry_pin, entry_unpin(entry, leaves): hold what a program reads while other Python code may run."""
    for name in ("entry_pin", "entry_unpin"):
        f = module.function(name, "void", "ptr", "ptr")
        entry, values = f.parameters
        array_type = f.load("ptr", module.variable("array_type"))
        with f.loop(_field(f, entry, "leaf_count")) as i:
            value = f.load("ptr", f.item(values, i))
            is_array = f.same(f.load("ptr", value, at.kind), array_type)
            if name == "entry_pin":
                f.call("void", "Py_IncRef", f"ptr {value}")
                with f.when(is_array):
                    exports = f.load("i64", value, array.exports)
                    f.store("i64", f.add(exports, 1), value, array.exports)
            else:
                with f.when(is_array):
                    f.call("void", "array_unpin", f"ptr {value}")
                f.call("void", "Py_DecRef", f"ptr {value}")
        f.ret()


def _emit_donate(module: Module, at: Layout, array: Fields) -> None:
    """entry_donate(entry, leaves, frame): give results the memory of donated leaves, and delete those.

    A result that takes a leaf's memory is a shell so far. Where the memory is not the array's own, is inline or
    is being read, or the same array is passed twice, it gets a block with a copy instead, which the program
    takes for the parameter. `entry_donated` gives the memory of all other donated leaves back; it is called
    also where a copy could not be had, since other leaves may have lost their memory before.
    """
    f = module.function("entry_donate", "i1", "ptr", "ptr", "ptr", cold=True)
    entry, values, frame = f.parameters
    leaf_count, leaves = _each_leaf(f, entry)
    parameters = f.at(frame, _field(f, entry, "at_parameters"))
    addresses = f.at(frame, _field(f, entry, "at_addresses"))
    results_at = f.at(frame, _field(f, entry, "at_results"))
    results = _field(f, entry, "results", "ptr")
    array_type = f.load("ptr", module.variable("array_type"))
    uses, good = f.value("alloca i64"), f.value("alloca i1")
    f.store("i1", "true", good)
    with f.loop(_field(f, entry, "result_count")) as i:
        row = f.at(results, f.binary("mul", "i64", i, ctypes.sizeof(_Result)))
        source = f.load("i64", row, _offset(_Result, "source"))
        with f.when(f.compare("sge", "i64", source, 0)):
            value = f.load("ptr", f.item(values, source))
            leaf = f.at(leaves, f.binary("mul", "i64", source, ctypes.sizeof(_Leaf)))
            parameter = f.item(parameters, f.load("i64", leaf, _offset(_Leaf, "parameter")))
            place = f.item(results_at, i)
            f.store("i64", 0, uses)
            with f.loop(leaf_count) as j:
                equal = f.value(f"zext i1 {f.same(f.load('ptr', f.item(values, j)), value)} to i64")
                f.store("i64", f.add(f.load("i64", uses), equal), uses)
            copy, done, following = f.label(), f.label(), f.label()
            f.require(f.same(f.load("ptr", value, at.kind), array_type), copy)
            f.require(f.compare("eq", "i64", f.load("i64", uses), 1), copy)
            taken = f.call("i32", "array_take", f"ptr {f.load('ptr', place)}", f"ptr {value}")
            f.branch(f.compare("ne", "i32", taken, 0), done, copy)
            f.start(copy)
            f.call("void", "Py_DecRef", f"ptr {f.load('ptr', place)}")
            nbytes = f.load("i64", row, _offset(_Result, "nbytes"))
            made = f.call("ptr", "array_new", f"ptr {f.load('ptr', row)}", f"i64 {nbytes}")
            f.store("ptr", made, place)
            refused = f.label()
            f.require(f.not_null(made), refused)
            block = f.load("ptr", made, array.data)
            f.call("ptr", "memcpy", f"ptr {block}", f"ptr {f.load('ptr', parameter)}", f"i64 {nbytes}")
            f.store("ptr", block, parameter)
            f.jump(done)
            f.start(done)
            f.store("ptr", f.load("ptr", f.load("ptr", place), array.data), f.item(addresses, i))
            f.jump(following)
            f.start(refused)
            f.store("i1", "false", good)
            f.jump(following)
            f.start(following)
    with f.loop(leaf_count) as i:
        marker, value = _donated(f, at, leaves, values, i, array_type)
        with f.when(f.not_null(marker)):
            f.store("i64", f.add(f.load("i64", value, array.exports), 1), value, array.exports)
            with f.when(is_live(f, at, f.load("ptr", value, array.aval))):
                f.call("void", "array_mark", f"ptr {value}", f"ptr {marker}")
    f.ret(f.load("i1", good))

    f = module.function("entry_donated", "void", "ptr", "ptr", cold=True)
    entry, values = f.parameters
    leaf_count, leaves = _each_leaf(f, entry)
    array_type = f.load("ptr", module.variable("array_type"))
    with f.loop(leaf_count) as i:
        marker, value = _donated(f, at, leaves, values, i, array_type)
        with f.when(f.not_null(marker)):
            f.call("void", "array_unpin", f"ptr {value}")
    f.ret()


def _donated(f: Function, at: Layout, leaves: str, values: str, i: str, array_type: str) -> tuple[str, str]:
    """The marker for a leaf that is an array and donated, else null; and the leaf's value."""
    leaf = f.at(leaves, f.binary("mul", "i64", i, ctypes.sizeof(_Leaf)))
    value = f.load("ptr", f.item(values, i))
    marker = f.load("ptr", leaf, _offset(_Leaf, "marker"))
    is_array = f.same(f.load("ptr", value, at.kind), array_type)
    return f.select(is_array, "ptr", marker, "null"), value


def _emit_run(module: Module, array: Fields) -> None:
    """entry_run(entry, leaves, frame): make the results, run the program, build what the call returns."""
    f = module.function("entry_run", "ptr", "ptr", "ptr", "ptr")
    entry, values, frame = f.parameters
    cursor, place = f.value("alloca ptr"), f.value("alloca ptr")
    failed, undo = f.label(), f.label()
    parameters = f.at(frame, _field(f, entry, "at_parameters"))
    addresses = f.at(frame, _field(f, entry, "at_addresses"))
    results_at = f.at(frame, _field(f, entry, "at_results"))
    count, rows = _field(f, entry, "result_count"), _field(f, entry, "results", "ptr")
    captured = _field(f, entry, "captured", "ptr")
    with f.loop(_field(f, entry, "captured_count")) as i:
        row = f.at(captured, f.binary("shl", "i64", i, 4))
        f.store("ptr", f.load("ptr", row, 8), f.item(parameters, f.load("i64", row)))
    with f.loop(count) as i:
        f.store("ptr", "null", f.item(results_at, i))  # `failed` drops what there is
    with f.loop(count) as i:
        row = f.at(rows, f.binary("mul", "i64", i, ctypes.sizeof(_Result)))
        aval, nbytes = f.load("ptr", row), f.load("i64", row, _offset(_Result, "nbytes"))
        fresh, made = f.label(), f.label()
        f.require(f.compare("sge", "i64", f.load("i64", row, _offset(_Result, "source")), 0), fresh)
        incoming = [(f.call("ptr", "array_shell", f"ptr {aval}", "i64 0"), f.block)]
        f.jump(made)
        f.start(fresh)
        incoming.append((f.call("ptr", "array_new", f"ptr {aval}", f"i64 {nbytes}"), f.block))
        f.jump(made)
        f.start(made)
        result = f.phi("ptr", *incoming)
        f.store("ptr", result, f.item(results_at, i))
        f.require(f.not_null(result), failed)
        f.store("ptr", f.load("ptr", result, array.data), f.item(addresses, i))
    flags = _field(f, entry, "flags")
    pins = f.compare("ne", "i64", f.binary("and", "i64", flags, _PINS), 0)
    donates = f.compare("ne", "i64", f.binary("and", "i64", flags, _DONATES), 0)
    with f.when(pins):
        f.call("void", "entry_pin", f"ptr {entry}", f"ptr {values}")
    with f.when(donates):
        given = f.call("i1", "entry_donate", f"ptr {entry}", f"ptr {values}", f"ptr {frame}")
        f.require(given, undo)
    descriptor = _field(f, entry, "descriptor", "ptr")
    status = f.call("i32", "braze_call", f"ptr {descriptor}", f"ptr {parameters}", f"ptr {addresses}")
    with f.when(donates):
        f.call("void", "entry_donated", f"ptr {entry}", f"ptr {values}")
    with f.when(pins):
        f.call("void", "entry_unpin", f"ptr {entry}", f"ptr {values}")
    with f.when(f.compare("ne", "i32", status, 0), returns=True):
        _raise_status(f, entry, status)
        f.jump(failed)
    program = _field(f, entry, "result", "ptr")
    with f.when(f.is_null(program), returns=True):
        f.ret(f.load("ptr", results_at))
    f.store("ptr", program, cursor)
    f.store("ptr", results_at, place)
    value = f.call("ptr", "dispatch_build", f"ptr {cursor}", f"ptr {place}")
    f.require(f.not_null(value), failed)
    f.ret(value)

    f.start(undo)
    f.call("void", "entry_donated", f"ptr {entry}", f"ptr {values}")
    with f.when(pins):
        f.call("void", "entry_unpin", f"ptr {entry}", f"ptr {values}")
    f.jump(failed)
    f.start(failed)
    with f.loop(count) as i:
        f.call("void", "Py_DecRef", f"ptr {f.load('ptr', f.item(results_at, i))}")
    f.ret("null")


def _raise_status(f: Function, entry: str, status: str) -> None:
    """Leave the exception of a status set; RAISED (1) has set it already."""
    with f.when(f.compare("ne", "i32", status, 1)):
        number = f.call("ptr", "PyLong_FromSsize_t", f"i64 {f.value(f'sext i32 {status} to i64')}")
        with f.when(f.not_null(number)):
            pair = f.value("alloca [2 x ptr]")
            f.store("ptr", _field(f, entry, "entry", "ptr"), pair)
            f.store("ptr", number, pair, 8)
            function = f.module.external("braze_bad_status")
            made = f.call("ptr", "PyObject_Vectorcall", f"ptr {function}", f"ptr {pair}", "i64 2", "ptr null")
            f.call("void", "Py_DecRef", f"ptr {made}")
            f.call("void", "Py_DecRef", f"ptr {number}")


def _emit_gate(module: Module) -> None:
    """gate_epoch(): the epoch of this thread while the gate is not open (`gate`); -1 fits no entry."""
    f = module.function("gate_epoch", "i64")
    words = module.external("braze_gate")
    with f.when(f.compare("ne", "i64", f.load("i64", words), 1), returns=True):
        f.ret(-1)
    thread = f.call("i64", "PyThreadState_GetID", f"ptr {f.call('ptr', 'PyThreadState_Get')}")
    same = f.compare("eq", "i64", thread, f.load("i64", words, 8))
    f.ret(f.select(same, "i64", f.load("i64", words, 16), 0))


def _emit_search(module: Module, at: Layout, fields: FunctionFields) -> None:
    """function_search(function, arguments, count, names, frame): the result, or null.

    Null without an exception means that no entry is for these arguments: the caller goes the slow way.
    """
    f = module.function("function_search", "ptr", "ptr", "ptr", "i64", "ptr", "ptr", "ptr")
    function, arguments, count, names, frame, matched = f.parameters
    given, counted = f.label(), f.label()
    start = f.block
    f.branch(f.is_null(names), counted, given)
    f.start(given)
    listed = f.load("i64", names, at.header)
    f.jump(counted)
    f.start(counted)
    keywords = f.phi("i64", (0, start), (listed, given))
    open_, closed, passed = f.label(), f.label(), f.label()
    mode = f.load("i64", module.external("braze_gate"))
    f.branch(f.compare("eq", "i64", mode, 0), open_, closed)
    f.start(closed)
    own = f.call("i64", "gate_epoch")
    f.jump(passed)
    f.start(open_)
    f.jump(passed)
    f.start(passed)
    epoch = f.phi("i64", (own, closed), (0, open_))
    chain = f.load("ptr", function, fields.chain)
    head, following, exhausted = f.label(), f.label(), f.label()
    before = f.block
    f.jump(head)
    f.start(head)
    f.line(f"%at = phi ptr [ {chain}, %{before} ], [ %next, %{following} ]")
    entry = f.load("ptr", "%at")
    f.require(f.not_null(entry), exhausted)
    f.require(f.compare("eq", "i64", _field(f, entry, "positional"), count), following)
    f.require(f.compare("eq", "i64", _field(f, entry, "keyword_count"), keywords), following)
    f.require(f.compare("eq", "i64", _field(f, entry, "epoch"), epoch), following)
    values = f.call("ptr", "entry_match", f"ptr {entry}", f"ptr {arguments}", f"ptr {names}", f"ptr {frame}")
    f.require(f.not_null(values), following)
    f.store("i64", 1, matched)
    f.ret(f.call("ptr", "entry_run", f"ptr {entry}", f"ptr {values}", f"ptr {frame}"))
    f.start(following)
    f.line("%next = getelementptr ptr, ptr %at, i64 1")
    f.jump(head)
    f.start(exhausted)
    f.ret("null")


def _emit_call(module: Module, fields: FunctionFields) -> None:
    """function_call: the vectorcall of the type."""
    f = module.function("function_call", "ptr", "ptr", "ptr", "i64", "ptr")
    function, arguments, flagged, names = f.parameters
    slow, finish, large = f.label(), f.label(), f.label()
    matched = f.value("alloca i64")
    f.store("i64", 0, matched)
    count = f.binary("and", "i64", flagged, 0x7FFFFFFFFFFFFFFF)  # PY_VECTORCALL_ARGUMENTS_OFFSET is not one
    size = f.load("i64", function, fields.frame)
    f.require(f.compare("ne", "i64", size, 0), slow)
    keep = f.load("ptr", function, fields.keep)
    increment(f, keep)
    f.require(f.compare("ule", "i64", size, STACK_BYTES), large)
    frame = f.value(f"alloca i8, i64 {size}, align 16")
    search = (f"ptr {function}", f"ptr {arguments}", f"i64 {count}", f"ptr {names}")
    found = [(f.call("ptr", "function_search", *search, f"ptr {frame}", f"ptr {matched}"), f.block)]
    f.jump(finish)

    f.start(large)
    block = f.call("ptr", "PyMem_RawMalloc", f"i64 {size}")
    with f.when(f.is_null(block), returns=True):
        f.call("void", "Py_DecRef", f"ptr {keep}")
        f.ret(f.call("ptr", "PyErr_NoMemory"))
    found.append((f.call("ptr", "function_search", *search, f"ptr {block}", f"ptr {matched}"), f.block))
    f.call("void", "PyMem_RawFree", f"ptr {block}")
    f.jump(finish)

    f.start(finish)
    result = f.phi("ptr", *found)
    decrement(f, keep)
    with f.when(f.compare("ne", "i64", f.load("i64", matched), 0), returns=True):
        f.ret(result)
    f.jump(slow)
    f.start(slow)
    path = f.load("ptr", function, fields.slow)
    f.ret(
        f.call(
            "ptr", "PyObject_Vectorcall", f"ptr {path}", f"ptr {arguments}", f"i64 {flagged}", f"ptr {names}"
        )
    )


def _emit_type(module: Module, at: Layout, fields: FunctionFields) -> None:
    """The slots of the type: life and death, the garbage collector, binding to instances."""
    owned = (fields.slow, fields.dict, fields.keep)
    none = module.external("_Py_NoneStruct")

    f = module.function("function_traverse", "i32", "ptr", "ptr", "ptr", cold=True)
    function, visit, argument = f.parameters
    for offset in (at.kind, *owned):
        value = f.load("ptr", function, offset)
        with f.when(f.not_null(value)):
            status = f.call_address("i32", visit, f"ptr {value}", f"ptr {argument}")
            with f.when(f.compare("ne", "i32", status, 0), returns=True):
                f.ret(status)
    f.ret(0)

    # None in place of the slow path: a finaliser of the same cycle may still call the function.
    f = module.function("function_clear", "i32", "ptr", cold=True)
    (function,) = f.parameters
    f.store("ptr", "null", function, fields.chain)
    f.store("i64", 0, function, fields.frame)
    for offset, replacement in ((fields.slow, none), (fields.keep, "null"), (fields.dict, "null")):
        value = f.load("ptr", function, offset)
        f.call("void", "Py_IncRef", f"ptr {replacement}")
        f.store("ptr", replacement, function, offset)
        f.call("void", "Py_DecRef", f"ptr {value}")
    f.ret(0)

    f = module.function("function_dealloc", "void", "ptr", cold=True)
    (function,) = f.parameters
    f.call("void", "PyObject_GC_UnTrack", f"ptr {function}")
    with f.when(f.not_null(f.load("ptr", function, fields.weak))):
        f.call("void", "PyObject_ClearWeakRefs", f"ptr {function}")
    f.call("i32", "function_clear", f"ptr {function}")
    f.call("void", "Py_DecRef", f"ptr {none}")
    kind = f.load("ptr", function, at.kind)
    f.call("void", "PyObject_GC_Del", f"ptr {function}")
    f.call("void", "Py_DecRef", f"ptr {kind}")
    f.ret()

    f = module.function("function_bind", "ptr", "ptr", "ptr", "ptr")
    function, instance, _ = f.parameters
    with f.when(f.not_null(instance), returns=True):
        f.ret(f.call("ptr", "PyMethod_New", f"ptr {function}", f"ptr {instance}"))
    f.call("void", "Py_IncRef", f"ptr {function}")
    f.ret(function)


def _emit_functions(module: Module, at: Layout, fields: FunctionFields) -> None:
    """What Python calls: make(slow, dict, keep), set(function, keep, chain, frame bytes), kept(function)."""
    f = module.function("py_make_function", "ptr", "ptr", "ptr", "i64", cold=True)
    arguments = f.parameters[1]
    kind = f.load("ptr", module.variable("function_type"))
    made = f.call("ptr", "PyType_GenericAlloc", f"ptr {kind}", "i64 0")
    with f.when(f.not_null(made)):
        f.store("ptr", "@function_call", made, fields.vectorcall)
        for index, offset in enumerate((fields.slow, fields.dict, fields.keep)):
            value = f.load("ptr", arguments, 8 * index)
            f.call("void", "Py_IncRef", f"ptr {value}")
            f.store("ptr", value, made, offset)
    f.ret(made)

    f = module.function("py_set_entries", "ptr", "ptr", "ptr", "i64", cold=True)
    arguments = f.parameters[1]
    function, keep = f.load("ptr", arguments), f.load("ptr", arguments, 8)
    chain = f.call("ptr", "PyLong_AsVoidPtr", f"ptr {f.load('ptr', arguments, 16)}")
    size = f.call("i64", "PyLong_AsSsize_t", f"ptr {f.load('ptr', arguments, 24)}")
    before = f.load("ptr", function, fields.keep)
    f.call("void", "Py_IncRef", f"ptr {keep}")
    f.store("ptr", chain, function, fields.chain)
    f.store("i64", size, function, fields.frame)
    f.store("ptr", keep, function, fields.keep)
    f.call("void", "Py_DecRef", f"ptr {before}")
    none = module.external("_Py_NoneStruct")
    f.call("void", "Py_IncRef", f"ptr {none}")
    f.ret(none)

    f = module.function("py_kept", "ptr", "ptr", "ptr", cold=True)
    keep = f.load("ptr", f.parameters[1], fields.keep)
    f.call("void", "Py_IncRef", f"ptr {keep}")
    f.ret(keep)


class _Tables:
    """One entry as machine code reads it, and all that it points to."""

    __slots__ = ("entry", "frame_bytes", "held", "table")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.held: list[Any] = []
        leaves, results = len(entry.leaves), len(entry.results)
        at_leaves = 16 * leaves
        at_parameters = at_leaves + 8 * leaves
        at_addresses = at_parameters + 8 * (entry.parameters + 1)
        at_results = at_addresses + 8 * results
        self.frame_bytes = at_results + 8 * results
        program = trees.arguments(entry.arguments)
        assert program is not None, "the caller asked `can_enter`"
        result = trees.results(entry.result)
        self.table = _Entry(
            entry=id(entry),
            epoch=entry.epoch,
            positional=entry.positional,
            keyword_count=len(entry.keywords),
            keywords=self._addresses(_interned(entry.keywords)),
            arguments=0 if trees.is_flat(program) else self._program(program),
            leaf_count=leaves,
            leaves=self._keep((_Leaf * leaves)(*(self._leaf(leaf) for leaf in entry.leaves))),
            captured_count=len(entry.captured),
            captured=self._captured(),
            result_count=results,
            results=self._keep((_Result * results)(*(self._result(i) for i in range(results)))),
            result=0 if result == (trees.LEAF,) else self._program(result),
            descriptor=ctypes.addressof(entry.descriptor),
            flags=_PINS * bool(entry.descriptor.flags & RELEASES_GIL or entry.descriptor.host)
            | _DONATES * entry.donates,
            at_leaves=at_leaves,
            at_parameters=at_parameters,
            at_addresses=at_addresses,
            at_results=at_results,
        )

    def _keep(self, memory: Any) -> int:
        self.held.append(memory)
        return ctypes.addressof(memory)

    def _addresses(self, objects: tuple[Any, ...]) -> int:
        self.held.append(objects)
        return self._keep((ctypes.c_void_p * len(objects))(*map(id, objects)))

    def _program(self, words: trees.Program) -> int:
        self.held.append(words)
        plain = [id(word.value) if isinstance(word, trees.Reference) else word for word in words]
        return self._keep((ctypes.c_int64 * len(plain))(*plain))

    def _leaf(self, leaf: Leaf) -> _Leaf:
        row = _Leaf(kind=leaf.kind)
        row.parameter = self.entry.parameters if leaf.parameter is None else leaf.parameter
        if leaf.aval is None:
            row.what = id(leaf.value)
            return row
        dtype = standard(leaf.aval.dtype)
        self.held.append(dtype)
        row.aval, row.size = id(leaf.aval), leaf.aval.nbytes
        if leaf.kind is Kind.NDARRAY:
            row.what, row.size = id(dtype), leaf.aval.ndim
            row.dims = self._keep((ctypes.c_int64 * leaf.aval.ndim)(*leaf.aval.shape))
        elif leaf.kind is Kind.SCALAR:
            row.what = id(dtype.type)
        if leaf.donated:
            marker = Deleted(leaf.aval, f"was donated to {self.entry.name}")
            self.held.append(marker)
            row.marker = id(marker)
        return row

    def _captured(self) -> int:
        rows = [_Captured(parameter, arrays.address(a)) for parameter, a in self.entry.captured.items()]
        return self._keep((_Captured * len(rows))(*rows))

    def _result(self, index: int) -> _Result:
        aval, source = self.entry.results[index], self.entry.source_of(index)
        return _Result(id(aval), aval.nbytes, -1 if source is None else source)


def _interned(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(sys.intern, names))


FUNCTIONS = {"make_function": METH_FASTCALL, "set_entries": METH_FASTCALL, "kept": METH_O}
"""Functions for Python and how they are called; `py_` precedes the names of their symbols."""


class NativeFunctions:
    """The implementation of `dispatch.Functions` in machine code."""

    name = "native"

    def __init__(self, addresses: Mapping[str, int], at: Layout) -> None:
        fields = FunctionFields(at.header)
        self.kind: type = make_type(
            "braze.JitFunction",
            fields.size,
            DISALLOW_INSTANTIATION | HAVE_VECTORCALL | HAVE_GC | METHOD_DESCRIPTOR,
            {
                "tp_call": python_address("PyVectorcall_Call"),
                "tp_dealloc": addresses["function_dealloc"],
                "tp_traverse": addresses["function_traverse"],
                "tp_clear": addresses["function_clear"],
                "tp_descr_get": addresses["function_bind"],
            },
            offsets={
                "__vectorcalloffset__": fields.vectorcall,
                "__dictoffset__": fields.dict,
                "__weaklistoffset__": fields.weak,
            },
            getters={
                "__dict__": (
                    python_address("PyObject_GenericGetDict"),
                    python_address("PyObject_GenericSetDict"),
                    "Attributes.",
                )
            },
        )
        made = make_functions((name, addresses[f"py_{name}"], flags) for name, flags in FUNCTIONS.items())
        self._make, self._set, self._kept = (made[name] for name in FUNCTIONS)

    def make(self, slow: Callable[..., Any], attributes: dict[str, Any]) -> Any:
        return self._make(slow, attributes, [])

    def set_entries(self, function: Any, entries: tuple[Entry, ...]) -> None:
        known = {tables.entry: tables for tables in self._tables(function)}
        chosen = [known.get(entry) or _Tables(entry) for entry in entries]
        chain = (ctypes.c_void_p * (len(chosen) + 1))(*(ctypes.addressof(t.table) for t in chosen))
        frame = max((tables.frame_bytes for tables in chosen), default=0)
        self._set(function, [*chosen, chain], ctypes.addressof(chain), (frame + 15) & ~15)

    def entries(self, function: Any) -> tuple[Entry, ...]:
        return tuple(tables.entry for tables in self._tables(function))

    def _tables(self, function: Any) -> list[_Tables]:
        return self._kept(function)[:-1]  # type: ignore[no-any-return]
