"""Checks of a queue by what its queue manager records; no run fails for one.

A queue with STREAMQ has a copy of each message on its stream queue. A copy without a message in any
snapshot, and on the queue, belongs to a message that another program took, or that expired. The
check browses the stream queue before the snapshot, so that each copy's message was on the queue
before the snapshot began.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Final

from mqdlq import lake
from mqdlq.controls.key_index import key_of
from mqdlq.errors import MqDlqError
from mqdlq.headers import DLH_LENGTH, message_key
from mqdlq.headers.ccsid import Family
from mqdlq.headers.chain import STRUC_IDS
from mqdlq.headers.representation import parse_gmt
from mqdlq.ledger.tables import EvidenceCheck
from mqdlq.model import QueueKind
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage
from mqdlq.mqi.connect import QueueManager, connect
from mqdlq.mqi.evidence import MAX_GETS, QueueStatistics, browse_statistics
from mqdlq.resources import Execution
from mqdlq.structures import MQDLH, MQMD


@dataclass(slots=True)
class Checking:
    """A check that is being made: its result so far.

    `copies` are those on a stream queue of the messages that were put since the last check.
    """

    check: EvidenceCheck
    copies: dict[bytes, BrowsedMessage] = field(default_factory=dict)

    @contextmanager
    def noting_trouble(self, execution: Execution, what: str) -> Iterator[None]:
        """Log any exception of the block, and note it as the trouble of the check.

        Of an exception that is not of this project only the class is named: its text may have data
        of messages. A signal to end the process still ends it.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 (no run depends on evidence)
            unexpected = f"unexpected {type(error).__name__}"
            trouble = error.text if isinstance(error, MqDlqError) else unexpected
            self.check = replace(self.check, trouble=trouble)
            execution.log.warning(
                "the %s of %s cannot be checked: %s; the run continues without this check"
                " [MQDLQ-138]",
                what,
                execution.run.queue,
                trouble,
            )


STATISTICS: Final = "statistics"
MAX_STATISTICS: Final = 20_000
"""How many statistics messages are browsed at most."""

MARGIN: Final = timedelta(minutes=10)
"""How far outside of the intervals own attempts still count.

The clocks of the queue manager and of the workers may differ by that much without a wrong hint.
"""

_PUT_DATE: Final = MQMD.slice_of("put_date")
_PUT_TIME: Final = MQMD.slice_of("put_time")


def check_statistics(execution: Execution, source: str) -> None:
    """Compare the gets that statistics count with the attempts of runs, and record the result.

    The statistics messages on the queue `source` since the last check count, by the end of their
    interval. Each attempt of a run on the queue is a get; other gets are those of other programs.
    Errors become the `trouble` of the check.
    """
    run, ledger, now = execution.run, execution.ledger, execution.clock()
    since = ledger.evidence.last_at(run.queue_manager, run.queue, STATISTICS)
    checking = Checking(EvidenceCheck(STATISTICS, source, since, now))
    with checking.noting_trouble(execution, "statistics"):
        checking.check = _compare_gets(execution, checking.check)
    ledger.evidence.record(run.run_id, checking.check)


def _compare_gets(execution: Execution, check: EvidenceCheck) -> EvidenceCheck:
    run, gets = execution.run, 0
    starts, ends = list[datetime](), list[datetime]()
    with connect(execution.settings) as queue_manager:
        browsed = browse_statistics(queue_manager, check.source, run.queue)
        for number, (descriptor, found) in enumerate(browsed, start=1):
            if number > MAX_STATISTICS:
                trouble = f"it has more than {MAX_STATISTICS:,} messages; remove old ones from it"
                return replace(check, trouble=trouble)
            end = _end_of_interval(descriptor, found, check)
            if found is not None and end is not None:
                length, number_of_gets = found
                gets += number_of_gets
                ends.append(end)
                starts.append(end - length)
    if gets > MAX_GETS:
        return replace(check, trouble="its messages have an impossible number of gets")
    if not ends:
        return check
    place = run.queue_manager, run.queue
    own = execution.ledger.attempts.made_between(*place, min(starts) - MARGIN, max(ends) + MARGIN)
    return replace(check, examined=gets, unseen=max(0, gets - own))


def _end_of_interval(
    descriptor: bytes, found: QueueStatistics | None, check: EvidenceCheck
) -> datetime | None:
    """Return when the interval of statistics ended, None if that is not in the time of a check."""
    if found is None or check.since is None:
        return None
    date, time = (descriptor[at].decode("latin-1") for at in (_PUT_DATE, _PUT_TIME))
    end = parse_gmt(date, time)
    return end if end is not None and check.since <= end < check.at else None


STREAM: Final = "stream"
MAX_COPIES: Final = 200_000
"""How many copies are browsed at most."""

MAX_RECONSTRUCTED: Final = 250
"""For how many copies the report options of the original are tried, 512 combinations each."""

MAX_SNAPSHOTS: Final = 100
"""How many earlier snapshots are read at most, the latest ones."""


def inquire_stream_queue(queue_manager: QueueManager, queue: str) -> str:
    """Return the STREAMQ of a queue, "" if it has none; raises QueueManagerError."""
    selector = queue_manager.client.CMQC.MQCA_STREAM_QUEUE_NAME
    return str(queue_manager.inquire_queue(queue, selector))


def browse_stream(execution: Execution) -> Checking:
    """Browse the stream queue of a run's queue, before the snapshot of the run.

    Errors become the `trouble` of the check, and a warning in the log. The first check of a queue
    has no copies: it only begins the time of the next one.
    """
    run, now = execution.run, execution.clock()
    since = execution.ledger.evidence.last_at(run.queue_manager, run.queue, STREAM)
    browse = Checking(EvidenceCheck(STREAM, "", since, now))
    with (
        browse.noting_trouble(execution, "stream queue"),
        connect(execution.settings) as queue_manager,
    ):
        source = inquire_stream_queue(queue_manager, run.queue)
        browse.check = replace(browse.check, source=source)
        if not source:
            browse.check = replace(browse.check, trouble="the queue has no STREAMQ")
            execution.log.warning(
                "queue %s has no stream queue, so that `evidence: stream` has no effect; define one"
                " with ALTER QLOCAL(%s) STREAMQ(…) [MQDLQ-139]",
                run.queue,
                run.queue,
            )
        elif since is not None:
            _browse_since(queue_manager, browse, since, run.queue_kind)
    return browse


def _browse_since(
    queue_manager: QueueManager, browse: Checking, since: datetime, queue_kind: QueueKind
) -> None:
    check, copies = browse.check, dict[bytes, BrowsedMessage]()
    with queue_manager.browsing(check.source) as opened:
        cursor = BrowseCursor(queue_manager, opened, check.source)
        for number, copy in enumerate(cursor.messages(), start=1):
            if number > MAX_COPIES:
                trouble = f"it has more than {MAX_COPIES:,} messages; remove old copies from it"
                browse.check = replace(check, trouble=trouble)
                return
            put_at = put_on_queue_at(copy, queue_kind)
            if put_at is not None and since <= put_at < check.at:
                copies.setdefault(key_of(copy), copy)
    browse.check, browse.copies = replace(check, examined=len(copies)), copies


def record_stream_check(execution: Execution, browse: Checking) -> None:
    """Compare the copies with the snapshots since the last check, and record the result."""
    with browse.noting_trouble(execution, "stream queue"):
        unseen, is_exact = _find_unseen(execution, browse.check, set(browse.copies))
        doubtful = sorted(unseen)[:MAX_RECONSTRUCTED]
        possible = {key: one for one in doubtful for key in possible_keys(browse.copies[one])}
        never_seen, _ = _find_unseen(execution, browse.check, set(possible))
        is_exact = is_exact and len(doubtful) == len(unseen)
        unseen -= {one for key, one in possible.items() if key not in never_seen}
        browse.check = replace(browse.check, unseen=len(unseen), is_exact=is_exact)
    execution.ledger.evidence.record(execution.run.run_id, browse.check)


def _find_unseen(
    execution: Execution, check: EvidenceCheck, keys: set[bytes]
) -> tuple[set[bytes], bool]:
    """Return the keys that neither the ledger nor a snapshot has, and if all could be read."""
    if not keys:
        return set(), True
    run, ledger, is_complete = execution.run, execution.ledger, True
    place = run.queue_manager, run.queue
    left = keys - ledger.messages.known_keys(*place, keys)
    own = ledger.snapshots.of_run(run.run_id)
    earlier = ledger.snapshots.taken_between(*place, check.since or check.at, check.at)
    if len(earlier) > MAX_SNAPSHOTS:
        earlier, is_complete = earlier[-MAX_SNAPSHOTS:], False
    for taken in filter(None, [own, *earlier]):
        try:
            left -= set(lake.count_keys(taken.location, left)) if left else set()
        except Exception:  # noqa: BLE001 (pruned or damaged; each store has its own errors)
            is_complete = False
    return left, is_complete


# A copy has the MQMD, the properties and the data of its original. Its Expiry is unlimited, which
# a message key leaves out, and its Report lacks the options that request reports from the queue
# manager (IBM MQ docs, "Streaming queues configuration").

_REPORT: Final = MQMD.slice_of("report")
_PUT_AT: Final = MQMD.slice_of("put_date", "put_time")
_DEAD_LETTERED_AT: Final = MQDLH.slice_of("put_date", "put_time")
_DATE_LENGTH: Final = 8
_LONG: Final = struct.Struct("=i")

_REMOVED: Final = (
    (0, 0x100, 0x300, 0x700),  # MQRO_COA, with data, with full data
    (0, 0x800, 0x1800, 0x3800),  # MQRO_COD
    (0, 0x200000, 0x600000, 0xE00000),  # MQRO_EXPIRATION
    (0, 0x1000000, 0x3000000, 0x7000000),  # MQRO_EXCEPTION
    (0, 0x4),  # MQRO_ACTIVITY
)


def put_on_queue_at(copy: BrowsedMessage, queue_kind: QueueKind) -> datetime | None:
    """Return when a message was put on the queue, by its copy.

    That is the time in its MQDLH; on a queue of another kind than a dead-letter queue, the time in
    its MQMD if it has no MQDLH. None if there is no such time: a copy without an MQDLH may be of
    another queue with the same stream queue.
    """
    family = STRUC_IDS.get(copy.prefix[:4])
    if family is None or len(copy.prefix) < DLH_LENGTH:
        if queue_kind is QueueKind.DEAD_LETTER:
            return None
        text = copy.descriptor[_PUT_AT].decode("latin-1")
    else:
        codec = "ascii" if family is Family.ASCII else "cp500"
        text = copy.prefix[_DEAD_LETTERED_AT].decode(codec, "replace")
    return parse_gmt(text[:_DATE_LENGTH], text[_DATE_LENGTH:])


def possible_keys(copy: BrowsedMessage) -> Iterator[bytes]:
    """Yield the keys of the original for each combination of report options that a copy lacks."""
    descriptor = bytearray(copy.descriptor)
    (report,) = _LONG.unpack(descriptor[_REPORT])
    for options in product(*_REMOVED):
        descriptor[_REPORT] = _LONG.pack(report | sum(options))
        yield message_key(bytes(descriptor), copy.total_length, copy.prefix)
