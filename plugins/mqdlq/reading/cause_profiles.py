"""Describe the causes in a run's snapshot: senders, expiry, the rules that handle them, outcomes.

The messages are read once, without Spark, and at most `MOST_MESSAGES` of them.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial
from itertools import islice, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqdlq import lake
from mqdlq.causes import CAUSE_COLUMNS, COLUMNS, Cause, cause_of_row, find_cause
from mqdlq.evaluation.decisions import Decisions, columns_needed, distinct
from mqdlq.evaluation.value_masks import Numbers, encoded
from mqdlq.lake.row_search import is_one_of, search_rows
from mqdlq.lake.schema import HEADERS
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.later_outcomes import LaterReader, SinceSnapshot
from mqdlq.ledger.tables import Run, TakenSnapshot
from mqdlq.model import Outcome
from mqdlq.reading.run_messages import (
    ROW_COLUMNS,
    MessageFacts,
    browse_seqs_of,
    facts_of,
    number_endings,
)
from mqdlq.rules import RulesTable, check

MOST_MESSAGES: Final = 50_000
"""The most messages that are read while someone waits for a page."""
MORNING: Final = 6
"""The hour (UTC) at which a night ends."""
SAMPLES: Final = 10

NO_RULE: Final = 0
"""Stands for an ordinal where no rule matches, or none decided."""

_NAMES: Final = ("put_appl_name", "dlh_dest_q_name", "user_identifier", "format", "dlh_format")

_Ending = tuple[int, Outcome | None]
"""The rule that decided, `NO_RULE` for none, and the outcome, None without one."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Messages in columns, those of a cause next to each other, in the order of the snapshot.

    `places` has the rows of `table` in this order. `columns` are in it: the values of each, and the
    number of each message's value.
    """

    table: pa.Table
    places: Numbers
    columns: Mapping[str, tuple[Sequence[Any], Numbers]]
    now: datetime

    def count(self, column: str, own: slice | Numbers) -> Counter[Any]:
        """Count the values in some rows of a column, in the order in which they have them."""
        values, numbers = self.columns[column]
        which, first, counts = np.unique(numbers[own], return_index=True, return_counts=True)
        found: Counter[Any] = Counter()
        for at in np.argsort(first).tolist():
            found[values[which[at]]] += int(counts[at])
        return found


@dataclass(eq=False)
class CauseProfile:
    """The messages of one cause in a snapshot that are still on the queue, as far as known.

    They are the rows of `rows` in the range `own`. `gone` counts by run the messages that later
    runs moved, or found gone; they are in no other number. All else is counted when it is asked
    for: a snapshot has thousands of causes, and a page shows a few.
    """

    cause: Cause
    rows: _Rows | None = None
    own: tuple[int, int] = (0, 0)
    gone: Counter[str] = field(default_factory=Counter)

    @property
    def messages(self) -> int:
        return self.own[1] - self.own[0]

    def _counted(self, column: str) -> Counter[Any]:
        return Counter() if self.rows is None else self.rows.count(column, slice(*self.own))

    @cached_property
    def tops(self) -> dict[str, Counter[str]]:
        """The messages by what they have: the tables of the page, with their headings."""
        # Without an MQDLH, the format of the data is that of the MQMD.
        is_dead_letter = self.cause.is_of_dead_letters
        return {
            "Applications": self._counted("put_appl_name"),
            "Destinations": self._counted("dlh_dest_q_name"),
            "Users": self._counted("user_identifier"),
            "Formats": self._counted("dlh_format" if is_dead_letter else "format"),
        }

    @cached_property
    def handled_by(self) -> Counter[int]:
        """The messages by the ordinal of the first rule that matches, `NO_RULE` for none."""
        return self._counted("first_rule")

    @cached_property
    def endings(self) -> Counter[_Ending]:
        return self._counted("ending")

    def _of_rows(self, *columns: str, at_most: int | None = None) -> list[dict[str, Any]]:
        if self.rows is None:
            return []
        places = pa.array(self.rows.places[slice(*self.own)][:at_most])
        found: list[dict[str, Any]] = self.rows.table.select(columns).take(places).to_pylist()
        return found

    @cached_property
    def expiries(self) -> Counter[str]:
        """The messages by when they expire, from the time of the question.

        `expired` ones have passed their time already; `hour`, `night` (until 6:00 UTC) and `day`
        count from now, each with the messages of the shorter ones; `later` expire after a day,
        `never` do not.
        """
        found: Counter[str] = Counter()
        if self.rows is not None:
            now = self.rows.now
            ends = {"hour": now + timedelta(hours=1), "day": now + timedelta(days=1)}
            ends["night"] = end_of_night(now)
            for row in self._of_rows("expires_at"):
                found.update(_expiry(row["expires_at"], now, ends))
        return found

    @cached_property
    def _times(self) -> list[datetime]:
        rows = self._of_rows("dead_lettered_at", "put_at")
        found = (row["dead_lettered_at"] or row["put_at"] for row in rows)
        return [at for at in found if at is not None]

    @property
    def oldest(self) -> datetime | None:
        """When the first message was dead-lettered, or put."""
        return min(self._times, default=None)

    @property
    def newest(self) -> datetime | None:
        return max(self._times, default=None)

    @property
    def samples(self) -> list[tuple[MessageFacts, Outcome | None]]:
        """The first messages, each with its outcome."""
        rows = self._of_rows(*ROW_COLUMNS, at_most=SAMPLES)
        if self.rows is None:
            return []
        known, numbers = self.rows.columns["ending"]
        ends = numbers[slice(*self.own)].tolist()
        return [
            (MessageFacts(**facts_of(row)), known[number][1])
            for row, number in zip(rows, ends, strict=False)
        ]


@dataclass(frozen=True, slots=True)
class SnapshotProfile:
    """The causes of a snapshot by `cause_id`; `read` of its `messages` messages are in them.

    `since` says what later runs did, `gone` is that of all causes.
    """

    causes: Mapping[str, CauseProfile]
    read: int
    messages: int
    since: SinceSnapshot = field(default_factory=SinceSnapshot)
    gone: Counter[str] = field(default_factory=Counter)

    @property
    def is_partial(self) -> bool:
        return self.read < self.messages


def profile_causes(
    run: Run,
    taken: TakenSnapshot,
    now: datetime,
    *,
    ledger: Ledger,
    since: SinceSnapshot,
) -> SnapshotProfile:
    """Read a run's snapshot, its rules and its outcomes; describe each cause.

    `since` says what later runs did. Raises `LakeError` for a snapshot that was pruned or is
    damaged.
    """
    table = check(run.rules_text, queue_kind=run.queue_kind, frozen=True).table
    later = LaterReader(since.by_key)
    columns = sorted({*ROW_COLUMNS, *(columns_needed(table) if table else ())})
    rows = _read_rows(taken.location, columns, MOST_MESSAGES)
    endings, ended = _endings(run, taken, rows, ledger)
    causes, of_cause = _causes_of(rows)
    gone: dict[str, Counter[str]] = defaultdict(Counter)
    stays = np.ones(len(rows), bool)
    for place, key in enumerate(rows.column("message_key").to_pylist() if since.by_key else ()):
        if (newer := later.take(key)) is not None:
            if newer.has_departed:
                stays[place] = False
                gone[causes[of_cause[place]].cause_id][newer.run_id] += 1
            else:
                endings.append((endings[ended[place]][0], newer.outcome))
                ended[place] = len(endings) - 1
    if len(rows) < taken.messages and (rest := later.departed_rest):
        wanted = [is_one_of(sorted((key,) for key in rest), "message_key")]
        read = sorted({*COLUMNS, "message_key"})
        for _, row in search_rows({taken.location: taken.messages}, wanted, read):
            if runs := rest.get(row["message_key"]):
                cause = cause_of_row(row)
                gone[cause.cause_id][runs.pop().run_id] += 1
                if cause not in causes:
                    causes.append(cause)
    order = np.argsort(of_cause, kind="stable")
    order = order[stays[order]]
    starts = np.searchsorted(of_cause[order], np.arange(len(causes) + 1)).tolist()
    values_of: dict[str, tuple[Sequence[Any], Numbers]] = {
        "first_rule": _first_rules(table, rows, nul_as_blank=run.nul_as_blank),
        "ending": (endings, ended),
        **{name: _numbered(rows.column(name)) for name in _NAMES},
    }
    in_order = {name: (values, numbers[order]) for name, (values, numbers) in values_of.items()}
    held = _Rows(rows.select(ROW_COLUMNS), order, in_order, now)
    nothing = Counter[str]()
    profiles = {
        (cause_id := cause.cause_id): CauseProfile(cause, held, own, gone.get(cause_id, nothing))
        for cause, own in zip(causes, pairwise(starts), strict=True)
    }
    return SnapshotProfile(
        profiles, len(rows), taken.messages, since, sum(gone.values(), Counter())
    )


def end_of_night(now: datetime) -> datetime:
    """Return the next time that it is 6:00 UTC."""
    morning = now.replace(hour=MORNING, minute=0, second=0, microsecond=0)
    return morning if morning > now else morning + timedelta(days=1)


def _expiry(at: datetime | None, now: datetime, ends: Mapping[str, datetime]) -> tuple[str, ...]:
    if at is None:
        return ("never",)
    if at <= now:
        return ("expired",)
    return tuple(name for name, end in ends.items() if at <= end) or ("later",)


def _read_rows(location: str, columns: Sequence[str], most: int) -> pa.RecordBatch:
    """Return the first rows of a snapshot, those of settled messages last."""
    schema = pa.schema([HEADERS.field(name) for name in columns])
    batches, read = [], 0
    for batch in lake.snapshot_batches(location, columns):
        batches.append(batch.slice(0, most - read))
        read += len(batches[-1])
        if read == most:
            break
    settled = list(islice(lake.full_rows_of_settled(location, columns), most - read))
    batches.append(pa.RecordBatch.from_pylist(settled, schema=schema))
    return pa.concat_batches([batch.cast(schema) for batch in batches])


def _causes_of(rows: pa.RecordBatch) -> tuple[list[Cause], Numbers]:
    """Return the causes of rows in the order of their first rows, and the number of each row's."""
    which, some = distinct(len(rows), [encoded(rows.column(name)) for name in CAUSE_COLUMNS])
    first = np.empty(len(some), np.int64)
    first[which[::-1]] = np.arange(len(rows))[::-1]  # the last one set stays
    order = np.argsort(first)
    examples = rows.select(CAUSE_COLUMNS).take(pa.array(first[order]))
    columns = [column.to_pylist() for column in examples.columns]
    known: dict[Cause, int] = {}
    numbers = np.empty(len(some), np.int64)
    numbers[order] = [
        known.setdefault(find_cause(cls, reason or 0, name or "", manager or ""), len(known))
        for cls, reason, name, manager in zip(*columns, strict=True)
    ]
    return [*known], numbers[which]


def _numbered(column: pa.Array) -> tuple[Sequence[str], Numbers]:
    values, numbers = encoded(column)
    return [value or "" for value in values.to_pylist()], numbers


def _first_rules(
    table: RulesTable | None, rows: pa.RecordBatch, *, nul_as_blank: bool
) -> tuple[Sequence[int], Numbers]:
    """Return ordinals of rules, and the number of that of the first rule that matches each row.

    Equal rows are matched once.
    """
    if table is None:
        return [NO_RULE], np.zeros(len(rows), np.int64)
    decisions = Decisions(table, nul_as_blank=nul_as_blank)
    numbers = decisions.numbers(rows)
    steps = map(decisions.treatments.steps, range(len(decisions.treatments)))
    return [one[0].rule if one else NO_RULE for one in steps], numbers


def _endings(
    run: Run, taken: TakenSnapshot, rows: pa.RecordBatch, ledger: Ledger
) -> tuple[list[_Ending], Numbers]:
    """Return how messages ended, and the number of that for each row.

    Settled messages keep an earlier run's outcome.
    """
    endings: list[_Ending] = [(NO_RULE, None)]
    wanted = rows.column("browse_seq").to_numpy()
    found = np.zeros(len(wanted), np.int64)
    settled: defaultdict[_Ending, array[int]] = defaultdict(partial(array, "q"))
    for batch in lake.settled_rows(taken.location, ("browse_seq", "outcome", "rule")):
        for row in batch.to_pylist():
            settled[row["rule"], Outcome(row["outcome"])].append(row["browse_seq"])
    booked = ledger.run_messages.endings(run.run_id, up_to=int(wanted.max(initial=0)))
    facts = [(fact.rule, fact.outcome) for fact in booked.facts]
    of_settled = [np.array(browse_seqs) for browse_seqs in settled.values()]
    for known, ends in ((of_settled, [*settled]), (browse_seqs_of(booked), facts)):
        of_rows = number_endings(known)(wanted)
        found[of_rows >= 0] = of_rows[of_rows >= 0] + len(endings)
        endings += ends
    return endings, found
