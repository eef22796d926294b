"""Test that a rule is drafted for one cause, and that a change is described for reviewers."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqdlq.causes import find_cause
from mqdlq.lake import Snapshot
from mqdlq.rules import Pattern, parse
from mqdlq.tools.rule_drafts import (
    Proposal,
    TableInUse,
    backtest,
    describe_change,
    propose,
)
from mqdlq.tools.rule_suggestions import draft_rule, parking_queue_of
from tests.support.evaluation.snapshot_builders import dead_letter, take_snapshot

TEXT = "DESTQ(A) ACTION(FWD) FWDQ(PARKED)\nACTION(IGNORE)\n"


def test_a_rule_for_one_cause_has_its_destination_and_its_reason() -> None:
    cause = find_cause("dead_letter", 2053, "PAY.IN", "QM1")

    assert draft_rule(cause, 3, "PARKED").splitlines()[-1] == (
        "DESTQ(PAY.IN) REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(5)"
    )


def test_a_rule_for_generated_queues_matches_all_of_them() -> None:
    cause = find_cause("dead_letter", 2085, "AMQ.5F2A6C7E21034B02", "QM1")

    (rule,) = parse(draft_rule(cause, 3, "PARKED")).rules

    assert rule.patterns == (
        Pattern("DESTQ", "dlh_dest_q_name", "AMQ.*"),
        Pattern("REASON", "dlh_reason", 2085),
    )
    assert (rule.action, rule.fwd_q) == ("FWD", "PARKED")


def test_an_asterisk_in_a_name_that_no_program_generated_is_not_a_pattern() -> None:
    cause = find_cause("dead_letter", 2085, "A*B", "QM1")

    (rule,) = parse(draft_rule(cause, 1, "")).rules

    assert [pattern.keyword for pattern in rule.patterns] == ["REASON"]


@pytest.mark.parametrize(
    ("text", "queue"),
    [
        ("ACTION(IGNORE)\n", ""),
        ("ACTION(FWD) FWDQ(&DESTQ)\n", ""),
        ("DESTQ(A) ACTION(FWD) FWDQ(ONE)\nACTION(FWD) FWDQ(TWO)\n", "TWO"),
        ("DESTQ(A) ACTION(FWD) FWDQ(ONE)\nDESTQ(B) ACTION(FWD) FWDQ(ONE)\n" + TEXT, "ONE"),
    ],
)
def test_the_parking_queue_is_that_of_most_rules(text: str, queue: str) -> None:
    assert parking_queue_of(parse(text)) == queue


def test_reviewers_read_the_rule_and_the_backtest(tmp_path: Path) -> None:
    rows = [dead_letter(n, dlh_dest_q_name="Q", dlh_reason=2053) for n in (1, 2)]
    stored = Snapshot.at(take_snapshot(str(tmp_path), rows, TEXT))
    chosen = ((stored,), ())
    cause = find_cause("dead_letter", 2053, "Q", "QM1")
    table = parse(TEXT)
    today = TableInUse("orders.rules", TEXT, table, "QM1", "DLQ")

    found = propose(today, "DESTQ(Q) REASON(MQRC_Q_FULL) ACTION(RETRY)\n", chosen[0])
    assert isinstance(found, Proposal)

    assert describe_change("orders.rules", cause, found, backtest(table, found.table, chosen)) == (
        "Handle MQRC_Q_FULL (2053) at Q @ QM1\n"
        "\n"
        "Adds to orders.rules, at line 2:\n"
        "\n"
        "    DESTQ(Q) REASON(MQRC_Q_FULL) ACTION(RETRY)\n"
        "\n"
        "Backtest over 1 snapshot, taken 2026-11-21 12:00:00 UTC: 2 of 2 messages treated"
        " differently.\n"
        "- 2: ACTION(IGNORE) -> ACTION(RETRY), then ACTION(IGNORE)\n"
        "\n"
        "The rules bring no warning of the linter.\n"
    )


def test_reviewers_read_new_warnings_and_that_there_was_no_snapshot() -> None:
    table = parse(TEXT)
    today = TableInUse("orders.rules", TEXT, table, "QM1", "DLQ")
    chosen = ((), ())

    found = propose(today, "DESTQ(A*) ACTION(DISCARD)\n", (), before=1)
    assert isinstance(found, Proposal)
    text = describe_change(
        "orders.rules",
        find_cause("dead_letter", 2053, "A", "QM1"),
        found,
        backtest(table, found.table, chosen),
    )

    assert "Not backtested: there is no snapshot.\n" in text
    assert "- line 2: no message reaches this rule" in text
