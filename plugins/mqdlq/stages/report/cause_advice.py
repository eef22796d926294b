"""Explain the commonest reason codes in our own words, and who can act on them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mqdlq.constants import ALL_NAMES


class Kind(StrEnum):
    """The remedy of a cause: time, an administrator, or the owner of an application."""

    TRANSIENT = "transient"
    ADMINISTRATIVE = "administrative"
    APPLICATION = "application"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason code in one line, its kind, and the next step."""

    meaning: str
    kind: Kind
    advice: str


_T, _A, _P = Kind.TRANSIENT, Kind.ADMINISTRATIVE, Kind.APPLICATION
_LOG: Final = "look into the queue manager's error log"
_OWNER: Final = "ask the owner of the application"

_BY_NAME: Final = {
    "MQFB_APPL_CANNOT_BE_STARTED": Cause(
        "the program to be triggered could not be started", _P, "make sure that it can be started"
    ),
    "MQFB_TM_ERROR": Cause("the trigger message is not valid", _P, _OWNER),
    "MQFB_APPL_TYPE_ERROR": Cause(
        "the type of the program to be triggered is not valid", _P, "correct its PROCESS"
    ),
    "MQFB_STOPPED_BY_MSG_EXIT": Cause(
        "a message exit of the channel stopped it", _A, "look into the channel's exit"
    ),
    "MQFB_XMIT_Q_MSG_ERROR": Cause(
        "a message on a transmission queue without its header", _P, _OWNER
    ),
    "MQRC_CONNECTION_BROKEN": Cause("the connection was lost", _T, _LOG),
    "MQRC_MSG_TOO_BIG_FOR_Q": Cause("longer than the queue takes", _A, "raise the queue's MAXMSGL"),
    "MQRC_MSG_TOO_BIG_FOR_Q_MGR": Cause(
        "longer than the queue manager takes", _A, "raise the queue manager's MAXMSGL"
    ),
    "MQRC_NOT_AUTHORIZED": Cause(
        "no authority for the destination", _A, "grant the authority that is missing"
    ),
    "MQRC_OBJECT_IN_USE": Cause(
        "another program has the destination open exclusively", _T, "find it: DISPLAY QSTATUS"
    ),
    "MQRC_PERSISTENT_NOT_ALLOWED": Cause("persistent, but the queue is temporary", _P, _OWNER),
    "MQRC_PUT_INHIBITED": Cause(
        "puts to the queue are inhibited", _A, "ask who inhibited puts, then set PUT(ENABLED)"
    ),
    "MQRC_Q_DELETED": Cause("the queue was deleted", _A, "define the queue again"),
    "MQRC_Q_FULL": Cause(
        "the queue is full", _T, "check the application that reads it, or raise its MAXDEPTH"
    ),
    "MQRC_Q_SPACE_NOT_AVAILABLE": Cause(
        "no disk space for the queue", _T, "make room on the queue manager's disk"
    ),
    "MQRC_Q_MGR_NAME_ERROR": Cause(
        "the queue manager's name is not valid or not known", _A, "define a route to it"
    ),
    "MQRC_SECURITY_ERROR": Cause(
        "refused by Advanced Message Security, or another security check",
        _A,
        "see `dspmqspl -m QMGR -p QUEUE` (a policy has its queue's name), and the error log",
    ),
    "MQRC_STORAGE_NOT_AVAILABLE": Cause("not enough storage", _T, _LOG),
    "MQRC_UNKNOWN_ALIAS_BASE_Q": Cause(
        "an alias of a queue that is not defined", _A, "define the queue that the alias names"
    ),
    "MQRC_UNKNOWN_OBJECT_NAME": Cause(
        "no queue of that name", _A, "define the queue, or correct the name that is used"
    ),
    "MQRC_UNKNOWN_OBJECT_Q_MGR": Cause(
        "no queue manager of that name", _A, "correct the name that is used"
    ),
    "MQRC_UNKNOWN_REMOTE_Q_MGR": Cause(
        "no route to remote queue manager", _A, "define a transmission queue for it"
    ),
    "MQRC_OBJECT_DAMAGED": Cause("the object is damaged", _A, "recover the object"),
    "MQRC_RESOURCE_PROBLEM": Cause("the queue manager lacks resources", _T, _LOG),
    "MQRC_FORMAT_ERROR": Cause("MQMD.Format is not what the data are", _P, _OWNER),
    "MQRC_NOT_CONVERTED": Cause(
        "the data could not be converted", _P, "check the CCSID of the data"
    ),
    "MQRC_HEADER_ERROR": Cause("a header of the message is not valid", _P, _OWNER),
    "MQRC_Q_MGR_STOPPING": Cause("the queue manager was stopping", _T, "start the queue manager"),
    "MQRC_REMOTE_Q_NAME_ERROR": Cause(
        "the remote queue's definition is not valid", _A, "correct its RNAME"
    ),
    "MQRC_CLUSTER_RESOLUTION_ERROR": Cause(
        "the cluster queue could not be resolved", _T, "look at the cluster's repositories"
    ),
    "MQRC_STORAGE_MEDIUM_FULL": Cause(
        "the storage medium is full", _T, "make room where the queue is stored"
    ),
    "MQRC_UNEXPECTED_ERROR": Cause("an unexpected error", _A, _LOG),
    "MQRC_UNKNOWN_XMIT_Q": Cause("no such transmission queue", _A, "define the transmission queue"),
    "MQRC_UNKNOWN_DEF_XMIT_Q": Cause(
        "no such default transmission queue", _A, "define it, or blank DEFXMITQ"
    ),
    "MQRC_MSG_TOO_BIG_FOR_CHANNEL": Cause(
        "longer than the channel takes", _A, "raise the channel's MAXMSGL at both ends"
    ),
    "MQRC_NO_DESTINATIONS_AVAILABLE": Cause(
        "no instance of the cluster queue can be reached", _T, "start the channels to them"
    ),
    "MQRC_BACKOUT_THRESHOLD_REACHED": Cause("backed out too often by its application", _P, _OWNER),
}
"""MQRC values, and those of MQFB that only a dead-letter header holds."""

_CAUSES: Final = {ALL_NAMES[name]: cause for name, cause in _BY_NAME.items()}


def cause_of(reason: int) -> Cause:
    """Return the explanation of a reason code; `meaning` is "" for an unknown one."""
    return _CAUSES.get(reason, Cause("", Kind.UNKNOWN, "look up the reason"))
