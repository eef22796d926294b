"""The messages of a dead-letter queue: archive them by browse, then get them to be put."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from mqdlq.controls.key_index import key_of
from mqdlq.controls.registry import ControlChain
from mqdlq.controls.repair import Repair, read_repair
from mqdlq.controls.repair.changes import check_body
from mqdlq.controls.work import Planned, PlannedAttempt, WorkList
from mqdlq.errors import ExecutionError, LakeError, QueueManagerError
from mqdlq.headers import DLH_LENGTH, DeadLetterHeader, following_ccsid, message_key
from mqdlq.lake.archive import Copy, name_of_copies, read_copies, steady_digest, write_copies
from mqdlq.lake.replacements import read_replacement
from mqdlq.ledger.tables import MessageRepair, Run
from mqdlq.model import Action, PutAuthority, Step
from mqdlq.mqi.browse import GONE, BrowseCursor, BrowsedMessage, browse_with_properties
from mqdlq.mqi.unit_of_work import Delivery, GotMessage, UnitOfWork
from mqdlq.reasons import Why
from mqdlq.resources import Execution
from mqdlq.stages.units.engine import MessageGoneError, MoveWithdrawnError
from mqdlq.structures import MQDLH

# Archive messages before they are discarded, or delivered repaired.


def needs_copy(step: Step, run: Run) -> bool:
    """Return whether a step moves a message only if the archive has a copy of it.

    A forward to a quarantine queue (rule 0) repairs nothing.
    """
    return step.action is Action.DISCARD or bool(run.repair and step.rule)


def read_whole_repair(run: Run, lake_root: str) -> Repair | None:
    """Return the repair of a run with its replacement; LakeError if that is missing or altered."""
    repair = read_repair(run.repair)
    if repair is None or repair.body_sha256 is None:
        return repair
    return replace(repair, content=read_replacement(lake_root, run.handler, repair.body_sha256))


def archive_messages(
    execution: Execution,
    work: WorkList,
    cursor: BrowseCursor,
    controls: ControlChain,
    repair: Repair | None,
) -> dict[int, str]:
    """Archive the messages whose next step needs a copy; return the copies' steady digests.

    If the controls know how many messages the pass moves at most, no more copies are made. Then a
    message that is held for the rest of the run gets none, so that it takes no other one's place.

    Copies are made by browse, before any message is got. They are read back before any message is
    moved, also the copies of an earlier pass. A copy holds the whole message with its properties.
    The changes of a message to be delivered repaired are recorded with its copy. If its body does
    not allow them, that is recorded, and the message is neither archived nor moved.
    """
    run, ledger, room = execution.run, execution.ledger, controls.room
    may_need = any(needs_copy(step, run) for step in work.steps)
    due = {
        item.message.message_id
        for item in (work.glance() if may_need else ())
        if (step := item.due_step) and needs_copy(step, run) and item.hold is None
        if room is None or not controls.is_held_to_the_end(item)
    }
    if not due:
        return {}
    recorded = ledger.archive.digests(run.run_id)
    copied = read_recorded_copies(execution, recorded) if due & set(recorded) else {}
    wanted = due - set(recorded)
    number = None if room is None else max(0, room - len(due & set(recorded)))
    if not wanted or number == 0:
        return copied
    at = execution.clock()
    steady: dict[int, str] = {}
    changes: list[MessageRepair] = []
    body = repair.content if repair else None
    copies = islice(_browse_copies(work, cursor, wanted, changes, steady, body), number)
    location, digests = write_copies(execution.lake_root, run.run_id, name_of_copies(at), copies)
    ledger.archive.record(run.run_id, location, digests, at, changes)
    why = "delivered repaired" if run.repair else "discarded"
    execution.log.info("%d messages to be %s are archived and read back", len(digests), why)
    return copied | steady


def read_recorded_copies(execution: Execution, recorded: Mapping[int, str]) -> dict[int, str]:
    """Return the steady digests of the run's recorded copies that the archive holds unaltered.

    `recorded` has the digests in the ledger by message id.
    """
    steady: dict[int, str] = {}
    for location in execution.ledger.archive.locations(execution.run.run_id):
        try:
            steady |= {
                copy.message_id: copy.steady_digest
                for copy in read_copies(location)
                if recorded.get(copy.message_id) == copy.digest
            }
        except LakeError as error:
            execution.log.warning(
                "the archive copies in %s cannot be read, so their messages are not moved: %s"
                " [MQDLQ-614]",
                location,
                error,
            )
    return steady


def _browse_copies(  # noqa: PLR0917 (what is copied, and what is found out about it)
    work: WorkList,
    cursor: BrowseCursor,
    wanted: set[int],
    changes: list[MessageRepair],
    steady: dict[int, str],
    replacement: bytes | None,
) -> Iterator[Copy]:
    """Yield copies of the wanted messages; add the changes and the steady digests of the copies.

    Changes without a refusal are added with the copy. If another application holds the message in
    the meantime, there are neither, and the next pass tries again.
    """
    for met in work.browse(cursor):
        item = met.item
        if item is None or item.message.message_id not in wanted:
            continue
        if item.changes is not None:
            body = cursor.find(met.browsed.token, met.browsed.total_length)
            if body is None:
                continue
            item.changes = check_body(item.changes, body.descriptor, body.prefix, replacement)
            item.withheld_reason = item.changes.refusal
            if item.changes.refusal:
                changes.append(item.changes)
                continue
        whole = _browse_whole(met.browsed, cursor)
        if whole is None:
            continue
        if item.changes is not None:
            changes.append(item.changes)
        copy = Copy(item.message.message_id, *whole)
        steady[copy.message_id] = copy.steady_digest
        yield copy


def _browse_whole(browsed: BrowsedMessage, cursor: BrowseCursor) -> tuple[bytes, bytes] | None:
    """Return the MQMD of the message under the cursor, and its body, None if it is gone."""
    try:
        return browse_with_properties(cursor, browsed.total_length)
    except QueueManagerError as error:
        if error.reason in GONE:
            return None
        raise


# The queue as a source of moves.


class DeadLetterSource:
    """The messages of a dead-letter queue, which is open to browse, get and save all context.

    `copies` are the steady digests of archive copies by message id. If the queue
    `is_browsed_apart`, another cursor finds the messages of the pass: this one is moved to each
    message, and messages can be got in any order.
    """

    def __init__(
        self, cursor: BrowseCursor, copies: Mapping[int, str], *, is_browsed_apart: bool = False
    ) -> None:
        self._cursor = cursor
        self._copies = copies
        self._is_browsed_apart = is_browsed_apart
        self._unit = UnitOfWork(cursor)

    def open(self) -> UnitOfWork:
        self._unit = UnitOfWork(self._cursor)
        return self._unit

    def find(self, planned: Planned) -> bool:
        return all(self._find_one(one) for one in planned.tries)

    def resume(self, planned: Planned) -> None:
        """Continue the browse behind this message.

        If the message is gone, the browse returns some messages again. The run ignores them, since
        it has already recorded them.
        """
        if not self._is_browsed_apart:
            self._cursor.find(planned.tries[0].browsed.token)

    def get(self, planned: Planned) -> Iterator[Callable[[], None]]:
        """Get each message under the cursor; yield a function that puts it to the step's target.

        A message to be discarded is only got. It must equal its copy in the archive, and so must a
        message to be delivered repaired: its copy is compared before the get, which returns the
        properties in another form. If one of several messages is gone, the others must stay.
        """
        for number, one in enumerate(planned.tries):
            planned.reached = number
            try:
                yield self._get_one(one)
            except MessageGoneError as gone:
                if number:
                    raise MoveWithdrawnError from gone
                raise

    def _find_one(self, planned: PlannedAttempt) -> bool:
        """Position the cursor on a message, by its token or else by its key."""
        found, key = self._cursor.find(planned.browsed.token), planned.item.message.message_key
        if found == planned.browsed:
            return True  # to compare takes less time than the key
        if found is not None and key_of(found) == key:
            return True
        return any(key_of(met) == key for met in self._cursor.messages())

    def _get_one(self, planned: PlannedAttempt) -> Callable[[], None]:
        if self._is_browsed_apart and not self._find_one(planned):
            raise MessageGoneError
        unit, length = self._unit, planned.browsed.total_length
        is_discard = planned.step.destination is None
        try:
            if planned.repair is not None:
                self._check_against_copy(planned, *browse_with_properties(self._cursor, length))
            got = unit.get_with_properties(length) if is_discard else unit.get_under_cursor(length)
        except QueueManagerError as error:
            if error.reason in GONE:
                raise MessageGoneError from error
            raise
        if is_discard:
            self._check_against_copy(planned, got.descriptor.pack(), got.body)
            return lambda: None
        self._check_message_key(planned, got)

        def put() -> None:
            delivery = build_delivery(planned.step, got)
            if planned.repair is not None:
                delivery = repair_delivery(delivery, planned.repair, got)
            unit.put(got, delivery)

        return put

    def _check_against_copy(self, planned: PlannedAttempt, descriptor: bytes, body: bytes) -> None:
        copy = self._copies.get(planned.item.message.message_id)
        if steady_digest(descriptor, body) != copy:
            planned.item.withheld_reason = Why.NOT_ARCHIVED()
            raise MoveWithdrawnError

    def _check_message_key(self, planned: PlannedAttempt, got: GotMessage) -> None:
        """Refuse a message that is not the planned one, before anything is done with it."""
        browsed, descriptor, body = planned.browsed, got.descriptor.packed, got.body
        is_same = descriptor == browsed.descriptor and len(body) == browsed.total_length
        if is_same and body.startswith(browsed.prefix):
            return  # to compare takes less time than the key
        key = message_key(bytes(descriptor), len(body), body)
        if key != planned.item.message.message_key:
            raise ExecutionError(
                "MQDLQ-604",
                f"the message got from {self._cursor.name} is not the one under the cursor"
                f" (message {planned.item.message.browse_seq}), so it was backed out; clear the"
                " task",
            )


# Build the put that one step of a plan requires for one message.

_FORMAT = MQDLH.slice_of("format")
_TIMES = MQDLH.slice_of("put_date", "put_time")


def build_delivery(step: Step, got: GotMessage) -> Delivery:
    """Return the put that a RETRY or FWD requires.

    If the MQDLH is removed, the MQMD takes Format, Encoding and CodedCharSetId from it; otherwise
    the receiver would read the body as a dead-letter header. Nothing else changes (IBM MQ docs,
    "Dead-letter queue processing"). The body is never converted.
    """
    descriptor, to = got.descriptor, (step.target_q, step.target_q_mgr)
    user = descriptor.UserIdentifier if step.put_authority is PutAuthority.CTX else b""
    if step.action is Action.FWD and step.header:
        return Delivery(*to, got.body, alternate_user=user)
    described = descriptor.Encoding, descriptor.CodedCharSetId
    return strip_dead_letter_header(*to, got.body, *described, user=user)


def repair_delivery(delivery: Delivery, repair: Repair, got: GotMessage) -> Delivery:
    """Return the put with the Format and CodedCharSetId of a repair, and its body if it has one."""
    if repair.content is not None:
        delivery = delivery._replace(body=repair.content)
    if delivery.format is None:  # the message has no MQDLH
        descriptor = got.descriptor
        delivery = delivery._replace(
            encoding=descriptor.Encoding,
            coded_char_set_id=descriptor.CodedCharSetId,
            format=descriptor.Format,
        )
    if repair.coded_char_set_id is not None:
        delivery = delivery._replace(coded_char_set_id=repair.coded_char_set_id)
    if repair.format is not None:
        delivery = delivery._replace(format=repair.format.ljust(8).encode("ascii"))
    return delivery


def strip_dead_letter_header(
    target_q: str, target_q_mgr: str, body: bytes, encoding: int, ccsid: int, *, user: bytes = b""
) -> Delivery:
    """Return the put of a message without its MQDLH, which is written in `encoding` and `ccsid`.

    Raises MalformedHeaderError if the message does not begin with an MQDLH.
    """
    # Dead letters have equal headers but for the time, which decides nothing here.
    header = body[:DLH_LENGTH]
    timeless = header[: _TIMES.start] + bytes(_TIMES.stop - _TIMES.start) + header[_TIMES.stop :]
    found = _read_what_follows(timeless if len(header) == DLH_LENGTH else header, encoding, ccsid)
    return Delivery(target_q, target_q_mgr, body[DLH_LENGTH:], *found, alternate_user=user)


@lru_cache(maxsize=4096)
def _read_what_follows(header: bytes, encoding: int, ccsid: int) -> tuple[int, int, bytes]:
    """Return Encoding, CodedCharSetId and Format for the MQMD of a message without its MQDLH.

    The MQMD is in the connection's character set. The bytes of the Format are copied from the
    header unchanged, unless the header is in EBCDIC.
    """
    read = DeadLetterHeader.decode(header, encoding=encoding, ccsid=ccsid)
    text = header[_FORMAT]
    if not header.startswith(MQDLH.struc_id):
        text = read.format.ljust(8).encode("latin-1", "replace")
    return read.encoding, following_ccsid(read.coded_char_set_id, ccsid), text
