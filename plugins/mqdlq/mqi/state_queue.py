"""The state queue of a handler, which holds a marker for each committed unit of work.

A marker is on the queue if and only if its unit was committed. An executor opens the queue for
exclusive input, so that a DLQ has one executor at a time.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from mqdlq.constants import MQRC
from mqdlq.errors import AnotherExecutorError, QueueManagerError
from mqdlq.mqi.browse import BrowseCursor, get_options
from mqdlq.mqi.connect import QueueManager

CCSID_UTF_8 = 1208
MARKER_LENGTH = 65_536
MSG_ID_LENGTH = 24
RESTORATION_MARKER = "restore"
"""The value in a restoration's markers at the place of an executor's plan id."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Marker:
    """Record of a unit of work: `unit` is its id (48 hex digits) and the marker's MsgId.

    `messages` is the SHA-256 over the message keys in the unit, as hex. `work` is the number of the
    pass or restoration in its ledger (`WorkNumber` as text). `moved` has the latest moves of the
    run by its plan, those of this unit last, as rows: the attempt's number, the first and the last
    browse_seq, and for a forward by no rule its queue.
    """

    unit: str
    run_id: str
    plan_id: str
    messages: str
    work: str
    moved: Sequence[Sequence[Any]] = ()


class Markers:
    """The markers of units of work: none, and no exclusive access, without a state queue.

    `prove_commits` says whether a missing marker proves that its unit was backed out.
    """

    prove_commits = False
    name = ""

    def markers(self) -> list[Marker]:
        """Return the markers of committed units that are not yet cleared."""
        return []

    def put(self, marker: Marker) -> None:
        """Put a marker under syncpoint, in the unit of work it speaks of."""

    def clear(self, unit: str) -> None:
        """Remove the marker of a settled unit, under syncpoint."""


class PutMarkers(Markers):
    """Markers put over a connection that need not have the state queue open."""

    prove_commits = True

    def __init__(self, queue_manager: QueueManager, name: str) -> None:
        self._queue_manager, self._client = queue_manager, queue_manager.client
        self.name = name

    def put(self, marker: Marker) -> None:
        packed, constants = self._client.packed, self._client.CMQC
        descriptor = packed.MD()
        descriptor.MsgId = bytes.fromhex(marker.unit)
        descriptor.Format = constants.MQFMT_STRING
        descriptor.CodedCharSetId = CCSID_UTF_8
        descriptor.Persistence = constants.MQPER_PERSISTENT
        options = constants.MQPMO_SYNCPOINT | constants.MQPMO_FAIL_IF_QUIESCING
        pmo, target = packed.PMO(Options=options), packed.OD(ObjectName=self.name.encode())
        body = json.dumps(asdict(marker), sort_keys=True).encode()
        with self._client.translating_errors("MQPUT1", f"state queue {self.name}"):
            self._queue_manager.handle.put1(target, body, descriptor, pmo)


class StateQueue(PutMarkers):
    """The state queue, which the only executor of a DLQ keeps open for exclusive input."""

    def __init__(self, queue_manager: QueueManager, queue: Any, name: str) -> None:
        super().__init__(queue_manager, name)
        self._queue = queue
        self._has_warned = False

    def markers(self) -> list[Marker]:
        found, strays = _browse(self._queue_manager, self._queue, self.name)
        if strays and not self._has_warned:
            self._has_warned = True
            log.warning(
                "the state queue %s holds %d messages that are not markers, but only this handler"
                " may use it; move them away [MQDLQ-610]",
                self.name,
                strays,
            )
        return found

    def clear(self, unit: str) -> None:
        """Get the marker of a settled unit under syncpoint; the next commit removes it.

        A missing marker is not an error.
        """
        constants = self._client.CMQC
        descriptor = self._client.packed.MD(MsgId=bytes.fromhex(unit))
        gmo = get_options(self._client, constants.MQGMO_SYNCPOINT)
        gmo.MatchOptions = constants.MQMO_MATCH_MSG_ID
        try:
            with self._client.translating_errors("MQGET", f"state queue {self.name}"):
                self._queue.get(MARKER_LENGTH, descriptor, gmo)
        except QueueManagerError as error:
            if error.reason != MQRC["MQRC_NO_MSG_AVAILABLE"]:
                raise


def browse_markers(queue_manager: QueueManager, name: str) -> list[Marker]:
    with queue_manager.browsing(name) as queue:
        return _browse(queue_manager, queue, name)[0]


def _browse(queue_manager: QueueManager, queue: Any, name: str) -> tuple[list[Marker], int]:
    """Return the markers on an open queue, and how many other messages it holds."""
    cursor = BrowseCursor(queue_manager, queue, name, MARKER_LENGTH)
    found = [_marker(message.prefix) for message in cursor.messages()]
    return [marker for marker in found if marker is not None], found.count(None)


def _marker(body: bytes) -> Marker | None:
    try:
        marker = Marker(**json.loads(body))
        return marker if len(bytes.fromhex(marker.unit)) == MSG_ID_LENGTH else None
    except (ValueError, TypeError):
        return None


@contextmanager
def open_state_queue(queue_manager: QueueManager, name: str) -> Iterator[Markers]:
    """Open the state queue for exclusive input, or yield a replacement if it is not defined.

    Raises AnotherExecutorError if another executor has it open.
    """
    constants = queue_manager.client.CMQC
    try:
        options = constants.MQOO_INPUT_EXCLUSIVE | constants.MQOO_BROWSE
        queue = queue_manager.open(name, options | constants.MQOO_FAIL_IF_QUIESCING)
    except QueueManagerError as error:
        if error.reason == MQRC["MQRC_OBJECT_IN_USE"]:
            raise AnotherExecutorError(
                "MQDLQ-602",
                f"another executor holds the state queue {name} of queue manager"
                f" {queue_manager.name} (MQRC_OBJECT_IN_USE (2042)), and only one at a time may act"
                " on a dead-letter queue",
            ) from error
        if error.reason != MQRC["MQRC_UNKNOWN_OBJECT_NAME"]:
            raise
        yield Markers()
        return
    try:
        yield StateQueue(queue_manager, queue, name)
    finally:
        # On a broken connection there is nothing to close, and the original error is reported.
        queue_manager.close(queue)
