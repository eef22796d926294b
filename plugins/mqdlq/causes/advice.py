"""Explain causes in our own words: what they mean, who can act, and what helps.

Reports, pages and drafts of rules take what they say of a cause from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mqdlq.constants import ALL_NAMES
from mqdlq.model import InWords, MessageClass


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
        "gets from the queue are inhibited",
        _A,
        "ask who inhibited gets, then set GET(ENABLED)",
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
        "the storage medium is full",
        _T,
        "make room where the queue is stored",
        "disks are cleared",
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
