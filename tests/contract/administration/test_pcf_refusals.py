"""Every wrong PCF command gets an error response."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from embedded_mq.pcf.constants import reason_code
from embedded_mq_tests.builders import Application
from tests.support.wire.pcf_messages import COMMAND_QUEUE, LOCAL, NAMED, Commander, Given, typed

pytestmark = pytest.mark.stages

MODEL = "SYSTEM.DEFAULT.MODEL.QUEUE"


@pytest.fixture
def commander(app: Application) -> Commander:
    return Commander(app)


def condition(commander: Commander, kind: str, name: str, operator: str, value: Any) -> Any:
    mqi = commander.app.mqi
    fields = {"Operator": getattr(mqi.CMQCFC, f"MQCFOP_{operator}"), "FilterValue": value}
    return getattr(mqi, kind)(Parameter=commander.app.number(name), **fields)


def whole(commander: Commander) -> bytes:
    """Build a command with most of the PCF structures."""
    return commander.command(
        "MQCMD_INQUIRE_Q",
        commander.text("MQCA_Q_NAME", "A*"),
        typed(commander, "CFIN", "MQIA_Q_TYPE", 1),
        typed(commander, "CFIL", "MQIACF_Q_ATTRS", [3, 2013]),
        condition(commander, "CFSF", "MQCA_Q_DESC", "NOT_LIKE", b"x*"),
    )


@pytest.mark.embedded_only
def test_a_truncated_pcf_command_gets_an_error_response(commander: Commander) -> None:
    message = whole(commander)
    assert commander.ask(message)[0] == 0

    reasons = {commander.ask(message[:length])[0] for length in range(0, len(message), 4)}
    assert reasons == {reason_code("MQRCCF_MSG_LENGTH_ERROR")}
    assert commander.ask(message + bytes(4))[0] == reason_code("MQRCCF_MSG_LENGTH_ERROR")


@pytest.mark.embedded_only
@pytest.mark.parametrize("value", [-1, 0, 5, 2**31 - 1])
def test_a_pcf_command_with_an_absurd_number_gets_a_response(
    commander: Commander, value: int
) -> None:
    message = whole(commander)
    for place in range(0, len(message), 4):
        changed = bytearray(message)
        struct.pack_into("i", changed, place, value)
        commander.put(bytes(changed))
        header, _, _ = commander.response()
        assert header.Control == 1, place

    assert commander.ask(commander.command("MQCMD_PING_Q_MGR")) == (0, {})
    assert commander.app.depth(COMMAND_QUEUE) == 0


@pytest.mark.embedded_only
@pytest.mark.parametrize(
    ("command", "given", "reason", "detail"),
    [
        ("INQUIRE_Q", [], "MQRCCF_PARM_COUNT_TOO_SMALL", None),
        ("INQUIRE_Q", [LOCAL], "MQRCCF_PARM_MISSING", "MQCA_Q_NAME"),
        ("INQUIRE_Q", [LOCAL, NAMED], "MQRCCF_PARM_SEQUENCE_ERROR", "MQCA_Q_NAME"),
        ("INQUIRE_Q", [NAMED, NAMED], "MQRCCF_CFST_DUPLICATE_PARM", "MQCA_Q_NAME"),
        ("INQUIRE_Q", [NAMED, LOCAL, LOCAL], "MQRCCF_CFIN_DUPLICATE_PARM", "MQIA_Q_TYPE"),
        (
            "INQUIRE_Q",
            [NAMED, ("CFIN", "MQIACF_FORCE", 1)],
            "MQRCCF_CFIN_PARM_ID_ERROR",
            "MQIACF_FORCE",
        ),
        (
            "INQUIRE_Q",
            [NAMED, ("CFIN", "MQIA_Q_TYPE", 99)],
            "MQRCCF_Q_TYPE_ERROR",
            "MQIA_Q_TYPE",
        ),
        ("INQUIRE_Q", [("CFST", "MQCA_Q_NAME", b"a b*")], "MQRCCF_OBJECT_NAME_ERROR", None),
        ("INQUIRE_Q", [NAMED, ("CFIL", "MQIACF_Q_ATTRS", [4711])], "MQRC_SELECTOR_ERROR", 4711),
        (
            "INQUIRE_Q",
            [NAMED, ("CFIL", "MQIACF_Q_ATTRS", [3, 3])],
            "MQRCCF_CFIL_DUPLICATE_VALUE",
            3,
        ),
        (
            "INQUIRE_Q",
            [NAMED, ("CFIL", "MQIACF_Q_ATTRS", [])],
            "MQRCCF_CFIL_COUNT_ERROR",
            "MQIACF_Q_ATTRS",
        ),
        ("PING_Q_MGR", [NAMED], "MQRCCF_CFST_PARM_ID_ERROR", "MQCA_Q_NAME"),
        ("CREATE_Q", [NAMED, ("CFIN", "MQIA_Q_TYPE", 9)], "MQRCCF_Q_TYPE_ERROR", "MQIA_Q_TYPE"),
        (
            "CHANGE_Q",
            [NAMED, LOCAL, ("CFIN", "MQIA_DEF_PRIORITY", 10)],
            "MQRCCF_ATTR_VALUE_ERROR",
            "MQIA_DEF_PRIORITY",
        ),
        (
            "CHANGE_Q",
            [NAMED, LOCAL, ("CFST", "MQCA_Q_DESC", b"x" * 65)],
            "MQRCCF_CFST_STRING_LENGTH_ERR",
            "MQCA_Q_DESC",
        ),
        (
            "CHANGE_Q",
            [NAMED, LOCAL, ("CFST", "MQCA_BACKOUT_REQ_Q_NAME", b"a b")],
            "MQRCCF_OBJECT_NAME_ERROR",
            "MQCA_BACKOUT_REQ_Q_NAME",
        ),
        (
            "CREATE_Q",
            [NAMED, LOCAL, ("CFIN", "MQIACF_REPLACE", 2)],
            "MQRCCF_REPLACE_VALUE_ERROR",
            "MQIACF_REPLACE",
        ),
        (
            "DELETE_Q",
            [NAMED, ("CFIN", "MQIACF_PURGE", 2)],
            "MQRCCF_PURGE_VALUE_ERROR",
            "MQIACF_PURGE",
        ),
        ("DELETE_Q", [NAMED, ("CFIN", "MQIA_Q_TYPE", 3)], "MQRCCF_Q_WRONG_TYPE", None),
        ("CREATE_Q", [NAMED, ("CFIN", "MQIA_Q_TYPE", 3)], "MQRCCF_OBJECT_ALREADY_EXISTS", None),
        (
            "CREATE_Q",
            [NAMED, ("CFIN", "MQIA_Q_TYPE", 3), ("CFIN", "MQIACF_REPLACE", 1)],
            "MQRCCF_OBJECT_WRONG_TYPE",
            None,
        ),
        (
            "CREATE_Q",
            [
                ("CFST", "MQCA_Q_NAME", b"C"),
                ("CFIN", "MQIA_Q_TYPE", 3),
                ("CFST", "MQCACF_FROM_Q_NAME", b"A"),
            ],
            "MQRCCF_LIKE_OBJECT_WRONG_TYPE",
            None,
        ),
        ("CLEAR_Q", [("CFST", "MQCA_Q_NAME", MODEL.encode())], "MQRCCF_Q_WRONG_TYPE", None),
        (
            "INQUIRE_Q_STATUS",
            [("CFST", "MQCA_Q_NAME", MODEL.encode())],
            "MQRCCF_Q_WRONG_TYPE",
            "MQCA_Q_NAME",
        ),
        (
            "INQUIRE_Q_STATUS",
            [NAMED, ("CFIN", "MQIACF_Q_STATUS_TYPE", 1106)],
            "MQRCCF_PARM_VALUE_ERROR",
            "MQIACF_Q_STATUS_TYPE",
        ),
    ],
)
def test_a_pcf_response_names_the_wrong_parameter(
    commander: Commander, command: str, given: list[Given], reason: str, detail: str | int | None
) -> None:
    """IBM MQ docs, "Standard responses": MQIACF_PARAMETER_ID, MQIACF_SELECTOR."""
    cf = commander.app.mqi.CMQCFC
    parameters = [typed(commander, *each) for each in given]

    found, error = commander.ask(commander.command(f"MQCMD_{command}", *parameters))
    assert found == reason_code(reason)
    expected: dict[int, int] = {}
    if isinstance(detail, int):
        expected = {cf.MQIACF_SELECTOR: detail}
    elif detail is not None:
        number = getattr(commander.app.mqi.CMQC, detail, None) or getattr(cf, detail)
        expected = {cf.MQIACF_PARAMETER_ID: number}
    assert error == expected


@pytest.mark.embedded_only
@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ([("CFIF", "MQIA_SCOPE", "LESS", 1)], "MQRCCF_CFIF_PARM_ID_ERROR"),
        ([("CFIF", "MQCA_Q_DESC", "LESS", 1)], "MQRCCF_CFIF_PARM_ID_ERROR"),
        ([("CFSF", "MQCA_CLUSTER_DATE", "LIKE", b"2*")], "MQRCCF_CFSF_PARM_ID_ERROR"),
        ([("CFIF", "MQIA_USAGE", "LIKE", 1)], "MQRCCF_CFIF_OPERATOR_ERROR"),
        ([("CFSF", "MQCA_Q_DESC", "CONTAINS", b"x")], "MQRCCF_CFSF_OPERATOR_ERROR"),
        ([("CFIF", "MQIA_USAGE", "EQUAL", 0)] * 2, "MQRCCF_TOO_MANY_FILTERS"),
    ],
)
def test_a_wrong_pcf_filter_is_refused(
    commander: Commander, filters: list[tuple[str, str, str, Any]], reason: str
) -> None:
    """IBM MQ docs, "PCF reason codes", 3242 to 3248."""
    parts = [commander.text("MQCA_Q_NAME", "*")]
    parts += [condition(commander, *each) for each in filters]

    found, _ = commander.ask(commander.command("MQCMD_INQUIRE_Q", *parts))
    assert found == reason_code(reason)
