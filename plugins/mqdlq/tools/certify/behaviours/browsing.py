"""Browsing: order, visibility, cursors, and lengths."""

from __future__ import annotations

from itertools import islice

from mqdlq.mqi.unit_of_work import UnitOfWork
from mqdlq.tools.certify.bench import (
    SOURCE,
    Bench,
    behaviour,
    body_of,
    expect,
    expect_reason,
    number_of,
)

LENGTH = 5000


@behaviour(
    "a snapshot has another order than the queue, so that equal messages are mistaken for each"
    " other, and messages for one target change places: do not let the handler act"
)
def a_browse_returns_messages_in_the_order_of_their_puts(bench: Bench) -> None:
    """A browse returns messages of equal priority in the order in which they were put.

    IBM MQ docs, "Order in which messages are retrieved from a queue".
    """
    bench.app.put_numbered(SOURCE, 1, 2, 3)

    expect("messages", [1, 2, 3], bench.app.browse(SOURCE))


@behaviour("messages of high priority are handled after others; each message still has its outcome")
def a_browse_returns_higher_priorities_first(bench: Bench) -> None:
    """A browse returns messages of higher priority first.

    IBM MQ docs, "MsgDeliverySequence": MQMDS_PRIORITY.
    """
    for number, priority in ((1, 2), (2, 9), (3, 5)):
        bench.app.put(SOURCE, number, Priority=priority)

    expect("messages", [2, 3, 1], bench.app.browse(SOURCE))


@behaviour("snapshots remove messages: do not let the handler browse")
def a_browse_removes_no_message(bench: Bench) -> None:
    """A browse leaves the messages on the queue, and does not change their BackoutCount.

    IBM MQ docs, "Browsing messages on a queue".
    """
    bench.app.put_numbered(SOURCE, 1, 2)
    bench.app.browse(SOURCE)

    expect("messages", 2, bench.app.depth(SOURCE))
    found = bench.app.get_all(SOURCE)
    expect("messages", [1, 2], [number_of(body) for body, _ in found])
    expect("BackoutCount", [0, 0], [md.BackoutCount for _, md in found])


@behaviour(
    "a snapshot has messages that may still be backed out, or that another program is getting; the"
    " run books them as taken"
)
def a_browse_skips_uncommitted_messages(bench: Bench) -> None:
    """A browse shows neither uncommitted puts nor uncommitted gets of another application.

    IBM MQ docs, "Browsing messages on a queue".
    """
    bench.app.put_numbered(SOURCE, 1, 2)
    other = bench.another()
    other.get(other.open(SOURCE, "INPUT_SHARED"), "SYNCPOINT")
    other.put(SOURCE, 3, "SYNCPOINT")

    expect("messages", [2], bench.app.browse(SOURCE))


@behaviour(
    "the handler could act on another message than the rule was for: do not let the handler act"
)
def a_get_under_the_cursor_gets_the_browsed_message(bench: Bench) -> None:
    """A get under the browse cursor gets the message that was browsed last, whatever its ids.

    IBM MQ docs, "MQGMO options": MQGMO_MSG_UNDER_CURSOR.
    """
    app = bench.app
    app.put_numbered(SOURCE, 1, 2, 3)
    cursor = app.source_cursor(SOURCE)
    browsed = list(islice(cursor.messages(), 2))[-1]
    with UnitOfWork(cursor) as unit:
        got = unit.get_under_cursor(browsed.total_length)
        unit.commit()

    expect("message", 2, number_of(got.body))
    expect("messages that stay", [1, 3], sorted(app.browse(SOURCE)))


@behaviour(
    "the handler cannot see that another program was faster; it may then act on another message"
)
def a_message_that_another_application_got_is_not_under_the_cursor(bench: Bench) -> None:
    """A get under the cursor fails if another application has got the message since.

    IBM MQ docs, "2034 (07F2) (RC2034): MQRC_NO_MSG_UNDER_CURSOR".
    """
    bench.app.put_numbered(SOURCE, 1)
    cursor = bench.app.source_cursor(SOURCE)
    length = bench.app.first(cursor).total_length
    other = bench.another()
    other.get(other.open(SOURCE, "INPUT_SHARED"))

    with (
        UnitOfWork(cursor) as unit,
        expect_reason("MQGET", "MQRC_NO_MSG_UNDER_CURSOR", "MQRC_NO_MSG_AVAILABLE"),
    ):
        unit.get_under_cursor(length)


@behaviour(
    "the handler finds messages by walking the queue, which takes long on a deep queue, or fails to"
    " find them and books them as taken"
)
def a_message_token_finds_its_message(bench: Bench) -> None:
    """A browse with the MsgToken of a message finds this message.

    IBM MQ docs, "MatchOptions (MQGMO)": MQMO_MATCH_MSG_TOKEN.
    """
    bench.app.put_numbered(SOURCE, 1, 2, 3)
    cursor = bench.app.source_cursor(SOURCE)
    tokens = [message.token for message in cursor.messages()]

    found = cursor.find(tokens[1])
    expect("message", 2, number_of(found.prefix) if found else "no message")


@behaviour(
    "the handler takes long messages for short ones, and their data could be lost: do not let the"
    " handler act"
)
def a_browse_of_the_first_bytes_states_the_whole_length(bench: Bench) -> None:
    """A browse with a short buffer returns the first bytes and the length of the whole message.

    IBM MQ docs, "2079 (081F) (RC2079): MQRC_TRUNCATED_MSG_ACCEPTED".
    """
    body = body_of(1).ljust(LENGTH)
    bench.app.put(SOURCE, body)
    cursor = bench.app.source_cursor(SOURCE)

    message = bench.app.first(cursor)
    expect("length", LENGTH, message.total_length)
    expect("bytes", 172, len(message.prefix))
    with UnitOfWork(cursor) as unit:
        got = unit.get_under_cursor(message.total_length)
        unit.commit()
    expect("data", "unchanged", "unchanged" if got.body == body else "changed")


@behaviour("a message that has grown since it was browsed loses data: do not let the handler act")
def a_get_with_a_short_buffer_leaves_the_message(bench: Bench) -> None:
    """A get with a short buffer fails, and the whole message stays on the queue.

    IBM MQ docs, "2080 (0820) (RC2080): MQRC_TRUNCATED_MSG_FAILED".
    """
    body = body_of(1).ljust(LENGTH)
    bench.app.put(SOURCE, body)
    opened = bench.app.open(SOURCE, "INPUT_SHARED")

    with expect_reason("MQGET", "MQRC_TRUNCATED_MSG_FAILED"):
        bench.app.get(opened, length=100)
    expect("messages", 1, bench.app.depth(SOURCE))
    whole, _ = bench.app.get(opened)
    expect("data", "unchanged", "unchanged" if whole == body else "changed")


@behaviour(
    "a discard compares the archived copy with the message that it removes; each discard would fail"
    " and leave its message"
)
def a_browse_and_a_get_return_the_same_message(bench: Bench) -> None:
    """A browse and a get return the same MQMD and the same data.

    IBM MQ docs, "MQGET - Get message".
    """
    bench.app.put(SOURCE, 1, CorrelId=b"c" * 24, ReplyToQ=b"REPLIES", Feedback=266)
    cursor = bench.app.source_cursor(SOURCE)
    browsed = bench.app.first(cursor)
    with UnitOfWork(cursor) as unit:
        got = unit.get_under_cursor(browsed.total_length)
        unit.commit()

    expect("MQMD", "the same", "the same" if got.descriptor.pack() == browsed.descriptor else "not")
    expect("message", number_of(browsed.prefix), number_of(got.body))


@behaviour("an empty queue looks like a failure; each run fails")
def the_end_of_a_queue_has_its_reason_code(bench: Bench) -> None:
    """A browse and a get of an empty queue fail with MQRC_NO_MSG_AVAILABLE.

    IBM MQ docs, "2033 (07F1) (RC2033): MQRC_NO_MSG_AVAILABLE".
    """
    opened = bench.app.open(SOURCE, "BROWSE", "INPUT_SHARED")

    for option in ("BROWSE_FIRST", "NO_SYNCPOINT"):
        with expect_reason("MQGET", "MQRC_NO_MSG_AVAILABLE"):
            bench.app.get(opened, option)
