"""Settings of every test: where it writes, and that the environment stays as it was."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.support.metadata import lay_metadata

MEMORY = Path("/dev/shm")  # noqa: S108 (Linux keeps it in memory)
ENOUGH = 2 * 1024**3


def pytest_configure() -> None:
    """Keep temporary files in memory where there is room: tests wait for no disk.

    Queue managers and ledgers sync after each commit. Processes die in these tests, machines do
    not, so that nothing is lost by it. TMPDIR goes before.

    Hypothesis does not explain a failing example: it would try a failing world a thousand times.
    """
    settings.register_profile("mqdlq", phases=set(Phase) - {Phase.explain})
    settings.load_profile("mqdlq")
    has_room = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ENOUGH
    if has_room and "TMPDIR" not in os.environ:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from looking at modules and thousands of tests again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop servers and remove directories as a process does that ends by itself.

    A worker of pytest-xdist ends by os._exit, which leaves out the functions of atexit.
    """
    if hasattr(config, "workerinput"):
        atexit._run_exitfuncs()


@pytest.fixture(scope="session")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    """Return what gives a directory of Airflow its metadata, which all workers share."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    return partial(lay_metadata, shared=root / "metadata")


@pytest.fixture(autouse=True)
def _restored_environment() -> Iterator[None]:
    """Undo what a test, or a World that it makes, has changed in the environment."""
    yield from _restore_environment()


@pytest.fixture(scope="module", autouse=True)
def _environment_restored_after_each_file() -> Iterator[None]:
    """Undo what fixtures of the file have changed."""
    yield from _restore_environment()


def _restore_environment() -> Iterator[None]:
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)
