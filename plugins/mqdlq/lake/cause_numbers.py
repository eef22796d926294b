"""Count the messages of a snapshot by cause, in columns, and book them for the inbox."""

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.causes import CAUSE_COLUMNS, Cause, cause_of_row, without_destination
from mqdlq.errors import LakeError
from mqdlq.lake.schema import HEADERS
from mqdlq.lake.snapshots import full_rows_of_settled, settled_rows, snapshot_batches
from mqdlq.ledger import Ledger
from mqdlq.ledger.inbox import is_of_whole_queue
from mqdlq.ledger.tables import CauseNumbers, Run, TakenSnapshot
from mqdlq.model import DEPARTED, Outcome, Trait
from mqdlq.reasons import Why

LOG: Final = logging.getLogger(__name__)
MOST_CAUSES: Final = 1_000
"""How many causes of a queue have their own numbers; the others have some for each reason."""

_SOON: Final = timedelta(days=1)
_APPLICATIONS: Final = 5
_AT_ONCE: Final = 20_000

_OTHERS, _GONE, _LEFT, _OPEN = range(4)
"""Marks of messages: not the run's, departed, on the queue, and there in need of attention."""

_Marks = npt.NDArray[np.int8]
_Seqs = npt.NDArray[np.int64]


def book_causes(run: Run, ledger: Ledger) -> None:
    """Book for the inbox what a run knows of its queue, by cause, and which messages were new.

    It may be called after each stage of the run. A message is new in the run that lists it first.
    If the snapshot cannot be read, the numbers of the look before it stay.
    """
    taken, sighting = ledger.snapshots.of_run(run.run_id), ledger.accounts.of_run(run.run_id)
    is_whole = is_of_whole_queue(run)
    if taken is None:
        look = ledger.runs.last_look(run.run_id)
        if is_whole and look is not None and not look.depth:
            ledger.inbox.book(run, (), look.at, is_judged=True)
        return
    looked_at = sighting.at if sighting is not None and is_whole else taken.taken_at
    new = np.asarray(ledger.inbox.new_messages(run.run_id), np.int64)
    try:
        marks, soon = _mark_messages(run, taken, ledger), looked_at + _SOON
        rows = _read_groups(taken, marks, new, soon, is_whole=is_whole)
    except (LakeError, OSError) as error:
        LOG.warning("the inbox keeps its earlier numbers of %s: %s", run.queue, error)
        return
    groups: dict[Cause, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        row["is_known"] = not is_whole and not row["is_new"]
        groups[cause_of_row(row)].append(row)
    ranked = sorted(groups, key=lambda one: -sum(row["number"] for row in groups[one]))
    for cause in ranked[MOST_CAUSES:]:
        rest = groups.pop(cause)
        groups[without_destination(cause)] += rest
    found = [_numbers_of(cause, own) for cause, own in groups.items()]
    arrived = _count_arrivals(groups)
    ledger.inbox.book(run, found, looked_at, arrived, is_judged=sighting is not None)


def _count_arrivals(
    groups: Mapping[Cause, Sequence[dict[str, Any]]],
) -> Counter[tuple[str, datetime]]:
    arrivals: Counter[tuple[str, datetime]] = Counter()
    for cause, own in groups.items():
        for row in own:
            if row["is_new"] and row["hour"] is not None:
                arrivals[cause.cause_id, row["hour"]] += row["number"]
    return arrivals


def _numbers_of(cause: Cause, groups: Sequence[dict[str, Any]]) -> CauseNumbers:
    """Sum up what is on the queue, or, for a run for some messages, what it has changed.

    It has taken messages away that were there before, and met others first.
    """
    there = [row for row in groups if row["mark"] != _GONE and not row["is_known"]]
    taken = sum(row["number"] for row in groups if row["mark"] == _GONE and row["is_known"])
    applications: Counter[str] = Counter()
    for row in there:
        applications[row["put_appl_name"] or ""] += row["number"]
    return CauseNumbers(
        message_class=str(cause.cls),
        reason=cause.reason,
        cause_id=cause.cause_id,
        dest_q_name=cause.dest_q_name,
        dest_q_mgr_name=cause.dest_q_mgr_name,
        messages=sum(row["number"] for row in there) - taken,
        attention=sum(row["number"] for row in there if row["mark"] == _OPEN) - taken,
        expiring=sum(row["soon"] for row in there),
        expires_at=min((row["ends"] for row in there if row["ends"]), default=None),
        oldest_at=min((row["first"] for row in there if row["first"]), default=None),
        first_at=min((row["first"] for row in groups if row["first"]), default=None),
        last_at=max((row["last"] for row in groups if row["last"]), default=None),
        applications=json.dumps(dict(applications.most_common(_APPLICATIONS))),
    )


def _mark_messages(run: Run, taken: TakenSnapshot, ledger: Ledger) -> _Marks:
    """Return the mark of each message of a snapshot by its browse_seq."""
    is_whole = is_of_whole_queue(run)
    parts = list(_settled(taken.location)) if is_whole else []
    endings = ledger.run_messages.endings(run.run_id)
    for fact, text in zip(endings.facts, endings.browse_seqs, strict=True):
        is_gone = fact.outcome in DEPARTED or fact.why.code is Why.HANDLED_BY_RUN
        mark = _GONE if is_gone else _LEFT if fact.is_only_dry_run else _mark_of(fact.outcome)
        parts.append((np.fromstring(text, np.int64, sep=","), mark))
    last = max([taken.messages, *(int(some.max(initial=0)) for some, _ in parts)])
    marks = np.full(last + 1, _OPEN if is_whole else _OTHERS, np.int8)
    for some, mark in parts:
        marks[some] = mark
    return marks


def _mark_of(outcome: Outcome) -> int:
    return _OPEN if Trait.NEEDS_ATTENTION in outcome.traits else _LEFT


def _settled(location: str) -> Iterator[tuple[_Seqs, int]]:
    for batch in settled_rows(location, ("browse_seq", "outcome")):
        outcomes = batch.column("outcome").dictionary_encode()
        for number, outcome in enumerate(outcomes.dictionary.to_pylist()):
            own = outcomes.indices.to_numpy() == number
            yield batch.column("browse_seq").to_numpy()[own], _mark_of(Outcome(outcome))


_KEYS: Final = [*CAUSE_COLUMNS, "put_appl_name", "mark", "is_new", "hour"]
_SUMS: Final = {"number": "sum", "first": "min", "last": "max", "ends": "min", "soon": "sum"}
_COLUMNS: Final = (
    *("browse_seq", "put_appl_name", "dead_lettered_at", "put_at", "expires_at"),
    *CAUSE_COLUMNS,
)


def _read_groups(
    taken: TakenSnapshot, marks: _Marks, new: _Seqs, soon: datetime, *, is_whole: bool
) -> list[dict[str, Any]]:
    """Count the messages that are alike, of a snapshot, without those that are not the run's."""
    is_new = np.zeros(len(marks), bool)
    is_new[new] = True
    found: pa.Table | None = None
    for batch in _batches(taken.location, with_settled=is_whole):
        at = batch.column("browse_seq").to_numpy()
        since = pc.coalesce(batch.column("dead_lettered_at"), batch.column("put_at"))
        ends = batch.column("expires_at")
        is_soon = pc.fill_null(pc.less_equal(ends, pa.scalar(soon, ends.type)), False)
        columns = {name: batch.column(name) for name in (*CAUSE_COLUMNS, "put_appl_name")} | {
            "mark": marks[at],
            "is_new": is_new[at],
            "hour": pc.floor_temporal(since, unit="hour"),
            "number": np.ones(len(at), np.int64),
            "first": since,
            "last": since,
            "ends": ends,
            "soon": is_soon.cast(pa.int64()),
        }
        rows = pa.table(columns).filter(pa.array(marks[at] != _OTHERS))
        rows = rows if found is None else pa.concat_tables([found, rows])
        groups = rows.group_by(_KEYS).aggregate([*_SUMS.items()])
        summed = [f"{name}_{how}" for name, how in _SUMS.items()]
        found = groups.select([*_KEYS, *summed]).rename_columns([*_KEYS, *_SUMS])
    listed: list[dict[str, Any]] = found.to_pylist() if found is not None else []
    return listed


def _batches(location: str, *, with_settled: bool) -> Iterator[pa.RecordBatch]:
    yield from snapshot_batches(location, _COLUMNS)
    if with_settled:
        schema = pa.schema([HEADERS.field(name) for name in _COLUMNS])
        rows = full_rows_of_settled(location, _COLUMNS)
        while some := list(islice(rows, _AT_ONCE)):
            yield pa.RecordBatch.from_pylist(some, schema=schema)
