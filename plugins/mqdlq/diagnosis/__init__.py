"""Diagnoses: why the destination of dead letters refuses them, and the command that ends it.

A diagnosis asks the queue manager, and changes nothing there. It says what a put would meet now, so
that a cause that is fixed is seen to be fixed. What cannot be asked is not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from mqdlq.constants import MQRC
from mqdlq.diagnosis.evidence import find_evidence
from mqdlq.diagnosis.looking import Facts, Inquiry, Look, NotToldError
from mqdlq.diagnosis.obstacles import Finding, Subject, find_obstacles
from mqdlq.model import InWords
from mqdlq.mqi.connect import QueueManager

__all__ = ["Diagnosis", "Finding", "Inquiry", "Subject", "Verdict", "changes", "diagnose"]


class Verdict(InWords):
    """Whether a put to the destination would be refused now."""

    REFUSED = "refused", "a put would be refused now"
    CLEARED = "cleared", "nothing refuses a put any more"
    UNKNOWN = "unknown", "cannot tell"


_DECIDED: Final = frozenset(
    MQRC[name]
    for name in (
        "MQRC_ALIAS_BASE_Q_TYPE_ERROR",
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


@dataclass(frozen=True)
class Diagnosis:
    """What a diagnosis found, at a time; `facts` by object are what the next one compares with."""

    at: datetime
    verdict: Verdict
    findings: tuple[Finding, ...]
    facts: Mapping[str, Facts]
    inquiries: tuple[Inquiry, ...]

    @property
    def sentences(self) -> list[str]:
        return [one.text for one in self.findings]

    def as_record(self) -> dict[str, Any]:
        """Return the diagnosis for JSON, as the command and the ledger write it."""
        return {
            "at": self.at.isoformat(),
            "verdict": self.verdict.value,
            "findings": [one._asdict() for one in self.findings],
            "facts": self.facts,
            "inquiries": [one._asdict() | {"at": one.at.isoformat()} for one in self.inquiries],
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what `as_record` returns."""
        read = datetime.fromisoformat
        findings = [
            Finding(one["reason"], one["text"], tuple(one["commands"]))
            for one in record["findings"]
        ]
        asked = (Inquiry(**one | {"at": read(one["at"])}) for one in record["inquiries"])
        verdict = Verdict(record["verdict"])
        return cls(read(record["at"]), verdict, tuple(findings), record["facts"], tuple(asked))


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
    walk = find_obstacles(look, subject) if subject.dest_q_name else iter(())
    for found in (walk, find_evidence(look, subject)):
        try:
            for one in found:
                findings.append(one)
        except NotToldError as error:
            findings.append(Finding(0, str(error)))
            is_told = False
    verdict = Verdict.CLEARED if is_told else Verdict.UNKNOWN
    if any(one.reason for one in findings):
        verdict = Verdict.REFUSED
    # What explains the reason of the messages comes first; other obstacles wait behind it.
    findings.sort(key=lambda one: (one.reason != subject.reason, not one.reason))
    return Diagnosis(clock(), verdict, tuple(findings), look.facts, tuple(look.inquiries))


def changes(before: Mapping[str, Facts], after: Mapping[str, Facts]) -> Iterator[str]:
    """Yield what differs between the facts of two diagnoses: ``queue IN: MAXDEPTH 5 → 50``."""
    for subject in [*before, *(one for one in after if one not in before)]:
        old, new = before.get(subject, {}), after.get(subject, {})
        differing = [
            f"{name} {old.get(name, 'none')} → {new.get(name, 'none')}"
            for name in {**old, **new}
            if old.get(name) != new.get(name)
        ]
        if subject in before and subject in after and differing:
            yield f"{subject}: {'; '.join(differing)}"
