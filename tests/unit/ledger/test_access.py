"""A ledger that cannot be used says so in one sentence, also while it is in use."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, make_url, text

from mqdlq.errors import LedgerUnavailableError
from mqdlq.ledger import open_ledger
from mqdlq.ledger.access import shown
from mqdlq.ledger.migrations import revision_of, revisions
from tests.support.postgresql import running_server
from tests.unit.ledger.test_ledger import run

pytestmark = pytest.mark.slow


def refused(url: str) -> LedgerUnavailableError:
    with pytest.raises(LedgerUnavailableError) as error:
        open_ledger(url)
    return error.value


@pytest.mark.slow
def test_a_server_that_stops_while_it_is_used_is_reported_and_found_again() -> None:
    server = running_server()
    with open_ledger(server.new_ledger_url()) as ledger:
        server.kill()

        with pytest.raises(LedgerUnavailableError, match="No such file or directory") as error:
            ledger.runs.latest()

        server.start()
        assert ledger.runs.latest() is None
    assert error.value.is_transient
    assert str(error.value).endswith(
        "; start the database server, or correct the ledger's URL [MQDLQ-205]"
    )


@pytest.mark.slow
def test_a_server_that_stops_during_the_creation_is_reported_and_it_is_made_again() -> None:
    server = running_server()
    url = server.new_ledger_url()

    def stop(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("CREATE TABLE approvals"):
            server.kill()

    event.listen(Engine, "before_cursor_execute", stop)
    try:
        error = refused(url)
    finally:
        event.remove(Engine, "before_cursor_execute", stop)
        server.start()

    assert error.is_transient
    assert str(error).endswith(
        "; start the database server, or correct the ledger's URL [MQDLQ-205]"
    )
    with open_ledger(url) as ledger:
        assert revision_of(ledger.engine) == revisions()[-1]


def test_a_deadlock_is_reported_and_may_pass() -> None:
    lock = "LOCK TABLE {} IN ACCESS EXCLUSIVE MODE"
    with (
        open_ledger(running_server().new_ledger_url()) as ledger,
        ledger.engine.connect() as one,
        ledger.engine.connect() as other,
        ThreadPoolExecutor() as threads,
    ):
        one.execute(text(lock.format("runs")))
        other.execute(text(lock.format("plans")))
        waiting = [
            threads.submit(one.execute, text(lock.format("plans"))),
            threads.submit(other.execute, text(lock.format("runs"))),
        ]
        done, _ = wait(waiting, timeout=30)  # the victim's locks are released, so both end
        (error,) = (found for each in done if (found := each.exception()))
        one.rollback()

    assert isinstance(error, LedgerUnavailableError)
    assert error.is_transient
    assert str(error).endswith(
        " cannot be used: deadlock detected; try again when the other process has finished"
        " [MQDLQ-212]"
    )


def test_a_session_that_the_server_ends_is_reported() -> None:
    server = running_server()
    with open_ledger(server.new_ledger_url()) as ledger:
        other = create_engine(server.new_ledger_url())
        with ledger.engine.connect() as used, other.begin() as ending:
            number = used.scalar(text("SELECT pg_backend_pid()"))
            ending.execute(text(f"SELECT pg_terminate_backend({number})"))

            with pytest.raises(LedgerUnavailableError) as error:
                used.execute(text("SELECT 1"))
        other.dispose()
    assert error.value.is_transient


def test_the_error_names_the_rights_that_a_user_needs_to_create_tables() -> None:
    server = running_server()
    server.ask_for_a_password("reader", "x")

    error = refused(server.new_ledger_url().replace("mqdlq@", "reader:x@"))

    assert str(error).endswith(
        "cannot be used: no schema has been selected to create in; give the user the rights to"
        " create and change tables in the schema [MQDLQ-209]"
    )
    assert not error.is_transient


def test_a_database_that_does_not_exist_is_named() -> None:
    url = make_url(running_server().new_ledger_url()).set(database="nowhere")

    error = refused(url.render_as_string(hide_password=False))

    assert str(error).endswith(
        'FATAL: database "nowhere" does not exist; create the database, or correct the ledger\'s'
        " URL [MQDLQ-208]"
    )
    assert not error.is_transient


def test_a_damaged_file_is_reported_with_what_to_do(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    with open_ledger(url) as ledger:
        for number in range(200):
            ledger.runs.record(run(f"r{number}"))
    whole = (tmp_path / "ledger.db").read_bytes()
    (tmp_path / "ledger.db").write_bytes(whole[: len(whole) // 8])

    with pytest.raises(LedgerUnavailableError) as error, open_ledger(url) as ledger:
        ledger.runs.get("r150")

    assert str(error.value) == (
        f"the ledger {url} cannot be used: the file is damaged; restore a backup [MQDLQ-219]"
    )


def test_a_full_disk_is_reported_and_nothing_is_half_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    with open_ledger(url) as ledger:
        with ledger.engine.connect() as connection:
            connection.execute(text("PRAGMA max_page_count = 1"))  # the least it can become
        with pytest.raises(LedgerUnavailableError) as error:
            ledger.runs.record(run(rules_text="ACTION(IGNORE)\n" * 50_000))

        assert ledger.runs.latest() is None
    assert str(error.value) == (
        f"the ledger {url} cannot be used: the disk is full; make room, and try again [MQDLQ-221]"
    )


def test_the_database_of_another_program_is_left_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE dag_run (id INTEGER)")
    before = file.read_bytes()

    refused(f"sqlite:///{file}")

    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://mqdlq:secret@db/ledger",
        "postgresql+psycopg://mqdlq@db/ledger?password=secret&sslpassword=secret",
    ],
)
def test_a_url_is_shown_without_passwords(url: str) -> None:
    assert "secret" not in shown(make_url(url))


@pytest.mark.parametrize(
    "url",
    [
        "ledger.db",
        "postgresql+psycopg://mqdlq:sec@ret@db/ledger",
        "postgresql+psycopg://mqdlq:x@db:secret/ledger",
        "sqlite://secret/ledger.db",
    ],
)
def test_a_url_that_cannot_be_read_is_not_quoted(url: str) -> None:
    assert str(refused(url)) == (
        "the ledger's URL cannot be read; expected sqlite:///FILE or"
        " postgresql+psycopg://USER:PASSWORD@HOST/DATABASE, and in a password %40 for @, %3A for :"
        " and %2F for / [MQDLQ-203]"
    )


def test_postgresql_needs_no_driver_in_its_url() -> None:
    url = running_server().new_ledger_url().replace("postgresql+psycopg:", "postgresql:")

    with open_ledger(url) as ledger:
        assert ledger.engine.url.drivername == "postgresql+psycopg"
