"""What a diagnosis found: its outlook, findings and facts, and the inquiries behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, Self

from mqdlq.ledger.tables import KnownDiagnosis
from mqdlq.model import InWords
from mqdlq.words import period

Facts = Mapping[str, str]
"""Attributes of an object by their MQSC keywords, with the words of MQSC as values."""


class Outlook(InWords):
    """Whether a put to the destination would be refused now."""

    REFUSED = "refused", "a put would be refused now"
    CLEARED = "cleared", "nothing refuses a put any more"
    UNKNOWN = "unknown", "cannot tell"


class Finding(NamedTuple):
    """One thing in the way, or a remark: the reason a put has for it, its text, and the MQSC.

    `reason` is 0 for a remark. `commands` are MQSC lines, each after a comment that says what it
    changes; nobody runs them but a person.
    """

    reason: int
    text: str
    commands: tuple[str, ...] = ()


class Inquiry(NamedTuple):
    """One question: the command and its object, when it was asked, how long it took, the answer."""

    command: str
    about: str
    at: datetime
    milliseconds: float
    answer: str


@dataclass(frozen=True)
class Diagnosis:
    """What a diagnosis found, at a time; `facts` by object are what the next one compares with."""

    at: datetime
    outlook: Outlook
    findings: tuple[Finding, ...]
    facts: Mapping[str, Facts]
    inquiries: tuple[Inquiry, ...]

    def as_record(self) -> dict[str, Any]:
        """Return the diagnosis for JSON, as the command and the ledger write it."""
        return {
            "at": self.at.isoformat(),
            "outlook": self.outlook.value,
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
        outlook = Outlook(record["outlook"])
        return cls(read(record["at"]), outlook, tuple(findings), record["facts"], tuple(asked))


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


_MOST_IN_A_LINE: Final = 3


def diagnosed_in_words(kept: KnownDiagnosis) -> str:
    """Return a kept diagnosis in a line: the cause, when, what is in the way, and the commands."""
    found = Diagnosis.of_record(kept.record)
    said = [one.text for one in found.findings[:_MOST_IN_A_LINE]]
    commands = (one.commands[-1] for one in found.findings[:_MOST_IN_A_LINE] if one.commands)
    words = "; ".join([*said, *commands]) or "no more is known"
    since = period(kept.first_at, kept.last_at)
    return f"{kept.record['cause']}, {since}: {found.outlook.words}: {words}"
