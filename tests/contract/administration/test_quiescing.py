"""Calls on a queue manager that is quiescing or has ended."""

from __future__ import annotations

import pytest

import embedded_mq
from embedded_mq.errors import EmbeddedQueueManagerError
from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World


def test_calls_with_fail_if_quiescing_fail_on_a_quiescing_queue_manager(app: Application) -> None:
    """IBM MQ docs, "2161 (0871) (RC2161)".

    MQOO_FAIL_IF_QUIESCING, MQPMO_FAIL_IF_QUIESCING, MQGMO_FAIL_IF_QUIESCING.
    """
    queue = app.open("A", "INPUT_SHARED", "OUTPUT", "BROWSE")
    app.put(queue, b"1", "SYNCPOINT")
    embedded_mq.quiesce("QM1")

    attempts = (
        lambda: app.put(queue, b"", "FAIL_IF_QUIESCING"),
        lambda: app.put("A", b"", "FAIL_IF_QUIESCING"),
        lambda: app.get(queue, "BROWSE_FIRST", "FAIL_IF_QUIESCING"),
        lambda: app.open("A", "OUTPUT", "FAIL_IF_QUIESCING"),
    )
    for attempt in attempts:
        with app.failing("MQRC_Q_MGR_QUIESCING"):
            attempt()
    app.put("B", b"2", "SYNCPOINT")
    app.handle.commit()
    assert app.get(queue)[0] == b"1"


def test_a_quiescing_queue_manager_ends_with_its_last_connection(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "endmqm": a controlled end waits for all applications; MQCONN gives 2161."""
    other = mq.connect()
    embedded_mq.quiesce("QM1")

    with app.failing("MQRC_Q_MGR_QUIESCING"):
        mq.connect()
    app.put("A", b"persistent", "SYNCPOINT", Persistence=1)
    app.handle.disconnect()
    assert embedded_mq.status("QM1") == "QUIESCING"
    other.handle.disconnect()
    assert embedded_mq.status("QM1") == "ENDED"
    with other.failing("MQRC_Q_MGR_NOT_AVAILABLE"):
        mq.connect()
    embedded_mq.start("QM1")
    assert mq.connect().bodies("A") == [b"persistent"]


def test_a_client_gets_the_reason_codes_of_its_connection(mq: World) -> None:
    """IBM MQ docs, "2202 (089A) (RC2202)", "2203 (089B) (RC2203)": issued by the channel's MCA."""

    def connect() -> Application:
        handle = mq.mqi.connect("QM1", "DEV.APP.SVRCONN", "localhost(1414)")
        mq.applications.append(Application(mq.mqi, "QM1", handle=handle))
        return mq.applications[-1]

    client = connect()
    embedded_mq.quiesce("QM1")
    with client.failing("MQRC_CONNECTION_QUIESCING"):
        connect()
    with client.failing("MQRC_CONNECTION_QUIESCING"):
        client.open("A", "OUTPUT", "FAIL_IF_QUIESCING")
    client.open("A", "OUTPUT").close()
    embedded_mq.end("QM1")
    with client.failing("MQRC_CONNECTION_STOPPING"):
        client.open("A", "OUTPUT")
    with client.failing("MQRC_CONNECTION_BROKEN"):
        client.open("A", "OUTPUT")


def test_quiescing_ends_a_queue_manager_without_connections(mq: World) -> None:
    """IBM MQ docs, "endmqm": without connections, the end does not wait."""
    mq.mqsc("DISPLAY QMSTATUS")
    embedded_mq.quiesce("QM1")

    assert embedded_mq.status("QM1") == "ENDED"


@pytest.mark.slow
def test_quiescing_cancels_the_waiting_get_of_another_process(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQGMO_FAIL_IF_QUIESCING": a get that waits is cancelled."""
    queue = app.open("A", "INPUT_SHARED")
    other = mq.start('input(); embedded_mq.quiesce("QM1")')
    assert other.stdin is not None
    other.stdin.write("\n")
    other.stdin.flush()

    with app.failing("MQRC_Q_MGR_QUIESCING"):
        wait = app.gmo("WAIT", "FAIL_IF_QUIESCING", WaitInterval=20_000)
        queue.get(None, app.md(), wait)
    other.communicate()


def test_ending_a_queue_manager_backs_out_and_breaks_every_connection(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "2162 (0872) (RC2162): MQRC_Q_MGR_STOPPING", then 2009; "2059 (080B)"."""
    for number in range(2):
        app.put("A", b"%d" % number, Persistence=1)
    queue = app.open("A", "INPUT_EXCLUSIVE")
    app.get(queue, "SYNCPOINT")
    app.put("B", b"never", "SYNCPOINT", Persistence=1)
    embedded_mq.end("QM1")

    with app.failing("MQRC_Q_MGR_STOPPING"):
        app.handle.commit()
    with app.failing("MQRC_CONNECTION_BROKEN"):
        app.get(queue)
    with app.failing("MQRC_Q_MGR_NOT_AVAILABLE"):
        mq.connect()
    embedded_mq.start("QM1")
    other = mq.connect()
    body, md = other.get(other.open("A", "INPUT_EXCLUSIVE"))
    assert (body, md.BackoutCount) == (b"0", 1)
    assert (other.bodies("A"), other.bodies("B")) == ([b"1"], [])


def test_a_connection_does_not_survive_an_unnoticed_restart(mq: World, app: Application) -> None:
    """IBM MQ docs, "2009 (07D9) (RC2009): MQRC_CONNECTION_BROKEN"."""
    app.put("A", b"1", "SYNCPOINT", Persistence=1)
    embedded_mq.end("QM1")
    embedded_mq.start("QM1")

    with app.failing("MQRC_CONNECTION_BROKEN"):
        app.handle.commit()
    assert mq.connect().bodies("A") == []


def test_nonpersistent_messages_do_not_survive_the_end_of_a_queue_manager(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "Persistence (MQMD)", "NonPersistentMessageClass": MQNPM_CLASS_HIGH."""
    mq.mqsc("ALTER QLOCAL(B) NPMCLASS(HIGH)")
    for queue in ("A", "B"):
        app.put(queue, b"not", Persistence=0)
        app.put(queue, b"persistent", Persistence=1)
    app.handle.disconnect()
    embedded_mq.end("QM1")
    embedded_mq.start("QM1")

    other = mq.connect()
    assert (other.bodies("A"), other.depth("A")) == ([b"persistent"], 1)
    assert other.bodies("B") == [b"not", b"persistent"]


def test_end_and_start_refuse_a_queue_manager_in_the_wrong_state(mq: World) -> None:
    with pytest.raises(EmbeddedQueueManagerError) as caught:
        embedded_mq.start("QM1")
    assert str(caught.value) == "queue manager QM1 is running; end it first"
    embedded_mq.end("QM1")
    for call in (embedded_mq.end, embedded_mq.quiesce, embedded_mq.depths):
        with pytest.raises(EmbeddedQueueManagerError) as caught:
            call("QM1")
        assert str(caught.value) == (
            "queue manager QM1 is ended; `embedded-mq start QM1` starts it"
        )
    with pytest.raises(EmbeddedQueueManagerError, match="queue manager QM2 does not exist"):
        embedded_mq.end("QM2")
    assert mq.applications == []
