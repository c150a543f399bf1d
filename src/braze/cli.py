"""The command line: `braze opt` runs passes on HLO text, `braze show` prints every stage of a function.

Results go to standard output, messages to standard error. Exit status: 0 done · 1 the input is at fault ·
2 the command line is · 3 braze is, with a reproducer where a pass failed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from braze import dtypes, knobs
from braze.errors import ArgumentError, BrazeError, InternalError
from braze.passes.pipeline import PIPELINE, Pass
from braze.target import Target

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Look into braze, an array compiler.",
)


def main() -> None:
    """Run the command that the command line names."""
    app(prog_name="braze")


@app.callback()
def _commands() -> None:
    """Makes typer keep the names of commands, however few there are."""


# opt --------------------------------------------------------------------------------------------------


@app.command()
def opt(
    file: Annotated[str, typer.Argument(help="A file of StableHLO text, or - for standard input.")] = "-",
    passes: Annotated[
        str | None,
        typer.Option(help="What to run, as in cse,fusion(max_ops=8); all passes if not given."),
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(help="Go on to program, kernel, llvm or asm, and print that in place of the HLO."),
    ] = None,
    list_passes: Annotated[bool, typer.Option("--list", help="List the passes in order and stop.")] = False,
) -> None:
    """Run passes on HLO and print what becomes of it."""
    with _reported():
        print(pass_table() if list_passes else optimised(_read(file), passes, stage), end="")


def optimised(text: str, passes: str | None = None, stage: str | None = None) -> str:
    """The text of a module after passes; what `braze opt` prints.

    Args:
        passes: names with options, as on the command line; None for the whole pipeline.
        stage: the stage to print; None for the HLO after the passes.
    Raises: ParseError, VerificationError, ArgumentError; InternalError if a pass fails.
    """
    from braze.hlo.parse import parse
    from braze.hlo.text import print_module
    from braze.hlo.verify import verify
    from braze.passes import manager

    rows: Iterable[Pass] = PIPELINE if passes is None else manager.parse_passes(passes)
    module = parse(text)
    verify(module)
    if stage is None:
        return _ended(print_module(manager.run(module, _host(), passes=rows, verify=2)))
    from braze.stages.executable import Executable

    with knobs.config(verify=2):
        return _ended(Executable(module, _host(), passes=rows).as_text(stage))


def _host() -> Target:
    from braze.targets.host import host

    return host()


def pass_table() -> str:
    """The passes in their order: name, what each comes after and why, one a line."""
    rows = [(row.name, ", ".join(row.after) or "-", row.why) for row in PIPELINE]
    widths = [max(len(row[i]) for row in (*rows, ("pass", "after", "why"))) for i in range(2)]
    lines = [
        f"{name:{widths[0]}}  {after:{widths[1]}}  {why}"
        for name, after, why in (("pass", "after", "why"), *rows)
    ]
    return "\n".join(lines) + "\n"


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"opt: {file} cannot be read: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


# show -------------------------------------------------------------------------------------------------


@app.command()
def show(
    function: Annotated[str, typer.Argument(help="What to compile, as in model.py:forward.")],
    stage: Annotated[
        str | None, typer.Option(help="jaxpr, hlo, hlo-opt, program, kernel, llvm or asm; all if not given.")
    ] = None,
    args: Annotated[
        str | None,
        typer.Option(help='Types to compile for, as in "f32[3,4],i32[]"; else FUNCTION.example_args.'),
    ] = None,
) -> None:
    """Compile a function of a file and print its stages."""
    with _reported():
        file, name = _parted(function)
        found = _found(_imported(file), file, name)
        arguments = _arguments(found, name, args)
        with _users_errors(name, file):
            text = shown(found, arguments, stage)
        print(text, end="")


def shown(function: Callable[..., Any], arguments: Sequence[Any], stage: str | None = None) -> str:
    """The text of one stage of a function compiled for arguments, or of all under their names.

    Raises: ArgumentError for a stage that does not exist.
    """
    from braze import stages

    jitted = function if hasattr(function, "trace") else stages.jit(function)
    compiled = jitted.trace(*arguments).lower().compile()
    if stage is not None:
        return _ended(compiled.as_text(stage))
    names = ("jaxpr", *compiled.executable.stages)
    return "\n".join(f"--- {name} ---\n{_ended(compiled.as_text(name))}" for name in names)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _parted(place: str) -> tuple[Path, str]:
    file, colon, name = place.rpartition(":")
    if not colon or not file.endswith(".py") or not name:
        raise ArgumentError(
            f"show: {place!r} is given, a file and a function in it are wanted.",
            hint="write braze show examples/first.py:compute.",
        )
    return Path(file), name


def _imported(file: Path) -> ModuleType:
    """The file as a module; what it prints on the way goes to standard error."""
    if not file.is_file():
        raise ArgumentError(f"show: there is no file {file}.")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None, "the name ends in .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses and pickles of the file look it up by name
    sys.path.insert(0, str(file.parent.resolve()))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (BrazeError, InternalError):
        raise
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"show: {file} cannot be imported: {_last_line(error, file)}.") from error
    finally:
        sys.path.pop(0)
    return module


@contextlib.contextmanager
def _users_errors(name: str, file: Path) -> Iterator[None]:
    """Turn what the user's function raises, and braze does not, into an error with its place."""
    try:
        yield
    except (BrazeError, InternalError):
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if frames[-1].filename.startswith(str(Path(__file__).parent)):
            raise  # a fault of braze, whose traceback is wanted
        raise ArgumentError(f"show: {name} failed: {_last_line(error, file)}.") from error


def _last_line(error: BaseException, file: Path) -> str:
    """What happened, and where in the file."""
    what = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError):
        return f"{error.msg}, at {file.name}:{error.lineno}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == file.name]
    return f"{what}, at {file.name}:{frames[-1].lineno}" if frames else what


def _found(module: ModuleType, file: Path, name: str) -> Callable[..., Any]:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        known = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        own = [n for n in known if getattr(vars(module)[n], "__module__", None) == module.__name__]
        raise ArgumentError(
            f"show: {file} has no function {name}.",
            hint=f"it has {', '.join(own or known) or 'none at all'}.",
        )
    return found  # type: ignore[no-any-return]


def _arguments(function: Callable[..., Any], name: str, types: str | None) -> Sequence[Any]:
    """Arguments to compile for: of the types given, else the function's `example_args`."""
    arguments = _of_types(types) if types is not None else _example(function, name)
    _check_signature(function, name, arguments)
    return arguments


def _check_signature(function: Callable[..., Any], name: str, arguments: Sequence[Any]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # some callables have none; tracing them will tell
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ArgumentError(f"show: {name} does not take these arguments: {error}.") from None


def _example(function: Callable[..., Any], name: str) -> Sequence[Any]:
    for owner in (function, getattr(function, "__wrapped__", None)):
        example = getattr(owner, "example_args", None)
        if example is not None:
            return tuple(example() if callable(example) else example)
    raise ArgumentError(
        f"show: {name} has no example_args, so the types of its arguments are not known.",
        hint=f'give them with --args "f32[3,4],i32[]", or set {name}.example_args to a tuple of arrays.',
    )


_TYPE = re.compile(r"\s*(\w+)\s*\[([\d\s,]*)\]\s*(?:,|$)")


def _of_types(text: str) -> list[Any]:
    """Abstract arguments of the types in a text such as `f32[3,4],i32[]`."""
    from braze.trace.make_jaxpr import ShapeDtypeStruct

    found: list[Any] = []
    at = 0
    while at < len(text.rstrip()):
        match = _TYPE.match(text, at)
        if match is None:
            raise ArgumentError(
                f"show: --args {text!r} is no list of types.", hint='write --args "f32[3,4],i32[]".'
            )
        shape = tuple(int(size) for size in match[2].split(",") if size.strip())
        found.append(ShapeDtypeStruct(shape, dtypes.from_short(match[1])))
        at = match.end()
    return found


# Errors -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Print errors as messages and turn them into exit statuses; `BRAZE_TRACEBACK=full` lets them through."""
    try:
        yield
    except (BrazeError, InternalError) as error:
        if knobs.get("traceback") == "full":
            raise
        kind = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
        print(f"{kind}{error}", file=sys.stderr)
        raise typer.Exit(3 if isinstance(error, InternalError) else 1) from None
