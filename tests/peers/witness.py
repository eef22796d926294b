"""A plugin of pytest that lets a suite find an embedded queue manager, and keeps what came of it.

``PEERS_RESULT`` names the file for the outcomes, ``PEERS_HOME`` the directory of queue managers.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import structlog

import embedded_mq

# The suite of ibmmq looks for a queue with a description like those of IBM's own queues; the other
# queues are those of IBM's developer configuration.
DEFINITIONS = """\
DEFINE QLOCAL(DESCRIBED) DESCR('IBM MQ queue of the suite')
DEFINE QLOCAL(DEV.QUEUE.1)
DEFINE QMODEL(DEV.APP.MODEL.QUEUE)
"""
REFUSALS = logging.getLogger("embedded_mq")
OUTCOMES: dict[str, str] = {}
OF_CLASSES: dict[str, str] = {}


class Refusals(logging.Handler):
    """Keeps what the queue manager said that it does not emulate."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


HEARD = Refusals()


def pytest_configure() -> None:
    embedded_mq.install(os.environ["PEERS_HOME"])
    embedded_mq.create_defined("QM1", DEFINITIONS)
    import ibmmq

    queue_manager = ibmmq.QueueManager("QM1")
    ibmmq.Queue(queue_manager, "DESCRIBED").put(b"a message")
    queue_manager.disconnect()
    REFUSALS.addHandler(HEARD)


@pytest.fixture(autouse=True)
def _log_by_the_standard_library() -> None:
    """Have Airflow log where pytest listens, and at its levels, as its own plugin does."""
    for name in logging.Logger.manager.loggerDict:
        if name.partition(".")[0] == "airflow":
            logging.getLogger(name).setLevel(logging.NOTSET)
    structlog.configure(
        processors=[
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.render_to_log_kwargs,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


@pytest.fixture(name="create_connection_without_db")
def _create_connection_without_db(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stand in for a fixture of Airflow's own, which no package of today has."""

    def create(connection: Any) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{connection.conn_id.upper()}", connection.as_json())

    return create


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Book the outcome of a test, which ends with the first of its parts that does not pass."""
    report = yield
    if call.when == "setup":
        OUTCOMES[item.nodeid] = "passed"
    if report.skipped:
        OUTCOMES[item.nodeid] = "skipped"
    elif report.failed and OUTCOMES[item.nodeid] == "passed":
        OUTCOMES[item.nodeid] = _failure(item, call)
    if call.when == "teardown":
        HEARD.texts.clear()
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Count a file that is skipped as a whole."""
    if report.skipped:
        OUTCOMES[report.nodeid] = "skipped"


def _failure(item: pytest.Item, call: pytest.CallInfo[None]) -> str:
    """Return what the queue manager refused aloud, or else that the test failed.

    A class is set up once: what it was refused then counts for all its tests.
    """
    found = f"refused: {HEARD.texts[-1]}" if HEARD.texts else "failed"
    if call.when == "setup":
        found = OF_CLASSES.setdefault(item.nodeid.rpartition("::")[0], found)
    return found


def pytest_sessionfinish() -> None:
    Path(os.environ["PEERS_RESULT"]).write_text(json.dumps(OUTCOMES, indent=2), encoding="utf-8")
