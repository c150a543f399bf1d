"""Every message that users meet, exactly; each names a line of theirs, and no traceback shows braze's frames."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from tests.errors.programs import PROGRAMS
from tests.golden import compare

import braze as bz

HERE = Path(__file__).parent
WITHOUT_A_LINE = {"variable_unknown", "exception_in_a_callback"}


def raised(name: str) -> Exception:
    with pytest.raises(Exception) as caught:
        PROGRAMS[name]()
    return caught.value


@pytest.mark.parametrize("name", PROGRAMS)
def test_message(name: str, bless: bool) -> None:
    error = raised(name)
    compare(HERE / f"{name}.txt", f"{type(error).__name__}: {error}\n", bless)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in WITHOUT_A_LINE])
def test_message_names_the_users_line(name: str) -> None:
    error = raised(name)
    assert isinstance(error, bz.BrazeError)
    assert error.source is not None and Path(error.source.file).name == "programs.py"
    assert f"\n  at {error.source.short} in " in str(error)


def test_no_golden_is_left_over() -> None:
    assert {p.stem for p in HERE.glob("*.txt")} == set(PROGRAMS)


def frames(error: BaseException) -> list[str]:
    return [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]


TRACED = [
    "if_on_a_tracer",
    "shapes_of_add_in_jit",
    "unhashable_static",
    "result_that_is_no_array",
    "field_of_debug_print",
]


@pytest.mark.parametrize("name", TRACED)
def test_tracebacks_of_jitted_functions_hide_braze(name: str) -> None:
    assert set(frames(raised(name))) == {"test_errors.py", "programs.py"}


@pytest.mark.parametrize("name", TRACED)
def test_full_tracebacks_show_braze(name: str) -> None:
    with bz.config(traceback="full"):
        assert set(frames(raised(name))) > {"test_errors.py", "programs.py"}


TRANSFORMED = {
    "grad": bz.grad,
    "value_and_grad": bz.value_and_grad,
    "vmap": bz.vmap,
    "make_jaxpr": bz.make_jaxpr,
    "jacfwd": bz.jacfwd,
    "jacrev": bz.jacrev,
    "hessian": bz.hessian,
    "jvp": lambda f: lambda x: bz.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: bz.vjp(f, x),
    "linearize": lambda f: lambda x: bz.linearize(f, x),
    "eval_shape": lambda f: lambda x: bz.eval_shape(f, x),
    "lower": lambda f: bz.jit(f).lower,
    "grad of jit of vmap": lambda f: bz.grad(bz.jit(lambda x: bz.vmap(f)(x).sum())),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_tracebacks_of_transformed_functions_hide_braze(name: str) -> None:
    def wrong(x: object) -> object:
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        TRANSFORMED[name](wrong)(bz.numpy.ones(3))
    assert set(frames(caught.value)) == {"test_errors.py"}


def test_foreign_exceptions_pass_through_with_the_users_frames() -> None:
    @bz.jit
    def f(x: object) -> object:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        f(1.0)
    assert frames(caught.value)[-2:] == ["test_errors.py", "test_errors.py"]


def test_braze_works_on_after_every_error() -> None:
    double = bz.jit(lambda x: x * 2)
    for name in PROGRAMS:
        raised(name)
        assert float(double(3.0)) == 6.0
        assert not bz.core.CONTEXT.stack and bz.core.CONTEXT.dynamic is None
