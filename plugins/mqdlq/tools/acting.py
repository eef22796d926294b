"""Prepare an action of a person on messages: what it would do to which of them.

Nothing is done here. A run of the handler, or of the restore DAG, carries the action out.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate, chain, islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mqdlq.causes import CAUSE_COLUMNS, cause_of_row, find_cause
from mqdlq.constants import MQPER, MQRC, reason_text
from mqdlq.controls.ramp import Ramp
from mqdlq.controls.repair import NO_BODIES, Repair, parse_repair
from mqdlq.controls.repair.changes import COLUMNS, describe_changes, find_changes
from mqdlq.diagnosis.keeping import Place, known_diagnoses
from mqdlq.errors import HandlerError, MqDlqError
from mqdlq.handlers import Handler
from mqdlq.lake.filters import FilterError, MessageFilter
from mqdlq.lake.row_masks import KeySet
from mqdlq.lake.row_search import is_one_of, search_rows
from mqdlq.lake.selected import rows_that_meet
from mqdlq.lake.snapshots import find_snapshot, read_manifest
from mqdlq.ledger import Ledger
from mqdlq.ledger.reading.message_facts import KnownSnapshot
from mqdlq.ledger.retention import Hold
from mqdlq.ledger.tables import Run
from mqdlq.model import DEPARTED, Action, Declared, MessageClass, PutAuthority, Step
from mqdlq.reading.find import FoundMessage, Search
from mqdlq.reading.page_paths import dag_of
from mqdlq.reading.run_messages import browse_seqs_of, number_endings
from mqdlq.reasons import words_of
from mqdlq.rules import Rule
from mqdlq.rules.wildcards import fits
from mqdlq.stages.approve import PlannedMoves, ask_about
from mqdlq.stages.restore.selection import ListedCopy, Restorability, list_copies
from mqdlq.stages.snapshot.selection import REPAIRABLE, are_held, held_messages, with_state
from mqdlq.words import cause_in_words, moment, place, span

# The action that a person asks for, and the rule that carries it out.

_NAME: Final = re.compile(r"[A-Za-z0-9._/%]{1,48}")
_NUMBER: Final = re.compile(r"[0-9]{1,7}")
_NUMBERS: Final = frozenset(("coded_char_set_id", "body_length"))
_LONGEST_FIELD: Final = 65
_OF_REPAIR: Final = {
    "format": "repair_format",
    "coded_char_set_id": "repair_ccsid",
    "body_sha256": "repair_body",
    "body_length": "repair_body_length",
}
"""By field of a repair: the field of the form."""


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
    RETRY_WHEN_FIXED = (
        "retry_when_fixed",
        Action.RETRY,
        "none is tried while its destination refuses it; then one is, and more follow it in steps",
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
        return self.value.replace("_", " ").capitalize()

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
        tries = " RETRY(1)" if self.verb.action is Action.RETRY else ""
        return f"ACTION({self.verb.action}){tries}" if self.verb.action else ""

    def parameters(self) -> dict[str, str]:
        """Return the query parameters that `parse_action` reads."""
        given = {"action": str(self.verb)}
        if self.verb.has_target:
            given |= {"to_queue": self.to_queue, "to_queue_manager": self.to_queue_manager}
            given |= {"header": "yes" if self.header else "no"}
        if self.repair is not None:
            fields = {one: getattr(self.repair, one) for one in _OF_REPAIR}
            set_ones = {one: value for one, value in fields.items() if value is not None}
            given |= {_OF_REPAIR[one]: str(value) for one, value in set_ones.items()}
        return {name: value for name, value in given.items() if value}


def parse_action(given: Mapping[str, str]) -> AskedAction | None:
    """Parse an action and its fields; None without an action. Raises ActionError.

    The fields are to_queue, to_queue_manager and header, and for messages that are put
    repair_format, repair_ccsid, repair_body and repair_body_length, which are empty for a value
    that stays.
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
    wanted: dict[str, str | int] = {}
    for name, field in _OF_REPAIR.items():
        if text := given.get(field, "").strip()[:_LONGEST_FIELD]:
            wanted[name] = int(text) if name in _NUMBERS and _NUMBER.fullmatch(text) else text
    try:
        return parse_repair(wanted or None)
    except HandlerError as error:
        where, _, rest = error.text.partition(": ")
        fault, _, expected = rest.partition("; expected ")
        field = _OF_REPAIR.get(where.removeprefix("repair."), "repair_ccsid")
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
"""How many messages an action of the page takes that are given by keys, or restored."""

SOON: Final = timedelta(days=1)

_PERSISTENCE: Final[Mapping[int | None, str]] = {
    MQPER["MQPER_PERSISTENT"]: "persistent",
    MQPER["MQPER_NOT_PERSISTENT"]: "not persistent",
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages a person selects: keys (hex), those that a run discarded, or a filter.

    `as_of` is the snapshot in which the filter holds, "" for the newest. `tried` is the id of the
    DAG run that has tried one of the messages.
    """

    message_keys: tuple[str, ...] = ()
    discarded_by: str = ""
    chosen: MessageFilter | None = None
    as_of: str = ""
    tried: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.message_keys or self.discarded_by or self.chosen)

    def parameters(self) -> dict[str, Any]:
        if self.message_keys:
            given: dict[str, Any] = {"message_key": list(self.message_keys)}
        else:
            given = dict(self.chosen.parameters()) if self.chosen else {}
        more = {"run": self.discarded_by, "as_of": self.as_of, "tried": self.tried}
        return given | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A selected message; `number` counts equal messages, which have one key.

    `cause`, `state`, `destination`, `persistence`, `age` and the `changes` of a repair are words.
    `size` is in bytes, of all of them. `target` is the queue and queue manager of its MQDLH.
    `obstacle` says why it is left out, "" if it can be acted on. For a condition it stands for all
    messages of which these fields are the same; the key and `since` are those of the oldest.
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
    age: str = ""
    since: datetime | None = None


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
    if selection.chosen is not None:
        return _alike(selection, asked, sources)
    found = _found(selection, sources)
    if not found:
        return list(map(_unknown, selection.message_keys))
    ledger, now, first = sources.ledger, sources.clock(), found[0]
    keys = [one.message_key for one in found]
    leases = ledger.run_lists.leased(first.queue_manager, first.queue, keys, now)
    holds = ledger.holds.all() if asked.verb.moves else ()
    rows = _rows_to_repair(found, sources.lake_root) if asked.repair is not None else {}
    candidates = []
    for one in found:
        obstacles = chain(_obstacles(one, first, asked, now), _claims(one, leases, holds))
        why = next(obstacles, "")
        candidate = _candidate(one, why)
        if asked.repair is not None and not why:
            row = rows.get(one.message_key)
            candidate = _repaired(candidate, one.cls, row, asked, asked.repair)
            more = _too_long(one, asked, asked.repair.body_length or 0, sources)
            candidate = replace(candidate, changes=candidate.changes + more)
        candidates.append(candidate)
    return [*candidates, *map(_unknown, sorted(set(selection.message_keys) - set(keys)))]


def _found(selection: Selection, sources: Sources) -> list[FoundMessage]:
    chosen = MessageFilter() if selection.message_keys else selection.chosen or MessageFilter()
    search = Search(chosen, [sources.handler], sources.ledger, sources.lake_root)
    if selection.message_keys:
        return list(search.with_keys(selection.message_keys))
    return list(search.messages(MOST + 1))


_GONE: Final = "it is not on the queue any more"
_EXPIRED: Final = "it has expired"
_NO_DLH: Final = "it has no valid MQDLH, which names its destination: forward, discard or leave it"


def _obstacles(
    one: FoundMessage, first: FoundMessage, asked: AskedAction, now: datetime
) -> Iterator[str]:
    """Yield why a message cannot be acted on, the plainest reason first."""
    if (one.queue_manager, one.queue) != (first.queue_manager, first.queue):
        where = place(one.queue, one.queue_manager)
        yield f"it is on another queue, {where}: act on the messages of one queue at a time"
    if one.has_departed:
        yield f"{_GONE}: {one.outcome.words if one.outcome else 'departed'}"
    if one.expires_at is not None and one.expires_at <= now:
        yield f"it expired at {moment(one.expires_at)}"
    if asked.verb.action is Action.RETRY and one.cls is not MessageClass.DEAD_LETTER:
        yield _NO_DLH


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
        size=one.total_length * one.equals,
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
    cls: MessageClass | None,
    row: Mapping[str, Any] | None,
    asked: AskedAction,
    repair: Repair,
) -> Candidate:
    """Return the candidate with the changes of the repair, or with why it cannot be made."""
    if row is None or cls not in REPAIRABLE:
        return replace(candidate, obstacle="its MQDLH is not valid, so that it is not repaired")
    target = (asked.to_queue, asked.to_queue_manager)
    if asked.verb.action is Action.RETRY:
        target = candidate.target
    step = Step(1, 1, asked.verb.action or Action.FWD, *target, False, PutAuthority.DEF, 1)
    changes = find_changes(repair, step, candidate.queue_manager, row)
    if changes.refusal:
        return replace(candidate, obstacle=changes.refusal.words)
    if repair.body_sha256 and candidate.number > 1:
        return replace(candidate, obstacle="equal messages have its key, and one body is replaced")
    return replace(candidate, changes=describe_changes(changes))


def _too_long(one: FoundMessage, asked: AskedAction, length: int, sources: Sources) -> str:
    """Return that the target took no body so long when the cause was diagnosed, "" if unknown."""
    target = (asked.to_queue, asked.to_queue_manager)
    if asked.verb.action is Action.RETRY:
        target = one.dest_q_name, one.dest_q_mgr_name
    place = Place(one.handler, one.queue_manager, one.queue)
    for known in known_diagnoses(place, one.cause_id, sources.ledger) if length else ():
        most = known.facts.get(f"queue {target[0]}", {}).get("MAXMSGL")
        if most is None or target[1] not in {"", one.queue_manager}:
            continue
        refused = reason_text(MQRC["MQRC_MSG_TOO_BIG_FOR_Q"])
        told = f"{target[0]} took up to {int(most):,} bytes (MAXMSGL) at {moment(known.at)}"
        return f"; it may fail with {refused}: {told}" if length > int(most) else ""
    return ""


# The messages that meet a condition: alike ones are counted together, as there may be very many.

_OF_ALL: Final = (
    *("browse_seq", "message_key", "persistence", "total_length"),
    *("dead_lettered_at", "put_at", "expires_at", *CAUSE_COLUMNS),
)
_AGES: Final = {"under a day": SOON, "under an hour": timedelta(hours=1)}


def snapshot_of(selection: Selection, sources: Sources) -> KnownSnapshot | None:
    """Return the snapshot in which a condition holds, None if there is none.

    It is the newest of the handler, on a queue of the filter. Raises FilterError for another id.
    """
    chosen = selection.chosen or MessageFilter()
    for one in sources.ledger.message_facts.snapshots([sources.handler], with_compact=True):
        is_there = fits(chosen.queue_manager or "*", one.queue_manager)
        is_there = is_there and fits(chosen.queue or "*", one.queue)
        if is_there and selection.as_of in {"", one.snapshot_id}:
            return one
    if selection.as_of:
        fault = f"found {selection.as_of[:60]!r}"
        raise FilterError("as_of", fault, "a snapshot of this handler; preview again")
    return None


def _alike(selection: Selection, asked: AskedAction, sources: Sources) -> list[Candidate]:
    """Return the messages of a condition, those that are alike as one, the oldest first."""
    taken, now = snapshot_of(selection, sources), sources.clock()
    if taken is None or selection.chosen is None:
        return []
    obstacles = _Obstacles(taken, asked, sources)
    mask = with_state(selection.chosen, sources.ledger, (taken.queue_manager, taken.queue))
    columns = [*_OF_ALL, *(COLUMNS if asked.repair is not None else ())]
    found: dict[Candidate, Candidate] = {}
    for batch in rows_that_meet(taken.location, mask, columns):
        for group in _groups(batch, obstacles, columns, now):
            one = _stand_in(group, taken, obstacles.words[group["obstacle"]])
            if asked.repair is not None and not one.obstacle:
                read = {**group, "header_chain": group["header_chain"].split()}
                cls = MessageClass(group["class"])
                one = _repaired(one, cls, read, asked, asked.repair)
            soon = now if one.expires_at else None
            kind = replace(one, message_key="", number=0, size=0, expires_at=soon, since=None)
            if (known := found.get(kind)) is not None:
                first = min(known, one, key=lambda each: each.since or now)
                number, size = known.number + one.number, known.size + one.size
                one = replace(first, number=number, size=size)
            found[kind] = one
    return sorted(found.values(), key=lambda one: one.since or now)


def _groups(
    batch: pa.RecordBatch, obstacles: _Obstacles, columns: Sequence[str], now: datetime
) -> list[dict[str, Any]]:
    """Count the messages of a batch that are alike."""
    since = pc.coalesce(batch.column("dead_lettered_at"), batch.column("put_at"))
    age = pc.if_else(pc.is_null(since), "not known", "over a day")
    for words, most in _AGES.items():
        is_younger = pc.greater(since, pa.scalar(now - most, since.type))
        age = pc.if_else(pc.fill_null(is_younger, False), words, age)
    expires = batch.column("expires_at")
    is_soon = pc.fill_null(pc.less_equal(expires, pa.scalar(now + SOON, expires.type)), False)
    by = {name: batch.column(name) for name in columns if name not in _SUMMED} | {
        "age": age,
        "soon": is_soon,
        "obstacle": obstacles.of(batch),
    }
    if "header_chain" in by:
        by["header_chain"] = pc.fill_null(pc.binary_join(by["header_chain"], " "), "")
    by_age = np.argsort(pc.fill_null(since, pa.scalar(now, since.type)).to_numpy(), kind="stable")
    places = np.empty(len(by_age), np.int64)
    places[by_age] = np.arange(len(by_age))
    summed = {"since": since, "expires": expires, "length": batch.column("total_length")}
    rows = pa.table(by | summed | {"place": places}).group_by([*by], use_threads=False)
    smallest = [(name, "min") for name in ("since", "expires", "place")]
    found = rows.aggregate([([], "count_all"), ("length", "sum"), *smallest])
    oldest = pa.array(by_age[found.column("place_min").to_numpy()])
    groups = found.append_column("key", batch.column("message_key").take(oldest))
    return list(groups.to_pylist())


_SUMMED: Final = frozenset(
    ("browse_seq", "message_key", "dead_lettered_at", "put_at", "expires_at")
)


def _stand_in(group: Mapping[str, Any], taken: KnownSnapshot, obstacle: str) -> Candidate:
    cause = cause_of_row(group)
    target = (cause.dest_q_name or "", cause.dest_q_mgr_name)
    return Candidate(
        message_key=group["key"].hex(),
        number=group["count_all"],
        queue_manager=taken.queue_manager,
        queue=taken.queue,
        cause=cause_in_words(cause),
        state="",
        destination=place(*target) if cause.is_of_dead_letters else "",
        size=group["length_sum"] or 0,
        persistence=_PERSISTENCE.get(group["persistence"], "not known"),
        expires_at=group["expires_min"] if group["soon"] else None,
        obstacle=obstacle,
        target=target,
        age=group["age"],
        since=group["since_min"],
    )


class _Obstacles:
    """What prevents an action on messages of a snapshot, in columns."""

    def __init__(self, taken: KnownSnapshot, asked: AskedAction, sources: Sources) -> None:
        ledger, self._now = sources.ledger, sources.clock()
        self._asked = asked
        ended = ledger.run_messages.endings(taken.run_id, sorted(DEPARTED))
        self._own = [f"{_GONE}: {fact.outcome.words}" for fact in ended.facts]
        self._number_of = number_endings(browse_seqs_of(ended))
        later = defaultdict[str, list[bytes]](list)
        for key, news in ledger.later.of_run(taken.run_id).by_key.items():
            if all(one.has_departed for one in news):
                later[f"{_GONE}: {news[-1].outcome.words}"].append(key)
        leases = defaultdict[str, list[bytes]](list)
        leased = ledger.run_lists.leased(taken.queue_manager, taken.queue, None, self._now)
        for hexadecimal, run_id in leased.items():
            words = f"run {run_id} has it at the moment: wait until that run ends"
            leases[words].append(bytes.fromhex(hexadecimal))
        holds = held_messages(sources.handler, ledger) if asked.verb.moves else ()
        covers = "legal hold {} covers it: release the hold first"
        self._later = _sets(later)
        self._claims = [(covers.format(number), keys) for number, keys in holds] + _sets(leases)
        told = [words for words, _ in (*self._claims, *self._later)]
        self.words = [*dict.fromkeys(["", _NO_DLH, _EXPIRED, *told, *self._own])]
        """Why messages are left out, each reason once; the first is that of the others."""

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """Return why each row is left out as a number of `words`, the plainest reason."""
        why = np.zeros(len(rows), np.int32)
        number_of = {words: number for number, words in enumerate(self.words)}
        for words, keys in self._claims:
            why[are_held(keys, rows)] = number_of[words]
        if self._asked.verb.action is Action.RETRY:
            is_other = pc.not_equal(rows.column("class"), str(MessageClass.DEAD_LETTER))
            why[is_other.to_numpy(zero_copy_only=False)] = number_of[_NO_DLH]
        at = rows.column("expires_at")
        expired = pc.fill_null(pc.less_equal(at, pa.scalar(self._now, at.type)), False)
        why[expired.to_numpy(zero_copy_only=False)] = number_of[_EXPIRED]
        for words, keys in self._later:
            why[are_held(keys, rows)] = number_of[words]
        numbers = self._number_of(rows.column("browse_seq").to_numpy())
        for number, words in enumerate(self._own):
            why[numbers == number] = number_of[words]
        return pa.array(why)


def _sets(keys: Mapping[str, Sequence[bytes]]) -> list[tuple[str, KeySet | None]]:
    return [(words, KeySet([np.array(some, "S32")])) for words, some in keys.items()]


def _unknown(key: str, why: str = "no snapshot of this handler has it") -> Candidate:
    return Candidate(key, 1, "", "", "not known", "not known", "", 0, obstacle=why)


def _archived(selection: Selection, sources: Sources) -> list[Candidate]:
    keys = selection.message_keys
    if selection.chosen is not None and not keys:
        keys = tuple(one.message_key for one in _found(selection, sources))
        if not keys:
            return []
    copies = sources.ledger.archive.copies(
        handler=sources.handler, run_id=selection.discarded_by, message_keys=keys
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

MOST_AT_ONCE: Final = 10
"""How many messages of a condition are put without trying one first."""
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
    may_replace: bool = False
    """Whether the handler lets a repair replace the body of a message."""
    guards: tuple[str, ...] = ()
    """Why else the run will wait until a person approves its plan."""
    pace: str = ""
    watch: timedelta = timedelta(minutes=1)
    """How long a message that was tried may come back."""

    @property
    def messages(self) -> int:
        """The number of messages that the action would take; equal messages have one key."""
        return sum(one.number for one in self.ready)

    @property
    def size(self) -> int:
        return sum(one.size for one in self.ready)

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
            self.selection.discarded_by,
            self.selection.as_of,
            # Not by age: messages grow older between preview and start.
            [self.counts(kind) for kind in ("cause", "destination", "persistence", "changes")]
            if self.is_of_condition
            else sorted((one.message_key, one.number) for one in self.ready),
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def may_try_one(self) -> bool:
        """Whether to offer a try with one message first: the others follow if it went well."""
        tries_one = self.asked.verb is Verb.RETRY_WHEN_FIXED
        is_large = self.is_of_condition and self.messages > MOST_AT_ONCE
        return is_large and self.asked.verb.puts and not tries_one

    @property
    def is_of_condition(self) -> bool:
        return bool(self.selection.as_of)

    def conf(self, *, dry_run: bool, why: str, only_one: bool = False) -> dict[str, Any]:
        """Return the parameters of the run, or of one for the oldest message alone."""
        asked, first = self.asked, self.ready[0]
        given: dict[str, Any] = {"dry_run": dry_run, "why": why or None}
        if self.is_of_condition and self.selection.chosen is not None and not only_one:
            # The filter selects all of the snapshot if it names only its queue.
            where = self.selection.chosen.text_of_where or "state=on_queue"
            given |= {"where": where, "as_of": self.selection.as_of}
        else:
            ready = self.ready[:1] if only_one else self.ready
            given["message_keys"] = sorted({one.message_key for one in ready})
        if asked.verb is Verb.RESTORE:
            return given | {
                "handler": self.handler,
                "run": self.selection.discarded_by or None,
                "to_queue": asked.to_queue or None,
                "to_queue_manager": asked.to_queue_manager or None,
                "header": asked.header,
            }
        if asked.verb is Verb.RETRY_WHEN_FIXED:
            given["until_fixed"] = True
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
    is_of_condition = selection.chosen is not None and asked.verb is not Verb.RESTORE
    if is_of_condition and (taken := snapshot_of(selection, sources)) is not None:
        selection = replace(selection, as_of=taken.snapshot_id)
    most = sys.maxsize if is_of_condition else MOST
    found = find_candidates(selection, asked, sources)
    replaces = asked.repair is not None and bool(asked.repair.body_sha256)
    if replaces and (handler is None or not handler.repair.body or len(keys) != 1):
        only_one = "a body is replaced for one message at a time: open it, and act on it alone"
        why = only_one if handler is not None and handler.repair.body else NO_BODIES
        found = [replace(one, obstacle=one.obstacle or why) for one in found]
    soon = sources.clock() + SOON
    ready = tuple(one for one in found if not one.obstacle)
    needs_second = False
    guards: tuple[str, ...] = ()
    if handler is not None:
        guarded = asked.verb.action.name if asked.verb.action and asked.verb.moves else ""
        needs_second = replaces or guarded in {one.name for one in handler.approval.second_person}
        guards = _guards(asked, ready[:most], handler, sources)
    return Preview(
        handler=sources.handler,
        asked=asked,
        selection=selection,
        ready=ready[:most],
        left_out=tuple(one for one in found if one.obstacle),
        is_capped=len(found) > most,
        soon_expired=sum(one.number for one in ready if one.expires_at and one.expires_at <= soon),
        needs_reason=handler is not None and handler.require_reason,
        may_replace=handler is not None
        and handler.repair.body
        and (asked.verb.action is Action.RETRY or (asked.verb.puts and not asked.header)),
        second_person=needs_second,
        guards=guards,
        pace=_describe_pace(handler, ready, asked) if handler and asked.verb.moves else "",
        watch=((handler and (handler.ramp or handler.breaker)) or Ramp()).watch,
    )


def _describe_pace(handler: Handler, ready: Sequence[Candidate], asked: AskedAction) -> str:
    """Return how long a run moves the messages at least, by the handler's ramp and rates."""
    causes, targets = Counter[tuple[str, str]](), dict[tuple[str, str], list[int]]()
    messages, size = sum(one.number for one in ready), sum(one.size for one in ready)
    for one in ready:
        causes[one.cause, one.destination] += one.number
        of_target = targets.setdefault(one.target, [0, 0])
        of_target[0] += one.number
        of_target[1] += one.size
    ramp, limits = handler.ramp, handler.limits
    if asked.verb is Verb.RETRY_WHEN_FIXED:
        ramp = ramp or Ramp()
    longest = max(causes.values(), default=0)
    waits = sum(longest > before for before in accumulate(ramp.steps)) if ramp else 0
    own = ready[0].queue_manager if ready else ""
    rates = [one.least_time(messages, size) for one in (limits, limits.queue_manager) if one]
    for to, moved in targets.items():
        if (one_of_them := limits.of_destination(to, own)) is not None:
            rates.append(one_of_them.least_time(*moved))
    least = max([waits * ramp.watch.total_seconds() if ramp else 0.0, *rates])
    said = f"at least {span(least)}, by the ramp and the rates of the handler" if least else ""
    most = limits.messages_per_run
    if most is not None and messages > most:
        said += f"{'; ' if said else ''}a run moves at most {most:,} of them"
    return said or "at full speed: no ramp and no rate of the handler applies"


def has_come_back(handler: str, run: Run, sources: Sources) -> bool:
    """Return whether a snapshot since a run has a message of its own under another key."""
    taken = sources.ledger.snapshots.of_run(run.run_id)
    before, own = taken.snapshot_id if taken else "", set(run.message_keys)
    for tried in _found(Selection(run.message_keys), sources):
        chosen = MessageFilter(msg_id=tried.msg_id)
        search = Search(chosen, [handler], sources.ledger, sources.lake_root)
        found = search.messages(MOST)
        if any(one.message_key not in own and one.snapshot_id > before for one in found):
            return True
    return False


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
    elif asked.verb.action is Action.RETRY:
        moves.targets = {one.target for one in ready}
    guards = handler.approval.model_copy(update={"second_person": ()})  # the page names it apart
    found = ask_about(run, guards, moves, sources.ledger, snapshot_of=taken.run_id if taken else "")
    return tuple(text for _, text in found)


def _counted(some: Sequence[Candidate], kind: str) -> list[tuple[str, int]]:
    counted = Counter[str]()
    for one in some:
        counted[getattr(one, kind)] += one.number
    return sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
