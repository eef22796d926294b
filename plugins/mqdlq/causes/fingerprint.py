"""Identify a cause by a fingerprint that stays the same in every run, place and version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from mqdlq.causes.advice import BY_CLASS, Advice, Kind, advice_on
from mqdlq.causes.generated_names import generalize, is_generalized
from mqdlq.constants import reason_text
from mqdlq.model import MessageClass

ID_DIGITS: Final = 12
"""The length of a `cause_id`: of 10,000 causes, two share one with a chance of 1 in 5 million."""


CAUSE_COLUMNS: Final = ("class", "dlh_reason", "dlh_dest_q_name", "dlh_dest_q_mgr_name")
"""The columns of a snapshot that `cause_of_row` reads."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why messages are dead letters: a reason code and a destination, or a class of messages.

    `reason` and the destination are the MQDLH's; `dest_q_name` is generalized, such as ``AMQ.*``.
    For messages without a valid MQDLH, `reason` is 0 and the destination is "". `dest_q_name` is
    None for messages of several destinations that are counted together, and where the ledger of an
    earlier version does not know the destination; there `cls` is None if it is not known either.
    """

    cls: MessageClass | None
    reason: int
    dest_q_name: str | None
    dest_q_mgr_name: str = ""

    @property
    def cause_id(self) -> str:
        """The first 12 hexadecimal digits of a SHA-256; "" if the destination is not one."""
        if self.dest_q_name is None or self.cls is None:
            return ""
        return _fingerprint(self.cls, self.reason, self.dest_q_name, self.dest_q_mgr_name)

    @property
    def is_generalized(self) -> bool:
        """Whether the destination stands for all generated names with a stem."""
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
        """The meaning of the reason or the class; "" for an unknown reason."""
        return self.explanation.meaning

    @property
    def kind(self) -> Kind:
        """Whether it passes by itself, and else who can act."""
        return self.explanation.kind

    @property
    def advice(self) -> str:
        """The next step."""
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
    return Cause(kind, reason, generalize(dest_q_name), _trim(dest_q_mgr_name))


def _trim(name: str) -> str:
    return name.partition("\0")[0].rstrip(" ")


@lru_cache(maxsize=20_000)
def _fingerprint(cls: str, reason: int, dest_q_name: str, dest_q_mgr_name: str) -> str:
    canonical = json.dumps(["cause", str(cls), reason, dest_q_name, dest_q_mgr_name])
    return sha256(canonical.encode()).hexdigest()[:ID_DIGITS]
