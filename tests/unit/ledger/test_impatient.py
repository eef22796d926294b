"""The page waits seconds for a ledger, and remembers that it was away."""

from __future__ import annotations

import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError

from mqdlq.errors import LedgerUnavailableError
from mqdlq.ledger import database, open_ledger
from mqdlq.ledger.database import AWAY_S, PAGE_CONNECT_S, connect_impatiently
from tests.support.postgresql import running_server

pytestmark = pytest.mark.slow


class Seconds:
    """A clock that stands until it is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def fault_of(engine: Engine, statement: str = "SELECT 1") -> str:
    """Use a ledger, and return the text of the error that it raises, "" if it raises none."""
    try:
        with engine.begin() as connection:
            connection.execute(text(statement))
    except LedgerUnavailableError as error:
        return str(error)
    return ""


@contextmanager
def silent_server() -> Iterator[int]:
    """Yield the port of a server that accepts connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=500)) as server:
        yield server.getsockname()[1]


def test_a_server_that_accepts_and_never_answers_is_waited_for_once() -> None:
    clock = Seconds()
    with silent_server() as port:
        engine = connect_impatiently(f"postgresql://u:secret@127.0.0.1:{port}/x", clock)
        start = time.monotonic()
        first = fault_of(engine)
        waited = time.monotonic() - start
        start = time.monotonic()
        others = {fault_of(engine) for _ in range(100)}

    assert waited < PAGE_CONNECT_S + 2
    assert time.monotonic() - start < 1
    assert others == {first}
    assert first.startswith(f"the ledger postgresql+psycopg://u:***@127.0.0.1:{port}/x cannot be")
    assert first.endswith("; start the database server, or correct the ledger's URL [MQDLQ-205]")


def test_a_ledger_that_is_away_is_tried_again_after_some_seconds() -> None:
    clock = Seconds()
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    engine = connect_impatiently(f"postgresql://u@127.0.0.1:{port}/x?connect_timeout=2", clock)
    assert "Connection refused" in fault_of(engine)

    with closing(socket.create_server(("127.0.0.1", port))) as server:
        server.setblocking(False)
        clock.now = AWAY_S - 1
        assert "Connection refused" in fault_of(engine)
        with pytest.raises(BlockingIOError):
            server.accept()

        clock.now = AWAY_S
        assert "timeout expired" in fault_of(engine)
        server.accept()[0].close()


def test_a_ledger_that_is_back_is_used_again(tmp_path: Path) -> None:
    file, clock = tmp_path / "ledger.db", Seconds()
    engine = connect_impatiently(f"sqlite:///{file}", clock)
    assert fault_of(engine) == ""
    engine.dispose()
    file.rename(tmp_path / "away")
    file.mkdir()
    assert "cannot be opened" in fault_of(engine)
    file.rmdir()
    (tmp_path / "away").rename(file)

    clock.now = AWAY_S

    assert fault_of(engine) == ""


def test_a_fault_outside_the_database_is_raised_unchanged(tmp_path: Path) -> None:
    engine = connect_impatiently(f"sqlite:///{tmp_path}/ledger.db")

    with pytest.raises(OperationalError, match="no such table"):
        fault_of(engine, "SELECT * FROM missing")


def test_a_file_that_another_program_keeps_locked_is_waited_for_some_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STATEMENT_S", 1)
    url = f"sqlite:///{tmp_path}/ledger.db"
    open_ledger(url).close()
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        start = time.monotonic()

        said = fault_of(connect_impatiently(url), "SELECT count(*) FROM runs")

    assert said.endswith("another process keeps the file locked; end it, and try again [MQDLQ-216]")
    assert time.monotonic() - start < 5


def test_a_connection_that_does_not_become_free_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in {"KEPT": 1, "CONNECTIONS": 1, "POOL_S": 0}.items():
        monkeypatch.setattr(database, name, number)
    engine = connect_impatiently(f"sqlite:///{tmp_path}/ledger.db")

    with engine.connect():
        said = fault_of(engine)

    assert said == (
        f"the ledger sqlite:///{tmp_path}/ledger.db cannot be used: all 1 connections of this"
        " process were in use for 0 s; try again when fewer downloads are in progress [MQDLQ-275]"
    )
    assert fault_of(engine) == ""


@pytest.mark.slow
def test_a_slow_statement_is_ended_and_the_ledger_does_not_count_as_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "STATEMENT_S", 1)
    engine = connect_impatiently(running_server().new_ledger_url())

    said = fault_of(engine, "SELECT pg_sleep(60)")

    assert said.endswith(
        "canceling statement due to statement timeout; narrow the filter, or try again when the"
        " server has less to do [MQDLQ-274]"
    )
    assert fault_of(engine) == ""
    engine.dispose()


@pytest.mark.slow
def test_a_server_that_stops_between_two_statements_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "SILENT_S", 1)
    monkeypatch.setattr(database, "PAGE_CONNECT_S", 2)
    server, clock = running_server(), Seconds()
    url = server.new_ledger_url()
    engine, idle = connect_impatiently(url, clock), connect_impatiently(url, clock)
    assert fault_of(idle) == ""
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        with server.stopped():
            with pytest.raises(LedgerUnavailableError, match=r"was silent for 1 s;.*MQDLQ-205"):
                connection.execute(text("SELECT 1"))
            assert "was silent for 1 s" in fault_of(engine)
            assert "timeout expired" in fault_of(idle)  # the stale connection and then a new one
            clock.now = AWAY_S
            assert "timeout expired" in fault_of(engine)
    clock.now = 2 * AWAY_S

    assert (fault_of(engine), fault_of(idle)) == ("", "")
    engine.dispose()
    idle.dispose()
