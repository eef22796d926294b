"""Sequences: a group moves in one unit of work or not at all, and a key keeps its order.

All messages of a group move together. A message with a key waits while an earlier one with its key
has not moved.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import takewhile
from typing import Any, Final

from mqdlq.constants import MQRC
from mqdlq.controls.key_index import key_of
from mqdlq.controls.sequences import KEY_FIELDS, Sequences
from mqdlq.controls.settings import Controls
from mqdlq.controls.work import (
    BrowsedItem,
    Browses,
    Control,
    Hold,
    PlannedAttempt,
    WorkItem,
    WorkList,
    of_group,
)
from mqdlq.errors import QueueManagerError
from mqdlq.headers import (
    DLH_LENGTH,
    IDENTITY_PREFIX,
    MessageDescriptorExtension,
    UnreadablePropertyError,
    describe_browsed,
    read_rules_headers,
)
from mqdlq.headers.records import NAME_VALUE_BYTES_READ
from mqdlq.lake import settled_places
from mqdlq.model import Action, Destination, Outcome, Step
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage
from mqdlq.mqi.client import printable_name
from mqdlq.mqi.connect import CONNECTION_GONE_REASONS, QueueManager
from mqdlq.mqi.unit_of_work import MAX_BYTES_IN_A_UNIT, count_gets_and_puts
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.structures import MQDLH, MQMD, Kind

_MARKERS = 2
"""A unit puts its marker, and clears the marker of the unit before it."""


@dataclass(slots=True)
class Group:
    """The messages on the queue with one GroupId; a browse meets `first` first of the run's.

    `members` are those of the run, with the tokens of their messages, in the order of the group,
    `others` the keys of the other messages. By `uncommitted` messages the group counts towards
    MAXUMSGS, without trigger messages. `why` says why it stays, whatever its rules are.
    """

    first: WorkItem | None = None
    places: list[GroupPlace] = field(default_factory=list)
    members: list[tuple[GroupPlace, WorkItem, bytes]] = field(default_factory=list)
    length: int = 0
    uncommitted: int = 0
    others: set[bytes] = field(default_factory=set)
    why: Reason | None = None


class GroupControl(Control):
    """Lets the messages of a complete group move together, in the order of MsgSeqNumber.

    All must be due with the same action and target. A group that is incomplete, or does not fit
    into a unit of work, stays for the rest of the run. Segments outside of a group are one, too.
    """

    keys = ("sequences",)
    for_given_actions = False
    observes = Browses.BEFORE_MOVES | Browses.SETTLING

    @classmethod
    def open(cls, execution: Execution, keys: Controls) -> Control | None:
        return cls(execution) if keys.sequences and keys.sequences.groups else None

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._groups: dict[GroupKey, Group] = {}
        self._settled: dict[bytes, set[int]] = {}

    def begin_observation(self, cursor: BrowseCursor, work: WorkList) -> None:
        for item in work.items:
            item.group = None
        self._groups, self._settled = {}, {}
        self._cursor, queue_manager = cursor, cursor.queue_manager
        selector = queue_manager.client.CMQC.MQIA_MAX_UNCOMMITTED_MSGS
        self._uncommitted_limit = int(queue_manager.inquire(selector))
        self._has_state_queue = _is_defined(queue_manager, self._execution.run.state_queue)

    def observe(self, met: BrowsedItem) -> None:
        """Take note of a message of a group, also if it is not one of the run's messages."""
        place, item, browsed = find_place(met.browsed), met.item, met.browsed
        if place is None:
            return
        group = self._groups.setdefault(place.key, Group())
        group.places.append(place)
        group.length += browsed.total_length
        step = item.due_step if item is not None else None
        is_put = step is not None and step.action is not Action.DISCARD
        group.uncommitted += count_gets_and_puts(browsed.descriptor, is_got=True, is_put=is_put)
        if item is None:
            group.others.add(met.key)
        else:
            group.members.append((place, item, browsed.token))
            group.first = group.first or item
            item.group = group

    def end_observation(self) -> None:
        """Decide which groups stay; their messages are held before any of them is archived."""
        others = {key for group in self._groups.values() if group.members for key in group.others}
        snapshots, run_id = self._execution.ledger.snapshots, self._execution.run.run_id
        snapshot = snapshots.of_run(run_id) if others else None
        self._settled = settled_places(snapshot.location, others) if snapshot else {}
        for group in self._groups.values():
            group.members.sort(key=lambda member: member[0].order)
            group.why = self._find_obstacle(group)
            for _, item, _ in group.members:
                if group.why and item.is_due:
                    item.hold = item.hold or Hold(group.why)

    def gather(self, met: BrowsedItem) -> Sequence[BrowsedItem]:
        """Return the messages of a group that may move, at the first of them.

        No message if one of them is gone: the next pass finds the group incomplete. A message that
        moves alone is returned itself.
        """
        group = met.item.group if met.item else None
        if group is None or group.why:
            return (met,)
        if met.item is not group.first:
            return ()
        together = []
        for _, item, token in group.members:
            found = self._cursor.find(token)
            if found is None or (key := key_of(found)) != item.message.message_key:
                return ()
            item.was_seen = True
            together.append(BrowsedItem(key, found, item))
        return together

    def find_hold(self, item: WorkItem) -> Hold | None:
        group, step = item.group, item.due_step
        if group is None or step is None:
            return None
        why = group.why or self._find_difference(group, step)
        return Hold(why) if why else None

    def spread_holds(self) -> None:
        for group in self._groups.values():
            held = next((item.hold for _, item, _ in group.members if item.hold), None)
            for _, item, _ in group.members:
                if held is not None and item.hold is None and item.is_due:
                    item.hold = of_group(held)

    def _find_obstacle(self, group: Group) -> Reason | None:
        count = len(group.places)
        if repeated := find_repeated(group.places):
            return repeated
        if gaps := find_gaps(group.places):
            return Why.GROUP_INCOMPLETE(messages=count, gaps=gaps)
        if len(group.members) < count:
            settled = sum(len(self._settled.get(key, ())) for key in group.others)
            return Why.GROUP_NOT_IN_RUN(messages=count, here=len(group.members), settled=settled)
        return self._find_misfit(count, group) if count > 1 else None

    def _find_misfit(self, count: int, group: Group) -> Reason | None:
        run, needed, most = self._execution.run, group.uncommitted + _MARKERS, MAX_BYTES_IN_A_UNIT
        if not self._has_state_queue:
            name = printable_name(run.state_queue)
            return Why.GROUP_WITHOUT_STATE_QUEUE(messages=count, queue=name)
        if count > run.max_messages_per_unit:
            return Why.GROUP_OVER_UNIT(messages=count, limit=run.max_messages_per_unit)
        if needed > (limit := self._uncommitted_limit):
            return Why.GROUP_OVER_MAXUMSGS(messages=count, needed=needed, limit=limit)
        if group.length > most:
            return Why.GROUP_TOO_LONG(messages=count, length=group.length, limit=most)
        return None

    def _find_difference(self, group: Group, step: Step) -> Reason | None:
        """Return why the messages of a group do not move together in this pass, or None."""
        for place, item, _ in group.members:
            if item.withheld_reason:
                return Why.MEMBER_STAYS(place=str(place), why=item.withheld_reason)
            other = item.due_step
            if other is None:
                return Why.MEMBER_WITHOUT_RULE(place=str(place))
            if _treatment(other) != _treatment(step):
                both = {"step": _describe(step), "other": _describe(other)}
                return Why.MEMBERS_DIFFER(place=str(place), **both)
        return None


def _is_defined(queue_manager: QueueManager, queue: str) -> bool:
    """Return whether a queue is defined; it is if nobody may inquire it."""
    try:
        queue_manager.inquire_queue(queue, queue_manager.client.CMQC.MQIA_CURRENT_Q_DEPTH)
    except QueueManagerError as error:
        return error.reason != MQRC["MQRC_UNKNOWN_OBJECT_NAME"]
    return True


def _treatment(step: Step) -> tuple[object, ...]:
    return step.action, step.target_q, step.target_q_mgr, step.header, step.put_authority


def _describe(step: Step) -> Reason:
    if step.action is Action.DISCARD:
        return Why.STEP_DISCARDS()
    return Why.STEP_PUTS(queue=printable_name(step.target_q))


MQMF_SEGMENT, MQMF_LAST_SEGMENT = 2, 4
MQMF_MSG_IN_GROUP, MQMF_LAST_MSG_IN_GROUP = 8, 16
MAX_RANGES_LISTED = 5

_READ_GROUP: Final = MQMD.reader("group_id", "original_length")
_SEGMENTED: Final = MQMF_SEGMENT | MQMF_LAST_SEGMENT
_TOGETHER: Final = _SEGMENTED | MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP
_DESTINATION: Final = MQDLH.slice_of("dest_q_name", "dest_q_mgr_name")
_STRUC_IDS: Final = {MQDLH.struc_id, MQDLH.struc_id.decode().encode("cp500")}
_EXTENSIONS: Final = {b"MDE ", "MDE ".encode("cp500")}

GroupKey = tuple[bytes, bytes]
"""A GroupId, and the destination in the MQDLH: two queues have two groups with one GroupId."""


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """The place of a message: its group, its logical message, and its segment.

    `length` is the number of bytes of the segment's data.
    """

    key: GroupKey
    msg_seq_number: int
    offset: int
    flags: int
    length: int

    @property
    def order(self) -> tuple[int, int]:
        return self.msg_seq_number, self.offset

    def __str__(self) -> str:
        is_segment = self.flags & _SEGMENTED
        segment = f", Offset {self.offset}" if is_segment else ""
        return f"MsgSeqNumber {self.msg_seq_number}{segment}"


def find_place(browsed: BrowsedMessage) -> GroupPlace | None:
    """Return the place of a message in a group or as a segment, None if it is neither.

    A dead letter that is a segment has these fields in the MQMDE behind its MQDLH (IBM MQ docs,
    "MQMDE - Message descriptor extension").
    """
    fields = _READ_GROUP.unpack_from(browsed.descriptor)
    if not fields[3] & _TOGETHER:
        found = browsed.prefix[DLH_LENGTH : DLH_LENGTH + 4] in _EXTENSIONS
        extension = _find_extension(browsed) if found else None
        if extension is None or not extension[3] & _TOGETHER:
            return None
        fields = extension
    group_id, msg_seq_number, offset, flags, length = fields
    length = browsed.total_length if length < 0 else length
    has_header = browsed.prefix[:4] in _STRUC_IDS
    destination = browsed.prefix[_DESTINATION] if has_header else b""
    return GroupPlace((group_id, destination), msg_seq_number, offset, flags, length)


def _find_extension(browsed: BrowsedMessage) -> tuple[Any, ...] | None:
    found = describe_browsed(*browsed[:3])
    for header in found.headers if found else ():
        mde = header.record
        if found and isinstance(mde, MessageDescriptorExtension):
            length = mde.original_length
            if length < 0:
                length = browsed.total_length - found.payload_offset
            return mde.group_id, mde.msg_seq_number, mde.offset, mde.msg_flags, length
    return None


def find_repeated(places: Sequence[GroupPlace]) -> Reason | None:
    """Return which MsgSeqNumber several messages have that are not segments, or None."""
    numbers = Counter(place.msg_seq_number for place in places if not place.flags & _SEGMENTED)
    for number, many in numbers.items():
        if many > 1:
            return Why.GROUP_ID_REPEATED(messages=many, number=number)
    return None


def find_gaps(places: Sequence[GroupPlace]) -> Reason | None:
    by_number: dict[int, list[GroupPlace]] = defaultdict(list)
    for place in places:
        by_number[place.msg_seq_number].append(place)
    numbers = sorted(by_number)
    in_group = any(place.flags & (MQMF_MSG_IN_GROUP | MQMF_LAST_MSG_IN_GROUP) for place in places)
    lasts = [one for one in numbers if _has_flag(by_number[one], MQMF_LAST_MSG_IN_GROUP)]
    if lasts and lasts[0] != numbers[-1]:
        return Why.LAST_IS_NOT_LAST(flagged=lasts[0], highest=numbers[-1])
    pairs = zip([0, *numbers], numbers, strict=False) if in_group else ()
    # The ranges of the missing numbers from 1 to the highest one.
    gaps = [(before + 1, after - 1) for before, after in pairs if after - before > 1]
    lacks_last = in_group and not lasts
    if gaps:
        listed = [*_list_ranges(gaps), *(["the last"] if lacks_last else [])]
        text = " and ".join(filter(None, [", ".join(listed[:-1]), listed[-1]]))
        missing = sum(last - first + 1 for first, last in gaps) + lacks_last
        return Why.NUMBERS_MISSING(listed=text, missing=missing)
    if lacks_last:
        return Why.LAST_MISSING()
    return next(filter(None, (_find_segment_gap(by_number[one]) for one in numbers)), None)


def _has_flag(places: Iterable[GroupPlace], flag: int) -> bool:
    return any(place.flags & flag for place in places)


def _list_ranges(gaps: Sequence[tuple[int, int]]) -> list[str]:
    """Return the first ranges, and how many more numbers there are."""
    listed = [f"{a}" if a == b else f"{a} to {b}" for a, b in gaps[:MAX_RANGES_LISTED]]
    if more := sum(b - a + 1 for a, b in gaps[MAX_RANGES_LISTED:]):
        listed.append(f"{more} more")
    return listed


def _find_segment_gap(places: Sequence[GroupPlace]) -> Reason | None:
    """Return what the segments of one logical message lack, or have twice, or None."""
    number = places[0].msg_seq_number
    if not _has_flag(places, _SEGMENTED):
        return None
    expected = 0
    ordered = sorted(places, key=lambda place: place.offset)
    for place in ordered:
        if place.offset > expected:
            return Why.SEGMENT_MISSING(number=number, offset=expected)
        if place.offset < expected:
            return Why.SEGMENTS_OVERLAP(number=number, offset=place.offset)
        expected = place.offset + max(place.length, 0)
    is_whole = ordered[-1].flags & MQMF_LAST_SEGMENT
    return None if is_whole else Why.LAST_SEGMENT_MISSING(number=number)


_LONGEST_PREFIX = IDENTITY_PREFIX + NAME_VALUE_BYTES_READ


class UnreadableKeyError(Exception):
    """A message may have a key, but the headers that have it cannot be read."""


class KeyReader:
    """Reads the key of a browsed message from its MQMD, its properties or its MQRFH2."""

    def __init__(self, configured: Sequences) -> None:
        self._path = configured.path
        name = (configured.key or "").removeprefix("MQMD.")
        self._field = None if self._path else KEY_FIELDS[name]
        # A property of the folder `usr` has no prefix (IBM MQ docs, "Property names").
        self._property = ".".join(self._path).removeprefix("usr.")

    def read(self, browsed: BrowsedMessage, cursor: BrowseCursor) -> bytes:
        """Return the key of the message under the cursor, b"" if it has none.

        Blanks, NULs and a null identifier count as none. Raises UnreadableKeyError.
        """
        if self._field is not None:
            value = browsed.descriptor[self._field.place]
            is_text = self._field.kind is Kind.TEXT
            return value.rstrip(b" \0") if is_text or not any(value) else value
        try:
            found = cursor.find_property(self._property)
        except QueueManagerError as error:
            if error.reason in CONNECTION_GONE_REASONS:
                raise
            raise UnreadableKeyError from error
        if found is None:
            return self._find_in_headers(browsed, cursor)
        return found.strip().encode("utf-8", "surrogateescape")

    def _find_in_headers(self, browsed: BrowsedMessage, cursor: BrowseCursor) -> bytes:
        """Return the key in an MQRFH2 of the body; a long MQRFH2 is browsed again, whole."""
        headers = read_rules_headers(*browsed[:3])
        if headers is None and len(browsed.prefix) < browsed.total_length:
            again = cursor.find(browsed.token, min(browsed.total_length, _LONGEST_PREFIX))
            headers = [] if again is None else read_rules_headers(*again[:3])
        if headers is None:
            raise UnreadableKeyError
        try:
            texts = [header.find_property(self._path) for header in headers]
        except UnreadablePropertyError as error:
            raise UnreadableKeyError from error
        return next(filter(None, texts), "").strip().encode("utf-8", "surrogateescape")


class KeyOrder(Control):
    """Holds each message behind an earlier one with its key that may move to its destination.

    Earlier is what a browse meets earlier. An earlier message counts until it has left the queue,
    unless no rule moves it any more: it is left by an IGNORE, or quarantined. It counts for every
    destination to which a rule may move it, in this run or in a later one. So the messages with
    one key reach a destination in browse order, in this run and over runs.
    """

    keys = ("sequences",)
    needs = ("GroupControl",)
    for_given_actions = False
    observes = Browses.BEFORE_MOVES | Browses.SETTLING

    @classmethod
    def open(cls, execution: Execution, keys: Controls) -> Control | None:
        configured = keys.sequences
        return cls(execution, configured) if configured and configured.key else None

    def __init__(self, execution: Execution, configured: Sequences) -> None:
        self._execution = execution
        self._why = Why.BEHIND_SAME_KEY(key=configured.key)
        self._why_unreadable = Why.KEY_UNREADABLE(key=configured.key)
        self._reader = KeyReader(configured)
        self._forget()

    def _forget(self) -> None:
        self._met: list[tuple[WorkItem, bytes]] = []
        """All messages in browse order, with their keys, which are empty if a message has none."""
        self._unreadable: set[int] = set()
        self._places: dict[int, tuple[int, int]] = {}
        """The position of each message, by its id, and its index in `_met`."""
        self._lines: dict[tuple[bytes, Destination], list[tuple[int, int]]] = defaultdict(list)
        """Heaps of these places: messages leave a line only after they have come to its head."""
        self._in_flight: set[int] = set()
        self._leased: dict[int, str] = {}

    def begin_observation(self, cursor: BrowseCursor, work: WorkList) -> None:
        del work
        self._forget()
        self._cursor = cursor
        run_id, ledger = self._execution.run.run_id, self._execution.ledger
        self._leased = ledger.messages.lease_holders(run_id, self._execution.clock())

    def observe(self, met: BrowsedItem) -> None:
        if met.item is None:
            return
        try:
            key = self._reader.read(met.browsed, self._cursor)
        except UnreadableKeyError:
            self._unreadable.add(met.item.message.message_id)
            key = b""
        self._met.append((met.item, key))

    def end_observation(self) -> None:
        """Line up the messages of each key and destination in browse order.

        All messages of a group have the position of its first one, which may have no key.
        """
        for index, (item, _) in enumerate(self._met):
            first = (item.group and item.group.first) or item
            position, _ = self._places.get(first.message.message_id, (index, index))
            self._places[item.message.message_id] = position, index
            self._join_lines(item)

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold if an earlier message may still move. A DISCARD waits for none."""
        step = item.due_step
        if step is None or step.action is Action.DISCARD:
            return None
        if item.message.message_id in self._unreadable:
            return Hold(self._why_unreadable)
        ahead = self._find_ahead(item, step)
        return None if ahead is None else Hold(self._why, self._find_end(ahead))

    def admit(self, planned: PlannedAttempt) -> None:
        """Let later messages follow one that the pass tries to move."""
        self._in_flight.add(planned.item.message.message_id)

    def may_begin(self, planned: PlannedAttempt) -> bool:
        return self.may_still_move(planned)

    def may_still_move(self, planned: PlannedAttempt) -> bool:
        """Return whether no earlier message of the key has failed since this one was admitted."""
        is_discard = planned.step.action is Action.DISCARD
        return is_discard or self._find_ahead(planned.item, planned.step) is None

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        self._in_flight -= {planned.item.message.message_id for planned in tries}

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        del reason
        self._in_flight.discard(planned.item.message.message_id)
        self._join_lines(planned.item)

    def _find_ahead(self, item: WorkItem, step: Step) -> WorkItem | None:
        """Return the first message that is ahead of another one to the destination of a step."""
        place = self._places.get(item.message.message_id)
        if place is None:
            return None
        position, index = place
        destination = self._find_destination(step)
        line = self._lines[self._met[index][1], destination]
        while line and not self._is_in_line(self._met[line[0][1]][0], destination):
            heappop(line)
        return self._met[line[0][1]][0] if line and line[0][0] < position else None

    def _is_in_line(self, item: WorkItem, destination: Destination) -> bool:
        # The browse of the pass may not have met it yet, but the one before has.
        if item.message.message_id in self._in_flight or item.has_departed:
            return False
        if item.outcome not in {None, Outcome.LEASED_BY_RUN}:
            return False
        is_out = item.hold is not None and item.hold.outcome is not Outcome.NOT_ATTEMPTED
        return not is_out and destination in self.find_destinations(item)

    def _find_end(self, ahead: WorkItem) -> datetime | None:
        """Return when the run tries a message again, None if it does not."""
        if ahead.outcome is None:
            if not ahead.is_due:
                return None
            if ahead.hold is not None:
                return ahead.hold.until
        elif ahead.message.message_id not in self._leased:
            return None
        return self._execution.clock() + timedelta(seconds=self._execution.run.retry_interval_s + 1)

    def _join_lines(self, item: WorkItem) -> None:
        place = self._places.get(item.message.message_id)
        if place is not None:
            key = self._met[place[1]][1]
            for destination in self.find_destinations(item) if key else ():
                heappush(self._lines[key, destination], place)

    def find_destinations(self, item: WorkItem) -> set[Destination]:
        """Return the destinations to which this run or a later one may move a message.

        A run that counts attempts from zero begins with its first step again. If attempts count
        across runs, they are those of its remaining steps, or else of its last step.
        """
        steps = item.steps
        if self._execution.run.carry_attempts:
            step = item.step
            steps = steps[-1:] if step is None else steps[steps.index(step) :]
        reached = takewhile(lambda one: one.action is not Action.IGNORE, steps)
        return {self._find_destination(one) for one in reached if one.action is not Action.DISCARD}

    def _find_destination(self, step: Step) -> Destination:
        return step.target_q, step.target_q_mgr or self._execution.run.queue_manager
