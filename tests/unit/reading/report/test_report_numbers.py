from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from mqdlq.causes import CountedCause, find_cause
from mqdlq.ledger import Ledger
from mqdlq.model import Action, AttemptState, MessageClass, Outcome, Verdict
from mqdlq.reading.report.building import Report
from mqdlq.reading.report.groups import destination_in_words
from mqdlq.reading.report.html_report import render_html
from mqdlq.reading.report.text_report import render_text
from mqdlq.reading.run import BINS, FailedRule, RuleRow, WrittenRule, failed_in_words, written_rules
from mqdlq.reading.run_messages import Tried
from mqdlq.reasons import Why
from tests.unit.reading.report.ended_runs import (
    ALL_WELL,
    PUT_INHIBITED,
    Q_FULL,
    START,
    EndedRun,
    Try,
    bare,
    delivered,
    exhausted,
    forwarded,
    left_by_rule,
    messages_of_every_outcome,
    truncated,
    unmatched,
)

pytestmark = pytest.mark.stages

ReportOf = Callable[..., Report]


def test_the_headline_counts_messages_that_are_handled_left_or_need_attention(
    report_of: ReportOf,
) -> None:
    report = report_of(EndedRun(messages_of_every_outcome()))

    assert report.headline == (
        "62 messages: 50 handled, 9 need attention, 3 left by rule. The account adds up."
    )
    assert (report.verdict, report.failed, report.why) == (Verdict.ATTENTION, False, "")


def test_a_run_without_findings_is_ok(report_of: ReportOf) -> None:
    report = report_of(EndedRun([delivered(), left_by_rule()]))

    assert report.headline == "2 messages: 1 handled, 1 left by rule. The account adds up."
    assert report.verdict is Verdict.OK


def test_outcomes_are_counted_by_rule_action_and_target_in_the_order_of_the_table(
    report_of: ReportOf,
) -> None:
    report = report_of(EndedRun([bare(), forwarded(), exhausted(), delivered(), delivered()]))

    first, second, third, last = report.rules
    assert first == RuleRow(
        rule=1,
        line=4,
        text="REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)",
        action="RETRY",
        target_q="PAYMENTS.IN",
        target_q_mgr="",
        outcome=Outcome.DELIVERED,
        messages=2,
    )
    assert (second.rule, second.line, second.outcome) == (2, 6, Outcome.EXHAUSTED)
    assert (third.rule, third.target_q, third.messages) == (3, "PARKED.ORDERS", 1)
    assert last == RuleRow(0, "", "", "", 0, "", Outcome.UNPROCESSABLE, 1)


def test_a_rule_is_shown_as_written_without_the_comments_around_it() -> None:
    text = (
        "RETRYINT(5)\n"
        "* before\n"
        "  REASON(MQRC_Q_FULL) +\n"
        "* between\n"
        "  ACTION(RETRY)\n"
        "\n"
        "* after\n"
        "ACTION(IGNORE)"
    )

    assert written_rules(text) == {
        1: WrittenRule(3, "  REASON(MQRC_Q_FULL) +\n  ACTION(RETRY)"),
        2: WrittenRule(8, "ACTION(IGNORE)"),
    }


def test_rules_that_no_longer_parse_leave_lines_and_texts_blank(report_of: ReportOf) -> None:
    report = report_of(EndedRun([delivered()], rules="REASON(MQRC_Q_FUL) ACTION(RETRY)\n"))

    assert [(row.rule, row.line, row.text) for row in report.rules] == [(1, 0, "")]


def test_queues_with_generated_names_are_one_cause_and_one_group(report_of: ReportOf) -> None:
    letters = [exhausted(dest_q_name=f"AMQ.{number:016X}") for number in range(3)]

    report = report_of(EndedRun([*letters, exhausted(dest_q_name="AMQ.1")]))

    assert [(one.cause.dest_q_name, one.queues, one.messages) for one in report.causes] == [
        ("AMQ.*", 3, 3),
        ("AMQ.1", 1, 1),
    ]
    first, second = report.attention_groups
    assert {row.cause_id for row in first.rows} == {report.causes[0].cause.cause_id}
    assert [(one.messages, destination_in_words(one)) for one in (first, second)] == [
        (3, "AMQ.* @ QM1"),
        (1, "AMQ.1 @ QM1"),
    ]
    assert "AMQ.* @ QM1 (3 queues)" in render_text(report)
    assert "AMQ.* @ QM1 (3 queues)" in render_html(report)


def test_dead_letters_are_grouped_by_reason_and_destination_the_largest_first(
    report_of: ReportOf,
) -> None:
    letters = [exhausted(), delivered(), delivered(), bare(), delivered(dest_q_mgr_name="QM2")]

    report = report_of(EndedRun([*letters, replace(delivered(), outcome=None)]))

    first_at = START - timedelta(minutes=90) + timedelta(seconds=14)
    assert report.causes[0] == CountedCause(
        find_cause("dead_letter", Q_FULL, "PAYMENTS.IN", "QM1"),
        queues=1,
        messages=3,
        outcomes=Counter({Outcome.DELIVERED: 2}),
        first_at=first_at,
        last_at=first_at + timedelta(seconds=28),
    )
    assert [(g.cause.reason, g.cause.dest_q_mgr_name, g.messages) for g in report.causes[1:]] == [
        (PUT_INHIBITED, "QM1", 1),
        (Q_FULL, "QM2", 1),
    ]


def test_a_message_that_needs_attention_lists_its_attempts_with_their_times(
    report_of: ReportOf,
) -> None:
    report = report_of(EndedRun([delivered(), exhausted(tries=(Try(20, 2051), Try(26, 2053)))]))

    (row,) = report.attention_messages
    assert (row.browse_seq, row.outcome, row.cls) == (2, Outcome.EXHAUSTED, "dead_letter")
    assert row.cause == "MQRC_PUT_INHIBITED (2051): puts to the queue are inhibited"
    assert (row.dest_q_name, row.dest_q_mgr_name) == ("PAYMENTS.HELD", "QM1")
    assert row.msg_id == (b"AMQ QM1" + (2).to_bytes(17, "big")).hex()
    assert row.tried[1] == Tried(
        rule=2,
        line=6,
        action=Action.RETRY,
        target_q="PAYMENTS.HELD",
        target_q_mgr="",
        state=AttemptState.FAILED,
        reason=2053,
        reason_text="MQRC_Q_FULL (2053)",
        at=START + timedelta(seconds=26),
    )
    # The next step follows from the last failure, not from the reason in the MQDLH.
    assert row.next_step == (
        "check the application that reads it, or raise its MAXDEPTH; then run the handler again"
    )


@pytest.mark.parametrize(
    ("letter", "cls", "next_step"),
    [
        (
            bare(),
            MessageClass.NO_DLH,
            "find the program that put it here without MQDLH; move it with message_keys and action",
        ),
        (
            truncated(),
            MessageClass.TRUNCATED_DLH,
            "find out what truncated it; move it with message_keys and action",
        ),
    ],
)
def test_an_unprocessable_message_has_its_class_and_its_problem(
    report_of: ReportOf, letter: object, cls: MessageClass, next_step: str
) -> None:
    report = report_of(EndedRun([letter]))  # type: ignore[list-item]

    (row,) = report.attention_messages
    assert (row.cls, row.next_step, row.reason) == (cls, next_step, 0)
    assert row.why == row.problem or row.why.startswith("no MQDLH")


def test_messages_with_the_same_trouble_are_one_group(
    report_of: ReportOf,
) -> None:
    later = exhausted(tries=(Try(21, 2051), Try(27, 2051), Try(40, 2051)))

    report = report_of(EndedRun([unmatched(), exhausted(), later]))

    first, second = report.attention_groups
    assert (first.browse_seqs, second.browse_seqs) == ("2-3", "1")
    (tried,) = first.tried
    assert (tried.attempts, tried.first_at, tried.last_at) == (
        3,
        START + timedelta(seconds=20),
        START + timedelta(seconds=40),
    )


def test_a_dry_run_does_not_promise_actions_that_a_real_run_would_skip(
    report_of: ReportOf,
) -> None:
    planned = replace(delivered(), outcome=Outcome.NOT_ATTEMPTED, why=Why.DRY_RUN(), tries=())
    why = Why.WOULD_ALSO_STAY(why=Why.DRY_RUN(), also=Why.MAYBE_TRUNCATED())

    report = report_of(EndedRun([planned, replace(planned, why=why)], dry_run=True))

    assert report.headline == (
        "2 messages: 1 needs attention, 1 would be acted on. The account adds up."
    )
    assert [(row.browse_seq, row.why) for row in report.attention_messages] == [(2, why.words)]


def test_a_message_not_attempted_by_a_dry_run_needs_no_attention(report_of: ReportOf) -> None:
    planned = replace(delivered(), outcome=Outcome.NOT_ATTEMPTED, why=Why.DRY_RUN(), tries=())
    ignored = replace(left_by_rule(), outcome=Outcome.NOT_ATTEMPTED, why=Why.DRY_RUN())

    report = report_of(EndedRun([planned, planned, ignored, unmatched()], dry_run=True))

    assert report.headline == (
        "4 messages: 1 needs attention, 2 would be acted on, 1 would be left by rule."
        " The account adds up."
    )
    assert [row.browse_seq for row in report.attention_messages] == [4]


def test_a_message_not_attempted_by_a_real_run_needs_attention(report_of: ReportOf) -> None:
    report = report_of(EndedRun([replace(delivered(), outcome=Outcome.NOT_ATTEMPTED, tries=())]))

    assert [row.outcome for row in report.attention_messages] == [Outcome.NOT_ATTEMPTED]


def test_an_account_with_missing_outcomes_names_the_messages(report_of: ReportOf) -> None:
    lost = replace(delivered(), outcome=None, tries=())

    report = report_of(EndedRun([delivered(), lost, lost, delivered(), lost]))

    assert report.headline == (
        "5 messages: 2 handled, 3 without an outcome. The account does not add up."
    )
    assert report.why == "3 of 5 messages have no outcome: messages 2-3, 5"
    assert [row.browse_seq for row in report.unaccounted] == [2, 3, 5]
    assert report.verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (
            EndedRun([delivered()], last_browse=False),
            "the queue was not browsed again, so nothing is proven",
        ),
        (EndedRun([delivered()], returned=1), "1 message booked as departed is on the queue"),
        (
            EndedRun([left_by_rule(), unmatched()], seen=1),
            "2 messages booked as left on the queue, but the last browse saw 1",
        ),
        (
            EndedRun([left_by_rule()], seen=2),
            "1 message booked as left on the queue, but the last browse saw 2",
        ),
    ],
)
def test_an_account_the_queue_contradicts_does_not_add_up(
    report_of: ReportOf, run: EndedRun, why: str
) -> None:
    report = report_of(run)

    assert (report.verdict, report.why) == (Verdict.FAILED, why)
    assert "The account does not add up." in report.headline


def test_a_message_recorded_as_unknown_may_be_on_the_queue_or_not(report_of: ReportOf) -> None:
    unknown = replace(
        delivered(), outcome=Outcome.UNKNOWN, tries=(Try(20, 0, AttemptState.UNKNOWN),)
    )

    report = report_of(EndedRun([unknown, left_by_rule()], seen=1))

    assert (report.verdict, report.headline) == (
        Verdict.ATTENTION,
        "2 messages: 0 handled, 1 needs attention, 1 left by rule. The account adds up.",
    )


def test_messages_that_arrived_meanwhile_do_not_disturb_the_account(report_of: ReportOf) -> None:
    report = report_of(EndedRun([delivered()], arrived=7))

    assert report.account is not None
    assert report.account.adds_up
    assert report.account.last_browse is not None
    assert report.account.last_browse.arrived == 7


def test_the_timeline_holds_every_attempt_once(report_of: ReportOf, ledger: Ledger) -> None:
    run = EndedRun(messages_of_every_outcome())

    report = report_of(run)

    made = Counter((a.rule, a.state) for a in ledger.attempts.of_run(run.run_id))
    drawn: Counter[tuple[int, AttemptState]] = Counter()
    for point in report.timeline:
        drawn[point.rule, point.state] += point.attempts
    assert drawn == made
    assert report.attempts == Counter(a.state for a in ledger.attempts.of_run(run.run_id))
    assert len(report.timeline) < 4 * BINS


def _read_again(report_of: ReportOf, run: EndedRun, stages: dict[str, str] = ALL_WELL) -> Report:
    """Read the report of a run that is written down already."""

    class Recorded(EndedRun):
        def record(self, ledger: Ledger, lake_root: str) -> str:
            del ledger, lake_root
            return self.run_id

    return report_of(Recorded(run_id=run.run_id), stages)


def test_a_rule_whose_attempts_all_failed_is_listed_with_its_reasons(report_of: ReportOf) -> None:
    failing = forwarded(rule=3, tries=(Try(20, 2053, rule=1), Try(26, 2051, rule=1), Try(32)))
    report = report_of(EndedRun([failing, replace(failing), delivered(rule=2)]))

    (failed,) = report.failed_rules
    assert failed == FailedRule(
        rule=1,
        line=4,
        text="REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)",
        action=Action.FWD,
        target_q="PARKED.ORDERS",
        target_q_mgr="",
        messages=2,
        attempts=4,
        reasons={2053: 2, 2051: 2},
    )
    assert failed_in_words(failed) == (
        "all 4 attempts failed: MQRC_Q_FULL (2053), MQRC_PUT_INHIBITED (2051)"
    )
    assert "rule 1 (line 4) FWD to PARKED.ORDERS: all 4 attempts failed" in render_text(report)


def test_a_rule_with_an_outcome_is_not_listed_as_failed(report_of: ReportOf) -> None:
    assert report_of(EndedRun([exhausted(), delivered()])).failed_rules == ()
