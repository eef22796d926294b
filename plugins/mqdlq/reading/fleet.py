"""The fleet: each handler's file and rules, and its state on each of its queues."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path, PurePath
from typing import Final

from mqdlq import directories
from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler, handler_names, load_handler
from mqdlq.handlers.configuration import check_handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import Row
from mqdlq.ledger.reading.later_outcomes import SettledSince, summed
from mqdlq.ledger.reading.runs import RunFacts, SeenQueue
from mqdlq.model import DEPARTED, GIVEN_ACTION, InWords, Verdict
from mqdlq.rules import Severity
from mqdlq.words import count, moment, settled_in_words, span

CHECK_FOR_S: Final = 1.0
"""How long one request checks rules that it does not show; 1,000 tables take some seconds."""


@dataclass(frozen=True, slots=True)
class HandlerFile:
    """The file of a handler in the rules directory, with the findings of `mqdlq rules check`.

    `handler` is None if the file is rejected. `errors` say why no run could start with the file and
    its rules table; `warnings` are None if the rules are not checked yet.
    """

    name: str
    handler: Handler | None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] | None = ()


class HandlerFiles:
    """The files of a rules directory; what is known of them is kept by the digest of their content.

    `read` reads the bytes of each file, and parses the changed files.
    """

    def __init__(self) -> None:
        self._loaded: dict[tuple[Path, bytes], tuple[Handler | None, str]] = {}
        self._checked: dict[tuple[Path, bytes, bytes], tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def read(
        self,
        directory: Path | None = None,
        *,
        shown: Collection[str] = (),
        check_for_s: float = CHECK_FOR_S,
    ) -> dict[str, HandlerFile]:
        """Return the files by name of the handler.

        The rules of `shown` handlers are checked in any case, the others' while time is left.
        """
        folder = directory or directories.rules_directory()
        until = time.monotonic() + check_for_s
        found, loaded, checked = {}, {}, {}
        names = handler_names(folder)
        for name in sorted(names, key=lambda one: one not in shown):
            path = folder / f"{name}.yaml"
            digest = _digest(path, folder)
            handler, fault = self._loaded.get((path, digest)) or _load(name, folder)
            loaded[path, digest] = handler, fault
            table = path if handler is None or handler.rules is None else folder / handler.rules
            key = (path, digest, _digest(table, folder))
            findings = self._checked.get(key)
            if findings is None and (name in shown or time.monotonic() < until):
                findings = _check(path)
            errors: tuple[str, ...] = (fault,) if fault else ()
            warnings = None
            if findings is not None:
                checked[key] = findings
                errors, warnings = findings[0] or errors, findings[1]
            found[name] = HandlerFile(name, handler, errors, warnings)
        self._loaded, self._checked = loaded, checked
        return found


def _digest(path: Path, folder: Path) -> bytes:
    try:
        return hashlib.sha256(directories.read_rules_file(path, folder)).digest()
    except OSError:
        return b""


def _load(name: str, folder: Path) -> tuple[Handler | None, str]:
    try:
        return load_handler(name, folder), ""
    except HandlerError as error:
        return None, error.text


def _check(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the errors and the warnings of a file, a line each."""
    try:
        found = check_handler(path, directories.read_rules_file(path, path.parent))
    except OSError as error:
        return (f"{path} cannot be read: {error.strerror}",), ()
    errors, warnings = list[str](), list[str]()
    for one in (*found.diagnostics, *(found.table.diagnostics if found.table else ())):
        line = str(one).splitlines()[0]  # place and words, without the source below them
        lines = errors if one.severity is Severity.ERROR else warnings
        lines.append(line.replace(one.path, directories.shown(one.path), 1))
    return tuple(errors), tuple(warnings)


# Judge the state of a handler on its queue: what needs attention, and how sure the state is.

STALE_AFTER: Final = timedelta(days=1)
"""After this time, a queue that needed nothing when it was last checked is no longer green."""

REPORT_WITHIN: Final = timedelta(minutes=10)
"""The time from a run's last browse to its report; later, the report is missing."""


class QueueState(InWords):
    """State of a handler on its queue, in order of need: its words, and its tone.

    The tone is "bad", "warn", "unknown" or "good"; only "good" is shown in green.
    """

    BROKEN_FILE = "broken_file", "Handler file has errors", "bad"
    REFUSED = "refused", "Run could not start", "bad"
    UNACCOUNTED = "unaccounted", "Account does not add up", "bad"
    FAILED = "failed", "Run failed", "bad"
    INTERRUPTED = "interrupted", "Run ended without an account", "bad"
    APPROVAL = "approval", "Waits for approval", "warn"
    ATTENTION = "attention", "Needs attention", "warn"
    OVERDUE = "overdue", "Run is overdue", "warn"
    NO_FILE = "no_file", "Handler file is gone", "unknown"
    NO_REPORT = "no_report", "No verdict recorded", "unknown"
    NEVER_RAN = "never_ran", "Never ran", "unknown"
    STALE = "stale", "Not checked lately", "unknown"
    RUNNING = "running", "Running", "unknown"
    UNCHECKED = "unchecked", "Rules not checked yet", "unknown"
    HANDLED = "handled", "All handled", "good"
    SETTLED = "settled", "Settled messages only", "good"
    EMPTY = "empty", "Empty", "good"

    tone: str


ORDER: Final = {state: rank for rank, state in enumerate(QueueState)}


Finding = tuple[QueueState, str]
"""One fact about a handler's state, and a sentence about it."""

DIGEST_SHOWN: Final = 12
"""How many digits of the rules digest a page shows."""


@dataclass(frozen=True, kw_only=True)
class FleetRow(SeenQueue):
    """A handler on one of its queues, or without a queue and a run if it never had one.

    `findings` begins with the most urgent one. A number is None if it is unknown. `file` is None if
    the rules directory has no such file; `has_files` says whether this process sees any handler
    files at all. Of the later runs, those in `since` settled messages which needed attention. `saw`
    is the newest run that saw the depth, at `checked_at`. `max_depth` is MAXDEPTH, as a run last
    inquired it; `fill` is the depth as a part of it. `oldest` is the time since when the oldest
    remaining message is on the queue.
    """

    refusal: Row | None = None
    approvals: tuple[Row, ...] = ()
    file: HandlerFile | None = None
    has_files: bool = False
    met: int | None = None
    now: datetime

    @cached_property
    def findings(self) -> list[Finding]:
        """What there is to say of the handler on its queue."""
        found = [*_about_file(self), *_about_runs(self, self.now)]
        if self.last is not None:
            found.extend(_about_queue(self, found, self.now))
        elif self.refusal is None:
            found.append((QueueState.NEVER_RAN, "The ledger has no run of it."))
        return sorted(found, key=lambda one: ORDER[one[0]])

    @property
    def since(self) -> tuple[SettledSince, ...]:
        return summed(one.since for one in self.later if one.is_settled)

    @property
    def state(self) -> QueueState:
        return self.findings[0][0]

    @cached_property
    def saw(self) -> RunFacts | None:
        runs = (self.last, self.whole, self.before, self.closed)
        return next((run for run in runs if run is not None and depth_of(run) is not None), None)

    @property
    def checked_at(self) -> datetime | None:
        saw = self.saw
        look = saw and (saw.sighting or saw.look)
        if look:
            return look.at
        return saw.snapshot.taken_at if saw and saw.snapshot else None

    @cached_property
    def depth(self) -> int | None:
        """The last known depth, less what left since the run that saw it looked."""
        saw = self.saw
        depth = depth_of(saw) if saw is not None else None
        if saw is None or depth is None or saw.sighting is not None:
            return depth
        left = (
            one.since.messages
            for one in self.later
            if one.since.run_id == saw.run_id and one.outcome in DEPARTED
        )
        return max(depth - sum(left), 0)

    @property
    def max_depth(self) -> int | None:
        looks = (run.look for run in (self.saw, self.whole) if run is not None)
        limits = (look.max_depth for look in looks if look is not None)
        return next((limit for limit in limits if limit is not None), None)

    @property
    def fill(self) -> float | None:
        return None if self.depth is None or not self.max_depth else self.depth / self.max_depth

    @cached_property
    def attention(self) -> int | None:
        """How many messages need attention, None if neither an account nor the inbox says so.

        They are those of the last account, less what later runs settled, and with what they opened.
        Before the first account, they are those that the first run met.
        """
        if self.depth == 0:
            return 0
        if self.counted is None or self.counted.report is None:
            return self.met
        known = [one for one in self.later if one.before is not None]
        opened = sum(one.since.messages for one in known if one.is_open and not one.was_open)
        settled = sum(one.since.messages for one in known if one.is_settled)
        return max(self.counted.report.attention + opened - settled, 0)

    @property
    def oldest(self) -> datetime | None:
        return self.counted.oldest_left if self.depth != 0 and self.counted is not None else None

    @property
    def traffic(self) -> tuple[int, int] | None:
        """How many messages arrived and departed since the end of the run before.

        The last run booked the departures. Arrivals follow from the two depths, so messages that
        other programs put and got in between count in neither. None if a depth or the report is
        missing.
        """
        whole, before = self.whole, self.before
        if whole is None or before is None:
            return None
        now, then = depth_of(whole), depth_of(before)
        if now is None or then is None or not (whole.report or whole.found_no_work):
            return None
        departed = max(whole.departed, then - now)
        return now - then + departed, departed

    @property
    def rules_name(self) -> str:
        if (run := self._ruled) is not None:
            return PurePath(run.rules_source).name
        handler = self.file.handler if self.file is not None else None
        return (handler.rules or f"{handler.name}.yaml") if handler is not None else ""

    @property
    def rules_digest(self) -> str:
        return self._ruled.rules_digest[:DIGEST_SHOWN] if self._ruled is not None else ""

    @property
    def _ruled(self) -> RunFacts | None:
        """The last run, or that of the account where the last one was given an action."""
        last = self.last
        return self.counted if last is not None and last.rules_source == GIVEN_ACTION else last


def depth_of(run: RunFacts) -> int | None:
    """Return the depth of the queue when a run last saw it; a backfill sees no queue."""
    if run.run_type == "backfill":
        return None
    saw = run.sighting or run.look
    return saw.depth if saw is not None else run.messages


# What there is to say of a handler on its queue.


def _about_file(row: FleetRow) -> Iterator[Finding]:
    if row.file is None:
        if row.has_files:
            text = "The rules directory has no such file, and the ledger has its runs."
            yield (QueueState.NO_FILE, text)
    elif row.file.errors:
        yield (QueueState.BROKEN_FILE, row.file.errors[0])
    elif row.file.warnings is None:
        text = "There are many rules to check; load the page again to continue."
        yield (QueueState.UNCHECKED, text)


def _about_runs(row: FleetRow, now: datetime) -> Iterator[Finding]:
    last, refusal = row.last, row.refusal
    if refusal is not None and (last is None or refusal.at > last.started_at):
        yield (QueueState.REFUSED, f"{moment(refusal.at)}: {refusal.why}")
    for one in row.approvals:
        text = f"A plan for {count(one.messages, 'message')} waits since {moment(one.at)}."
        yield (QueueState.APPROVAL, text)
    if last is None:
        return
    report = last.report
    if report is None:
        yield from _without_report(last, now)
    elif report.verdict == Verdict.FAILED:
        state = QueueState.UNACCOUNTED if report.adds_up is False else QueueState.FAILED
        yield (state, report.why or report.headline)
    elif report.verdict == Verdict.UNFINISHED:
        yield (QueueState.INTERRUPTED, report.headline)
    handler = row.file.handler if row.file is not None else None
    due = handler.overdue_at(last.started_at) if handler is not None else None
    if handler is not None and due is not None and now >= due:
        text = f"The last run started at {moment(last.started_at)}, by schedule {handler.schedule}."
        yield (QueueState.OVERDUE, f"{text} Its DAG may be paused in Airflow.")


def _without_report(run: RunFacts, now: datetime) -> Iterator[Finding]:
    """Judge a run whose report is not recorded; a run that found no work has none."""
    if run.found_no_work or run.asked_at is not None:
        return
    if run.sighting is not None:
        if now - run.sighting.at <= REPORT_WITHIN:
            yield (QueueState.RUNNING, "The report is being written.")
        else:
            text = "The run closed its account, and its report is not in the ledger."
            yield (QueueState.NO_REPORT, text)
        return
    since = run.look.at if run.look is not None else run.started_at
    if now - since <= timedelta(seconds=run.max_run_time_s) + REPORT_WITHIN:
        yield (QueueState.RUNNING, f"A run is in progress since {moment(run.started_at)}.")
    else:
        text = f"The run of {moment(run.started_at)} has neither closed its account nor a report."
        yield (QueueState.INTERRUPTED, text)


def _about_queue(row: FleetRow, found: list[Finding], now: datetime) -> Iterator[Finding]:
    attention, since = row.attention, row.since
    if attention:
        verb = "needs" if attention == 1 else "need"
        text = f"{count(attention, 'message')} {verb} attention{_as_of(row, now)}."
        more = f" {settled_in_words(since)}." if since else ""
        yield (QueueState.ATTENTION, text + more)
    if any(state.tone != "good" for state, _ in found):
        return
    whole, checked = row.whole, row.checked_at
    if whole is None or checked is None:
        yield (QueueState.NO_REPORT, "No run has looked at the whole queue.")
        return
    if now - checked > STALE_AFTER:
        ago = span((now - checked).total_seconds())
        yield (QueueState.STALE, f"Last checked {moment(checked)}, {ago} ago.")
    if row.depth == 0:
        yield (QueueState.EMPTY, f"Empty, last checked {moment(checked)}.")
    elif whole.found_no_work:
        text = f"{count(row.depth or 0, 'settled message')}, last checked {moment(checked)}."
        yield (QueueState.SETTLED, text)
    else:
        headline = whole.report.headline if whole.report is not None else ""
        yield (QueueState.HANDLED, f"{settled_in_words(since)}." if since else headline)


def _as_of(row: FleetRow, now: datetime) -> str:
    """Return the age of a number that a newer run has not confirmed yet, "" if none has to."""
    counted, whole = row.counted, row.whole
    if counted is None or counted.sighting is None or counted == whole:
        return ""
    if whole is not None and whole.found_no_work:
        return ""
    at = counted.sighting.at
    return f" by the account of {moment(at)}, {span((now - at).total_seconds())} ago"


# The fleet: a row for each handler and queue, sorted by need, and summed up.


class FleetSummary:
    """The numbers of a fleet.

    `unknown` counts the queues of which no account says how many messages need attention,
    `unchecked` the handlers whose rules are not checked yet.
    """

    def __init__(self, rows: Sequence[FleetRow]) -> None:
        counted = Counter(row.state for row in rows)
        files = {row.handler: row.file for row in rows if row.file is not None}
        self.handlers = len({row.handler for row in rows})
        self.queue_managers = len({row.queue_manager for row in rows} - {""})
        self.attention = sum(row.attention or 0 for row in rows)
        self.unknown = sum(bool(row.queue) and row.attention is None for row in rows)
        self.approvals = sum(len(row.approvals) for row in rows)
        self.states = {state: counted[state] for state in QueueState if counted[state]}
        self.unchecked = sum(file.warnings is None for file in files.values())


def read_fleet(
    ledger: Ledger,
    files: Mapping[str, HandlerFile],
    may_read: Callable[[Iterable[str]], frozenset[str]],
    now: datetime,
    only: str | None = None,
) -> list[FleetRow]:
    """Return a row for each handler and queue that a person may read, the most urgent first.

    `may_read` returns which of some handlers the person may read. Handlers come from the rules
    directory and from the ledger, `only` names the one to read, with a row if it never had a run. A
    fixed number of SQL statements is executed.
    """
    queues, refusals = ledger.run_lists.queues(only), ledger.run_lists.refusals(only)
    asked: dict[tuple[str, str, str], list[Row]] = {}
    met = ledger.inbox.attention()
    for one in ledger.run_lists.open_approvals(only):
        asked.setdefault((one.handler, one.queue_manager, one.queue), []).append(one)
    newest: dict[str, datetime] = {}
    for queue in queues:
        if queue.last is not None:
            began = queue.last.started_at
            newest[queue.handler] = max(newest.get(queue.handler, began), began)
    names = {only} if only is not None else {*files, *refusals, *newest}
    allowed = may_read(names)

    def row(seen: SeenQueue) -> FleetRow:
        handler = seen.handler
        refusal = refusals.get(handler)
        if refusal is not None and handler in newest and refusal.at <= newest[handler]:
            refusal = None
        return FleetRow(
            **{one.name: getattr(seen, one.name) for one in fields(SeenQueue)},
            refusal=refusal,
            approvals=tuple(asked.get((handler, seen.queue_manager, seen.queue), ())),
            file=files.get(handler),
            has_files=bool(files),
            now=now,
            met=met.get((handler, seen.queue_manager, seen.queue)),
        )

    queues += [SeenQueue(name) for name in sorted(names - newest.keys())]
    rows = [row(queue) for queue in queues if queue.handler in allowed]
    return sorted(rows, key=_need)


def _need(row: FleetRow) -> tuple[object, ...]:
    """Return the sort key of a row: the most urgent state, the most messages, the fullest queue."""
    names = (row.handler, row.queue_manager, row.queue)
    return ORDER[row.state], -(row.attention or 0), -(row.fill or 0), *names
