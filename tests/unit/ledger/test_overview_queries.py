"""The overview finds the last runs of each queue in a fixed number of statements."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from mqdlq.failures import Failure
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import Approval
from mqdlq.model import Outcome
from tests.support.run_records import NOON
from tests.support.web.recorded_runs import RecordedRun, counted_statements

pytestmark = pytest.mark.stages

HOUR = timedelta(hours=1)


@pytest.fixture(name="ledger")
def ledger_fixture(ledger_url: str) -> Iterator[Ledger]:
    with open_ledger(ledger_url) as ledger:
        yield ledger


def test_a_queue_has_its_newest_run_and_the_whole_run_before(ledger: Ledger) -> None:
    for number in range(3):
        RecordedRun(name=str(number), at=NOON + number * HOUR).record(ledger)

    (queue,) = ledger.run_lists.queues()
    assert queue.last is not None

    assert (queue.handler, queue.queue_manager, queue.queue) == ("demo", "QM1", "DLQ")
    assert queue.last.run_id == "demo-2"
    assert queue.whole == queue.last
    assert queue.before is not None
    assert queue.before.run_id == "demo-1"
    assert queue.closed is None


def test_a_run_has_its_look_its_last_browse_and_its_verdict(ledger: Ledger) -> None:
    RecordedRun(arrived=4).record(ledger)

    (queue,) = ledger.run_lists.queues()

    run = queue.last
    assert run is not None
    assert run.look is not None
    assert run.sighting is not None
    assert run.report is not None
    assert (run.look.depth, run.look.max_depth, run.look.is_work) == (5, 5000, True)
    assert (run.sighting.depth, run.oldest_left) == (6, NOON - HOUR)
    assert (run.verdict, run.report.adds_up, run.report.attention) == ("attention", True, 2)
    assert (run.departed, run.named_messages, run.asked_at) == (3, 0, None)


def test_a_run_of_an_earlier_version_has_no_maximum_depth_and_no_verdict(ledger: Ledger) -> None:
    RecordedRun(max_depth=None, verdict="").record(ledger)

    (queue,) = ledger.run_lists.queues()

    run = queue.last
    assert run is not None
    assert run.look is not None
    assert (run.look.max_depth, run.verdict, run.report, run.departed) == (None, "", None, 0)


@pytest.mark.parametrize("other", [{"run_type": "backfill"}, {"message_keys": ("ab" * 32,)}])
def test_a_run_for_a_part_of_the_queue_is_the_last_but_not_the_last_whole_run(
    ledger: Ledger, other: dict[str, object]
) -> None:
    RecordedRun(name="whole").record(ledger)
    RecordedRun(name="part", at=NOON + HOUR, run=other).record(ledger)

    (queue,) = ledger.run_lists.queues()
    assert queue.last is not None

    assert queue.last.run_id == "demo-part"
    assert queue.last.named_messages == ("message_keys" in other)
    assert queue.whole is not None
    assert queue.whole.run_id == "demo-whole"
    assert queue.before is None


def test_the_last_account_is_found_behind_runs_that_found_settled_messages(ledger: Ledger) -> None:
    RecordedRun(name="work").record(ledger)
    for number in range(3):
        idle = RecordedRun(name=str(number), at=NOON + (1 + number) * HOUR, depth=2, is_work=False)
        idle.record(ledger)

    (queue,) = ledger.run_lists.queues()
    assert queue.last is not None

    assert queue.last.run_id == "demo-2"
    assert queue.closed is not None
    assert queue.closed.run_id == "demo-work"
    assert queue.closed.report is not None
    assert queue.closed.report.attention == 2


def test_a_run_whose_report_is_not_written_leaves_the_account_before_it(ledger: Ledger) -> None:
    RecordedRun(name="before").record(ledger)
    RecordedRun(name="now", at=NOON + HOUR, verdict="").record(ledger)

    (queue,) = ledger.run_lists.queues()

    assert queue.whole is not None
    assert (queue.whole.run_id, queue.whole.report) == ("demo-now", None)
    assert queue.counted == queue.closed
    assert queue.counted is not None
    assert queue.counted.report is not None
    assert (queue.counted.run_id, queue.counted.report.attention) == ("demo-before", 2)


def test_the_last_account_of_an_empty_queue_is_not_looked_for(ledger: Ledger) -> None:
    RecordedRun(name="work").record(ledger)
    RecordedRun(name="idle", at=NOON + HOUR, depth=0, is_work=False).record(ledger)

    (queue,) = ledger.run_lists.queues()

    assert queue.closed is None


def test_queues_are_ordered_by_handler_queue_manager_and_queue(ledger: Ledger) -> None:
    for handler, queue_manager, queue in [("b", "QM1", "A"), ("a", "QM2", "A"), ("a", "QM1", "B")]:
        place = {"queue_manager": queue_manager, "queue": queue}
        RecordedRun(handler=handler, name=queue_manager, run=place).record(ledger)

    found = [(one.handler, one.queue_manager, one.queue) for one in ledger.run_lists.queues()]

    assert found == [("a", "QM1", "B"), ("a", "QM2", "A"), ("b", "QM1", "A")]
    assert [one.handler for one in ledger.run_lists.queues("b")] == ["b"]


def test_an_open_approval_counts_the_messages_that_its_plan_acts_on(ledger: Ledger) -> None:
    RecordedRun(asks=True, outcomes=None, depth=3998, planned=666).record(ledger)

    (found,) = ledger.run_lists.open_approvals()

    assert found.messages == 666


def test_an_unanswered_approval_of_a_run_without_an_account_is_open(ledger: Ledger) -> None:
    RecordedRun(asks=True, outcomes=None).record(ledger)
    RecordedRun(handler="answered", asks=True, outcomes=None).record(ledger)
    answer = Approval("0" * 64, ("discards",), "approved", "alice", NOON + HOUR)
    ledger.plans.record_approval("answered-1", answer)
    RecordedRun(handler="ended", asks=True).record(ledger)

    (found,) = ledger.run_lists.open_approvals()

    assert (found.handler, found.run_id, found.guards, found.messages) == (
        "demo",
        "demo-1",
        ("discards",),
        3,
    )
    (queue,) = ledger.run_lists.queues("demo")
    assert queue.last is not None
    assert queue.last.asked_at == found.at == NOON + timedelta(seconds=3)
    (answered,) = ledger.run_lists.queues("answered")
    assert answered.last is not None
    assert answered.last.asked_at is None
    assert ledger.run_lists.open_approvals("answered") == []


def test_each_handler_has_its_last_refusal(ledger: Ledger) -> None:
    for number in range(2):
        ledger.runs.record_failure(
            f"demo-{number}", "demo", Failure("sense", f"fault {number}"), NOON
        )
    ledger.runs.record_failure("other-1", "other", Failure("sense", "a fault"), NOON)

    assert {name: one.why for name, one in ledger.run_lists.refusals().items()} == {
        "demo": "fault 1",
        "other": "a fault",
    }
    assert list(ledger.run_lists.refusals("other")) == ["other"]


def test_the_newest_runs_of_a_handler_come_first(ledger: Ledger) -> None:
    for number in range(4):
        RecordedRun(name=str(number), at=NOON + number * HOUR).record(ledger)

    assert [run.run_id for run in ledger.run_lists.last_runs("demo", 2)] == ["demo-3", "demo-2"]


def test_many_handlers_take_as_many_statements_as_one(ledger: Ledger) -> None:
    def statements() -> int:
        with counted_statements(ledger) as executed:
            ledger.run_lists.queues()
            ledger.run_lists.refusals()
            ledger.run_lists.open_approvals()
        return len(executed)

    RecordedRun().record(ledger)
    of_one = statements()
    for number in range(30):
        RecordedRun(handler=f"h{number}", outcomes={Outcome.DELIVERED: 5}).record(ledger)

    assert statements() == of_one == 4
    assert len(ledger.run_lists.queues()) == 31
