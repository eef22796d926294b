"""For all input, however large or strange: both forms are read, formatted and converted safely."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqdlq.handlers import check as check_yaml
from mqdlq.handlers import to_table, to_yaml
from mqdlq.rules import RulesTable, check, compare, format_table, parse, print_table
from mqdlq.rules.formatting import comments
from tests.fuzz.properties import what_must_hold
from tests.property.test_rules import PIECES, tables

pytestmark = pytest.mark.slow

RULES = 30_000
"""What takes time with the square of its size takes minutes with so many."""
COMMENTS = st.lists(st.text("ab *#+-'\t\r\0ü&", max_size=100).map("*{}".format), max_size=3)
YAML_PIECES = st.sampled_from(
    [
        *("table:\n", "  control: {", "  rules:\n", "  - ", "match: {", "DESTQ: ", "REASON: "),
        *(
            "action: RETRY\n",
            "action: FWD\n",
            "fwdq: ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "'",
            '"',
            "|",
            ">",
        ),
        *("&A", "*A", "<<: ", "!!str ", "# ", "\n", "  ", "\t", "\0", "ü", "\u2028", "no", "1e3"),
    ]
)


@settings(deadline=None, max_examples=300)
@given(st.binary() | st.lists(PIECES | YAML_PIECES, max_size=60).map(lambda p: "".join(p).encode()))
def test_no_rules_text_breaks_a_property(data: bytes) -> None:
    what_must_hold(data)


@settings(deadline=None, max_examples=200)
@given(tables())
def test_a_table_comes_back_from_yaml_unchanged(table: RulesTable) -> None:
    text = print_table(table)

    assert to_table(to_yaml(text)) == text
    assert compare(parse(to_table(to_yaml(text))), table).is_same


@settings(deadline=None, max_examples=200)
@given(tables(), st.data())
def test_formatting_keeps_every_comment_with_its_entry(
    table: RulesTable, data: st.DataObject
) -> None:
    lines: list[str] = []
    for line in print_table(table).splitlines(keepends=True):
        lines += [f"{comment}\n" for comment in data.draw(COMMENTS)]
        lines.append(line)
    text = "".join(lines)
    formatted = format_table(text)

    assert parse(formatted) == table
    assert format_table(formatted) == formatted
    assert [letters(group) for group in comments(formatted)] == [
        letters(group) for group in comments(text)
    ]


def letters(group: tuple[str, ...]) -> str:
    return "".join(char for comment in group for char in comment if char in "abü")


@pytest.mark.parametrize(
    "data",
    [
        "REASON(MQRC_Q_FULL) DESTQ(PAY*) ACTION(RETRY)\n" * RULES,
        "ACTION(RETRY" * 100_000,
        "(" * 3_000_000,
        "'" * 3_000_000,
        "DESTQ(" + "*" * 10_000_000 + ") ACTION(RETRY)\n",
        "DESTQ(A) +\n" * RULES,
        "*\n" * 300_000,
        random.Random(0).randbytes(3_000_000),  # noqa: S311 - no secret
    ],
    ids=range(8),
)
def test_a_table_of_any_size_is_read(data: str | bytes) -> None:
    result = check(data)

    assert result.table is None or len(result.table.rules) in {1, RULES}


@pytest.mark.parametrize(
    "data",
    [
        "[" * 10_000_000,
        "- " * 5_000_000,
        "{a: " * 100_000,
        "a: &a [" + "*a," * 100_000 + "]",
        "table: {rules: [" + "{action: RETRY}, " * 3_000 + "]}",
    ],
    ids=range(5),
)
def test_a_yaml_file_of_any_size_is_read(data: str) -> None:
    result = check_yaml(data, "any.yaml")

    assert result.table is None or len(result.table.rules) == 3_000
