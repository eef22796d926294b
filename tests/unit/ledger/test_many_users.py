"""Several processes use one ledger at once, and a database that dies loses nothing booked."""

from __future__ import annotations

import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from sqlalchemy import event, text

from mqdlq.failures import Failure
from mqdlq.ledger import open_ledger
from mqdlq.ledger.database import connect_to
from mqdlq.ledger.migrations import revision_of, revisions
from mqdlq.ledger.tables import Ending
from mqdlq.model import Outcome
from tests.support.postgresql import running_server
from tests.unit.ledger.test_ledger import KEY, NOON, accept, attempt, outcome, run

pytestmark = pytest.mark.slow

USERS = 4


def at_once(work: Callable[[int], object]) -> list[object]:
    """Do the work in several threads that begin together; return what each returns."""
    barrier = Barrier(USERS)

    def begin(number: int) -> object:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(USERS) as pool:
        return list(pool.map(begin, range(USERS)))


def test_several_may_open_a_new_ledger_at_once(ledger_url: str) -> None:
    at_once(lambda _: open_ledger(ledger_url).engine.dispose())

    with open_ledger(ledger_url) as ledger:
        assert revision_of(ledger.engine) == revisions()[-1]


def test_threads_that_connect_to_a_new_file_at_once_share_one_database(tmp_path: Path) -> None:
    def journal_mode(url: str, _: int) -> str:
        engine = connect_to(url)
        with engine.connect() as connection:
            found = connection.scalar(text("PRAGMA journal_mode"))
        engine.dispose()
        return str(found)

    for number in range(50):
        file = tmp_path / f"{number}.db"
        modes = at_once(partial(journal_mode, f"sqlite:///{file}"))

        assert modes == ["wal"] * USERS
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.glob(".ledger-*")) == []


def test_several_runs_may_accept_plans_of_the_same_messages_at_once(ledger_url: str) -> None:
    keys = [number.to_bytes(32, "big") for number in range(700)]
    open_ledger(ledger_url).engine.dispose()

    def accept_all(number: int) -> None:
        with open_ledger(ledger_url) as ledger:
            accept(ledger, run(f"r{number}"), *keys)

    at_once(accept_all)

    with open_ledger(ledger_url) as ledger:
        ids = [[m.message_id for m in ledger.messages.of_run(f"r{n}")] for n in range(USERS)]
    assert all(listed == ids[0] for listed in ids)
    assert len(set(ids[0])) == len(keys)


def test_messages_are_settled_while_others_write(ledger_url: str) -> None:
    settled = Ending(0, "", "", "", Outcome.UNMATCHED)
    with open_ledger(ledger_url) as ledger, open_ledger(ledger_url) as other:
        (message_id,) = accept(ledger, run(), KEY)
        failure = Failure("sense", "no reason")
        writing = Thread(target=other.runs.record_failure, args=("r2", "demo", failure, NOON))

        def meanwhile(*values: Any) -> None:
            if values[2].startswith("INSERT INTO settled_lots"):
                writing.start()
                writing.join(0.2)

        event.listen(ledger.engine, "before_cursor_execute", meanwhile)
        ledger.settled.record("r1", "s1", [(message_id, False, settled)])
        writing.join()

        assert other.runs.failures("r2") == [(NOON, failure)]
        with ledger.engine.connect() as connection:
            found = connection.scalars(text("SELECT message_id FROM settled_messages")).all()
        assert found == [message_id]


def test_bookings_are_there_after_postgresql_was_killed() -> None:
    server = running_server()
    with open_ledger(server.new_ledger_url()) as ledger:
        (message_id,) = accept(ledger, run(), KEY)
        ledger.attempts.add([attempt(message_id)], [("r1", outcome(message_id))])
        server.kill()
        server.start()

        assert ledger.attempts.of_run("r1") == [attempt(message_id)]
        assert ledger.outcomes.of_run("r1") == {message_id: outcome(message_id)}
        assert ledger.runs.get("r1") == run(started_at=NOON)
