"""The messages of a run with their outcomes: all, one after another, or a page of selected ones.

Lake and ledger are read side by side, in browse order, so that a report on a million messages
holds a few thousand at a time.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.errors import LakeError
from mqdlq.lake import (
    SnapshotManifest,
    full_rows_of_settled,
    read_manifest,
    settled_rows,
    snapshot_rows,
)
from mqdlq.lake.row_search import is_one_of, is_within, places_of_rows, search_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.messages import BrowseOrderReader, Listed
from mqdlq.ledger.reading.run_messages import OutcomeFilter
from mqdlq.ledger.tables import Attempt, Ending, OutcomeFact
from mqdlq.model import MessageClass, Outcome
from mqdlq.reading.filters import Presence, RowFilter, RunMessageFilter, conditions_of
from mqdlq.reading.report.records import MessageFacts
from mqdlq.reading.run import NO_RULE, SNAPSHOT_UNREADABLE, Sources
from mqdlq.reasons import Reason, Why

ROW_COLUMNS: Final = (
    "browse_seq",
    "class",
    "problem",
    "msg_id",
    "message_key",
    "dlh_reason",
    "dlh_dest_q_name",
    "dlh_dest_q_mgr_name",
    "dead_lettered_at",
    "put_at",
    "put_appl_name",
    "user_identifier",
    "format",
    "dlh_format",
    "total_length",
    "expires_at",
)
"""All that report and page read of a snapshot: no body."""
_HOW: Final = ("outcome", "rule", "action", "target_q", "target_q_mgr")
_SETTLED_UNREADABLE: Final = "the settled messages cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(MessageFacts):
    """A message of the run with what became of it.

    A message of a list has its number of attempts, `made`, and the line of the rule that decided;
    one of a report has its `attempts`. `expires_at` is None for never. `is_known_since` says that
    the ledger learned later how it had ended; `is_settled` that the snapshot has a compact row of
    it, and `was_left_before` that it keeps the outcome of an earlier run and the run does not list
    it.
    """

    outcome: OutcomeFact | None
    attempts: tuple[Attempt, ...] = ()
    made: int = 0
    rule_line: int = 0
    expires_at: datetime | None = None
    is_known_since: bool = False
    is_settled: bool = False
    was_left_before: bool = False


class UnreadableError(LakeError):
    """The lake's part of the messages cannot be read: of the snapshot's own, or of settled ones."""

    def __init__(self, what: str, error: Exception) -> None:
        super().__init__("MQDLQ-434", f"{what}: {getattr(error, 'text', error)}")
        self.is_of_settled = what == _SETTLED_UNREADABLE


def messages_of(
    sources: Sources, ledger: Ledger, *, lake: bool = True, settled: bool = True
) -> Iterator[Message]:
    """Yield the messages of a run in browse order, then the settled messages in any order.

    For a run for named messages, only these are yielded. Without `lake`, or `settled`, messages, or
    settled messages, are read from the ledger only. Raises UnreadableError if the lake fails; the
    caller must then discard the messages yielded so far.
    """
    run, manifest = sources.run, sources.manifest
    if run is None:
        return
    snapshot = sources.snapshot if lake and manifest is not None else None
    rows: Iterator[dict[str, Any]] = iter(())
    if snapshot is not None:
        rows = _readable(SNAPSHOT_UNREADABLE, lambda: snapshot_rows(snapshot.location, ROW_COLUMNS))
    known = ledger.outcomes.corrected(run.run_id)
    has_settled = settled and snapshot is not None and manifest is not None and manifest.settled > 0
    named = run.named
    has_settled = has_settled and not named
    vanished: dict[int, tuple[Listed, tuple[Attempt, ...]]] = {}
    same: dict[OutcomeFact | None, OutcomeFact | None] = {}
    attempts = BrowseOrderReader(ledger.attempts.in_browse_order(run.run_id))
    for browse_seq, row, listed in _side_by_side(rows, ledger.messages.listed(run.run_id)):
        if row and listed is None and named and row["message_key"] not in named:
            continue
        tried = tuple(attempts.rows_for(browse_seq))
        if row is None and listed is not None and has_settled:
            vanished[browse_seq] = (_shared(listed, same), tried)
            continue
        fact, message_id = (listed.outcome, listed.message_id) if listed else (None, 0)
        is_known = message_id in known
        yield message_of(browse_seq, row or {}, fact, tried, is_known_since=is_known)
    if snapshot is not None and has_settled and (sources.settled or vanished):
        yield from _settled(snapshot.location, snapshot.taken_at, vanished)
    for browse_seq, (listed, tried) in sorted(vanished.items()):
        yield message_of(browse_seq, {}, listed.outcome, tried)


def _settled(
    location: str, taken_at: datetime, vanished: dict[int, tuple[Listed, tuple[Attempt, ...]]]
) -> Iterator[Message]:
    """Yield the settled messages; a vanished message is listed, with its own outcome.

    Removes from `vanished` the messages that are found. Most settled messages have equal endings,
    so one number is kept for each message.
    """
    kinds: dict[Ending, int] = {}
    left: dict[int, int] = {}

    def compact() -> Iterator[dict[str, Any]]:
        for batch in settled_rows(location, ("browse_seq", *_HOW)):
            yield from batch.to_pylist()

    for row in _readable(_SETTLED_UNREADABLE, compact):
        browse_seq = row.pop("browse_seq")
        how = Ending(**row | {"outcome": Outcome(row["outcome"])})
        left[browse_seq] = kinds.setdefault(how, len(kinds))
    by_number = list(kinds)
    for row in _readable(_SETTLED_UNREADABLE, lambda: full_rows_of_settled(location, ROW_COLUMNS)):
        browse_seq = row["browse_seq"]
        if browse_seq in vanished:
            listed, tried = vanished.pop(browse_seq)
            yield message_of(browse_seq, row, listed.outcome, tried, is_settled=True)
            continue
        how = by_number[left[browse_seq]]
        decided = {name: getattr(how, name) for name in _HOW}
        fact = OutcomeFact(**decided, message_id=0, why=why_settled(how.outcome, row), at=taken_at)
        yield message_of(browse_seq, row, fact, (), is_settled=True, was_left_before=True)


def _shared(listed: Listed, same: dict[OutcomeFact | None, OutcomeFact | None]) -> Listed:
    """Return a listed message that shares its fact with equal ones: there may be very many."""
    fact = listed.outcome
    if fact is not None:
        fact = replace(fact, message_id=0)
    return Listed(listed.browse_seq, 0, same.setdefault(fact, fact))


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
            error = ValueError(f"message {browse_seq} comes after message {before}")
            raise UnreadableError(SNAPSHOT_UNREADABLE, error)
        before = browse_seq
        has_row, is_listed = at_row == browse_seq, at_one == browse_seq
        yield browse_seq, row if has_row else None, one if is_listed else None
        row = next(rows, None) if has_row else row
        one = next(listed, None) if is_listed else one


def why_settled(outcome: Outcome, row: dict[str, Any]) -> Reason:
    """Return the reason that settling gives for a new message, so that both share a group."""
    if outcome is Outcome.UNPROCESSABLE:
        return Why.UNPROCESSABLE(problem=row["problem"])
    return Why.NO_RULE_MATCHES() if outcome is Outcome.UNMATCHED else Why.SETTLED_BEFORE()


def message_of(
    browse_seq: int,
    row: Mapping[str, Any],
    outcome: OutcomeFact | None,
    attempts: tuple[Attempt, ...] = (),
    **marks: bool,
) -> Message:
    """Return a message with its row in the lake, which is empty if it cannot be read."""
    return Message(
        browse_seq=browse_seq,
        cls=MessageClass(row["class"]) if row.get("class") else None,
        problem=row.get("problem") or "",
        msg_id=(row.get("msg_id") or b"").hex(),
        message_key=(row.get("message_key") or b"").hex(),
        reason=row.get("dlh_reason") or 0,
        dest_q_name=row.get("dlh_dest_q_name") or "",
        dest_q_mgr_name=row.get("dlh_dest_q_mgr_name") or "",
        dead_lettered_at=row.get("dead_lettered_at"),
        since=row.get("dead_lettered_at") or row.get("put_at"),
        outcome=outcome,
        attempts=attempts,
        put_appl_name=row.get("put_appl_name") or "",
        user_identifier=row.get("user_identifier") or "",
        # Behind an MQDLH, MQMD.Format is that of the MQDLH itself, also if its own is blank.
        format=row.get("format" if row.get("dlh_reason") is None else "dlh_format") or "",
        total_length=row.get("total_length") or 0,
        expires_at=row.get("expires_at"),
        **marks,
    )


# The messages of a run that a filter selects: ledger and lake, one page at a time.


@dataclass(frozen=True, slots=True)
class Selection:
    """The browse_seqs of the selected messages, in order, and what could not be read."""

    browse_seqs: array[int]
    troubles: tuple[str, ...]


class SnapshotMessages:
    """The messages of one snapshot: its full rows, and the settled ones, which are elsewhere."""

    def __init__(self, location: str, manifest: SnapshotManifest) -> None:
        """Read a snapshot that the lake has."""
        self._location, self._manifest = location, manifest

    def full_rows(self, chosen: RowFilter, among: Collection[bytes] = ()) -> array[int]:
        """Return the browse_seqs of the selected full rows, and with `among` of these keys only."""
        rows = self._manifest.full
        conditions = conditions_of(chosen, {self._location: rows})
        if among:
            conditions.append(is_one_of(sorted((key,) for key in among), "message_key"))
        return places_of_rows(self._location, rows, conditions)

    def settled(self, chosen: RowFilter) -> Iterator[dict[str, Any]]:
        """Yield the compact rows of the selected settled messages, in browse order.

        Their full rows are in earlier snapshots, which are read if the filter is not empty. Raises
        `LakeError` if such a snapshot cannot be read.
        """
        if not self._manifest.settled:
            return
        matching: set[tuple[str, bytes]] = set()
        if not chosen.is_empty:
            batches = settled_rows(self._location, ["snapshot_id"])
            within = self._siblings(
                {one for batch in batches for one in pc.unique(batch.column(0)).to_pylist()}
            )
            found = search_rows(within, conditions_of(chosen, within), ("message_key",))
            matching = {(place.rsplit("/", 1)[1], row["message_key"]) for place, row in found}
        for batch in settled_rows(self._location):
            for row in batch.to_pylist():
                if chosen.is_empty or (row["snapshot_id"], row["message_key"]) in matching:
                    yield row

    def rows_at(self, places: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Return the rows of these messages by browse_seq; `places` are in order.

        A settled message has the columns of its full row and `settled`, its compact row.
        """
        own = {self._location: self._manifest.full}
        within = [
            is_within(places[0], places[-1], "browse_seq"),
            is_one_of([(place,) for place in places], "browse_seq"),
        ]
        found = {row["browse_seq"]: row for _, row in search_rows(own, within, ROW_COLUMNS)}
        if self._manifest.settled and len(found) < len(places):
            left = pa.array([place for place in places if place not in found], pa.int64())
            for batch in settled_rows(self._location):
                chosen = batch.filter(pc.is_in(batch.column("browse_seq"), left))
                found |= self._full_rows_of(chosen.to_pylist())
        return found

    def _full_rows_of(self, compact: Sequence[dict[str, Any]]) -> dict[int, dict[str, Any]]:
        if not compact:
            return {}
        within = self._siblings({row["snapshot_id"] for row in compact})
        keys = sorted({(row["message_key"],) for row in compact})
        found = search_rows(within, [is_one_of(keys, "message_key")], ROW_COLUMNS)
        full = {row["message_key"]: row for _, row in found}
        return {
            row["browse_seq"]: {
                **full.get(row["message_key"], {"message_key": row["message_key"]}),
                "browse_seq": row["browse_seq"],
                "settled": row,
            }
            for row in compact
        }

    def _siblings(self, names: Iterable[str]) -> dict[str, int]:
        """Return other snapshots of the queue, and how many full rows each has."""
        directory = self._location.rstrip("/").rsplit("/", 1)[0]
        places = [f"{directory}/{name}" for name in sorted(names)]
        return {place: read_manifest(place).full for place in places}


class MessageList:
    """The messages of one run."""

    def __init__(self, sources: Sources, ledger: Ledger) -> None:
        """List the messages of a run that the ledger has."""
        assert sources.run is not None  # noqa: S101 (the caller has looked)
        self._run, self._ledger, self._rules = sources.run, ledger, sources.rules
        self._corrected = ledger.outcomes.corrected(sources.run.run_id)
        self._taken_at = sources.snapshot.taken_at if sources.snapshot is not None else None
        self._lake: SnapshotMessages | None = None
        if sources.snapshot is not None and sources.manifest is not None:
            self._lake = SnapshotMessages(sources.snapshot.location, sources.manifest)

    def select(self, chosen: RunMessageFilter) -> Selection:
        """Return which messages a filter selects.

        If the snapshot cannot be read, filters on its columns select nothing, and the trouble says
        so.
        """
        is_open = chosen.outcome is Presence.NO_OUTCOME
        outcome = Outcome(chosen.outcome) if chosen.outcome and not is_open else None
        wanted = OutcomeFilter(outcome, is_unbooked=is_open, rule=chosen.rule)
        if self._lake is not None:
            try:
                return Selection(self._select_in_both(self._lake, chosen.rows(), wanted), ())
            except (LakeError, OSError) as error:
                trouble = f"{SNAPSHOT_UNREADABLE}: {getattr(error, 'text', error)}"
        else:
            trouble = "there is no snapshot that can be read"
        if not {"message_key"}.issuperset(chosen.rows().parameters()):
            what = "its columns cannot be compared, so no message is listed"
            return Selection(array("q"), (f"{trouble}; {what}",))
        wanted = replace(wanted, key=chosen.message_key)
        found = self._ledger.run_messages.select(self._run.run_id, wanted)
        return Selection(found, (f"{trouble}; messages are listed as the ledger has them",))

    def rows(self, browse_seqs: Sequence[int]) -> Iterator[Message]:
        """Yield the rows of these messages, which are in order; without the lake if it fails."""
        if not browse_seqs:
            return
        known = {
            listed.browse_seq: (key, listed, made)
            for key, listed, made in self._ledger.run_messages.described(
                self._run.run_id, browse_seqs
            )
        }
        held: dict[int, dict[str, Any]] = {}
        if self._lake is not None:
            with suppress(LakeError, OSError):
                held = self._lake.rows_at(browse_seqs)
        for place in browse_seqs:
            yield self._row(place, held.get(place, {}), known.get(place))

    def _select_in_both(
        self, lake: SnapshotMessages, chosen: RowFilter, wanted: OutcomeFilter
    ) -> array[int]:
        ledger, run_id = self._ledger.run_messages, self._run.run_id
        full = set(lake.full_rows(chosen, self._run.named))
        settled = {}
        if not self._run.named:
            settled = {row["browse_seq"]: _fits(row, wanted) for row in lake.settled(chosen)}
        listed = set(ledger.select(run_id, OutcomeFilter()))
        found = listed if wanted.is_empty else set(ledger.select(run_id, wanted))
        if not chosen.is_empty:
            found &= full | settled.keys()
        if wanted.is_empty or wanted.is_unbooked:
            found |= full - listed
        # A settled message that vanished is the run's own: its outcome is in the ledger.
        found |= {place for place, fits in settled.items() if fits and place not in listed}
        return array("q", sorted(found))

    def _row(
        self, place: int, row: dict[str, Any], known: tuple[bytes, Listed, int] | None
    ) -> Message:
        key, listed, made = known or (row.get("message_key"), None, 0)
        settled = row.get("settled") if listed is None else None
        fact = listed.outcome if listed is not None else self._fact(settled, row)
        message = message_of(
            place,
            {**row, "message_key": key},
            fact,
            is_known_since=listed is not None and listed.message_id in self._corrected,
            was_left_before=settled is not None,
        )
        line = self._rules.get(fact.rule, NO_RULE).line if fact is not None else 0
        return replace(message, made=made, rule_line=line)

    def _fact(self, settled: dict[str, Any] | None, row: dict[str, Any]) -> OutcomeFact | None:
        if settled is None or self._taken_at is None:
            return None
        decision = {name: settled[name] for name in ("rule", "action", "target_q", "target_q_mgr")}
        outcome = Outcome(settled["outcome"])
        why = why_settled(outcome, row)
        return OutcomeFact(**decision, outcome=outcome, message_id=0, why=why, at=self._taken_at)


def _fits(row: dict[str, Any], chosen: OutcomeFilter) -> bool:
    if chosen.is_unbooked:
        return False
    if chosen.outcome is not None and Outcome(row["outcome"]) is not chosen.outcome:
        return False
    return chosen.rule is None or row["rule"] == chosen.rule
