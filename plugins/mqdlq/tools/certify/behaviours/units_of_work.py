"""Units of work: commit, back out, visibility, and the markers on the state queue."""

from __future__ import annotations

import secrets

from mqdlq.errors import AnotherExecutorError
from mqdlq.mqi.state_queue import Marker, StateQueue, open_state_queue
from mqdlq.mqi.unit_of_work import Delivery, UnitOfWork
from mqdlq.tools.certify.bench import (
    SOURCE,
    STATE,
    TARGET,
    Application,
    Bench,
    DeviationError,
    behaviour,
    expect,
    number_of,
)

DO_NOT_ACT = "do not let the handler act"


@behaviour(f"other programs get messages that are then backed out, and are doubled: {DO_NOT_ACT}")
def a_put_is_invisible_until_it_is_committed(bench: Bench) -> None:
    """A message put under syncpoint is invisible to other applications until MQCMIT.

    IBM MQ docs, "MQPMO options": MQPMO_SYNCPOINT.
    """
    bench.app.put(TARGET, 1, "SYNCPOINT")
    other = bench.another()

    expect("messages before MQCMIT", [], other.browse(TARGET))
    bench.app.commit()
    expect("messages after MQCMIT", [1], other.browse(TARGET))


@behaviour(f"two programs handle the same message: {DO_NOT_ACT}")
def a_message_got_is_invisible_until_the_unit_ends(bench: Bench) -> None:
    """A message got under syncpoint is invisible to other applications until the unit ends.

    IBM MQ docs, "MQGMO options": MQGMO_SYNCPOINT.
    """
    bench.app.put_numbered(SOURCE, 1, 2)
    bench.app.get(bench.app.open(SOURCE, "INPUT_SHARED"), "SYNCPOINT")
    other = bench.another()

    body, _ = other.get(other.open(SOURCE, "INPUT_SHARED"))
    expect("message", 2, number_of(body))
    expect("messages", [], other.browse(SOURCE))


@behaviour(f"messages are lost or doubled after a commit: {DO_NOT_ACT}")
def a_commit_keeps_the_puts_and_gets_of_its_unit(bench: Bench) -> None:
    """MQCMIT moves a message: it is on its target and no longer on its queue.

    IBM MQ docs, "MQCMIT - Commit changes".
    """
    bench.app.put_numbered(SOURCE, 1)
    bench.app.move_first(SOURCE)
    other = bench.another()

    expect("messages on the queue", [], other.browse(SOURCE))
    expect("messages on the target", [1], other.browse(TARGET))


def _back_out_a_move(app: Application) -> None:
    cursor = app.source_cursor(SOURCE)
    message = app.first(cursor)
    with UnitOfWork(cursor) as unit:
        got = unit.get_under_cursor(message.total_length)
        unit.put(got, Delivery(TARGET.name(app.prefix), "", got.body))
        unit.back_out()


@behaviour(f"a failed put loses or doubles the messages of its unit of work: {DO_NOT_ACT}")
def a_backed_out_unit_leaves_the_queues_as_they_were(bench: Bench) -> None:
    """MQBACK returns messages to their places on the queue, and removes the puts of the unit.

    IBM MQ docs, "MQBACK - Back out changes".
    """
    bench.app.put_numbered(SOURCE, 1, 2)
    _back_out_a_move(bench.app)
    other = bench.another()

    expect("messages on the target", [], other.browse(TARGET))
    left = [number_of(body) for body, _ in other.get_all(SOURCE)]
    expect("messages on the queue", [1, 2], left)


@behaviour(
    "snapshots do not mark messages that other programs have backed out; nothing else depends on it"
)
def a_backed_out_get_counts(bench: Bench) -> None:
    """BackoutCount counts the gets of a message that were backed out.

    IBM MQ docs, "BackoutCount (MQMD)".
    """
    bench.app.put_numbered(SOURCE, 1)
    for _ in range(2):
        _back_out_a_move(bench.app)

    expect("BackoutCount", [2], [md.BackoutCount for _, md in bench.app.get_all(SOURCE)])


@behaviour(
    "the handler backs out before it disconnects, so that nothing is lost; other programs may rely"
    " on it"
)
def disconnecting_commits(bench: Bench) -> None:
    """MQDISC commits an open unit of work.

    IBM MQ docs, "MQDISC - Disconnect queue manager".
    """
    other = bench.another()
    other.put(TARGET, 1, "SYNCPOINT")
    other.queue_manager.disconnect()

    expect("messages", [1], bench.another().browse(TARGET))


@behaviour(
    "markers cannot be trusted: after a lost connection, outcomes are wrong. Do not define the"
    " state queue: then each unit of work has one message, and an uncertain one is `unknown`"
)
def a_marker_is_there_if_its_unit_was_committed(bench: Bench) -> None:
    """A marker is on the state queue after MQCMIT of its unit of work, and not after MQBACK.

    IBM MQ docs, "MQPUT1 - Put one message", "MsgId (MQMD)".
    """
    app = bench.app
    name = STATE.name(app.prefix)
    with open_state_queue(app.queue_manager, name) as state:
        backed_out, committed = (Marker(secrets.token_hex(24), *"rpmw") for _ in range(2))
        state.put(backed_out)
        app.back_out()
        expect("markers after MQBACK", 0, len(state.markers()))
        state.put(committed)
        app.commit()
        seen = [marker.unit == committed.unit for marker in state.markers()]
        expect("markers after MQCMIT", "its own", "its own" if seen == [True] else "others or none")
        state.clear(committed.unit)
        app.commit()
        expect("markers after it is cleared", 0, len(state.markers()))


@behaviour(
    "two executors can act on one dead-letter queue at once: run only one, for example in a pool of"
    " one slot"
)
def a_state_queue_has_one_executor(bench: Bench) -> None:
    """A queue that is open for exclusive input cannot be opened for input a second time.

    IBM MQ docs, "2042 (07FA) (RC2042): MQRC_OBJECT_IN_USE".
    """
    app, other = bench.app, bench.another()
    name = STATE.name(app.prefix)
    with open_state_queue(app.queue_manager, name) as state:
        expect("marker store", StateQueue.__name__, type(state).__name__)
        try:
            with open_state_queue(other.queue_manager, name):
                raise DeviationError(
                    "MQOPEN: MQRC_OBJECT_IN_USE (2042)", "MQOPEN succeeds a second time"
                )
        except AnotherExecutorError:
            pass
    with open_state_queue(other.queue_manager, name) as state:
        expect("marker store", StateQueue.__name__, type(state).__name__)


@behaviour("the handler cannot tell how many messages a unit of work may have: no run acts")
def the_limit_of_a_unit_of_work_can_be_inquired(bench: Bench) -> str:
    """MQINQ returns MaxUncommittedMsgs of the queue manager.

    IBM MQ docs, "MaxUncommittedMsgs (MQLONG)".
    """
    limit = bench.app.queue_manager.inquire(bench.app.number("MQIA_MAX_UNCOMMITTED_MSGS"))
    expect("MaxUncommittedMsgs", "positive", "positive" if limit > 0 else "not positive")
    return f"MAXUMSGS({limit})"


@behaviour("sensing starts runs for no message, or starts none: watch the queue by other means")
def the_depth_counts_committed_messages(bench: Bench) -> None:
    """CurrentQDepth is the number of messages on a queue.

    IBM MQ docs, "CurrentQDepth (MQLONG)".
    """
    expect("depth", 0, bench.app.depth(SOURCE))
    bench.app.put_numbered(SOURCE, 1, 2)
    expect("depth", 2, bench.another().depth(SOURCE))
    bench.app.get_all(SOURCE)
    expect("depth", 0, bench.app.depth(SOURCE))
