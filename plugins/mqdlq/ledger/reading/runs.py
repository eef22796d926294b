"""Leases of live runs on messages, found by the messages' keys."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import func, select

from mqdlq.ledger.database import Repository, in_parts
from mqdlq.ledger.reading.run_entries import (
    DESCRIPTIONS,
    EntryKind,
    RunFilter,
    entries,
    last_verdicts,
)
from mqdlq.ledger.tables.messages import Restoration, Settled, leases, messages, restorations
from mqdlq.ledger.tables.runs import Run, approvals, failures, passes, plans, runs, verdict_outcomes


class Leases(Repository):
    """Read which runs have messages at the moment."""

    def of_keys(
        self, queue_manager: str, queue: str, keys: Collection[str], now: datetime
    ) -> dict[str, str]:
        """Return the run that has a lease on the messages of a queue with these keys (hex)."""
        later = leases.alias()
        newest = select(func.max(later.c.seq)).where(later.c.message_id == leases.c.message_id)
        query = (
            select(messages.c.message_key, leases.c.run_id)
            .join(leases, leases.c.message_id == messages.c.message_id)
            .where(
                messages.c.queue_manager == queue_manager,
                messages.c.queue == queue,
                leases.c.seq == newest.scalar_subquery(),
                leases.c.until > now,
            )
        )
        found: dict[str, str] = {}
        for some in in_parts(sorted(map(bytes.fromhex, keys))):
            for row in self._all(query.where(messages.c.message_key.in_(some))):
                found[row["message_key"].hex()] = row["run_id"]
        return found


# Lists of runs: recorded, refused and pruned runs, and restorations, in one order.


@dataclass(frozen=True, slots=True)
class ListedRun:
    """An entry of a list of runs.

    `at` is when the run or the restoration started, or when the last try was refused. `verdict`,
    `headline` and `why` are those of the last report, "" without one; `why` of a refused run is the
    reason. `asked_why` is the reason or ticket of the person who started it. `messages` is the
    number in the snapshot, None without one. `ended_at` is the time of the last browse or of the
    report. `queue` is "" for a refused run. `tries` counts failures.
    """

    kind: EntryKind
    run_id: str
    at: datetime
    run_type: str = ""
    started_by: str = ""
    asked_why: str = ""
    queue_manager: str = ""
    queue: str = ""
    dry_run: bool = False
    named_messages: int = 0
    rules_digest: str = ""
    max_run_time_s: int = 0
    messages: int | None = None
    snapshot_id: str = ""
    taken_at: datetime | None = None
    saw_no_work: bool = False
    verdict: str = ""
    headline: str = ""
    why: str = ""
    adds_up: bool | None = None
    attention: int = 0
    ended_at: datetime | None = None
    tries: int = 0


class RunLists(Repository):
    """Runs of a handler as a list, and the facts about single runs that only pages show."""

    def page(
        self, handler: str, chosen: RunFilter, *, offset: int = 0, limit: int = 50
    ) -> list[ListedRun]:
        """Return entries of a handler, the newest first."""
        chosen_ones = entries(handler, chosen)
        query = select(chosen_ones).order_by(chosen_ones.c.at.desc(), chosen_ones.c.id.desc())
        found = self._all(query.offset(offset).limit(limit))
        by_kind: dict[str, list[str]] = {}
        for row in found:
            by_kind.setdefault(row["kind"], []).append(row["id"])
        known: dict[tuple[str, str], ListedRun] = {}
        for kind, ids in by_kind.items():
            for entry in self._described(EntryKind(kind), ids):
                known[kind, entry.run_id] = entry
        return [known[row["kind"], row["id"]] for row in found if (row["kind"], row["id"]) in known]

    def count(self, handler: str, chosen: RunFilter) -> int:
        """Return how many entries of a handler the filter chooses."""
        query = select(func.count()).select_from(entries(handler, chosen))
        return int(next(iter(self._values(query))))

    def run_types(self, handler: str) -> list[str]:
        """Return the types of a handler's runs, sorted."""
        query = select(runs.c.run_type).where(runs.c.handler == handler).distinct()
        return sorted(self._values(query))

    def outcomes(self, run_ids: Collection[str]) -> dict[str, dict[Settled, int]]:
        """Return the outcomes that the last report of each run counted, by run and decision."""
        last = last_verdicts()
        names = [field.name for field in fields(Settled)]
        query = select(
            verdict_outcomes.c.run_id,
            *(verdict_outcomes.c[name] for name in names),
            verdict_outcomes.c.messages,
        ).join(last, last.c.seq == verdict_outcomes.c.verdict_seq)
        found: dict[str, dict[Settled, int]] = {}
        for some in in_parts(run_ids):
            for row in self._all(query.where(verdict_outcomes.c.run_id.in_(some))):
                how = Settled(*(row[name] for name in names))
                found.setdefault(row["run_id"], {})[how] = row["messages"]
        return found

    def open_questions(self, run_ids: Collection[str]) -> dict[str, datetime]:
        """Return which of these runs wait for an approval, and since when."""
        newest = select(func.max(approvals.c.seq)).where(approvals.c.run_id.in_(run_ids))
        query = select(approvals.c.run_id, approvals.c.at).where(
            approvals.c.seq.in_(newest.group_by(approvals.c.run_id)),
            approvals.c.decision == "asked",
        )
        return {row["run_id"]: row["at"] for row in self._all(query)}

    def leased_until(self, run_ids: Collection[str], now: datetime) -> dict[str, datetime]:
        """Return which of these runs hold leases at a time, and until when."""
        later = leases.alias()
        is_last = ~(
            select(later.c.seq)
            .where(later.c.message_id == leases.c.message_id, later.c.seq > leases.c.seq)
            .exists()
        )
        query = (
            select(leases.c.run_id, func.max(leases.c.until).label("until"))
            .where(leases.c.run_id.in_(run_ids), leases.c.until > now, is_last)
            .group_by(leases.c.run_id)
        )
        return {row["run_id"]: row["until"] for row in self._all(query)}

    def passes(self, run_id: str) -> list[datetime]:
        """Return when the passes of a run began, in order."""
        query = select(passes.c.started_at).where(passes.c.run_id == run_id)
        return list(self._values(query.order_by(passes.c.seq)))

    def refused_handler(self, run_id: str) -> str:
        """Return the handler of a refused run, "" if no failure is recorded."""
        query = select(failures.c.handler).where(failures.c.run_id == run_id)
        return next(iter(self._values(query.limit(1))), "")

    def pruned(self, run_id: str) -> ListedRun | None:
        """Return a pruned run, or None."""
        return next(iter(self._described(EntryKind.PRUNED, [run_id])), None)

    def planned_before(self, run: Run) -> tuple[str, str] | None:
        """Return the id and the plan's location of the last run on the queue before a run.

        Only runs for all messages with an accepted plan count. None if there is none.
        """
        query = (
            select(runs.c.run_id, plans.c.location)
            .join(plans, plans.c.run_id == runs.c.run_id)
            .where(
                runs.c.handler == run.handler,
                runs.c.queue_manager == run.queue_manager,
                runs.c.queue == run.queue,
                runs.c.started_at < run.started_at,
                runs.c.message_keys == (),
            )
            .order_by(runs.c.started_at.desc())
        )
        row = self._first(query)
        return None if row is None else (row["run_id"], row["location"])

    def restoration(self, restoration_id: str) -> Restoration | None:
        """Return a restoration, or None."""
        query = select(restorations).where(restorations.c.restoration_id == restoration_id)
        return self._one(Restoration, query)

    def _described(self, kind: EntryKind, ids: Sequence[str]) -> list[ListedRun]:
        rows = self._all(DESCRIPTIONS[kind](ids))
        return [ListedRun(kind, **row) for row in rows]
