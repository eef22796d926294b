"""Find what a put to the destination of dead letters would meet now, from its name to its queue.

The walk follows name resolution as MQOPEN does (IBM MQ docs, "How queue name resolution works"),
and compares each definition on the way with what refuses a put. It reads; it puts nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqdlq.causes import generalize
from mqdlq.constants import MQRC
from mqdlq.diagnosis.looking import Look, NotToldError
from mqdlq.diagnosis.records import Facts, Finding
from mqdlq.model import Destination
from mqdlq.words import count, visible

MQXQH_LENGTH: Final = 428
"""What the header of a transmission queue, with its message descriptor, adds to a message."""
_NAME: Final = re.compile(r"[A-Za-z0-9._/%]{1,48}")
CLUSTER_TRANSMISSION: Final = "SYSTEM.CLUSTER.TRANSMIT.QUEUE"
"""The queue for messages to other queue managers of a cluster, with DEFCLXQ(SCTQ)."""
_SIMILAR: Final = 0.75
_MOST_DEPTH: Final = 999_999_999


class Sample(NamedTuple):
    """One message on a queue whose body begins at `offset`; the CCSID and Format of its MQDLH."""

    queue: str
    msg_id: bytes
    offset: int
    ccsid: int
    format: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The dead letters of a cause: where they were going, and what of them may be in the way.

    The destination is the MQDLH's DestQName and DestQMgrName. `longest` is the length in bytes of
    the longest one, without its MQDLH. `users` are those of MQMD.UserIdentifier, or whoever puts
    for them: their authority counts. `sample` is one of them.
    """

    reason: int
    destination: Destination = ("", "")
    messages: int = 1
    longest: int = 0
    users: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()
    sample: Sample | None = None


def mqsc(comment: str, command: str, *names: str) -> tuple[str, ...]:
    """Return a comment and a command with names in it, or nothing if one of them cannot be one.

    Names may come from messages. Characters that no name of a queue has would let a name end the
    string, or the line, and begin a command of its own.
    """
    if not all(_NAME.fullmatch(name) for name in names):
        return ()
    return f"* {comment}", command.format(*(f"'{name}'" for name in names))


def find_obstacles(look: Look, subject: Subject) -> Iterator[Finding]:
    """Yield what refuses a put to the destination now, in the order in which a put meets it.

    A remark that describes the queue ends the walk if nothing refuses. Raises NotToldError where
    the walk cannot go on.
    """
    name, place = subject.destination
    if place in ("", look.name):
        yield from _to_queue(look, subject, name)
    else:
        yield from _to_queue_manager(look, subject, place)


def _to_queue(look: Look, subject: Subject, name: str) -> Iterator[Finding]:
    queue = look.queue(name) if _NAME.fullmatch(name) else None
    if queue is None:
        yield from _to_cluster(look, subject, name)
        return
    yield from _inhibited(name, queue)
    if queue["QTYPE"] == "QALIAS":
        yield from _to_target(look, subject, name, queue.get("TARGET", ""))
    else:
        yield from _to_defined(look, subject, name, queue)


def _to_target(look: Look, subject: Subject, alias: str, name: str) -> Iterator[Finding]:
    base = look.queue(name) if name else None
    if base is None and name and look.instances(name):
        yield from _to_cluster(look, subject, name)
    elif base is None or base["QTYPE"] == "QALIAS":
        yield _no_target(look, alias, name, base)
    else:
        yield from _inhibited(name, base)
        yield from _to_defined(look, subject, name, base)


def _to_defined(look: Look, subject: Subject, name: str, queue: Facts) -> Iterator[Finding]:
    if queue["QTYPE"] == "QLOCAL":
        yield from _to_local(look, subject, name, queue)
    elif queue["QTYPE"] == "QREMOTE" and not queue.get("RNAME"):
        text = f"remote queue {name} has no RNAME, so it names no queue"
        yield Finding(MQRC["MQRC_REMOTE_Q_NAME_ERROR"], text)
    elif queue["QTYPE"] == "QREMOTE":
        place = queue.get("RQMNAME", "")
        if place in ("", look.name):
            text = f"remote queue {name} has RQMNAME({place or ' '}), which names no other one"
            yield Finding(MQRC["MQRC_UNKNOWN_REMOTE_Q_MGR"], text)
        else:
            yield from _to_transmission(look, subject, place, queue.get("XMITQ", ""), name)


def _to_cluster(look: Look, subject: Subject, name: str) -> Iterator[Finding]:
    """Go on at the instances of a queue of clusters, and at the queue that leads to them."""
    instances = look.instances(name) if _NAME.fullmatch(name) else []
    if not instances:
        yield _no_queue(look, name)
        return
    closed = [one for one in instances if one.get("PUT") == "DISABLED"]
    for one in closed:
        # A put goes to another instance while there is one.
        place, kind = one["CLUSQMGR"], one.get("CLUSQT", "QLOCAL")
        comment = f"On queue manager {place}, not on {look.name}: allows puts to {name} again."
        yield Finding(
            MQRC["MQRC_CLUSTER_PUT_INHIBITED"] if closed == instances else 0,
            f"{name} of cluster {one['CLUSTER']} has PUT(DISABLED) at {place}",
            mqsc(comment, f"ALTER {kind}({{}}) PUT(ENABLED)", name),
        )
    if closed != instances:
        clusters = " and ".join(dict.fromkeys(one["CLUSTER"] for one in instances))
        places = ", ".join(one["CLUSQMGR"] for one in instances if one not in closed)
        yield Finding(0, f"{name} is a queue of cluster {clusters}, at {places}")
        yield from _to_cluster_transmission(look, subject)


def _to_cluster_transmission(look: Look, subject: Subject) -> Iterator[Finding]:
    queue = look.queue(CLUSTER_TRANSMISSION)
    if queue is not None:
        yield from _inhibited(CLUSTER_TRANSMISSION, queue)
        yield from _to_local(look, subject, CLUSTER_TRANSMISSION, queue, header=MQXQH_LENGTH)


def _to_queue_manager(look: Look, subject: Subject, place: str) -> Iterator[Finding]:
    """Follow the name of another queue manager: an alias of one, or a transmission queue."""
    known = look.queue(place) if _NAME.fullmatch(place) else None
    if known is None or known["QTYPE"] != "QREMOTE" or known.get("RNAME"):
        yield from _to_transmission(look, subject, place, "", place)
        return
    real, transmission = known.get("RQMNAME", ""), known.get("XMITQ", "")
    if real in ("", look.name) and not transmission:
        yield from _to_queue(look, subject, subject.destination[0])
    else:
        yield from _to_transmission(look, subject, real, transmission, place)


def _to_transmission(
    look: Look, subject: Subject, place: str, named: str, of: str
) -> Iterator[Finding]:
    """Go on at the transmission queue: the one that is named, else the place's, else DEFXMITQ."""
    name, missing = named or place, "MQRC_UNKNOWN_XMIT_Q"
    queue = look.queue(name) if _NAME.fullmatch(name) else None
    if queue is None and not named and _NAME.fullmatch(place) and look.is_of_cluster(place):
        yield Finding(0, f"queue manager {place} is one of a cluster")
        yield from _to_cluster_transmission(look, subject)
        return
    if queue is None and not named:
        name, missing = look.queue_manager().get("DEFXMITQ", ""), "MQRC_UNKNOWN_DEF_XMIT_Q"
        if not name:
            yield _no_route(look, place, of)
            return
        queue = look.queue(name)
    if queue is None:
        comment = f"Creates transmission queue {name}; a channel must take messages from it, too."
        yield Finding(
            MQRC[missing],
            f"no transmission queue {visible(name)}, which {visible(of)} names",
            mqsc(comment, "DEFINE QLOCAL({}) USAGE(XMITQ)", name),
        )
    elif queue["QTYPE"] != "QLOCAL":
        text = f"{name}, which {of} names as its transmission queue, is a {queue['QTYPE']}"
        yield Finding(MQRC["MQRC_XMIT_Q_TYPE_ERROR"], text)
    elif queue["USAGE"] != "XMITQ":
        comment = f"Makes {name} a transmission queue: applications no longer put to it."
        yield Finding(
            MQRC["MQRC_XMIT_Q_USAGE_ERROR"],
            f"{name}, which {of} names as its transmission queue, has USAGE(NORMAL)",
            mqsc(comment, "ALTER QLOCAL({}) USAGE(XMITQ)", name),
        )
    else:
        yield from _inhibited(name, queue)
        yield from _to_local(look, subject, name, queue, header=MQXQH_LENGTH)
        yield from _channels(look, subject, name, queue)


def _to_local(
    look: Look, subject: Subject, name: str, queue: Facts, *, header: int = 0
) -> Iterator[Finding]:
    """Compare depth and lengths of the queue that gets the messages, and of its stream queue."""
    found = [*_no_room(look, subject, name, queue), *_too_long(look, subject, name, queue, header)]
    stream = queue.get("STREAMQ", "")
    if stream and queue.get("STRMQOS") == "MUSTDUP":
        copy = look.queue(stream)
        if copy is None:
            found.append(_no_queue(look, stream))
        elif copy["QTYPE"] == "QLOCAL":
            found += [*_inhibited(stream, copy), *_no_room(look, subject, stream, copy)]
            found += _too_long(look, subject, stream, copy, header)
    yield from found
    if not found and queue["PUT"] == "ENABLED":
        depth, most = int(queue["CURDEPTH"]), int(queue["MAXDEPTH"])
        room = f"room for {count(most - depth, 'more message')}"
        yield Finding(0, f"{name} has {room}: {depth:,} of {most:,}, PUT(ENABLED)")


def is_full(queue: Facts) -> bool:
    return int(queue["CURDEPTH"]) >= int(queue["MAXDEPTH"])


def _no_room(look: Look, subject: Subject, name: str, queue: Facts) -> Iterator[Finding]:
    if not is_full(queue):
        return
    depth, most, readers = (int(queue[one]) for one in ("CURDEPTH", "MAXDEPTH", "IPPROCS"))
    status = look.status(name)
    last = _at(status, "LGETDATE", "LGETTIME")
    if readers:
        gets = f"{count(readers, 'handle')} {'has' if readers == 1 else 'have'} it open for input"
        gets += f", the last get was {last}" if last else ""
    else:
        gets = f"nobody has it open for input{f' since {last}' if last else ''}"
    needed = min(max(_rounded_up(depth + subject.messages), 2 * most), _MOST_DEPTH)
    comment = f"Lets {name} hold {needed:,} messages instead of {most:,}; it starts no reader."
    yield Finding(
        MQRC["MQRC_Q_FULL"],
        f"{name} holds {depth:,} of {most:,} messages (MAXDEPTH); {gets}",
        mqsc(comment, f"ALTER QLOCAL({{}}) MAXDEPTH({needed})", name),
    )


def _rounded_up(number: int) -> int:
    """Return the next number of thousands."""
    return -(-number // 1000) * 1000


def _too_long(
    look: Look, subject: Subject, name: str, queue: Facts, header: int
) -> Iterator[Finding]:
    length, of_queue = subject.longest + header, int(queue["MAXMSGL"])
    if length > of_queue:
        comment = f"Lets {name} take messages of up to {length:,} bytes instead of {of_queue:,}."
        yield Finding(
            MQRC["MQRC_MSG_TOO_BIG_FOR_Q"],
            f"{name} takes up to {of_queue:,} bytes (MAXMSGL); the longest message has {length:,}",
            mqsc(comment, f"ALTER QLOCAL({{}}) MAXMSGL({length})", name),
        )
        most = int(look.queue_manager()["MAXMSGL"])
        if length > most:
            comment = f"Lets queue manager {look.name} take messages of up to {length:,} bytes."
            yield Finding(
                MQRC["MQRC_MSG_TOO_BIG_FOR_Q_MGR"],
                f"queue manager {look.name} takes up to {most:,} bytes (MAXMSGL); the longest"
                f" message has {length:,}",
                mqsc(comment, f"ALTER QMGR MAXMSGL({length})"),
            )


def _inhibited(name: str, queue: Facts) -> Iterator[Finding]:
    if queue.get("PUT") == "DISABLED":
        altered = _at(queue, "ALTDATE", "ALTTIME")
        yield Finding(
            MQRC["MQRC_PUT_INHIBITED"],
            f"{name} has PUT(DISABLED){f', altered {altered}' if altered else ''}",
            mqsc(
                f"Allows puts to {name} again.", f"ALTER {queue['QTYPE']}({{}}) PUT(ENABLED)", name
            ),
        )


def find_refused_users(look: Look, subject: Subject) -> Iterator[Finding]:
    """Yield who lacks +put on what is opened, a queue or a route: users of events, and of messages.

    For a queue at another queue manager that is the transmission queue (IBM MQ docs,
    "Authorizations for MQI calls"). Raises NotToldError.
    """
    name, place = subject.destination
    if place not in ("", look.name):
        name = place
    if look.queue(name) is None:
        if look.instances(name):
            raise NotToldError(f"{name} is of a cluster: who may put to it is not inquired")
        return
    refused = look.refusals(name)
    for user in dict.fromkeys([*refused, *subject.users]):
        may, held = look.may_put(user, name)
        if not may:
            last = f"; last refused {refused[user]}" if refused.get(user) else ""
            command = "SET AUTHREC PROFILE({}) OBJTYPE(QUEUE) PRINCIPAL({}) AUTHADD(PUT)"
            yield Finding(
                subject.reason,
                f"{visible(user)} lacks +put on {name} (has {held or 'no authority'}){last}",
                mqsc(f"Lets user {user} put to {name}.", command, name, user),
            )


def _no_queue(look: Look, name: str) -> Finding:
    reason, text = MQRC["MQRC_UNKNOWN_OBJECT_NAME"], f"no queue {visible(name)} on {look.name}"
    if not _NAME.fullmatch(name):
        return Finding(reason, f"{text}, and none can have this name")
    if generalize(name) != name:
        text += ": it was a dynamic queue, which ended with the application that created it"
        return Finding(reason, f"{text}; nothing brings it back, so discard its messages")
    near = _near(look, name)
    if not near:
        comment = f"Creates an empty queue {name}; nobody reads it yet."
        return Finding(reason, text, mqsc(comment, "DEFINE QLOCAL({})", name))
    comment = f"Makes {name} another name of {near[0]}; or correct the name that is used."
    target = look.queue(near[0])
    commands = mqsc(comment, "DEFINE QALIAS({}) TARGET({})", name, near[0])
    if target is None or target["QTYPE"] not in {"QLOCAL", "QREMOTE"}:
        commands = ()  # an alias of an alias is refused
    return Finding(reason, f"{text}; {_in_words(look, near)}", commands)


def _no_target(look: Look, alias: str, name: str, base: Facts | None) -> Finding:
    if base is not None:
        text = f"{alias} is an alias of {name}, which is an alias, too"
        return Finding(MQRC["MQRC_ALIAS_BASE_Q_TYPE_ERROR"], text)
    text = f"{alias} is an alias of {name or 'no queue'}, which is not defined"
    near = _near(look, name, alias)
    if near:
        comment = f"Lets the alias {alias} stand for {near[0]}."
        commands = mqsc(comment, "ALTER QALIAS({}) TARGET({})", alias, near[0])
        text += f"; {_in_words(look, near)}"
    else:
        comment = f"Creates an empty queue {name}; nobody reads it yet."
        commands = mqsc(comment, "DEFINE QLOCAL({})", name)
    return Finding(MQRC["MQRC_UNKNOWN_ALIAS_BASE_Q"], text, commands)


def _no_route(look: Look, place: str, of: str) -> Finding:
    text = f"no route to queue manager {visible(place)}: no transmission queue has its name"
    text += f", {visible(of)} names none" if of != place else ""
    comment = (
        f"Creates a transmission queue for {place}; a channel must take messages from it, too."
    )
    near = [one for one in _near(look, place) if (look.queue(one) or {}).get("USAGE") == "XMITQ"]
    if near:
        text += f", but {near[0]} is one"
        comment = f"Sends what is for {place} to {near[0]}; or correct the name that is used."
        command = "DEFINE QREMOTE({0}) RNAME(' ') RQMNAME({1}) XMITQ({1})"
        return Finding(
            MQRC["MQRC_UNKNOWN_REMOTE_Q_MGR"], text, mqsc(comment, command, place, near[0])
        )
    commands = mqsc(comment, "DEFINE QLOCAL({}) USAGE(XMITQ)", place)
    return Finding(MQRC["MQRC_UNKNOWN_REMOTE_Q_MGR"], f"{text}, and DEFXMITQ is blank", commands)


def _near(look: Look, name: str, *others: str) -> list[str]:
    """Return up to two names that may have been meant, the most similar first."""
    known = {one.upper(): one for one in look.queues() if one not in {name, *others}}
    found = difflib.get_close_matches(name.upper(), known, 2, _SIMILAR)
    return [known[one] for one in found]


def _in_words(look: Look, near: list[str]) -> str:
    """Say that queues exist, and who puts to them: ``A exists (2 handles put to it)``."""
    found = []
    for name in near:
        puts = (look.queue(name) or {}).get("OPPROCS", "0")
        found.append(f"{name} exists ({count(int(puts), 'handle')} put{'s' * (puts == '1')} to it)")
    return ", ".join(found)


def _channels(look: Look, subject: Subject, name: str, queue: Facts) -> Iterator[Finding]:
    """Yield what the channels of a transmission queue do, and which messages they cannot take.

    It is asked for reasons of channels, and if the transmission queue is full. A channel that does
    not run refuses no put: it is an obstacle for the reasons of channels only.
    """
    is_asked = subject.reason in _OF_CHANNELS | _OF_THEIR_LENGTHS or is_full(queue)
    for one in look.channels_of(name) if is_asked else ():
        channel, most = one["CHANNEL"], int(one["MAXMSGL"])
        length = subject.longest + MQXQH_LENGTH
        if length > most:
            comment = f"Lets channel {channel} send {length:,} bytes; its other end must, too."
            change = f"ALTER CHANNEL({{}}) CHLTYPE(SDR) MAXMSGL({length})"
            yield Finding(
                MQRC["MQRC_MSG_TOO_BIG_FOR_CHANNEL"],
                f"channel {channel} takes up to {most:,} bytes (MAXMSGL); the longest message has"
                f" {length:,}",
                mqsc(comment, change, channel),
            )
        status = look.channel(channel)
        since, state = _at(status, "CHSTADA", "CHSTATI"), status["STATUS"]
        text = f"channel {channel}, which takes messages from {name}, is {state}"
        commands = mqsc(f"Starts channel {channel}.", "START CHANNEL({})", channel)
        yield Finding(
            subject.reason if subject.reason in _OF_CHANNELS and state != "RUNNING" else 0,
            text + (f" since {since}" if since else ""),
            commands if state in {"INACTIVE", "STOPPED"} else (),
        )


_OF_CHANNELS: Final = frozenset(
    MQRC[name]
    for name in (
        "MQRC_CHANNEL_NOT_AVAILABLE",
        "MQRC_CONNECTION_BROKEN",
        "MQRC_HOST_NOT_AVAILABLE",
        "MQRC_NO_DESTINATIONS_AVAILABLE",
    )
)
_OF_THEIR_LENGTHS: Final = frozenset(
    {MQRC["MQRC_DATA_LENGTH_ERROR"], MQRC["MQRC_MSG_TOO_BIG_FOR_CHANNEL"]}
)


def _at(facts: Facts, date: str, time: str) -> str:
    """Return a date and a time of a queue manager, ``2026-11-20 14:02``; "" if it keeps none."""
    if not facts.get(date):
        return ""
    return f"{facts[date]} {facts.get(time, '').replace('.', ':')[:5]}".rstrip()
