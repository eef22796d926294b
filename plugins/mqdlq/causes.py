"""Causes: why messages are dead letters, as one fingerprint that every part of mqdlq uses.

A `Cause` is a reason code with a destination, or the class of messages without a valid MQDLH. Its
`cause_id` is the same in reports, drafts of rules, the ledger, metrics, alerts and pages, which
also take from here what a cause means, who can act, and what helps.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, Final

from mqdlq.constants import ALL_NAMES, reason_text
from mqdlq.model import InWords, MessageClass, Outcome


class Kind(InWords):
    """The remedy of a cause: time, an administrator, or the owner of an application."""

    TRANSIENT = "transient", "passes by itself"
    ADMINISTRATIVE = "administrative", "needs an administrator"
    APPLICATION = "application", "needs the application's owner"
    UNKNOWN = "", ""


@dataclass(frozen=True, slots=True)
class Advice:
    """The meaning of a reason code, the kind of its remedy, and the next step.

    `retry_until` says when a retry succeeds; it is "" if none does before someone acts.
    """

    meaning: str
    kind: Kind
    advice: str
    retry_until: str = ""


_T, _A, _P = Kind.TRANSIENT, Kind.ADMINISTRATIVE, Kind.APPLICATION
_LOG: Final = "look into the queue manager's error log"
_OWNER: Final = "ask the owner of the application"

_BY_NAME: Final = {
    "MQFB_APPL_CANNOT_BE_STARTED": Advice(
        "the program to be triggered could not be started", _P, "make sure that it can be started"
    ),
    "MQFB_TM_ERROR": Advice("the trigger message is not valid", _P, _OWNER),
    "MQFB_APPL_TYPE_ERROR": Advice(
        "the type of the program to be triggered is not valid", _P, "correct its PROCESS"
    ),
    "MQFB_STOPPED_BY_MSG_EXIT": Advice(
        "a message exit of the channel stopped it", _A, "look into the channel's exit"
    ),
    "MQFB_XMIT_Q_MSG_ERROR": Advice(
        "a message on a transmission queue without its header", _P, _OWNER
    ),
    "MQRC_CONNECTION_BROKEN": Advice(
        "the connection was lost", _T, _LOG, "connections are there again"
    ),
    "MQRC_CHANNEL_NOT_AVAILABLE": Advice(
        "the channel is not available", _T, "start the channel", "channels are started"
    ),
    "MQRC_GET_INHIBITED": Advice(
        "gets from the queue are inhibited", _A, "ask who inhibited gets, then set GET(ENABLED)"
    ),
    "MQRC_MSG_TOO_BIG_FOR_Q": Advice(
        "longer than the queue takes", _A, "raise the queue's MAXMSGL"
    ),
    "MQRC_MSG_TOO_BIG_FOR_Q_MGR": Advice(
        "longer than the queue manager takes", _A, "raise the queue manager's MAXMSGL"
    ),
    "MQRC_NOT_AUTHORIZED": Advice(
        "no authority for the destination", _A, "grant the authority that is missing"
    ),
    "MQRC_OBJECT_IN_USE": Advice(
        "another program has the destination open exclusively",
        _T,
        "find it: DISPLAY QSTATUS",
        "objects are closed",
    ),
    "MQRC_PERSISTENT_NOT_ALLOWED": Advice("persistent, but the queue is temporary", _P, _OWNER),
    "MQRC_PUT_INHIBITED": Advice(
        "puts to the queue are inhibited",
        _A,
        "ask who inhibited puts, then set PUT(ENABLED)",
        "puts are allowed again",
    ),
    "MQRC_Q_DELETED": Advice("the queue was deleted", _A, "define the queue again"),
    "MQRC_Q_FULL": Advice(
        "the queue is full",
        _T,
        "check the application that reads it, or raise its MAXDEPTH",
        "full queues are emptied",
    ),
    "MQRC_Q_SPACE_NOT_AVAILABLE": Advice(
        "no disk space for the queue",
        _T,
        "make room on the queue manager's disk",
        "disks are cleared",
    ),
    "MQRC_Q_MGR_NAME_ERROR": Advice(
        "the queue manager's name is not valid or not known", _A, "define a route to it"
    ),
    "MQRC_SECURITY_ERROR": Advice(
        "refused by Advanced Message Security, or another security check",
        _A,
        "see `dspmqspl -m QMGR -p QUEUE` (a policy has its queue's name), and the error log",
    ),
    "MQRC_STORAGE_NOT_AVAILABLE": Advice("not enough storage", _T, _LOG, "storage is freed"),
    "MQRC_UNKNOWN_ALIAS_BASE_Q": Advice(
        "an alias of a queue that is not defined", _A, "define the queue that the alias names"
    ),
    "MQRC_UNKNOWN_OBJECT_NAME": Advice(
        "no queue of that name", _A, "define the queue, or correct the name that is used"
    ),
    "MQRC_UNKNOWN_OBJECT_Q_MGR": Advice(
        "no queue manager of that name", _A, "correct the name that is used"
    ),
    "MQRC_UNKNOWN_REMOTE_Q_MGR": Advice(
        "no route to remote queue manager", _A, "define a transmission queue for it"
    ),
    "MQRC_OBJECT_DAMAGED": Advice("the object is damaged", _A, "recover the object"),
    "MQRC_RESOURCE_PROBLEM": Advice(
        "the queue manager lacks resources", _T, _LOG, "resources are freed"
    ),
    "MQRC_FORMAT_ERROR": Advice("MQMD.Format is not what the data are", _P, _OWNER),
    "MQRC_NOT_CONVERTED": Advice(
        "the data could not be converted", _P, "check the CCSID of the data"
    ),
    "MQRC_HEADER_ERROR": Advice("a header of the message is not valid", _P, _OWNER),
    "MQRC_Q_MGR_STOPPING": Advice(
        "the queue manager was stopping",
        _T,
        "start the queue manager",
        "the queue manager is started",
    ),
    "MQRC_REMOTE_Q_NAME_ERROR": Advice(
        "the remote queue's definition is not valid", _A, "correct its RNAME"
    ),
    "MQRC_CLUSTER_RESOLUTION_ERROR": Advice(
        "the cluster queue could not be resolved",
        _T,
        "look at the cluster's repositories",
        "the cluster's repositories answer",
    ),
    "MQRC_STORAGE_MEDIUM_FULL": Advice(
        "the storage medium is full", _T, "make room where the queue is stored", "disks are cleared"
    ),
    "MQRC_UNEXPECTED_ERROR": Advice("an unexpected error", _A, _LOG),
    "MQRC_UNKNOWN_XMIT_Q": Advice(
        "no such transmission queue", _A, "define the transmission queue"
    ),
    "MQRC_UNKNOWN_DEF_XMIT_Q": Advice(
        "no such default transmission queue", _A, "define it, or blank DEFXMITQ"
    ),
    "MQRC_MSG_TOO_BIG_FOR_CHANNEL": Advice(
        "longer than the channel takes", _A, "raise the channel's MAXMSGL at both ends"
    ),
    "MQRC_NO_DESTINATIONS_AVAILABLE": Advice(
        "no instance of the cluster queue can be reached",
        _T,
        "start the channels to them",
        "channels are started",
    ),
    "MQRC_BACKOUT_THRESHOLD_REACHED": Advice("backed out too often by its application", _P, _OWNER),
}
"""MQRC values, and those of MQFB that only a dead-letter header holds."""

_BY_REASON: Final = {ALL_NAMES[name]: advice for name, advice in _BY_NAME.items()}
_UNKNOWN: Final = Advice("", Kind.UNKNOWN, "look up the reason")

BY_CLASS: Final = {
    MessageClass.TRUNCATED_DLH: Advice("truncated MQDLH", _P, "find out what truncated it"),
    MessageClass.UNSUPPORTED_DLH_VERSION: Advice(
        "unsupported MQDLH version", _P, "find the program that wrote this header"
    ),
    MessageClass.UNDECODABLE: Advice(
        "undecodable MQDLH", _P, "find the program that put it under that CCSID"
    ),
    MessageClass.NO_DLH: Advice("no MQDLH", _P, "find the program that put it here without MQDLH"),
}
"""The classes of messages that no rule matches."""


def advice_on(reason: int) -> Advice:
    """Return the explanation of a reason code; `meaning` is "" for an unknown one."""
    return _BY_REASON.get(reason, _UNKNOWN)


# Recognize queue names that a program generated, so that all of them are one cause.
#
# A program that opens a model queue gives a stem such as ``AMQ.*``, and the queue manager replaces
# the asterisk by characters that make the name unique (IBM MQ docs, "DynamicQName (MQCHAR48)"). The
# asterisk may be in positions 1 to 33 of 48, and the queue manager writes 16 hexadecimal digits.
# Temporary queues of JMS, MQAI and IBM MQ Explorer have such names with other stems.
#
# The rule is conservative. The generated part is at the end of the name, and one of these:
#
# - the last 16 hexadecimal digits of a name that ends in at least 16, all letters among them of one
#   case;
# - 24 or 32 such digits that a separator precedes, or that are the whole name: an identifier of 12
#   or 16 bytes, such as a UUID without separators;
# - a UUID with separators, in groups of 8, 4, 4, 4 and 12 digits.
#
# At least one of the digits is a decimal one, so that no word is taken for a number. Every other
# name stays as it is: ``ORDERS.1`` and ``ORDERS.2`` are two queues.

GENERATED: Final = "*"
"""Stands for the generated part of a name; IBM allows no asterisk in the name of a queue."""

_SEPARATOR: Final = r"[./_%-]"


def _ends_in(digit: str) -> str:
    uuid = r"{d}{{8}}(?P<{g}>[._-]){d}{{4}}(?P={g}){d}{{4}}(?P={g}){d}{{4}}(?P={g}){d}{{12}}"
    group = "upper" if "A" in digit else "lower"
    separated = uuid.format(d=digit, g=group)
    return rf"(?:(?:\A|(?<={_SEPARATOR}))(?:{separated}|{digit}{{32}}|{digit}{{24}})|{digit}{{16}})"


_PART: Final = re.compile(rf"(?:{_ends_in('[0-9A-F]')}|{_ends_in('[0-9a-f]')})\Z")


def mq_name(field: str) -> str:
    """Return a name as MQ reads it: up to the first NUL, without trailing blanks."""
    return field.partition("\0")[0].rstrip(" ")


def generalize(name: str) -> str:
    """Return a queue's name with ``*`` for its generated part; another name as it is.

    As for a queue manager, a NUL ends a name, and blanks at its end do not count (IBM MQ docs,
    "ObjectName (MQCHAR48)"). The function is idempotent.

    >>> generalize("AMQ.5F2A6C7E21034B02")
    'AMQ.*'
    >>> generalize("ORDERS.1")
    'ORDERS.1'
    """
    name = mq_name(name)
    found = _PART.search(name)
    if found is None or not any(character in "0123456789" for character in found[0]):
        return name
    return name[: found.start()] + GENERATED


def is_generalized(name: str) -> bool:
    """Whether a name from `generalize` stands for all queues with its stem."""
    return name.endswith(GENERATED)


# Identify a cause by a fingerprint that stays the same in every run, place and version.

ID_DIGITS: Final = 12
"""The length of a `cause_id`: of 10,000 causes, two share one with a chance of 1 in 5 million."""


CAUSE_COLUMNS: Final = ("class", "dlh_reason", "dlh_dest_q_name", "dlh_dest_q_mgr_name")
"""The columns of a snapshot that `cause_of_row` reads."""


@dataclass(frozen=True)
class Cause:
    """Why messages are dead letters: a reason code and a destination, or a class of messages.

    `reason` and the destination are the MQDLH's; `dest_q_name` is generalized, such as ``AMQ.*``.
    For messages without a valid MQDLH, `reason` is 0 and the destination is "". `dest_q_name` is
    None for messages of several destinations that are counted together.
    """

    cls: MessageClass
    reason: int
    dest_q_name: str | None
    dest_q_mgr_name: str = ""

    @cached_property
    def cause_id(self) -> str:
        """The first 12 hexadecimal digits of a SHA-256; "" if the destination is not one."""
        if self.dest_q_name is None:
            return ""
        return _fingerprint(self.cls, self.reason, self.dest_q_name, self.dest_q_mgr_name)

    @property
    def is_generalized(self) -> bool:
        return self.dest_q_name is not None and is_generalized(self.dest_q_name)

    @property
    def is_of_dead_letters(self) -> bool:
        """Whether its messages have a valid MQDLH, so that rules can match them."""
        return self.cls is MessageClass.DEAD_LETTER

    @property
    def reason_text(self) -> str:
        """The reason as ``MQRC_Q_FULL (2053)``; "" for messages without a valid MQDLH."""
        return reason_text(self.reason) if self.is_of_dead_letters else ""

    @property
    def meaning(self) -> str:
        return self.explanation.meaning

    @property
    def kind(self) -> Kind:
        return self.explanation.kind

    @property
    def advice(self) -> str:
        return self.explanation.advice

    @property
    def explanation(self) -> Advice:
        """All that mqdlq says of the reason, or of the class."""
        return advice_on(self.reason) if self.cls not in BY_CLASS else BY_CLASS[self.cls]


def cause_of_row(row: Mapping[str, Any]) -> Cause:
    """Return the cause of a snapshot's row, which has the columns `CAUSE_COLUMNS`."""
    return find_cause(
        row["class"],
        row.get("dlh_reason") or 0,
        row.get("dlh_dest_q_name") or "",
        row.get("dlh_dest_q_mgr_name") or "",
    )


@lru_cache(maxsize=20_000)
def find_cause(cls: str, reason: int, dest_q_name: str, dest_q_mgr_name: str) -> Cause:
    """Return the cause of a message of a class with these fields in its MQDLH.

    All queues whose names differ only in a generated part are one destination. The fields do not
    count for messages without a valid MQDLH: their class is the cause.
    """
    kind = MessageClass(cls)
    if kind is not MessageClass.DEAD_LETTER:
        return Cause(kind, 0, "")
    return Cause(kind, reason, generalize(dest_q_name), mq_name(dest_q_mgr_name))


@lru_cache(maxsize=20_000)
def _fingerprint(cls: str, reason: int, dest_q_name: str, dest_q_mgr_name: str) -> str:
    canonical = json.dumps(["cause", str(cls), reason, dest_q_name, dest_q_mgr_name])
    return sha256(canonical.encode()).hexdigest()[:ID_DIGITS]


# Count messages by cause, row by row, in bounded memory.

COLUMNS: Final = (*CAUSE_COLUMNS, "dead_lettered_at", "put_at")
"""The columns of a snapshot that `count_causes` reads."""

MOST_CAUSES: Final = 10_000
"""How many causes a counter tells apart; it counts the messages of the others by reason only."""

MOST_NAMES: Final = 1_000
"""How many queue names of one cause a counter tells apart."""


@dataclass(slots=True)
class CountedCause:
    """A cause with the number and the times of its messages.

    `queues` is the number of different queue names in its messages: several for a generalized
    destination, and for a cause whose `dest_q_name` is None. At `MOST_NAMES` or more the number may
    be too small; None says that it is not known. The times are when the first and the last message
    was dead-lettered, or put if its MQDLH does not say; None if no message says either. `settled`
    is the number of messages that an earlier run has settled.
    `outcomes` counts the messages that have an outcome. With `has_nuls`, a NUL ends the destination
    in some of the messages, and a rule's pattern does not match it unless `nul_as_blank` is on.
    """

    cause: Cause
    messages: int = 0
    settled: int = 0
    queues: int | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    has_nuls: bool = False

    def add(self, other: CountedCause) -> None:
        firsts = [at for at in (self.first_at, other.first_at) if at is not None]
        lasts = [at for at in (self.last_at, other.last_at) if at is not None]
        self.messages += other.messages
        self.settled += other.settled
        self.queues = (self.queues or 0) + (other.queues or 0)
        self.first_at, self.last_at = min(firsts, default=None), max(lasts, default=None)
        self.outcomes += other.outcomes
        self.has_nuls = self.has_nuls or other.has_nuls


class CauseCounter:
    """Counts messages by cause.

    It tells `MOST_CAUSES` causes apart, the first that it meets, and counts the messages of the
    others by reason, in causes whose `dest_q_name` is None.
    """

    def __init__(self) -> None:
        self._counts: dict[Cause, tuple[CountedCause, set[str]]] = {}

    def add_row(self, row: Mapping[str, Any], *, is_settled: bool = False) -> None:
        """Count a snapshot's row, which has at least the columns `COLUMNS`."""
        at = row.get("dead_lettered_at") or row.get("put_at")
        self.add(cause_of_row(row), row.get("dlh_dest_q_name") or "", at, is_settled=is_settled)

    def add(
        self,
        cause: Cause,
        dest_q_name: str,
        at: datetime | None,
        outcome: Outcome | None = None,
        *,
        is_settled: bool = False,
        messages: int = 1,
        last_at: datetime | None = None,
    ) -> None:
        """Count a message, or several of `at` to `last_at` that are alike, or meet them as 0.

        `dest_q_name` is the name in their MQDLHs.
        """
        if cause not in self._counts and len(self._counts) >= MOST_CAUSES:
            cause = without_destination(cause)
        if cause not in self._counts:
            self._counts[cause] = CountedCause(cause), set()
        count, names = self._counts[cause]
        count.messages += messages
        count.settled += is_settled
        if dest_q_name not in names and len(names) < MOST_NAMES:
            names.add(dest_q_name)
        count.has_nuls = count.has_nuls or "\0" in dest_q_name
        if outcome is not None:
            count.outcomes[outcome] += messages
        if at is not None:
            last = last_at or at
            count.first_at = min(count.first_at or at, at)
            count.last_at = max(count.last_at or last, last)

    def counted(self, at_most: int | None = None) -> list[CountedCause]:
        """Return the causes, the most frequent first, and causes without a destination last.

        The causes beyond the first `at_most` are counted by reason: their `dest_q_name` is None.
        """
        found = [
            replace(count, queues=len(names), outcomes=count.outcomes.copy())
            for count, names in self._counts.values()
        ]
        told_apart = sorted((one for one in found if one.cause.dest_q_name is not None), key=_order)
        kept = told_apart[:at_most]
        rest = {one.cause: one for one in found if one.cause.dest_q_name is None}
        for one in told_apart[len(kept) :]:
            cause = without_destination(one.cause)
            if cause in rest:
                rest[cause].add(one)
            else:
                rest[cause] = replace(one, cause=cause)
        ranked = [*kept, *sorted(rest.values(), key=_order)]
        for one in ranked:  # reports list outcomes in their own order
            one.outcomes = Counter(
                {each: one.outcomes[each] for each in Outcome if one.outcomes[each]}
            )
        return ranked


def without_destination(cause: Cause) -> Cause:
    """Return the cause that counts a reason's messages of several destinations together.

    Messages without a valid MQDLH have no destination: their cause stays as it is.
    """
    return Cause(cause.cls, cause.reason, None) if cause.is_of_dead_letters else cause


def count_causes(rows: Iterable[Mapping[str, Any]]) -> list[CountedCause]:
    """Return the causes of rows that have at least the columns `COLUMNS`, most frequent first."""
    counter = CauseCounter()
    for row in rows:
        counter.add_row(row)
    return counter.counted()


def _order(one: CountedCause) -> tuple[int, str, int, str, str]:
    cause = one.cause
    name = cause.dest_q_name or ""
    return -one.messages, cause.cls or "", cause.reason, name, cause.dest_q_mgr_name
