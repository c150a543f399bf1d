"""The machine under the tests of the runtime."""

from __future__ import annotations

import pytest

from braze.target import Target


@pytest.fixture(scope="session")
def host() -> Target:
    import llvmlite.binding as llvm

    return Target(
        "cpu",
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
    )
