"""The list of a handler's runs hides none of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from mqdlq.failures import Failure
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.reading.runs import NO_REPORT, EntryKind, RunFilter
from mqdlq.ledger.tables import (
    Approval,
    Ending,
    Look,
    Prune,
    RecordedVerdict,
    Sighting,
    TakenSnapshot,
)
from mqdlq.model import Outcome
from tests.unit.ledger.test_ledger import KEY, NOON, OTHER_KEY, accept, outcome, run
from tests.unit.ledger.test_restorations import RESTORATION

pytestmark = pytest.mark.stages

HOUR = timedelta(hours=1)
DELIVERED = Ending(1, "RETRY", "PAYMENTS", "QM1", Outcome.DELIVERED)


def verdict(word: str = "attention", **changes: object) -> RecordedVerdict:
    made = RecordedVerdict(word, f"headline of {word}", "", 2, True, 1, NOON + HOUR)
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture(name="ledger")
def _ledger(ledger_url: str) -> Iterator[Ledger]:
    """Yield a ledger with a run of each kind, an hour between them."""
    with open_ledger(ledger_url) as ledger:
        reported = run("reported", started_by="alice in Airflow", why="INC-7")
        (first, _) = accept(ledger, reported, KEY, OTHER_KEY)
        ledger.outcomes.add("reported", [outcome(first)])
        ledger.snapshots.record(TakenSnapshot("reported", "s1", "lake/s1", 2, NOON))
        ledger.accounts.record("reported", Sighting(1, 1, 0, 0, NOON + timedelta(minutes=3)))
        ledger.accounts.record_verdict("reported", verdict("failed"), {})
        ledger.accounts.record_verdict("reported", verdict(), {DELIVERED: 1})
        scheduled = run(
            "waiting", run_type="scheduled", started_at=NOON + HOUR, message_keys=("ab", "cd")
        )
        ledger.runs.record(scheduled)
        ledger.runs.record_look("waiting", Look(0, False, "the queue is empty", NOON + HOUR))
        ledger.runs.record_look("waiting", Look(3, True, "3 messages", NOON + HOUR))
        ledger.runs.record_failure(
            "demo-manual__9", "demo", Failure("sense", "no such table"), NOON + 2 * HOUR
        )
        ledger.runs.record_failure(
            "demo-manual__9", "demo", Failure("sense", "no such file"), NOON + 3 * HOUR
        )
        ledger.runs.record_failure("reported", "demo", Failure("sense", "the queue is busy"), NOON)
        ledger.archive.record("waiting", "lake/one", {first: "d1"}, NOON)
        restored = replace(RESTORATION, run_id="", started_at=NOON + 4 * HOUR, who="carol")
        ledger.restorations.record(restored, ledger.archive.copies(run_id="waiting"))
        ledger.runs.record(run("elsewhere", handler="other", started_at=NOON + 9 * HOUR))
        yield ledger


def ids(ledger: Ledger, **chosen: object) -> list[str]:
    found = RunFilter(**chosen)  # type: ignore[arg-type]
    listed = [entry.run_id for entry in ledger.run_lists.page("demo", found)]
    assert ledger.run_lists.count("demo", found) == len(listed)
    return listed


def test_every_kind_of_run_is_listed_the_newest_first(ledger: Ledger) -> None:
    entries = ledger.run_lists.page("demo", RunFilter())

    assert [(entry.kind, entry.run_id) for entry in entries] == [
        (EntryKind.RESTORATION, "x1"),
        (EntryKind.REFUSED, "demo-manual__9"),
        (EntryKind.RUN, "waiting"),
        (EntryKind.RUN, "reported"),
    ]


def test_a_page_continues_where_the_page_before_ended(ledger: Ledger) -> None:
    pages = [ledger.run_lists.page("demo", RunFilter(), offset=at, limit=2) for at in (0, 2, 4)]

    assert [[entry.run_id for entry in page] for page in pages] == [
        ["x1", "demo-manual__9"],
        ["waiting", "reported"],
        [],
    ]


def test_a_run_is_listed_with_its_last_verdict_and_its_numbers(ledger: Ledger) -> None:
    *_, found = ledger.run_lists.page("demo", RunFilter())

    assert (found.verdict, found.report) == ("attention", verdict())
    assert (found.messages, found.ended_at) == (2, NOON + timedelta(minutes=3))
    assert (found.started_by, found.asked_why) == ("alice in Airflow", "INC-7")
    assert (found.named_messages, found.found_no_work) == (0, False)


def test_a_run_without_a_report_is_listed_with_its_start(ledger: Ledger) -> None:
    found = ledger.run_lists.page("demo", RunFilter(state=NO_REPORT))[0]

    assert (found.run_id, found.verdict, found.messages, found.ended_at) == (
        "waiting",
        "",
        None,
        None,
    )
    assert (found.named_messages, found.found_no_work) == (2, False)


def test_a_refused_run_is_listed_once_with_its_last_reason(ledger: Ledger) -> None:
    found = ledger.run_lists.page("demo", RunFilter(state=EntryKind.REFUSED))[0]

    assert (found.why, found.tries, found.started_at) == ("no such file", 2, NOON + 3 * HOUR)
    assert ledger.run_lists.refused_handler("demo-manual__9") == "demo"
    assert ledger.run_lists.refused_handler("nothing") == ""
    assert ledger.runs.failures("demo-manual__9") == [
        (NOON + 3 * HOUR, Failure("sense", "no such file"))
    ]


FILTERS: list[tuple[dict[str, object], list[str]]] = [
    ({"since": NOON + HOUR, "until": NOON + 3 * HOUR}, ["waiting"]),
    ({"since": NOON + 3 * HOUR, "until": NOON + 4 * HOUR}, ["demo-manual__9"]),
    ({"run_type": "scheduled"}, ["waiting"]),
    ({"run_type": "manual"}, ["demo-manual__9", "reported"]),
    ({"started_by": "ALICE"}, ["reported"]),
    ({"started_by": "carol"}, ["x1"]),
    ({"started_by": "%"}, []),
    ({"state": "attention"}, ["reported"]),
    ({"state": "failed"}, []),
    ({"state": "restoration"}, ["x1"]),
    ({"state": "pruned"}, []),
]


@pytest.mark.parametrize(("chosen", "expected"), FILTERS, ids=[str(case[0]) for case in FILTERS])
def test_filters_narrow_the_list(
    ledger: Ledger, chosen: dict[str, object], expected: list[str]
) -> None:
    assert ids(ledger, **chosen) == expected


def test_a_pruned_run_stays_in_the_list(ledger: Ledger) -> None:
    (message_id,) = accept(ledger, run("old", started_at=NOON - HOUR, started_by="bob"), b"p" * 32)
    ledger.outcomes.add("old", [outcome(message_id)])
    ledger.accounts.record("old", Sighting(0, 0, 0, 0, NOON - HOUR))
    prune = ledger.prunes.begin(Prune("demo", "keep_runs_for 30 days", "dan", NOON + 9 * HOUR))
    assert ledger.prunes.intend_runs(prune, ["old"], NOON + 9 * HOUR) == ["old"]

    assert ids(ledger, state="pruned") == ids(ledger, started_by="bob") == ["old"]
    ledger.prunes.erase("old")
    assert ids(ledger, state="pruned") == ids(ledger, until=NOON) == ["old"]
    assert ids(ledger, state="pruned", run_type="backfill") == []
    found = ledger.run_lists.pruned("old")
    assert found is not None
    assert (found.why, found.started_by, found.queue) == ("keep_runs_for 30 days", "bob", "DLQ")
    assert ledger.run_lists.pruned("waiting") is None


def test_the_outcomes_of_a_list_are_those_of_the_last_reports(ledger: Ledger) -> None:
    found = ledger.run_lists.outcomes(["reported", "waiting"])

    assert found == {"reported": {Outcome.DELIVERED: 1}}


def test_a_question_is_open_until_it_is_answered(ledger: Ledger) -> None:
    def asked_at() -> object:
        (found,) = ledger.run_lists.page("demo", RunFilter(state=NO_REPORT))
        return found.asked_at

    asked = Approval("h" * 64, ("discard",), "asked", "", NOON)
    ledger.plans.record_approval("waiting", asked)
    assert asked_at() == NOON

    ledger.plans.record_approval("waiting", replace(asked, decision="approved", who="bob"))
    assert asked_at() is None


def test_leases_that_have_ended_or_were_released_do_not_count(ledger: Ledger) -> None:
    ids_ = [message.message_id for message in ledger.messages.of_run("reported")]
    ledger.messages.lease("reported", ids_, NOON + HOUR)
    assert ledger.run_lists.leased_until(["reported"], NOON) == {"reported": NOON + HOUR}
    assert ledger.run_lists.leased_until(["reported"], NOON + HOUR) == {}

    ledger.messages.lease("reported", ids_, NOON)
    assert ledger.run_lists.leased_until(["reported"], NOON) == {}


def test_passes_and_types_are_listed(ledger: Ledger) -> None:
    ledger.runs.record_pass("reported", NOON)
    ledger.runs.record_pass("reported", NOON + HOUR)

    assert ledger.runs.passes("reported") == [NOON, NOON + HOUR]
    assert ledger.run_lists.run_types("demo") == ["manual", "scheduled"]


def test_the_plan_before_is_that_of_the_last_run_for_all_messages_of_the_queue(
    ledger: Ledger,
) -> None:
    named = run("named", started_at=NOON + HOUR, message_keys=("ab",))
    accept(ledger, named, b"n" * 32)
    other_queue = run("other-queue", started_at=NOON + HOUR, queue="DLQ2")
    accept(ledger, other_queue, b"q" * 32)
    later = run("later", started_at=NOON + 2 * HOUR)

    assert ledger.plans.before(later) == ("reported", "lake/p")
    assert ledger.plans.before(run("reported")) is None
