"""The log of calls, by which a test proves that a program changed nothing."""

from __future__ import annotations

import pytest

import embedded_mq
from tests.support.contract_worlds import World
from tests.support.wire.pcf_messages import COMMAND_QUEUE, Commander

pytestmark = pytest.mark.embedded_only


def test_the_log_of_calls_lists_calls_and_commands_of_its_block(mq: World) -> None:
    """MQCMD_CLEAR_Q follows the MQPUT1 that sends it."""
    app = mq.connect()
    app.put("A", b"before")
    commander = Commander(app)
    clear = commander.command("MQCMD_CLEAR_Q", commander.text("MQCA_Q_NAME", "A"))

    with embedded_mq.log_of_calls() as calls:
        queue = app.open("A", "BROWSE")
        app.get(queue, "BROWSE_NEXT")
        queue.close()
        commander.put(clear)
        other = mq.connect()
        other.handle.disconnect()
    app.put("A", b"after")

    first = calls[0].connection
    assert [(call.verb, call.name) for call in calls] == [
        ("MQOPEN", "A"),
        ("MQGET", "A"),
        ("MQCLOSE", "A"),
        ("MQPUT1", COMMAND_QUEUE),
        ("MQCMD_CLEAR_Q", "A"),
        ("MQCONNX", "QM1"),
        ("MQDISC", ""),
    ]
    assert [call.connection == first for call in calls] == [*[True] * 4, *[False] * 3]
    assert calls[0].options == app.number("MQOO_BROWSE")
    assert calls[1].options & app.number("MQGMO_BROWSE_NEXT")


def test_two_logs_of_calls_end_on_their_own(mq: World) -> None:
    app = mq.connect()
    with embedded_mq.log_of_calls() as outer:
        with embedded_mq.log_of_calls() as inner:
            app.put("A")
        app.handle.commit()

    assert [call.verb for call in inner] == ["MQPUT1"]
    assert [call.verb for call in outer] == ["MQPUT1", "MQCMIT"]
