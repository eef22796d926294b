"""Causes of dead letters on a queue: their list, and one cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil
from typing import Annotated, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from mqdlq.causes import Cause, Kind
from mqdlq.errors import LakeError
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.history import CauseHistory, CauseSighting, CausesOverTime, CauseState
from mqdlq.ledger.reading.later_outcomes import SettledSince, SinceSnapshot
from mqdlq.ledger.tables import Run, Sighting, TakenSnapshot
from mqdlq.model import Outcome
from mqdlq.reading.cause_profiles import (
    MORNING,
    MOST_MESSAGES,
    NO_RULE,
    CauseProfile,
    SnapshotProfile,
    end_of_night,
    profile_causes,
)
from mqdlq.reading.filters import PageNumber, Period, Reason, Text, choice
from mqdlq.reading.run import WrittenRule, written_rules
from mqdlq.rules import RulesTable, check
from mqdlq.rules.wildcards import fits
from mqdlq.tools.acting import Sources
from mqdlq.web.rendering import HEIGHT, Bar, NoRunYetError, NotFoundError, draw_bars, render
from mqdlq.web.requests import SourcesDep
from mqdlq.web.serving import PageRoute
from mqdlq.words import moment

router: Final = APIRouter(route_class=PageRoute)

# The state of one queue of a handler.

NOTHING: Final = SnapshotProfile({}, 0, 0)


@dataclass(frozen=True, slots=True)
class QueueState:
    """The newest run, table and snapshot of one of a handler's `queues`, each after its manager.

    `run` has the handler's table, and `taken` is the newest snapshot, which may be of an earlier
    run, `taken_by`. `profile` describes the causes in the snapshot, and `trouble` says why there is
    none. `sighting` has the counts of the last browse of the snapshot's run, None if the run has
    not finished.
    """

    queues: Sequence[tuple[str, str]]
    run: Run
    taken: TakenSnapshot | None
    taken_by: Run | None
    sighting: Sighting | None
    profile: SnapshotProfile
    trouble: str
    rules: Mapping[int, WrittenRule]

    @property
    def gone(self) -> list[SettledSince]:
        """The later runs that moved messages of the snapshot, or found them gone, newest first."""
        number: Counter[str] = sum((c.gone for c in self.profile.causes.values()), Counter())
        return self.gone_by(number)

    def gone_by(self, number: Mapping[str, int]) -> list[SettledSince]:
        """Return these later runs, each with a number of messages, newest first."""
        runs = self.profile.since.runs
        found = (replace(runs[run_id], messages=messages) for run_id, messages in number.items())
        return sorted(found, key=lambda one: one.at, reverse=True)

    @property
    def table(self) -> RulesTable | None:
        """The table of the newest run; None if it cannot be read by this version."""
        return check(self.run.rules_text, queue_kind=self.run.queue_kind, frozen=True).table


def read_queue_state(queue_manager: str, queue: str, sources: Sources) -> QueueState:
    """Read the state of the queue that a page is about.

    The names may have wildcards; without them it is the queue that was handled last. Raises
    NoRunYetError if the handler had no run, or none with its table, and NotFoundError if it had
    none on this queue.
    """
    ledger, handler = sources.ledger, sources.handler
    queues = ledger.handled_queues.of_handler(handler)
    if not queues:
        raise NoRunYetError(
            "MQDLQ-964",
            f"no run of handler {handler} is recorded; start its DAG, with dry_run at first",
        )
    patterns = (queue_manager or "*", queue or "*")
    handled = next((names for names in queues if all(map(fits, patterns, names))), None)
    if handled is None:
        asked = f"{queue} @ {queue_manager}"
        known = ", ".join(f"{name} @ {manager}" for manager, name in queues)
        raise NotFoundError(
            "MQDLQ-964", f"no run of handler {handler} handled {asked}; its queues are {known}"
        )
    name = (handler, *handled)
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
            profile = _profile(taken_by, taken, sighting, sources.clock(), ledger)
        except LakeError as error:
            trouble = f"The snapshot cannot be read: {error.text}"
    rules = written_rules(run.rules_text)
    return QueueState(queues, run, taken, taken_by, sighting, profile, trouble, rules)


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


# A cause on this queue.

WIDTH: Final = 100.0
TREND_RUNS: Final = 20
"""How many runs a trend shows."""
_SPOKEN: Final = 8


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A cause in the list; `share` is that of its messages in all of the queue.

    `trend` are bars, and the last numbers in words. `profile` describes the messages of the newest
    snapshot that the page has read, which may be fewer.
    """

    history: CauseHistory
    share: float
    trend: tuple[list[Bar], str]
    profile: CauseProfile

    @property
    def cause(self) -> Cause:
        """The cause itself."""
        return self.history.cause

    @property
    def messages(self) -> int:
        """The number of messages in the newest snapshot, less the ones that departed since."""
        return _left_of(self.history, self.profile)

    @property
    def handling(self) -> list[tuple[int, int]]:
        """The ordinals of the rules that its messages match first, and how many messages do.

        The rules of the newest run are in table order, `NO_RULE` is the last.
        """
        return sorted(self.profile.handled_by.items(), key=lambda one: (one[0] == NO_RULE, one[0]))


def read_rows(state: QueueState, ledger: Ledger) -> Iterator[CauseRow]:
    """Yield the causes that runs met on a queue.

    The ledger does not know the destinations of a run that met too many causes; then the page takes
    the causes that it finds in the snapshot itself.
    """
    over_time = ledger.causes.of_queue(state.run.queue_manager, state.run.queue)
    histories = list(_with_found_causes(over_time, state))
    known = state.profile.causes
    found = [(one, known.get(one.cause.cause_id) or CauseProfile(one.cause)) for one in histories]
    total = sum(_left_of(*pair) for pair in found)
    for history, profile in found:
        share = _left_of(history, profile) / total if total else 0.0
        yield CauseRow(history, share, _trend(history, over_time), profile)


def find_row(cause_id: str, state: QueueState, ledger: Ledger) -> CauseRow:
    """Return the list's row of a cause; raise NotFoundError for an unknown one."""
    for row in read_rows(state, ledger):
        if row.cause.cause_id == cause_id:
            return row
    raise NotFoundError(
        "MQDLQ-965",
        f"no run met the cause {cause_id[:60]!r} on {state.run.queue} @ {state.run.queue_manager};"
        " choose one from the list of causes",
    )


def _left_of(history: CauseHistory, profile: CauseProfile) -> int:
    return max(history.messages - profile.gone.total(), 0)


def _with_found_causes(over_time: CausesOverTime, state: QueueState) -> Iterator[CauseHistory]:
    """Yield the causes of the ledger, and those of the snapshot that the ledger lacks."""
    known = {one.cause.cause_id for one in over_time.causes}
    taken = state.taken
    missing = [one for cause_id, one in state.profile.causes.items() if cause_id not in known]
    if taken is not None:
        for profile in sorted(missing, key=lambda one: -one.messages):
            messages = profile.messages + profile.gone.total()
            found = CauseSighting(taken.run_id, taken.taken_at, messages, settled=0)
            yield CauseHistory(profile.cause, (found,), taken.taken_at, CauseState.KNOWN, 0)
    for one in over_time.causes:
        is_found = taken is not None and one.sightings[-1].run_id == taken.run_id
        if one.cause.cause_id or not (missing and is_found):
            yield one


def _trend(history: CauseHistory, over_time: CausesOverTime) -> tuple[list[Bar], str]:
    met = {sighting.run_id: sighting.messages for sighting in history.sightings}
    last_runs = list(over_time.runs.items())[-TREND_RUNS:]
    numbers = [(met.get(run_id, 0), at) for run_id, at in last_runs]
    titled = [(number, f"{number:,} at {moment(at)}") for number, at in numbers]
    bars = draw_bars(titled, width=WIDTH, places=len(titled), least=1.5, zero=0.5)
    last = [f"{number:,}" for number, _ in numbers[-_SPOKEN:]]
    if not last:
        return bars, "no runs"
    runs = "the last run" if len(last) == 1 else f"the last {len(last)} runs, oldest first"
    return bars, f"{runs}: {', '.join(last)}"


# The list of causes: filtered, sorted, and paged.

SORTS: Final = {"count": "most messages", "newest": "newest first", "oldest": "oldest first"}
ONLY: Final = {"new": "new causes", "attention": "causes that need attention"}
KINDS: Final = {kind.value: kind.words for kind in Kind if kind.value}
ON_A_PAGE: Final = 25
MOST_APPLICATIONS: Final = 10


class CauseFilters(Period):
    """The causes that runs met in a time, by names and reasons of their messages.

    The names of a queue choose the first that fits.
    """

    queue_manager: Text = ""
    queue: Text = ""
    kind: Annotated[str, choice(KINDS)] = ""
    reason: Reason = None
    dest_q_name: Text = ""
    dest_q_mgr_name: Text = ""
    application: Text = ""
    only: Annotated[str, choice(ONLY)] = ""
    sort: Annotated[str, choice(SORTS)] = ""
    page: PageNumber = 1

    @property
    def narrows(self) -> bool:
        """Whether some causes of the queue may be left out."""
        return not {"queue_manager", "queue", "sort"}.issuperset(self.parameters())

    def has(self, row: CauseRow) -> bool:
        """Return whether a cause is listed."""
        cause, profile, history = row.cause, row.profile, row.history
        queues = (cause.dest_q_name or "", *profile.destinations)
        return (
            self.kind in ("", cause.kind.value)
            and self.reason in (None, cause.reason)
            and _has(queues, self.dest_q_name)
            and _has([cause.dest_q_mgr_name], self.dest_q_mgr_name)
            and _has(profile.applications, self.application)
            and not (self.since and history.last_seen < self.since)
            and not (self.until and history.first_seen >= self.until)
            and (self.only != "new" or history.state is CauseState.NEW)
            and (self.only != "attention" or profile.needs_attention > 0)
        )


def _has(names: Iterable[str], pattern: str) -> bool:
    return not pattern or any(fits(pattern, name) for name in names)


def _first_seen(row: CauseRow) -> float:
    return row.history.first_seen.timestamp()


_ORDERS: Final[Mapping[str, Callable[[CauseRow], tuple[float, str]]]] = {
    "count": lambda row: (-row.messages, row.cause.cause_id),
    "newest": lambda row: (-_first_seen(row), row.cause.cause_id),
    "oldest": lambda row: (_first_seen(row), row.cause.cause_id),
}


@router.get("/dags/{dag_id}/causes")
def causes(request: Request, sources: SourcesDep) -> HTMLResponse:
    """Show the causes on a queue of a handler."""
    filters = CauseFilters.parse(request.query_params.multi_items())
    try:
        state = read_queue_state(filters.queue_manager, filters.queue, sources)
    except NoRunYetError:
        return render(request, "causes/none.html")
    known = list(read_rows(state, sources.ledger))
    chosen = sorted(filter(filters.has, known), key=_ORDERS[filters.sort or "count"])
    pages = max(ceil(len(chosen) / ON_A_PAGE), 1)
    page = min(filters.page, pages)
    applications: Counter[str] = Counter()
    for row in chosen:
        applications.update(row.profile.applications)
    return render(
        request,
        "causes/list.html",
        filters=filters,
        state=state,
        rows=chosen[(page - 1) * ON_A_PAGE : page * ON_A_PAGE],
        chosen=len(chosen),
        known=len(known),
        messages=sum(row.messages for row in chosen),
        page=page,
        pages=pages,
        applications=applications.most_common(MOST_APPLICATIONS),
        kinds=KINDS,
        only=ONLY,
        sorts=SORTS,
        week_ago=f"{sources.clock() - timedelta(days=6):%Y-%m-%d}",
        spark=(WIDTH, HEIGHT),
    )


# One cause: its messages, its runs, its rules and its outcomes.

TOP: Final = 5
MOST_RUNS: Final = 50


@router.get("/dags/{dag_id}/causes/{cause_id}")
def cause(request: Request, cause_id: str, sources: SourcesDep) -> HTMLResponse:
    """Show one cause."""
    chosen = CauseFilters.parse(request.query_params.multi_items())
    state = read_queue_state(chosen.queue_manager, chosen.queue, sources)
    row, now = find_row(cause_id, state, sources.ledger), sources.clock()
    profile = row.profile
    return render(
        request,
        "causes/cause.html",
        state=state,
        row=row,
        tops=(
            ("Applications", profile.applications),
            ("Destinations", profile.destinations),
            ("Users", profile.users),
            ("Formats", profile.formats),
        ),
        top=TOP,
        endings=_endings(profile, state),
        sightings=row.history.sightings[-MOST_RUNS:][::-1],
        now=now,
        expiries=_expiries(profile.expiries, now),
        spark=(WIDTH, HEIGHT),
    )


def _endings(
    profile: CauseProfile, state: QueueState
) -> list[tuple[int, WrittenRule | None, Outcome | None, int]]:
    """Return how messages ended: the rule that decided, its text, the outcome, and how many."""
    rules = written_rules(state.taken_by.rules_text) if state.taken_by else {}
    ordered = sorted(
        profile.endings.items(), key=lambda one: (one[0][0] or len(rules) + 1, -one[1])
    )
    return [
        (ordinal, rules.get(ordinal), outcome, messages) for (ordinal, outcome), messages in ordered
    ]


def _expiries(expiries: Mapping[str, int], now: datetime) -> list[tuple[str, int, str]]:
    """Return words, messages and end of each time in which messages expire."""
    ends = (
        ("In the next hour", expiries["hour"], now + timedelta(hours=1)),
        (f"Tonight (until {MORNING}:00 UTC)", expiries["night"], end_of_night(now)),
        ("In 24 hours", expiries["day"], now + timedelta(days=1)),
    )
    return [
        (words, messages, f"{end.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}")
        for words, messages, end in ends
    ]
