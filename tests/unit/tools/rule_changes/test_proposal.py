"""Test that rules added to a table are checked with the whole table."""

from __future__ import annotations

import pytest

from mqdlq.rules import RulesError, parse
from mqdlq.tools.rule_drafts import Proposal, TableInUse, propose

TEXT = """\
INPUTQ(DLQ)
* Quotes
DESTQ(QUOTES*) ACTION(IGNORE)
ACTION(FWD) FWDQ(PARKED)
"""


def in_use(text: str = TEXT) -> TableInUse:
    return TableInUse("orders.rules", text, parse(text), "QM1", "DLQ")


def proposal(added: str, before: int | None = None, text: str = TEXT) -> Proposal:
    return propose(in_use(text), added, [], before=before)


def rejected(added: str) -> list[tuple[int, int, str]]:
    with pytest.raises(RulesError) as caught:
        propose(in_use(), added, [])
    return [(one.line, one.column, one.message) for one in caught.value.diagnostics]


def test_the_whole_table_is_proposed_with_the_lines_of_the_added_rules() -> None:
    found = proposal("* Old\nDESTQ(QUOTES.OLD) ACTION(DISCARD)\n")

    assert found.text == TEXT.replace(
        "* Quotes", "* Old\nDESTQ(QUOTES.OLD) ACTION(DISCARD)\n* Quotes"
    )
    assert (found.first, found.last) == (2, 3)
    assert found.before is not None
    assert found.before.line == 3
    assert found.table == parse(found.text)
    assert found.diff == (
        "--- a/orders.rules\n+++ b/orders.rules\n@@ -1,4 +1,6 @@\n INPUTQ(DLQ)\n"
        "+* Old\n+DESTQ(QUOTES.OLD) ACTION(DISCARD)\n"
        " * Quotes\n DESTQ(QUOTES*) ACTION(IGNORE)\n ACTION(FWD) FWDQ(PARKED)\n"
    )


def test_a_person_may_choose_the_place() -> None:
    assert proposal("DESTQ(A) ACTION(IGNORE)", before=2).first == 4
    assert proposal("DESTQ(A) ACTION(IGNORE)", before=0).first == 5


def test_the_text_of_a_form_has_other_line_ends() -> None:
    found = proposal("* one\r\nDESTQ(A) ACTION(DISCARD)\r\n\r\n", before=2)

    assert "\r" not in found.text
    assert (found.first, found.last) == (4, 5)


def test_an_error_names_the_line_and_column_of_the_added_text() -> None:
    assert rejected("* one\nDESTQ(A) ACTION(FWD)") == [
        (2, 10, "ACTION(FWD) needs FWDQ, the queue to forward to")
    ]


def test_a_text_without_a_rule_is_rejected() -> None:
    assert [message for _, _, message in rejected("* nothing")] == ["the table has no rule"]


def test_control_data_among_added_rules_is_an_error_in_the_added_text() -> None:
    errors = rejected("RETRYINT(5)\nDESTQ(A) ACTION(IGNORE)")

    assert [(line, column) for line, column, _ in errors] == [(1, 1)]


def test_only_findings_that_the_rules_bring_are_new() -> None:
    found = proposal("DESTQ(Q*) ACTION(DISCARD)\n", before=1)

    assert [(one.code, one.line) for one in found.new_findings] == [("shadowed-rule", 4)]
    assert found.old_findings == ()


def test_findings_of_todays_table_are_not_new() -> None:
    text = "DESTQ(A) ACTION(DISCARD)\nDESTQ(A) ACTION(IGNORE)\n"

    found = proposal("DESTQ(B) ACTION(IGNORE)", before=1, text=text)

    assert found.new_findings == ()
    assert [one.code for one in found.old_findings] == ["shadowed-rule", "no-catch-all"]


def test_a_rule_that_forwards_to_the_queue_it_reads_is_found() -> None:
    found = proposal("DESTQ(A) ACTION(FWD) FWDQ(DLQ)")

    assert "forward-to-input-queue" in [one.code for one in found.new_findings]


def test_a_catch_all_that_was_missing_before_is_not_a_new_finding() -> None:
    text = "DESTQ(A) ACTION(IGNORE)\n"

    found = proposal("DESTQ(B) ACTION(IGNORE)", before=0, text=text)

    assert found.new_findings == ()
    assert [one.code for one in found.old_findings] == ["no-catch-all"]
