"""The extension PROPERTY: conditions on message properties."""

from __future__ import annotations

import time

import pytest

from mqdlq.reading.explanations import explanation_as_text
from mqdlq.rules import explain, freeze, parse
from mqdlq.rules.extensions import read_condition
from tests.unit.rules.extended_tables import LETTER, error, frozen


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (
            "usr.orderType",
            (
                "takes a comparison of a property such as 'usr.orderType = REFUND*' or 'usr.amount"
                " > 100', found 'usr.orderType'"
            ),
        ),
        (
            "order-type = A",
            (
                "takes the name of a property in letters, digits, _ and $, with its folder such as"
                " usr.orderType, found 'order-type'"
            ),
        ),
        (
            "Root.MQMD.Priority > 3",
            (
                "compares message properties, not fields of the MQMD; 'Root.MQMD.Priority' is a"
                " field, for which 'match:' has patterns"
            ),
        ),
        ("a =", "takes text after '=', with wildcards such as 'a = REFUND*', found nothing"),
        (
            "a == REFUND",
            (
                "takes one '=', such as 'a = REFUND*', found '== REFUND'; for text that begins with"
                " '=' write 'a = ?…'"
            ),
        ),
        (
            "a" * 4092 + " = b",
            (
                "takes the name of a property with at most 4,095 characters, folder included, found"
                " 4,096"
            ),
        ),
        ("a <= 1e4", "takes a number after '<=', such as 'a <= 100', found '1e4'"),
    ],
)
def test_an_invalid_condition_on_a_property_is_an_error(condition: str, expected: str) -> None:
    found = error(f"PROPERTY('{condition}') ACTION(IGNORE)\n")

    assert found == f"<rules>:1:10: PROPERTY {expected}"


def test_a_table_knows_its_conditions_on_properties() -> None:
    table = frozen(
        "PROPERTY('b > -0.50')", "PROPERTY('jms.Dst = queue:*')", "PROPERTY('usr.b>-0.5 ')"
    )

    assert [str(one) for one in table.property_conditions] == [
        "jms.Dst = queue:*",
        "usr.b > -0.5",
    ]
    assert parse(freeze(table), frozen=True) == table


@pytest.mark.parametrize(
    ("condition", "value", "is_met"),
    [
        ("a = RE?UND*", "REFUND", True),
        ("a = REFUND", "REFUND  ", True),
        ("a = REFUND", "refund", False),
        ("a = ?*", "  ", False),
        ("a = *?", " x ", True),
        ("a = A?", "A ", False),
        ("a = *", "", True),
        ("a >= 1", "1.0", True),
        ("a > 1", "1.0000000000000000000000000000000001", True),
        ("a < 5", " -2.5E1 ", True),
        ("a < 5", "four", False),
        ("a < 5", "", False),
        ("a < 5", "NaN", False),
    ],
)
def test_a_property_is_compared_as_text_or_as_a_number(
    condition: str, value: str, is_met: bool
) -> None:
    assert read_condition(condition).is_met_by(value) is is_met


@pytest.mark.parametrize("condition", ["a = *?x", "a = X*?", "a = *? ? ?b", "a = *?"])
@pytest.mark.parametrize("last", ["", "y"])
def test_a_value_of_blanks_is_compared_in_time_that_grows_with_its_length(
    condition: str, last: str
) -> None:
    value = "X" + " " * 100_000 + last

    start = time.perf_counter()
    read_condition(condition).is_met_by(value)

    assert time.perf_counter() - start < 1


def test_an_explanation_shows_no_value_of_a_property() -> None:
    table = frozen("PROPERTY('orderType = SALE')", "PROPERTY('size > 1')")

    assert explanation_as_text("message 1", table, explain(table, LETTER)).splitlines()[1:3] == [
        (
            "  line 1: PROPERTY expects usr.orderType = SALE, the property is another value or not"
            " there"
        ),
        (
            "  line 2: PROPERTY expects usr.size > 1, the property is unknown (it cannot be read,"
            " or the run of the snapshot did not compare it with this)"
        ),
    ]
