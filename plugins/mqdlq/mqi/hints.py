"""Reason codes that say too little by themselves: a number and a queue in, what to look at out."""

from __future__ import annotations

MQRC_SECURITY_ERROR = 2063


def hint(reason: int, queue: str) -> str:
    """Return what a reason means on a queue, and where to look; "" where its name says it all.

    A policy of Advanced Message Security bears the name of the queue it protects (IBM MQ docs,
    "setmqspl").
    """
    if reason != MQRC_SECURITY_ERROR:
        return ""
    name = ascii(queue)[1:-1]  # a name from a message may hold anything
    return (
        f"the Advanced Message Security policy {name}, which has its queue's name, refuses it, or"
        f" another security check does: see the policy by `dspmqspl -m QMGR -p {name}` (policies"
        " are kept on SYSTEM.PROTECTION.POLICY.QUEUE), and the queue manager's error log"
    )
