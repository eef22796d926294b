"""The ledger: facts are added, never changed, and read back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError

from mqdlq.errors import LedgerError
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.messages import OutcomeLot
from mqdlq.ledger.migrations import revisions
from mqdlq.ledger.tables import (
    AcceptedPlan,
    Attempt,
    AttemptLot,
    Ending,
    OutcomeFact,
    Run,
    Sighting,
    TakenSnapshot,
)
from mqdlq.model import Action, AttemptState, Disposition, Outcome
from mqdlq.reasons import Why

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
KEY, OTHER_KEY = b"k" * 32, b"o" * 32


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url) as ledger:
        yield ledger


def run(run_id: str = "r1", *, carry_attempts: bool = False, **fields: object) -> Run:
    values: dict[str, object] = {
        "run_id": run_id,
        "handler": "demo",
        "dag_run_id": "manual__1",
        "run_type": "manual",
        "queue_manager": "QM1",
        "queue": "DLQ",
        "state_queue": "MQDLQ.STATE",
        "rules_source": "demo.rules",
        "rules_digest": "d" * 64,
        "rules_text": "ACTION(IGNORE)\n",
        "retry_interval_s": 60,
        "wait_s": None,
        "carry_attempts": carry_attempts,
        "dry_run": False,
        "max_run_time_s": 3600,
        "started_at": NOON,
    }
    return Run(**values | fields)  # type: ignore[arg-type]


def accept(ledger: Ledger, of: Run, *keys: bytes) -> list[int]:
    """Record `of` with a plan of these messages; return their ids."""
    ledger.runs.record(of)
    rows = [(place, key, Disposition.PLANNED) for place, key in enumerate(keys, start=1)]
    plan = AcceptedPlan(of.run_id, f"p-{of.run_id}", "h" * 64, "lake/p", NOON)
    ledger.plans.record(of, plan, rows)
    return [message.message_id for message in ledger.messages.of_run(of.run_id)]


def attempt(message_id: int, *, unit: str = "u1", run_id: str = "r1") -> Attempt:
    return Attempt(
        unit=unit,
        run_id=run_id,
        plan_id="p-r1",
        message_id=message_id,
        message_key=KEY,
        rule=1,
        attempt_no=1,
        action=Action.RETRY,
        target_q="PAYMENTS",
        target_q_mgr="QM1",
        state=AttemptState.INTENDED,
        mqrc=0,
        at=NOON,
    )


def outcome(message_id: int, kind: Outcome = Outcome.DELIVERED) -> OutcomeFact:
    why = Why.ATTEMPT(number=1)
    return OutcomeFact(1, "RETRY", "PAYMENTS", "QM1", kind, message_id, why, NOON)


def test_a_run_is_read_back_as_it_was_recorded(ledger: Ledger) -> None:
    ledger.runs.record(run())

    assert ledger.runs.get("r1") == run()
    assert ledger.runs.get("r2") is None


def test_the_latest_run_is_the_one_that_started_last(ledger: Ledger) -> None:
    ledger.runs.record(run("late", started_at=NOON + timedelta(hours=1)))
    ledger.runs.record(run("early"))

    latest = ledger.runs.latest()

    assert latest is not None
    assert latest.run_id == "late"


def test_a_run_is_recorded_once(ledger: Ledger) -> None:
    ledger.runs.record(run())

    with pytest.raises(IntegrityError):
        ledger.runs.record(run())


def test_equal_keys_differ_by_their_occurrence(ledger: Ledger) -> None:
    accept(ledger, run(), KEY, OTHER_KEY, KEY)

    places = [(m.message_key, m.occurrence) for m in ledger.messages.of_run("r1")]

    assert places == [(KEY, 0), (OTHER_KEY, 0), (KEY, 1)]


def test_a_message_still_on_the_queue_keeps_its_identity_in_the_next_run(ledger: Ledger) -> None:
    first = accept(ledger, run("r1"), KEY)
    ledger.outcomes.add("r1", [outcome(first[0], Outcome.UNMATCHED)])

    assert accept(ledger, run("r2"), KEY) == first


def test_a_message_that_had_departed_is_back_in_a_new_residence(ledger: Ledger) -> None:
    first = accept(ledger, run("r1"), KEY)
    ledger.outcomes.add("r1", [outcome(first[0])])

    second = accept(ledger, run("r2"), KEY)

    assert second != first
    assert [m.residence for m in ledger.messages.of_run("r2")] == [1]


def test_the_twin_that_stayed_is_not_taken_for_the_one_that_departed(ledger: Ledger) -> None:
    first, second = accept(ledger, run("r1"), KEY, KEY)
    ledger.outcomes.add("r1", [outcome(first)])

    assert accept(ledger, run("r2"), KEY) == [second]
    (again, back) = accept(ledger, run("r3"), KEY, KEY)
    assert again == second
    assert [(m.occurrence, m.residence) for m in ledger.messages.of_run("r3")] == [(1, 0), (0, 1)]
    assert back not in {first, second}
    accept(ledger, run("r4"), *[KEY] * 4)
    assert [m.occurrence for m in ledger.messages.of_run("r4")] == [0, 1, 2, 3]


def test_of_twins_the_one_in_doubt_is_the_last_to_be_recognised(ledger: Ledger) -> None:
    first, second = accept(ledger, run("r1"), KEY, KEY)
    ledger.attempts.add([replace(attempt(first), state=AttemptState.UNKNOWN)])

    assert accept(ledger, run("r2"), KEY) == [second]


@pytest.mark.slow
def test_more_messages_than_a_database_takes_keys_at_once(ledger: Ledger) -> None:
    keys = [number.to_bytes(32, "big") for number in range(1203)]

    accept(ledger, run(), *keys, keys[0])

    messages = ledger.messages.of_run("r1")
    assert [m.message_key for m in messages] == [*keys, keys[0]]
    assert len({m.message_id for m in messages}) == 1204
    assert messages[-1].occurrence == 1


def test_an_attempt_is_in_the_state_added_last(ledger: Ledger) -> None:
    (message_id,) = accept(ledger, run(), KEY)
    intended = attempt(message_id)
    failed = replace(intended, state=AttemptState.FAILED, mqrc=2053, at=NOON + timedelta(seconds=1))

    ledger.attempts.add([intended])
    assert ledger.attempts.intended("QM1", "DLQ") == [intended]
    ledger.attempts.add([failed])

    assert ledger.attempts.intended("QM1", "DLQ") == []
    assert ledger.attempts.of_run("r1") == [failed]


def test_only_failed_and_confirmed_attempts_count_against_a_budget(ledger: Ledger) -> None:
    (message_id,) = accept(ledger, run(), KEY)
    for number, state in enumerate(AttemptState):
        ledger.attempts.add([replace(attempt(message_id, unit=f"u{number}"), state=state)])

    assert ledger.attempts.made(run()) == {message_id: (2, NOON)}


def test_a_new_run_counts_from_zero_unless_attempts_carry_on(ledger: Ledger) -> None:
    (message_id,) = accept(ledger, run("r1"), KEY)
    ledger.attempts.add([replace(attempt(message_id), state=AttemptState.FAILED, mqrc=2053)])
    ledger.outcomes.add("r1", [outcome(message_id, Outcome.RETRY_PENDING)])
    accept(ledger, run("r2"), KEY)
    accept(ledger, run("r3", carry_attempts=True), KEY)

    assert ledger.attempts.made(run("r2")) == {}
    assert ledger.attempts.made(run("r3", carry_attempts=True)) == {message_id: (1, NOON)}


def test_attempts_of_all_runs_count_for_each_message_that_is_still_on_the_queue(
    ledger: Ledger,
) -> None:
    other, gone = b"\1" * 32, b"\2" * 32
    first, second, single, left, _ = accept(ledger, run("r1"), KEY, KEY, other, gone, b"\3" * 32)
    accept(ledger, run("r2", rules_digest="e" * 64), KEY)
    failed = replace(attempt(first), state=AttemptState.FAILED)
    ledger.attempts.add(
        [
            replace(failed, state=AttemptState.INTENDED),
            failed,
            replace(failed, unit="u2", run_id="r2"),
            replace(failed, unit="u3", message_id=second),
            replace(failed, unit="u4", state=AttemptState.UNKNOWN),
            replace(failed, unit="u5", message_id=single),
            replace(failed, unit="u6", message_id=single, state=AttemptState.BACKED_OUT_WITH_BATCH),
            replace(failed, unit="u7", message_id=left),
        ]
    )
    ledger.outcomes.add("r1", [outcome(left, Outcome.TAKEN)])

    found = ledger.attempts.of_residents("QM1", "DLQ", {KEY, other, gone, b"\3" * 32, b"\4" * 32})

    assert found == {KEY: [1, 2], other: [1]}
    assert ledger.attempts.of_residents("QM1", "OTHER", {KEY}) == {}


def test_a_message_has_one_outcome_in_a_run(ledger: Ledger) -> None:
    (message_id,) = accept(ledger, run(), KEY)
    ledger.outcomes.add("r1", [outcome(message_id)])

    with pytest.raises(LedgerError, match=r"^another executor has settled .* of run r1 and"):
        ledger.outcomes.add("r1", [outcome(message_id, Outcome.TAKEN)])

    assert ledger.outcomes.of_run("r1") == {message_id: outcome(message_id)}


def test_an_attempt_and_its_outcome_are_added_together_or_not_at_all(ledger: Ledger) -> None:
    (message_id,) = accept(ledger, run(), KEY)
    ledger.outcomes.add("r1", [outcome(message_id)])

    with pytest.raises(LedgerError, match="no message was moved twice"):
        ledger.attempts.add([attempt(message_id)], [("r1", outcome(message_id))])

    assert ledger.attempts.of_run("r1") == []


def test_snapshot_plan_copies_and_the_last_browse_are_read_back(ledger: Ledger) -> None:
    (message_id,) = accept(ledger, run(), KEY)
    snapshot = TakenSnapshot("r1", "s1", "lake/s1", 1, NOON)
    ledger.snapshots.record(snapshot)
    ledger.archive.record("r1", "lake/archive", {message_id: "c" * 64}, NOON)
    sighting = Sighting(depth=3, seen=1, returned=0, arrived=2, at=NOON)
    ledger.accounts.record("r1", sighting)

    assert ledger.snapshots.of_run("r1") == snapshot
    assert ledger.plans.of_run("r1") == AcceptedPlan("r1", "p-r1", "h" * 64, "lake/p", NOON)
    assert ledger.archive.digests("r1") == {message_id: "c" * 64}
    assert ledger.accounts.of_run("r1") == sighting


def test_opening_a_ledger_again_migrates_nothing_twice(ledger_url: str) -> None:
    for _ in range(2):
        with open_ledger(ledger_url) as ledger, ledger.engine.connect() as connection:
            found = connection.scalars(text("SELECT version_num FROM ledger_revision")).all()
            assert found == [revisions()[-1]]
            assert inspect(connection).has_table("attempts")


def rows_in(ledger: Ledger, table: str) -> int:
    with ledger.engine.connect() as connection:
        query = text(f"SELECT count(*) FROM {table}")  # noqa: S608 (a test's own words)
        return int(connection.execute(query).scalar_one())


def test_a_unit_of_work_takes_one_row_for_each_state_of_all_its_attempts(ledger: Ledger) -> None:
    ids = accept(ledger, run(), *(bytes([number]) * 32 for number in range(20)))
    lot = AttemptLot(1, Action.RETRY, "PAYMENTS", "QM1", 1)
    how, why = Ending(1, "RETRY", "PAYMENTS", "QM1", Outcome.DELIVERED), Why.ATTEMPT(number=1)
    booking = ledger.attempts.of_plan("r1", "p-r1")

    booking.begin("u1", [(lot, one) for one in reversed(ids)], AttemptState.INTENDED, 0, NOON)
    intended = ledger.attempts.intended("QM1", "DLQ")
    booking.confirm("u1", [OutcomeLot(how, why, NOON, ids)], NOON)

    assert [one.message_id for one in intended] == ids[::-1]
    assert {one.state for one in ledger.attempts.of_unit("u1")} == {AttemptState.CONFIRMED}
    assert ledger.outcomes.of_run("r1") == {one: outcome(one) for one in ids}
    assert [rows_in(ledger, name) for name in ("unit_states", "outcome_lots")] == [2, 1]
    assert [rows_in(ledger, name) for name in ("attempts", "outcomes")] == [40, 20]


def test_attempts_of_one_unit_may_come_to_different_states(ledger: Ledger) -> None:
    first, second = accept(ledger, run(), KEY, OTHER_KEY)
    ledger.attempts.add([attempt(first), attempt(second)])
    ledger.attempts.add([replace(attempt(second), state=AttemptState.UNKNOWN)])

    found = ledger.attempts.of_unit("u1")

    assert {one.message_id: one.state for one in found} == {
        first: AttemptState.INTENDED,
        second: AttemptState.UNKNOWN,
    }
    assert [one.message_id for one in ledger.attempts.intended("QM1", "DLQ")] == [first]


def test_a_unit_whose_message_has_an_outcome_already_is_not_confirmed(ledger: Ledger) -> None:
    first, second = accept(ledger, run(), KEY, OTHER_KEY)
    lot = AttemptLot(1, Action.RETRY, "PAYMENTS", "QM1", 1)
    how, why = Ending(1, "RETRY", "PAYMENTS", "QM1", Outcome.DELIVERED), Why.ATTEMPT(number=1)
    booking = ledger.attempts.of_plan("r1", "p-r1")
    booking.begin("u1", [(lot, first), (lot, second)], AttemptState.INTENDED, 0, NOON)
    ledger.outcomes.add("r1", [outcome(second, Outcome.UNKNOWN)])

    with pytest.raises(LedgerError, match="another executor has settled this unit of work"):
        booking.confirm("u1", [OutcomeLot(how, why, NOON, [first, second])], NOON)

    assert list(ledger.outcomes.of_run("r1")) == [second]
    assert {one.state for one in ledger.attempts.of_unit("u1")} == {AttemptState.INTENDED}
