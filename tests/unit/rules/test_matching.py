"""Matching: the rules of a message, and the column of each keyword."""

from __future__ import annotations

import pytest

from mqdlq.rules import Rule, matches, matching_rules, parse, with_nuls_as_blanks
from mqdlq.rules.table import Values

TABLE = """\
REASON(MQRC_Q_FULL) DESTQ(PAY*) ACTION(RETRY)
DESTQ(PAYMENTS) ACTION(FWD) FWDQ(PARKED)
MSGTYPE(MQMT_REPLY) ACTION(DISCARD)
ACTION(IGNORE)
"""


def rule(patterns: str) -> Rule:
    return parse(f"{patterns} ACTION(RETRY)\n").rules[0]


def test_matching_rules_are_returned_in_table_order() -> None:
    values: Values = {"dlh_reason": 2053, "dlh_dest_q_name": "PAYMENTS", "msg_type": 8}

    assert [r.ordinal for r in matching_rules(parse(TABLE), values)] == [1, 2, 4]


def test_an_absent_value_matches_like_a_field_of_blanks_or_zero() -> None:
    assert matches(rule("DESTQ(' ') REASON(0)"), {})
    assert matches(rule("DESTQ(' ') REASON(0)"), {"dlh_dest_q_name": None, "dlh_reason": None})
    assert not matches(rule("DESTQ(?*)"), {})


def test_a_pattern_of_a_single_asterisk_matches_every_message() -> None:
    assert rule("DESTQ(*) REASON(*) USERID('*')").patterns == ()


@pytest.mark.parametrize(
    ("pattern", "column", "value"),
    [
        ("APPLIDAT(A)", "appl_identity_data", "A"),
        ("APPLNAME(A)", "put_appl_name", "A"),
        ("APPLTYPE(MQAT_UNIX)", "put_appl_type", 6),
        ("DESTQ(A)", "dlh_dest_q_name", "A"),
        ("DESTQM(A)", "dlh_dest_q_mgr_name", "A"),
        ("FEEDBACK(MQFB_COA)", "feedback", 259),
        ("FORMAT(A)", "dlh_format", "A"),
        ("MSGTYPE(MQMT_REPORT)", "msg_type", 4),
        ("PERSIST(MQPER_PERSISTENT)", "persistence", 1),
        ("REASON(MQRC_Q_FULL)", "dlh_reason", 2053),
        ("REPLYQ(A)", "reply_to_q", "A"),
        ("REPLYQM(A)", "reply_to_q_mgr", "A"),
        ("USERID(A)", "user_identifier", "A"),
    ],
)
def test_each_keyword_is_compared_with_its_column(
    pattern: str, column: str, value: str | int
) -> None:
    table = parse(f"{pattern} ACTION(RETRY)\n")

    assert table.columns == (column,)
    assert matches(table.rules[0], {column: value})
    assert not matches(table.rules[0], {})


def test_feedback_is_compared_for_every_message_type() -> None:
    assert matches(rule("FEEDBACK(259)"), {"feedback": 259, "msg_type": 8})


def test_a_nul_is_compared_as_a_blank_only_with_nul_as_blank() -> None:
    values: Values = {
        "dlh_dest_q_name": "MY.QUEUE\0\0",
        "dlh_reason": 2053,
        "reply_to_q": None,
    }

    assert not matches(rule("DESTQ(MY.QUEUE)"), values)
    assert matches(rule("DESTQ(MY.QUEUE) REASON(2053) REPLYQ(' ')"), with_nuls_as_blanks(values))


def test_with_nul_as_blank_only_trailing_blanks_and_nuls_are_removed() -> None:
    values = {"a": " AX \0 ", "b": "X\t\0", "c": 3, "d": None}

    assert with_nuls_as_blanks(values) == {"a": " AX", "b": "X\t", "c": 3, "d": None}
