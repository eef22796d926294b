"""Reason codes of calls that fail, from which the handler decides what to do."""

from __future__ import annotations

from typing import Final

from mqdlq.tools.certify.bench import (
    FULL,
    MISSING,
    NO_GET,
    NO_PUT,
    SHORT,
    SOURCE,
    Bench,
    NotTriedError,
    behaviour,
    body_of,
    expect,
    expect_reason,
)

LONGEST_TRIED: Final = 4 * 1024 * 1024


@behaviour(
    "a full target is tried again with each message; the attempts of all of them are used up"
)
def a_put_to_a_full_queue_has_its_reason_code(bench: Bench) -> None:
    """A put to a queue with MAXDEPTH messages fails with MQRC_Q_FULL; uncommitted puts count.

    IBM MQ docs, "2053 (0805) (RC2053): MQRC_Q_FULL".
    """
    bench.app.put(FULL, 1, "SYNCPOINT")

    with expect_reason("MQPUT1", "MQRC_Q_FULL"):
        bench.another().put(FULL, 2)
    bench.app.commit()
    expect("messages", 1, bench.app.depth(FULL))


@behaviour("a put-inhibited target is tried again with each message")
def a_put_to_an_inhibited_queue_has_its_reason_code(bench: Bench) -> None:
    """A put to a queue with PUT(DISABLED) fails with MQRC_PUT_INHIBITED.

    IBM MQ docs, "2051 (0803) (RC2051): MQRC_PUT_INHIBITED".
    """
    with expect_reason("MQPUT1", "MQRC_PUT_INHIBITED"):
        bench.app.put(NO_PUT, 1)


@behaviour("the report names another cause for a get-inhibited dead-letter queue")
def a_browse_of_an_inhibited_queue_has_its_reason_code(bench: Bench) -> None:
    """A browse and a get of a queue with GET(DISABLED) fail with MQRC_GET_INHIBITED.

    IBM MQ docs, "2016 (07E0) (RC2016): MQRC_GET_INHIBITED".
    """
    opened = bench.app.open(NO_GET, "BROWSE", "INPUT_SHARED")
    for option in ("BROWSE_FIRST", "NO_SYNCPOINT"):
        with expect_reason("MQGET", "MQRC_GET_INHIBITED"):
            bench.app.get(opened, option)


@behaviour(
    "a missing target, and a missing state queue, are taken for other failures, which end the pass"
)
def an_unknown_queue_has_its_reason_code(bench: Bench) -> None:
    """A queue that is not defined cannot be opened: MQRC_UNKNOWN_OBJECT_NAME.

    IBM MQ docs, "2085 (0825) (RC2085): MQRC_UNKNOWN_OBJECT_NAME".
    """
    with expect_reason("MQOPEN", "MQRC_UNKNOWN_OBJECT_NAME"):
        bench.app.open(MISSING, "INQUIRE")
    with expect_reason("MQPUT1", "MQRC_UNKNOWN_OBJECT_NAME"):
        bench.app.put(MISSING, 1)


@behaviour("the report does not explain that a message names no queue")
def a_blank_queue_name_has_its_reason_code(bench: Bench) -> None:
    """A put to a blank queue name fails with MQRC_UNKNOWN_OBJECT_NAME.

    Another queue manager's name makes it MQRC_REMOTE_Q_NAME_ERROR. IBM MQ docs, "2184 (0888)
    (RC2184)", "2085 (0825) (RC2085)".
    """
    with expect_reason("MQPUT1", "MQRC_UNKNOWN_OBJECT_NAME", "MQRC_REMOTE_Q_NAME_ERROR"):
        bench.app.put(None, 1)


@behaviour("a message that is too long for its target is taken for another failure")
def a_message_too_long_for_its_queue_has_its_reason_code(bench: Bench) -> None:
    """A put of more bytes than MAXMSGL of the queue fails with MQRC_MSG_TOO_BIG_FOR_Q.

    IBM MQ docs, "2030 (07EE) (RC2030): MQRC_MSG_TOO_BIG_FOR_Q".
    """
    bench.app.put(SHORT, body_of(1).ljust(100))

    with expect_reason("MQPUT1", "MQRC_MSG_TOO_BIG_FOR_Q"):
        bench.app.put(SHORT, body_of(1).ljust(101))


@behaviour("a message that is too long for all queues is taken for another failure")
def a_message_too_long_for_the_queue_manager_is_refused(bench: Bench) -> None:
    """A put of more bytes than MAXMSGL of the queue manager fails.

    The reason code is about the queue, the queue manager or the channel: the lowest limit counts.
    IBM MQ docs, "2031 (07EF) (RC2031)", "2030 (07EE) (RC2030)", "2010 (07DA) (RC2010)".
    """
    limit = bench.app.queue_manager.inquire(bench.app.number("MQIA_MAX_MSG_LENGTH"))
    if limit > LONGEST_TRIED:
        raise NotTriedError(f"it would send {limit + 1:,} bytes")
    refusals = ("MQRC_MSG_TOO_BIG_FOR_Q_MGR", "MQRC_MSG_TOO_BIG_FOR_Q", "MQRC_DATA_LENGTH_ERROR")
    with expect_reason("MQPUT1", *refusals):
        bench.app.put(SOURCE, bytes(limit + 1))
