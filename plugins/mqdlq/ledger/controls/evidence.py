"""Checks of a queue by evidence, which runs record and reports show."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import select

from mqdlq.ledger.database import Repository, add, columns_of, in_turn
from mqdlq.ledger.runs import is_on_queue
from mqdlq.ledger.tables.controls import evidence_checks
from mqdlq.ledger.tables.runs import runs


@dataclass(frozen=True, slots=True)
class EvidenceCheck:
    """One comparison of a queue with its evidence, over the time from `since` to `at`.

    `kind` is "stream" or "statistics", `source` the queue with the evidence. Of `examined` messages
    on a stream queue, `unseen` are in no snapshot; if not `is_exact`, this is the highest number
    possible. Of `examined` gets in statistics, `unseen` are more than runs made. `since` is None
    for the first check of a queue. `trouble` says why the check was not made, or "".
    """

    kind: str
    source: str
    since: datetime | None
    at: datetime
    examined: int = 0
    unseen: int = 0
    is_exact: bool = True
    trouble: str = ""


class EvidenceChecks(Repository):
    """The checks of queues by evidence; a run has at most one of each kind."""

    def record(self, run_id: str, check: EvidenceCheck) -> None:
        """Record a check of a run, unless the run has one of this kind."""
        with in_turn(self._engine) as connection:
            known = select(evidence_checks.c.run_id).where(
                evidence_checks.c.run_id == run_id, evidence_checks.c.kind == check.kind
            )
            if connection.execute(known).first() is None:
                add(connection, evidence_checks, [{"run_id": run_id, **asdict(check)}])

    def of_run(self, run_id: str) -> list[EvidenceCheck]:
        """Return the checks of a run, by kind."""
        query = (
            select(*columns_of(evidence_checks, EvidenceCheck))
            .where(evidence_checks.c.run_id == run_id)
            .order_by(evidence_checks.c.kind)
        )
        return [EvidenceCheck(**row) for row in self._all(query)]

    def last_at(self, queue_manager: str, queue: str, kind: str) -> datetime | None:
        """Return up to when a queue was last checked by evidence of this kind, or None."""
        query = (
            select(evidence_checks.c.at)
            .join(runs, runs.c.run_id == evidence_checks.c.run_id)
            .where(
                is_on_queue(queue_manager, queue),
                evidence_checks.c.kind == kind,
                evidence_checks.c.trouble == "",
            )
            .order_by(evidence_checks.c.at.desc())
        )
        return self._moment(query)
