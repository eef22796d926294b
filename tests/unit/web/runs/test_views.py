"""The pages of runs and rules as records, before they are rendered."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mqdlq.errors import MqDlqError
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.runs import EntryKind, RunFacts
from mqdlq.ledger.tables.runs import Look, RecordedVerdict
from mqdlq.model import Outcome
from mqdlq.reading.report import write_report
from mqdlq.web.rules import RulesPage, diff_tables, show_rules
from mqdlq.web.runs.one_run import RunPage, show_run
from mqdlq.web.runs.run_list import MessageQuery, RunListQuery, describe_state, list_runs
from tests.unit.reading.report.conftest import WRITTEN_AT
from tests.unit.reading.report.ended_runs import (
    ALL_WELL,
    RULES,
    START,
    EndedRun,
    Try,
    delivered,
    exhausted,
    unmatched,
)

HOUR = timedelta(hours=1)


def record(run: EndedRun, ledger: Ledger, lake_root: str) -> str:
    run_id = run.record(ledger, lake_root)
    write_report(
        run_id, ledger=ledger, lake_root=lake_root, stages=ALL_WELL, clock=lambda: WRITTEN_AT
    )
    return run_id


def page_of(run_id: str, ledger: Ledger, lake_root: str, **query: str) -> RunPage:
    found = show_run(
        "demo",
        run_id,
        MessageQuery.parse(query),
        ledger=ledger,
        lake_root=lake_root,
        now=START + timedelta(seconds=30),
    )
    assert isinstance(found, RunPage)
    return found


def rules_of(ledger: Ledger, **query: str) -> RulesPage:
    return show_rules("demo", query, ledger)


def test_a_run_in_progress_has_its_next_pass_and_its_leases(ledger: Ledger, lake_root: str) -> None:
    pending = exhausted(outcome=None, tries=(Try(20.0, 2051),))
    run_id = EndedRun([pending, delivered()], last_browse=False).record(ledger, lake_root)
    ledger.runs.record_pass(run_id, START + timedelta(seconds=20))
    ids = [message.message_id for message in ledger.messages.of_run(run_id)]
    ledger.messages.lease(run_id, ids, START + HOUR)

    page = page_of(run_id, ledger, lake_root)

    assert (page.state, page.is_open) == ("In progress", True)
    assert page.headline == "2 messages, of which 1 has an outcome so far."
    assert page.progress.next_pass_at == START + timedelta(seconds=26)
    assert (page.progress.leased_until, page.progress.limit_at) == (START + HOUR, START + HOUR)
    assert [(part.what, part.messages) for part in page.bar] == [("delivered", 1), ("missing", 1)]


def test_the_messages_of_a_run_are_paged(ledger: Ledger, lake_root: str) -> None:
    run_id = record(EndedRun([*[delivered()] * 101, unmatched()], seen=1), ledger, lake_root)

    first = page_of(run_id, ledger, lake_root).messages
    second = page_of(run_id, ledger, lake_root, page="2").messages
    filtered = page_of(run_id, ledger, lake_root, outcome="unmatched").messages

    assert (len(first.rows), first.found, first.pages) == (100, 102, 2)
    assert [row.browse_seq for row in second.rows] == [101, 102]
    assert [row.outcome for row in filtered.rows] == [Outcome.UNMATCHED]


def test_a_run_for_named_messages_says_how_many(ledger: Ledger, lake_root: str) -> None:
    run_id = EndedRun([delivered()]).record(ledger, lake_root)
    run = ledger.runs.get(run_id)
    assert run is not None
    key = ledger.messages.of_run(run_id)[0].message_key.hex()
    named = replace(run, run_id="named", message_keys=(key,), run_type="backfill", dry_run=True)
    ledger.runs.record(named)

    mode = page_of("named", ledger, lake_root).mode

    assert mode == "backfill of stored snapshots; dry run: nothing is moved; only 1 named messages"


def test_the_list_counts_the_outcomes_of_reports(ledger: Ledger, lake_root: str) -> None:
    record(EndedRun([delivered(), unmatched(outcome=None)], last_browse=False), ledger, lake_root)

    page = list_runs("demo", RunListQuery.parse({}), ledger=ledger, now=WRITTEN_AT)

    (row,) = page.rows
    assert (row.state, row.outcomes, row.without_outcome) == ("Failed", {Outcome.DELIVERED: 1}, 1)
    assert row.duration_s == (WRITTEN_AT - START).total_seconds()
    assert (page.found, page.pages, page.types) == (1, 1, ("manual",))


ENTRY = RunFacts("r", START, max_run_time_s=3600)
STATES = [
    (ENTRY, "No report", "No report yet; its tasks may still run"),
    (
        replace(ENTRY, started_at=START - 2 * HOUR),
        "No report",
        "No report, and its time limit of 1 h 0 min is over: it may have broken off; see its tasks",
    ),
    (
        replace(ENTRY, look=Look(0, False, "", START)),
        "Nothing to do",
        "It found no work, and has no report",
    ),
    (
        replace(ENTRY, kind=EntryKind.REFUSED, why="no table", tries=3),
        "Refused",
        "The run did not start (3 tries): no table",
    ),
    (
        replace(ENTRY, kind=EntryKind.PRUNED, why="keep_runs_for 30 days"),
        "Pruned",
        "Only its totals remain: keep_runs_for 30 days",
    ),
    (
        replace(ENTRY, kind=EntryKind.RESTORATION),
        "Restoration",
        "Archived copies were put back",
    ),
    (
        replace(ENTRY, report=RecordedVerdict("ok", "all well", "", 1, True, 0, None, None, START)),
        "Everything is handled",
        "all well",
    ),
]


@pytest.mark.parametrize(("entry", "state", "sentence"), STATES)
def test_each_entry_says_its_state(entry: RunFacts, state: str, sentence: str) -> None:
    found = describe_state(entry, None, START + timedelta(minutes=5))

    assert (found[0], found[2]) == (state, sentence)


def test_the_use_of_rules_is_counted_over_runs(ledger: Ledger, lake_root: str) -> None:
    failed = exhausted(rule=3, action="FWD", target_q="Q", tries=(Try(20.0, 2053),))
    run_id = record(EndedRun([delivered(), delivered(), failed], seen=1), ledger, lake_root)

    page = rules_of(ledger)

    assert page.is_newest
    assert page.attempted_runs == 1
    assert page.findings == sum(len(line.findings) for line in page.lines)
    by_rule = {rule.ordinal: rule for rule in page.rules}
    assert (by_rule[1].messages, by_rule[1].succeeded, by_rule[1].runs) == (2, 2, 1)
    assert [rule for rule, used in by_rule.items() if used.is_unused] == [2, 4, 5]
    assert [rule for rule, used in by_rule.items() if used.only_failed] == [3]
    assert by_rule[3].reasons == {2053: 1}
    assert page.lines[3].rule == 1
    assert rules_of(ledger, run_id=run_id).run == page.run


def test_a_run_or_table_that_does_not_exist_is_named(ledger: Ledger, lake_root: str) -> None:
    record(EndedRun([delivered()]), ledger, lake_root)

    with pytest.raises(MqDlqError) as of_run:
        rules_of(ledger, run_id="nothing")
    with pytest.raises(MqDlqError) as of_table:
        rules_of(ledger, **{"from": "aa", "to": "bb"})

    assert str(of_run.value) == (
        "The handler demo has no run 'nothing', so its rules are not known; choose one from the"
        " list of its runs [MQDLQ-988]"
    )
    assert str(of_table.value) == (
        "No run of the handler demo has read a rules table 'aa'; choose one from the list of its"
        " tables [MQDLQ-989]"
    )


def test_two_tables_in_use_are_compared(ledger: Ledger, lake_root: str) -> None:
    record(EndedRun([delivered()]), ledger, lake_root)
    run = ledger.runs.latest()
    assert run is not None
    text = RULES.replace("ACTION(IGNORE)", "ACTION(DISCARD)")
    newer = replace(
        run, run_id="new", rules_digest="n" * 64, rules_text=text, started_at=START + HOUR
    )
    ledger.runs.record(newer)

    page = rules_of(ledger, **{"from": run.rules_digest, "to": "n" * 64})

    assert [period.rules_digest for period in page.periods] == ["n" * 64, run.rules_digest]
    assert page.diff is not None
    changed = [line for line in page.diff.lines if line.kind != "same"]
    assert [(line.old, line.new) for line in changed] == [(10, 0), (0, 10)]
    assert [line.kind for line in changed] == ["removed", "added"]
    assert len(page.diff.changes) == 1


def test_a_table_that_is_not_valid_is_compared_by_its_text_only() -> None:
    diff = diff_tables("ACTION(IGNORE)\n", "NONSENSE\n")

    assert (diff.meaning, diff.changes, len(diff.lines)) == (None, (), 2)
