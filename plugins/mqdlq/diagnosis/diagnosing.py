"""Diagnose dead letters: walk to their destination, and look at what else explains their reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from mqdlq.constants import MQRC
from mqdlq.diagnosis.by_reason import find_evidence
from mqdlq.diagnosis.looking import Look, NotToldError
from mqdlq.diagnosis.obstacles import Subject, find_obstacles
from mqdlq.diagnosis.records import Diagnosis, Finding, Outlook
from mqdlq.mqi.connect import QueueManager

_DECIDED: Final = frozenset(
    MQRC[name]
    for name in (
        "MQRC_ALIAS_BASE_Q_TYPE_ERROR",
        "MQRC_CLUSTER_PUT_INHIBITED",
        "MQRC_DEF_XMIT_Q_TYPE_ERROR",
        "MQRC_DEF_XMIT_Q_USAGE_ERROR",
        "MQRC_MSG_TOO_BIG_FOR_Q",
        "MQRC_MSG_TOO_BIG_FOR_Q_MGR",
        "MQRC_NOT_AUTHORIZED",
        "MQRC_PUT_INHIBITED",
        "MQRC_Q_DELETED",
        "MQRC_Q_FULL",
        "MQRC_REMOTE_Q_NAME_ERROR",
        "MQRC_UNKNOWN_ALIAS_BASE_Q",
        "MQRC_UNKNOWN_DEF_XMIT_Q",
        "MQRC_UNKNOWN_OBJECT_NAME",
        "MQRC_UNKNOWN_OBJECT_Q_MGR",
        "MQRC_UNKNOWN_REMOTE_Q_MGR",
        "MQRC_UNKNOWN_XMIT_Q",
        "MQRC_XMIT_Q_TYPE_ERROR",
        "MQRC_XMIT_Q_USAGE_ERROR",
    )
)
"""The reasons that a walk to the queue finds if they still hold."""


def diagnose(
    queue_manager: QueueManager,
    subject: Subject,
    clock: Callable[[], datetime],
    *,
    user: str = "",
) -> Diagnosis:
    """Ask what a put to the destination of dead letters would meet now.

    Nothing is put, got or changed. `user` is that of the connection, whom a missing authority to
    ask is about. Raises no error of an inquiry: the diagnosis then says what it was not told.
    """
    look, findings = Look(queue_manager, clock, user=user), list[Finding]()
    is_told = subject.reason in _DECIDED
    walk = find_obstacles(look, subject) if subject.destination[0] else iter(())
    for found in (walk, find_evidence(look, subject)):
        try:
            for one in found:
                findings.append(one)
        except NotToldError as error:
            findings.append(Finding(0, str(error)))
            is_told = False
    outlook = Outlook.CLEARED if is_told else Outlook.UNKNOWN
    if any(one.reason for one in findings):
        outlook = Outlook.REFUSED
    # What explains the reason of the messages comes first; other obstacles wait behind it.
    findings.sort(key=lambda one: (one.reason != subject.reason, not one.reason))
    return Diagnosis(clock(), outlook, tuple(findings), look.facts, tuple(look.inquiries))
