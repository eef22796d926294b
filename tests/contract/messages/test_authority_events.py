"""Events of opens that authority records refuse, on SYSTEM.ADMIN.QMGR.EVENT."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

pytestmark = pytest.mark.embedded_only

EVENTS = "SYSTEM.ADMIN.QMGR.EVENT"
HEADER = struct.Struct("=9i")


@pytest.fixture
def alice(mq: World) -> Application:
    mq.mqsc(
        "ALTER QMGR AUTHOREV(ENABLED)\nDEFINE QLOCAL(QM2) USAGE(XMITQ)\n"
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT,INQ)"
    )
    return mq.connect_as("alice")


def events(app: Application) -> list[tuple[tuple[int, ...], dict[int, Any]]]:
    """Get the events: their MQCFH and their parameters, text without blanks."""
    queue, found = app.open(EVENTS, "INPUT_SHARED"), []
    for _ in range(app.depth(EVENTS)):
        data, md = app.get(queue)
        assert md.Format == b"MQEVENT "
        header = HEADER.unpack_from(data)
        # The client's own function to unpack takes a response only.
        fine = app.mqi.CFH(ParameterCount=header[-1]).pack()
        read, _ = app.mqi.PCFExecute.unpack(fine + data[HEADER.size :])
        text = {
            number: value.rstrip() if isinstance(value, bytes) else value
            for number, value in read.items()
        }
        found.append((header, text))
    queue.close()
    return found


def test_a_refused_open_puts_an_authority_event(app: Application, alice: Application) -> None:
    """AUTHOREV. IBM MQ docs, "Not Authorized (type 2)": MQOPEN and MQPUT1."""
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.open("A", "BROWSE")
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.open("FAR", "OUTPUT", q_mgr="QM2")
    with alice.failing("MQRC_UNKNOWN_OBJECT_NAME"):
        alice.put("NOWHERE")

    fields = app.mqi.CMQCFC
    (header, opened), (_, routed) = events(app)

    assert header[:4] == (fields.MQCFT_EVENT, HEADER.size, 1, fields.MQCMD_Q_MGR_EVENT)
    assert header[6:8] == (1, app.number("MQRC_NOT_AUTHORIZED"))
    assert opened == {
        app.number("MQCA_Q_MGR_NAME"): b"QM1",
        fields.MQIACF_REASON_QUALIFIER: fields.MQRQ_OPEN_NOT_AUTHORIZED,
        fields.MQIACF_OPEN_OPTIONS: opened[fields.MQIACF_OPEN_OPTIONS],
        fields.MQCACF_USER_IDENTIFIER: b"alice",
        app.number("MQIA_APPL_TYPE"): app.number("MQAT_UNIX"),
        fields.MQCACF_APPL_NAME: Path(sys.executable).name.encode(),
        app.number("MQCA_Q_NAME"): b"A",
    }
    assert opened[fields.MQIACF_OPEN_OPTIONS] & app.number("MQOO_BROWSE")
    assert routed[app.number("MQCA_Q_NAME")] == b"FAR"
    assert routed[fields.MQCACF_OBJECT_Q_MGR_NAME] == b"QM2"


def test_a_refused_mqput1_names_the_alternate_user_who_lacks_the_authority(
    mq: World, app: Application, alice: Application
) -> None:
    """IBM MQ docs, "AlternateUserId (MQOD)"; without ALTUSR the user itself is refused."""
    od = alice.mqi.OD(ObjectName=b"A", AlternateUserId=b"bob", Version=3)
    for _ in range(2):
        with alice.failing("MQRC_NOT_AUTHORIZED"):
            alice.handle.put1(od, b"", alice.md(), alice.pmo("ALTERNATE_USER_AUTHORITY"))
        mq.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(ALTUSR)")

    users = [found[app.mqi.CMQCFC.MQCACF_USER_IDENTIFIER] for _, found in events(app)]

    assert users == [b"alice", b"bob"]


def test_no_authority_event_is_put_without_authorev_or_its_queue(
    mq: World, app: Application, alice: Application
) -> None:
    mq.mqsc("ALTER QMGR AUTHOREV(DISABLED)")
    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.open("A", "BROWSE")
    assert events(app) == []
    mq.mqsc(f"ALTER QMGR AUTHOREV(ENABLED)\nDELETE QLOCAL({EVENTS})")

    with alice.failing("MQRC_NOT_AUTHORIZED"):
        alice.open("A", "BROWSE")
