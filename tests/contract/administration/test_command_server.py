"""The embedded command server: commands, and responses that cannot be delivered."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from embedded_mq.pcf.constants import reason_code
from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World
from tests.support.wire.pcf_messages import COMMAND_QUEUE, LOCAL, Commander, Given, typed

pytestmark = pytest.mark.stages

DLH_LENGTH = 172
MODEL = "SYSTEM.DEFAULT.MODEL.QUEUE"


@pytest.fixture
def commander(mq: World, app: Application) -> Commander:
    mq.mqsc("ALTER QMGR DEADQ(B)")
    return Commander(app)


def test_mqsc_and_pcf_have_the_same_queues(mq: World, commander: Commander) -> None:
    """PCF ignores the same attributes as MQSC, and each shows the queues of the other."""
    message = commander.command(
        "MQCMD_CREATE_Q",
        typed(commander, "CFST", "MQCA_Q_NAME", b"R"),
        typed(commander, "CFIN", "MQIA_Q_TYPE", 6),
        typed(commander, "CFST", "MQCA_REMOTE_Q_NAME", b"THERE"),
        typed(commander, "CFST", "MQCA_CLUSTER_NAME", b"NONE"),
    )

    assert commander.ask(message) == (0, {})
    assert mq.mqsc("DISPLAY QREMOTE(R) RNAME") == ["QUEUE(R) TYPE(QREMOTE) RNAME(THERE)"]
    mq.mqsc("DEFINE QLOCAL(L) DESCR('by MQSC')")
    inquiry = commander.command("MQCMD_INQUIRE_Q", commander.text("MQCA_Q_NAME", "L"))
    number = commander.app.number("MQCA_Q_DESC")
    assert commander.ask(inquiry)[1][number].rstrip() == b"by MQSC"


def test_pcf_neither_clears_nor_deletes_an_open_queue(mq: World, commander: Commander) -> None:
    """IBM MQ docs, "4004 (0FA4) (RC4004): MQRCCF_OBJECT_OPEN"."""
    reader = mq.connect().open("A", "INPUT_SHARED")
    name = commander.text("MQCA_Q_NAME", "A")

    for command in ("MQCMD_CLEAR_Q", "MQCMD_DELETE_Q"):
        assert commander.ask(commander.command(command, name))[0] == reason_code(
            "MQRCCF_OBJECT_OPEN"
        )
    reader.close()
    assert commander.ask(commander.command("MQCMD_DELETE_Q", name))[0] == 0


NEEDED = [
    ("PING_Q_MGR", [], "DSP"),
    ("INQUIRE_Q", [("CFST", "MQCA_Q_NAME", b"A")], "DSP"),
    ("CHANGE_Q", [("CFST", "MQCA_Q_NAME", b"A"), LOCAL], "CHG"),
    ("CLEAR_Q", [("CFST", "MQCA_Q_NAME", b"A")], "CLR"),
    ("DELETE_Q", [("CFST", "MQCA_Q_NAME", b"A")], "DLT"),
    ("CREATE_Q", [("CFST", "MQCA_Q_NAME", b"NEW"), LOCAL], "CRT"),
]


def permitted(mq: World, *, displays: bool = True) -> Commander:
    """Connect a user whose only authority is to put commands."""
    words = "CONNECT,DSP" if displays else "CONNECT"
    mq.mqsc(f"""SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD({words})
        SET AUTHREC PROFILE({COMMAND_QUEUE}) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(PUT)
        SET AUTHREC PROFILE({MODEL}) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(GET)""")
    return Commander(mq.connect_as("alice"))


def grant(mq: World, profile: str, word: str) -> None:
    mq.mqsc(f"SET AUTHREC PROFILE({profile}) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD({word})")


@pytest.mark.parametrize(("command", "given", "word"), NEEDED)
def test_a_pcf_command_needs_the_authority_of_its_user(
    mq: World, command: str, given: list[Given], word: str
) -> None:
    """IBM MQ docs, "Authorizations for PCF commands", "2035 (07F3) (RC2035)"."""
    commander = permitted(mq, displays=command != "PING_Q_MGR")
    message = commander.command(f"MQCMD_{command}", *(typed(commander, *each) for each in given))
    assert commander.ask(message)[0] == reason_code("MQRC_NOT_AUTHORIZED")

    if not given:
        mq.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(DSP)")
    else:
        grant(mq, given[0][2].decode(), word)
        if command == "CREATE_Q":
            assert commander.ask(message)[0] == reason_code("MQRC_NOT_AUTHORIZED")
            grant(mq, "SYSTEM.DEFAULT.LOCAL.QUEUE", "DSP")
    assert commander.ask(message)[0] == 0


def test_a_generic_name_selects_queues_the_user_may_display(mq: World) -> None:
    """IBM MQ docs, "Inquire Queue": other queues are left out of the responses."""
    commander = permitted(mq)
    grant(mq, "B", "DSP")
    name = commander.text("MQCA_Q_NAME", "*")

    found, queue = commander.ask(commander.command("MQCMD_INQUIRE_Q", name))
    assert found == 0
    assert queue[commander.app.number("MQCA_Q_NAME")].rstrip() == b"B"
    assert commander.ask(commander.command("MQCMD_PING_Q_MGR"))[0] == 0


def dead_letter(app: Application) -> tuple[int, bytes, int, Any]:
    """Get the message on the dead-letter queue and its descriptor.

    Returns the reason and the queue in its MQDLH, and the MQCFT after it.
    """
    data, md = app.get(app.open("B", "INPUT_SHARED"))
    reason, queue = struct.unpack_from("<i48s", data, 8)
    (kind,) = struct.unpack_from("<i", data, DLH_LENGTH)
    assert (md.Format, data[:4]) == (b"MQDEAD  ", b"DLH ")
    return reason, queue.rstrip(), kind, md


@pytest.mark.embedded_only
def test_a_pcf_response_that_cannot_be_put_becomes_a_dead_letter(commander: Commander) -> None:
    """IBM MQ docs, "Report (MQMD)": MQRO_DISCARD_MSG, MQRO_PASS_DISCARD_AND_EXPIRY."""
    app, ping = commander.app, commander.command("MQCMD_PING_Q_MGR")
    sent = commander.put(ping, ReplyToQ=b"NOBODY")

    reason, queue, kind, md = dead_letter(app)
    assert (reason, queue, kind) == (2085, b"NOBODY", app.mqi.CMQCFC.MQCFT_RESPONSE)
    assert (md.CorrelId, md.MsgType) == (sent.MsgId, 2)
    discard = app.number("MQRO_PASS_DISCARD_AND_EXPIRY") | app.number("MQRO_DISCARD_MSG")
    commander.put(ping, ReplyToQ=b"NOBODY", Report=discard)
    assert app.depth("B") == 0


def test_an_undeliverable_pcf_response_is_lost_without_a_dead_letter_queue(
    mq: World, commander: Commander
) -> None:
    mq.mqsc("ALTER QMGR DEADQ('')")
    commander.put(commander.command("MQCMD_PING_Q_MGR"), ReplyToQ=b"NOBODY")
    mq.mqsc("ALTER QMGR DEADQ(NOTHING)")
    commander.put(commander.command("MQCMD_PING_Q_MGR"), ReplyToQ=b"NOBODY")

    assert (commander.app.depth("B"), commander.app.depth(COMMAND_QUEUE)) == (0, 0)


@pytest.mark.embedded_only
def test_a_command_message_that_is_not_a_request_becomes_a_dead_letter(
    commander: Commander,
) -> None:
    """IBM MQ docs, "Message descriptor for a PCF command": MsgType is MQMT_REQUEST."""
    clear = commander.command("MQCMD_CLEAR_Q", commander.text("MQCA_Q_NAME", "A"))
    commander.app.put("A")
    sent = commander.put(clear, MsgType=8)

    reason, queue, kind, md = dead_letter(commander.app)
    assert (reason, queue, kind) == (2029, COMMAND_QUEUE.encode(), 1)
    assert md.MsgId == sent.MsgId
    assert commander.app.depth("A") == 1


@pytest.mark.embedded_only
def test_a_pcf_response_inherits_what_the_report_options_pass(commander: Commander) -> None:
    """IBM MQ docs, "Report (MQMD)": MQRO_PASS_MSG_ID, MQRO_PASS_CORREL_ID, and expiry."""
    app, ping = commander.app, commander.command("MQCMD_PING_Q_MGR")
    passes = ("MQRO_PASS_DISCARD_AND_EXPIRY", "MQRO_PASS_MSG_ID", "MQRO_PASS_CORREL_ID")
    report = sum(app.number(name) for name in passes)
    sent = commander.put(ping, Report=report, Expiry=600, CorrelId=b"c" * 24, Priority=7)

    _, _, md = commander.response()
    assert (md.MsgId, md.CorrelId, md.Priority) == (sent.MsgId, b"c" * 24, 7)
    assert 0 < md.Expiry <= 600


def test_pcf_commands_wait_while_the_command_queue_is_get_inhibited(
    mq: World, commander: Commander
) -> None:
    """The next put to the command queue runs all of them, in their order."""
    name = commander.text("MQCA_Q_NAME", "A")
    mq.mqsc(f"ALTER QLOCAL({COMMAND_QUEUE}) GET(DISABLED)")
    commander.app.put("A")
    commander.put(commander.command("MQCMD_CLEAR_Q", name))
    assert (commander.app.depth("A"), commander.app.depth(COMMAND_QUEUE)) == (1, 1)

    mq.mqsc(f"ALTER QLOCAL({COMMAND_QUEUE}) GET(ENABLED)")
    commander.put(commander.command("MQCMD_PING_Q_MGR"))
    assert commander.app.depth("A") == 0
    assert [commander.response()[0].Command for _ in range(2)] == [9, 40]


def test_an_expired_pcf_command_does_not_run(mq: World, commander: Commander) -> None:
    """IBM MQ docs, "Expiry (MQMD)": it is discarded like any other message."""
    name = commander.text("MQCA_Q_NAME", "A")
    mq.mqsc(f"ALTER QLOCAL({COMMAND_QUEUE}) GET(DISABLED)")
    commander.app.put("A")
    commander.put(commander.command("MQCMD_CLEAR_Q", name), Expiry=1)
    with commander.app.failing("MQRC_NO_MSG_AVAILABLE"):
        commander.replies.get(None, commander.app.md(), commander.app.gmo("WAIT", WaitInterval=150))

    mq.mqsc(f"ALTER QLOCAL({COMMAND_QUEUE}) GET(ENABLED)")
    assert commander.ask(commander.command("MQCMD_PING_Q_MGR")) == (0, {})
    assert (commander.app.depth("A"), commander.app.depth(COMMAND_QUEUE)) == (1, 0)


@pytest.mark.slow
def test_a_pcf_command_survives_a_kill_of_its_process(mq: World, commander: Commander) -> None:
    """Changes of the process remain, and the command runs again."""
    script = """
import os, signal
from embedded_mq.pcf import command_server
carried_out = command_server.responses_to

def carried_out_and_killed(*command):
    list(carried_out(*command))
    os.kill(os.getpid(), signal.SIGKILL)

command_server.responses_to = carried_out_and_killed
mqi.PCFExecute(app.handle).MQCMD_DELETE_Q({mqi.CMQC.MQCA_Q_NAME: b'A'})
"""
    assert mq.run(script)[0] == -9
    assert commander.app.depth(COMMAND_QUEUE) == 1
    with commander.app.failing("MQRC_UNKNOWN_OBJECT_NAME"):
        commander.app.put("A")

    assert commander.ask(commander.command("MQCMD_PING_Q_MGR")) == (0, {})
    assert (commander.app.depth(COMMAND_QUEUE), commander.app.depth("B")) == (0, 0)


def test_an_alias_of_the_command_queue_takes_commands(mq: World, commander: Commander) -> None:
    mq.mqsc(f"DEFINE QALIAS(COMMANDS) TARGET({COMMAND_QUEUE})")
    commander.app.put(
        "COMMANDS",
        commander.command("MQCMD_PING_Q_MGR"),
        Format=b"MQADMIN ",
        MsgType=1,
        ReplyToQ=commander.reply_q.encode(),
    )

    assert commander.response()[0].Reason == 0


def test_a_pcf_command_committed_by_mqdisc_runs(mq: World, commander: Commander) -> None:
    """IBM MQ docs, "MQDISC": an open unit of work is committed."""
    other = mq.connect()
    clear = commander.command("MQCMD_CLEAR_Q", commander.text("MQCA_Q_NAME", "A"))
    commander.app.put("A")
    request = {"Format": b"MQADMIN ", "MsgType": 1, "ReplyToQ": commander.reply_q.encode()}
    other.put(COMMAND_QUEUE, clear, "SYNCPOINT", **request)
    assert commander.app.depth("A") == 1

    other.handle.disconnect()
    assert commander.response()[0].Reason == 0
    assert commander.app.depth("A") == 0


@pytest.mark.slow
def test_several_processes_send_pcf_commands_at_the_same_time(
    mq: World, commander: Commander
) -> None:
    """Each process gets the responses to its own commands."""
    script = """
for number in range(30):
    pcf = mqi.PCFExecute(app.handle)
    (found,) = pcf.MQCMD_INQUIRE_Q_NAMES({mqi.CMQC.MQCA_Q_NAME: b'A'})
    assert found[mqi.CMQCFC.MQIACF_Q_TYPES] == [1]
    pcf.disconnect()
print('done')
"""
    others = [mq.start(script) for _ in range(2)]
    while any(other.poll() is None for other in others):
        assert commander.ask(commander.command("MQCMD_PING_Q_MGR"))[0] == 0

    assert [other.communicate()[0].strip() for other in others] == ["done", "done"]
    assert commander.app.depth(COMMAND_QUEUE) == 0
