"""The symbolic names are IBM's, as the client libraries have them."""

from __future__ import annotations

from mqdlq.constants import (
    ALL_NAMES,
    MQAT,
    MQFB,
    MQMT,
    MQPER,
    MQRC,
    name_of,
    reason_text,
)
from tests.support.constant_names import NAMES_FILE, client_constants, names_text


def test_the_names_are_those_of_the_client_libraries() -> None:
    assert NAMES_FILE.read_text(encoding="ascii") == names_text(client_constants())


def test_every_name_is_in_its_family() -> None:
    assert MQRC["MQRC_Q_FULL"] == 2053
    assert MQFB["MQFB_APPL_CANNOT_BE_STARTED"] == 265
    assert MQMT["MQMT_DATAGRAM"] == 8
    assert MQPER["MQPER_PERSISTENT"] == 1
    assert MQAT["MQAT_UNKNOWN"] == -1
    assert len(ALL_NAMES) == sum(map(len, (MQRC, MQFB, MQMT, MQPER, MQAT)))


def test_a_name_that_differs_by_platform_is_not_known() -> None:
    assert "MQAT_DEFAULT" not in ALL_NAMES


def test_a_reason_reads_as_its_name_and_number() -> None:
    assert reason_text(2053) == "MQRC_Q_FULL (2053)"


def test_a_feedback_code_serves_where_no_reason_code_has_the_number() -> None:
    assert reason_text(265) == "MQFB_APPL_CANNOT_BE_STARTED (265)"


def test_an_unknown_reason_reads_as_its_number() -> None:
    assert reason_text(99999) == "reason 99999"


def test_of_several_names_the_one_ibm_shows_is_shown() -> None:
    assert reason_text(2192) == "MQRC_STORAGE_MEDIUM_FULL (2192)"
    assert name_of(6, ["MQAT"]) == "MQAT_UNIX"


def test_the_bounds_of_a_range_name_nothing() -> None:
    assert name_of(1, ["MQMT"]) == "MQMT_REQUEST"
    assert name_of(65536, ["MQMT", "MQFB"]) == ""
