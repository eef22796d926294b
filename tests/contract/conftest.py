"""The queue managers of the contract tests: embedded below each client, and a real one.

The environment variable MQDLQ_TEST_QUEUE_MANAGER names a real one, for example
``{"queue_manager": "QM1", "host": "localhost", "channel": "DEV.APP.SVRCONN", "user": "app",
"password": "…", "client": "ibmmq"}`` (the fields of `ConnectionSettings`); its queues A and B are
defined by queues.mqsc, and the tests empty them. `make prove` sets the variable, also for an
embedded queue manager in MQDLQ_HOME. A process that runs the C extension over the
embedded queue manager cannot run the other parameters, which replace the extension:
test_c_extension.py runs these tests in a separate process.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Iterator
from inspect import isfunction
from pathlib import Path

import pytest

import embedded_mq
from embedded_mq_tests import c_library
from embedded_mq_tests.builders import Application
from mqdlq.mqi import client
from mqdlq.mqi.connect import ConnectionSettings
from tests.support.contract_worlds import RealWorld, World

REAL = "MQDLQ_TEST_QUEUE_MANAGER"
GIVEN = "given_queue_manager"
C_LIBRARY = "c_library"
TOGETHER = ["pymqi", "ibmmq", *(["real"] if REAL in os.environ else [])]
PARAMETERS = [C_LIBRARY] if os.environ.get("MQDLQ_TEST_CLIENT") == C_LIBRARY else TOGETHER
QUEUES = Path(__file__).with_name("queues.mqsc")
# Names in a test's code that only the embedded queue manager has.
EMBEDDED_ONLY = {"mqsc", "faults", "start", "run", "quiesce", "end", "connect_as"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "embedded_only: uses MQSC, faults or other processes of the embedded queue manager"
        " (by which a test is marked without being told to), or is about what that does not do",
    )
    config.addinivalue_line("markers", f"{GIVEN}: runs on the queue manager that {REAL} names")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not isinstance(item, pytest.Function) or QUEUES.parent not in item.path.parents:
            continue
        if EMBEDDED_ONLY & _names_used(item):
            item.add_marker(pytest.mark.embedded_only)
        if hasattr(item, "callspec") and item.callspec.params.get("mq") == "real":
            item.add_marker(GIVEN)


def _names_used(test: pytest.Function) -> set[str]:
    """Return the names in the code of a test, of its fixtures, and of the functions they call."""
    fixtures = (found[-1].func for found in test._fixtureinfo.name2fixturedefs.values())
    functions = [test.function, *fixtures]
    helpers = {name: value for name, value in vars(test.module).items() if isfunction(value)}
    names: set[str] = set()
    while functions:
        new = set(functions.pop().__code__.co_names) - names
        names |= new
        functions += [helpers[name] for name in new & helpers.keys()]
    return names


@pytest.fixture(scope="session")
def qm1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a queue manager to be copied, because creating one is slow."""
    directory = tmp_path_factory.mktemp("queue_managers")
    path = embedded_mq.create("QM1", directory)
    embedded_mq.run_mqsc("QM1", QUEUES.read_text(), directory)
    return path


@pytest.fixture(params=PARAMETERS)
def mq(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """Yield a queue manager with two empty local queues, A and B: new and named QM1, or real."""
    if request.param == "real":
        world: World = _real(request, tmp_path, monkeypatch)
    else:
        monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
        qm1: Path = request.getfixturevalue("qm1")
        shutil.copytree(qm1, tmp_path / "queue_managers" / qm1.name)
        world = _embedded(request.param)
    yield world
    world.close()


def _embedded(parameter: str) -> World:
    if parameter == C_LIBRARY:
        c_library.install()
        boundary = "from embedded_mq_tests import c_library; c_library.install()"
        return World("ibmmq", importlib.import_module("ibmmq"), boundary)
    embedded_mq.install()
    return World(parameter, importlib.import_module(parameter))


def _real(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    if request.node.get_closest_marker("embedded_only"):
        pytest.skip("uses what only the embedded queue manager has")
    settings = ConnectionSettings(**json.loads(os.environ[REAL]))
    if settings.transport != "embedded":  # MQDLQ_HOME has it
        monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    embedded_mq.install()
    library = client.import_client(settings.client)
    world = RealWorld(library.name, library.module, settings=settings)
    world.clear()
    return world


@pytest.fixture
def app(mq: World) -> Application:
    """One connected application."""
    return mq.connect()
