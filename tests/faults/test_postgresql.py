"""Execution over a ledger on PostgreSQL: passes, crashes of its database, and what is reported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

import embedded_mq
from mqdlq.errors import LedgerUnavailableError, QueueManagerError
from mqdlq.model import Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.postgresql import running_server
from tests.support.world import World

pytestmark = pytest.mark.slow

BODIES = [b"%d" % number for number in range(7)]
TABLE = """
RETRYINT(60) WAIT(NO)
DESTQ(CLOSED) ACTION(RETRY) RETRY(2)
DESTQ(CLOSED) ACTION(FWD) FWDQ(PARKED)
DESTQ(ORDERS) ACTION(DISCARD)
DESTQ(PARKED) ACTION(IGNORE)
DESTQ(PAYMENTS) ACTION(RETRY)
"""


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, ledger_url=running_server().new_ledger_url())
    with world.ledger:
        yield world
    embedded_mq.faults.set("")


def test_every_outcome_is_recorded_in_postgresql(world: World) -> None:
    for queue in ("PAYMENTS", "CLOSED", "ORDERS", "PARKED", "ELSEWHERE"):
        world.dead_letter(dest_q=queue)
    world.put("DLQ", b"no dead letter")

    outcomes = world.handle(TABLE)

    assert list(outcomes.values()) == [
        "delivered",
        "forwarded",
        "discarded",
        "left_by_rule",
        "unmatched",
        "unprocessable",
    ]
    assert [a.attempt_no for a in world.ledger.attempts.of_run("run-1")] == [1, 1, 1, 2, 3]


def test_the_next_execution_resolves_a_lost_commit_by_its_marker(world: World) -> None:
    for body in BODIES:
        world.dead_letter(body)
    execution = world.plan("ACTION(RETRY)")
    embedded_mq.faults.set("MQCMIT:3:2009:after")
    with pytest.raises(QueueManagerError, match=r"\(2009\)"):
        make_pass(execution)
    embedded_mq.faults.set("")

    make_pass(execution)

    assert settle(execution) == {Outcome.DELIVERED: len(BODIES)}
    assert world.bodies("PAYMENTS") == BODIES


@pytest.mark.parametrize("state", ["intended", "confirmed"])
def test_a_database_crash_during_a_pass_loses_and_doubles_no_message(
    world: World, state: str
) -> None:
    """Before MQCMIT nothing takes effect; after it the marker tells the next execution."""
    for body in BODIES:
        world.dead_letter(body)
    execution = world.plan("ACTION(RETRY)")
    server, seen = running_server(), []

    def die(*call: object) -> None:
        is_it = str(call[2]).startswith("INSERT INTO unit_states") and state in str(call[3])
        seen.append(is_it)
        if seen.count(True) == 3 and is_it:
            server.kill()

    event.listen(world.ledger.engine, "before_cursor_execute", die)
    with pytest.raises(LedgerUnavailableError):
        make_pass(execution)
    event.remove(world.ledger.engine, "before_cursor_execute", die)
    moved = len(world.bodies("PAYMENTS"))
    server.start()
    world.ledger.close()

    assert moved == (3 if state == "intended" else 7)
    make_pass(execution)
    assert settle(execution) == {Outcome.DELIVERED: len(BODIES)}
    assert world.bodies("PAYMENTS") == BODIES
