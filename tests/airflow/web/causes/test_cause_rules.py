"""Test the page of a rule for a cause, over a real ledger and a real lake."""

from __future__ import annotations

import html
import re

from mqdlq.model import QueueKind
from tests.support.web.cause_pages import CAUSES, ELSEWHERE, FULL, RULES, STRAY, Pages

EXTENDED = """\
table:
  rules:
    - {extensions: {age: ">= 2h"}, action: RETRY}
    - {match: {destq: ORDERS}, action: IGNORE}
"""


def test_a_rule_is_suggested_with_its_backtest(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)

    shown = pages.words(f"{CAUSES}/{ELSEWHERE}/rule")

    assert "DESTQ(ELSEWHERE) REASON(MQRC_UNKNOWN_OBJECT_NAME) ACTION(FWD) +" in shown
    assert (
        "The new rule matches 2 messages of 7; the new table treats 2 messages differently."
        in shown
    )
    assert "no rule 2 Samples" in shown
    assert "stand at the end: no rule takes its messages today." in shown
    assert "Handle MQRC_UNKNOWN_OBJECT_NAME (2085) at ELSEWHERE @ QM1" in shown


def test_the_action_of_a_rule_that_no_table_has_leads_to_its_dry_run(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)
    found = {}
    for rule in (
        "ACTION(FWD) FWDQ(SOME.QUEUE) HEADER(NO)",
        "ACTION(DISCARD)",
        "ACTION(RETRY) RETRY(5)",
        "ACTION(FWD) FWDQ(&REPLYQ)",
    ):
        page = pages.get(f"{CAUSES}/{ELSEWHERE}/rule", rule=rule)
        (section,) = re.findall(r"Dry run of its action</h2>(.*?)</section>", page, re.DOTALL)
        found[rule] = [html.unescape(one) for one in re.findall(r'href="([^"]*)"', section)]

    act = f"/mqdlq/dags/mq_dlq_test/act?queue_manager=QM1&queue=DLQ&cause_id={ELSEWHERE}"
    assert list(found.values()) == [
        [f"{act}&action=forward&to_queue=SOME.QUEUE&header=no"],
        [f"{act}&action=discard"],
        [f"{act}&action=retry"],
        [],
    ]


def test_an_edited_rule_is_placed_before_the_rule_that_takes_its_messages(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)

    shown = pages.words(
        f"{CAUSES}/{FULL}/rule", rule="DESTQ(PAYMENTS) ACTION(DISCARD)\r\n", snapshots="1"
    )

    assert "lines 2 to 2 stand before rule 1 of today's table (line 2)" in shown
    assert "ACTION(RETRY) 3 Samples ACTION(RETRY) → ACTION(DISCARD):" in shown


def test_a_rule_with_an_error_shows_its_place(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)

    shown = pages.words(f"{CAUSES}/{FULL}/rule", rule="* one\nDESTQ(A) ACTION(FWD)")

    assert "The rule has 1 error line 2, column 10 : ACTION(FWD) needs FWDQ" in shown
    assert "Backtest" not in shown.replace("Check and backtest", "").replace("at the backtest", "")


def test_a_warning_that_the_rule_brings_is_shown(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)

    shown = pages.words(f"{CAUSES}/{FULL}/rule", rule="ACTION(DISCARD)", before="1")

    assert "The new rule brings" in shown
    assert "discards every message" in shown


def test_the_new_table_and_the_difference_are_downloaded(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)
    parameters = {"rule": "DESTQ(A) ACTION(DISCARD)", "before": "2"}

    table = pages.ask(f"{CAUSES}/{FULL}/rule.rules", parameters)
    difference = pages.ask(f"{CAUSES}/{FULL}/rule.diff", parameters)

    assert table.text == RULES.replace("* Orders", "DESTQ(A) ACTION(DISCARD)\n* Orders")
    assert table.headers["content-disposition"] == 'attachment; filename="test-new.rules"'
    assert difference.text.startswith("--- a/test.rules\n+++ b/test.rules\n@@ ")


def test_of_a_table_with_extensions_only_the_added_rules_are_offered(pages: Pages) -> None:
    pages.fill()
    pages.handle(EXTENDED, dry_run=True)
    parameters = {"rule": "DESTQ(A) ACTION(DISCARD)", "before": "2"}

    shown = pages.words(f"{CAUSES}/{FULL}/rule", 200, **parameters)
    rules = pages.ask(f"{CAUSES}/{FULL}/rule.rules", parameters)
    refused = pages.words(f"{CAUSES}/{FULL}/rule.diff", 400, **parameters)

    assert rules.text == "DESTQ(A) ACTION(DISCARD)\n"
    assert "Download the added rules ." in shown
    assert "add them to table in the handler's file test.yaml , before its rule 2." in shown
    assert "Adds to test.yaml, before rule 2:" in shown
    assert "test.rules" not in shown
    assert "The difference" not in shown
    assert "the rules of test.yaml have extensions, so there is no difference" in refused


def test_a_rejected_rule_is_not_downloaded(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)

    shown = pages.words(f"{CAUSES}/{FULL}/rule.rules", 400, rule="ACTION(")

    assert "the rules have errors, so no table has them; correct them on the page" in shown


def test_no_rule_is_suggested_for_a_backout_queue(pages: Pages) -> None:
    pages.fill()
    pages.world.mqsc("ALTER QMGR DEADQ(CLOSED)")
    rules = "INPUTQ(DLQ)\nACTION(FWD) FWDQ(PARKED)\n"
    pages.handle(rules, queue_kind=QueueKind.BACKOUT)
    no_rules = "no rules are suggested for a backout queue"

    assert "Suggest" not in pages.words(CAUSES)
    for cause in (FULL, STRAY):
        shown = pages.words(f"{CAUSES}/{cause}")
        assert no_rules in shown
        assert "Suggest" not in shown
        assert f"{no_rules}; write the rule" in pages.words(f"{CAUSES}/{cause}/rule", 400)


def test_no_rule_is_suggested_for_messages_without_an_mqdlh(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)

    shown = pages.words(f"{CAUSES}/{STRAY}/rule", 400)

    assert "no rule can match these messages (no MQDLH); act on them by their keys" in shown


def test_a_rule_that_is_too_long_is_refused(pages: Pages) -> None:
    pages.fill()
    pages.handle(dry_run=True)

    shown = pages.words(f"{CAUSES}/{FULL}/rule", 422, rule="*" * 5000)

    assert "rule: it has 5000 characters; expected at most 4000" in shown
