"""Explanations: why a rule matches a message or not, and the chain of rules to try."""

from __future__ import annotations

from mqdlq.rules import explain, parse
from mqdlq.rules.table import Values

TABLE = parse(
    "REASON(MQRC_Q_FULL) DESTQ(PAY*) ACTION(RETRY)\n"
    "DESTQ(PAYMENTS) ACTION(FWD) FWDQ(PARKED)\n"
    "MSGTYPE(*) ACTION(DISCARD)\n"
    "ACTION(RETRY)\n"
)


def traced(values: Values) -> list[tuple[str, str | int, str | int]]:
    first = [trace.failures[0] for trace in explain(TABLE, values).traces if trace.failures]
    return [(one.pattern.keyword, one.pattern.value, one.actual) for one in first]


def chained(text: str, values: Values) -> list[int]:
    return [rule.line for rule in explain(parse(text), values).chain]


def test_a_trace_names_the_first_written_keyword_that_fails() -> None:
    values: Values = {"dlh_reason": 2085, "dlh_dest_q_name": "X"}

    assert traced(values) == [("REASON", 2053, 2085), ("DESTQ", "PAYMENTS", "X")]


def test_an_absent_value_is_shown_as_blank_or_zero() -> None:
    assert traced({}) == [("REASON", 2053, 0), ("DESTQ", "PAYMENTS", "")]


def test_the_chain_of_rules_ends_with_the_first_rule_that_cannot_fail() -> None:
    assert chained("ACTION(RETRY)\nACTION(DISCARD)\nACTION(RETRY)\n", {}) == [1, 2]
    assert chained("ACTION(RETRY)\nACTION(IGNORE)\nACTION(RETRY)\n", {}) == [1, 2]
    assert chained("ACTION(RETRY)\nREASON(1) ACTION(IGNORE)\nACTION(RETRY)\n", {}) == [1, 3]


def test_rules_after_the_end_of_the_chain_are_traced_too() -> None:
    assert [trace.rule.line for trace in explain(TABLE, {}).traces] == [1, 2, 3, 4]


def test_a_trace_reports_a_name_that_fails_only_because_of_nuls() -> None:
    explanation = explain(TABLE, {"dlh_dest_q_name": "PAYMENTS\0\0"})

    assert [[one.only_nuls for one in trace.failures] for trace in explanation.traces] == [
        [False],
        [True],
        [],
        [],
    ]


def test_the_nearest_rule_is_the_first_with_the_fewest_failing_keywords() -> None:
    table = parse(
        "REASON(1) DESTQ(X) ACTION(RETRY)\n"
        "REASON(1) DESTQ(A) ACTION(RETRY)\n"
        "REASON(2) DESTQ(X) ACTION(RETRY)\n"
    )

    nearest = explain(table, {"dlh_reason": 2, "dlh_dest_q_name": "A"}).nearest

    assert nearest
    assert nearest.rule.line == 2
    assert [failure.pattern.keyword for failure in nearest.failures] == ["REASON"]


def test_a_message_that_a_rule_matches_has_no_nearest_rule() -> None:
    assert explain(TABLE, {}).nearest is None
