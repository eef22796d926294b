"""Faults: the calls they apply to, their effect, and how they are set."""

from __future__ import annotations

import re
import signal
import time

import pytest

import embedded_mq
from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

pytestmark = pytest.mark.slow

MQSC = "SET FAULT('{}')"


def test_a_fault_may_apply_to_one_queue(mq: World, app: Application) -> None:
    """Only calls on the queue count, by the name with which it was opened."""
    mq.mqsc("DEFINE QALIAS(ALIAS) TARGET(B)")
    embedded_mq.faults.set(
        "MQPUT1[B]:2:2053:before, MQPUT[ALIAS]:1:2051:before, MQGET[A]:1:2016:before"
    )
    alias = app.open("ALIAS", "OUTPUT")

    app.put("A")
    app.put("B")
    app.put("A")
    with app.failing("MQRC_Q_FULL"):
        app.put("B")
    with app.failing("MQRC_PUT_INHIBITED"):
        app.put(alias)
    with app.failing("MQRC_GET_INHIBITED"):
        app.get(app.open("A", "INPUT_SHARED"))
    assert (app.depth("A"), app.depth("B")) == (2, 1)


def test_a_fault_may_fail_the_nth_call_and_all_later_calls(app: Application) -> None:
    embedded_mq.faults.set("MQPUT1:2+:2053:before")

    app.put("A")
    for _ in range(3):
        with app.failing("MQRC_Q_FULL"):
            app.put("A")
    embedded_mq.faults.set("")
    app.put("A")


def test_a_fault_may_delay_a_call(app: Application) -> None:
    embedded_mq.faults.set("MQPUT1:1:delay=0.05:before, MQPUT1:1:2053:after")
    started = time.monotonic()

    with app.failing("MQRC_Q_FULL"):
        app.put("A")

    assert time.monotonic() - started >= 0.05
    assert app.depth("A") == 1


def test_an_mqcmit_that_fails_with_backed_out_has_backed_out(app: Application) -> None:
    """IBM MQ docs, "2003 (07D3) (RC2003): MQRC_BACKED_OUT"."""
    app.put("A", b"1")
    app.get(app.open("A", "INPUT_SHARED"), "SYNCPOINT")
    app.put("B", b"2", "SYNCPOINT")
    embedded_mq.faults.set("MQCMIT:1:2003:before")

    with app.failing("MQRC_BACKED_OUT"):
        app.handle.commit()
    app.handle.commit()
    assert (app.bodies("A"), app.bodies("B")) == ([b"1"], [])


def test_a_fault_may_fail_mqopen_and_mqconnx(mq: World, app: Application) -> None:
    embedded_mq.faults.set("MQOPEN[B]:1:2035:before, MQCONNX:1:2538:before")

    app.open("A", "OUTPUT")
    with app.failing("MQRC_NOT_AUTHORIZED"):
        app.open("B", "OUTPUT")
    with app.failing("MQRC_HOST_NOT_AVAILABLE"):
        mq.connect()
    mq.connect()


def test_a_queue_manager_fault_fails_a_call_of_any_process(mq: World, app: Application) -> None:
    """A command sets it; it counts the calls of all processes and applies once."""
    mq.mqsc(MQSC.format("MQPUT1[A]:2:kill:after"))
    app.put("A")

    assert mq.run('app.put("A")')[0] == -signal.SIGKILL
    assert mq.run('app.put("A")')[0] == 0
    assert app.depth("A") == 3
    assert mq.mqsc("DISPLAY FAULT") == []


def test_a_lasting_queue_manager_fault_stays_until_it_is_cleared(
    mq: World, app: Application
) -> None:
    assert mq.mqsc(MQSC.format("MQPUT1:1+:2053:before, MQCONNX:1:2059:after")) == [
        "set FAULT(MQPUT1:1+:2053:before)",
        "set FAULT(MQCONNX:1:2059:after)",
    ]
    for _ in range(2):
        with app.failing("MQRC_Q_FULL"):
            app.put("A")
    with app.failing("MQRC_Q_MGR_NOT_AVAILABLE"):
        mq.connect()
    assert mq.mqsc("DISPLAY FAULT") == ["FAULT(MQPUT1:1+:2053:before) CALLS(2)"]
    mq.mqsc("CLEAR FAULT")
    app.put("A")


def test_a_fault_may_change_the_trace_properties_at_mqget(mq: World, app: Application) -> None:
    """IBM MQ for z/OS does this with OTELTRAC(ON); a browse returns the message unchanged."""
    written = app.mqi.MessageHandle(app.handle)
    for name in (b"traceparent", b"colour"):
        written.properties.set(name, "as it was", app.number("MQTYPE_STRING"))
    app.open("A", "OUTPUT").put(b"body", app.md(), app.pmo(NewMsgHandle=written.msg_handle))
    mq.mqsc(MQSC.format("MQGET[A]:1+:trace:before"))

    found = []
    for opened, option in (("BROWSE", "BROWSE_FIRST"), ("INPUT_SHARED", "NO_SYNCPOINT")):
        handle = app.mqi.MessageHandle(app.handle)
        gmo = app.gmo("PROPERTIES_IN_HANDLE", option, MsgHandle=handle.msg_handle)
        app.open("A", opened).get(None, app.md(), gmo)
        found.append(handle.properties)

    browsed, got = found
    assert browsed.get(b"traceparent") == browsed.get(b"colour") == "as it was"
    assert got.get(b"colour") == "as it was"
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", got.get(b"traceparent"))
    assert got.get(b"tracestate").startswith("mq=")


@pytest.mark.parametrize("verb", ["MQDISC", "MQBACK"])
def test_every_call_on_a_broken_connection_fails(app: Application, verb: str) -> None:
    """IBM MQ docs, "2009 (07D9) (RC2009): MQRC_CONNECTION_BROKEN"."""
    app.put("A", b"lost", "SYNCPOINT")
    embedded_mq.faults.set(f"{verb}:1:2009:before")
    extension = app.mqi.ibmmqc if app.mqi.__name__ == "ibmmq" else app.mqi.pymqe

    assert getattr(extension, verb)(app.handle.get_handle()) == (2, 2009)
    with pytest.raises(app.mqi.MQMIError):
        app.put("A")
