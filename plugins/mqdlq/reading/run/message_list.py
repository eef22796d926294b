"""Select and describe the messages of a run: ledger and lake, one page at a time."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot
from mqdlq.lake.row_filter import FilteredSnapshot, RowFilter
from mqdlq.ledger import Ledger, Listed, OutcomeFact, OutcomeFilter
from mqdlq.model import Outcome
from mqdlq.reading.report.report_sources import NO_RULE, SNAPSHOT_UNREADABLE, Sources

_COLUMNS: Final = (
    "msg_id",
    "put_appl_name",
    "user_identifier",
    "format",
    "dlh_format",
    "total_length",
    "dlh_reason",
    "dlh_dest_q_name",
    "dlh_dest_q_mgr_name",
    "put_at",
    "dead_lettered_at",
    "expires_at",
)
"""All that a list of messages reads of a snapshot: no body."""


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """A filter of messages; a message is listed if both the lake and the ledger select it."""

    rows: RowFilter = field(default_factory=RowFilter)
    outcomes: OutcomeFilter = field(default_factory=OutcomeFilter)

    @property
    def is_empty(self) -> bool:
        """Whether it narrows nothing."""
        return self.rows.is_empty and self.outcomes.is_empty


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """A message of a run with its outcome; fields that nothing says are "", 0 or None.

    `message_key` and `msg_id` are hexadecimal digits. `is_settled` messages keep the outcome of an
    earlier run, and `is_known_since` says that a later run found out how the message had ended.
    `since` is the time since when it is on the queue.
    """

    browse_seq: int
    message_key: str
    msg_id: str
    put_appl_name: str
    user_identifier: str
    format: str
    total_length: int
    reason: int
    dest_q_name: str
    dest_q_mgr_name: str
    since: datetime | None
    expires_at: datetime | None
    outcome: Outcome | None
    why: str
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


class MessageList:
    """The messages of one run."""

    def __init__(self, sources: Sources, ledger: Ledger) -> None:
        """List the messages of a run that the ledger has."""
        assert sources.run is not None  # noqa: S101 (the caller has looked)
        self._run, self._ledger, self._rules = sources.run, ledger, sources.rules
        self._corrected = ledger.outcomes.corrected(sources.run.run_id)
        self._taken_at = sources.snapshot.taken_at if sources.snapshot is not None else None
        self._lake: FilteredSnapshot | None = None
        if sources.snapshot is not None and sources.manifest is not None:
            self._lake = FilteredSnapshot(Snapshot(sources.snapshot.location, sources.manifest))

    def select(self, chosen: MessageFilter) -> Selection:
        """Return which messages a filter selects.

        If the snapshot cannot be read, filters on its columns select nothing, and the trouble says
        so.
        """
        if self._lake is not None:
            try:
                return Selection(self._select_in_both(self._lake, chosen), ())
            except (LakeError, OSError) as error:
                trouble = f"{SNAPSHOT_UNREADABLE}: {getattr(error, 'text', error)}"
        else:
            trouble = "there is no snapshot that can be read"
        key = chosen.rows.message_key
        if chosen.rows != RowFilter(message_key=key):
            what = "its columns cannot be compared, so no message is listed"
            return Selection(array("q"), (f"{trouble}; {what}",))
        wanted = replace(chosen.outcomes, key=key)
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
            try:
                held = self._lake.rows_at(browse_seqs, _COLUMNS)
            except (LakeError, OSError):
                held = {}
        for place in browse_seqs:
            yield self._row(place, held.get(place, {}), known.get(place))

    def _select_in_both(self, lake: FilteredSnapshot, chosen: MessageFilter) -> array[int]:
        ledger, run_id, wanted = self._ledger.run_messages, self._run.run_id, chosen.outcomes
        full = lake.full_rows(chosen.rows, self._run.named)
        settled = {}
        if not self._run.named:
            settled = {row["browse_seq"]: _fits(row, wanted) for row in lake.settled(chosen.rows)}
        listed = set(ledger.select(run_id, OutcomeFilter()))
        found = listed if wanted.is_empty else set(ledger.select(run_id, wanted))
        if not chosen.rows.is_empty:
            found &= full | settled.keys()
        if wanted.is_empty or wanted.is_unbooked:
            found |= full - listed
        # A settled message that vanished is the run's own: its outcome is in the ledger.
        found |= {place for place, fits in settled.items() if fits and place not in listed}
        return array("q", sorted(found))

    def _row(
        self, place: int, row: dict[str, Any], known: tuple[bytes, Listed, int] | None
    ) -> OutcomeRow:
        key, listed, made = known or (row.get("message_key") or b"", None, 0)
        settled = row.get("settled") if listed is None else None
        fact = listed.outcome if listed is not None else self._fact(settled)
        rule = fact.rule if fact is not None else 0
        return OutcomeRow(
            browse_seq=place,
            message_key=key.hex(),
            msg_id=(row.get("msg_id") or b"").hex(),
            put_appl_name=row.get("put_appl_name") or "",
            user_identifier=row.get("user_identifier") or "",
            format=row.get("dlh_format") or row.get("format") or "",
            total_length=row.get("total_length") or 0,
            reason=row.get("dlh_reason") or 0,
            dest_q_name=row.get("dlh_dest_q_name") or "",
            dest_q_mgr_name=row.get("dlh_dest_q_mgr_name") or "",
            since=row.get("dead_lettered_at") or row.get("put_at"),
            expires_at=row.get("expires_at"),
            outcome=fact.outcome if fact is not None else None,
            why=fact.why if fact is not None else "",
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

    def _fact(self, settled: dict[str, Any] | None) -> OutcomeFact | None:
        if settled is None or self._taken_at is None:
            return None
        decision = {name: settled[name] for name in ("rule", "action", "target_q", "target_q_mgr")}
        outcome, why = Outcome(settled["outcome"]), "as an earlier run left it"
        return OutcomeFact(0, outcome, why, at=self._taken_at, **decision)


def _fits(row: dict[str, Any], chosen: OutcomeFilter) -> bool:
    """Whether a settled message fits a filter on outcomes."""
    if chosen.is_unbooked:
        return False
    if chosen.outcome is not None and Outcome(row["outcome"]) is not chosen.outcome:
        return False
    return chosen.rule is None or row["rule"] == chosen.rule
