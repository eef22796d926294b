"""Programs of users run unchanged with one more line at the top.

Each program is a separate script with the calls that the documentation of pymqi and ibmmq shows. It
calls `embedded_mq.install()` before it imports the client.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

TOP = """
import embedded_mq; {boundary}
import {client} as mq
from {client} import CMQC

queue_manager, channel, conn_info = "QM1", "DEV.APP.SVRCONN", "localhost(1414)"
queue_name = "A"
"""

PUT = """
message = "Hello from Python!"
qmgr = mq.connect(queue_manager, channel, conn_info)

queue = mq.Queue(qmgr, queue_name)
queue.put(message)
queue.close()

qmgr.disconnect()
"""

GET = """
qmgr = mq.connect(queue_manager, channel, conn_info)

queue = mq.Queue(qmgr, queue_name)
message = queue.get()
queue.close()
print(message.decode())

qmgr.disconnect()
"""

SIGN_ON = """
qmgr = mq.connect(queue_manager, channel, conn_info, "app", "passw0rd")
print("connected" if qmgr.get_handle() else "not connected")
qmgr.disconnect()
"""

OPTIONS = """
cd = mq.CD()
cd.ChannelName = channel.encode()
cd.ConnectionName = conn_info.encode()
cd.SSLCipherSpec = b"TLS_AES_256_GCM_SHA384"

sco = mq.SCO()
sco.KeyRepository = b"/var/mqm/ssl/key"

qmgr = mq.QueueManager(None)
qmgr.connect_with_options(queue_manager, cd, sco)
print(qmgr.inquire(CMQC.MQCA_Q_MGR_NAME).decode().strip())
qmgr.disconnect()
"""

LISTEN = """
qmgr = mq.connect(queue_manager, channel, conn_info)
queue = mq.Queue(qmgr, queue_name)

md = mq.MD()
gmo = mq.GMO()
gmo.Options = CMQC.MQGMO_WAIT | CMQC.MQGMO_FAIL_IF_QUIESCING
gmo.WaitInterval = 20  # milliseconds

keep_running = True
while keep_running:
    try:
        print(queue.get(None, md, gmo).decode())
        md.MsgId = CMQC.MQMI_NONE  # or the next call would look for this message again
        md.CorrelId = CMQC.MQCI_NONE
        md.GroupId = CMQC.MQGI_NONE
    except mq.MQMIError as e:
        if e.comp == CMQC.MQCC_FAILED and e.reason == CMQC.MQRC_NO_MSG_AVAILABLE:
            keep_running = False
        else:
            raise

queue.close()
qmgr.disconnect()
"""

BROWSE = """
qmgr = mq.connect(queue_manager)
queue = mq.Queue(qmgr, queue_name, CMQC.MQOO_BROWSE)

md, gmo = mq.MD(), mq.GMO()
gmo.Options = CMQC.MQGMO_BROWSE_FIRST
try:
    while True:
        print(queue.get(None, md, gmo), md.Format.strip(), md.PutApplType == CMQC.MQAT_UNIX)
        md, gmo.Options = mq.MD(), CMQC.MQGMO_BROWSE_NEXT
except mq.MQMIError as e:
    print(e.reason == CMQC.MQRC_NO_MSG_AVAILABLE)

queue.close()
qmgr.disconnect()
"""

SYNCPOINT = """
qmgr = mq.connect(queue_manager)
source = mq.Queue(qmgr, "A", CMQC.MQOO_INPUT_AS_Q_DEF)
target = mq.Queue(qmgr, "B", CMQC.MQOO_OUTPUT)

for outcome in (qmgr.backout, qmgr.commit):
    md = mq.MD()
    message = source.get(None, md, mq.GMO(Options=CMQC.MQGMO_SYNCPOINT))
    target.put(message, mq.MD(), mq.PMO(Options=CMQC.MQPMO_SYNCPOINT))
    outcome()
    print(message.decode(), md.BackoutCount)

qmgr.disconnect()
"""

INQUIRE = """
qmgr = mq.connect(queue_manager)
print(qmgr.inquire(CMQC.MQCA_DEAD_LETTER_Q_NAME).strip().decode())

queue = mq.Queue(qmgr, queue_name, CMQC.MQOO_INQUIRE | CMQC.MQOO_SET)
print(queue.inquire(CMQC.MQIA_CURRENT_Q_DEPTH), queue.inquire(CMQC.MQIA_MAX_Q_DEPTH))

queue.set(CMQC.MQIA_INHIBIT_PUT, CMQC.MQQA_PUT_INHIBITED)
try:
    qmgr.put1(queue_name, b"")
except mq.MQMIError as e:
    print(e.errorAsString())
queue.set(CMQC.MQIA_INHIBIT_PUT, CMQC.MQQA_PUT_ALLOWED)
qmgr.disconnect()
"""

PUT1_WITH_CONTEXT = """
qmgr = mq.connect(queue_manager)

od = mq.OD()
od.ObjectName = queue_name.encode()
md = mq.MD()
md.UserIdentifier = b"alice"
md.ApplIdentityData = b"ticket 4711"
md.Format = CMQC.MQFMT_STRING
pmo = mq.PMO()
pmo.Options = CMQC.MQPMO_SET_IDENTITY_CONTEXT

qmgr.put1(od, b"on behalf of Alice", md, pmo)
print(len(md.MsgId), md.UserIdentifier.decode().strip())
qmgr.disconnect()
"""

PROPERTIES = """
qmgr = mq.connect(queue_manager)

sent = mq.MessageHandle(qmgr)
sent.properties.set(b"colour", "red")
pmo = mq.PMO(Version=CMQC.MQPMO_VERSION_3, NewMsgHandle=sent.msg_handle)
queue = mq.Queue(qmgr, queue_name)
queue.put(b"a message", mq.MD(Version=CMQC.MQMD_VERSION_2), pmo)

got = mq.MessageHandle(qmgr)
gmo = mq.GMO(Version=CMQC.MQGMO_VERSION_4, MsgHandle=got.msg_handle)
gmo.Options = CMQC.MQGMO_PROPERTIES_IN_HANDLE
mq.Queue(qmgr, queue_name).get(None, mq.MD(Version=CMQC.MQMD_VERSION_2), gmo)
print(got.properties.get(b"colour"))
qmgr.disconnect()
"""


Run = Callable[[str], list[str]]


@pytest.fixture
def run(mq: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a script and return the lines it prints."""

    def run_script(script: str) -> list[str]:
        path = tmp_path / "example.py"
        path.write_text(TOP.format(client=mq.client, boundary=mq.boundary) + script)
        runpy.run_path(str(path))
        return capsys.readouterr().out.splitlines()

    return run_script


@pytest.mark.embedded_only
@pytest.mark.parametrize(
    ("script", "lines"),
    [
        pytest.param(GET, ["first"], id="get"),
        pytest.param(SIGN_ON, ["connected"], id="connect with user and password"),
        pytest.param(OPTIONS, ["QM1"], id="connect with options"),
        pytest.param(LISTEN, ["first", "second"], id="wait for messages"),
        pytest.param(
            BROWSE, ["b'first' b'MQSTR' True", "b'second' b'MQSTR' True", "True"], id="browse"
        ),
        pytest.param(SYNCPOINT, ["first 0", "first 1"], id="syncpoint"),
        pytest.param(INQUIRE, ["B", "2 5000", "FAILED: MQRC_PUT_INHIBITED"], id="inquire and set"),
        pytest.param(PUT1_WITH_CONTEXT, ["24 alice"], id="put1 with context"),
    ],
)
def test_an_example_program_reads_messages(
    mq: World,
    app: Application,
    run: Run,
    script: str,
    lines: list[str],
) -> None:
    """Two messages are on A; B is the dead-letter queue. MQCONNX, MQPUT1, MQINQ, MQSET, MQBACK."""
    mq.mqsc("ALTER QMGR DEADQ(B)")
    for text in ("first", "second"):
        app.put("A", text.encode(), Format=b"MQSTR   ")

    assert run(script) == lines


@pytest.mark.embedded_only
def test_an_example_program_puts_text(app: Application, run: Run) -> None:
    """Both clients put a str as UTF-8 and set the CCSID in the descriptor."""
    run(PUT)

    body, md = app.get(app.open("A", "INPUT_SHARED"))
    assert (body, md.Format, md.CodedCharSetId) == (b"Hello from Python!", b"MQSTR   ", 1208)


@pytest.mark.embedded_only
def test_an_example_program_sets_message_context(app: Application, run: Run) -> None:
    """IBM MQ docs, "MQPMO options": MQPMO_SET_IDENTITY_CONTEXT."""
    run(PUT1_WITH_CONTEXT)

    _, md = app.get(app.open("A", "INPUT_SHARED"))
    assert md.UserIdentifier == b"alice".ljust(12)
    assert md.ApplIdentityData == b"ticket 4711".ljust(32)


@pytest.mark.embedded_only
def test_an_example_program_sends_message_properties(run: Run) -> None:
    """IBM MQ docs, "MQCRTMH", "MQSETMP", "MQINQMP"."""
    assert run(PROPERTIES) == ["red"]
