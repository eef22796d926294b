"""What ledger and lake hold of one run, read once: a run id in, its facts side by side out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from mqdlq.errors import LakeError
from mqdlq.lake import (
    find_plan,
    parked_rows,
    plan_directory,
    plan_id,
    read_manifest,
    rows_of_parked,
    snapshot_rows,
)
from mqdlq.ledger import (
    Attempt,
    Ledger,
    Look,
    OutcomeFact,
    Run,
    RunMessage,
    Settled,
    Sighting,
    known_since,
    last_look,
    parking,
)
from mqdlq.model import MessageClass, Outcome
from mqdlq.report.records import PlanFacts, SnapshotFacts
from mqdlq.rules import check

_COLUMNS: Final = (
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
)
"""All that a report reads of a snapshot: no body, no user identifier."""
_PARKED_COLUMNS: Final = ("browse_seq", "outcome", "rule", "action", "target_q", "target_q_mgr")


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the run with what became of it; `cls` is None where the lake has no row of it.

    `reason` is the MQDLH's, 0 where there is no MQDLH; `since` is when the message was
    dead-lettered or, where nothing says that, put.
    """

    browse_seq: int
    cls: MessageClass | None
    problem: str
    msg_id: str
    message_key: str
    reason: int
    dest_q_name: str
    dest_q_mgr_name: str
    dead_lettered_at: datetime | None
    since: datetime | None
    outcome: OutcomeFact | None
    attempts: tuple[Attempt, ...]
    is_known_since: bool = False
    """Whether the ledger learned later how it had ended; its outcome is the one booked."""


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule as the run's table has it: the line its entry begins on, and its text."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything a report is made from; `rules` are by ordinal, `messages` in browse order.

    `parked` counts the messages that were left as they had been by an earlier run; they are not
    among the `messages`, but as far as the lake tells of them among the `left_before`.
    """

    run: Run | None
    snapshot: SnapshotFacts | None
    plan: PlanFacts | None
    sighting: Sighting | None
    messages: tuple[Message, ...]
    left_before: tuple[Message, ...]
    parked: Mapping[Settled, int]
    attempts: tuple[Attempt, ...]
    rules: Mapping[int, WrittenRule]
    taken_by: str
    troubles: tuple[str, ...]
    look: Look | None = None
    """What the run saw of its queue when it looked for work."""


def read_sources(run_id: str, ledger: Ledger, lake_root: str) -> Sources:
    """Read a run; what the lake no longer holds is told in `troubles`, nothing is raised for it."""
    run = ledger.run(run_id)
    if run is None:
        return Sources(None, None, None, None, (), (), {}, (), {}, "", ())
    snapshot = _snapshot(run_id, ledger)
    rows, taken_by, troubles = _rows(snapshot)
    plan = _plan(run, snapshot, ledger, lake_root)
    attempts = tuple(ledger.attempts(run_id))
    listed = ledger.run_messages(run_id)
    parked = parking.outcomes_of_parked(ledger, run_id)
    left_before: tuple[Message, ...] = ()
    vanished = {message.browse_seq for message in listed} - set(rows)
    if snapshot is not None and taken_by and (parked or vanished):  # else it cannot be read
        try:
            compact = {r["browse_seq"]: r for r in rows_of_parked(snapshot.location, _COLUMNS)}
            left_before = _left_before(snapshot, compact, vanished)
            rows |= {browse_seq: compact[browse_seq] for browse_seq in vanished & set(compact)}
        except (LakeError, OSError, ValueError) as error:  # ValueError: not Parquet
            troubles = (*troubles, f"what was left before cannot be read: {error}")
    messages = _messages(
        listed, ledger.outcomes(run_id), rows, attempts, known_since(ledger, run_id)
    )
    return Sources(
        run=run,
        snapshot=snapshot,
        plan=plan,
        sighting=ledger.sighting(run_id),
        messages=messages,
        left_before=left_before,
        parked=parked,
        attempts=attempts,
        rules=written_rules(run.rules_text),
        taken_by=taken_by,
        troubles=troubles,
        look=last_look(ledger, run_id),
    )


def written_rules(text: str) -> dict[int, WrittenRule]:
    """Return the rules of a table by ordinal, as they are written, without the comments between.

    A text that is no valid table has none.
    """
    table = check(text).table
    if table is None:
        return {}
    lines = text.splitlines()
    starts = [rule.line for rule in table.rules] + [len(lines) + 1]
    written = {}
    for rule, end in zip(table.rules, starts[1:], strict=True):
        entry = [line.rstrip() for line in lines[rule.line - 1 : end - 1]]
        kept = [line for line in entry if line and not line.startswith("*")]
        written[rule.ordinal] = WrittenRule(rule.line, "\n".join(kept))
    return written


def _snapshot(run_id: str, ledger: Ledger) -> SnapshotFacts | None:
    row = ledger.snapshot(run_id)
    if row is None:
        return None
    return SnapshotFacts(row.snapshot_id, row.location, row.messages, row.taken_at)


def _plan(
    run: Run, snapshot: SnapshotFacts | None, ledger: Ledger, lake_root: str
) -> PlanFacts | None:
    """Return the plan the ledger has accepted, else the one that waits in the lake."""
    row = ledger.plan(run.run_id)
    if row is not None:
        return PlanFacts(row.plan_id, row.plan_hash, row.accepted_at)
    if snapshot is None:
        return None
    identifier = plan_id(snapshot.snapshot_id, run.rules_digest)
    try:
        found = find_plan(plan_directory(lake_root, identifier))
    except (LakeError, OSError):
        return None
    return None if found is None else PlanFacts(identifier, found.plan_hash, None)


def _rows(
    snapshot: SnapshotFacts | None,
) -> tuple[dict[int, dict[str, Any]], str, tuple[str, ...]]:
    """Return a snapshot's rows by browse_seq, who took it, and what is wrong with it."""
    if snapshot is None:
        return {}, "", ()
    try:
        manifest = read_manifest(snapshot.location)
        rows = {row["browse_seq"]: row for row in snapshot_rows(snapshot.location, _COLUMNS)}
    except (LakeError, OSError, ValueError) as error:  # ValueError: not Parquet
        return {}, "", (f"the snapshot cannot be read: {error}",)
    troubles = []
    held = len(rows) + manifest.parked
    if held != snapshot.messages:
        troubles.append(f"the snapshot holds {held} messages, the ledger says {snapshot.messages}")
    return rows, manifest.taken_by, tuple(troubles)


def _messages(
    listed: Sequence[RunMessage],
    outcomes: Mapping[int, OutcomeFact],
    rows: dict[int, dict[str, Any]],
    attempts: tuple[Attempt, ...],
    known: set[int],
) -> tuple[Message, ...]:
    ids = {message.browse_seq: message.message_id for message in listed}
    tried: dict[int | None, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        tried[attempt.message_id].append(attempt)
    return tuple(
        _message(
            browse_seq,
            rows.get(browse_seq, {}),
            outcomes.get(ids.get(browse_seq, 0)),
            tuple(tried.get(ids.get(browse_seq), ())),
            is_known_since=ids.get(browse_seq) in known,
        )
        for browse_seq in sorted({*rows, *ids})
    )


def _left_before(
    snapshot: SnapshotFacts, rows: Mapping[int, dict[str, Any]], vanished: set[int]
) -> tuple[Message, ...]:
    """Return the parked messages that are still as they were left, in browse order.

    Those that vanished are listed among the run's own, with outcomes of their own.
    """
    facts = {}
    for batch in parked_rows(snapshot.location, _PARKED_COLUMNS):
        for compact in batch.to_pylist():
            browse_seq, outcome = compact.pop("browse_seq"), Outcome(compact.pop("outcome"))
            why = _why(outcome, rows[browse_seq])
            facts[browse_seq] = OutcomeFact(0, outcome, why, at=snapshot.taken_at, **compact)
    return tuple(
        _message(browse_seq, rows[browse_seq], fact, ())
        for browse_seq, fact in sorted(facts.items())
        if browse_seq not in vanished
    )


def _why(outcome: Outcome, row: dict[str, Any]) -> str:
    """Say what settling said when the message was new, so that old and new stand together."""
    if outcome is Outcome.UNPROCESSABLE:
        return str(row["problem"])
    return "no rule matches" if outcome is Outcome.LEFT_NO_RULE else "as an earlier run left it"


def _message(
    browse_seq: int,
    row: dict[str, Any],
    outcome: OutcomeFact | None,
    attempts: tuple[Attempt, ...],
    *,
    is_known_since: bool = False,
) -> Message:
    return Message(
        browse_seq=browse_seq,
        cls=MessageClass(row["class"]) if row else None,
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
        is_known_since=is_known_since,
    )
