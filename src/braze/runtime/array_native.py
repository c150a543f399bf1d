"""The array as a type made of machine code: LLVM IR for its memory, views and attributes.

```
header | aval | data | owner | weak references | exports | bytes | 64 to 256 bytes of data
```

`aval` is the interned `TensorType`, or the `Deleted` marker that took its place; `data` points behind the
fields, to a block of the allocator, or into memory that `owner` keeps. `exports` counts what may read the
memory now: NumPy views, buffers and calls that run without the GIL. A deleted array gives its block back when
that count falls to zero.

Room for 64 bytes of data is in every object, so that all but the rare middle sizes are one size, and a few dead
ones are kept for the next results: 13 of 65 ns of a small call. `bytes` tells the sizes apart: of data behind the
fields, or of the block.

The type is outside the garbage collector and has no base for subclasses: an object from the kept ones,
six stores and `tp_dealloc` are all there is to a small result. Python methods are set on it afterwards.

Invariants:
- The GIL is held in every function here.
- NumPy never owns the memory: an ndarray's base is a small `View` object that holds the array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from braze.runtime.heaptype import DISALLOW_INSTANTIATION, METH_FASTCALL, METH_O, make_functions, make_type
from braze.runtime.irtext import Function, Module
from braze.runtime.layout import CONTIGUOUS_ALIGNED, Layout
from braze.types import TensorType

NDArray: TypeAlias = "np.ndarray[Any, Any]"

INLINE_BYTES = 256
ROOM = 64
KEPT = 64
"""Dead objects that are kept."""
WRITEABLE = 0x400  # NPY_ARRAY_WRITEABLE


class Fields:
    """Byte offsets in an array object."""

    def __init__(self, header: int) -> None:
        self.aval, self.data, self.owner, self.weak, self.exports, self.bytes = (
            header + 8 * i for i in range(6)
        )
        self.inline = (header + 48 + 15) & ~15


def increment(f: Function, value: str) -> None:
    """`Py_INCREF` of an object known to be mortal: the low half is the count on every CPython."""
    count = f.load("i32", value)
    f.store("i32", f.binary("add", "i32", count, 1), value)


def decrement(f: Function, value: str) -> None:
    """`Py_DECREF` of such an object."""
    left = f.binary("sub", "i32", f.load("i32", value), 1)
    f.store("i32", left, value)
    with f.when(f.compare("eq", "i32", left, 0)):
        f.call("void", "_Py_Dealloc", f"ptr {value}")


def _allocate_or_fail(f: Function, nbytes: str, failed: str) -> str:
    """A block of the allocator, or a jump to `failed` with the exception set."""
    block = f.call("ptr", "braze_alloc", f"i64 {nbytes}")
    with f.when(f.is_null(block), returns=True):
        _call_python(f, "braze_out_of_memory", f.call("ptr", "PyLong_FromSsize_t", f"i64 {nbytes}"))
        f.jump(failed)
    return block


def _call_python(f: Function, which: str, argument: str) -> None:
    """Call one of the Python functions that raise; the argument is a new reference."""
    with f.when(f.not_null(argument)):
        made = f.call("ptr", "PyObject_CallOneArg", f"ptr {f.module.external(which)}", f"ptr {argument}")
        with f.when(f.not_null(made)):
            f.call("void", "Py_DecRef", f"ptr {made}")
        f.call("void", "Py_DecRef", f"ptr {argument}")


def emit(module: Module, at: Layout) -> None:
    """Add the functions of the array type to a module."""
    fields = Fields(at.header)
    _emit_shell(module, at, fields)
    _emit_new(module, fields)
    _emit_release(module, fields)
    _emit_unpin(module, at, fields)
    _emit_dealloc(module, at, fields)
    _emit_get_aval(module, at, fields)
    _emit_view(module, at)
    _emit_numpy(module, at, fields)
    _emit_buffer(module)
    _emit_functions(module, at, fields)


def is_live(f: Function, at: Layout, aval: str) -> str:
    """Whether an array's aval is a type, not the marker of a deleted array."""
    return f.same(f.load("ptr", aval, at.kind), f.module.external("braze_tensor_type"))


def _emit_shell(module: Module, at: Layout, fields: Fields) -> None:
    """array_shell(aval, extra bytes): an array object without memory."""
    f = module.function("array_shell", "ptr", "ptr", "i64")
    aval, extra = f.parameters
    kind = f.load("ptr", module.variable("array_type"))
    head = f.load("ptr", module.variable("array_kept"))
    kept, fresh, ready = f.label(), f.label(), f.label()
    f.require(f.not_null(head), fresh)
    f.require(f.compare("ule", "i64", extra, ROOM), fresh)
    f.store("ptr", f.load("ptr", head, fields.data), module.variable("array_kept"))
    f.store("i64", f.add(f.load("i64", module.variable("array_kept_count")), -1), "@array_kept_count")
    f.call("void", "_Py_NewReference", f"ptr {head}")
    increment(f, kind)
    f.jump(kept)
    f.start(kept)
    f.jump(ready)
    f.start(fresh)
    room = f.select(f.compare("ule", "i64", extra, ROOM), "i64", ROOM, extra)
    block = f.call("ptr", "PyObject_Malloc", f"i64 {f.add(room, fields.inline)}")
    with f.when(f.is_null(block), returns=True):
        f.ret(f.call("ptr", "PyErr_NoMemory"))
    f.call("ptr", "PyObject_Init", f"ptr {block}", f"ptr {kind}")
    initialised = f.block
    f.jump(ready)
    f.start(ready)
    made = f.phi("ptr", (head, kept), (block, initialised))
    increment(f, aval)
    f.store("ptr", aval, made, fields.aval)
    for field in (fields.data, fields.owner, fields.weak, fields.exports):
        f.store("ptr", "null", made, field)
    f.store("i64", extra, made, fields.bytes)
    f.ret(made)


def _emit_new(module: Module, fields: Fields) -> None:
    """array_new(aval, bytes): an array with memory of its own, contents undefined."""
    f = module.function("array_new", "ptr", "ptr", "i64")
    aval, nbytes = f.parameters
    failed = f.label()
    small = f.compare("ule", "i64", nbytes, INLINE_BYTES)
    made = f.call("ptr", "array_shell", f"ptr {aval}", f"i64 {f.select(small, 'i64', nbytes, 0)}")
    with f.when(f.is_null(made), returns=True):
        f.ret("null")
    with f.when(small, returns=True):
        f.store("ptr", f.at(made, fields.inline), made, fields.data)
        f.ret(made)
    f.store("ptr", _allocate_or_fail(f, nbytes, failed), made, fields.data)
    f.store("i64", nbytes, made, fields.bytes)
    f.ret(made)
    f.start(failed)
    f.call("void", "Py_DecRef", f"ptr {made}")
    f.ret("null")


def _emit_release(module: Module, fields: Fields) -> None:
    """array_release(array): give the memory back to whoever it came from."""
    f = module.function("array_release", "void", "ptr")
    (array,) = f.parameters
    block = f.load("ptr", array, fields.data)
    owner = f.load("ptr", array, fields.owner)
    f.store("ptr", "null", array, fields.data)
    f.store("ptr", "null", array, fields.owner)
    with f.when(f.not_null(owner), returns=True):
        f.call("void", "Py_DecRef", f"ptr {owner}")
        f.ret()
    inline = f.same(block, f.at(array, fields.inline))
    with f.when(f.binary("or", "i1", inline, f.is_null(block)), returns=True):
        f.ret()
    f.call("void", "braze_free", f"ptr {block}", f"i64 {f.load('i64', array, fields.bytes)}")
    f.ret()


def _emit_unpin(module: Module, at: Layout, fields: Fields) -> None:
    """array_unpin(array): one reader less; the last one of a deleted array releases the memory."""
    f = module.function("array_unpin", "void", "ptr")
    (array,) = f.parameters
    exports = f.add(f.load("i64", array, fields.exports), -1)
    f.store("i64", exports, array, fields.exports)
    with f.when(f.compare("ne", "i64", exports, 0), returns=True):
        f.ret()
    with f.when(is_live(f, at, f.load("ptr", array, fields.aval)), returns=True):
        f.ret()
    f.call("void", "array_release", f"ptr {array}")
    f.ret()


def _emit_dealloc(module: Module, at: Layout, fields: Fields) -> None:
    f = module.function("array_dealloc", "void", "ptr")
    (array,) = f.parameters
    with f.when(f.not_null(f.load("ptr", array, fields.weak))):
        f.call("void", "PyObject_ClearWeakRefs", f"ptr {array}")
    inline = f.same(f.load("ptr", array, fields.data), f.at(array, fields.inline))
    with f.when(f.binary("xor", "i1", inline, "true")):
        f.call("void", "array_release", f"ptr {array}")
    decrement(f, f.load("ptr", array, fields.aval))
    kind = f.load("ptr", array, at.kind)
    nbytes, count = f.load("i64", array, fields.bytes), f.load("i64", module.variable("array_kept_count"))
    free, gone = f.label(), f.label()
    # One size: not those with over 64 bytes of data inside.
    f.require(f.compare("uge", "i64", f.add(nbytes, -1 - ROOM), INLINE_BYTES - ROOM), free)
    f.require(f.compare("ult", "i64", count, KEPT), free)
    f.store("ptr", f.load("ptr", module.variable("array_kept")), array, fields.data)
    f.store("ptr", array, "@array_kept")
    f.store("i64", f.add(count, 1), "@array_kept_count")
    f.jump(gone)
    f.start(free)
    f.call("void", "PyObject_Free", f"ptr {array}")
    f.jump(gone)
    f.start(gone)
    decrement(f, kind)
    f.ret()


def _fail_deleted(f: Function, array: str) -> None:
    """Raise DeletedArrayError through the Python function that words it."""
    increment(f, array)
    _call_python(f, "braze_deleted", array)


def _emit_get_aval(module: Module, at: Layout, fields: Fields) -> None:
    f = module.function("array_get_aval", "ptr", "ptr", "ptr")
    array, _ = f.parameters
    aval = f.load("ptr", array, fields.aval)
    with f.when(is_live(f, at, aval), returns=True):
        increment(f, aval)
        f.ret(aval)
    _fail_deleted(f, array)
    f.ret("null")


def _emit_view(module: Module, at: Layout) -> None:
    """The base of ndarrays: holds an array and counts as one reader of its memory."""
    f = module.function("view_dealloc", "void", "ptr", cold=True)
    (view,) = f.parameters
    array = f.load("ptr", view, at.header)
    f.call("void", "array_unpin", f"ptr {array}")
    f.call("void", "Py_DecRef", f"ptr {array}")
    kind = f.load("ptr", view, at.kind)
    f.call("void", "PyObject_Free", f"ptr {view}")
    f.call("void", "Py_DecRef", f"ptr {kind}")
    f.ret()


def _emit_numpy(module: Module, at: Layout, fields: Fields) -> None:
    """array_numpy(array, flags): an ndarray over the array's memory."""
    f = module.function("array_numpy", "ptr", "ptr", "i32", cold=True)
    array, flags = f.parameters
    aval = f.load("ptr", array, fields.aval)
    dead = f.binary("xor", "i1", is_live(f, at, aval), "true")
    with f.when(dead, returns=True):
        _fail_deleted(f, array)
        f.ret("null")
    shape = f.load("ptr", aval, at.type_shape)
    rank = f.load("i64", shape, at.header)
    dims = f.value(f"alloca i64, i64 {rank}")
    with f.loop(rank) as i:
        size = f.load("ptr", f.item(f.at(shape, at.tuple_items), i))
        f.store("i64", f.call("i64", "PyLong_AsSsize_t", f"ptr {size}"), f.item(dims, i))
    dtype = f.load("ptr", aval, at.type_dtype)
    f.call("void", "Py_IncRef", f"ptr {dtype}")
    made = f.call(
        "ptr", "PyArray_NewFromDescr", f"ptr {module.external('PyArray_Type')}", f"ptr {dtype}",
        f"i32 {f.value(f'trunc i64 {rank} to i32')}", f"ptr {dims}", "ptr null",
        f"ptr {f.load('ptr', array, fields.data)}", f"i32 {flags}", "ptr null",
    )  # fmt: skip
    with f.when(f.is_null(made), returns=True):
        f.ret("null")
    view = f.call("ptr", "PyObject_Malloc", f"i64 {at.header + 8}")
    with f.when(f.is_null(view), returns=True):
        f.call("void", "Py_DecRef", f"ptr {made}")
        f.ret(f.call("ptr", "PyErr_NoMemory"))
    f.call("ptr", "PyObject_Init", f"ptr {view}", f"ptr {f.load('ptr', module.variable('view_type'))}")
    increment(f, array)
    f.store("ptr", array, view, at.header)
    f.store("i64", f.add(f.load("i64", array, fields.exports), 1), array, fields.exports)
    # Takes the view, also where it fails; it cannot fail for an ndarray made the line before.
    f.call("i32", "PyArray_SetBaseObject", f"ptr {made}", f"ptr {view}")
    f.ret(made)


def _emit_buffer(module: Module) -> None:
    """bf_getbuffer: NumPy knows formats and shapes, so the request goes to an ndarray over the memory."""
    f = module.function("array_getbuffer", "i32", "ptr", "ptr", "i32", cold=True)
    array, buffer, flags = f.parameters
    f.store("ptr", "null", buffer, 8)  # Py_buffer.obj, as the protocol wants it after a failure
    made = f.call("ptr", "array_numpy", f"ptr {array}", f"i32 {CONTIGUOUS_ALIGNED}")
    with f.when(f.is_null(made), returns=True):
        f.ret(-1)
    status = f.call("i32", "PyObject_GetBuffer", f"ptr {made}", f"ptr {buffer}", f"i32 {flags}")
    f.call("void", "Py_DecRef", f"ptr {made}")
    f.ret(status)


def _emit_functions(module: Module, at: Layout, fields: Fields) -> None:
    """What Python calls: METH_O functions (self, value), METH_FASTCALL ones (self, values, count)."""
    f = module.function("py_empty", "ptr", "ptr", "ptr")
    aval = f.parameters[1]
    nbytes = f.call("i64", "PyLong_AsSsize_t", f"ptr {f.load('ptr', aval, at.type_nbytes)}")
    f.ret(f.call("ptr", "array_new", f"ptr {aval}", f"i64 {nbytes}"))

    f = module.function("py_wrap", "ptr", "ptr", "ptr", "i64")
    aval, owner = f.load("ptr", f.parameters[1]), f.load("ptr", f.parameters[1], 8)
    made = f.call("ptr", "array_shell", f"ptr {aval}", "i64 0")
    with f.when(f.not_null(made)):
        f.call("void", "Py_IncRef", f"ptr {owner}")
        f.store("ptr", owner, made, fields.owner)
        f.store("ptr", f.load("ptr", owner, at.header), made, fields.data)
    f.ret(made)

    f = module.function("py_copy", "ptr", "ptr", "ptr", "i64")
    aval, source = f.load("ptr", f.parameters[1]), f.load("ptr", f.parameters[1], 8)
    nbytes = f.call("i64", "PyLong_AsSsize_t", f"ptr {f.load('ptr', aval, at.type_nbytes)}")
    made = f.call("ptr", "array_new", f"ptr {aval}", f"i64 {nbytes}")
    with f.when(f.not_null(made)):
        target, origin = f.load("ptr", made, fields.data), f.load("ptr", source, at.header)
        f.call("ptr", "memcpy", f"ptr {target}", f"ptr {origin}", f"i64 {nbytes}")
    f.ret(made)

    f = module.function("py_address", "ptr", "ptr", "ptr", cold=True)
    f.ret(f.call("ptr", "PyLong_FromVoidPtr", f"ptr {f.load('ptr', f.parameters[1], fields.data)}"))

    for name, flags in (("py_numpy", CONTIGUOUS_ALIGNED), ("py_writable", CONTIGUOUS_ALIGNED | WRITEABLE)):
        f = module.function(name, "ptr", "ptr", "ptr")
        f.ret(f.call("ptr", "array_numpy", f"ptr {f.parameters[1]}", f"i32 {flags}"))

    f = module.function("py_owner", "ptr", "ptr", "ptr", cold=True)
    owner = f.load("ptr", f.parameters[1], fields.owner)
    found = f.select(f.is_null(owner), "ptr", module.external("_Py_NoneStruct"), owner)
    f.call("void", "Py_IncRef", f"ptr {found}")
    f.ret(found)

    f = module.function("py_readers", "ptr", "ptr", "ptr", cold=True)
    f.ret(f.call("ptr", "PyLong_FromSsize_t", f"i64 {f.load('i64', f.parameters[1], fields.exports)}"))

    f = module.function("py_state", "ptr", "ptr", "ptr", cold=True)
    state = f.load("ptr", f.parameters[1], fields.aval)
    f.call("void", "Py_IncRef", f"ptr {state}")
    f.ret(state)

    f = module.function("py_delete", "ptr", "ptr", "ptr", "i64", cold=True)
    array, marker = f.load("ptr", f.parameters[1]), f.load("ptr", f.parameters[1], 8)
    f.call("void", "array_mark", f"ptr {array}", f"ptr {marker}")
    with f.when(f.compare("eq", "i64", f.load("i64", array, fields.exports), 0)):
        f.call("void", "array_release", f"ptr {array}")
    none = module.external("_Py_NoneStruct")
    f.call("void", "Py_IncRef", f"ptr {none}")
    f.ret(none)

    f = module.function("array_mark", "void", "ptr", "ptr", cold=True)
    array, marker = f.parameters
    before = f.load("ptr", array, fields.aval)
    increment(f, marker)
    f.store("ptr", marker, array, fields.aval)
    f.call("void", "Py_DecRef", f"ptr {before}")
    f.ret()

    f = module.function("array_take", "i32", "ptr", "ptr", cold=True)
    target, array = f.parameters
    block, refused = f.load("ptr", array, fields.data), f.label()
    f.require(f.is_null(f.load("ptr", array, fields.owner)), refused)
    f.require(f.compare("eq", "i64", f.load("i64", array, fields.exports), 0), refused)
    f.require(f.compare("ne", "ptr", block, f.at(array, fields.inline)), refused)
    f.store("ptr", block, target, fields.data)
    f.store("i64", f.load("i64", array, fields.bytes), target, fields.bytes)
    f.store("ptr", "null", array, fields.data)
    f.ret(1)
    f.start(refused)
    f.ret(0)

    f = module.function("py_take", "ptr", "ptr", "ptr", "i64", cold=True)
    array, aval = f.load("ptr", f.parameters[1]), f.load("ptr", f.parameters[1], 8)
    made = f.call("ptr", "array_shell", f"ptr {aval}", "i64 0")
    with f.when(f.is_null(made), returns=True):
        f.ret("null")
    with f.when(
        f.compare("ne", "i32", f.call("i32", "array_take", f"ptr {made}", f"ptr {array}"), 0), returns=True
    ):
        f.ret(made)
    f.call("void", "Py_DecRef", f"ptr {made}")
    f.call("void", "Py_IncRef", f"ptr {none}")
    f.ret(none)


FUNCTIONS = {
    "empty": METH_O, "wrap": METH_FASTCALL, "copy": METH_FASTCALL, "address": METH_O, "numpy": METH_O,
    "writable": METH_O, "owner": METH_O, "readers": METH_O, "state": METH_O, "delete": METH_FASTCALL,
    "take": METH_FASTCALL,
}  # fmt: skip
"""Functions for Python and how they are called; `py_` precedes the names of their symbols."""


class NativeArrays:
    """The implementation of `array.Arrays` in machine code; see there for what each function does."""

    name = "native"

    def __init__(self, addresses: Mapping[str, int], at: Layout) -> None:
        fields = Fields(at.header)
        self.kind: type = make_type(
            "braze.Array",
            fields.inline,
            DISALLOW_INSTANTIATION,
            {"tp_dealloc": addresses["array_dealloc"], "bf_getbuffer": addresses["array_getbuffer"]},
            offsets={"__weaklistoffset__": fields.weak},
            getters={"aval": (addresses["array_get_aval"], 0, "The type of the array.")},
        )
        self.view: type = make_type(
            "braze.runtime.array_native.View",
            at.header + 8,
            DISALLOW_INSTANTIATION,
            {"tp_dealloc": addresses["view_dealloc"]},
        )
        made = make_functions((name, addresses[f"py_{name}"], flags) for name, flags in FUNCTIONS.items())
        self.empty: Callable[[TensorType], Any] = made["empty"]
        self.wrap: Callable[[TensorType, NDArray], Any] = made["wrap"]
        self.copy: Callable[[TensorType, NDArray], Any] = made["copy"]
        self.address: Callable[[Any], int] = made["address"]
        self.numpy: Callable[[Any], NDArray] = made["numpy"]
        self.writable: Callable[[Any], NDArray] = made["writable"]
        self.state: Callable[[Any], object] = made["state"]
        self.readers: Callable[[Any], int] = made["readers"]
        self.delete: Callable[[Any, object], None] = made["delete"]
        self.take: Callable[[Any, TensorType], Any] = made["take"]
        self._owner = made["owner"]

    def owns_memory(self, array: Any) -> bool:
        return self._owner(array) is None
