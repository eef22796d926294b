"""Describe the causes in a run's snapshot: senders, expiry, the rules that handle them, outcomes.

The messages are read once, without Spark, and at most `MOST_MESSAGES` of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from mqdlq import lake
from mqdlq.causes import COLUMNS, MOST_NAMES, Cause, cause_of_row
from mqdlq.lake.row_search import is_one_of, search_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.later_outcomes import SinceSnapshot
from mqdlq.ledger.tables import Run, TakenSnapshot
from mqdlq.model import Outcome, Trait
from mqdlq.plan import steps_for
from mqdlq.reading.run_messages import ROW_COLUMNS, MessageFacts, facts_of
from mqdlq.rules import check, with_nuls_as_blanks

MOST_MESSAGES: Final = 50_000
"""The most messages that are read while someone waits for a page."""
MORNING: Final = 6
"""The hour (UTC) at which a night ends."""
SAMPLES: Final = 10

NO_RULE: Final = 0
"""Stands for an ordinal where no rule matches, or none decided."""


@dataclass(slots=True)
class CauseProfile:
    """The messages of one cause in a snapshot that are still on the queue, as far as known.

    `gone` counts by run the messages that later runs moved, or found gone; they are in no other
    number.
    `handled_by` counts by the ordinal of the first rule that matches, `endings` by the ordinal of
    the rule that decided and the outcome, which is None for a message without one; `NO_RULE` stands
    for no rule. The names are those of the messages, at most `MOST_NAMES` different ones of each
    kind. The times are when messages were dead-lettered, or put. `samples` are the first messages,
    each with its outcome.

    `expiries` counts the messages by when they expire, from the time of the question: `expired`
    ones have passed their time already; `hour`, `night` (until 6:00 UTC) and `day` count from now,
    each with the messages of the shorter ones; `later` expire after a day, `never` do not.
    """

    cause: Cause
    messages: int = 0
    applications: Counter[str] = field(default_factory=Counter)
    destinations: Counter[str] = field(default_factory=Counter)
    users: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    handled_by: Counter[int] = field(default_factory=Counter)
    endings: Counter[tuple[int, Outcome | None]] = field(default_factory=Counter)
    needs_attention: int = 0
    expiries: Counter[str] = field(default_factory=Counter)
    oldest: datetime | None = None
    newest: datetime | None = None
    samples: list[tuple[MessageFacts, Outcome | None]] = field(default_factory=list)
    gone: Counter[str] = field(default_factory=Counter)

    @property
    def outcomes(self) -> Counter[Outcome]:
        found: Counter[Outcome] = Counter()
        for (_, outcome), messages in self.endings.items():
            if outcome is not None:
                found[outcome] += messages
        return found

    @property
    def unmatched(self) -> int:
        return self.handled_by[NO_RULE]


@dataclass(frozen=True, slots=True)
class SnapshotProfile:
    """The causes of a snapshot by `cause_id`; `read` of its `messages` messages are in them.

    `since` says what later runs did.
    """

    causes: Mapping[str, CauseProfile]
    read: int
    messages: int
    since: SinceSnapshot = field(default_factory=SinceSnapshot)

    @property
    def is_partial(self) -> bool:
        return self.read < self.messages


def profile_causes(
    run: Run,
    taken: TakenSnapshot,
    now: datetime,
    *,
    ledger: Ledger,
    most: int = MOST_MESSAGES,
    since: SinceSnapshot | None = None,
) -> SnapshotProfile:
    """Read a run's snapshot, its rules and its outcomes; describe each cause.

    `since` says what later runs did; by default it is read, too. Raises `LakeError` for a snapshot
    that was pruned or is damaged.
    """
    since = ledger.later.of_run(run.run_id) if since is None else since
    profiler, later = _Profiler(run, now), since.reader()
    read = 0
    outcomes = _outcomes(run, taken, ledger, most)
    for row in islice(lake.whole_rows(taken.location, profiler.columns), most):
        newer = later.take(row["message_key"])
        ending = outcomes.get(row["browse_seq"], (None, NO_RULE, False))
        if newer is None:
            profiler.add(row, ending)
        elif newer.has_departed:
            profiler.leave_out(row, newer.run_id)
        else:
            profiler.add(row, (newer.outcome, ending[1], False))
        read += 1
    if read < taken.messages and (rest := later.departed_rest):
        wanted = [is_one_of(sorted((key,) for key in rest), "message_key")]
        columns = sorted({*COLUMNS, "message_key"})
        for _, row in search_rows({taken.location: taken.messages}, wanted, columns):
            if runs := rest.get(row["message_key"]):
                profiler.leave_out(row, runs.pop().run_id)
    return SnapshotProfile(profiler.causes, read, taken.messages, since)


def end_of_night(now: datetime) -> datetime:
    """Return the next time that it is 6:00 UTC."""
    morning = now.replace(hour=MORNING, minute=0, second=0, microsecond=0)
    return morning if morning > now else morning + timedelta(days=1)


_Ending = tuple[Outcome | None, int, bool]
"""An outcome, the rule that decided, and whether only a dry run is the reason."""


class _Profiler:
    """Adds the rows of a snapshot to the profiles of their causes."""

    def __init__(self, run: Run, now: datetime) -> None:
        self.causes: dict[str, CauseProfile] = {}
        self._table = check(run.rules_text, queue_kind=run.queue_kind, frozen=True).table
        self._nul_as_blank = run.nul_as_blank
        self._first_rules: dict[tuple[Any, ...], int] = {}
        self.columns = sorted({*ROW_COLUMNS, *(self._table.columns if self._table else ())})
        self._now = now
        within = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
        self._ends = {name: now + span for name, span in within.items()}
        self._ends["night"] = end_of_night(now)

    def leave_out(self, row: Mapping[str, Any], run_id: str) -> None:
        self._profile_of(row).gone[run_id] += 1

    def add(self, row: Mapping[str, Any], ending: _Ending) -> None:
        profile = self._profile_of(row)
        profile.messages += 1
        _count(profile.applications, row["put_appl_name"])
        _count(profile.destinations, row["dlh_dest_q_name"])
        _count(profile.users, row["user_identifier"])
        # Without an MQDLH, the format of the data is that of the MQMD.
        is_dead_letter = profile.cause.is_of_dead_letters
        _count(profile.formats, row["dlh_format" if is_dead_letter else "format"])
        profile.handled_by[self._first_rule(row)] += 1
        outcome, rule, is_dry = ending
        profile.endings[rule, outcome] += 1
        if outcome is not None and Trait.NEEDS_ATTENTION in outcome.traits and not is_dry:
            profile.needs_attention += 1
        profile.expiries.update(self._expiry(row["expires_at"]))
        since = row["dead_lettered_at"] or row["put_at"]
        if since is not None:
            profile.oldest = min(profile.oldest or since, since)
            profile.newest = max(profile.newest or since, since)
        if len(profile.samples) < SAMPLES:
            profile.samples.append((MessageFacts(**facts_of(row)), outcome))

    def _profile_of(self, row: Mapping[str, Any]) -> CauseProfile:
        cause = cause_of_row(row)
        profile = self.causes.get(cause.cause_id)
        if profile is None:
            profile = self.causes[cause.cause_id] = CauseProfile(cause)
        return profile

    def _first_rule(self, row: Mapping[str, Any]) -> int:
        """Return the first rule that matches a row; equal values are matched once."""
        if self._table is None or not self._table.acts_on(row["class"]):
            return NO_RULE
        key = self._table.key_of(row)
        if key not in self._first_rules:
            values = with_nuls_as_blanks(row) if self._nul_as_blank else row
            steps = steps_for(self._table, values)
            self._first_rules[key] = steps[0].rule if steps else NO_RULE
        return self._first_rules[key]

    def _expiry(self, at: datetime | None) -> tuple[str, ...]:
        if at is None:
            return ("never",)
        if at <= self._now:
            return ("expired",)
        return tuple(name for name, end in self._ends.items() if at <= end) or ("later",)


def _outcomes(run: Run, taken: TakenSnapshot, ledger: Ledger, most: int) -> dict[int, _Ending]:
    """Return how the messages ended, by browse_seq; settled ones keep an earlier run's outcome."""
    found: dict[int, _Ending] = {}
    batches = lake.settled_rows(taken.location, ("browse_seq", "outcome", "rule"))
    for row in islice((row for batch in batches for row in batch.to_pylist()), most):
        found[row["browse_seq"]] = (Outcome(row["outcome"]), row["rule"], False)
    for listed in islice(ledger.messages.listed(run.run_id), most):
        if (fact := listed.outcome) is not None:
            found[listed.browse_seq] = (fact.outcome, fact.rule, fact.is_only_dry_run)
    return found


def _count(names: Counter[str], name: str | None) -> None:
    known = name or ""
    if known in names or len(names) < MOST_NAMES:
        names[known] += 1
