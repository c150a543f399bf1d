"""LLVM IR text from Python calls, for the runtime's own functions (arrays and calls).

One method, one instruction: values get their names here, and what is called gets declared. Control flow is
`when`, `loop` and `require`, so that a function reads from top to bottom as C would. There is no optimiser
behind it: text in SSA form with little on the stack is as fast as the code generator can make it.

Invariant: the text holds no address of this process, so the object made from it can be kept on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Module:
    """Functions of one object; declarations are collected from the calls."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}
        self._declared: dict[str, str] = {}
        self._data: dict[str, str] = {}

    def function(self, name: str, result: str, *parameters: str, cold: bool = False) -> Function:
        """Begin a function; it is added to the module at once and filled by its methods.

        A cold one is off the path of a call: LLVM takes a fifth of the time for it and makes slower code.
        """
        made = Function(self, name, result, parameters, cold)
        self._functions[name] = made
        return made

    def variable(self, name: str) -> str:
        """A pointer-sized variable of the object, zero at first; gives its address."""
        self._data[name] = f"@{name} = global ptr null"
        return f"@{name}"

    def external(self, name: str) -> str:
        """The address of an object that the process provides."""
        self._data.setdefault(name, f"@{name} = external global i8")
        return f"@{name}"

    def declare(self, name: str, result: str, parameters: str) -> None:
        if name not in self._functions:
            self._declared[name] = f"declare {result} @{name}({parameters})"

    def text(self) -> str:
        declared = [line for name, line in self._declared.items() if name not in self._functions]
        return "\n".join(
            [*self._data.values(), *declared, *(function.text() for function in self._functions.values()), ""]
        )


class Function:
    """One function under construction. Values and labels are strings of IR."""

    def __init__(
        self, module: Module, name: str, result: str, parameters: tuple[str, ...], cold: bool
    ) -> None:
        self.module = module
        self.parameters = tuple(f"%p{i}" for i in range(len(parameters)))
        listed = ", ".join(f"{t} {p}" for t, p in zip(parameters, self.parameters))
        # Frames stay below the size at which Windows wants its stack probe, a symbol that nobody has here.
        attributes = '"no-stack-arg-probe"' + " cold noinline optnone" * cold
        self._head = f"define {result} @{name}({listed}) {attributes} {{"
        self._result = result
        self._lines: list[str] = []
        self._count = 0
        self.block = "entry"
        self._lines.append("entry:")

    def text(self) -> str:
        return "\n".join([self._head, *self._lines, "}"])

    # Instructions.

    def line(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """Add an instruction with a result."""
        self._count += 1
        self.line(f"%v{self._count} = {text}")
        return f"%v{self._count}"

    def at(self, base: str, offset: int | str) -> str:
        """The address so many bytes behind `base`."""
        return base if offset == 0 else self.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def item(self, base: str, index: int | str) -> str:
        """The address of a pointer-sized element."""
        return base if index == 0 else self.value(f"getelementptr i64, ptr {base}, i64 {index}")

    def load(self, kind: str, base: str, offset: int | str = 0) -> str:
        return self.value(f"load {kind}, ptr {self.at(base, offset)}")

    def store(self, kind: str, value: str | int, base: str, offset: int | str = 0) -> None:
        self.line(f"store {kind} {value}, ptr {self.at(base, offset)}")

    def binary(self, operation: str, kind: str, x: str, y: str | int) -> str:
        return self.value(f"{operation} {kind} {x}, {y}")

    def add(self, x: str, y: str | int) -> str:
        return self.binary("add", "i64", x, y)

    def compare(self, predicate: str, kind: str, x: str, y: str | int) -> str:
        return self.value(f"icmp {predicate} {kind} {x}, {y}")

    def same(self, x: str, y: str) -> str:
        return self.compare("eq", "ptr", x, y)

    def is_null(self, x: str) -> str:
        return self.same(x, "null")

    def not_null(self, x: str) -> str:
        return self.compare("ne", "ptr", x, "null")

    def select(self, condition: str, kind: str, x: str | int, y: str | int) -> str:
        return self.value(f"select i1 {condition}, {kind} {x}, {kind} {y}")

    def phi(self, kind: str, *incoming: tuple[str | int, str]) -> str:
        return self.value(f"phi {kind} " + ", ".join(f"[ {value}, %{block} ]" for value, block in incoming))

    def call(self, result: str, name: str, *arguments: str) -> str:
        """Call a function by name; arguments are written with their types, `"ptr %p0"`."""
        self.module.declare(name, result, ", ".join(a.split(" ", 1)[0] for a in arguments))
        return self.call_address(result, f"@{name}", *arguments)

    def call_address(self, result: str, address: str, *arguments: str) -> str:
        text = f"call {result} {address}({', '.join(arguments)})"
        if result == "void":
            self.line(text)
            return ""
        return self.value(text)

    def ret(self, value: str | int = "") -> None:
        self.line(f"ret {self._result} {value}".rstrip())

    # Control flow.

    def label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def start(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def require(self, condition: str, otherwise: str) -> None:
        """Go on if the condition holds, else jump to a label."""
        on = self.label()
        self.branch(condition, on, otherwise)
        self.start(on)

    @contextmanager
    def when(self, condition: str, *, returns: bool = False) -> Iterator[None]:
        """Run the block if the condition holds; `returns`: the block ends in a return or a jump of its own."""
        yes, after = self.label(), self.label()
        self.branch(condition, yes, after)
        self.start(yes)
        yield
        if not returns:
            self.jump(after)
        self.start(after)

    @contextmanager
    def loop(self, count: str | int) -> Iterator[str]:
        """Run the block `count` times with the index as its value."""
        head, body, after = self.label(), self.label(), self.label()
        before = self.block
        self.jump(head)
        self.start(head)
        index = self.value("")
        place = len(self._lines) - 1
        self.branch(self.compare("ult", "i64", index, count), body, after)
        self.start(body)
        yield index
        following = self.add(index, 1)
        self._lines[place] = f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{self.block} ]"
        self.jump(head)
        self.start(after)
