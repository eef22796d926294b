"""Recognise messages that come back to a dead-letter queue after a run has moved them."""

from __future__ import annotations

from collections.abc import Collection

from mqdlq.causes import find_cause
from mqdlq.controls.control import Browses, Control
from mqdlq.controls.loops.round_trips import find_departures
from mqdlq.controls.work import BrowsedItem
from mqdlq.headers import MessageDescriptor, classify, message_identity
from mqdlq.headers.representation import parse_gmt
from mqdlq.ledger import Departure, Identity, Ledger
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.resources import Execution

_AT_ONCE = 500


class ReturnedMessages:
    """Finds the departures of messages from one queue that are on it again."""

    def __init__(self, ledger: Ledger, queue_manager: str, queue: str) -> None:
        """Read the departures from this queue from the ledger."""
        self._ledger, self._place = ledger, (queue_manager, queue)

    def find_all(self, met: Collection[BrowsedItem]) -> list[Departure | None]:
        """Return the latest departure of each message, None for one that has not come back.

        The messages were browsed with `browsed_length`. Messages of which two were on a queue at
        the same time are never recognised: nothing tells them apart. So a message that was listed
        before the departed one, and has not left the queue since, has not come back.
        """
        found = [identify(one.browsed) for one in met]
        departures = find_departures(self._ledger, {one for one in found if one is not None})
        keys = {
            one.key
            for one, identity in zip(met, found, strict=True)
            if one.item is None and identity in departures
        }
        residents = self._ledger.messages.first_residents(*self._place, keys)
        latest: list[Departure | None] = []
        for one, identity in zip(met, found, strict=True):
            listed = one.item.message.message_id if one.item else residents.get(one.key)
            known = departures.get(identity, ()) if identity else ()
            own = [
                departure
                for departure in known
                if (departure.queue_manager, departure.queue) == self._place
                and (listed is None or departure.message_id < listed)
            ]
            latest.append(own[-1] if own else None)
        return latest


def identify(browsed: BrowsedMessage) -> bytes | None:
    """Return the identity of a message that was browsed with `browsed_length`, or None."""
    return message_identity(browsed.descriptor, browsed.total_length, browsed.prefix)


class IdentityRecorder(Control):
    """Records the identities of the run's messages, before the run moves any of them.

    It holds no message. It also observes the browse of settling: so a dry run, too, knows which
    messages have come back.
    """

    observes = Browses.BEFORE_MOVES | Browses.SETTLING

    def __init__(self, execution: Execution) -> None:
        """Find out which messages of the run have an identity in the ledger."""
        self._ledger = execution.ledger
        self._known = set(execution.ledger.identities.of_run(execution.run.run_id))
        self._found: list[Identity] = []

    def observe(self, met: BrowsedItem) -> None:
        """Record the identity of one of the run's messages; some hundred are written together."""
        item = met.item
        if item is None or item.message.message_id in self._known:
            return
        if (found := _describe(item.message.message_id, met.browsed)) is not None:
            self._found.append(found)
            self._known.add(found.message_id)
        if len(self._found) >= _AT_ONCE:
            self._write()

    def end_observation(self) -> None:
        """Write the other identities."""
        self._write()

    def _write(self) -> None:
        self._ledger.identities.record(self._found)
        self._found = []


def _describe(message_id: int, browsed: BrowsedMessage) -> Identity | None:
    """Return the identity of a message with its cause and the time in its MQDLH."""
    identity = identify(browsed)
    if identity is None:
        return None
    md = MessageDescriptor.decode(browsed.descriptor)
    found = classify(
        browsed.prefix,
        browsed.total_length,
        encoding=md.encoding,
        ccsid=md.coded_char_set_id,
        format=md.format,
    )
    dlh = found.dlh
    if dlh is None:
        return Identity(message_id, identity, find_cause(found.cls, 0, "", "").cause_id, None)
    cause = find_cause(found.cls, dlh.reason, dlh.dest_q_name, dlh.dest_q_mgr_name)
    return Identity(message_id, identity, cause.cause_id, parse_gmt(dlh.put_date, dlh.put_time))
