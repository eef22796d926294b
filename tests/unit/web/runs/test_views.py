"""What the pages of runs and rules show, before it is rendered."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mqdlq.errors import MqDlqError
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.runs import EntryKind, RunFacts, RunFilter
from mqdlq.ledger.tables import Look, RecordedVerdict, Run
from mqdlq.model import Outcome
from mqdlq.reading.report.files import write_report
from mqdlq.reading.report.html_report import account_bar
from mqdlq.reading.run import read_sources, written_rules
from mqdlq.reading.run_messages import Message, MessageList
from mqdlq.tools.acting import Sources
from mqdlq.web.rules import (
    diff_of,
    diff_tables,
    findings_of,
    run_with_rules,
    used_rules,
)
from mqdlq.web.runs import MessageQuery, RunPage, describe_state, list_runs, page_of_messages
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

pytestmark = pytest.mark.stages

HOUR = timedelta(hours=1)


def record(run: EndedRun, ledger: Ledger, lake_root: str) -> str:
    run_id = run.record(ledger, lake_root)
    write_report(
        run_id, ledger=ledger, lake_root=lake_root, stages=ALL_WELL, clock=lambda: WRITTEN_AT
    )
    return run_id


def run_of(run_id: str, ledger: Ledger) -> Run:
    run = ledger.runs.get(run_id)
    assert run is not None
    return run


def page_of(run_id: str, ledger: Ledger, lake_root: str) -> RunPage:
    sources = Sources("demo", ledger, lake_root, lambda: START + timedelta(seconds=30))
    return RunPage.read(run_of(run_id, ledger), sources)


def messages_of(
    run_id: str, ledger: Ledger, lake_root: str, **query: str
) -> tuple[list[Message], int]:
    """Return a page of a run's messages, and how many fit the filter."""
    messages = MessageList(read_sources(run_id, ledger, lake_root), ledger)
    rows, found, troubles = page_of_messages(messages, MessageQuery.parse(query))
    assert troubles == ()
    return rows, found


def test_a_run_in_progress_has_its_next_pass_and_its_leases(ledger: Ledger, lake_root: str) -> None:
    pending = exhausted(outcome=None, tries=(Try(20.0, 2051),))
    run_id = EndedRun([pending, delivered()], last_browse=False).record(ledger, lake_root)
    ledger.runs.record_pass(run_id, START + timedelta(seconds=20))
    ids = [message.message_id for message in ledger.messages.of_run(run_id)]
    ledger.messages.lease(run_id, ids, START + HOUR)

    page = page_of(run_id, ledger, lake_root)

    assert (page.state, page.is_open) == (("In progress", "unfinished"), True)
    assert page.headline == "2 messages, of which 1 has an outcome so far."
    assert page.next_pass_at == START + timedelta(seconds=26)
    assert (page.leased_until, page.run.limit_at) == (START + HOUR, START + HOUR)
    assert page.summary.account is not None
    bar = account_bar(page.summary.account)
    assert [(part["what"], part["messages"]) for part in bar] == [("delivered", 1), ("missing", 1)]


def test_the_messages_of_a_run_are_paged(ledger: Ledger, lake_root: str) -> None:
    run_id = record(EndedRun([*[delivered()] * 101, unmatched()], seen=1), ledger, lake_root)

    first, found = messages_of(run_id, ledger, lake_root)
    second, _ = messages_of(run_id, ledger, lake_root, page="2")
    filtered, fit = messages_of(run_id, ledger, lake_root, outcome="unmatched")

    assert (len(first), found) == (100, 102)
    assert [row.browse_seq for row in second] == [101, 102]
    assert ([row.outcome for row in filtered], fit) == (
        [Outcome.UNMATCHED],
        1,
    )


def test_a_run_for_named_messages_says_how_many(ledger: Ledger, lake_root: str) -> None:
    run_id = EndedRun([delivered()]).record(ledger, lake_root)
    run = run_of(run_id, ledger)
    key = ledger.messages.of_run(run_id)[0].message_key.hex()
    named = replace(run, run_id="named", message_keys=(key,), run_type="backfill", dry_run=True)
    ledger.runs.record(named)

    mode = page_of("named", ledger, lake_root).mode

    assert mode == "backfill of stored snapshots; dry run: nothing is moved; only 1 named messages"


def test_the_list_counts_the_outcomes_of_reports(ledger: Ledger, lake_root: str) -> None:
    record(EndedRun([delivered(), unmatched(outcome=None)], last_browse=False), ledger, lake_root)

    (row,) = list_runs(Sources("demo", ledger, lake_root, lambda: WRITTEN_AT), RunFilter(), 1)

    assert (row["state"], row["outcomes"]) == ("Failed", {Outcome.DELIVERED: 1})
    assert row["without_outcome"] == 1
    assert row["duration_s"] == (WRITTEN_AT - START).total_seconds()
    assert ledger.run_lists.run_types("demo") == ["manual"]


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
        replace(ENTRY, report=RecordedVerdict("ok", "all well", "", 1, True, 0, START)),
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

    run = run_of(run_id, ledger)
    rules, attempted_runs = used_rules(run, written_rules(run.rules_text), ledger)

    assert ledger.rules_in_use.newest_run("demo") == run_id
    assert attempted_runs == 1
    by_rule = {rule["ordinal"]: rule for rule in rules}
    first, third = by_rule[1], by_rule[3]
    assert (first["messages"], first["succeeded"], first["runs"]) == (2, 2, 1)
    assert [rule for rule, used in by_rule.items() if used["is_unused"]] == [2, 4, 5]
    assert [rule for rule, used in by_rule.items() if used["only_failed"]] == [3]
    assert (third["reasons"], third["failed"]) == ({2053: 1}, 1)
    assert first["written"].line == 4
    assert run_with_rules("demo", run_id, ledger) == run
    for line, found in findings_of(run, {}).items():
        assert {one.line for one in found} == {line}


def test_a_run_or_table_that_does_not_exist_is_named(ledger: Ledger, lake_root: str) -> None:
    record(EndedRun([delivered()]), ledger, lake_root)

    with pytest.raises(MqDlqError) as of_run:
        run_with_rules("demo", "nothing", ledger)
    with pytest.raises(MqDlqError) as of_table:
        diff_of("demo", ("aa", "bb"), ledger)

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

    periods = ledger.rules_in_use.periods("demo")
    diff = diff_of("demo", (run.rules_digest, "n" * 64), ledger)

    assert [period.rules_digest for period in periods] == ["n" * 64, run.rules_digest]
    assert diff is not None
    lines, changes = diff
    changed = [(old, new) for old, new, _ in lines if not (old and new)]
    assert changed == [(10, 0), (0, 10)]
    assert len(changes or ()) == 1


def test_a_table_that_is_not_valid_is_compared_by_its_text_only() -> None:
    lines, changes = diff_tables("ACTION(IGNORE)\n", "NONSENSE\n")

    assert (changes, len(lines)) == (None, 2)
