"""The contract tests once more, with the client's own C extension over a library made here.

`make soak` runs all of them so; here it is those that take no time.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

CLIENT = "MQDLQ_TEST_CLIENT"
ALL = "MQDLQ_ALL_CONTRACTS"


@pytest.mark.slow
@pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="the client library made here is for x86-64 Linux",
)
def test_the_c_extension_passes_the_contract_tests() -> None:
    """Everything between the Python program and the queue manager is IBM's, C code included."""
    if CLIENT in os.environ:
        pytest.skip("the contract tests run under the C extension already")
    call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/contract"]
    if ALL not in os.environ:
        call += ["-m", "not slow"]

    done = subprocess.run(
        call,
        env={**os.environ, CLIENT: "c_library"},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=500,
    )

    assert done.returncode == 0, done.stdout
