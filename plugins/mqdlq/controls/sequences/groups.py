"""Groups: all messages of a group move in one unit of work, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mqdlq.constants import MQRC
from mqdlq.controls.control import Browses, Control, Observation
from mqdlq.controls.sequences.group_members import (
    GroupKey,
    GroupPlace,
    find_gaps,
    find_place,
    find_repeated,
)
from mqdlq.controls.work import BrowsedItem, Group, Hold, WorkItem, of_group
from mqdlq.errors import QueueManagerError
from mqdlq.headers import message_key
from mqdlq.lake import settled_places
from mqdlq.model import Action, Step
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.hints import printable_name
from mqdlq.mqi.unit_of_work import MAX_BYTES_IN_A_UNIT, count_gets_and_puts
from mqdlq.reasons import Reason, Why
from mqdlq.resources import Execution

_MARKERS = 2
"""A unit puts its marker, and clears the marker of the unit before it."""


@dataclass(slots=True)
class _Group(Group):
    """The messages on the queue with one GroupId.

    `members` are those of the run, with the tokens of their messages, in the order of the group.
    `others` are the keys of the other messages. `uncommitted` is the number of messages by which
    the group counts towards MAXUMSGS, without trigger messages. `why` says why the group stays,
    whatever its rules are.
    """

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
        self._groups: dict[GroupKey, _Group] = {}
        self._settled: dict[bytes, set[int]] = {}

    def begin_observation(self, browse: Observation) -> None:
        """Find out how much a unit of work may hold."""
        for item in browse.work.items:
            item.group = None
        self._groups, self._settled = {}, {}
        self._cursor = browse.cursor
        queue_manager = browse.cursor.queue_manager
        selector = queue_manager.client.CMQC.MQIA_MAX_UNCOMMITTED_MSGS
        self._uncommitted_limit = int(queue_manager.inquire(selector))
        self._has_state_queue = self._is_defined(queue_manager, self._execution.run.state_queue)

    def observe(self, met: BrowsedItem) -> None:
        """Take note of a message of a group, also if it is not one of the run's messages."""
        place = find_place(met.browsed)
        if place is None:
            return
        group = self._groups.setdefault(place.key, _Group())
        group.places.append(place)
        group.length += met.browsed.total_length
        step = met.item.due_step if met.item is not None else None
        is_put = step is not None and step.action is not Action.DISCARD
        descriptor = met.browsed.descriptor
        group.uncommitted += count_gets_and_puts(descriptor, is_got=True, is_put=is_put)
        if met.item is not None:
            group.members.append((place, met.item, met.browsed.token))
            group.first, group.size = group.first or met.item, group.size + 1
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
        group = _group_of(met.item)
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
        """Return a hold if the group of a message stays."""
        group, step = _group_of(item), item.due_step
        if group is None or step is None:
            return None
        why = group.why or self._find_difference(group, step)
        return Hold(why) if why else None

    def spread_holds(self) -> None:
        """Hold the other messages of a group of which one is held."""
        for group in self._groups.values():
            held = next((item.hold for _, item, _ in group.members if item.hold), None)
            for _, item, _ in group.members if held else ():
                if held is not None and item.hold is None and item.due_step is not None:
                    item.hold = of_group(held)

    def _find_obstacle(self, group: _Group) -> Reason | None:
        """Return why a group stays, whatever its rules are, or None."""
        count = len(group.places)
        if repeated := find_repeated(group.places):
            return repeated
        if gaps := find_gaps(group.places):
            return Why.GROUP_INCOMPLETE(messages=count, gaps=gaps)
        if len(group.members) < count:
            settled = sum(len(self._settled.get(key, ())) for key in group.others)
            return Why.GROUP_NOT_IN_RUN(messages=count, here=len(group.members), settled=settled)
        return self._find_misfit(count, group) if count > 1 else None

    def _find_misfit(self, count: int, group: _Group) -> Reason | None:
        """Return why messages do not fit into one unit of work, or None."""
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

    def _find_difference(self, group: _Group, step: Step) -> Reason | None:
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


def _group_of(item: WorkItem | None) -> _Group | None:
    """Return the group that this control has noted on a message."""
    return item.group if item is not None and isinstance(item.group, _Group) else None


def _treatment(step: Step) -> tuple[object, ...]:
    return step.action, step.target_q, step.target_q_mgr, step.header, step.put_authority


def _describe(step: Step) -> Reason:
    if step.action is Action.DISCARD:
        return Why.STEP_DISCARDS()
    return Why.STEP_PUTS(queue=printable_name(step.target_q))
