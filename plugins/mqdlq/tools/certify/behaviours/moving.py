"""Moving messages: their context, identifiers, expiry, data and headers."""

from __future__ import annotations

from typing import Any, Final

from mqdlq.constants import reason_text
from mqdlq.errors import QueueManagerError
from mqdlq.mqi.unit_of_work import HEADER_REASONS, Delivery, Syncpoint
from mqdlq.tools.certify.bench import (
    DEAD_LETTER,
    SOURCE,
    TARGET,
    Application,
    Bench,
    DeviationError,
    behaviour,
    dead_letter_header,
    expect,
    expect_fields,
    number_of,
)

CONTEXT: Final[dict[str, Any]] = {
    "UserIdentifier": b"mqdlq".ljust(12),
    "AccountingToken": b"\x01\x02\0\x03".ljust(32, b"\0"),
    "ApplIdentityData": b"identity".ljust(32),
    "PutApplType": 28,
    "PutApplName": b"mqdlq certify".ljust(28),
    "PutDate": b"19991231",
    "PutTime": b"23595999",
    "ApplOriginData": b"orig",
}
"""A context that no queue manager generates."""
IDENTIFIERS: Final = {"MsgId": b"m" * 24, "CorrelId": b"c" * 24}
DESCRIPTION: Final = {"Format": b"MQSTR   ", "Encoding": 273, "CodedCharSetId": 500}
EXPIRY: Final = 600
"""One minute, in tenths of a second."""
BINARY: Final = bytes(range(0, 256, 2)) + b"blanks and NULs  \0\0"
"""Data shorter than a browsed header, so that it is browsed whole."""
INVALID_HEADERS: Final = (b"MQDEAD  ", b"MQHRF2  ", b"MQXMIT  ")
"""Formats whose header is checked; the message has none."""


def _expect_data(wanted: bytes, seen: bytes) -> None:
    expect("length", len(wanted), len(seen))
    expect("data", "unchanged", "unchanged" if wanted == seen else "changed")


@behaviour(
    "moved messages lose the time and the user of their put; programs that check them refuse the"
    " messages"
)
def all_context_is_passed_with_a_message(bench: Bench) -> None:
    """A message that is moved keeps its identity context and its origin context.

    The message has no context, which a queue manager never generates by itself. IBM MQ docs, "MQPMO
    options": MQPMO_PASS_ALL_CONTEXT, MQPMO_NO_CONTEXT; "MQOO_SAVE_ALL_CONTEXT".
    """
    sent = bench.app.put(SOURCE, 1, "NO_SYNCPOINT", "NO_CONTEXT")
    bench.app.move_first(SOURCE)

    _, arrived = bench.app.get_one(TARGET)
    expect_fields({name: getattr(sent, name) for name in CONTEXT}, arrived)


@behaviour("restored messages have another user, date and time than the discarded ones")
def all_context_can_be_set(bench: Bench) -> None:
    """A message that is restored has the context of the discarded message.

    IBM MQ docs, "MQPMO options": MQPMO_SET_ALL_CONTEXT.
    """
    _restore(bench.app, bench.app.descriptor(**CONTEXT))

    _, arrived = bench.app.get_one(TARGET)
    expect_fields(CONTEXT, arrived)


@behaviour(
    "a restored message has another MsgId or CorrelId: programs that wait for a reply miss it"
)
def identifiers_stay_unless_new_ones_are_asked_for(bench: Bench) -> None:
    """A message put with MQPMO_SET_ALL_CONTEXT keeps its MsgId and its CorrelId.

    IBM MQ docs, "MsgId (MQMD)", "MQPMO options": MQPMO_NEW_MSG_ID.
    """
    _restore(bench.app, bench.app.descriptor(**IDENTIFIERS))

    _, arrived = bench.app.get_one(TARGET)
    expect_fields(IDENTIFIERS, arrived)


def _restore(app: Application, descriptor: Any) -> None:
    """Put a message as a restoration does."""
    with Syncpoint(app.queue_manager) as unit:
        unit.put_with_original_context(
            descriptor.pack(), Delivery(TARGET.name(app.prefix), "", b"restored")
        )
        unit.commit()


@behaviour("moved messages have other identifiers, so that markers, replies and archives miss them")
def a_moved_message_keeps_its_identifiers(bench: Bench) -> None:
    """A message that is moved keeps its MsgId and its CorrelId.

    IBM MQ docs, "MsgId (MQMD)", "CorrelId (MQMD)".
    """
    bench.app.put(SOURCE, 1, **IDENTIFIERS)
    bench.app.move_first(SOURCE)

    _, arrived = bench.app.get_one(TARGET)
    expect_fields(IDENTIFIERS, arrived)


@behaviour("moved messages are changed: do not let the handler act")
def a_moved_message_keeps_its_data(bench: Bench) -> None:
    """A message that is moved keeps its data, trailing blanks included, and their description.

    IBM MQ docs, "MQGET - Get message", "MQPUT1 - Put one message": without MQGMO_CONVERT the data
    is unchanged.
    """
    bench.app.put(SOURCE, BINARY, **DESCRIPTION)
    bench.app.move_first(SOURCE)

    body, arrived = bench.app.get_one(TARGET)
    _expect_data(BINARY, body)
    expect_fields(DESCRIPTION, arrived)


@behaviour("messages of groups lose their place in the group")
def a_moved_message_keeps_its_group(bench: Bench) -> None:
    """A message that is moved keeps the fields of its group, which version 2 of the MQMD has.

    IBM MQ docs, "GroupId (MQMD)", "MsgSeqNumber (MQMD)", "MsgFlags (MQMD)".
    """
    in_group = bench.app.number("MQMF_MSG_IN_GROUP")
    group = {"GroupId": b"g" * 24, "MsgSeqNumber": 3, "MsgFlags": in_group}
    bench.app.put(SOURCE, 1, **group)
    bench.app.move_first(SOURCE)

    _, arrived = bench.app.get_one(TARGET)
    expect_fields(group, arrived)


@behaviour("messages that a program may no longer see live as long as they did at first")
def the_remaining_expiry_moves_with_a_message(bench: Bench) -> None:
    """A message that is moved expires when it would have expired on its queue.

    IBM MQ docs, "Expiry (MQMD)": MQGET returns the remaining time.
    """
    bench.app.put(SOURCE, 1, Expiry=EXPIRY)
    bench.app.wait(TARGET)
    bench.app.move_first(SOURCE)

    _, arrived = bench.app.get_one(TARGET)
    counts_down = 0 < arrived.Expiry < EXPIRY
    expect("Expiry", "less than at the put", "less than at the put" if counts_down else "not less")


@behaviour("the handler moves expired messages, which their sender wanted to be lost")
def an_expired_message_is_not_returned(bench: Bench) -> None:
    """Neither a browse nor a get returns a message that has expired.

    IBM MQ docs, "Expiry (MQMD)".
    """
    bench.app.put(SOURCE, 1, Expiry=1)
    bench.app.put(SOURCE, 2)
    bench.app.wait(TARGET)

    expect("browsed messages", [2], bench.app.browse(SOURCE))
    body, _ = bench.app.get_one(SOURCE)
    expect("message", 2, number_of(body))


@behaviour("dead letters that are forwarded with HEADER(YES) or moved have another header")
def a_dead_letter_header_stays_unchanged(bench: Bench) -> None:
    """An MQDLH is data: a put, a browse and a get leave each of its bytes as it was.

    IBM MQ docs, "MQDLH - Dead-letter header".
    """
    letter = dead_letter_header()
    bench.app.put(SOURCE, letter, **DEAD_LETTER)
    browsed = bench.app.first(bench.app.source_cursor(SOURCE))
    expect("browsed MQDLH", "unchanged", "unchanged" if browsed.prefix == letter else "changed")
    bench.app.move_first(SOURCE)

    body, arrived = bench.app.get_one(TARGET)
    _expect_data(letter, body)
    expect_fields(DEAD_LETTER, arrived)


@behaviour(
    "messages with a broken header cannot be moved: they stay on the dead-letter queue, and the"
    " report shows the reason code"
)
def a_message_with_an_invalid_header_can_be_moved(bench: Bench) -> str:
    """A message that lacks the header which its Format names can be moved unchanged.

    If the put with a version 2 MQMD is refused (2141, 2260, 2334), the handler puts the message
    with version 1. IBM MQ docs, "Version (MQMD)", "2334 (091E) (RC2334): MQRC_RFH_ERROR".
    """
    refused = set()
    for name in INVALID_HEADERS:
        described = DEAD_LETTER | {"Format": name}
        reason = _put_with_both_versions(bench.app, BINARY, described)
        refused |= {reason} if reason else set()
        bench.app.move_first(SOURCE)
        body, arrived = bench.app.get_one(TARGET)
        _expect_data(BINARY, body)
        expect_fields(described, arrived)
        bench.app.get_all(SOURCE)
    if not refused:
        return "headers are not checked"
    return f"headers are checked with version 2: {', '.join(map(reason_text, sorted(refused)))}"


def _put_with_both_versions(app: Application, body: bytes, described: dict[str, Any]) -> int:
    """Put a message with a version 1 MQMD; return the reason code that version 2 gives, or 0."""
    try:
        app.put(SOURCE, body, Version=1, **described)
    except QueueManagerError as error:
        if error.reason not in HEADER_REASONS:
            raise
        raise DeviationError(
            "MQPUT1 with a version 1 MQMD: no header is checked", reason_text(error.reason)
        ) from error
    try:
        app.put(SOURCE, body, **described)
    except QueueManagerError as error:
        if error.reason not in HEADER_REASONS:
            raise
        return error.reason
    return 0
