"""Order by a key: a message waits while an earlier one with its key has not moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import takewhile

from mqdlq.controls.sequences import KEY_FIELDS, Sequences
from mqdlq.controls.sequences.groups import read_rules_headers
from mqdlq.controls.work import (
    BrowsedItem,
    Browses,
    Control,
    Hold,
    PlannedAttempt,
    WorkItem,
    WorkList,
)
from mqdlq.errors import QueueManagerError
from mqdlq.headers import (
    IDENTITY_PREFIX,
    UnreadablePropertyError,
)
from mqdlq.headers.records import NAME_VALUE_BYTES_READ
from mqdlq.model import Action, Destination, Outcome, Step
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage
from mqdlq.mqi.connect import CONNECTION_GONE_REASONS
from mqdlq.reasons import Why
from mqdlq.resources import Execution
from mqdlq.structures import Kind

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
            return (
                value.rstrip(b" \0") if self._field.kind is Kind.TEXT or not any(value) else value
            )
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
        headers = read_rules_headers(browsed)
        if headers is None and len(browsed.prefix) < browsed.total_length:
            again = cursor.find(browsed.token, min(browsed.total_length, _LONGEST_PREFIX))
            headers = [] if again is None else read_rules_headers(again)
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

    observes = Browses.BEFORE_MOVES | Browses.SETTLING

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

    def may_still_move(self, planned: PlannedAttempt) -> bool:
        """Return whether no earlier message of the key has failed since this one was admitted."""
        is_discard = planned.step.action is Action.DISCARD
        return is_discard or self._find_ahead(planned.item, planned.step) is None

    def confirm(self, tries: Sequence[PlannedAttempt]) -> None:
        self._in_flight -= {planned.item.message.message_id for planned in tries}

    def leave(self, planned: PlannedAttempt, reason: int) -> None:
        """Hold later messages behind one that has not moved."""
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
        """Whether a message has not moved, and a rule may still move it to a destination."""
        # The browse of the pass may not have met it yet, but the one before has.
        if item.message.message_id in self._in_flight or item.has_departed:
            return False
        if item.outcome not in {None, Outcome.LEASED_BY_RUN}:
            return False
        is_out = item.hold is not None and item.hold.outcome is not Outcome.NOT_ATTEMPTED
        return not is_out and destination in self._find_destinations(item)

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
            for destination in self._find_destinations(item) if key else ():
                heappush(self._lines[key, destination], place)

    def _find_destinations(self, item: WorkItem) -> set[Destination]:
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
