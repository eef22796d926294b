"""Several processes on one queue manager, and the kill of one of them."""

from __future__ import annotations

import signal

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

pytestmark = pytest.mark.slow
KILLED = -signal.SIGKILL


def test_the_work_of_a_killed_process_is_backed_out(mq: World, app: Application) -> None:
    """IBM MQ docs, "Syncpoint considerations": abnormal end backs out; gets count as backed out."""
    for number in range(12):
        app.put("A", b"%02d" % number)
    code, _ = mq.run("""
queue = app.open("A", "INPUT_SHARED", "OUTPUT")
for _ in range(10):
    app.get(queue, "SYNCPOINT")
for _ in range(5):
    app.put(queue, b"never", "SYNCPOINT")
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
""")

    assert code == KILLED
    queue = app.open("A", "INPUT_SHARED")
    got = [app.get(queue) for _ in range(12)]
    assert [body for body, _ in got] == [b"%02d" % number for number in range(12)]
    assert [md.BackoutCount for _, md in got] == [1] * 10 + [0] * 2
    assert app.depth("A") == 0


def test_the_work_of_a_process_without_mqdisc_is_backed_out(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQDISC": only MQDISC commits; ending without it does not."""
    code, _ = mq.run("""
app.put("A", b"never", "SYNCPOINT")
kept = app.handle
kept._QueueManager__disconnect_on_exit = False
""")

    assert code == 0
    assert (app.bodies("A"), app.depth("A")) == ([], 0)


def test_the_client_disconnects_a_program_that_ends(mq: World, app: Application) -> None:
    """Both clients call MQDISC when Python deletes their QueueManager, and MQDISC commits."""
    code, _ = mq.run('app.put("A", b"committed", "SYNCPOINT")')

    assert code == 0
    assert app.bodies("A") == [b"committed"]


def test_a_kill_before_mqcmit_backs_out_and_a_later_kill_does_not(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "MQCMIT": after the call takes effect, the messages are permanent."""
    script = 'app.put("A", b"%s", "SYNCPOINT"); app.handle.commit()'

    before = mq.run(script % "before", MQDLQ_FAULTS="MQCMIT:1:kill:before")
    after = mq.run(script % "after", MQDLQ_FAULTS="MQCMIT:1:kill:after")

    assert (before[0], after[0]) == (KILLED, KILLED)
    assert app.bodies("A") == [b"after"]


def test_exclusive_input_excludes_other_processes_until_its_process_ends(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "2042 (07FA) (RC2042): MQRC_OBJECT_IN_USE"."""
    holder = mq.start("""
queue = app.open("A", "INPUT_EXCLUSIVE")
print("open", flush=True)
input()
""")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"

    for option in ("INPUT_SHARED", "INPUT_EXCLUSIVE", "INPUT_AS_Q_DEF"):
        with app.failing("MQRC_OBJECT_IN_USE"):
            app.open("A", option)
    app.open("A", "BROWSE").close()
    holder.kill()
    holder.communicate()
    app.open("A", "INPUT_EXCLUSIVE").close()


def test_a_put_of_another_process_wakes_a_waiting_get(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQGMO_WAIT": the call waits until a suitable message arrives."""
    putter = mq.start('input(); app.put("A", b"here")')
    assert putter.stdin is not None
    putter.stdin.write("\n")
    putter.stdin.flush()

    got = app.open("A", "INPUT_SHARED").get(None, app.md(), app.gmo("WAIT", WaitInterval=20_000))

    assert got == b"here"
    putter.communicate()


def test_a_put_is_invisible_to_another_process_until_it_is_committed(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "MQPMO_SYNCPOINT"."""
    app.put("A", b"1", "SYNCPOINT")
    look = 'print(app.bodies("A"), app.depth("A"))'

    assert mq.run(look) == (0, "[] 1")
    app.handle.commit()
    assert mq.run(look) == (0, "[b'1'] 1")


MOVER = """
import random
random.seed({seed})
queue, target = app.open("A", "INPUT_SHARED"), app.open("B", "OUTPUT")
wait = app.gmo("SYNCPOINT", "WAIT", WaitInterval=100)
try:
    while True:
        for _ in range(random.randint(1, 5)):
            app.put(target, queue.get(None, app.md(), wait), "SYNCPOINT")
        app.handle.backout() if random.random() < 0.2 else app.handle.commit()
except mqi.MQMIError as error:
    assert error.reason == app.number("MQRC_NO_MSG_AVAILABLE"), error
app.handle.commit()
"""


def test_three_processes_move_every_message_exactly_once(mq: World, app: Application) -> None:
    """IBM MQ docs, "Units of work": one process gets a message, or another one after a backout."""
    numbers = [b"%d" % number for number in range(300)]
    queue = app.open("A", "OUTPUT")
    for number in numbers:
        app.put(queue, number, "SYNCPOINT")
    app.handle.commit()
    queue.close()
    code, _ = mq.run(
        """
queue = app.open("A", "INPUT_SHARED")
while True:
    app.get(queue, "SYNCPOINT")
""",
        MQDLQ_FAULTS="MQGET:4:kill:after",
    )
    movers = [mq.start(MOVER.format(seed=seed)) for seed in range(2)]
    for mover in movers:
        mover.communicate(timeout=60)

    assert (code, [mover.returncode for mover in movers]) == (KILLED, [0, 0])
    assert app.bodies("A") == []
    assert sorted(app.bodies("B"), key=int) == numbers


def test_a_forked_child_does_not_inherit_the_connection(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQCONN": a handle belongs to the process that connected."""
    code, output = mq.run("""
import os
app.put("A", b"parent", "SYNCPOINT")
child = os.fork()
if child == 0:
    try:
        app.put("A", b"child", "SYNCPOINT")
    except mqi.MQMIError as error:
        os._exit(17 if error.reason == 2018 else 1)
_, status = os.waitpid(child, 0)
app.handle.commit()
print(os.waitstatus_to_exitcode(status))
""")

    assert (code, output) == (0, "17")
    assert app.bodies("A") == [b"parent"]
