"""Prepare an action of a person on messages: what it would do to which of them.

Nothing is done here. A run of the handler, or of the restore DAG, carries the action out.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any, Final

from mqdlq.causes import find_cause
from mqdlq.constants import MQPER
from mqdlq.controls.repair import Repair, parse_repair
from mqdlq.controls.repair.changes import COLUMNS, describe_changes, find_changes
from mqdlq.errors import HandlerError, MqDlqError
from mqdlq.handlers import Handler
from mqdlq.lake.row_search import is_one_of, search_rows
from mqdlq.lake.snapshots import find_snapshot, read_manifest
from mqdlq.ledger import Ledger
from mqdlq.ledger.retention import Hold
from mqdlq.model import Action, Declared, MessageClass, PutAuthority, Step
from mqdlq.reading.filters import MessageFilter
from mqdlq.reading.find import FoundMessage, Search
from mqdlq.reading.page_paths import dag_of
from mqdlq.reasons import words_of
from mqdlq.rules import Rule
from mqdlq.stages.approve import PlannedMoves, ask_about
from mqdlq.stages.restore.selection import ListedCopy, Restorability, list_copies
from mqdlq.words import cause_in_words, moment, place

# The action that a person asks for, and the rule that carries it out.

_NAME: Final = re.compile(r"[A-Za-z0-9._/%]{1,48}")
_CCSID: Final = re.compile(r"[0-9]{1,5}")


class ActionError(MqDlqError, ValueError):
    """A field of the form of an action is not valid."""

    def __init__(self, field: str, fault: str, expected: str) -> None:
        super().__init__("MQDLQ-981", f"{field}: {fault}; expected {expected}")


class Verb(Declared):
    """What to do with the messages: its words, its effect, and whether it can be undone."""

    RETRY = (
        "retry",
        Action.RETRY,
        "each message is put to its own destination, in one attempt; it stays if the put fails",
        "A delivered message cannot be taken back: its application may read it at once.",
    )
    FORWARD = (
        "forward",
        Action.FWD,
        "each message is put to the queue you name; it stays if the put fails",
        "It cannot be undone: no copy is made, and an application may read the message at once.",
    )
    DISCARD = (
        "discard",
        Action.DISCARD,
        "each message is copied to the archive, and then removed from the queue",
        "It can be undone with Restore, as long as the archive keeps the copies.",
    )
    RESTORE = (
        "restore",
        None,
        "the archive copy of each message is put on a queue, and also stays in the archive",
        "To undo it, act on the restored messages, before an application or a run takes them.",
    )
    LEAVE = (
        "leave",
        Action.IGNORE,
        "each message stays on the queue; the run records that you left it there",
        "Nothing is moved, so there is nothing to undo.",
    )

    action: Action | None
    effect: str
    undo: str

    @property
    def words(self) -> str:
        return self.value.capitalize()

    @property
    def moves(self) -> bool:
        return self.action not in {None, Action.IGNORE}

    @property
    def puts(self) -> bool:
        """Whether messages are put as they were, so that a repair may change them."""
        return self.action in {Action.RETRY, Action.FWD}

    @property
    def has_target(self) -> bool:
        return self in {Verb.FORWARD, Verb.RESTORE}


@dataclass(frozen=True, slots=True)
class AskedAction:
    """An action with its target; without a queue, a restoration goes to the dead-letter queue.

    `repair` has the fields that a RETRY or FWD changes of the messages, None for none.
    """

    verb: Verb
    to_queue: str = ""
    to_queue_manager: str = ""
    header: bool = True
    repair: Repair | None = None

    @property
    def rule(self) -> str:
        """The rule without patterns that a run is given; "" for a restoration."""
        if self.verb is Verb.FORWARD:
            manager = f" FWDQM('{self.to_queue_manager}')" if self.to_queue_manager else ""
            header = "YES" if self.header else "NO"
            return f"ACTION(FWD) FWDQ('{self.to_queue}'){manager} HEADER({header})"
        tries = " RETRY(1)" if self.verb is Verb.RETRY else ""
        return f"ACTION({self.verb.action}){tries}" if self.verb.action else ""

    def parameters(self) -> dict[str, str]:
        """Return the query parameters that `parse_action` reads."""
        given = {"action": str(self.verb)}
        if self.verb.has_target:
            given |= {"to_queue": self.to_queue, "to_queue_manager": self.to_queue_manager}
            given |= {"header": "yes" if self.header else "no"}
        if self.repair is not None:
            ccsid = self.repair.coded_char_set_id
            given |= {"repair_format": self.repair.format or ""}
            given |= {"repair_ccsid": "" if ccsid is None else str(ccsid)}
        return {name: value for name, value in given.items() if value}


def parse_action(given: Mapping[str, str]) -> AskedAction | None:
    """Parse an action and its fields; None without an action. Raises ActionError.

    The fields are to_queue, to_queue_manager and header, and for messages that are put
    repair_format and repair_ccsid, which are empty for a value that stays.
    """
    value = given.get("action", "").strip()
    if not value:
        return None
    if value not in [*map(str, Verb)]:
        raise ActionError("action", f"found {value[:40]!r}", f"one of {', '.join(Verb)}")
    verb = Verb(value)
    repair = _repair(given) if verb.puts else None
    if not verb.has_target:
        return AskedAction(verb, repair=repair)
    queue, manager = (_name(field, given) for field in ("to_queue", "to_queue_manager"))
    if not queue and (verb is Verb.FORWARD or manager):
        raise ActionError("to_queue", "it is empty", "the name of the queue to put to")
    header = given.get("header", "yes").strip() or "yes"
    if header not in {"yes", "no"}:
        raise ActionError("header", f"found {header[:40]!r}", "yes or no")
    if verb is Verb.RESTORE and not queue and header == "no":
        fault = "without it a message cannot go back to its dead-letter queue"
        raise ActionError("header", fault, "another queue, or header=yes")
    if repair is not None and header == "yes":
        fault = "a message that keeps its MQDLH cannot be repaired"
        raise ActionError("header", fault, "header=no for a repair")
    return AskedAction(verb, queue, manager, header == "yes", repair)


def _repair(given: Mapping[str, str]) -> Repair | None:
    written, ccsid = (given.get(name, "").strip() for name in ("repair_format", "repair_ccsid"))
    if ccsid and not _CCSID.fullmatch(ccsid):
        expected = "a whole number from 1 to 65535, such as 1208"
        raise ActionError("repair_ccsid", f"found {ccsid[:40]!r}", expected)
    wanted: dict[str, str | int] = {"format": written} if written else {}
    if ccsid:
        wanted["coded_char_set_id"] = int(ccsid)
    try:
        return parse_repair(wanted or None)
    except HandlerError as error:
        where, _, rest = error.text.partition(": ")
        fault, _, expected = rest.partition("; expected ")
        field = "repair_format" if where == "repair.format" else "repair_ccsid"
        raise ActionError(field, fault, expected) from error


def action_of_rule(rule: Rule) -> AskedAction | None:
    """Return the action of a rule as a person can ask for it, None if nobody can.

    A RETRY becomes one attempt. A rule that puts with the authority of a message's user, or takes
    its target from the message, has no such action.
    """
    verb = next(verb for verb in Verb if verb.action is rule.action)
    if verb.puts and rule.put_authority is not PutAuthority.DEF:
        return None
    if verb is not Verb.FORWARD:
        return AskedAction(verb)
    if not all(_NAME.fullmatch(name) for name in (rule.fwd_q, rule.fwd_q_mgr) if name):
        return None
    return AskedAction(verb, rule.fwd_q, rule.fwd_q_mgr, rule.header)


def _name(field: str, given: Mapping[str, str]) -> str:
    name = given.get(field, "").strip()
    if name and not _NAME.fullmatch(name):
        expected = "at most 48 letters, digits and . _ / %, as IBM MQ allows in names"
        raise ActionError(field, f"found {name[:60]!r}", expected)
    return name


# The messages that a person selects for an action, and what prevents it for some of them.

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
        return not (self.message_keys or self.run_id or self.chosen)

    def parameters(self) -> dict[str, Any]:
        if self.message_keys:
            given: dict[str, Any] = {"message_key": list(self.message_keys)}
        else:
            given = dict(self.chosen.parameters()) if self.chosen else {}
        return given | ({"run": self.run_id} if self.run_id else {})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A selected message; `number` counts equal messages, which have one key.

    `cause`, `state`, `destination`, `persistence` and the `changes` of a repair are words. `size`
    is in bytes. `target` is the queue and queue manager of its MQDLH. `obstacle` says why it is
    left out, "" if it can be acted on.
    """

    message_key: str
    number: int
    queue_manager: str
    queue: str
    cause: str
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
    ledger, now = sources.ledger, sources.clock()
    keys = [one.message_key for one in found]
    leases: Mapping[str, str] = {}
    if found:
        first = found[0]
        leases = ledger.run_lists.leased(first.queue_manager, first.queue, keys, now)
    holds = ledger.holds.all() if found and asked.verb.moves else ()
    rows = _rows_to_repair(found, sources.lake_root) if asked.repair is not None else {}
    candidates = []
    for one in found:
        obstacles = chain(_obstacles(one, found[0], asked, now), _claims(one, leases, holds))
        why = next(obstacles, "")
        candidate = _candidate(one, why)
        if asked.repair is not None and not why:
            row = rows.get(one.message_key)
            candidate = _repaired(candidate, one, row, asked, asked.repair)
        candidates.append(candidate)
    missing = sorted(set(selection.message_keys) - set(keys)) if found else selection.message_keys
    return [*candidates, *map(_unknown, missing)]


def _found(selection: Selection, sources: Sources) -> list[FoundMessage]:
    chosen = MessageFilter() if selection.message_keys else selection.chosen or MessageFilter()
    search = Search(chosen, [sources.handler], sources.ledger, sources.lake_root)
    if selection.message_keys:
        return list(search.with_keys(selection.message_keys))
    return list(search.messages(MOST + 1))


def _obstacles(
    one: FoundMessage, first: FoundMessage, asked: AskedAction, now: datetime
) -> Iterator[str]:
    """Yield why a message cannot be acted on, the plainest reason first."""
    if (one.queue_manager, one.queue) != (first.queue_manager, first.queue):
        where = place(one.queue, one.queue_manager)
        yield f"it is on another queue, {where}: act on the messages of one queue at a time"
    if one.has_departed:
        how = one.outcome.words if one.outcome else "departed"
        yield f"it is not on the queue any more: {how}"
    if one.expires_at is not None and one.expires_at <= now:
        yield f"it expired at {moment(one.expires_at)}"
    if asked.verb is Verb.RETRY and one.cls is not MessageClass.DEAD_LETTER:
        yield "it has no valid MQDLH, which names its destination: forward, discard or leave it"


def _claims(one: FoundMessage, leases: Mapping[str, str], holds: Iterable[Hold]) -> Iterator[str]:
    if run_id := leases.get(one.message_key):
        yield f"run {run_id} has it at the moment: wait until that run ends"
    for hold in holds:
        if one.message_key == hold.message_key or one.handler == hold.handler:
            yield f"legal hold {hold.hold_id} covers it: release the hold first"
        if hold.run_id and hold.run_id in {one.run_id, one.outcome_run_id}:
            yield f"legal hold {hold.hold_id} covers its run: release the hold first"


def _candidate(one: FoundMessage, obstacle: str) -> Candidate:
    cause = find_cause(one.cls, one.reason, one.dest_q_name, one.dest_q_mgr_name)
    target = (one.dest_q_name, one.dest_q_mgr_name)
    return Candidate(
        message_key=one.message_key,
        number=one.equals,
        queue_manager=one.queue_manager,
        queue=one.queue,
        cause=cause_in_words(cause),
        state=one.outcome.words if one.outcome else "no outcome yet",
        destination=place(*target) if one.cls is MessageClass.DEAD_LETTER else "",
        size=one.total_length,
        persistence=_PERSISTENCE.get(one.persistence, "not known"),
        expires_at=one.expires_at,
        obstacle=obstacle,
        target=target,
    )


def _rows_to_repair(found: Sequence[FoundMessage], lake_root: str) -> dict[str, dict[str, Any]]:
    places = {find_snapshot(lake_root, name) for name in {one.snapshot_id for one in found}}
    sizes = {place: read_manifest(place).full for place in places}
    wanted = [is_one_of([(bytes.fromhex(one.message_key),) for one in found], "message_key")]
    rows = search_rows(sizes, wanted, ["message_key", *COLUMNS])
    return {row["message_key"].hex(): row for _, row in rows}


def _repaired(
    candidate: Candidate,
    one: FoundMessage,
    row: Mapping[str, Any] | None,
    asked: AskedAction,
    repair: Repair,
) -> Candidate:
    """Return the candidate with the changes of the repair, or with why it cannot be made."""
    if row is None or one.cls not in {MessageClass.DEAD_LETTER, MessageClass.NO_DLH}:
        return replace(candidate, obstacle="its MQDLH is not valid, so that it is not repaired")
    target = (asked.to_queue, asked.to_queue_manager)
    if asked.verb is Verb.RETRY:
        target = candidate.target
    step = Step(1, 1, asked.verb.action or Action.FWD, *target, False, PutAuthority.DEF, 1)
    changes = find_changes(repair, step, one.queue_manager, row)
    if changes.refusal:
        return replace(candidate, obstacle=changes.refusal.words)
    return replace(candidate, changes=describe_changes(changes))


def _unknown(key: str, why: str = "no snapshot of this handler has it") -> Candidate:
    return Candidate(key, 1, "", "", "not known", "not known", "", 0, obstacle=why)


def _archived(selection: Selection, sources: Sources) -> list[Candidate]:
    keys = selection.message_keys
    if selection.chosen is not None and not keys:
        keys = tuple(one.message_key for one in _found(selection, sources))
        if not keys:
            return []
    copies = sources.ledger.archive.copies(
        handler=sources.handler, run_id=selection.run_id, message_keys=keys
    )
    newest = {(copy.message_key, copy.occurrence): copy for copy in copies}
    some = list(islice(newest.values(), MOST + 1))
    candidates = list(map(_restorable, list_copies(some, sources.ledger)))
    known = {one.message_key for one in candidates}
    missing = sorted(set(keys) - known) if not selection.chosen else []
    return [*candidates, *(_unknown(key, "the archive has no copy of it") for key in missing)]


def _restorable(one: ListedCopy) -> Candidate:
    is_ready = one.restorability is Restorability.RESTORED
    return Candidate(
        message_key=one.copy.message_key.hex(),
        number=1,
        queue_manager=one.copy.queue_manager,
        queue=one.copy.queue,
        cause=one.reason_text or "not known",
        state=str(one.restorability),
        destination=place(one.dest_q, one.dest_q_mgr) if one.dest_q else "",
        size=one.length or 0,
        obstacle="" if is_ready else f"{one.restorability} {words_of(one.why)}".strip(),
    )


# The effect of an action on messages, and the run that would carry it out.

SOON: Final = timedelta(days=1)
RESTORE: Final = "restore"
"""The name of the DAG that restores, where a handler's DAG has the handler's name."""


@dataclass(frozen=True, slots=True)
class Preview:
    """The messages that an action would take, and the others of the selection.

    `is_capped` says that the selection has more than `MOST` messages: nothing can be started.
    """

    handler: str
    asked: AskedAction
    selection: Selection
    ready: tuple[Candidate, ...]
    left_out: tuple[Candidate, ...]
    is_capped: bool
    soon_expired: int
    needs_reason: bool
    second_person: bool
    guards: tuple[str, ...] = ()
    """Why else the run will wait until a person approves its plan."""

    @property
    def messages(self) -> int:
        """The number of messages that the action would take; equal messages have one key."""
        return sum(one.number for one in self.ready)

    @property
    def size(self) -> int:
        return sum(one.size * one.number for one in self.ready)

    @property
    def can_start(self) -> bool:
        return bool(self.ready) and not self.is_capped

    @property
    def dag_id(self) -> str:
        return dag_of(RESTORE if self.asked.verb is Verb.RESTORE else self.handler)

    @property
    def where(self) -> str:
        """The queue that the messages are on, or were discarded from."""
        return place(self.ready[0].queue, self.ready[0].queue_manager) if self.ready else ""

    def counts(self, kind: str) -> list[tuple[str, int]]:
        """Count the messages by a field of `Candidate`, the most frequent first."""
        return _counted(self.ready, kind)

    @property
    def obstacles(self) -> list[tuple[str, int]]:
        return _counted(self.left_out, "obstacle")

    @property
    def digest(self) -> str:
        """A digest of the action and its messages, by which a changed selection is noticed."""
        content = [
            self.handler,
            self.asked.parameters(),
            self.selection.run_id,
            sorted((one.message_key, one.number) for one in self.ready),
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def conf(self, *, dry_run: bool, why: str) -> dict[str, Any]:
        asked, first = self.asked, self.ready[0]
        keys = sorted({one.message_key for one in self.ready})
        given: dict[str, Any] = {"message_keys": keys, "dry_run": dry_run, "why": why or None}
        if asked.verb is Verb.RESTORE:
            return given | {
                "handler": self.handler,
                "run": self.selection.run_id or None,
                "to_queue": asked.to_queue or None,
                "to_queue_manager": asked.to_queue_manager or None,
                "header": asked.header,
            }
        if asked.repair is not None:
            given["repair"] = json.loads(asked.repair.text)
        place = {"input_q": first.queue, "input_q_mgr": first.queue_manager}
        return given | {"action": asked.rule, **place}


def build_preview(
    selection: Selection, asked: AskedAction, handler: Handler | None, sources: Sources
) -> Preview:
    """Resolve a selection; `handler` is the configuration, None if it cannot be read here.

    Raises FilterError, LakeError and MessageKeyError.
    """
    keys = sources.ledger.message_facts.complete(selection.message_keys, [sources.handler])
    selection = replace(selection, message_keys=keys)
    found = find_candidates(selection, asked, sources)
    soon = sources.clock() + SOON
    ready = tuple(one for one in found if not one.obstacle)
    needs_second = False
    guards: tuple[str, ...] = ()
    if handler is not None:
        guarded = asked.verb.action.name if asked.verb.action and asked.verb.moves else ""
        needs_second = guarded in {one.name for one in handler.approval.second_person}
        guards = _guards(asked, ready[:MOST], handler, sources)
    return Preview(
        handler=sources.handler,
        asked=asked,
        selection=selection,
        ready=ready[:MOST],
        left_out=tuple(one for one in found if one.obstacle),
        is_capped=len(found) > MOST,
        soon_expired=sum(one.number for one in ready if one.expires_at and one.expires_at <= soon),
        needs_reason=handler is not None and handler.require_reason,
        second_person=needs_second,
        guards=guards,
    )


def _guards(
    asked: AskedAction, ready: Sequence[Candidate], handler: Handler, sources: Sources
) -> tuple[str, ...]:
    """Return what the guards of the handler will ask about the action, as far as is known now."""
    if not ready or asked.verb.action is None:
        return ()
    place = (handler.name, ready[0].queue_manager, ready[0].queue)
    newest = sources.ledger.handled_queues.newest_run(*place)
    taken = sources.ledger.handled_queues.newest_snapshot(*place)
    if newest is None:
        return ()
    run = replace(newest, run_id="", rules_digest="", dry_run=False, repair="")
    messages = sum(one.number for one in ready)
    moved = messages if asked.verb.moves else 0
    moves = PlannedMoves(moved, Counter({asked.verb.action: messages}))
    if asked.verb is Verb.FORWARD:
        moves.targets = {(asked.to_queue, asked.to_queue_manager)}
    elif asked.verb is Verb.RETRY:
        moves.targets = {one.target for one in ready}
    guards = handler.approval.model_copy(update={"second_person": ()})  # the page names it apart
    found = ask_about(run, guards, moves, sources.ledger, snapshot_of=taken.run_id if taken else "")
    return tuple(text for _, text in found)


def _counted(some: Sequence[Candidate], kind: str) -> list[tuple[str, int]]:
    counted = Counter[str]()
    for one in some:
        counted[getattr(one, kind)] += one.number
    return sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
