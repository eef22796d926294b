"""A table is rejected as a whole, with every error; only RulesError is raised."""

from __future__ import annotations

import time

import pytest

from mqdlq.errors import MqDlqError
from mqdlq.rules import RulesError, Severity, check, parse
from tests.support.instruction_counts import count_instructions

BAD = "* comment\nREASON(MQRC_Q_FUL) ACTION(RETRY)\nACTION(FWD)\tFWDQM(A)\n"


def test_the_text_of_a_rules_error_has_all_errors_of_the_table() -> None:
    with pytest.raises(RulesError) as caught:
        parse(BAD, "bad.rules")

    assert isinstance(caught.value, MqDlqError)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value) == (
        "bad.rules:2:8: unknown symbolic name MQRC_Q_FUL; did you mean MQRC_Q_FULL (2053)?\n"
        "    REASON(MQRC_Q_FUL) ACTION(RETRY)\n"
        "           ~~~~~~~~~^\n"
        "bad.rules:3:1: ACTION(FWD) needs FWDQ, the queue to forward to\n"
        "    ACTION(FWD) FWDQM(A)\n"
        "    ~~~~~^"
    )
    assert [d.code for d in caught.value.diagnostics] == ["unknown-name", "missing-fwdq", "tab"]


def test_a_table_with_one_error_is_rejected() -> None:
    result = check("ACTION(RETRY)\n" * 50 + "ACTION(FWD)\n")

    assert result.table is None
    assert (dict(result.control), result.rules) == ({}, ())


def test_a_table_with_warnings_is_accepted() -> None:
    result = check("ACTION(IGNORE) RETRY(5)")

    assert result.table is not None
    assert [d.severity for d in result.diagnostics] == [Severity.WARNING] * 2


def test_a_diagnostic_has_its_place_within_continued_lines() -> None:
    [found] = check("REASON(2053) +\n   ACT-\nION(RETRY) RET+\n    RY(0)\n").diagnostics

    assert (found.line, found.column, found.source) == (4, 8, "    RY(0)")


def test_the_bytes_of_a_table_are_decoded_as_utf_8() -> None:
    table = parse("APPLNAME('Zürich') ACTION(RETRY)\n".encode())

    assert table.rules[0].patterns[0].value == "Zürich"


def test_a_diagnostic_of_a_very_long_line_shows_only_the_faulty_part() -> None:
    text = str(check("ACTION(RETRY)" + " " * 1_000_000 + "RETRY(0)\n", "x").diagnostics[1])

    assert text == (
        "x:1:1000020: RETRY takes a number from 1 to 999999999, found 0\n"
        f"    {' ' * 44}RETRY(0)\n"
        f"    {' ' * 50}^"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "A\n" * 500_000,
        "+\n" * 100_000,
        "'" * 1_000_000,
        "(" * 200_000,
        "A " * 100_000,
        "DESTQ(" + "A(" * 100_000,
        "DESTQ('" + "A''" * 300_000,
        "DESTQ('A-\n" * 50_000,
        "REASON(1)" * 50_000,
        "=" * 1_000_000,
        "\0" * 1_000_000,
        "REASON(" + "9" * 1_000_000 + ")",
    ],
    ids=lambda text: repr(text[:10]),
)
def test_very_long_input_is_rejected_in_bounded_time(text: str) -> None:
    start = time.process_time()

    assert check(text).table is None
    assert time.process_time() - start < 20


def test_parsing_twice_as_many_rules_takes_twice_the_work() -> None:
    once, twice = (
        "".join(
            f"REASON(MQRC_Q_FULL) DESTQ('Queue.{number}.*') ACTION(FWD) FWDQ(PARKED.{number})\n"
            for number in range(count)
        )
        for count in (100, 200)
    )

    assert len(parse(twice).rules) == 200
    assert count_instructions(lambda: parse(twice)) < 2.1 * count_instructions(lambda: parse(once))


def test_a_long_word_is_not_compared_with_every_symbolic_name() -> None:
    found = [
        check(f"REASON(MQRC_Q_FUL{'L' * count}) ACTION(RETRY)\n").diagnostics[0].message
        for count in (2, 60)
    ]

    assert ["did you mean" in message for message in found] == [True, False]
