"""The formatter: canonical entries, and comments in their places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqdlq.rules import RulesError, format_table, parse, print_table
from mqdlq.rules.formatting import comments

CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "rules" / "valid").glob("*.rules"))


def words(text: str | bytes) -> list[str]:
    return re.findall(r"\w+", " ".join(comment for group in comments(text) for comment in group))


def test_formatting_prints_entries_canonically_and_keeps_comments_in_place() -> None:
    table = (
        "\n"
        "* The demo\n"
        "\n\n\n"
        "wait(yes) retryint(5)\n"
        "  * full queues\n"
        "reason(2053) destq(a*) +\n"
        "* three times\n"
        "\n"
        "  action(retry) retry(3)\n"
        "\t\n"
        "*the rest   \n"
        "msgtype(*) action(ignore)\n"
        "* the end\n"
        "\n"
    )

    assert format_table(table) == (
        "* The demo\n"
        "\n"
        "RETRYINT(5)\n"
        "* full queues\n"
        "* three times\n"
        "DESTQ(A*) REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(3)\n"
        "\n"
        "*the rest\n"
        "ACTION(IGNORE)\n"
        "* the end\n"
    )


def test_formatting_removes_default_control_data_and_keeps_its_comment() -> None:
    assert format_table("* forever\nWAIT(YES)\nACTION(RETRY)") == "* forever\nACTION(RETRY)\n"


def test_formatting_refills_a_long_comment_at_its_blanks() -> None:
    comment = "* " + "twelve words " * 12

    assert format_table(f"{comment}\nACTION(RETRY)\n") == (
        "* twelve words twelve words twelve words twelve words twelve words\n"
        "* twelve words twelve words twelve words twelve words twelve words\n"
        "* twelve words twelve words\n"
        "ACTION(RETRY)\n"
    )


def test_formatting_splits_a_word_that_is_longer_than_a_line() -> None:
    lines = format_table(f"* see {'x' * 150} there\nACTION(RETRY)\n").splitlines()

    assert lines == [
        "* see",
        f"* {'x' * 70}",
        f"* {'x' * 70}",
        "* xxxxxxxxxx there",
        "ACTION(RETRY)",
    ]


@pytest.mark.parametrize(
    ("comment", "shortened"),
    [
        ("*" * 80, "*" * 72),
        ("* " + "-" * 78, "* " + "-" * 70),
        ("* Payments" + " " * 68 + "*", "* Payments" + " " * 61 + "*"),
    ],
)
def test_formatting_shortens_a_decorative_row_of_characters(comment: str, shortened: str) -> None:
    assert format_table(f"{comment}\nACTION(RETRY)\n") == f"{shortened}\nACTION(RETRY)\n"


def test_formatting_removes_carriage_returns_and_a_byte_order_mark() -> None:
    table = b"\xef\xbb\xbf* one\r\r\nACTION(RETRY)\r\n"

    assert format_table(table) == "* one\nACTION(RETRY)\n"


def test_a_word_that_ends_in_a_carriage_return_does_not_end_a_line_with_it() -> None:
    text = format_table(f"* one\r {'x' * 70}\nACTION(RETRY)\n")

    assert text == f"* one\n* {'x' * 70}\nACTION(RETRY)\n"
    assert format_table(text) == text


def test_formatting_keeps_bytes_of_a_comment_that_are_not_utf8() -> None:
    table = b"* caf\xe9\nACTION(RETRY)\n"

    assert format_table(table).encode("utf-8", "surrogateescape") == table


def test_formatting_rejects_an_invalid_table_with_all_its_errors() -> None:
    with pytest.raises(RulesError) as caught:
        format_table("ACTION(FWD)\nACTION(GO)\n", "a.rules")

    assert str(caught.value) == (
        "a.rules:1:1: ACTION(FWD) needs FWDQ, the queue to forward to\n"
        "    ACTION(FWD)\n"
        "    ~~~~~^\n"
        "a.rules:2:8: ACTION takes DISCARD, IGNORE, RETRY or FWD, found 'GO'\n"
        "    ACTION(GO)\n"
        "           ~^"
    )


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_formatting_keeps_meaning_and_comments_of_every_table_of_the_corpus(path: Path) -> None:
    table = path.read_bytes()
    text = format_table(table)

    assert parse(text) == parse(table)
    assert parse(text).digest == parse(table).digest
    assert format_table(text) == text
    assert max(map(len, text.split("\n"))) <= 72
    assert words(text) == words(table)


def test_a_table_without_comments_is_formatted_like_its_canonical_print() -> None:
    table = "destq(b) +\n action(retry)\ndestq(a) action(retry)\n"

    assert format_table(table) == print_table(parse(table))
