"""The differences between two rules tables."""

from __future__ import annotations

from mqdlq.rules import compare, parse
from mqdlq.rules.comparing import action_text
from tests.support.instruction_counts import count_instructions


def changes(old: str, new: str) -> list[tuple[str, int | None, int | None]]:
    found = compare(parse(old), parse(new)).rules
    return [
        (c.change.value, c.old.line if c.old else None, c.new.line if c.new else None)
        for c in found
    ]


def test_tables_with_the_same_meaning_have_no_differences() -> None:
    old = "WAIT(YES)\nREASON(MQRC_Q_FULL) DESTQ(a*) +\n ACTION(RETRY)\nACTION(IGNORE)\n"
    new = "* the same\naction(retry) destq(A*) reason(2053) retry(1)\nMSGTYPE(*) ACTION(IGNORE)\n"

    assert compare(parse(old), parse(new)).is_same


def test_control_data_differs_by_keyword() -> None:
    old = parse("RETRYINT(90) WAIT(NO)\nACTION(IGNORE)\n")
    new = parse("RETRYINT(30) INPUTQ(DLQ) WAIT(NO)\nACTION(IGNORE)\n")

    assert compare(old, new).control == (("INPUTQ", "", "DLQ"), ("RETRYINT", "90", "30"))
    assert not compare(old, new).is_same


def test_the_action_text_of_a_rule_omits_its_patterns() -> None:
    (rule,) = parse("REASON(2053) DESTQ(A*) ACTION(FWD) FWDQ(P) HEADER(NO)\n").rules

    assert action_text(rule) == "ACTION(FWD) FWDQ(P) HEADER(NO)"


def test_a_rule_is_added_removed_or_changed() -> None:
    old = "DESTQ(A) ACTION(RETRY)\nDESTQ(B) ACTION(DISCARD)\nACTION(IGNORE)\n"
    new = "DESTQ(A) ACTION(FWD) FWDQ(P)\nREASON(1) MSGTYPE(1) ACTION(RETRY)\nACTION(IGNORE)\n"

    assert changes(old, new) == [("changed", 1, 1), ("removed", 2, None), ("added", None, 2)]


def test_a_rule_that_keeps_most_keywords_is_changed() -> None:
    old = "DESTQ(A) REASON(1) ACTION(RETRY)\nACTION(IGNORE)\n"
    new = "DESTQ(A*) REASON(1) ACTION(RETRY)\nACTION(IGNORE)\n"

    assert changes(old, new) == [("changed", 1, 1)]


def test_only_the_rule_whose_position_changed_is_reported_as_moved() -> None:
    old = "DESTQ(A) ACTION(RETRY)\nDESTQ(B) ACTION(RETRY)\nDESTQ(C) ACTION(RETRY)\n"
    new = "DESTQ(B) ACTION(RETRY)\nDESTQ(C) ACTION(RETRY)\nDESTQ(A) ACTION(RETRY)\n"

    assert changes(old, new) == [("moved", 1, 3)]


def test_equal_rules_are_distinguished_by_their_number() -> None:
    assert changes("ACTION(RETRY)\n", "ACTION(RETRY)\nACTION(RETRY)\n") == [("added", None, 2)]


def test_differing_control_data_is_listed_with_both_values() -> None:
    found = compare(
        parse("RETRYINT(5) WAIT(NO)\nACTION(RETRY)\n"),
        parse("INPUTQ('my q') RETRYINT(10)\nACTION(RETRY)\n"),
    )

    assert found.control == (
        ("INPUTQ", "", "'my q'"),
        ("RETRYINT", "5", "10"),
        ("WAIT", "NO", ""),
    )
    assert not found.is_same


def test_frequently_repeated_rules_are_aligned_in_table_order() -> None:
    same = "DESTQ(A) ACTION(RETRY)\n" * 400
    old, new = f"DESTQ(B) ACTION(RETRY)\n{same}", f"{same}REASON(1) MSGTYPE(1) ACTION(RETRY)\n"

    assert changes(old, new) == [("removed", 1, None), ("added", None, 401)]


def test_the_steps_for_comparing_repeated_rules_are_proportional_to_their_number() -> None:
    few, many = (
        (parse("DESTQ(B) ACTION(RETRY)\n" + same), parse(same + "DESTQ(C) ACTION(RETRY)\n"))
        for same in ("DESTQ(A) ACTION(RETRY)\n" * count for count in (400, 800))
    )

    assert count_instructions(lambda: compare(*many)) < 2.5 * count_instructions(
        lambda: compare(*few)
    )


def test_each_difference_has_words_and_a_changed_rule_has_its_new_text() -> None:
    old = parse("INPUTQ(DLQ)\nREASON(2053) ACTION(RETRY)\nACTION(IGNORE)\n")
    new = parse("INPUTQ(DLQ) RETRYINT(30)\nREASON(2053) ACTION(DISCARD)\nACTION(IGNORE)\n")

    assert list(compare(old, new).in_words) == [
        ["RETRYINT: default -> 30"],
        [
            "changed, line 2 -> 2: REASON(MQRC_Q_FULL) ACTION(RETRY)",
            "REASON(MQRC_Q_FULL) ACTION(DISCARD)",
        ],
    ]
