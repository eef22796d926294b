"""The messages of a run with their outcomes: all, one after another, or a page of selected ones.

Lake and ledger are read side by side, in browse order, so that a report on a million messages
holds a few thousand at a time.
"""

from __future__ import annotations

import json
import shlex
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq import lake
from mqdlq.causes import find_cause
from mqdlq.constants import reason_text
from mqdlq.errors import LakeError
from mqdlq.evaluation.value_masks import Numbers
from mqdlq.lake.filters import Presence, RowFilter, RunMessageFilter, conditions_of
from mqdlq.lake.row_search import is_one_of, is_within, places_of_rows, search_rows
from mqdlq.lake.selected import chosen_batches, chosen_of
from mqdlq.ledger import Ledger
from mqdlq.ledger.messages import BrowseOrderReader, Listed
from mqdlq.ledger.reading.run_messages import HANDLED, Endings, OutcomeFilter, RunCounts
from mqdlq.ledger.tables import Attempt, Decision, Ending, OutcomeFact, Run
from mqdlq.model import AttemptState, MessageClass, Outcome, QueueKind, Trait
from mqdlq.reading.run import NO_RULE, SNAPSHOT_UNREADABLE, Sources
from mqdlq.reasons import Why, code_of, words_of
from mqdlq.rules import check
from mqdlq.words import CLASSES, next_step, reason_in_words, visible

ROW_COLUMNS: Final = (
    *("browse_seq", "class", "problem", "msg_id", "message_key", "dlh_reason", "dlh_dest_q_name"),
    *("dlh_dest_q_mgr_name", "dead_lettered_at", "put_at", "put_appl_name", "user_identifier"),
    *("format", "dlh_format", "total_length", "expires_at"),
)
"""All that report and page read of a snapshot: no body."""
_HOW: Final = tuple(one.name for one in fields(Ending))
_SETTLED_UNREADABLE: Final = "the settled messages cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """The facts of a message alone; `cls` is None where the lake has no row of it.

    `message_key` and `msg_id` are hexadecimal digits. `reason` is the MQDLH's, 0 where there is no
    MQDLH; `since` is when the message was dead-lettered or, where nothing says that, put.
    `put_appl_name` and `user_identifier` are the MQMD's, `format` is that of the application data:
    the MQDLH's, or the MQMD's without an MQDLH. `total_length` is in bytes. `expires_at` is None
    for never.
    """

    browse_seq: int
    message_key: str
    msg_id: str
    cls: MessageClass | None
    problem: str
    reason: int
    dest_q_name: str
    dest_q_mgr_name: str
    dead_lettered_at: datetime | None
    since: datetime | None
    put_appl_name: str
    user_identifier: str
    format: str
    total_length: int
    expires_at: datetime | None

    @property
    def reason_text(self) -> str:
        return reason_text(self.reason) if self.reason else ""

    @property
    def cause_id(self) -> str:
        if self.cls is None:
            return ""
        names = (self.dest_q_name, self.dest_q_mgr_name)
        return find_cause(self.cls, self.reason, *names).cause_id


def facts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `MessageFacts` of a row of a snapshot by name; a column may be missing."""
    key, msg_id = row.get("message_key") or b"", row.get("msg_id") or b""
    return {
        "browse_seq": row["browse_seq"],
        "message_key": key.hex(),
        "msg_id": msg_id.hex(),
        "cls": MessageClass(row["class"]) if row.get("class") else None,
        "problem": row.get("problem") or "",
        "reason": row.get("dlh_reason") or 0,
        "dest_q_name": row.get("dlh_dest_q_name") or "",
        "dest_q_mgr_name": row.get("dlh_dest_q_mgr_name") or "",
        "dead_lettered_at": row.get("dead_lettered_at"),
        "since": row.get("dead_lettered_at") or row.get("put_at"),
        "put_appl_name": row.get("put_appl_name") or "",
        "user_identifier": row.get("user_identifier") or "",
        # Behind an MQDLH, MQMD.Format is that of the MQDLH itself, also if its own is blank.
        "format": row.get("format" if row.get("dlh_reason") is None else "dlh_format") or "",
        "total_length": row.get("total_length") or 0,
        "expires_at": row.get("expires_at"),
    }


@dataclass(frozen=True, slots=True)
class Tried(Decision):
    """One attempt on one message; `reason_text` is "" where it did not fail."""

    line: int
    state: AttemptState
    reason: int
    reason_text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(MessageFacts):
    """A message of the run with what became of it, and what report and page say of that.

    A message of a list has its number of attempts, `made`; one of a report has its `attempts`.
    `is_known_since` says that the ledger learned later how it had ended; `is_settled` that the
    snapshot has a compact row of it, and `was_left_before` that it keeps the outcome of an earlier
    run and the run does not list it.
    """

    sources: Sources = field(repr=False, compare=False)
    fact: OutcomeFact | None
    attempts: tuple[Attempt, ...] = ()
    made: int = 0
    is_known_since: bool = False
    is_settled: bool = False
    was_left_before: bool = False

    @property
    def outcome(self) -> Outcome | None:
        return self.fact.outcome if self.fact is not None else None

    @property
    def why(self) -> str:
        return words_of(self.fact.why if self.fact is not None else None)

    @property
    def why_code(self) -> str:
        return code_of(self.fact.why if self.fact is not None else None)

    @property
    def rule_line(self) -> int:
        return self._line_of(self.fact.rule) if self.fact is not None else 0

    @property
    def needs_attention(self) -> bool:
        """Whether its outcome needs attention; not after a dry run, nor if it is known now."""
        if self.fact is None or self.is_known_since:
            return False
        return Trait.NEEDS_ATTENTION in self.fact.outcome.traits and not self.fact.is_only_dry_run

    @property
    def cause(self) -> str:
        """Why it is a dead letter, or on a backout queue, in words."""
        run = self.sources.run
        if self.cls is None:
            return "the snapshot has no row of it"
        if self.cls is MessageClass.DEAD_LETTER:
            return reason_in_words(self.reason)
        if (run.queue_kind if run else QueueKind.DEAD_LETTER).acts_on is self.cls:
            put_by = visible(self.put_appl_name)
            return f"backed out; put by {put_by}, format {visible(self.format)}"
        return CLASSES[self.cls]

    @property
    def next_step(self) -> str:
        run = self.sources.run
        failures = [a.mqrc for a in self.attempts if a.state is AttemptState.FAILED]
        return next_step(
            self.outcome,
            self.cls,
            failures[-1] if failures else self.reason,
            has_given_action=run is not None and run.has_given_action,
            has_repair=run is not None and bool(run.repair),
        )

    @property
    def tried(self) -> tuple[Tried, ...]:
        return tuple(
            Tried(
                rule=one.rule,
                line=self._line_of(one.rule),
                action=one.action,
                target_q=one.target_q,
                target_q_mgr=one.target_q_mgr,
                state=one.state,
                reason=one.mqrc,
                reason_text=reason_text(one.mqrc) if one.mqrc else "",
                at=one.at,
            )
            for one in self.attempts
        )

    @property
    def command(self) -> str:
        """The command that acts on this message alone, in a POSIX shell; "" if none helps."""
        return command_for(self.sources.run, self.outcome, self.cls, selected([self.message_key]))

    def _line_of(self, rule: int) -> int:
        return self.sources.rules.get(rule, NO_RULE).line


# Commands for a POSIX shell. They name the messages by their keys, because a run for named messages
# touches no other message. Very many messages are all that have the same cause and outcome.

MOST_KEYS: Final = 100
"""How many messages a command names; a shell takes several thousand, a person reads fewer."""

DELIVER: Final = "ACTION(RETRY)"
"""Put a message to the destination that its MQDLH names."""

FORWARD: Final = "ACTION(FWD) FWDQ(<queue>)"
"""A message without a valid MQDLH has no destination. A run rejects this until a queue is named."""


Selection = Mapping[str, Any]
"""The parameter of a run that selects messages, empty if none can."""


def selected(keys: Sequence[str]) -> Selection:
    return {"message_keys": list(keys)} if all(keys) and len(keys) <= MOST_KEYS else {}


def command_for(
    run: Run | None, outcome: Outcome | None, cls: MessageClass | None, selection: Selection
) -> str:
    """Return the command that acts on messages with the same outcome and class, "" if none helps.

    An unknown outcome has no command: the message may be on another queue already. That of a run
    with a repair is a dry run with the same repair, because nobody can approve a repair in the
    foreground, and without it the messages would be delivered as they are.
    """
    if run is None or outcome is Outcome.UNKNOWN:
        return ""
    if outcome is None:
        return "" if run.repair else f"mqdlq run {shlex.quote(run.handler)}"
    if not selection:
        return ""
    conf = {**selection, **_action(run, outcome, cls)}
    if run.repair:
        conf = {"dry_run": True, **conf, "repair": json.loads(run.repair)}
    if run.has_given_action or _named_queue(run.rules_text) != run.queue:
        conf["input_q"] = run.queue
    return f"mqdlq run {shlex.quote(run.handler)} --conf {shlex.quote(json.dumps(conf))}"


def _action(run: Run, outcome: Outcome, cls: MessageClass | None) -> dict[str, Any]:
    """Return the parameter `action`; the rules decide again about a message that matches one.

    A control holds a quarantined message from every rule, but from no given action.
    """
    if run.has_given_action:
        return {"action": run.rules_text.strip()}
    if outcome is Outcome.UNPROCESSABLE or (cls and cls is not run.queue_kind.acts_on):
        return {"action": FORWARD}
    if outcome not in {Outcome.UNMATCHED, Outcome.QUARANTINED}:
        return {}
    return {"action": DELIVER if cls in (None, MessageClass.DEAD_LETTER) else FORWARD}


@lru_cache(maxsize=8)
def _named_queue(rules_text: str) -> str:
    table = check(rules_text, frozen=True).table
    return "" if table is None else table.control.input_q.strip()


# All messages of a run, one after another.


class UnreadableError(LakeError):
    """The lake's part of the messages cannot be read: of the snapshot's own, or of settled ones."""

    def __init__(self, what: str, error: Exception) -> None:
        super().__init__("MQDLQ-434", f"{what}: {getattr(error, 'text', error)}")
        self.is_of_settled = what == _SETTLED_UNREADABLE


TakeHandled = Callable[[pa.RecordBatch, Numbers], None]
"""Takes rows of a snapshot, each with the number of its ending; -1 if the run did not handle it."""

_Vanished = dict[int, tuple[OutcomeFact | None, tuple[Attempt, ...]]]


def messages_of(
    sources: Sources,
    ledger: Ledger,
    *,
    in_lake: bool = True,
    settled: bool = True,
    handled: Endings | None = None,
    take: TakeHandled | None = None,
) -> Iterator[Message]:
    """Yield the messages of a run in browse order, then the settled messages in any order.

    The `handled` ones are not yielded, if there may be many: `take` gets them in columns.

    For a run for some messages, only these are yielded. Without `in_lake` messages, and without
    `settled` the settled ones, are read from the ledger only. Raises UnreadableError if the lake
    fails; the caller must then discard the messages yielded so far.
    """
    run, manifest = sources.run, sources.manifest
    if run is None:
        return
    snapshot = sources.snapshot if in_lake and manifest is not None else None
    known, is_for_some = ledger.outcomes.corrected(run.run_id), run.is_for_some
    rows: Iterator[dict[str, Any]] = iter(())
    has_settled = False
    if snapshot is not None and manifest is not None:
        own = partial(_own_rows, snapshot.location, handled, take)
        rows = _readable(SNAPSHOT_UNREADABLE, own)
        has_settled = settled and not is_for_some and manifest.settled > 0
    vanished: _Vanished = {}
    same: dict[OutcomeFact | None, OutcomeFact | None] = {}
    without = HANDLED if handled else ()
    attempts = BrowseOrderReader(ledger.attempts.in_browse_order(run.run_id, without))
    for browse_seq, row, listed in _side_by_side(rows, ledger.messages.listed(run.run_id, without)):
        fact, message_id = (listed.outcome, listed.message_id) if listed else (None, 0)
        tried = tuple(attempts.rows_for(browse_seq))
        if row is None and has_settled:
            # There may be very many, so equal outcomes are one object.
            fact = replace(fact, message_id=0) if fact is not None else None
            vanished[browse_seq] = (same.setdefault(fact, fact), tried)
        else:
            is_known = message_id in known
            yield _message(sources, browse_seq, row, fact, tried, is_known_since=is_known)
    if snapshot is not None and has_settled and (sources.settled or vanished):
        yield from _settled(sources, snapshot.location, snapshot.taken_at, vanished)
    for browse_seq, (fact, tried) in sorted(vanished.items()):
        yield _message(sources, browse_seq, None, fact, tried)


def _own_rows(
    location: str, handled: Endings | None, take: TakeHandled | None
) -> Iterator[dict[str, Any]]:
    """Yield the full rows of a snapshot, without those of messages that a run handled."""
    numbers_of = number_endings(browse_seqs_of(handled)) if handled else None
    before = -1
    for batch in chosen_batches(location, ROW_COLUMNS):
        found, others = batch.column("browse_seq").to_numpy(), batch
        if numbers_of is not None and take is not None and len(found):
            follows = np.diff(found, prepend=before) > 0
            if not follows.all():
                wrong = int(np.argmin(follows))
                raise _out_of_order(int(found[wrong]), int(found[wrong - 1]) if wrong else before)
            before, numbers = int(found[-1]), numbers_of(found)
            take(batch, numbers)
            others = batch.filter(pa.array(numbers < 0))
        yield from others.to_pylist()


def browse_seqs_of(endings: Endings) -> list[Numbers]:
    return [np.fromstring(text, np.int64, sep=",") for text in endings.browse_seqs]


def number_endings(browse_seqs: Sequence[Numbers]) -> Callable[[Numbers], Numbers]:
    """Return a function that gives for each browse_seq the number of its ending, or -1."""
    known = np.concatenate([*browse_seqs, np.empty(0, np.int64)])
    order = np.argsort(known)
    # A place after the last one stands for every browse_seq that is not there.
    known = np.append(known[order], -1)
    many = np.array([len(some) for some in browse_seqs], np.int64)
    numbers = np.append(np.repeat(np.arange(len(many)), many)[order], -1)

    def numbers_of(wanted: Numbers) -> Numbers:
        at = np.searchsorted(known[:-1], wanted)
        return np.where(known[at] == wanted, numbers[at], -1)

    return numbers_of


def _message(
    sources: Sources,
    browse_seq: int,
    row: Mapping[str, Any] | None,
    fact: OutcomeFact | None,
    attempts: tuple[Attempt, ...] = (),
    **marks: Any,
) -> Message:
    facts = facts_of({**(row or {}), "browse_seq": browse_seq})
    return Message(**facts, sources=sources, fact=fact, attempts=attempts, **marks)


def _settled(
    sources: Sources, location: str, taken_at: datetime, vanished: _Vanished
) -> Iterator[Message]:
    """Yield the settled messages; a vanished message is listed, with its own outcome.

    Removes from `vanished` the messages that are found. Most settled messages have equal endings,
    so one number is kept for each message.
    """
    kinds: dict[Ending, int] = {}
    left: dict[int, int] = {}

    def compact() -> Iterator[dict[str, Any]]:
        for batch in lake.settled_rows(location, ("browse_seq", *_HOW)):
            yield from batch.to_pylist()

    for row in _readable(_SETTLED_UNREADABLE, compact):
        left[row["browse_seq"]] = kinds.setdefault(Ending.of_row(row), len(kinds))
    by_number = list(kinds)
    rows = partial(lake.full_rows_of_settled, location, ROW_COLUMNS)
    for row in _readable(_SETTLED_UNREADABLE, rows):
        browse_seq = row["browse_seq"]
        if browse_seq in vanished:
            fact, tried = vanished.pop(browse_seq)
            yield _message(sources, browse_seq, row, fact, tried, is_settled=True)
        else:
            fact = _settled_fact(by_number[left[browse_seq]], row, taken_at)
            yield _message(sources, browse_seq, row, fact, is_settled=True, was_left_before=True)


def _settled_fact(how: Ending, row: Mapping[str, Any], taken_at: datetime) -> OutcomeFact:
    """Return the outcome that a settled message keeps.

    Its reason is the one that settling gives for a new message, so that both share a group.
    """
    why = Why.SETTLED_BEFORE()
    if how.outcome is Outcome.UNPROCESSABLE:
        why = Why.UNPROCESSABLE(problem=row.get("problem") or "")
    elif how.outcome is Outcome.UNMATCHED:
        why = Why.NO_RULE_MATCHES()
    decided = {name: getattr(how, name) for name in _HOW}
    return OutcomeFact(**decided, message_id=0, why=why, at=taken_at)


def _readable(
    what: str, open_rows: Callable[[], Iterable[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Yield rows of the lake; an error of reading them names the rows."""
    try:
        yield from open_rows()
    except (LakeError, OSError) as error:
        raise UnreadableError(what, error) from error


def _side_by_side(
    rows: Iterator[dict[str, Any]], listed: Iterator[Listed]
) -> Iterator[tuple[int, dict[str, Any] | None, Listed | None]]:
    """Yield each browse_seq of either once, with the row and the listing it has, in browse order.

    Raises UnreadableError where the rows are not in browse order.
    """
    row, one, before = next(rows, None), next(listed, None), -1
    while row is not None or one is not None:
        at_row = row["browse_seq"] if row is not None else None
        at_one = one.browse_seq if one is not None else None
        browse_seq = min(at for at in (at_row, at_one) if at is not None)
        if browse_seq <= before:
            raise _out_of_order(browse_seq, before)
        before = browse_seq
        has_row, is_listed = at_row == browse_seq, at_one == browse_seq
        yield browse_seq, row if has_row else None, one if is_listed else None
        row = next(rows, None) if has_row else row
        one = next(listed, None) if is_listed else one


def _out_of_order(browse_seq: int, before: int) -> UnreadableError:
    error = ValueError(f"message {browse_seq} comes after message {before}")
    return UnreadableError(SNAPSHOT_UNREADABLE, error)


# The messages of a run that a filter selects: ledger and lake, one page at a time.


class MessageList:
    """The messages of one run that the ledger has, selected and then described some at a time.

    The snapshot has a full row of each, or a compact row of a settled one, whose full row is in an
    earlier snapshot of the queue.
    """

    def __init__(self, sources: Sources, ledger: Ledger) -> None:
        assert sources.run is not None  # noqa: S101 (the caller has looked)
        self._run, self._sources, self._ledger = sources.run, sources, ledger
        self._manifest = sources.manifest if sources.snapshot is not None else None
        self._location = sources.snapshot.location if sources.snapshot is not None else ""
        self._taken_at = sources.snapshot.taken_at if sources.snapshot is not None else None

    def select(self, chosen: RunMessageFilter) -> tuple[array[int], tuple[str, ...]]:
        """Return the browse_seqs of the messages that a filter selects, and what cannot be read.

        If the snapshot cannot be read, filters on its columns select nothing.
        """
        rows, is_open = chosen.rows(), chosen.outcome is Presence.NO_OUTCOME
        outcome = Outcome(chosen.outcome) if chosen.outcome and not is_open else None
        wanted = OutcomeFilter(outcome, is_unbooked=is_open, rule=chosen.rule)
        trouble = "there is no snapshot that can be read"
        if self._manifest is not None:
            try:
                return self._select_in_both(rows, wanted, self._manifest), ()
            except (LakeError, OSError) as error:
                trouble = f"{SNAPSHOT_UNREADABLE}: {getattr(error, 'text', error)}"
        if not {"message_key"}.issuperset(rows.parameters()):
            what = "its columns cannot be compared, so no message is listed"
            return array("q"), (f"{trouble}; {what}",)
        wanted = replace(wanted, key=chosen.message_key)
        found = self._ledger.run_messages.select(self._run.run_id, wanted)
        return found, (f"{trouble}; messages are listed as the ledger has them",)

    def without_outcome(self, counts: RunCounts) -> array[int]:
        """Return the browse_seqs of the messages without an outcome, as far as they can be read."""
        if counts.listed and counts.unbooked:
            unbooked = OutcomeFilter(is_unbooked=True)
            return self._ledger.run_messages.select(self._run.run_id, unbooked)
        if not counts.listed and self._manifest is not None:
            with suppress(LakeError, OSError):
                return self._full_rows(RowFilter(), self._manifest)
        return array("q")

    def rows(self, browse_seqs: Sequence[int]) -> Iterator[Message]:
        """Yield the rows of these messages, which are in order; without the lake if it fails."""
        if not browse_seqs:
            return
        run_id, run_messages = self._run.run_id, self._ledger.run_messages
        corrected = self._ledger.outcomes.corrected(run_id)
        known = {one[1].browse_seq: one for one in run_messages.described(run_id, browse_seqs)}
        held: dict[int, dict[str, Any]] = {}
        if self._manifest is not None:
            with suppress(LakeError, OSError):
                held = self._rows_at(browse_seqs, self._manifest)
        for place in browse_seqs:
            row = held.get(place, {})
            key, listed, made = known.get(place) or (row.get("message_key"), None, 0)
            fact = listed.outcome if listed is not None else None
            is_left = listed is None and "settled" in row
            if is_left and self._taken_at is not None:
                fact = _settled_fact(Ending.of_row(row["settled"]), row, self._taken_at)
            yield _message(
                *(self._sources, place, {**row, "message_key": key}, fact),
                made=made,
                is_known_since=listed is not None and listed.message_id in corrected,
                was_left_before=is_left,
            )

    def _select_in_both(
        self, chosen: RowFilter, wanted: OutcomeFilter, manifest: lake.SnapshotManifest
    ) -> array[int]:
        ledger, run_id = self._ledger.run_messages, self._run.run_id
        full = set(self._full_rows(chosen, manifest))
        settled = {}
        if manifest.settled and not self._run.is_for_some:
            compact = self._compact_rows(chosen, manifest)
            settled = {row["browse_seq"]: _fits(row, wanted) for row in compact}
        listed = set(ledger.select(run_id, OutcomeFilter()))
        found = listed if wanted.is_empty else set(ledger.select(run_id, wanted))
        if not chosen.is_empty:
            found &= full | settled.keys()
        if wanted.is_empty or wanted.is_unbooked:
            found |= full - listed
        # A settled message that vanished is the run's own: its outcome is in the ledger.
        found |= {place for place, fits in settled.items() if fits and place not in listed}
        return array("q", sorted(found))

    def _full_rows(self, chosen: RowFilter, manifest: lake.SnapshotManifest) -> array[int]:
        conditions = conditions_of(chosen, {self._location: manifest.full})
        found = places_of_rows(self._location, manifest.full, conditions)
        its = chosen_of(lake.Snapshot(self._location, manifest))
        places = np.array(found, np.int64)
        return found if its is None else array("q", places[its.are(places)])

    def _compact_rows(
        self, chosen: RowFilter, manifest: lake.SnapshotManifest
    ) -> Iterator[dict[str, Any]]:
        """Yield the compact rows of the selected settled messages, in browse order."""
        matching: set[tuple[str, bytes]] = set()
        if not chosen.is_empty:
            within = self._siblings(manifest.refers_to)
            found = search_rows(within, conditions_of(chosen, within), ("message_key",))
            matching = {(place.rsplit("/", 1)[1], row["message_key"]) for place, row in found}
        for batch in lake.settled_rows(self._location):
            for row in batch.to_pylist():
                if chosen.is_empty or (row["snapshot_id"], row["message_key"]) in matching:
                    yield row

    def _rows_at(
        self, places: Sequence[int], manifest: lake.SnapshotManifest
    ) -> dict[int, dict[str, Any]]:
        """Return the rows of these messages by browse_seq.

        A settled message has the columns of its full row and `settled`, its compact row.
        """
        within = [
            is_within(places[0], places[-1], "browse_seq"),
            is_one_of([(place,) for place in places], "browse_seq"),
        ]
        own = search_rows({self._location: manifest.full}, within, ROW_COLUMNS)
        found = {row["browse_seq"]: row for _, row in own}
        if not manifest.settled or len(found) == len(places):
            return found
        left = pa.array([place for place in places if place not in found], pa.int64())
        compact = [
            row
            for batch in lake.settled_rows(self._location)
            for row in batch.filter(pc.is_in(batch.column("browse_seq"), left)).to_pylist()
        ]
        siblings = self._siblings({row["snapshot_id"] for row in compact})
        keys = sorted({(row["message_key"],) for row in compact})
        rows = search_rows(siblings, [is_one_of(keys, "message_key")], ROW_COLUMNS)
        full = {row["message_key"]: row for _, row in rows}
        for row in compact:
            known = full.get(row["message_key"], {"message_key": row["message_key"]})
            found[row["browse_seq"]] = known | {"settled": row}
        return found

    def _siblings(self, names: Iterable[str]) -> dict[str, int]:
        """Return other snapshots of the queue, and how many full rows each has."""
        directory = self._location.rstrip("/").rsplit("/", 1)[0]
        places = [f"{directory}/{name}" for name in sorted(names)]
        return {place: lake.read_manifest(place).full for place in places}


def _fits(compact: Mapping[str, Any], chosen: OutcomeFilter) -> bool:
    if chosen.is_unbooked:
        return False
    if chosen.outcome is not None and Outcome(compact["outcome"]) is not chosen.outcome:
        return False
    return chosen.rule is None or compact["rule"] == chosen.rule
