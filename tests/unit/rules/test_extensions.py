"""Extensions: patterns of mqdlq's own, such as the age of a message."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mqdlq.headers import chain
from mqdlq.reading.explanations import explanation_as_json, explanation_as_text
from mqdlq.rules import (
    RulesError,
    compare,
    explain,
    find_unstored,
    freeze,
    parse,
    print_table,
    table_with,
    treatment_changes,
)
from mqdlq.rules.extensions import HEADER_NAMES
from mqdlq.rules.lint import lint
from tests.unit.rules.extended_tables import LETTER, NOON, error, frozen, matches


@pytest.mark.parametrize(
    ("condition", "does"),
    [
        ("AGE('>= 2h')", True),
        ("AGE('> 7200s')", False),
        ("AGE('<= 120min')", True),
        ("AGE('< 1d')", True),
        ("EXPIRES_IN('<= 600s')", True),
        ("EXPIRES_IN('< 10min')", False),
        ("EXPIRES_IN('never')", False),
        ("LENGTH('>= 1MB')", True),
        ("LENGTH('> 1000000')", False),
        ("LENGTH('< 1MiB')", True),
        ("ATTEMPTS('>= 3')", True),
        ("ATTEMPTS('>3')", False),
        ("ATTEMPTS('< 4')", True),
        ("PROPERTY('orderType=REFUND**')", True),
        ("PROPERTY('usr.amount > 100.00')", True),
        ("PROPERTY('usr.orderType = REFUND')", False),
        ("PROPERTY('usr.orderType = SALE')", False),
        ("HEADER_CHAIN('MQDLH MQRFH2')", True),
        ("HEADER_CHAIN('MQDLH MQRFH*')", True),
        ("HEADER_CHAIN('*MQRFH2*')", True),
        ("HEADER_CHAIN('MQDLH')", False),
    ],
)
def test_a_condition_compares_the_value_of_the_snapshot(condition: str, does: bool) -> None:
    assert matches(condition) is does


def test_a_message_without_expiry_matches_never_only() -> None:
    unlimited = {"expiry": -1, "expires_at": None}

    assert matches("EXPIRES_IN('NEVER')", **unlimited)
    assert not matches("EXPIRES_IN('> 1s')", **unlimited)


@pytest.mark.parametrize(
    ("condition", "column"),
    [
        ("AGE('< 1d')", "dead_lettered_at"),
        ("AGE('< 1d')", "browsed_at"),
        ("EXPIRES_IN('< 1d')", "expires_at"),
        ("EXPIRES_IN('< 1d')", "browsed_at"),
        ("LENGTH('>= 0')", "total_length"),
        ("ATTEMPTS('>= 0')", "attempts_made"),
        ("PROPERTY('usr.amount > 100')", "properties_met"),
        ("HEADER_CHAIN('MQ*')", "header_chain"),
        ("HEADER_CHAIN('MQ*')", "chain_is_whole"),
    ],
)
def test_no_extension_matches_an_unknown_value(condition: str, column: str) -> None:
    assert matches(condition)
    assert not matches(condition, **{column: None})


def test_a_chain_that_ends_at_an_unreadable_header_matches_nothing() -> None:
    assert not matches("HEADER_CHAIN('MQDLH*')", chain_is_whole=False)


def test_equal_conditions_have_one_form_and_one_digest() -> None:
    written = frozen("LENGTH('>1024') AGE('>=120MIN')", "HEADER_CHAIN('mqdlh  mqrfh2 ')")

    assert freeze(written) == (
        "AGE('>= 2h') LENGTH('> 1KiB') ACTION(IGNORE)\n"
        "HEADER_CHAIN('MQDLH MQRFH2') ACTION(IGNORE)\n"
    )
    assert parse(freeze(written), frozen=True) == written
    other = frozen("LENGTH('> 1kB') AGE('>= 2h')", "HEADER_CHAIN('MQDLH MQRFH2')")
    assert other.digest != written.digest
    assert [change.change for change in compare(written, other).rules] == ["changed"]


@pytest.mark.parametrize(
    ("written", "shown"), [("0h", "0s"), ("90min", "90min"), ("24h", "1d"), ("61s", "61s")]
)
def test_a_time_is_printed_in_the_largest_unit_without_a_fraction(written: str, shown: str) -> None:
    assert freeze(frozen(f"AGE('< {written}')")) == f"AGE('< {shown}') ACTION(IGNORE)\n"


def test_conditions_on_time_and_attempts_change_the_treatment_of_a_message() -> None:
    steady = frozen("LENGTH('< 1') HEADER_CHAIN('MQDLH')", "REASON(2053)")

    assert treatment_changes(freeze(frozen("AGE('< 1d')")))
    assert treatment_changes(freeze(frozen("EXPIRES_IN('never')")))
    assert treatment_changes(freeze(frozen("ATTEMPTS('> 1')")))
    assert not treatment_changes(freeze(steady))


def test_a_frozen_table_is_parsed_only_if_it_can_have_the_extension() -> None:
    text = freeze(frozen("ATTEMPTS('> 1')"))

    assert table_with(text, "ATTEMPTS") == frozen("ATTEMPTS('> 1')")
    assert table_with("* ATTEMPTS(no)\nACTION(IGNORE)\n", "ATTEMPTS") is None
    assert table_with("not parsed", "ATTEMPTS") is None
    assert treatment_changes(text)
    assert not treatment_changes("ACTION(IGNORE)\n")


def test_a_snapshot_has_only_what_its_own_rules_compare() -> None:
    wanted = freeze(frozen("ATTEMPTS('> 1')", "PROPERTY('a = B')", "PROPERTY('c > 1') AGE('< 1d')"))
    partly = freeze(frozen("ATTEMPTS('< 9')", "PROPERTY('a = B')"))

    assert find_unstored(wanted, [wanted, wanted]) == []
    assert find_unstored(wanted, [wanted, partly]) == ["property usr.c > 1"]
    assert find_unstored(wanted, [partly, "ACTION(IGNORE)\n"]) == [
        "attempts",
        "property usr.a = B",
        "property usr.c > 1",
    ]
    assert find_unstored("ACTION(IGNORE)\n", ["ACTION(IGNORE)\n"]) == []


def test_a_table_names_the_columns_that_its_extensions_follow_from() -> None:
    table = frozen("AGE('< 1d') REASON(2053)", "HEADER_CHAIN('MQDLH')")

    assert table.columns == (
        "browsed_at",
        "chain_is_whole",
        "dead_lettered_at",
        "dlh_reason",
        "header_chain",
    )


def test_messages_of_different_ages_have_one_key_if_no_condition_tells_them_apart() -> None:
    table = frozen("AGE('< 1h')", "AGE('> 1d')")
    ages = [timedelta(minutes=m) for m in (1, 2, 60, 61, 500, 1440, 1441, 9999)]

    keys = [table.key_of({**LETTER, "dead_lettered_at": NOON - age}) for age in ages]

    assert keys == [(3599,), (3599,), (3600,), (3601,), (3601,), (86400,), (86401,), (86401,)]


def test_messages_with_any_expiry_have_one_key_if_a_rule_asks_for_none_only() -> None:
    table = frozen("EXPIRES_IN('never')", "HEADER_CHAIN('MQDLH')", "REASON(2053)")
    unlimited = {"expiry": -1, "expires_at": None}
    soon = {"expires_at": NOON + timedelta(seconds=1)}

    first, second, third = (
        table.key_of({**LETTER, "dlh_reason": 2053, **columns}) for columns in ({}, soon, unlimited)
    )

    assert first == second
    assert first != third
    assert {2053, "MQDLH MQRFH2"} < set(first)


def test_a_message_without_expiry_is_shown_as_never_expiring() -> None:
    unlimited = {"expiry": -1, "expires_at": None}
    (trace,) = explain(frozen("EXPIRES_IN('< 1h')"), LETTER | unlimited).traces

    assert trace.failures[0].actual == "never"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (
            "AGE('2 hours')",
            (
                "1:5: AGE takes a comparison with a time such as '>= 2h' (s, min, h or d), found"
                " '2 hours'"
            ),
        ),
        (
            "AGE('> 2')",
            "1:5: AGE takes a comparison with a time such as '>= 2h' (s, min, h or d), found '> 2'",
        ),
        (
            "AGE('> 1000000000s')",
            "1:5: AGE takes a number from 0 to 999999999, found 1000000000",
        ),
        (
            "EXPIRES_IN(SOON)",
            (
                "1:12: EXPIRES_IN takes a comparison with a time such as '>= 2h' (s, min, h or d),"
                " or 'never', found 'SOON'"
            ),
        ),
        (
            "LENGTH('> 1TB')",
            (
                "1:8: LENGTH takes a comparison with a number of bytes such as '> 1MB' (B, kB, KiB,"
                " MB, MiB, GB or GiB), found '> 1TB'"
            ),
        ),
        (
            "HEADER_CHAIN('*')",
            "1:14: HEADER_CHAIN takes the names of headers such as 'MQDLH MQRFH2*', found '*'",
        ),
        (
            "HEADER_CHAIN(MQRFH2)",
            (
                "1:14: HEADER_CHAIN begins with MQDLH, as the chain of every dead letter does:"
                " 'MQDLH MQRFH2*'; found 'MQRFH2'"
            ),
        ),
        (
            "HEADER_CHAIN('MQDLH RFH2')",
            (
                "1:14: HEADER_CHAIN takes the names MQDLH, MQXQH, MQMDE, MQRFH, MQRFH2, MQCIH,"
                " MQIIH, MQTM and PDMQ, found 'RFH2'"
            ),
        ),
    ],
)
def test_an_invalid_condition_is_an_error(condition: str, expected: str) -> None:
    assert error(f"{condition} ACTION(IGNORE)\n") == f"<rules>:{expected}"


def test_a_chain_has_the_names_of_all_headers_that_are_read() -> None:
    read = set(chain.HEADER_OF_FORMAT.values())

    assert {"MQDLH", "PDMQ", *read} == set(HEADER_NAMES)


def test_an_extension_in_runmqdlqs_syntax_is_an_error() -> None:
    assert error("AGE('>= 2h') ACTION(IGNORE)\n", is_frozen=False) == (
        "<rules>:1:1: AGE is an extension of mqdlq, which no table of runmqdlq has; write the rule"
        " in YAML, with 'age:' under 'extensions:'"
    )


def test_a_table_with_extensions_cannot_be_printed_for_runmqdlq() -> None:
    table = frozen("REASON(2053)", "AGE('>= 2h')", "AGE('< 1h') LENGTH('< 1')")

    with pytest.raises(RulesError) as raised:
        print_table(table, "t.yaml")

    assert str(raised.value) == (
        "t.yaml:2:1: rule 2 has the extension age, which no table of runmqdlq has; keep the table"
        " in YAML\n"
        "t.yaml:3:1: rule 3 has the extensions age and length, which no table of runmqdlq has; keep"
        " the table in YAML"
    )


def test_an_explanation_shows_the_value_or_why_it_is_unknown() -> None:
    table = frozen("AGE('> 1d')", "EXPIRES_IN('never')", "HEADER_CHAIN('MQDLH')", "LENGTH('< 1')")

    shown = explanation_as_text("message 1", table, explain(table, LETTER))
    unknown = explanation_as_text("message 1", table, explain(table, {}))

    assert shown.splitlines()[1:5] == [
        "  line 1: AGE expects > 1d, the age on the queue is 2h",
        "  line 2: EXPIRES_IN expects never, the remaining expiry is 10min",
        "  line 3: HEADER_CHAIN expects MQDLH, the chain of headers is MQDLH MQRFH2",
        "  line 4: LENGTH expects < 1B, the length of the original message is 1000000B",
    ]
    assert unknown.splitlines()[1:5] == [
        (
            "  line 1: AGE expects > 1d, the age on the queue is unknown (the MQDLH has no valid"
            " PutDate and PutTime, or the snapshot has no browsed_at)"
        ),
        (
            "  line 2: EXPIRES_IN expects never, the remaining expiry is unknown (the snapshot has"
            " no expires_at or browsed_at)"
        ),
        (
            "  line 3: HEADER_CHAIN expects MQDLH, the chain of headers is unknown (a header"
            " cannot be read, or the snapshot has no chain_is_whole)"
        ),
        (
            "  line 4: LENGTH expects < 1B, the length of the original message is unknown (the"
            " snapshot has no total_length)"
        ),
    ]
    assert explanation_as_json(explain(frozen("AGE('> 1d')"), LETTER))["trace"] == [
        {"line": 1, "matched": False, "keyword": "AGE", "expected": "> 1d", "actual": "2h"}
    ]


@pytest.mark.parametrize(
    ("age", "shown"),
    [
        (timedelta(days=1, hours=2, seconds=5), "1d 2h 5s"),
        (timedelta(0), "0s"),
        (timedelta(seconds=-90), "-1min 30s"),
    ],
)
def test_a_time_is_shown_in_days_hours_minutes_and_seconds(age: timedelta, shown: str) -> None:
    (trace,) = explain(frozen("AGE('> 9d')"), LETTER | {"dead_lettered_at": NOON - age}).traces

    assert trace.failures[0].actual == shown


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        ("AGE('> 1h')", "REASON(2053)", ["no-catch-all"]),
        ("AGE('> 1h')", "AGE('> 2h')", ["no-catch-all"]),
        ("HEADER_CHAIN('MQDLH*')", "HEADER_CHAIN('MQDLH')", ["no-catch-all"]),
        ("AGE('> 1h')", "AGE('> 1h') REASON(2053)", ["no-catch-all", "shadowed-rule"]),
    ],
)
def test_a_rule_with_an_extension_shadows_only_rules_with_the_same_extension(
    first: str, second: str, codes: list[str]
) -> None:
    assert sorted(found.code for found in lint(frozen(first, second))) == codes
