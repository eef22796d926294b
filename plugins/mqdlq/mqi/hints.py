"""Advice on reason codes: a reason and a queue in, what the pair means and where to look out."""

from __future__ import annotations

from mqdlq.constants import MQRC

OF_A_BLANK_NAME = frozenset({MQRC["MQRC_UNKNOWN_OBJECT_NAME"], MQRC["MQRC_REMOTE_Q_NAME_ERROR"]})

BLANK_NAME = "a blank queue name"


def shown(queue: str) -> str:
    """Return a queue's name for a log or a report; a name from a message may hold anything."""
    return ascii(queue)[1:-1] or BLANK_NAME


def hint(reason: int, queue: str) -> str:
    """Return what a reason means on a queue, and where to look; "" where its name says it all.

    A policy of Advanced Message Security bears the name of the queue it protects (IBM MQ docs,
    "setmqspl").
    """
    if not queue and reason in OF_A_BLANK_NAME:
        return (
            "the message does not name a queue; the pattern DESTQ(?*) or REPLYQ(?*) lets a rule"
            " match only messages that do"
        )
    if reason != MQRC["MQRC_SECURITY_ERROR"]:
        return ""
    name = shown(queue)
    return (
        f"the Advanced Message Security policy {name}, which has its queue's name, refuses it, or"
        f" another security check does: see the policy by `dspmqspl -m QMGR -p {name}` (policies"
        " are kept on SYSTEM.PROTECTION.POLICY.QUEUE), and the queue manager's error log"
    )
