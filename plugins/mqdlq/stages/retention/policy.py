"""The retention policy of a handler, and the check of the clock that its ages depend on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from pydantic import TypeAdapter

from mqdlq.errors import LedgerError
from mqdlq.handlers import Handler
from mqdlq.ledger import Ledger
from mqdlq.stages.report.wording import moment

LARGEST_SKEW: Final = timedelta(minutes=5)
"""How far the clocks of two computers may differ: another one may write to the ledger now."""
LONGEST_PAUSE: Final = timedelta(days=31)
"""The longest time without a record before someone must confirm the clock."""


@dataclass(frozen=True, slots=True)
class Policy:
    """For how long archive copies and runs of a handler are kept; None means without limit."""

    handler: str
    keep_archive_for: timedelta | None
    keep_runs_for: timedelta | None

    @classmethod
    def of(cls, handler: Handler) -> Policy:
        """Return the policy of a handler."""
        return cls(handler.name, handler.keep_archive_for, handler.keep_runs_for)

    @property
    def prunes(self) -> bool:
        """Whether the policy limits anything."""
        return self.keep_archive_for is not None or self.keep_runs_for is not None

    def __str__(self) -> str:
        limits = ("keep_archive_for", "keep_runs_for")
        return ", ".join(
            f"{name} {_as_duration(value)}"
            for name in limits
            if (value := getattr(self, name)) is not None
        )


def _as_duration(value: timedelta) -> str:
    """Return a duration in ISO 8601: whole days as days, not as years."""
    if value % timedelta(days=1):
        return str(TypeAdapter(timedelta).dump_python(value, mode="json"))
    return f"P{value.days}D"


def check_clock(ledger: Ledger, now: datetime, *, is_trusted: bool) -> datetime | None:
    """Check that the clock agrees with the records of the ledger.

    With `is_trusted`, a person has confirmed the clock: returns the time of the newest record.
    Otherwise raises LedgerError if a record is newer than `now`, or if there is a long time without
    any record since the last prune, because the clock may have jumped.
    """
    newest = ledger.prunes.newest_record()
    if is_trusted:
        return newest
    trusted = ledger.prunes.trusted_until()
    is_known = trusted is not None and newest is not None and newest <= trusted
    if newest is not None and newest > now + LARGEST_SKEW and not is_known:
        raise LedgerError(
            "MQDLQ-253",
            f"the newest record of the ledger is of {moment(newest)}, and the clock says"
            f" {moment(now)}: nothing is pruned; correct the clock, or confirm it with mqdlq prune"
            " --trust-clock",
        )
    last = ledger.prunes.last()
    since = None if last is None else last.at
    starts = [at for at in ledger.prunes.starts_since(since) if at <= now]
    known = [*([since] if since is not None else []), *starts, now]
    for earlier, later in pairwise(known):
        if later - earlier > LONGEST_PAUSE:
            raise LedgerError(
                "MQDLQ-254",
                f"the ledger has no record between {moment(earlier)} and {moment(later)}, as if the"
                " clock had jumped: nothing is pruned; confirm the clock with mqdlq prune"
                " --trust-clock",
            )
    return None
