"""Test that runs go by policy with all their rows, that their totals stay, and what keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from mqdlq.errors import LedgerError
from mqdlq.ledger import retention
from mqdlq.ledger.tables import Approval, metadata, outcome_lots, runs, unit_states, units
from mqdlq.model import AttemptState, Outcome
from mqdlq.stages.execute import make_pass, settle
from tests.support.postgresql import ledger_url_fixture
from tests.support.restorations import DISCARD, discard
from tests.support.retention import (
    DAY,
    change,
    contents,
    files,
    forget_snapshots,
    kept_words,
    pass_days,
    prune_now,
)
from tests.support.world import World

pytestmark = pytest.mark.slow

__all__ = ["ledger_url_fixture"]

DELIVER = "ACTION(RETRY) RETRY(1)\n"
TO_CLOSED = "ACTION(FWD) FWDQ(CLOSED)\n"


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger_url: str) -> Iterator[World]:
    """Return a world with a ledger on SQLite, then on PostgreSQL."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, ledger_url=ledger_url)
    with world.ledger:
        yield world


def deliver(world: World, *bodies: bytes) -> str:
    """Let a run deliver dead letters; return its id."""
    for body in bodies:
        world.dead_letter(body)
    assert set(world.handle(DELIVER).values()) == {"delivered"}
    return f"run-{world.runs}"


def old_and_new(world: World, days: int = 20) -> tuple[str, str]:
    """Deliver three messages, and another one some days later, so that the first run can go."""
    first = deliver(world, b"one", b"two", b"three")
    pass_days(world, days)
    second = deliver(world, b"four")
    forget_snapshots(world)
    return first, second


def rows_of(world: World, run_id: str) -> set[str]:
    """Return the tables that have a row with this run id."""
    with world.ledger.engine.connect() as connection:
        return {
            table.name
            for table in metadata.sorted_tables
            for column in table.c
            if column.name in {"run_id", "of_run"}
            and connection.execute(table.select().where(column == run_id)).first()
        }


def make_unknown(world: World, run_id: str, state: AttemptState) -> None:
    """Give the attempts of a run this state, and its messages the outcome `unknown`."""
    made, number = select(units.c.unit_no), select(runs.c.run_no).where(runs.c.run_id == run_id)
    own = unit_states.c.unit_no.in_(made.where(units.c.run_id == run_id))
    change(world, unit_states, own, state=state)
    change(world, outcome_lots, outcome_lots.c.run_no.in_(number), outcome=Outcome.UNKNOWN)


def test_an_old_run_goes_with_its_rows_and_files_and_its_totals_stay(world: World) -> None:
    first, second = old_and_new(world)

    done = prune_now(world, runs=10)

    assert first in done.run_ids
    assert done.messages == 3
    assert rows_of(world, first) == {"pruned_runs", "pruned_outcomes"}
    assert all(first not in name for name in files(world.lake_root))
    assert len(contents(world.ledger)["messages"]) == 1
    ((is_settled, outcome, messages),) = [
        (one.is_settled, one.outcome, one.messages)
        for one in world.ledger.prunes.outcomes_of(first)
    ]
    assert (is_settled, outcome, messages) == (False, Outcome.DELIVERED, 3)
    pruned = world.ledger.prunes.pruned_run(first)
    assert pruned is not None
    assert (pruned.policy, pruned.at, pruned.handler) == (
        "keep_runs_for P10D",
        world.clock.now,
        "test",
    )
    assert world.ledger.runs.get(second) is not None


def test_no_row_refers_to_a_run_that_is_gone(world: World) -> None:
    first, _ = old_and_new(world)
    prune_now(world, runs=10)

    if world.ledger.engine.dialect.name == "sqlite":
        with world.ledger.engine.connect() as connection:
            found = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        assert found == []
    assert world.ledger.runs.get(first) is None


def test_a_run_without_work_goes_when_it_is_old(world: World) -> None:
    pass_days(world, 50)

    done = prune_now(world, runs=10)

    assert (len(done.run_ids), done.messages, len(done.kept_runs)) == (3, 0, 0)


def test_the_handler_continues_as_before_after_a_prune(world: World) -> None:
    old_and_new(world)
    account = world.ledger.accounts.last("QM1", "DLQ")
    prune_now(world, runs=10)

    assert world.ledger.accounts.last("QM1", "DLQ") == account
    world.dead_letter(b"five")
    assert world.handle(DELIVER) == {1: "delivered"}


def test_a_message_that_comes_back_after_its_run_was_pruned_is_handled(world: World) -> None:
    old_and_new(world)
    prune_now(world, runs=10)

    world.dead_letter(b"one")

    assert world.handle(DELIVER) == {1: "delivered"}


def test_the_newest_run_of_a_queue_stays(world: World) -> None:
    run_id = deliver(world, b"one")
    pass_days(world, 20)
    with world.ledger.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE snapshots SET pruned_at = taken_at")

    done = prune_now(world, runs=10)

    assert run_id not in done.run_ids
    assert kept_words(done.kept_runs) == {"newest": 1}


def test_a_run_with_a_snapshot_stays(world: World) -> None:
    deliver(world, b"one")
    pass_days(world, 20)
    deliver(world, b"two")

    done = prune_now(world, runs=10)

    assert kept_words(done.kept_runs) == {"snapshot": 1}


def test_a_run_with_archive_copies_stays_until_they_are_pruned(world: World) -> None:
    run_id = discard(world, b"one", b"two")
    pass_days(world, 20)
    deliver(world, b"three")
    forget_snapshots(world)

    assert kept_words(prune_now(world, runs=10).kept_runs) == {"copies": 1}
    planned = prune_now(world, archive=10, runs=10, is_dry_run=True)
    done = prune_now(world, archive=10, runs=10)

    assert run_id in done.run_ids
    assert (planned.run_ids, planned.messages) == (done.run_ids, 2)
    assert rows_of(world, run_id) == {"pruned_runs", "pruned_outcomes"}


def test_an_unfinished_run_stays(world: World) -> None:
    world.dead_letter(b"one")
    execution = world.plan(DELIVER)
    pass_days(world, 20)
    deliver(world, b"two")
    forget_snapshots(world)

    done = prune_now(world, runs=10)

    assert execution.run.run_id not in done.run_ids
    assert kept_words(done.kept_runs) == {"unfinished": 1}


def test_a_run_with_an_unknown_outcome_stays(world: World) -> None:
    first, _ = old_and_new(world)
    make_unknown(world, first, AttemptState.UNKNOWN)

    assert kept_words(prune_now(world, runs=10).kept_runs) == {"unsettled": 1}


def test_a_run_with_an_unknown_outcome_stays_although_other_messages_departed(world: World) -> None:
    first, second = old_and_new(world)
    make_unknown(world, first, AttemptState.FAILED)

    kept = prune_now(world, runs=10).kept_runs

    assert world.ledger.outcomes.counts(second) == {Outcome.DELIVERED: 1}
    assert kept_words(kept) == {"unsettled": 1}


def test_a_count_of_attempts_that_carries_on_stays(world: World) -> None:
    world.dead_letter(b"stuck")
    world.handle(TO_CLOSED, count_attempts="across_runs")
    pass_days(world, 20)
    world.dead_letter(b"other")
    world.handle("ACTION(IGNORE)\n", count_attempts="across_runs")
    forget_snapshots(world)

    done = prune_now(world, runs=10)

    assert kept_words(done.kept_runs) == {"attempts": 1}


def test_failed_attempts_go_if_no_run_counts_them(world: World) -> None:
    world.dead_letter(b"stuck")
    world.handle(f"WAIT(NO)\n{TO_CLOSED}")
    run_id = f"run-{world.runs}"
    world.clock.now += 20 * DAY
    world.dead_letter(b"other", dest_q="ORDERS")
    world.handle("WAIT(NO)\nDESTQ(ORDERS) ACTION(RETRY)\nACTION(IGNORE)\n")
    forget_snapshots(world)

    done = prune_now(world, runs=10)

    assert run_id in done.run_ids
    # The stuck message is on the queue, and the run that is kept lists it.
    assert len(contents(world.ledger)["messages"]) == 2


def test_a_run_with_an_open_approval_stays(world: World) -> None:
    first, second = old_and_new(world)
    at = world.clock.now
    world.ledger.plans.record_approval(first, Approval("h", ("discard",), "asked", "", at))
    world.ledger.plans.record_approval(second, Approval("h", ("discard",), "asked", "", at))

    assert kept_words(prune_now(world, runs=10).kept_runs) == {"approval": 1}


def test_a_run_with_a_lease_stays(world: World) -> None:
    first, _ = old_and_new(world)
    (message, *_) = world.ledger.messages.of_run(first)
    world.ledger.messages.lease(first, [message.message_id], world.clock.now + DAY)

    assert kept_words(prune_now(world, runs=10).kept_runs) == {"leased": 1}


def test_a_hold_on_a_message_keeps_its_run_and_the_snapshot(world: World) -> None:
    first = deliver(world, b"one")
    key = world.ledger.messages.of_run(first)[0].message_key.hex()
    pass_days(world, 20)
    deliver(world, b"two")
    world.ledger.holds.add(message_key=key, reason="case 7", who="legal", at=world.clock.now)

    forget_snapshots(world)
    done = prune_now(world, runs=10)

    assert kept_words(done.kept_runs) == {"hold": 1}
    assert world.ledger.snapshots.pruned_at(first) is None


def test_a_run_that_proves_a_departure_stays_while_another_run_needs_it(world: World) -> None:
    """Otherwise the message would look as if it were still on the queue."""
    world.dead_letter(b"one")
    open_account = world.plan("ACTION(IGNORE)\n")
    world.clock.now += timedelta(minutes=1)
    world.handle(DELIVER)
    pass_days(world, 20)
    deliver(world, b"two")
    forget_snapshots(world)

    done = prune_now(world, runs=10)

    assert kept_words(done.kept_runs) == {"unfinished": 1, "linked": 1}
    make_pass(open_account)
    settle(open_account)
    assert world.outcomes(open_account.run) == {1: "leased_by_run"}


def test_a_pruned_run_cannot_be_started_again(world: World) -> None:
    first, _ = old_and_new(world)
    prune_now(world, runs=10)

    with pytest.raises(LedgerError) as raised:
        world.start(DELIVER, run_id=first)

    assert str(raised.value) == (
        "run run-1 was pruned at 2026-12-11 12:00:00 UTC by keep_runs_for P10D of handler test and"
        " cannot continue; start a new run [MQDLQ-255]"
    )


def test_the_history_of_outcomes_counts_pruned_runs(world: World) -> None:
    old_and_new(world)
    before = totals(world)
    prune_now(world, runs=10)

    assert totals(world) == before == {Outcome.DELIVERED: 4}


def totals(world: World) -> Counter[Outcome]:
    counted: Counter[Outcome] = Counter()
    for part in world.ledger.outcomes.history(["outcome"], 100):
        counted.update(row.outcome for row in part)
    for rows in world.ledger.prunes.history(["outcome", "messages"], 100):
        for row in rows:
            counted[row.outcome] += row.messages
    return counted


def test_settled_messages_are_counted_in_the_totals(world: World) -> None:
    world.dead_letter(b"stays")
    world.handle("ACTION(IGNORE)\n")
    world.clock.now += timedelta(hours=1)
    world.handle("ACTION(IGNORE)\n")
    second = f"run-{world.runs}"
    assert world.ledger.settled.outcomes(second)
    pass_days(world, 20)
    world.handle("ACTION(IGNORE)\n")
    forget_snapshots(world)

    done = prune_now(world, runs=10)

    assert second in done.run_ids
    ((is_settled, outcome, messages),) = [
        (one.is_settled, one.outcome, one.messages)
        for one in world.ledger.prunes.outcomes_of(second)
    ]
    assert (is_settled, outcome, messages) == (True, Outcome.LEFT_BY_RULE, 1)


@pytest.mark.parametrize("rules", [DISCARD, DELIVER])
def test_a_prune_of_many_messages_takes_several_transactions(world: World, rules: str) -> None:
    for number in range(7):
        world.dead_letter(b"%d" % number)
    world.handle(rules)
    pass_days(world, 20)
    deliver(world, b"new")
    forget_snapshots(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "KEYS_AT_ONCE", 2)
        prune_now(world, archive=10, runs=10)

    assert rows_of(world, "run-1") == {"pruned_runs", "pruned_outcomes"}
    assert len(contents(world.ledger)["messages"]) == 1
