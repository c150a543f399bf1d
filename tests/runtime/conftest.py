"""The machine under the tests of the runtime."""

from __future__ import annotations

import pytest

from braze.target import Target
from braze.targets.host import host as this_machine


@pytest.fixture(scope="session")
def host() -> Target:
    return this_machine()
