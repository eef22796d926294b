"""Queue depth events, read from SYSTEM.ADMIN.PERFM.EVENT with the client's own PCF structures."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

EVENTS = "SYSTEM.ADMIN.PERFM.EVENT"
ON = "ALTER QMGR PERFMEV(ENABLED)"
# At 8 of 10 messages and more the depth is high, at 2 and fewer it is low.
LIMITS = "ALTER QLOCAL(A) MAXDEPTH(10) QDEPTHHI(80) QDEPTHLO(20)"
REASONS = ("MQRC_Q_DEPTH_HIGH", "MQRC_Q_DEPTH_LOW", "MQRC_Q_FULL")


def events(app: Application) -> list[tuple[str, dict[int, Any]]]:
    """Return the reason and the parameters of each event, and remove them."""
    opened, found = app.open(EVENTS, "INPUT_SHARED"), []
    names = {app.number(name): name for name in REASONS}
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        while True:
            body, md = app.get(opened)
            assert md.Format == b"MQEVENT "
            header = app.mqi.CFH()
            header.unpack(body[:36])
            assert header.Type == app.mqi.CMQCFC.MQCFT_EVENT
            assert header.Command == app.mqi.CMQCFC.MQCMD_PERFM_EVENT
            # PCFExecute.unpack takes CompCode 1, which every event has, for a failed command.
            parameters = app.mqi.PCFExecute.unpack(body[:24] + bytes(4) + body[28:])[0]
            found.append((names[header.Reason], parameters))
    opened.close()
    return found


def reasons(app: Application) -> list[str]:
    return [reason for reason, _ in events(app)]


def put(app: Application, messages: int) -> None:
    for _ in range(messages):
        app.put("A")


def get(app: Application, messages: int) -> None:
    opened = app.open("A", "INPUT_SHARED")
    for _ in range(messages):
        app.get(opened)
    opened.close()


def inquired(app: Application, *attributes: str) -> list[int]:
    opened = app.open("A", "INQUIRE")
    values = [int(opened.inquire(app.number(name))) for name in attributes]
    opened.close()
    return values


def test_an_event_disables_itself_and_enables_its_counterparts(mq: World, app: Application) -> None:
    """IBM MQ docs, "Queue depth events: example 1", and "Enabling queue depth events"."""
    mq.mqsc(f"{ON}\n{LIMITS} QDPHIEV(ENABLED) QDPLOEV(DISABLED) QDPMAXEV(DISABLED)")
    enabled = ("MQIA_Q_DEPTH_HIGH_EVENT", "MQIA_Q_DEPTH_LOW_EVENT", "MQIA_Q_DEPTH_MAX_EVENT")

    put(app, 7)
    assert reasons(app) == []
    put(app, 2)
    assert reasons(app) == ["MQRC_Q_DEPTH_HIGH"]
    assert inquired(app, *enabled) == [0, 1, 1]
    get(app, 5)
    put(app, 5)
    assert reasons(app) == []
    get(app, 8)
    assert reasons(app) == ["MQRC_Q_DEPTH_LOW"]
    assert inquired(app, *enabled) == [1, 0, 1]
    put(app, 9)
    assert reasons(app) == ["MQRC_Q_DEPTH_HIGH"]
    for _ in range(2):
        with app.failing("MQRC_Q_FULL"):
            put(app, 2)
    assert reasons(app) == ["MQRC_Q_FULL"]
    assert inquired(app, *enabled) == [0, 1, 0]


def test_an_event_names_the_queue_and_counts_since_the_last_event(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "Queue Depth High" and "Performance event statistics"."""
    mq.mqsc(f"{ON}\n{LIMITS} QDPHIEV(ENABLED)")
    cmqc = app.mqi.CMQC
    counts = ("MQIA_HIGH_Q_DEPTH", "MQIA_MSG_ENQ_COUNT", "MQIA_MSG_DEQ_COUNT")

    put(app, 7)
    get(app, 3)
    put(app, 4)
    get(app, 6)

    (_, high), (_, low) = events(app)
    assert high[cmqc.MQCA_Q_MGR_NAME].strip(b"\0 ") == b"QM1"
    assert high[cmqc.MQCA_BASE_Q_NAME].strip(b"\0 ") == b"A"
    assert high[cmqc.MQIA_TIME_SINCE_RESET] >= 0
    assert [high[app.number(name)] for name in counts] == [8, 11, 3]
    assert [low[app.number(name)] for name in counts] == [8, 0, 6]


def test_the_descriptor_of_an_event_names_the_queue_manager(mq: World, app: Application) -> None:
    """IBM MQ docs, "Event message MQMD (message descriptor)"."""
    mq.mqsc(f"{ON}\nALTER QLOCAL(A) QDEPTHHI(0) QDPHIEV(ENABLED)")
    app.put("A", b"", "SYNCPOINT")
    app.handle.backout()

    _, md = app.get(app.open(EVENTS, "INPUT_SHARED"))
    assert (md.MsgType, md.Expiry, md.Report) == (app.number("MQMT_DATAGRAM"), -1, 0)
    assert (md.PutApplType, md.PutApplName.strip()) == (app.number("MQAT_QMGR"), b"QM1")
    assert (md.CorrelId, md.UserIdentifier.strip()) == (bytes(24), b"")


@pytest.mark.parametrize(
    "definition",
    [
        f"{LIMITS} QDPHIEV(ENABLED)",
        f"{ON}\n{LIMITS} QDPMAXEV(DISABLED)",
        f"{ON}\n{LIMITS} QDPHIEV(ENABLED)\nALTER QLOCAL({EVENTS}) PUT(DISABLED)",
    ],
)
def test_an_event_that_is_disabled_or_cannot_be_put_changes_no_put(
    mq: World, app: Application, definition: str
) -> None:
    """PERFMEV and the queue's attributes enable events; an event that cannot be put is lost."""
    mq.mqsc(definition)
    put(app, 10)
    assert (app.depth("A"), app.depth(EVENTS)) == (10, 0)


def test_no_events_are_generated_for_the_event_queue(mq: World, app: Application) -> None:
    """IBM MQ docs, "Performance events"."""
    mq.mqsc(f"{ON}\nALTER QLOCAL({EVENTS}) QDEPTHHI(0) QDPHIEV(ENABLED)")
    app.put(EVENTS)
    assert app.bodies(EVENTS) == [b"body"]
