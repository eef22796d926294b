"""Structures and values that are wrong, each refused with its own reason code."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World


def extension(app: Application) -> Any:
    return app.mqi.ibmmqc if app.mqi.__name__ == "ibmmq" else app.mqi.pymqe


def open_with(app: Application, **fields: Any) -> None:
    descriptor = app.mqi.OD(ObjectName=b"A", **fields)
    app.mqi.Queue(app.handle, descriptor, app.number("MQOO_OUTPUT"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"Version": 9}, "MQRC_OD_ERROR"),
        ({"ObjectType": 3}, "MQRC_OBJECT_TYPE_ERROR"),
        ({"Version": 2, "RecsPresent": 1}, "MQRC_RECS_PRESENT_ERROR"),
    ],
)
def test_an_object_descriptor_is_checked(
    app: Application, fields: dict[str, int], reason: str
) -> None:
    """IBM MQ docs, "2044 (07FC) (RC2044)", "2043 (07FB) (RC2043)", "2154 (086A) (RC2154)"."""
    with app.failing(reason):
        open_with(app, **fields)


@pytest.mark.embedded_only
def test_message_selectors_are_not_emulated(app: Application) -> None:
    """IBM MQ docs, "2551 (09F7) (RC2551): MQRC_SELECTION_NOT_AVAILABLE"."""
    descriptor = app.mqi.OD(Version=4, ObjectName=b"A")
    descriptor.set_vs("SelectionString", b"colour = 'red'")

    with app.failing("MQRC_SELECTION_NOT_AVAILABLE"):
        app.mqi.Queue(app.handle, descriptor, app.number("MQOO_INPUT_SHARED"))


def test_the_mqpmo_is_checked(app: Application) -> None:
    """IBM MQ docs, "2173 (087D) (RC2173): MQRC_PMO_ERROR"."""
    with app.failing("MQRC_PMO_ERROR"):
        app.open("A", "OUTPUT").put(b"", app.md(), app.pmo(Version=4))


@pytest.mark.embedded_only
def test_the_action_mqactp_reply_is_not_emulated(app: Application) -> None:
    """IBM MQ docs, "2535 (09E7) (RC2535): MQRC_ACTION_ERROR"."""
    with app.failing("MQRC_ACTION_ERROR"):
        app.open("A", "OUTPUT").put(b"", app.md(), app.pmo(Action=app.number("MQACTP_REPLY")))


def test_the_mqgmo_is_checked(app: Application) -> None:
    """IBM MQ docs, "2186 (088A) (RC2186)", "2331 (091B) (RC2331)"."""
    queue = app.open("A", "INPUT_SHARED")
    by_token = app.number("MQMO_MATCH_MSG_TOKEN")

    with app.failing("MQRC_GMO_ERROR"):
        queue.get(None, app.md(), app.gmo(Version=5))
    with app.failing("MQRC_MSG_TOKEN_ERROR"):
        queue.get(None, app.md(), app.gmo("WAIT", MatchOptions=by_token, MsgToken=b"t" * 16))


@pytest.mark.embedded_only
def test_a_negative_buffer_length_is_refused(mq: World, app: Application) -> None:
    """IBM MQ docs, "2005 (07D5) (RC2005): MQRC_BUFFER_LENGTH_ERROR"."""
    if "c_library" in mq.boundary:
        pytest.skip("the C extension allocates the buffer, and cannot")
    queue = app.open("A", "INPUT_SHARED")

    with app.failing("MQRC_BUFFER_LENGTH_ERROR"):
        queue.get(-1, app.md(), app.gmo())


def test_an_inhibit_attribute_has_one_of_two_values(app: Application) -> None:
    """IBM MQ docs, "2020 (07E4) (RC2020): MQRC_INHIBIT_VALUE_ERROR"."""
    queue = app.open("A", "SET")

    with app.failing("MQRC_INHIBIT_VALUE_ERROR"):
        queue.set(app.number("MQIA_INHIBIT_PUT"), 7)


@pytest.mark.parametrize(
    ("selector", "value", "reason"),
    [
        ("MQIA_TRIGGER_DEPTH", 0, "MQRC_TRIGGER_DEPTH_ERROR"),
        ("MQIA_TRIGGER_MSG_PRIORITY", 10, "MQRC_TRIGGER_MSG_PRIORITY_ERR"),
    ],
)
def test_a_trigger_attribute_stays_within_its_limits(
    app: Application, selector: str, value: int, reason: str
) -> None:
    """IBM MQ docs, "2076 (081C) (RC2076)", "2077 (081D) (RC2077)"."""
    with app.failing(reason):
        app.open("A", "SET").set(app.number(selector), value)


def test_a_transmission_queue_must_be_a_local_queue(mq: World, app: Application) -> None:
    """IBM MQ docs, "2091 (082B) (RC2091): MQRC_XMIT_Q_TYPE_ERROR"."""
    mq.mqsc("DEFINE QALIAS(ALIAS) TARGET(A)\nDEFINE QREMOTE(R) RNAME(X) RQMNAME(Q) XMITQ(ALIAS)")

    with app.failing("MQRC_XMIT_Q_TYPE_ERROR"):
        app.open("R", "OUTPUT")


def test_a_property_descriptor_is_checked(app: Application) -> None:
    """IBM MQ docs, "2482 (09B2) (RC2482): MQRC_PD_ERROR"."""
    handle = app.mqi.MessageHandle(app.handle)
    structures = app.mqi.SMPO().pack(), b"a", app.mqi.PD().pack().replace(b"PD  ", b"XX  ")

    text = app.number("MQTYPE_STRING")
    arguments = (app.handle.get_handle(), handle.msg_handle, *structures, text, "b", -1)
    assert extension(app).MQSETMP(*arguments) == (2, 2482)


def test_property_names_are_validated_unless_the_handle_disables_it(app: Application) -> None:
    """IBM MQ docs, "MQCMHO - Options": MQCMHO_VALIDATE, MQCMHO_NO_VALIDATION."""

    def set_on(option: str) -> None:
        options = app.mqi.CMHO(Options=app.number(f"MQCMHO_{option}"))
        app.mqi.MessageHandle(app.handle, options).properties.set(b"1 and 2", "x")

    set_on("NO_VALIDATION")
    with app.failing("MQRC_PROPERTY_NAME_ERROR"):
        set_on("VALIDATE")


def test_a_message_handle_ends_when_it_is_deleted(app: Application) -> None:
    """IBM MQ docs, "MQDLTMH", "2460 (099C) (RC2460)"."""
    if app.mqi.__name__ == "pymqi":
        pytest.skip("pymqi has no MQDLTMH")
    handle = app.mqi.MessageHandle(app.handle)
    number = handle.msg_handle
    handle.dlt()

    with app.failing("MQRC_HMSG_ERROR"):
        app.open("A", "OUTPUT").put(b"", app.md(), app.pmo(NewMsgHandle=number))


def database() -> Path:
    return Path(os.environ["MQDLQ_HOME"]) / "queue_managers" / "QM1" / "queue_manager.sqlite"


@pytest.mark.embedded_only
def test_connecting_to_an_unreadable_queue_manager_fails(mq: World) -> None:
    """IBM MQ docs, "2059 (080B) (RC2059): MQRC_Q_MGR_NOT_AVAILABLE"."""
    database().write_bytes(b"no database at all, but long enough to look like one" * 20)

    with pytest.raises(mq.mqi.MQMIError) as caught:
        mq.connect()
    assert caught.value.reason == 2059


@pytest.mark.embedded_only
def test_a_commit_that_cannot_be_written_is_backed_out(mq: World, app: Application) -> None:
    """IBM MQ docs, "2003 (07D3) (RC2003): MQRC_BACKED_OUT"; here the database fails MQCMIT."""
    app.put("A", b"kept")
    app.get(app.open("A", "INPUT_SHARED"), "SYNCPOINT")
    app.put("B", b"lost", "SYNCPOINT")
    with closing(sqlite3.connect(database())) as saboteur:
        saboteur.execute(
            "CREATE TRIGGER full BEFORE DELETE ON message WHEN OLD.body = CAST('kept' AS BLOB)"
            " BEGIN SELECT raise(ABORT, 'full'); END"
        )
        with app.failing("MQRC_BACKED_OUT"):
            app.handle.commit()
        saboteur.execute("DROP TRIGGER full")

    other = mq.connect()
    assert (other.bodies("A"), other.bodies("B"), other.depth("B")) == ([b"kept"], [], 0)
