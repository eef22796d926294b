"""Quarantine of messages that come back each time they are moved, and how they are recognised."""

from collections.abc import Collection
from functools import cached_property

from mqdlq.causes import find_cause
from mqdlq.controls.loops import Loops
from mqdlq.controls.loops.round_trips import RoundTrips, find_departures, find_round_trips
from mqdlq.controls.settings import Controls
from mqdlq.controls.work import BrowsedItem, Browses, Control, Hold, WorkItem, WorkList
from mqdlq.headers import MessageDescriptor, classify, message_identity
from mqdlq.headers.representation import parse_gmt
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import Row
from mqdlq.ledger.tables import Identity
from mqdlq.model import QUARANTINE, Action, Outcome, PutAuthority, Step
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage
from mqdlq.reasons import Why
from mqdlq.resources import Execution


class LoopGuard(Control):
    """Quarantines each message that has come back `limit` times: no rule moves or discards it.

    The ledger has the departures of all handlers and earlier runs, so that these count, too. A
    quarantined message is held, or it is forwarded to the quarantine queue: each pass tries that
    once, in place of the rules. A message that cannot be forwarded stays, and is quarantined.
    """

    keys = ("loops",)
    needs = ("IdentityRecorder",)
    for_given_actions = False
    observes = Browses.BEFORE_MOVES

    @classmethod
    def open(cls, execution: Execution, keys: Controls) -> Control | None:
        return cls(execution, keys.loops) if keys.loops else None

    def __init__(self, execution: Execution, loops: Loops) -> None:
        self._execution, self._limit = execution, loops.limit
        self._queue, self._own_queue = loops.then.forward or "", ""
        if self._queue in {execution.run.queue, execution.run.state_queue}:
            # A message would only come back sooner.
            self._queue, self._own_queue = "", self._queue

    def begin_observation(self, cursor: BrowseCursor, work: WorkList) -> None:
        del cursor
        self._items = work.items

    def end_observation(self) -> None:
        """Hold the quarantined messages, or replace the steps of their rules by a forward.

        The outcome of any other message that came back says how often it did. This comes before
        the archive copies are made: a held message needs none.
        """
        for item in self._items:
            trips = self._round_trips.get(item.message.message_id)
            if item.open_step is None or trips is None:
                continue
            hold = self.find_hold(item)
            if hold is None:
                item.moved_because = Why.CAME_BACK(trips=trips.reason)
            elif self._queue:
                item.steps = (forward_to(self._queue, item.attempts_made + 1),)
                item.moved_because = hold.why
            else:
                item.hold = hold

    def find_hold(self, item: WorkItem) -> Hold | None:
        """Return a hold for the rest of the run if the message has come back too often.

        A message that the pass forwards to the quarantine queue is not held.
        """
        trips = self._round_trips.get(item.message.message_id)
        if trips is None or trips.count < self._limit or item.moved_because:
            return None
        why = Why.CAME_BACK_TOO_OFTEN(trips=trips.reason, limit=self._limit)
        if self._own_queue:
            why = Why.CAME_BACK_TO_OWN_QUEUE(
                trips=trips.reason, limit=self._limit, queue=self._own_queue
            )
        return Hold(why, outcome=Outcome.QUARANTINED)

    @cached_property
    def _round_trips(self) -> dict[int, RoundTrips]:
        ledger, run_id = self._execution.ledger, self._execution.run.run_id
        return find_round_trips(ledger, ledger.identities.come_again(run_id))


def forward_to(queue: str, tries: int) -> Step:
    """Return the step that forwards a message with its MQDLH; no rule of the table decided it."""
    return Step(QUARANTINE, 0, Action.FWD, queue, "", True, PutAuthority.DEF, tries)


AT_ONCE = 500
"""How many messages are looked up in the ledger, or written to it, together."""


def find_returns(
    ledger: Ledger, place: tuple[str, str], met: Collection[BrowsedItem]
) -> list[Row | None]:
    """Return the latest departure of each message, None for one that has not come back.

    `place` is the queue manager and the queue that the messages left, and are on again; they were
    browsed with `browsed_length`. Messages of which two were on a queue at the same time are never
    recognised: nothing tells them apart. So a message that was listed before the departed one, and
    has not left the queue since, has not come back.
    """
    found = [_identify(one.browsed) for one in met]
    departures = find_departures(ledger, {one for one in found if one is not None})
    unlisted = {
        one.key
        for one, identity in zip(met, found, strict=True)
        if one.item is None and identity in departures
    }
    residents = ledger.messages.first_residents(*place, unlisted)
    latest: list[Row | None] = []
    for one, identity in zip(met, found, strict=True):
        listed = one.item.message.message_id if one.item else residents.get(one.key)
        own = [
            departure
            for departure in (departures.get(identity, ()) if identity else ())
            if (departure.queue_manager, departure.queue) == place
            and (listed is None or departure.message_id < listed)
        ]
        latest.append(own[-1] if own else None)
    return latest


def _identify(browsed: BrowsedMessage) -> bytes | None:
    return message_identity(browsed.descriptor, browsed.total_length, browsed.prefix)


class IdentityRecorder(Control):
    """Records the identities of the run's messages, before the run moves any of them.

    It holds no message. It also observes the browse of settling: so a dry run, too, knows which
    messages have come back.
    """

    keys = ("loops", "ramp", "breaker")
    observes = Browses.BEFORE_MOVES | Browses.SETTLING

    @classmethod
    def open(cls, execution: Execution, keys: Controls) -> Control | None:
        return cls(execution) if keys.recognise_returns else None

    def __init__(self, execution: Execution) -> None:
        self._ledger = execution.ledger
        self._known = set(execution.ledger.identities.of_run(execution.run.run_id))
        self._found: list[Identity] = []

    def observe(self, met: BrowsedItem) -> None:
        item = met.item
        if item is None or item.message.message_id in self._known:
            return
        if (found := _describe(item.message.message_id, met.browsed)) is not None:
            self._found.append(found)
            self._known.add(found.message_id)
        if len(self._found) >= AT_ONCE:
            self._write()

    def end_observation(self) -> None:
        self._write()

    def _write(self) -> None:
        self._ledger.identities.record(self._found)
        self._found = []


def _describe(message_id: int, browsed: BrowsedMessage) -> Identity | None:
    identity = _identify(browsed)
    if identity is None:
        return None
    md = MessageDescriptor.decode(browsed.descriptor)
    cls, _, dlh = classify(browsed.prefix, browsed.total_length, **md.following)
    if dlh is None:
        return Identity(message_id, identity, find_cause(cls, 0, "", "").cause_id, None)
    cause = find_cause(cls, dlh.reason, dlh.dest_q_name, dlh.dest_q_mgr_name)
    return Identity(message_id, identity, cause.cause_id, parse_gmt(dlh.put_date, dlh.put_time))
