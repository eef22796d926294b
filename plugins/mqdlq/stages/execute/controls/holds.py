"""Why a due message is held on the queue, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from mqdlq.model import Outcome


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a due message is not tried now.

    `why` completes "not attempted: …" in reports. `until` is the time from which the run may try
    the message; None if it does not try it any more. `outcome` is that of a message that is still
    held when the run ends.
    """

    why: str
    until: datetime | None = None
    outcome: Outcome = Outcome.NOT_ATTEMPTED


def of_group(hold: Hold) -> Hold:
    """Return the hold of a message that must stay with another message of its group."""
    return Hold(f"another message of its group is held: {hold.why}", hold.until)
