"""Read the facts of one run from ledger and lake, except its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import pyarrow as pa

from mqdlq.errors import LakeError
from mqdlq.lake import (
    SnapshotManifest,
    find_plan,
    plan_directory,
    plan_id,
    read_manifest,
    settled_rows,
)
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.later_outcomes import SinceSnapshot
from mqdlq.ledger.tables.messages import Ending
from mqdlq.ledger.tables.runs import Look, Run, Sighting
from mqdlq.model import Outcome
from mqdlq.reading.report.report_records import PlanFacts, SnapshotFacts
from mqdlq.rules import check

_HOW: Final = ["outcome", "rule", "action", "target_q", "target_q_mgr"]
SNAPSHOT_UNREADABLE: Final = "the snapshot cannot be read"


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule as the run's table has it: the line its entry begins on, and its text."""

    line: int
    text: str


NO_RULE: Final = WrittenRule(0, "")
"""Stands for a rule that the run's table does not have."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The facts a report is made from, except the messages; `rules` are by ordinal.

    `settled` counts the settled messages by ending: as the run booked them or, before it did, as
    the earlier runs did. `manifest` is None if the snapshot cannot be read.
    """

    run: Run | None
    snapshot: SnapshotFacts | None
    plan: PlanFacts | None
    sighting: Sighting | None
    settled: Mapping[Ending, int]
    rules: Mapping[int, WrittenRule]
    manifest: SnapshotManifest | None
    troubles: tuple[str, ...]
    look: Look | None = None
    """The state of the queue when the run looked for work."""
    since: SinceSnapshot = field(default_factory=SinceSnapshot)
    """Later outcomes: a message that a later run settled does not need attention any more."""

    @property
    def settled_at(self) -> datetime | None:
        """When the run settled its messages by its last browse, None if it has not."""
        return self.sighting.at if self.sighting else None

    has_attempts: bool = False
    """Whether the run has begun a unit of work; each is announced in the ledger before."""

    @property
    def is_for_named(self) -> bool:
        """Whether the run is for named messages only."""
        return self.run is not None and bool(self.run.message_keys)


def read_sources(run_id: str, ledger: Ledger, lake_root: str) -> Sources:
    """Read a run; data missing in the lake is reported in `troubles` and raises no error."""
    run = ledger.runs.get(run_id)
    if run is None:
        return Sources(None, None, None, None, {}, {}, None, ())
    snapshot = _snapshot(run_id, ledger)
    manifest, troubles = _manifest(snapshot)
    sighting = ledger.accounts.of_run(run_id)
    settled: Mapping[Ending, int] = ledger.settled.outcomes(run_id)
    if manifest is not None and not settled and not sighting and not run.named:
        settled = _settled_before(manifest, snapshot)
    return Sources(
        run=run,
        snapshot=snapshot,
        plan=_plan(run, snapshot, ledger, lake_root),
        sighting=sighting,
        settled=settled,
        rules=written_rules(run.rules_text),
        manifest=manifest,
        troubles=troubles,
        look=ledger.runs.last_look(run_id),
        has_attempts=ledger.attempts.between(run_id) is not None,
    )


def written_rules(text: str) -> dict[int, WrittenRule]:
    """Return the rules of a table by ordinal, as they are written, without the comments between.

    A text that is not a valid table has none.
    """
    table = check(text, frozen=True).table
    if table is None:
        return {}
    lines = text.splitlines()
    starts = [rule.line for rule in table.rules] + [len(lines) + 1]
    written = {}
    for rule, end in zip(table.rules, starts[1:], strict=True):
        entry = [line.rstrip() for line in lines[rule.line - 1 : end - 1]]
        kept = [line for line in entry if line and not line.startswith("*")]
        written[rule.ordinal] = WrittenRule(rule.line, "\n".join(kept))
    return written


def _snapshot(run_id: str, ledger: Ledger) -> SnapshotFacts | None:
    row = ledger.snapshots.of_run(run_id)
    if row is None:
        return None
    return SnapshotFacts(row.snapshot_id, row.location, row.messages, row.taken_at)


def _settled_before(
    manifest: SnapshotManifest, snapshot: SnapshotFacts | None
) -> Mapping[Ending, int]:
    """Count the settled messages of a snapshot as earlier runs left them, if it can be read."""
    if snapshot is None or not manifest.settled:
        return {}
    try:
        batches = list(settled_rows(snapshot.location, _HOW))
    except (LakeError, OSError):
        return {}
    rows = pa.Table.from_batches(batches).group_by(_HOW).aggregate([([], "count_all")])
    counts = rows["count_all"].to_pylist()
    return {
        Ending(**row | {"outcome": Outcome(row["outcome"])}): number
        for row, number in zip(rows.select(_HOW).to_pylist(), counts, strict=True)
    }


def _plan(
    run: Run, snapshot: SnapshotFacts | None, ledger: Ledger, lake_root: str
) -> PlanFacts | None:
    """Return the plan the ledger has accepted, else the one that waits in the lake."""
    row = ledger.plans.of_run(run.run_id)
    if row is not None:
        return PlanFacts(row.plan_id, row.plan_hash, row.accepted_at)
    if snapshot is None:
        return None
    identifier = plan_id(snapshot.snapshot_id, run.rules_digest)
    try:
        found = find_plan(plan_directory(lake_root, identifier))
    except (LakeError, OSError):
        return None
    return None if found is None else PlanFacts(identifier, found.plan_hash, None)


def _manifest(snapshot: SnapshotFacts | None) -> tuple[SnapshotManifest | None, tuple[str, ...]]:
    """Return a snapshot's manifest, or what is wrong with it."""
    if snapshot is None:
        return None, ()
    try:
        return read_manifest(snapshot.location), ()
    except (LakeError, OSError, ValueError) as error:  # ValueError: not JSON
        return None, (f"{SNAPSHOT_UNREADABLE}: {error}",)
