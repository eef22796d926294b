"""Test which repairs a run accepts."""

from __future__ import annotations

from typing import Any

import pytest

from mqdlq.airflow.params import fault
from mqdlq.controls.repair import Repair, parse_repair
from mqdlq.errors import HandlerError


@pytest.mark.parametrize("format_", ["MQSTR\n", "MQDEAD\n", "\n"])
def test_a_format_with_a_line_end_is_refused(format_: str) -> None:
    with pytest.raises(HandlerError, match=r"repair\.format: found '.*\\n'; expected at most 8"):
        parse_repair({"format": format_})
    assert fault({"repair": {"format": format_}})


def test_an_integer_that_json_writes_as_a_float_is_an_integer() -> None:
    repair = parse_repair({"coded_char_set_id": 1208.0})

    assert repair == Repair(coded_char_set_id=1208)
    assert repair.text == '{"coded_char_set_id": 1208}'


@pytest.mark.parametrize("format_", ["MQHDIST", "MQHREF", "MQHWIH", "MQHSAP", "MQHEPCF", "MQH"])
def test_a_header_that_the_body_cannot_be_compared_with_is_refused(format_: str) -> None:
    with pytest.raises(HandlerError) as caught:
        parse_repair({"format": format_})

    assert str(caught.value) == (
        f"repair.format: found '{format_}'; expected at most 8 letters, digits and . _ / %, such as"
        " MQSTR; not MQDEAD, and no header that mqdlq cannot read: of Formats that begin with MQH"
        " only MQHMDE, MQHRF, MQHRF2 [MQDLQ-520]"
    )


@pytest.mark.parametrize(
    "format_", ["", "MQSTR", "MQHRF", "MQHRF2", "MQHMDE", "MQIMS", "MQCICS", "MQXMIT", "MQDEADLY"]
)
def test_other_formats_are_accepted(format_: str) -> None:
    assert parse_repair({"format": format_}) == Repair(format_)
    assert not fault({"repair": {"format": format_}})


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"format": "MQSTR", "text": 1, "user": "x"}, "repair: found 'text, user'; "),
        (
            {"body_sha256": "x"},
            "repair.body_sha256: found 'x'; expected the SHA-256 of a stored replacement",
        ),
        ({"format": {"MQSTR": 1}}, "repair.format: found {'MQSTR': 1}; "),
    ],
)
def test_the_error_names_only_what_is_wrong(given: dict[str, Any], found: str) -> None:
    with pytest.raises(HandlerError) as caught:
        parse_repair(given)

    assert str(caught.value).startswith(found)
