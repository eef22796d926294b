"""Groups: all messages of a group move in one unit of work, or none of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mqdlq.constants import MQRC
from mqdlq.controls.work import BrowsedItem, Browses, Control, Hold, WorkItem, WorkList, of_group
from mqdlq.errors import MalformedHeaderError, QueueManagerError
from mqdlq.headers import (
    DLH_LENGTH,
    Description,
    MessageDescriptor,
    MessageDescriptorExtension,
    RulesHeader2,
    describe,
    message_key,
)
from mqdlq.lake import settled_places
from mqdlq.model import Action, Step
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage
from mqdlq.mqi.client import printable_name
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.unit_of_work import MAX_BYTES_IN_A_UNIT, count_gets_and_puts
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution
from mqdlq.structures import MQDLH, MQMD

_MARKERS = 2
"""A unit puts its marker, and clears the marker of the unit before it."""


@dataclass(slots=True)
class Group:
    """The messages on the queue with one GroupId; a browse meets `first` first of the run's.

    `members` are those of the run, with the tokens of their messages, in the order of the group.
    `others` are the keys of the other messages. `uncommitted` is the number of messages by which
    the group counts towards MAXUMSGS, without trigger messages. `why` says why the group stays,
    whatever its rules are.
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

    All of them must be due with the same action and the same target. The messages of a group that
    is incomplete, or does not fit into a unit of work, stay for the rest of the run. Segments of a
    message outside of a group are a group, too.
    """

    observes = Browses.BEFORE_MOVES | Browses.SETTLING

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._groups: dict[GroupKey, Group] = {}
        self._settled: dict[bytes, set[int]] = {}

    def begin_observation(self, cursor: BrowseCursor, work: WorkList) -> None:
        """Find out how much a unit of work may hold."""
        for item in work.items:
            item.group = None
        self._groups, self._settled = {}, {}
        self._cursor, queue_manager = cursor, cursor.queue_manager
        selector = queue_manager.client.CMQC.MQIA_MAX_UNCOMMITTED_MSGS
        self._uncommitted_limit = int(queue_manager.inquire(selector))
        self._has_state_queue = self._is_defined(queue_manager, self._execution.run.state_queue)

    def observe(self, met: BrowsedItem) -> None:
        """Take note of a message of a group, also if it is not one of the run's messages."""
        place = find_place(met.browsed)
        if place is None:
            return
        group = self._groups.setdefault(place.key, Group())
        group.places.append(place)
        group.length += met.browsed.total_length
        step = met.item.due_step if met.item is not None else None
        is_put = step is not None and step.action is not Action.DISCARD
        descriptor = met.browsed.descriptor
        group.uncommitted += count_gets_and_puts(descriptor, is_got=True, is_put=is_put)
        if met.item is not None:
            group.members.append((place, met.item, met.browsed.token))
            group.first = group.first or met.item
            met.item.group = group
        else:
            group.others.add(met.key)

    def end_observation(self) -> None:
        """Decide which groups stay; their messages are held before any of them is archived."""
        others = {key for group in self._groups.values() if group.members for key in group.others}
        run, ledger = self._execution.run, self._execution.ledger
        snapshot = ledger.snapshots.of_run(run.run_id) if others else None
        self._settled = settled_places(snapshot.location, others) if snapshot else {}
        for group in self._groups.values():
            group.members.sort(key=lambda member: member[0].order)
            group.why = self._find_obstacle(group)
            for _, item, _ in group.members:
                if group.why and item.due_step is not None:
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
            key = found and message_key(found.descriptor, found.total_length, found.prefix)
            if found is None or key != item.message.message_key:
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
            for _, item, _ in group.members if held else ():
                if held is not None and item.hold is None and item.due_step is not None:
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
        run, needed = self._execution.run, group.uncommitted + _MARKERS
        if not self._has_state_queue:
            name = printable_name(run.state_queue)
            return Why.GROUP_WITHOUT_STATE_QUEUE(messages=count, queue=name)
        if count > run.max_messages_per_unit:
            return Why.GROUP_OVER_UNIT(messages=count, limit=run.max_messages_per_unit)
        if needed > self._uncommitted_limit:
            limit = self._uncommitted_limit
            return Why.GROUP_OVER_MAXUMSGS(messages=count, needed=needed, limit=limit)
        if group.length > MAX_BYTES_IN_A_UNIT:
            limit = MAX_BYTES_IN_A_UNIT
            return Why.GROUP_TOO_LONG(messages=count, length=group.length, limit=limit)
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
                ways = {"step": _describe(step), "other": _describe(other)}
                return Why.MEMBERS_DIFFER(place=str(place), **ways)
        return None

    @staticmethod
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


def describe_browsed(browsed: BrowsedMessage) -> Description | None:
    """Return the headers of a message as far as they were browsed, None if they cannot be read."""
    md = MessageDescriptor.decode(browsed.descriptor)
    try:
        return describe(browsed.prefix, browsed.total_length, **md.following)
    except MalformedHeaderError:
        return None


def read_rules_headers(browsed: BrowsedMessage) -> list[RulesHeader2] | None:
    """Return the MQRFH2s of a message, None if its headers cannot all be read."""
    found = describe_browsed(browsed)
    return None if found is None else found.rules_headers


def _find_extension(browsed: BrowsedMessage) -> tuple[Any, ...] | None:
    found = describe_browsed(browsed)
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
    repeated = (
        Why.GROUP_ID_REPEATED(messages=many, number=number)
        for number, many in numbers.items()
        if many > 1
    )
    return next(repeated, None)


def find_gaps(places: Sequence[GroupPlace]) -> Reason | None:
    """Return what a group lacks, None if it is complete."""
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
