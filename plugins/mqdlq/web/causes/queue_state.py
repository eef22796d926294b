"""The state of one queue of a handler: its newest run, table and snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Final

from mqdlq.errors import LakeError
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.later_outcomes import SettledSince, SinceSnapshot
from mqdlq.ledger.reading.runs import HandledQueue
from mqdlq.ledger.tables.runs import Run, Sighting, TakenSnapshot
from mqdlq.reading.cause_profiles import MOST_MESSAGES, SnapshotProfile, profile_causes
from mqdlq.reading.report.report_sources import WrittenRule, written_rules
from mqdlq.rules import RulesTable, check
from mqdlq.rules.wildcards import fits
from mqdlq.web.rendering import NoRunYetError, NotFoundError

NOTHING: Final = SnapshotProfile({}, 0, 0)


@dataclass(frozen=True, slots=True)
class QueueState:
    """The newest run, table and snapshot of one queue.

    `run` has the handler's table, and `taken` is the newest snapshot, which may be of an earlier
    run, `taken_by`. `profile` describes the causes in the snapshot, and `trouble` says why there is
    none. `sighting` has the counts of the last browse of the snapshot's run, None if the run has
    not finished.
    """

    queue_manager: str
    queue: str
    run: Run
    taken: TakenSnapshot | None
    taken_by: Run | None
    sighting: Sighting | None
    profile: SnapshotProfile
    trouble: str
    rules: Mapping[int, WrittenRule]

    @property
    def gone(self) -> tuple[SettledSince, ...]:
        """The later runs that moved messages of the snapshot, or found them gone, newest first."""
        number: Counter[str] = sum((c.gone for c in self.profile.causes.values()), Counter())
        return self.gone_by(number)

    def gone_by(self, number: Mapping[str, int]) -> tuple[SettledSince, ...]:
        """Return these later runs, each with a number of messages, newest first."""
        runs = self.profile.since.runs
        found = (replace(runs[run_id], messages=messages) for run_id, messages in number.items())
        return tuple(sorted(found, key=lambda one: one.at, reverse=True))

    @property
    def table(self) -> RulesTable | None:
        """The table of the newest run; None if it cannot be read by this version."""
        return check(self.run.rules_text, queue_kind=self.run.queue_kind, frozen=True).table


def choose_queue(
    handler: str, queue_manager: str, queue: str, ledger: Ledger
) -> tuple[HandledQueue, Sequence[HandledQueue]]:
    """Return the queue that a page is about, and all queues of the handler.

    Without a name it is the queue that was handled last. Raises NoRunYetError if the handler had no
    run, and NotFoundError if it had none on this queue.
    """
    found = ledger.handled_queues.of_handler(handler)
    if not found:
        raise NoRunYetError(
            "MQDLQ-964",
            f"no run of handler {handler} is recorded; start its DAG, with dry_run at first",
        )
    for one in found:
        if fits(queue_manager or "*", one.queue_manager) and fits(queue or "*", one.queue):
            return one, found
    asked = f"{queue} @ {queue_manager}"
    known = ", ".join(f"{one.queue} @ {one.queue_manager}" for one in found)
    raise NotFoundError(
        "MQDLQ-964", f"no run of handler {handler} handled {asked}; its queues are {known}"
    )


def read_queue_state(
    handler: str, handled: HandledQueue, ledger: Ledger, clock: Callable[[], datetime]
) -> QueueState:
    """Read the newest table and snapshot of a queue; raise NoRunYetError if there is no table."""
    name = (handler, handled.queue_manager, handled.queue)
    run = ledger.handled_queues.newest_run(*name)
    if run is None:
        raise NoRunYetError(
            "MQDLQ-964",
            f"no run of handler {handler} used its rules table; start its DAG without"
            " message_keys, with dry_run at first",
        )
    taken = ledger.handled_queues.newest_snapshot(*name)
    taken_by = ledger.runs.get(taken.run_id) if taken else None
    sighting = ledger.accounts.of_run(taken.run_id) if taken else None
    profile, trouble = NOTHING, ""
    if taken is None or taken_by is None:
        trouble = "No run has a snapshot of this queue: the runs found it empty, or were pruned."
    else:
        try:
            profile = _profile(taken_by, taken, sighting, clock(), ledger)
        except LakeError as error:
            trouble = f"The snapshot cannot be read: {error.text}"
    return QueueState(
        handled.queue_manager,
        handled.queue,
        run,
        taken,
        taken_by,
        sighting,
        profile,
        trouble,
        written_rules(run.rules_text),
    )


def _profile(
    run: Run, taken: TakenSnapshot, sighting: Sighting | None, now: datetime, ledger: Ledger
) -> SnapshotProfile:
    """Describe a snapshot; of a finished run, once in a minute, and when later runs acted."""
    since = ledger.later.of_run(run.run_id)
    if sighting is None:
        return profile_causes(run, taken, now, ledger=ledger, since=since, most=MOST_MESSAGES)
    return _profile_of_minute(run, taken, now.replace(second=0, microsecond=0), ledger, since)


@lru_cache(maxsize=16)
def _profile_of_minute(
    run: Run, taken: TakenSnapshot, minute: datetime, ledger: Ledger, since: SinceSnapshot
) -> SnapshotProfile:
    return profile_causes(run, taken, minute, ledger=ledger, since=since, most=MOST_MESSAGES)
