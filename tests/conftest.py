"""Options and fixtures of all tests."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("BRAZE_VERIFY", "2")  # also for the processes that tests start


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite golden files with what the code gives now")


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether goldens are to be rewritten."""
    return bool(request.config.getoption("--bless"))
