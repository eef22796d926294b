"""Test that added rules get a place in a table's text and change no other line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mqdlq.lake import Snapshot
from mqdlq.rules import parse
from mqdlq.tools.rule_drafts import diff_tables, find_place, insert_rules
from tests.support.evaluation.snapshot_builders import dead_letter, take_snapshot

TABLE = """\
* Rules of the orders team
RETRYINT(30)

* Never touch messages under legal hold
APPLNAME('legal-hold*') ACTION(IGNORE)

* A full queue drains
REASON(MQRC_Q_FULL) ACTION(RETRY) +
    RETRY(3)
* Everything else
* waits for a person
ACTION(FWD) FWDQ(PARKED)
* The end
"""
ADDED = "* Quotes are useless\nDESTQ(QUOTES) ACTION(DISCARD)\n"


def snapshot(tmp_path: Path, *rows: dict[str, object], nul_as_blank: bool = False) -> Snapshot:
    messages = [dead_letter(number, **row) for number, row in enumerate(rows, start=1)]
    place = take_snapshot(str(tmp_path), messages, TABLE, nul_as_blank=nul_as_blank)
    return Snapshot.at(place)


def test_added_rules_precede_the_first_rule_that_their_messages_try_today(tmp_path: Path) -> None:
    stored = [
        snapshot(
            tmp_path,
            {"dlh_dest_q_name": "OTHER", "put_appl_name": "legal-hold-7"},
            {"dlh_dest_q_name": "QUOTES", "dlh_reason": 2085},
            {"dlh_dest_q_name": "QUOTES", "dlh_reason": 2053},
        )
    ]

    found = find_place(parse(TABLE), parse(ADDED), stored)

    # Messages under legal hold are not among those of the rule, so the hold stays before it.
    assert found is not None
    assert (found.ordinal, found.line) == (2, 8)


def test_an_ignore_for_some_of_the_messages_stays_before_added_rules(tmp_path: Path) -> None:
    held = {"dlh_dest_q_name": "QUOTES", "dlh_reason": 2053, "put_appl_name": "legal-hold-7"}
    stored = [snapshot(tmp_path, held)]

    found = find_place(parse(TABLE), parse(ADDED), stored)

    assert found is not None
    assert found.ordinal == 2


def test_an_ignore_for_all_of_the_messages_follows_added_rules(tmp_path: Path) -> None:
    stored = [snapshot(tmp_path, {"dlh_dest_q_name": "QUOTES"})]

    found = find_place(parse("DESTQ(Q*) ACTION(IGNORE)\n"), parse(ADDED), stored)

    assert found is not None
    assert found.ordinal == 1


def test_without_messages_added_rules_precede_the_first_rule_that_includes_them() -> None:
    table = parse("DESTQ(A) ACTION(IGNORE)\nDESTQ(Q*) ACTION(IGNORE)\nACTION(IGNORE)\n")

    found = find_place(table, parse(ADDED), [])

    assert found is not None
    assert found.ordinal == 2


def test_rules_that_no_other_rule_can_take_go_to_the_end(tmp_path: Path) -> None:
    stored = [snapshot(tmp_path, {"dlh_dest_q_name": "QUOTES"})]

    assert find_place(parse("DESTQ(A) ACTION(IGNORE)\n"), parse(ADDED), stored) is None


def test_names_that_end_in_nuls_find_their_place_with_nul_as_blank(tmp_path: Path) -> None:
    table = parse("DESTQ(QUOTES) ACTION(IGNORE)\nACTION(FWD) FWDQ(P)\n")
    stored = [snapshot(tmp_path, {"dlh_dest_q_name": "QUOTES\0"}, nul_as_blank=True)]
    added = parse("DESTQ(QUOTES) ACTION(DISCARD)\n")

    found = find_place(table, added, stored, nul_as_blank=True)

    assert found is not None
    assert found.ordinal == 1


def test_the_comments_above_a_rule_stay_with_it() -> None:
    table = parse(TABLE)

    result, *places = insert_rules(TABLE, ADDED, table.rules[2])

    assert result == TABLE.replace("* Everything", f"{ADDED}* Everything")
    assert places == [10, 11]


def test_the_comments_at_the_beginning_of_a_file_stay_there() -> None:
    text = "* Rules of the orders team\n* Ask before you change them\nACTION(IGNORE)\n"

    result, *_ = insert_rules(text, ADDED, parse(text).rules[0])

    assert result == (
        f"* Rules of the orders team\n* Ask before you change them\n{ADDED}ACTION(IGNORE)\n"
    )


def test_rules_at_the_end_follow_the_last_comment() -> None:
    assert insert_rules(TABLE, ADDED, None)[0] == TABLE + ADDED


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_added_lines_end_as_the_lines_of_the_table(end: str) -> None:
    text = f"* one{end}ACTION(IGNORE){end}"

    result, *_ = insert_rules(text, "DESTQ(A) ACTION(DISCARD)\r\n", parse(text).rules[0])

    assert result == f"* one{end}DESTQ(A) ACTION(DISCARD){end}ACTION(IGNORE){end}"


def test_a_table_without_a_last_line_end_gets_one() -> None:
    assert insert_rules("ACTION(IGNORE)", ADDED, None)[0] == f"ACTION(IGNORE)\n{ADDED}"


def test_other_line_separators_within_a_comment_do_not_move_the_place() -> None:
    text = "* a\u2028b\x0bc\nDESTQ(A) ACTION(IGNORE)\n\nACTION(IGNORE)\n"

    result, *_ = insert_rules(text, ADDED, parse(text).rules[1])

    assert result == text.replace("\n\nA", f"\n\n{ADDED}A")


def test_the_difference_can_be_applied(tmp_path: Path) -> None:
    (tmp_path / "orders.rules").write_text(TABLE, encoding="utf-8")
    new = insert_rules(TABLE, ADDED, parse(TABLE).rules[1])[0]

    difference = diff_tables("orders.rules", TABLE, new)

    apply = ["git", "apply", "-"]
    subprocess.run(apply, input=difference, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "orders.rules").read_text(encoding="utf-8") == new
    assert difference.startswith("--- a/orders.rules\n+++ b/orders.rules\n@@ ")
