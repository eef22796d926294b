"""Tests of the C library that `c_library` builds: its exports and its limits."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from embedded_mq_tests.c_library.exports import EXPORTS

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="the client library made here is for x86-64 Linux",
)


TESTS = Path(__file__).parents[2]


def python(script: str, home: Path) -> str:
    """Run a script in its own process and return its output."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=os.environ | {"EMBEDDED_MQ_HOME": str(home), "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_the_c_library_exports_every_call_of_the_extension() -> None:
    package = find_spec("ibmmq")
    assert package is not None
    assert package.origin is not None
    (extension,) = Path(package.origin).parent.glob("ibmmqc*.so")

    names = {
        name.decode() for name in re.findall(rb"\0(?=(MQ[A-Z0-9]+)\0)", extension.read_bytes())
    }

    verbs = {name for name in names if name in EXPORTS}
    assert len(verbs) == len(EXPORTS) == 23


def test_the_c_library_must_be_installed_before_the_client_is_imported(tmp_path: Path) -> None:
    output = python(
        """
from embedded_mq.errors import EmbeddedQueueManagerError
import embedded_mq
from embedded_mq_tests import c_library
embedded_mq.install()
try:
    c_library.install()
except EmbeddedQueueManagerError as error:
    print(error)
""",
        tmp_path,
    )

    assert output == ("ibmmq is imported already: load the client library before its first import")


def test_the_real_extension_serves_queue_managers_that_are_not_embedded(tmp_path: Path) -> None:
    """One process has the replacement and, under another name, the real extension."""
    output = python(
        """
import embedded_mq
from embedded_mq_tests import c_library
c_library.install()
embedded_mq.install()
embedded_mq.create("QM1")
import ibmmq
known = len(ibmmq.ibmmqc.__strucversions__)
print(ibmmq.connect("QM1").is_connected)
try:
    ibmmq.connect("QM9")
except ibmmq.MQMIError as error:
    print(error.reason, len(ibmmq.ibmmqc.__strucversions__) > known)
""",
        tmp_path,
    )

    assert output.split() == ["True", "2058", "True"], "the extension has told more versions"
