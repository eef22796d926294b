"""Channels of the embedded queue manager, as the PCF commands that only read say them."""

from __future__ import annotations

from typing import Any

import pytest

import embedded_mq
from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

pytestmark = [pytest.mark.embedded_only, pytest.mark.stages]

CHANNELS = """DEFINE QLOCAL(QM2) USAGE(XMITQ)
    DEFINE CHANNEL(TO.QM2) CHLTYPE(SDR) CONNAME('mq2(1414)') XMITQ(QM2) MAXMSGL(100) SHORTRTY(3)
    DEFINE CHANNEL(FROM.QM2) CHLTYPE(RCVR) DESCR('what they send')
    DEFINE CHANNEL(APPS) CHLTYPE(SVRCONN) MAXINST(9) MAXINSTC(2) SHARECNV(1)"""
MISSING = [
    ("MQCMD_INQUIRE_CHANNEL", b"NOWHERE", {}, "MQRCCF_CHANNEL_NOT_FOUND"),
    ("MQCMD_INQUIRE_CHANNEL", b"TO.QM2", {"MQIACH_CHANNEL_TYPE": 7}, "MQRCCF_CHANNEL_NOT_FOUND"),
    ("MQCMD_INQUIRE_CHANNEL", b"A B", {}, "MQRCCF_CHANNEL_NAME_ERROR"),
    ("MQCMD_INQUIRE_CHANNEL", b"*", {"MQIACH_CHANNEL_TYPE": 99}, "MQRCCF_CHANNEL_TYPE_ERROR"),
    ("MQCMD_INQUIRE_CHANNEL_STATUS", b"TO.QM2", {}, "MQRCCF_CHL_STATUS_NOT_FOUND"),
    (
        "MQCMD_INQUIRE_CHANNEL_STATUS",
        b"*",
        {"MQIACH_CHANNEL_INSTANCE_TYPE": 99},
        "MQRCCF_CHL_INST_TYPE_ERROR",
    ),
]


@pytest.fixture(autouse=True)
def _channels(mq: World) -> None:
    mq.mqsc(CHANNELS)


def inquire(app: Application, command: str, name: bytes, **given: Any) -> list[dict[str, Any]]:
    """Run an inquiry; return its responses by the names of attributes, text without blanks."""
    fields = app.mqi.CMQCFC
    names = {
        number: word
        for word, number in vars(fields).items()
        if word.startswith(("MQIACH_", "MQCACH_")) and not word.endswith(("_FIRST", "_USED"))
    }
    asked = {getattr(fields, word): value for word, value in given.items()}
    pcf = app.mqi.PCFExecute(app.handle)
    try:
        found = getattr(pcf, command)({fields.MQCACH_CHANNEL_NAME: name, **asked})
    finally:
        pcf.disconnect()
    return [
        {
            names[number]: value.rstrip() if isinstance(value, bytes) else value
            for number, value in one.items()
        }
        for one in found
    ]


def test_pcf_inquires_channels_of_each_type(app: Application) -> None:
    """MQCMD_INQUIRE_CHANNEL. IBM MQ docs, "Inquire Channel", "Inquire Channel (Response)"."""
    assert inquire(app, "MQCMD_INQUIRE_CHANNEL", b"TO.*") == [
        {
            "MQCACH_CHANNEL_NAME": b"TO.QM2",
            "MQIACH_CHANNEL_TYPE": 1,
            "MQCACH_DESC": b"",
            "MQIACH_XMIT_PROTOCOL_TYPE": 2,
            "MQIACH_MAX_MSG_LENGTH": 100,
            "MQCACH_XMIT_Q_NAME": b"QM2",
            "MQCACH_CONNECTION_NAME": b"mq2(1414)",
            "MQIACH_SHORT_RETRY": 3,
            "MQIACH_LONG_RETRY": 999_999_999,
        }
    ]
    attributes = [app.mqi.CMQCFC.MQIACH_SHARING_CONVERSATIONS, app.mqi.CMQCFC.MQCACH_DESC]
    assert inquire(app, "MQCMD_INQUIRE_CHANNEL", b"*", MQIACF_CHANNEL_ATTRS=attributes) == [
        {
            "MQCACH_CHANNEL_NAME": b"APPS",
            "MQIACH_CHANNEL_TYPE": 7,
            "MQCACH_DESC": b"",
            "MQIACH_SHARING_CONVERSATIONS": 1,
        },
        {
            "MQCACH_CHANNEL_NAME": b"FROM.QM2",
            "MQIACH_CHANNEL_TYPE": 3,
            "MQCACH_DESC": b"what they send",
        },
        {"MQCACH_CHANNEL_NAME": b"TO.QM2", "MQIACH_CHANNEL_TYPE": 1, "MQCACH_DESC": b""},
    ]
    (receiver,) = inquire(app, "MQCMD_INQUIRE_CHANNEL", b"*", MQIACH_CHANNEL_TYPE=3)
    assert receiver["MQCACH_CHANNEL_NAME"] == b"FROM.QM2"


def test_pcf_says_whether_a_started_sender_channel_runs(mq: World, app: Application) -> None:
    """MQCMD_INQUIRE_CHANNEL_STATUS. IBM MQ docs, "Inquire Channel Status (Response)"."""
    mq.mqsc("START CHANNEL(TO.QM2)")

    (found,) = inquire(app, "MQCMD_INQUIRE_CHANNEL_STATUS", b"*")

    assert len(found.pop("MQCACH_CHANNEL_START_DATE")) == len("2026-11-20")
    assert len(found.pop("MQCACH_CHANNEL_START_TIME")) == len("14.02.00")
    assert found == {
        "MQCACH_CHANNEL_NAME": b"TO.QM2",
        "MQIACH_CHANNEL_TYPE": 1,
        "MQIACH_CHANNEL_STATUS": app.mqi.CMQCFC.MQCHS_RETRYING,
        "MQCACH_CONNECTION_NAME": b"mq2(1414)",
        "MQIACH_CHANNEL_INSTANCE_TYPE": app.number("MQOT_CURRENT_CHANNEL"),
        "MQCACH_XMIT_Q_NAME": b"QM2",
        "MQCACH_LAST_MSG_DATE": b"",
        "MQCACH_LAST_MSG_TIME": b"",
        "MQIACH_MSGS": 0,
        "MQIACH_SHORT_RETRIES_LEFT": 3,
        "MQIACH_LONG_RETRIES_LEFT": 999_999_999,
    }
    embedded_mq.create("QM2")
    (found,) = inquire(app, "MQCMD_INQUIRE_CHANNEL_STATUS", b"TO.QM2")
    assert found["MQIACH_CHANNEL_STATUS"] == app.mqi.CMQCFC.MQCHS_RUNNING
    mq.mqsc("STOP CHANNEL(TO.QM2); STOP CHANNEL(FROM.QM2)")
    attributes = [app.mqi.CMQCFC.MQIACH_CHANNEL_STATUS]
    stopped = inquire(
        app, "MQCMD_INQUIRE_CHANNEL_STATUS", b"*", MQIACH_CHANNEL_INSTANCE_ATTRS=attributes
    )
    assert [one["MQIACH_CHANNEL_STATUS"] for one in stopped] == [
        app.mqi.CMQCFC.MQCHS_STOPPED,
        app.mqi.CMQCFC.MQCHS_STOPPED,
    ]


@pytest.mark.parametrize(("command", "name", "given", "reason"), MISSING)
def test_pcf_names_what_is_wrong_with_an_inquiry_of_channels(
    app: Application, command: str, name: bytes, given: dict[str, int], reason: str
) -> None:
    """IBM MQ docs, "Inquire Channel", "Inquire Channel Status": error codes."""
    with pytest.raises(app.mqi.MQMIError) as caught:
        inquire(app, command, name, **given)

    assert caught.value.reason == getattr(app.mqi.CMQCFC, reason)


def test_an_inquiry_of_a_channel_needs_authority_to_display_it(mq: World) -> None:
    """IBM MQ docs, "Authorizations for PCF commands": dsp on the channel."""
    mq.mqsc(
        """START CHANNEL(TO.QM2)
        SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT,INQ,DSP)
        SET AUTHREC PROFILE(SYSTEM.**) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(ALL)
        SET AUTHREC PROFILE(FROM.*) OBJTYPE(CHANNEL) PRINCIPAL('alice') AUTHADD(DSP)"""
    )
    alice = mq.connect_as("alice")
    for command in ("MQCMD_INQUIRE_CHANNEL", "MQCMD_INQUIRE_CHANNEL_STATUS"):
        with alice.failing("MQRC_NOT_AUTHORIZED"):
            inquire(alice, command, b"TO.QM2")

    found = inquire(alice, "MQCMD_INQUIRE_CHANNEL", b"*")

    assert [one["MQCACH_CHANNEL_NAME"] for one in found] == [b"FROM.QM2"]
