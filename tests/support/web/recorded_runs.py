"""Record runs in a ledger as the stages record them, without a queue manager and a lake."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import event

from mqdlq.ledger import Ledger
from mqdlq.ledger.tables import (
    AcceptedPlan,
    Approval,
    Ending,
    Look,
    RecordedVerdict,
    Run,
    Sighting,
    TakenSnapshot,
)
from mqdlq.model import DEPARTED, Disposition, Outcome, Trait
from tests.support.run_records import NOON, run_record


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """A run to record: `outcomes` by number, or None for a run whose tasks are not done.

    Without work, only the look is recorded. `verdict` "" means that no report was written. A run
    that asks for an approval has a plan for `planned` of its messages.
    """

    handler: str = "demo"
    name: str = "1"
    at: datetime = NOON
    depth: int = 5
    is_work: bool = True
    outcomes: Mapping[Outcome, int] | None = field(
        default_factory=lambda: {Outcome.DELIVERED: 3, Outcome.UNMATCHED: 2}
    )
    arrived: int = 0
    verdict: str | None = None
    why: str = ""
    adds_up: bool | None = True
    asks: bool = False
    planned: int = 3
    max_depth: int | None = 5000
    rule: int = 1
    run: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        return f"{self.handler}-{self.name}"

    def record(self, ledger: Ledger) -> Run:
        """Record the run and return it."""
        own = {"run_id": self.run_id, "handler": self.handler, "started_at": self.at}
        run = run_record(**{**own, "dag_run_id": self.name, **self.run})
        ledger.runs.record(run)
        looked_at = self.at + timedelta(seconds=1)
        look = Look(self.depth, self.is_work, "", looked_at, self.max_depth)
        ledger.runs.record_look(run.run_id, look)
        if not self.is_work:
            return run
        taken = TakenSnapshot(
            run.run_id, run.run_id, "lake", self.depth, self.at + timedelta(seconds=2)
        )
        ledger.snapshots.record(taken)
        if self.asks:
            kinds = [Disposition.PLANNED] * self.planned
            kinds += [Disposition.UNMATCHED] * (self.depth - self.planned)
            rows = [(place, self._key(place), kind) for place, kind in enumerate(kinds, start=1)]
            plan = AcceptedPlan(run.run_id, f"{run.run_id}-plan", "0" * 64, "lake", self.at)
            ledger.plans.record(run, plan, rows)
            asked = Approval("0" * 64, ("discards",), "asked", "", self.at + timedelta(seconds=3))
            ledger.plans.record_approval(run.run_id, asked)
        if self.outcomes is not None:
            self._close(run, self.outcomes, ledger)
        return run

    def _key(self, place: int) -> bytes:
        return hashlib.sha256(f"{self.run_id} {place}".encode()).digest()

    def _close(self, run: Run, outcomes: Mapping[Outcome, int], ledger: Ledger) -> None:
        there = sum(number for outcome, number in outcomes.items() if outcome not in DEPARTED)
        closed_at = self.at + timedelta(seconds=30)
        sighting = Sighting(there + self.arrived, there, 0, self.arrived, closed_at)
        ledger.accounts.record(run.run_id, sighting)
        oldest = self.at - timedelta(hours=1) if there else None
        ledger.accounts.oldest_that_stays(run, oldest)
        attention = sum(n for o, n in outcomes.items() if Trait.NEEDS_ATTENTION in o.traits)
        verdict = self.verdict or ("attention" if attention else "ok")
        if self.verdict == "":
            return
        recorded = RecordedVerdict(
            verdict=verdict,
            headline=f"{self.depth} messages",
            why=self.why,
            messages=self.depth,
            adds_up=self.adds_up,
            attention=attention,
            at=closed_at + timedelta(seconds=1),
        )
        counted = {Ending(self.rule, "RETRY", "", "", o): n for o, n in outcomes.items()}
        ledger.accounts.record_verdict(run.run_id, recorded, counted)


@contextmanager
def counted_statements(ledger: Ledger) -> Iterator[list[str]]:
    """Yield a list that receives each SQL statement that the ledger executes."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement != "BEGIN":
            statements.append(statement)

    event.listen(ledger.engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(ledger.engine, "before_cursor_execute", note)
