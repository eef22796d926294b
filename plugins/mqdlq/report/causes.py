"""What the commonest reason codes mean and who can act on them: a number in, our own words out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What makes a cause go away: time, an administrator, or the owner of an application."""

    TRANSIENT = "transient"
    ADMINISTRATIVE = "administrative"
    APPLICATION = "application"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason in one line, its kind, and what a person does about it."""

    meaning: str
    kind: Kind
    advice: str


_T, _A, _P = Kind.TRANSIENT, Kind.ADMINISTRATIVE, Kind.APPLICATION
_LOG: Final = "look into the queue manager's error log"
_OWNER: Final = "ask the owner of the application"

_CAUSES: Final = {
    265: (_P, "the program to be triggered could not be started", "see that it can be started"),
    266: (_P, "the trigger message is not valid", _OWNER),
    267: (_P, "the type of the program to be triggered is not valid", "correct its PROCESS"),
    268: (_A, "a message exit of the channel stopped it", "look into the channel's exit"),
    271: (_P, "a message on a transmission queue without its header", _OWNER),
    2009: (_T, "the connection was lost", _LOG),
    2030: (_A, "longer than the queue takes", "raise the queue's MAXMSGL"),
    2031: (_A, "longer than the queue manager takes", "raise the queue manager's MAXMSGL"),
    2035: (_A, "no authority for the destination", "grant the authority that is missing"),
    2042: (_T, "the destination is held for exclusive use", "see who holds it: DISPLAY QSTATUS"),
    2048: (_P, "persistent, but the queue is temporary", _OWNER),
    2051: (
        _A,
        "puts to the queue are inhibited",
        "set PUT(ENABLED) once whoever inhibited it agrees",
    ),
    2052: (_A, "the queue was deleted", "define the queue again"),
    2053: (_T, "the queue is full", "see what should be reading it, or raise its MAXDEPTH"),
    2056: (_T, "no disk space for the queue", "make room on the queue manager's disk"),
    2058: (_A, "the queue manager's name is not valid or not known", "define the way to it"),
    2063: (
        _A,
        "refused by Advanced Message Security, or another security check",
        "see `dspmqspl -m QMGR -p QUEUE` (a policy has its queue's name), and the error log",
    ),
    2071: (_T, "not enough storage", _LOG),
    2082: (_A, "an alias of a queue that nobody defined", "define the queue the alias names"),
    2085: (_A, "no queue of that name", "define the queue, or correct the name that is used"),
    2086: (_A, "no queue manager of that name", "correct the name that is used"),
    2087: (_A, "no way to the remote queue manager", "define a transmission queue for it"),
    2101: (_A, "the object is damaged", "recover the object"),
    2102: (_T, "the queue manager lacks resources", _LOG),
    2110: (_P, "MQMD.Format is not what the data are", _OWNER),
    2119: (_P, "the data could not be converted", "check the CCSID of the data"),
    2142: (_P, "a header of the message is not valid", _OWNER),
    2162: (_T, "the queue manager was stopping", "start the queue manager"),
    2184: (_A, "the remote queue's definition is not valid", "correct its RNAME"),
    2189: (_T, "the cluster queue could not be resolved", "look at the cluster's repositories"),
    2192: (_T, "the storage medium is full", "make room where the queue is stored"),
    2195: (_A, "an unexpected error", _LOG),
    2196: (_A, "no such transmission queue", "define the transmission queue"),
    2197: (_A, "no such default transmission queue", "define it, or blank DEFXMITQ"),
    2218: (_A, "longer than the channel takes", "raise the channel's MAXMSGL at both ends"),
    2270: (_T, "no instance of the cluster queue can be reached", "start the channels to them"),
    2362: (_P, "backed out too often by its application", _OWNER),
}
"""MQRC values, and those of MQFB that only a dead-letter header holds."""


def cause_of(reason: int) -> Cause:
    """Return what is known of a reason; `meaning` is "" where nothing is."""
    kind, meaning, advice = _CAUSES.get(reason, (Kind.UNKNOWN, "", "look up the reason"))
    return Cause(meaning, kind, advice)
