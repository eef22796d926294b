"""The audit trail: who did what, when and why, each event once, over all tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.ledger.retention import record_runs
from mqdlq.ledger.tables import Approval, AuditEvent, Learned, Prune, Restoration
from mqdlq.model import AuditKind, Outcome
from tests.unit.ledger.test_ledger import KEY, NOON, OTHER_KEY, accept, outcome, run

pytestmark = pytest.mark.slow

LOOK = AuditEvent(
    at=NOON + timedelta(hours=9),
    what=AuditKind.BODY_SHOWN,
    who="carol",
    handler="demo",
    message_key=KEY.hex(),
    why="case 7",
)


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url) as ledger:
        yield ledger


def hours(number: int) -> timedelta:
    return timedelta(hours=number)


def fill(ledger: Ledger) -> None:
    """Let people start, approve, restore, hold, release and prune, and look at a body."""
    started = run(
        started_by="alice in Airflow",
        started_by_user="alice",
        why="ticket 4711",
        message_keys=(KEY.hex(),),
        run_type="manual",
    )
    first, second = accept(ledger, started, KEY, OTHER_KEY)
    asked = Approval("h" * 64, ("discard",), "asked", "", NOON + hours(1))
    ledger.plans.record_approval("r1", asked)
    ledger.plans.record_approval(
        "r1", Approval("h" * 64, ("discard",), "approved", "bob", NOON + hours(2), "checked")
    )
    ledger.outcomes.add("r1", [outcome(first, Outcome.DISCARDED), outcome(second)])
    ledger.archive.record("r1", "lake/archive/r1", {first: "d" * 64}, NOON)
    (copy,) = ledger.archive.copies(run_id="r1")
    ledger.restorations.record(restoration(), [copy])
    hold = ledger.holds.add(message_key=KEY.hex(), reason="case 1", who="dora", at=NOON + hours(4))
    ledger.holds.release(hold.hold_id, reason="closed", who="erin", at=NOON + hours(5))
    ledger.prunes.begin(Prune("demo", "keep_runs_for P10D", "the schedule", NOON + hours(6)))
    ledger.audit.record(LOOK)


def restoration() -> Restoration:
    return Restoration(
        restoration_id="restore-1",
        handler="demo",
        who="carol in Airflow",
        queue_manager="QM1",
        queue="DLQ",
        state_queue="MQDLQ.STATE",
        run_id="r1",
        message_keys=(),
        reason=0,
        to_queue="DLQ",
        to_queue_manager="",
        header=True,
        again=False,
        dry_run=False,
        started_at=NOON + hours(3),
        why="by mistake",
    )


def kinds(events: list[AuditEvent]) -> list[AuditKind]:
    return [event.what for event in events]


def test_every_event_is_in_the_trail_once_newest_first(ledger: Ledger) -> None:
    fill(ledger)

    found = ledger.audit_trail.page(AuditFilter())

    assert found == [
        LOOK,
        AuditEvent(
            NOON + hours(6), AuditKind.PRUNED, "the schedule", "demo", details="keep_runs_for P10D"
        ),
        AuditEvent(
            NOON + hours(5),
            AuditKind.HOLD_RELEASED,
            "erin",
            "demo",
            message_key=KEY.hex(),
            why="closed",
            details="hold 1",
        ),
        AuditEvent(
            NOON + hours(4),
            AuditKind.HOLD_PLACED,
            "dora",
            "demo",
            message_key=KEY.hex(),
            why="case 1",
            details="hold 1",
        ),
        AuditEvent(
            NOON + hours(3),
            AuditKind.RESTORATION_STARTED,
            "carol in Airflow",
            "demo",
            "r1",
            messages=1,
            why="by mistake",
            details="restore-1 to DLQ",
        ),
        AuditEvent(
            NOON + hours(2),
            AuditKind.APPROVED,
            "bob",
            "demo",
            "r1",
            why="checked",
            details="discard",
        ),
        AuditEvent(NOON + hours(1), AuditKind.APPROVAL_ASKED, "", "demo", "r1", details="discard"),
        AuditEvent(
            NOON,
            AuditKind.DISCARDED,
            "alice in Airflow",
            "demo",
            "r1",
            messages=1,
            why="ticket 4711",
        ),
        AuditEvent(
            NOON,
            AuditKind.RUN_STARTED,
            "alice in Airflow",
            "demo",
            "r1",
            why="ticket 4711",
            details="manual",
        ),
    ]
    assert list(ledger.audit_trail.events(AuditFilter())) == found


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AuditFilter(who="ALICE"), [AuditKind.DISCARDED, AuditKind.RUN_STARTED]),
        (AuditFilter(who="%"), []),
        (AuditFilter(what=AuditKind.APPROVED), [AuditKind.APPROVED]),
        (AuditFilter(since=NOON + hours(6)), [AuditKind.BODY_SHOWN, AuditKind.PRUNED]),
        (AuditFilter(until=NOON + hours(1)), [AuditKind.DISCARDED, AuditKind.RUN_STARTED]),
        (AuditFilter(handler="other"), []),
        (AuditFilter(handlers=()), []),
        (
            AuditFilter(run_id="r1", handlers=("demo",), since=NOON + hours(1)),
            [AuditKind.RESTORATION_STARTED, AuditKind.APPROVED, AuditKind.APPROVAL_ASKED],
        ),
        (
            AuditFilter(message_key=KEY.hex(), since=NOON + hours(3)),
            [
                AuditKind.BODY_SHOWN,
                AuditKind.HOLD_RELEASED,
                AuditKind.HOLD_PLACED,
                AuditKind.RESTORATION_STARTED,
            ],
        ),
        *(
            (
                AuditFilter(message_key=key, until=NOON + hours(3)),
                [
                    AuditKind.APPROVED,
                    AuditKind.APPROVAL_ASKED,
                    AuditKind.DISCARDED,
                    AuditKind.RUN_STARTED,
                ],
            )
            for key in (KEY.hex(), KEY.hex()[:16])
        ),
        (AuditFilter(message_key=OTHER_KEY.hex()), []),
    ],
)
def test_the_trail_is_narrowed_by_every_condition(
    ledger: Ledger, wanted: AuditFilter, expected: list[AuditKind]
) -> None:
    fill(ledger)

    assert kinds(ledger.audit_trail.page(wanted)) == expected


def test_the_pages_of_the_trail_follow_one_another(ledger: Ledger) -> None:
    fill(ledger)
    trail = ledger.audit_trail

    pages = [trail.page(AuditFilter(), offset=offset, limit=4) for offset in (0, 4, 8)]

    assert [event for page in pages for event in page] == trail.page(AuditFilter())
    assert [len(page) for page in pages] == [4, 4, 1]


def test_an_event_of_a_task_that_runs_twice_is_recorded_once(ledger: Ledger) -> None:
    refusal = AuditEvent(NOON, AuditKind.SECOND_PERSON_REFUSED, "alice", "demo", "r1")

    ledger.audit.record_once(refusal)
    ledger.audit.record_once(refusal)

    assert ledger.audit_trail.page(AuditFilter()) == [refusal]


def test_a_discard_that_a_later_run_learned_is_in_the_trail(ledger: Ledger) -> None:
    (message_id,) = accept(ledger, run(started_by="alice in Airflow"), KEY)
    ledger.outcomes.add("r1", [outcome(message_id, Outcome.UNKNOWN)])
    ledger.runs.record(run("r2"))
    news = Learned("r1", "r2", Outcome.DISCARDED, "", "", message_id, NOON + hours(1))
    ledger.attempts.add([], learned=[news])

    (event,) = ledger.audit_trail.page(AuditFilter(what=AuditKind.DISCARDED))

    assert (event.run_id, event.messages, event.at) == ("r1", 1, NOON + hours(1))
    assert event.details == "a later run found the proof"


def test_a_prune_of_a_run_keeps_its_events(ledger: Ledger) -> None:
    started = run(started_by="alice in Airflow", why="ticket 4711")
    (message_id,) = accept(ledger, started, KEY)
    ledger.outcomes.add("r1", [outcome(message_id, Outcome.DISCARDED)])
    for decision, who in (("asked", ""), ("approved", "bob")):
        ledger.plans.record_approval(
            "r1", Approval("h" * 64, ("discard",), decision, who, NOON + hours(2), "checked")
        )
    before = ledger.audit_trail.page(AuditFilter(run_id="r1"))
    prune_id = ledger.prunes.begin(Prune("demo", "keep_runs_for P10D", "dora", NOON + hours(6)))
    with ledger.engine.begin() as connection:
        record_runs(connection, prune_id, ["r1"])
    intended = ledger.audit_trail.page(AuditFilter(run_id="r1"))
    ledger.prunes.erase("r1")
    after = ledger.audit_trail.page(AuditFilter(run_id="r1"))

    def facts(events: list[AuditEvent]) -> list[tuple[object, ...]]:
        return [(e.at, e.what, e.who, e.handler, e.messages, e.why) for e in events]

    assert len(before) == 4
    assert facts(intended) == facts(before)
    assert facts(after) == facts(before)


def test_discards_are_counted_by_their_own_index(ledger: Ledger) -> None:
    is_sqlite = ledger.engine.dialect.name == "sqlite"
    fill(ledger)
    with ledger.engine.connect() as connection:
        if not is_sqlite:  # it reads a small table without any index otherwise
            connection.execute(text("SET enable_seqscan = off"))
        explain = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
        query = "SELECT run_no, max(at), sum(messages) FROM outcome_lots"
        condition = "WHERE outcome = 'discarded' GROUP BY run_no"
        plan = connection.execute(text(f"{explain} {query} {condition}"))
        assert any("outcomes_discarded" in str(row) for row in plan)


def test_the_events_of_a_message_are_found_without_reading_all_messages(ledger: Ledger) -> None:
    is_sqlite = ledger.engine.dialect.name == "sqlite"
    fill(ledger)
    executed: list[tuple[str, Any]] = []
    event.listen(
        ledger.engine,
        "before_cursor_execute",
        lambda _connection, _cursor, statement, given, *_: executed.append((statement, given)),
    )
    assert ledger.audit_trail.page(AuditFilter(message_key=KEY.hex()))
    about_messages = [one for one in executed if " messages.message_id" in one[0]]

    with ledger.engine.connect() as connection:
        if not is_sqlite:
            connection.execute(text("SET enable_seqscan = off"))
        explain = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
        plans = [
            str(row)
            for statement, given in about_messages
            for row in connection.exec_driver_sql(f"{explain} {statement}", given)
        ]
    assert any("Index" in plan or "USING COVERING INDEX" in plan for plan in plans)
    assert not any("SCAN messages" in plan or "Seq Scan on messages" in plan for plan in plans)
