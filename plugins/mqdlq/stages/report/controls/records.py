"""The records of ramps, breakers, returned messages and repairs in a report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mqdlq.model import RampPhase


@dataclass(frozen=True, slots=True)
class RampRow:
    """How far the ramp or the breaker of one cause and target is.

    `cause` and `why` are in words; `is_open` says that the breaker has opened, and has not closed
    since. `until` is None if the state does not depend on the time.
    """

    cause_id: str
    cause: str
    target_q: str
    target_q_mgr: str
    phase: RampPhase
    is_open: bool
    why: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class ReturnRow:
    """Messages of a cause that came back equally often.

    `why` is in words. `limit` is the number of round trips after which a message is quarantined,
    None without the key `loops`. `quarantine_q` is the quarantine queue to which the run forwarded
    the messages, "" if they came back less often. Quarantined messages that stay are left out: they
    need attention.
    """

    cause_id: str
    cause: str
    messages: int
    round_trips: int
    why: str
    limit: int | None
    quarantine_q: str = ""


@dataclass(frozen=True, slots=True)
class RepairRow:
    """Messages that a run repairs in the same way, or does not repair for the same reason.

    `changes` is in words, from and to; `refusal` is "" if they can be repaired. `delivered` counts
    the delivered messages, whose originals are in the archive, and `unknown` the messages whose
    unit of work was interrupted and is not settled.
    """

    changes: str
    refusal: str
    messages: int
    delivered: int
    unknown: int
