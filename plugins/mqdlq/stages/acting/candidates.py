"""The messages that a person selects for an action, and what prevents it for some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final

from mqdlq.causes.fingerprint import find_cause
from mqdlq.constants import MQPER
from mqdlq.lake.row_search import is_one_of, search_rows
from mqdlq.lake.snapshots import find_snapshot, read_manifest
from mqdlq.ledger import Hold, Ledger
from mqdlq.model import Action, MessageClass, Outcome, PutAuthority, Step
from mqdlq.stages.acting.asked_action import AskedAction, Verb
from mqdlq.stages.finding import FoundMessage, MessageFilter, find_by_keys, iterate_messages
from mqdlq.stages.repairing.changes import COLUMNS, find_changes
from mqdlq.stages.report.controls.repairs import describe_changes
from mqdlq.stages.report.wording import cause_in_words, moment, place
from mqdlq.stages.restore.listing import ListedCopy, Restorability, list_copies

MOST: Final = 1_000
"""The highest number of messages that one action of the page takes."""

_PERSISTENCE: Final[Mapping[int | None, str]] = {
    MQPER["MQPER_PERSISTENT"]: "persistent",
    MQPER["MQPER_NOT_PERSISTENT"]: "not persistent",
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages a person selects: keys (hex), the discards of a run, or a filter."""

    message_keys: tuple[str, ...] = ()
    run_id: str = ""
    chosen: MessageFilter | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it selects nothing."""
        return not (self.message_keys or self.run_id or self.chosen)

    def parameters(self) -> dict[str, Any]:
        """Return the query parameters of the selection."""
        if self.message_keys:
            given: dict[str, Any] = {"message_key": list(self.message_keys)}
        else:
            given = dict(self.chosen.parameters()) if self.chosen else {}
        return given | ({"run": self.run_id} if self.run_id else {})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A selected message; `number` counts equal messages, which have one key.

    `cause`, `state`, `destination` and `persistence` are words. `size` is in bytes. `target` is the
    queue and queue manager of its MQDLH.
    `obstacle` says why it is left out, "" if it can be acted on. `changes` are the changes of a
    repair in words.
    """

    message_key: str
    number: int
    queue_manager: str
    queue: str
    cause: str
    cause_id: str
    state: str
    destination: str
    size: int
    persistence: str = "not known"
    expires_at: datetime | None = None
    obstacle: str = ""
    changes: str = ""
    target: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a selection's messages."""

    handler: str
    ledger: Ledger
    lake_root: str
    clock: Callable[[], datetime]


def find_candidates(selection: Selection, asked: AskedAction, sources: Sources) -> list[Candidate]:
    """Return the selected messages, at most one more than `MOST`; those in the way have a reason.

    Raises FilterError and LakeError.
    """
    if asked.verb is Verb.RESTORE:
        return _archived(selection, sources)
    found = _found(selection, sources)
    if not found:
        return [_unknown(key) for key in selection.message_keys]
    first = found[0]
    now = sources.clock()
    keys = [one.message_key for one in found]
    leased = sources.ledger.leases.of_keys(first.queue_manager, first.queue, keys, now)
    holds = [hold for hold in sources.ledger.holds.all() if asked.moves]
    candidates = [
        _candidate(
            one,
            _queue_obstacle(one, first)
            or _state_obstacle(one, asked, now)
            or _run_obstacle(one, leased)
            or _hold_obstacle(one, holds),
        )
        for one in found
    ]
    if asked.repair is not None:
        candidates = _repaired(candidates, found, asked, sources)
    missing = sorted(set(selection.message_keys) - set(keys))
    return [*candidates, *map(_unknown, missing)]


def _found(selection: Selection, sources: Sources) -> list[FoundMessage]:
    within = {"ledger": sources.ledger, "lake_root": sources.lake_root}
    if selection.message_keys:
        return find_by_keys(selection.message_keys, sources.handler, **within)  # type: ignore[arg-type]
    chosen = selection.chosen or MessageFilter()
    return list(iterate_messages(chosen, [sources.handler], limit=MOST + 1, **within))  # type: ignore[arg-type]


def _candidate(one: FoundMessage, obstacle: str) -> Candidate:
    cause = find_cause(one.cls, one.reason, one.dest_q_name, one.dest_q_mgr_name)
    is_dead_letter = one.cls is MessageClass.DEAD_LETTER
    return Candidate(
        message_key=one.message_key,
        number=one.equals,
        queue_manager=one.queue_manager,
        queue=one.queue,
        cause=cause_in_words(cause),
        cause_id=one.cause_id,
        state=one.outcome.words if one.outcome else "no outcome yet",
        destination=place(one.dest_q_name, one.dest_q_mgr_name) if is_dead_letter else "",
        size=one.total_length,
        persistence=_PERSISTENCE.get(one.persistence, "not known"),
        expires_at=one.expires_at,
        obstacle=obstacle,
        target=(one.dest_q_name, one.dest_q_mgr_name),
    )


def _repaired(
    candidates: list[Candidate],
    found: list[FoundMessage],
    asked: AskedAction,
    sources: Sources,
) -> list[Candidate]:
    """Return the candidates with the changes of the repair, or with why it cannot be made."""
    places = {find_snapshot(sources.lake_root, name) for name in {one.snapshot_id for one in found}}
    sizes = {place: read_manifest(place).counts.full for place in places}
    keys = [(bytes.fromhex(one.message_key),) for one in found]
    wanted = [is_one_of(keys, "message_key")]
    rows = {
        row["message_key"].hex(): row
        for _, row in search_rows(sizes, wanted, ["message_key", *COLUMNS])
    }
    return [
        _with_changes(candidate, one, rows.get(one.message_key), asked)
        for candidate, one in zip(candidates, found, strict=True)
    ]


def _with_changes(
    candidate: Candidate, one: FoundMessage, row: Mapping[str, Any] | None, asked: AskedAction
) -> Candidate:
    if candidate.obstacle or asked.repair is None:
        return candidate
    if row is None or one.cls not in {MessageClass.DEAD_LETTER, MessageClass.NO_DLH}:
        return replace(candidate, obstacle="its MQDLH is not valid, so that it is not repaired")
    is_retry = asked.verb is Verb.RETRY
    target_q = one.dest_q_name if is_retry else asked.to_queue
    target_q_mgr = one.dest_q_mgr_name if is_retry else asked.to_queue_manager
    action = Action.RETRY if is_retry else Action.FWD
    step = Step(1, 1, action, target_q, target_q_mgr, False, PutAuthority.DEF, 1)
    changes = find_changes(asked.repair, step, one.queue_manager, row)
    if changes.refusal:
        return replace(candidate, obstacle=changes.refusal)
    return replace(candidate, changes=describe_changes(changes))


def _unknown(key: str) -> Candidate:
    why = "no snapshot of this handler has it"
    return Candidate(key, 1, "", "", "not known", "", "not known", "", 0, obstacle=why)


def _queue_obstacle(one: FoundMessage, first: FoundMessage) -> str:
    if (one.queue_manager, one.queue) == (first.queue_manager, first.queue):
        return ""
    where = place(one.queue, one.queue_manager)
    return f"it is on another queue, {where}: act on the messages of one queue at a time"


def _state_obstacle(one: FoundMessage, asked: AskedAction, now: datetime) -> str:
    if one.has_departed:
        how = one.outcome.words if one.outcome in {*Outcome} and one.outcome else "departed"
        return f"it is not on the queue any more: {how}"
    if one.expires_at is not None and one.expires_at <= now:
        return f"it expired at {moment(one.expires_at)}"
    if asked.needs_dead_letter and one.cls is not MessageClass.DEAD_LETTER:
        return "it has no valid MQDLH, which names its destination: forward, discard or leave it"
    return ""


def _run_obstacle(one: FoundMessage, leased: dict[str, str]) -> str:
    run_id = leased.get(one.message_key)
    return f"run {run_id} has it at the moment: wait until that run ends" if run_id else ""


def _hold_obstacle(one: FoundMessage, holds: list[Hold]) -> str:
    for hold in holds:
        if one.message_key == hold.message_key or one.handler == hold.handler:
            return f"legal hold {hold.hold_id} covers it: release the hold first"
        if hold.run_id and hold.run_id in {one.run_id, one.outcome_run_id}:
            return f"legal hold {hold.hold_id} covers its run: release the hold first"
    return ""


def _archived(selection: Selection, sources: Sources) -> list[Candidate]:
    """Return the archive copies of the selected messages, the newest of each message."""
    keys = selection.message_keys
    if selection.chosen is not None and not keys:
        found = iterate_messages(
            selection.chosen,
            [sources.handler],
            ledger=sources.ledger,
            lake_root=sources.lake_root,
            limit=MOST + 1,
        )
        keys = tuple(one.message_key for one in found)
        if not keys:
            return []
    copies = sources.ledger.archive.copies(
        handler=sources.handler, run_id=selection.run_id, message_keys=keys
    )
    newest = {(copy.message_key, copy.occurrence): copy for copy in copies}
    some = list(islice(newest.values(), MOST + 1))
    candidates = list(_restorable(list(list_copies(some, sources.ledger))))
    known = {one.message_key for one in candidates}
    why = "the archive has no copy of it"
    missing = sorted(set(keys) - known) if not selection.chosen else []
    return [*candidates, *(replace(_unknown(key), obstacle=why) for key in missing)]


def _restorable(listed: list[ListedCopy]) -> Iterator[Candidate]:
    for one in listed:
        is_ready = one.restorability is Restorability.RESTORED
        yield Candidate(
            message_key=one.copy.message_key.hex(),
            number=1,
            queue_manager=one.copy.queue_manager,
            queue=one.copy.queue,
            cause=one.reason_text or "not known",
            cause_id="",
            state=str(one.restorability),
            destination=place(one.dest_q, one.dest_q_mgr) if one.dest_q else "",
            size=one.length or 0,
            obstacle="" if is_ready else f"{one.restorability} {one.why}".strip(),
        )
