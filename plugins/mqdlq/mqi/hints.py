"""Advice on the reason codes of calls on a queue: the likely cause and where to look."""

from __future__ import annotations

from mqdlq.constants import MQRC

BLANK_NAME_REASONS = frozenset({MQRC["MQRC_UNKNOWN_OBJECT_NAME"], MQRC["MQRC_REMOTE_Q_NAME_ERROR"]})

BLANK_NAME = "a blank queue name"


def printable_name(queue: str) -> str:
    """Return a queue's name for a log or a report; a name from a message may hold any bytes."""
    return ascii(queue)[1:-1] or BLANK_NAME


def hint(reason: int, queue: str) -> str:
    """Return the likely cause of a reason code on a queue, and where to look; "" without advice.

    An Advanced Message Security policy has the name of the queue that it protects (IBM MQ docs,
    "setmqspl").
    """
    if not queue and reason in BLANK_NAME_REASONS:
        return (
            "the message does not name a queue; the pattern DESTQ(?*) or REPLYQ(?*) lets a rule"
            " match only messages that do"
        )
    if reason != MQRC["MQRC_SECURITY_ERROR"]:
        return ""
    name = printable_name(queue)
    return (
        f"the Advanced Message Security policy {name}, which has its queue's name, refuses it, or"
        f" another security check does: see the policy by `dspmqspl -m QMGR -p {name}` (policies"
        " are kept on SYSTEM.PROTECTION.POLICY.QUEUE), and the queue manager's error log"
    )
