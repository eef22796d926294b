"""Select and describe the messages of a run: ledger and lake, one page at a time."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.errors import LakeError
from mqdlq.lake import SnapshotManifest, read_manifest, settled_rows
from mqdlq.lake.row_search import is_one_of, is_within, places_of_rows, search_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.messages import Listed
from mqdlq.ledger.reading.run_messages import OutcomeFilter
from mqdlq.ledger.tables.messages import OutcomeFact
from mqdlq.model import Outcome
from mqdlq.reading.filters import Presence, RowFilter, RunMessageFilter, conditions_of
from mqdlq.reading.report.message_outcomes import ROW_COLUMNS, message_of, why_settled
from mqdlq.reading.report.report_records import MessageFacts
from mqdlq.reading.report.report_sources import NO_RULE, SNAPSHOT_UNREADABLE, Sources
from mqdlq.reasons import code_of, words_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow(MessageFacts):
    """A message of a run with its outcome; fields that nothing says are "", 0 or None.

    `is_settled` messages keep the outcome of an earlier run, and `is_known_since` says that a later
    run found out how the message had ended.
    """

    expires_at: datetime | None
    outcome: Outcome | None
    why: str
    why_code: str
    rule: int
    rule_line: int
    action: str
    target_q: str
    target_q_mgr: str
    attempts: int
    at: datetime | None
    is_settled: bool
    is_known_since: bool


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

    def rows(self, browse_seqs: Sequence[int]) -> Iterator[OutcomeRow]:
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
    ) -> OutcomeRow:
        key, listed, made = known or (row.get("message_key"), None, 0)
        settled = row.get("settled") if listed is None else None
        fact = listed.outcome if listed is not None else self._fact(settled, row)
        rule = fact.rule if fact is not None else 0
        message = message_of(place, {**row, "message_key": key}, fact)
        why = fact.why if fact is not None else None
        return OutcomeRow(
            **message.facts(),
            expires_at=message.expires_at,
            outcome=fact.outcome if fact is not None else None,
            why=words_of(why),
            why_code=code_of(why),
            rule=rule,
            rule_line=self._rules.get(rule, NO_RULE).line,
            action=fact.action if fact is not None else "",
            target_q=fact.target_q if fact is not None else "",
            target_q_mgr=fact.target_q_mgr if fact is not None else "",
            attempts=made,
            at=fact.at if fact is not None else None,
            is_settled=settled is not None,
            is_known_since=listed is not None and listed.message_id in self._corrected,
        )

    def _fact(self, settled: dict[str, Any] | None, row: dict[str, Any]) -> OutcomeFact | None:
        if settled is None or self._taken_at is None:
            return None
        decision = {name: settled[name] for name in ("rule", "action", "target_q", "target_q_mgr")}
        outcome = Outcome(settled["outcome"])
        why = why_settled(outcome, row)
        return OutcomeFact(**decision, outcome=outcome, message_id=0, why=why, at=self._taken_at)


def _fits(row: dict[str, Any], chosen: OutcomeFilter) -> bool:
    """Whether a settled message fits a filter on outcomes."""
    if chosen.is_unbooked:
        return False
    if chosen.outcome is not None and Outcome(row["outcome"]) is not chosen.outcome:
        return False
    return chosen.rule is None or row["rule"] == chosen.rule
