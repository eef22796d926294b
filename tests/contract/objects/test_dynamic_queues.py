"""Model queues and their dynamic queues."""

from __future__ import annotations

import re
from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

MODELS = """
DEFINE QMODEL(TEMPORARY) DEFTYPE(TEMPDYN) MAXDEPTH(3) DEFPRTY(4)
DEFINE QMODEL(PERMANENT) DEFTYPE(PERMDYN)
"""


@pytest.fixture(autouse=True)
def models(mq: World) -> None:
    mq.mqsc(MODELS)


def make(app: Application, model: str, name: str = "REPLY.*", *options: str) -> tuple[Any, str]:
    """Open a model queue; return the open dynamic queue and its name."""
    od = app.mqi.OD(ObjectName=model.encode(), DynamicQName=name.encode())
    wanted = app.options("MQOO", options or ("INPUT_SHARED", "OUTPUT", "INQUIRE", "BROWSE"))
    queue = app.mqi.Queue(app.handle, od, wanted)
    selector = app.number("MQCA_Q_NAME")
    return queue, queue.inquire(selector).decode().strip() if not options else name


def test_opening_a_model_queue_creates_a_dynamic_queue(app: Application) -> None:
    """IBM MQ docs, "DynamicQName (MQOD)": an asterisk becomes what makes the name unique."""
    one, name = make(app, "TEMPORARY")
    _, other = make(app, "TEMPORARY")

    assert re.fullmatch(r"REPLY\.[0-9A-F]{16}", name)
    assert name != other
    assert one.inquire(app.number("MQIA_MAX_Q_DEPTH")) == 3
    assert one.inquire(app.number("MQIA_Q_TYPE")) == 1
    assert one.inquire(app.number("MQIA_DEFINITION_TYPE")) == 3
    assert app.put(name, b"answer").Priority == 4
    assert app.get(one)[0] == b"answer"


def test_a_dynamic_queue_name_without_an_asterisk_is_used_unchanged(app: Application) -> None:
    """IBM MQ docs, "2100 (0834) (RC2100)", "2011 (07DB) (RC2011)"."""
    assert make(app, "PERMANENT", "MY.OWN")[1] == "MY.OWN"
    with app.failing("MQRC_OBJECT_ALREADY_EXISTS"):
        make(app, "PERMANENT", "MY.OWN")
    for name in ("", "NO GOOD"):
        with app.failing("MQRC_DYNAMIC_Q_NAME_ERROR"):
            make(app, "PERMANENT", name)


def test_mqopen_returns_the_name_of_the_dynamic_queue(mq: World, app: Application) -> None:
    """IBM MQ docs, "ObjectName (MQOD)": on return the name of the dynamic queue."""
    extension = app.mqi.ibmmqc if mq.client == "ibmmq" else app.mqi.pymqe
    od = app.mqi.OD(ObjectName=b"TEMPORARY", DynamicQName=b"X")
    _, packed, *codes = extension.MQOPEN(app.handle.get_handle(), od.pack(), 16)
    returned = app.mqi.OD()
    returned.unpack(packed)

    assert codes == [0, 0]
    assert (returned.ObjectName, returned.ObjectQMgrName) == (b"X".ljust(48), b"QM1".ljust(48))


def test_closing_its_handle_deletes_a_temporary_dynamic_queue(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQCLOSE": a temporary dynamic queue is deleted, with its messages."""
    queue, name = make(app, "TEMPORARY")
    other = mq.connect()
    theirs = other.open(name, "OUTPUT")
    other.put(theirs)
    other.open(name, "BROWSE").close()
    queue.close()

    with other.failing("MQRC_Q_DELETED"):
        other.put(theirs)
    with other.failing("MQRC_UNKNOWN_OBJECT_NAME"):
        other.open(name, "OUTPUT")


def test_uncommitted_messages_are_lost_with_a_temporary_dynamic_queue(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "MQCLOSE": uncommitted messages are lost, the unit of work stays open."""
    queue, name = make(app, "TEMPORARY")
    other = mq.connect()
    for application in (app, other):
        application.put(name, b"lost", "SYNCPOINT")
        application.put("A", b"kept", "SYNCPOINT")
    queue.close()
    app.handle.commit()
    other.handle.commit()

    assert app.bodies("A") == [b"kept", b"kept"]


@pytest.mark.slow
def test_disconnecting_deletes_a_temporary_dynamic_queue(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQDISC": handles are closed, also at the end of a process."""
    make(app, "TEMPORARY", "ONE")
    script = """
od = mqi.OD(ObjectName=b"TEMPORARY", DynamicQName=b"TWO")
queue = mqi.Queue(app.handle, od, app.number("MQOO_OUTPUT"))
import os, signal

pytestmark = pytest.mark.embedded_only
os.kill(os.getpid(), signal.SIGKILL)
"""
    mq.run(script)
    app.handle.disconnect()

    other = mq.connect()
    for name in ("ONE", "TWO"):
        with other.failing("MQRC_UNKNOWN_OBJECT_NAME"):
            other.open(name, "BROWSE")


def test_a_temporary_dynamic_queue_refuses_persistent_messages(app: Application) -> None:
    """IBM MQ docs, "2048 (0800) (RC2048): MQRC_PERSISTENT_NOT_ALLOWED"."""
    _, name = make(app, "TEMPORARY")

    with app.failing("MQRC_PERSISTENT_NOT_ALLOWED"):
        app.put(name, b"", Persistence=1)


def test_a_permanent_dynamic_queue_stays_until_it_is_deleted(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQCLOSE": MQCO_DELETE, MQCO_DELETE_PURGE, "2055 (0807) (RC2055)"."""
    queue, name = make(app, "PERMANENT")
    app.put(queue)
    queue.close()
    other = mq.connect()
    queue = other.open(name, "OUTPUT")

    with other.failing("MQRC_Q_NOT_EMPTY"):
        queue.close(app.number("MQCO_DELETE"))
    app.put(name, b"", "SYNCPOINT")
    with other.failing("MQRC_Q_NOT_EMPTY"):
        queue.close(app.number("MQCO_DELETE_PURGE"))
    app.handle.backout()
    queue.close(app.number("MQCO_DELETE_PURGE"))
    with app.failing("MQRC_UNKNOWN_OBJECT_NAME"):
        app.open(name, "OUTPUT")


@pytest.mark.parametrize("option", ["DELETE", "DELETE_PURGE"])
def test_a_predefined_queue_is_not_deleted_by_closing(app: Application, option: str) -> None:
    """IBM MQ docs, "2045 (07FD) (RC2045): MQRC_OPTION_NOT_VALID_FOR_TYPE"."""
    with app.failing("MQRC_OPTION_NOT_VALID_FOR_TYPE"):
        app.open("A", "OUTPUT").close(app.number(f"MQCO_{option}"))
    for wrong in ("MQCO_KEEP_SUB", "MQCO_QUIESCE"):
        with app.failing("MQRC_OPTIONS_ERROR"):
            app.open("A", "OUTPUT").close(app.number(wrong))


def test_the_creator_of_a_dynamic_queue_has_every_authority_on_it(mq: World) -> None:
    """IBM MQ docs, "Dynamic and model queues": full authority for the one who opened the model."""
    mq.mqsc("""SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT)
SET AUTHREC PROFILE(TEMPORARY) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(GET,INQ,PUT,BROWSE)""")
    alice = mq.connect_as("alice")

    _, name = make(alice, "TEMPORARY")

    alice.open(name, "OUTPUT", "PASS_ALL_CONTEXT", "SET").close()
