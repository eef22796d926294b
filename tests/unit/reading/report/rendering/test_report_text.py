from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from mqdlq.reading.report.building import Report
from mqdlq.reading.report.files import ReportFiles
from mqdlq.reading.report.text_report import print_report, render_text
from tests.unit.reading.report.ended_runs import (
    ALL_WELL,
    EndedRun,
    Try,
    delivered,
    exhausted,
    failed_at,
    messages_of_every_outcome,
    unmatched,
)

pytestmark = pytest.mark.stages

ReportOf = Callable[..., Report]
FilesOf = Callable[..., ReportFiles]

THE_STORY = """\
NEEDS ATTENTION  demo  SYSTEM.DEAD.LETTER.QUEUE @ QM1
62 messages: 50 handled, 9 need attention, 3 left by rule. The account adds up.

Run       demo-manual__2026-11-21T02-49-22  2026-11-21 02:49:22 UTC, 41 s, by alice in Airflow
Rules     include/rules/demo.rules  3f9a0b12c4d5
Stages    all 6 succeeded
Account   62 in the snapshot = 25 delivered + 17 forwarded + 8 discarded + 3 left by rule + 3
          unprocessable + 3 unmatched + 3 exhausted
          last browse 2026-11-21 02:50:03 UTC: 14 on the queue, 12 of this run, 2 arrived since

Needs attention  9 messages
      3 exhausted  messages 51-53
        cause MQRC_PUT_INHIBITED (2051): puts to the queue are inhibited; for PAYMENTS.HELD @ QM1
        tried RETRY to PAYMENTS.HELD by rule 2 (line 6), 3 attempts each, 02:49:42 to 02:49:54:
              MQRC_PUT_INHIBITED (2051)
        from  payments; oldest 1 h 24 min
        next  ask who inhibited puts, then set PUT(ENABLED); then run the handler again
        run   mqdlq run demo --conf '{"message_keys": [
              "c2cc2058684e0a56820624c1d2884f4dc9e08f91c9b4505c214acd6225f7d99d",
              "6934cfcb2bf3c4ae6e11f8c6d4f5171370479990bb888428e1e248c88d5505b8",
              "961a1fdfc17053908f3f0ac852b1de5ba245c5cd33329313998039b081fd901f"],
              "input_q": "SYSTEM.DEAD.LETTER.QUEUE"}'
      2 unmatched  messages 57-58
        cause MQRC_MSG_TOO_BIG_FOR_Q (2030): longer than the queue takes; for INVOICES @ QM1
        from  payments; oldest 1 h 24 min
        next  add a rule for it, or move it with message_keys and action
        run   mqdlq run demo --conf '{"message_keys": [
              "9617636aa06e7976efc6d8f657a73b1789558f08885bcd7c264a758edded1482",
              "15a50677136ce962bdd4105b9253839df63e6543c1e7ea57b8c3896ce670237b"],
              "action": "ACTION(RETRY)", "input_q": "SYSTEM.DEAD.LETTER.QUEUE"}'
      1 unmatched  message 59
        cause MQRC_UNKNOWN_REMOTE_Q_MGR (2087): no route to remote queue manager; for CLEARING.IN @
              QMEUROPE
        from  payments; oldest 1 h 23 min
        next  add a rule for it, or move it with message_keys and action
        run   mqdlq run demo --conf '{"message_keys": [
              "8acc945c70c66c118d43e4a3d16a3ca35fa5a565b395fa995e7ca10533dd7a76"],
              "action": "ACTION(RETRY)", "input_q": "SYSTEM.DEAD.LETTER.QUEUE"}'
      2 unprocessable  messages 60, 62
        why   no MQDLH, although MQMD.Format is MQDEAD
        from  payments; oldest 3 h 39 min
        next  find the program that put it here without MQDLH; move it with message_keys and action
        run   mqdlq run demo --conf '{"message_keys": [
              "d8845965412c95740bb98e90f101efb8c1a2b174fe1ce40529b1bfaab7c9bf6a",
              "8d295a5ca14a0b9aa57482fff3c6b4f9f26ee6ec28368625272d0432edcad362"],
              "action": "ACTION(FWD) FWDQ(<queue>)", "input_q": "SYSTEM.DEAD.LETTER.QUEUE"}'
      1 unprocessable  message 61
        why   MQDLH needs 172 bytes, the message has 100
        from  payments; oldest 3 h 39 min
        next  find out what truncated it; move it with message_keys and action
        run   mqdlq run demo --conf '{"message_keys": [
              "ef6926bfa26335ed1fc8b2890f2c9a958864e3d3b92c79b3cac58a5dcaf5f2e9"],
              "action": "ACTION(FWD) FWDQ(<queue>)", "input_q": "SYSTEM.DEAD.LETTER.QUEUE"}'

Rules  63 attempts, 13 failed
 messages  outcome        rule  line  action   target
       21  delivered         1     4  RETRY    PAYMENTS.IN
        4  delivered         2     6  RETRY    PAYMENTS.HELD
        3  exhausted         2     6  RETRY    PAYMENTS.HELD
       17  forwarded         3     8  FWD      PARKED.ORDERS
        8  discarded         4     9  DISCARD  -
        3  left by rule      5    10  IGNORE   -
        3  unmatched         -     -  -        -
        3  unprocessable     -     -  -        -

Causes
 messages  reason                            destination             outcomes
       21  MQRC_Q_FULL (2053)                PAYMENTS.IN @ QM1       21 delivered
       12  MQRC_UNKNOWN_OBJECT_NAME (2085)   ORDERS.EU @ QM1         12 forwarded
        8  MQRC_UNKNOWN_OBJECT_NAME (2085)   QUOTES.STALE @ QM1      8 discarded
        7  MQRC_PUT_INHIBITED (2051)         PAYMENTS.HELD @ QM1     4 delivered, 3 exhausted
        5  MQRC_UNKNOWN_OBJECT_NAME (2085)   ORDERS.US @ QM1         5 forwarded
        3  MQRC_NOT_AUTHORIZED (2035)        LEDGER.POSTINGS @ QM1   3 left by rule
        2  MQRC_MSG_TOO_BIG_FOR_Q (2030)     INVOICES @ QM1          2 unmatched
        1  MQRC_UNKNOWN_REMOTE_Q_MGR (2087)  CLEARING.IN @ QMEUROPE  1 unmatched
"""

INTERRUPTED = """\
FAILED  demo  SYSTEM.DEAD.LETTER.QUEUE @ QM1
4 messages: 1 handled, 1 needs attention, 2 without an outcome. The account does not add up. The run
failed at execute.
Why: stage execute failed: MQPUT of queue PAYMENTS.IN failed: MQRC_CONNECTION_BROKEN (2009)
[MQDLQ-100]; 2 of 4 messages have no outcome: messages 3-4; the queue was not browsed again, so
nothing is proven

Run       demo-manual__2026-11-21T02-49-22  2026-11-21 02:49:22 UTC, 40 s, by alice in Airflow
Rules     include/rules/demo.rules  3f9a0b12c4d5
Stages    sense success, snapshot success, evaluate success, approve success, execute failed, retry
          upstream_failed
Account   4 in the snapshot = 1 delivered + 1 exhausted + 2 without an outcome

Without an outcome  2 messages
      2  MQRC_Q_FULL (2053); for PAYMENTS.IN @ QM1: messages 3-4
        next: run the handler again: it settles interrupted units of work, and browses again

Needs attention  1 message
      1 exhausted  message 2
        cause MQRC_PUT_INHIBITED (2051): puts to the queue are inhibited; for PAYMENTS.HELD @ QM1
        tried RETRY to PAYMENTS.HELD by rule 2 (line 6), 3 attempts, 02:49:42 to 02:49:54:
              MQRC_PUT_INHIBITED (2051)
        from  payments; oldest 1 h 30 min
        next  ask who inhibited puts, then set PUT(ENABLED); then run the handler again
        run   mqdlq run demo --conf '{"message_keys": [
              "faa987f8726fbea14532461361ccc297573bf51b295a9965e3d826fb1eb239e5"],
              "input_q": "SYSTEM.DEAD.LETTER.QUEUE"}'

Rules  4 attempts, 3 failed
 messages  outcome    rule  line  action  target
        1  delivered     1     4  RETRY   PAYMENTS.IN
        1  exhausted     2     6  RETRY   PAYMENTS.HELD

Causes
 messages  reason                     destination          outcomes
        3  MQRC_Q_FULL (2053)         PAYMENTS.IN @ QM1    1 delivered, 2 without an outcome
        1  MQRC_PUT_INHIBITED (2051)  PAYMENTS.HELD @ QM1  1 exhausted
"""


def test_the_report_of_the_demo_fits_a_screen(files_of: FilesOf) -> None:
    files = files_of(EndedRun(messages_of_every_outcome(), arrived=2))

    assert files.text == THE_STORY


def test_the_report_of_an_interrupted_run_begins_with_its_failure(
    files_of: FilesOf,
) -> None:
    lost = replace(delivered(), outcome=None, tries=())

    files = files_of(
        EndedRun([delivered(), exhausted(), lost, lost], last_browse=False),
        failed_at("execute"),
        "MQPUT of queue PAYMENTS.IN failed: MQRC_CONNECTION_BROKEN (2009) [MQDLQ-100]",
    )

    assert files.text == INTERRUPTED


def test_a_report_of_many_findings_has_at_most_80_lines(report_of: ReportOf) -> None:
    letters = [
        unmatched(
            reason=2030 + n % 40, dest_q_name=f"A.VERY.LONG.DESTINATION.QUEUE.NAME.OF.ALL.{n}"
        )
        for n in range(300)
    ]
    more = [
        exhausted(target_q=f"HELD.{n}", target_q_mgr="QMTHATISFARAWAY", dest_q_name=f"HELD.{n}")
        for n in range(40)
    ]

    lines = render_text(report_of(EndedRun([*letters, *more]))).splitlines()

    assert len(lines) <= 80
    assert max(len(line) for line in lines) <= 100


def test_attempts_by_an_earlier_rule_are_counted_not_listed(report_of: ReportOf) -> None:
    letter = exhausted(tries=(Try(20, 2053), Try(26, 2053), Try(32, 2051)))

    text = render_text(report_of(EndedRun([letter])))

    assert "1 attempt, 02:49:54: MQRC_PUT_INHIBITED (2051); 2 attempts before" in " ".join(
        text.split()
    )


def test_a_coloured_report_has_the_same_text(report_of: ReportOf) -> None:
    report = report_of(EndedRun(messages_of_every_outcome()))
    file = StringIO()

    print_report(report, Console(file=file, width=140, force_terminal=True, no_color=True))

    shown = Text.from_ansi(file.getvalue()).plain
    assert [line.rstrip() for line in shown.splitlines()] == render_text(report).splitlines()


def test_markup_and_escapes_in_names_are_printed_as_text(report_of: ReportOf) -> None:
    hostile = unmatched(dest_q_name="[red]Q[/red]\x1b[2J\0")

    text = render_text(report_of(EndedRun([hostile]), ALL_WELL))

    assert "[red]Q[/red]\\x1b[2J\\x00 @ QM1" in text
    assert "\x1b" not in text
