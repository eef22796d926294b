"""Sections of docs/reference/schemas.md: the ledger's tables, and the records of a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property
from inspect import getdoc
from typing import Any, Final, get_type_hints

from sqlalchemy import Column, Table

from mqdlq.causes import Cause, CountedCause
from mqdlq.controls.loops.round_trips import ReturnRow
from mqdlq.controls.ramp.report import RampRow
from mqdlq.controls.repair.changes import RepairRow
from mqdlq.failures import Failure
from mqdlq.ledger.columns import views
from mqdlq.ledger.tables import EvidenceCheck, LearnedCount, Run, metadata
from mqdlq.reading.report import json_report
from mqdlq.reading.report.building import Report
from mqdlq.reading.report.groups import TriedGroup
from mqdlq.reading.run import PlanFacts, Sources
from tests.support.docs.tables import table

RECORDS: Final[tuple[type, ...]] = (
    *(*json_report.KEYS, PlanFacts, TriedGroup, Failure, LearnedCount, RampRow, ReturnRow),
    *(RepairRow, EvidenceCheck),
)
"""The records that a report's document has, itself first."""

_MEANINGS: Final = {
    "alerts": "the events of a run: alerts that were sent, and conditions that last after the run",
    "approvals": "the requests for approval of a plan, and the decisions on them",
    "arrivals": "messages by cause and hour of dead-lettering, by the run that met them",
    "archive": "the archive copy of a message that a run discards",
    "attempt_lots": "what attempts of a unit of work have in common",
    "attempt_messages": "the messages of a unit of work, in the order in which it moves them",
    "attempt_states": "each try of a rule's action on a message in its current state",
    "attempts": "each state of each try of a rule's action on a message",
    "audit": "events that no other table records, and the approvals of pruned runs",
    "cause_changes": "states, notes and tickets that people gave a cause",
    "diagnoses": "what diagnoses found in the way of a cause's messages",
    "cause_numbers": "what is on each queue now, by cause, since the last look",
    "causes": "the causes of the messages in a run's snapshot ([what a cause is](causes.md))",
    "epochs": "the last number of a pass or restoration, and who took on an older ledger",
    "evidence_checks": "comparisons of a queue with its stream queue or statistics, as hints",
    "holds": "legal holds on a handler, a run or a message",
    "learned": "an outcome of an earlier run that a later run found out",
    "identities": "what messages keep when they come back, for handlers with `loops`",
    "leases": "the run that a message belongs to, and until when",
    "listed_messages": "the messages of a run",
    "looks": "what each inquiry of a waiting run found, and whether it is work",
    "messages": "the identity of each message; `residence` counts its returns to the queue",
    "meters": "the limited rate of a handler, a queue manager or a queue, which runs share",
    "outcome_lots": "what outcomes of messages of a run have in common",
    "outcome_messages": "the one outcome of each message of a run",
    "outcomes": "how a message of a run ended",
    "passes": "when each pass of a run began",
    "plans": "the accepted plan of a run",
    "pruned_copies": "the archive copies that a prune removes",
    "pruned_files": "the files of the archive from which a prune has removed its copies",
    "pruned_outcomes": "the totals of a pruned run",
    "pruned_runs": "the runs that a prune removes",
    "prunes": "prunes of archive and ledger, with policy and user",
    "repairs": "the changes of each message that a run repairs, or why it does not",
    "ramp_states": "each state of the ramp or breaker of a cause and a target",
    "failures": "why attempts of tasks failed; the run of a failed `sense` need not be in `runs`",
    "released_holds": "who removed a legal hold, and why",
    "restoration_states": "each state of each archived copy in a restoration",
    "restorations": "who asked to restore which copies to which queue",
    "run_messages": "the messages of a run, in browse order",
    "runs": "what a run was given at its start",
    "settled_lots": "messages with one outcome that later runs may skip",
    "settled_messages": "the messages of such a lot",
    "settled_outcomes": "how many messages of a run kept an earlier outcome",
    "sightings": "the last browse of a run; `oldest_left`: since when the oldest message is there",
    "snapshots": "the snapshot of a run; `pruned_at` is when retention removed it from the lake",
    "unit_states": "each state of the attempts of a unit of work, or of one of them",
    "units": "the units of work of runs",
    "verdict_outcomes": "how many messages of a run had which outcome, as its report counted them",
    "verdicts": "the verdict and the numbers of each report of a run; the last one counts",
}


def ledger_tables() -> str:
    """Return a section for each table. Raises KeyError for a table without a meaning."""
    found = [*metadata.tables.values(), *views.tables.values()]
    return "".join(map(_table, sorted(found, key=lambda one: one.name)))


def report_records() -> str:
    """Return a section for each record of a report."""
    return "".join(_records())


def _table(found: Table) -> str:
    rows = ((f"`{column.name}`", str(column.type), _key(column)) for column in found.columns)
    what = "A view: " if found.metadata is views else "Holds "
    head = f"### {found.name}\n\n{what}{_MEANINGS[found.name]}.\n\n"
    return f"{head}{table(('column', 'type', 'key'), rows)}\n"


def _key(column: Column[Any]) -> str:
    keys = ["primary"] if column.primary_key else []
    return ", ".join([*keys, *sorted(f"`{key.target_fullname}`" for key in column.foreign_keys)])


def _records() -> Iterator[str]:
    for one in RECORDS:
        keys = {name: _type_of(one, name) for name in json_report.keys_of(one)}
        if one is Run:
            keys |= {"ended_at": "datetime | None", "duration_s": "float"}
        rows = ((f"`{name}`", f"`{kind}`") for name, kind in keys.items())
        yield f"### {one.__name__}\n\n{_about(one)}\n\n{table(('key', 'type'), rows)}\n"


def _type_of(record: type, name: str) -> str:
    """Return the type of a field or a property; some of them are those of a part of the record."""
    for each in (record, {CountedCause: Cause, Report: Sources}.get(record, record)):
        found = getattr(each, name, None)
        if isinstance(found, property | cached_property):
            computed = found.func if isinstance(found, cached_property) else found.fget
            return str(computed.__annotations__["return"])
        hints = get_type_hints(each)
        if name in hints:  # a plain type has no length of its column
            hint, written = hints[name], {one.name: one.type for one in fields(each)}
            return hint.__name__ if isinstance(hint, type) else str(written[name])
    raise AttributeError(f"{record.__name__} has no {name}")


def _about(record: type) -> str:
    """Return what a record says of itself, and what the one that it extends says of its fields."""
    own, *others = (getdoc(one) or "" for one in (record, *record.__bases__) if is_dataclass(one))
    return "\n\n".join([own, *(text.partition("\n\n")[2] for text in others)])
