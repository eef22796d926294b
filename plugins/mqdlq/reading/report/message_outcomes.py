"""Read the messages of a run, one after another, with what became of each.

Lake and ledger are read side by side, in browse order, so that a report on a million messages
holds a few thousand at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from mqdlq.errors import LakeError
from mqdlq.lake import full_rows_of_settled, settled_rows, snapshot_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.messages import BrowseOrderReader, Listed
from mqdlq.ledger.tables.messages import Attempt, Ending, OutcomeFact
from mqdlq.model import MessageClass, Outcome
from mqdlq.reading.report.report_records import MessageFacts
from mqdlq.reading.report.report_sources import SNAPSHOT_UNREADABLE, Sources
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

    `expires_at` is None for never. `is_known_since` says that the ledger learned later how it had
    ended; `is_settled` that the snapshot has a compact row of it, and `was_left_before` that it
    keeps the outcome of an earlier run and the run does not list it.
    """

    outcome: OutcomeFact | None
    attempts: tuple[Attempt, ...] = ()
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
        format=row.get("dlh_format") or row.get("format") or "",
        total_length=row.get("total_length") or 0,
        expires_at=row.get("expires_at"),
        **marks,
    )
