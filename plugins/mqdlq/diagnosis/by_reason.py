"""What the queue manager and the messages say of reasons that no walk to a queue decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from mqdlq.constants import MQRC
from mqdlq.diagnosis.looking import Look, NotToldError
from mqdlq.diagnosis.obstacles import (
    Subject,
    find_refused_users,
    mqsc,
)
from mqdlq.diagnosis.records import Finding
from mqdlq.words import count, visible

COMMAND_SERVER: Final = "amqpcsea"
_MOST: Final = 3
_NEARLY_ALL: Final = 90
"""From how many percent on a log or a file system is near its limit."""
_READABLE: Final = 0.9
"""How much of a body's beginning is letters, digits, blanks and punctuation if it is text."""


def find_evidence(look: Look, subject: Subject) -> Iterator[Finding]:
    """Yield what is known beside the walk to the destination; raise NotToldError as it does."""
    for find in _BY_REASON.get(subject.reason, ()):
        yield from find(look, subject)
    yield from _who_put(subject)


def _get_inhibited(look: Look, subject: Subject) -> Iterator[Finding]:
    queue = look.queue(subject.destination[0])
    if queue and queue.get("GET") == "DISABLED":
        name, change = subject.destination[0], f"ALTER {queue['QTYPE']}({{}}) GET(ENABLED)"
        commands = mqsc(f"Allows gets from {name} again.", change, name)
        yield Finding(subject.reason, f"{name} has GET(DISABLED)", commands)


def _largest_queues(look: Look, subject: Subject) -> Iterator[Finding]:
    """Name the deepest queues: they fill what all queues share; say what is near its limit."""
    told = look.in_use()
    near = [f"{_SHARED[one]} ({told[one]} %)" for one in told if int(told[one]) >= _NEARLY_ALL]
    parts = ", ".join(f"{one} {used} %" for one, used in told.items())
    words = f"{' and '.join(near)} {'are' if len(near) > 1 else 'is'} near the limit"
    yield Finding(
        subject.reason * bool(near),
        words
        if near
        else f"nothing of {look.name} is near its limit: {parts or 'it says nothing'}",
    )
    found = look.depths()
    deepest = sorted(found, key=lambda name: -found[name])[:_MOST]
    words = ", ".join(f"{name} {found[name]:,}" for name in deepest if found[name])
    yield Finding(0, f"the deepest of {count(len(found), 'queue')}: {words or 'all are empty'}")


_SHARED: Final = {
    "QMFSUSE": "the file system of the queue manager",
    "DATFSUSE": "the file system of its data",
    "LOGFSUSE": "the file system of its log",
    "LOGINUSE": "the log",
}


def _backout(look: Look, subject: Subject) -> Iterator[Finding]:
    """Say where the destination's application should have put a message it backs out too often."""
    name = subject.destination[0]
    queue = look.queue(name)
    if queue is None or "BOTHRESH" not in queue:
        return
    threshold, backout = queue["BOTHRESH"], queue.get("BOQNAME", "")
    text = f"{name} has BOTHRESH({threshold}) and BOQNAME({backout or ' '})"
    if backout and look.queue(backout) is None:
        comment = f"Creates the backout queue {backout} of {name}."
        commands = mqsc(comment, "DEFINE QLOCAL({})", backout)
        yield Finding(0, f"{text}, and there is no queue {backout}", commands)
    else:
        yield Finding(0, f"{text}; its application backed the messages out")


def _policy(look: Look, subject: Subject) -> Iterator[Finding]:
    """Say how messages to the destination are protected (Advanced Message Security)."""
    name = subject.destination[0]
    commands = mqsc(f"Shows the policy of {name}.", "DISPLAY POLICY({})", name)
    try:
        told = look.policy(name)
    except NotToldError as error:
        yield Finding(0, str(error), commands)
        return
    words = " ".join(f"{keyword}({value})" for keyword, value in told.items())
    text = f"messages to {visible(name)} are to be {words}"
    if told.get("SIGNALG", "NONE") == told.get("ENCALG", "NONE") == "NONE":
        text = f"{visible(name)} has no policy that protects its messages"
    yield Finding(0, text, commands)


def _character_set(look: Look, subject: Subject) -> Iterator[Finding]:
    """Compare the CCSID that the headers state with what the body of one message begins like."""
    sample = subject.sample
    if sample is None or sample.ccsid <= 0:
        return
    found = begins_like(look.beginning(sample.queue, sample.msg_id, sample.offset))
    if not found:
        return
    family = "EBCDIC" if sample.ccsid in _EBCDIC else "ASCII"
    stated = f"the headers say CCSID {sample.ccsid} and Format {visible(sample.format)}"
    if family in found:
        yield Finding(0, f"{stated}, and the body begins like {found}")
    else:
        text = f"{stated}, but the body begins like {found}: a repair of the CCSID mends it"
        yield Finding(subject.reason, text)


_EBCDIC: Final = frozenset(
    {37, 273, 277, 278, 280, 284, 285, 297, 420, 424, 500, 871, 875, 924, 1025, 1026, 1047}
    | set(range(1140, 1150))
)


def begins_like(beginning: bytes) -> str:
    """Return the kind of character set in which most of some bytes are text; "" for neither."""
    for name, words in (("ascii", "1208 (ASCII)"), ("cp500", "500 (EBCDIC)")):
        text = beginning.decode(name, "replace")
        readable = sum(one.isascii() and (one.isprintable() or one.isspace()) for one in text)
        letters = sum(one.isascii() and (one.isalnum() or one.isspace()) for one in text)
        if readable > _READABLE * len(text) and letters > len(text) / 2:
            return words
    return ""


def _who_put(subject: Subject) -> Iterator[Finding]:
    """Name who put messages that nobody waits for: replies to a monitoring program that ended."""
    if any(COMMAND_SERVER in one for one in subject.applications):
        text = "the command server put them: replies to a monitoring program, such as a Prometheus"
        text += " exporter, whose reply queue is gone; set USEDLQ(NO) on its channel, or discard"
        yield Finding(0, f"{text} them")
    elif not subject.destination[0]:
        applications = (
            " and ".join(map(visible, subject.applications[:_MOST])) or "nobody knows who"
        )
        users = " and ".join(map(visible, subject.users[:_MOST]))
        yield Finding(0, f"put by {applications}{f' (user {users})' if users else ''}")


Find = Callable[[Look, Subject], Iterable[Finding]]

_CONVERSION: Final = range(2110, 2151)


def _reasons(*names: str) -> Iterator[int]:
    return (MQRC[name] for name in names)


_BY_REASON: Final[Mapping[int, tuple[Find, ...]]] = {
    MQRC["MQRC_NOT_AUTHORIZED"]: (find_refused_users,),
    MQRC["MQRC_GET_INHIBITED"]: (_get_inhibited,),
    MQRC["MQRC_BACKOUT_THRESHOLD_REACHED"]: (_backout,),
    MQRC["MQRC_SECURITY_ERROR"]: (_policy,),
    **dict.fromkeys(
        _reasons(
            "MQRC_STORAGE_NOT_AVAILABLE",
            "MQRC_RESOURCE_PROBLEM",
            "MQRC_STORAGE_MEDIUM_FULL",
            "MQRC_Q_SPACE_NOT_AVAILABLE",
            "MQRC_UNEXPECTED_ERROR",
        ),
        (_largest_queues,),
    ),
    **dict.fromkeys(_CONVERSION, (_character_set,)),
}
