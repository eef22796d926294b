"""The behaviours of a queue manager on which the handler relies, and the bench that tries them."""

import inspect
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from mqdlq.constants import MQRC, reason_text
from mqdlq.diagnosis.looking import Look, NotToldError
from mqdlq.errors import AnotherExecutorError, CertificationError, QueueManagerError
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage, browse_with_properties
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.state_queue import Marker, StateQueue, open_state_queue
from mqdlq.mqi.unit_of_work import HEADER_REASONS, Delivery, GotMessage, Syncpoint, UnitOfWork
from mqdlq.structures import MQDLH

# The scratch queues, and the commands that define them.

DEFAULT_PREFIX: Final = "MQDLQ.CERT."
TEMPORARY: Final = "mqdlq certify: scratch queue, deleted after the run"
"""DESCR of a scratch queue that `mqdlq certify` has created and deletes."""
KEPT: Final = "mqdlq certify: scratch queue, emptied after the run"
"""DESCR of a scratch queue that an administrator has defined and `mqdlq certify` only empties."""

_PREFIX: Final = re.compile(r"[A-Za-z0-9._/%]{1,40}")
_CONNECT: Final = "CONNECT,INQ"
_SET_CONTEXT: Final = "SETALL"
QUEUE_AUTHORITIES: Final = "BROWSE,GET,PUT,INQ,PASSALL"
"""The authorities that every behaviour except restoring needs on each scratch queue."""


Attribute = tuple[str, str, int]
"""An attribute of a queue: as MQSC, and as selector and value of the MQI."""

# The site may have changed the defaults of these in SYSTEM.DEFAULT.LOCAL.QUEUE.
_COMMON: Final[tuple[Attribute, ...]] = (
    ("SHARE", "MQIA_SHAREABILITY", 1),
    ("DEFSOPT(SHARED)", "MQIA_DEF_INPUT_OPEN_OPTION", 2),
    ("MSGDLVSQ(PRIORITY)", "MQIA_MSG_DELIVERY_SEQUENCE", 0),
)


class ScratchQueue:
    """A local queue with the common attributes and its own; its name is a prefix and a suffix."""

    def __init__(self, suffix: str, *own: Attribute) -> None:
        self.suffix = suffix
        self.attributes = (*_COMMON, *own)

    def name(self, prefix: str) -> str:
        return prefix + self.suffix

    def mqsc(self, prefix: str) -> str:
        attributes = " ".join(mqsc for mqsc, _, _ in self.attributes)
        return f"DEFINE QLOCAL('{self.name(prefix)}') {attributes} +\n  DESCR('{KEPT}')"


SOURCE: Final = ScratchQueue("SOURCE", ("MAXDEPTH(100)", "MQIA_MAX_Q_DEPTH", 100))
TARGET: Final = ScratchQueue("TARGET", ("MAXDEPTH(100)", "MQIA_MAX_Q_DEPTH", 100))
STATE: Final = ScratchQueue("STATE", ("DEFPSIST(YES)", "MQIA_DEF_PERSISTENCE", 1))
FULL: Final = ScratchQueue("FULL", ("MAXDEPTH(1)", "MQIA_MAX_Q_DEPTH", 1))
NO_PUT: Final = ScratchQueue("NOPUT", ("PUT(DISABLED)", "MQIA_INHIBIT_PUT", 1))
NO_GET: Final = ScratchQueue("NOGET", ("GET(DISABLED)", "MQIA_INHIBIT_GET", 1))
SHORT: Final = ScratchQueue("SHORT", ("MAXMSGL(100)", "MQIA_MAX_MSG_LENGTH", 100))
LOCK: Final = ScratchQueue("LOCK")
"""A run holds it for exclusive input, so that a second one does not use the same queues."""
MISSING: Final = ScratchQueue("MISSING")
"""A name under the prefix that is never defined."""

SCRATCH_QUEUES: Final = (LOCK, SOURCE, TARGET, STATE, FULL, NO_PUT, NO_GET, SHORT)


def check_prefix(prefix: str) -> str:
    """Return the prefix; raise CertificationError if no queue can have it, or it is IBM's."""
    if not _PREFIX.fullmatch(prefix):
        raise CertificationError(
            "MQDLQ-951",
            f"--scratch-prefix {prefix!r} is not valid; use 1 to 40 letters, digits and . _ / %,"
            f" such as {DEFAULT_PREFIX}",
        )
    if prefix.upper().startswith("SYSTEM"):
        raise CertificationError(
            "MQDLQ-951",
            f"--scratch-prefix {prefix!r} is not valid; names that begin with SYSTEM are IBM's, use"
            f" a prefix such as {DEFAULT_PREFIX}",
        )
    return prefix


def administrator_commands(prefix: str, user: str) -> Iterator[str]:
    principal = f"PRINCIPAL('{user or '…'}')"
    yield "* The scratch queues of mqdlq certify; it empties them after a run."
    yield from (queue.mqsc(prefix) for queue in SCRATCH_QUEUES)
    yield "* The authorities that it needs."
    yield f"SET AUTHREC OBJTYPE(QMGR) {principal} AUTHADD({_CONNECT})"
    profile = f"PROFILE('{prefix}**') OBJTYPE(QUEUE)"
    yield f"SET AUTHREC {profile} {principal} +\n  AUTHADD({QUEUE_AUTHORITIES})"
    yield "* To restore messages, a user sets their context; without SETALL this is not tried."
    yield f"SET AUTHREC OBJTYPE(QMGR) {principal} AUTHADD({_SET_CONTEXT})"
    yield f"SET AUTHREC {profile} {principal} AUTHADD({_SET_CONTEXT})"


# What a behaviour expects. A body or a field of a message never appears in a deviation: only
# numbers of messages, names of fields, and reason codes.

NATIVE, LATIN_1 = 546, 819
DEAD_LETTER: Final[dict[str, Any]] = {
    "Format": b"MQDEAD  ",
    "Encoding": NATIVE,
    "CodedCharSetId": LATIN_1,
}
"""The fields of an MQMD that describe an MQDLH."""
MOST_MESSAGES: Final = 100
HELD_MS: Final = 250
"""How long a behaviour waits for an expiry, in milliseconds."""
NOT_FOUND: Final = (MQRC["MQRC_NO_MSG_AVAILABLE"], MQRC["MQRC_NO_MSG_UNDER_CURSOR"])

Shown = str | int | Sequence[int] | Sequence[str]
"""The values that a report may show."""


class DeviationError(Exception):
    """The queue manager does not do what the handler relies on."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(expected, seen)
        self.expected, self.seen = expected, seen


class NotTriedError(Exception):
    """A behaviour cannot be tried on this queue manager; the text is why."""


def expect(subject: str, wanted: Shown, seen: Shown) -> None:
    if wanted != seen:
        raise DeviationError(f"{subject}: {_text(wanted)}", f"{subject}: {_text(seen)}")


def expect_fields(wanted: Mapping[str, Any], descriptor: Any) -> None:
    """Raise DeviationError, which names the fields of an MQMD that differ from `wanted`."""
    changed = [name for name, value in wanted.items() if getattr(descriptor, name) != value]
    expect("changed fields", [], changed)


def expect_same(subject: str, wanted: bytes, seen: bytes) -> None:
    expect(subject, "unchanged", "unchanged" if wanted == seen else "changed")


def _text(value: Shown) -> str:
    if isinstance(value, str | int):
        return str(value)
    return ", ".join(map(str, value)) or "none"


def body_of(number: int) -> bytes:
    return b"mqdlq certify, message %d" % number


def number_of(body: bytes) -> int:
    return next((number for number in range(1, 10) if body_of(number) == body), 0)


def dead_letter_header() -> bytes:
    header = MQDLH(
        reason=2053,
        dest_q_name=b"MQDLQ".ljust(48),
        dest_q_mgr_name=b"MQDLQ".ljust(48),
        encoding=NATIVE,
        coded_char_set_id=LATIN_1,
        format=b"MQSTR   ",
        put_appl_type=6,
        put_appl_name=b"mqdlq certify".ljust(28),
        put_date=b"20260101",
        put_time=b"12000000",
    )
    return header.pack()


class Application:
    """One connection, and the calls that behaviours make on it.

    Options are given by name without their prefix: ``app.open(SOURCE, "OUTPUT", "INQUIRE")``. Each
    failing call raises QueueManagerError.
    """

    def __init__(self, queue_manager: QueueManager, prefix: str) -> None:
        self.queue_manager, self.prefix = queue_manager, prefix

    def number(self, name: str) -> int:
        return int(getattr(self.queue_manager.client.CMQC, name))

    def options(self, family: str, names: Sequence[str]) -> int:
        return sum(self.number(f"{family}_{name}") for name in names)

    def open(self, queue: ScratchQueue, *options: str) -> Any:
        """Open a scratch queue (MQOPEN); the end of the connection closes it."""
        return self.queue_manager.open(queue.name(self.prefix), self.options("MQOO", options))

    def descriptor(self, **fields: Any) -> Any:
        return self.queue_manager.client.packed.MD(**fields)

    def put(
        self, queue: ScratchQueue | None, content: int | bytes, *options: str, **fields: Any
    ) -> Any:
        """Put a numbered message, or one with the given body (MQPUT1); return its MQMD.

        Without a queue, the name of the queue is blank.
        """
        client = self.queue_manager.client
        target, pmo = client.packed.OD(), client.packed.PMO()
        target.ObjectName = queue.name(self.prefix).encode() if queue else b""
        pmo.Options = self.options("MQPMO", options or ("NO_SYNCPOINT",))
        md = self.descriptor(**fields)
        body = body_of(content) if isinstance(content, int) else content
        with client.translating_errors("MQPUT1", "queue"):
            self.queue_manager.handle.put1(target, body, md, pmo)
        return md

    def put_numbered(self, queue: ScratchQueue, *numbers: int) -> None:
        for number in numbers:
            self.put(queue, number)

    def get(
        self, opened: Any, *options: str, length: int | None = None, **fields: Any
    ) -> tuple[bytes, Any]:
        """Get a message (MQGET) from an open queue; return its body and its MQMD.

        `fields` are fields of the MQGMO. Without a length, the client gets the whole message.
        Properties are left out: IBM MQ for z/OS adds its own with OTELTRAC(ON).
        """
        client = self.queue_manager.client
        gmo, md = client.packed.GMO(), self.descriptor()
        gmo.Options = self.options("MQGMO", ("NO_PROPERTIES", *(options or ("NO_SYNCPOINT",))))
        gmo.MatchOptions = client.CMQC.MQMO_NONE
        for name, value in fields.items():
            setattr(gmo, name, value)
        with client.translating_errors("MQGET", "queue"):
            return bytes(opened.get(length, md, gmo)), md

    def get_all(self, queue: ScratchQueue) -> list[tuple[bytes, Any]]:
        opened = self.open(queue, "INPUT_SHARED")
        found: list[tuple[bytes, Any]] = []
        with _none_found():
            while len(found) < MOST_MESSAGES:
                found.append(self.get(opened))
        self.queue_manager.close(opened)
        return found

    def get_one(self, queue: ScratchQueue) -> tuple[bytes, Any]:
        found = self.get_all(queue)
        expect("messages", 1, len(found))
        return found[0]

    def browse(self, queue: ScratchQueue) -> list[int]:
        """Browse a queue as a snapshot does; return the numbers of its messages."""
        opened = self.open(queue, "BROWSE")
        messages = BrowseCursor(self.queue_manager, opened, "scratch queue").messages()
        found = [number_of(each.prefix) for each in islice(messages, MOST_MESSAGES)]
        self.queue_manager.close(opened)
        return found

    def cursor(self, queue: ScratchQueue = SOURCE) -> BrowseCursor:
        """Open a queue as an executor opens its dead-letter queue."""
        opened = self.open(queue, "BROWSE", "INPUT_SHARED", "SAVE_ALL_CONTEXT")
        return BrowseCursor(self.queue_manager, opened, "scratch queue")

    def first(self, cursor: BrowseCursor) -> BrowsedMessage:
        """Browse the first message; an empty queue is a deviation."""
        for message in cursor.messages():
            return message
        raise DeviationError("a browse returns the message", "a browse returns no message")

    def get_browsed(self, cursor: BrowseCursor, message: BrowsedMessage) -> GotMessage:
        with UnitOfWork(cursor) as unit:
            got = unit.get_under_cursor(message.total_length)
            unit.commit()
        return got

    def move_first(self, *, commit: bool = True) -> None:
        """Move the first message of SOURCE to TARGET as an executor does, with all its context."""
        cursor = self.cursor()
        message = self.first(cursor)
        with UnitOfWork(cursor) as unit:
            got = unit.get_under_cursor(message.total_length)
            unit.put(got, Delivery(TARGET.name(self.prefix), "", got.body))
            if commit:
                unit.commit()

    def move_and_get(self) -> tuple[bytes, Any]:
        self.move_first()
        return self.get_one(TARGET)

    def restore(self, descriptor: bytes, body: bytes) -> None:
        """Put a message with the context in its packed MQMD to TARGET, as a restoration does."""
        with Syncpoint(self.queue_manager) as unit:
            delivery = Delivery(TARGET.name(self.prefix), "", body)
            unit.put_with_original_context(descriptor, delivery)
            unit.commit()

    def depth(self, queue: ScratchQueue) -> int:
        return self.queue_manager.depth(queue.name(self.prefix))

    def commit(self) -> None:
        with self.queue_manager.client.translating_errors("MQCMIT", "the queue manager"):
            self.queue_manager.handle.commit()

    def back_out(self) -> None:
        self.queue_manager.back_out()

    def wait(self) -> None:
        """Let an expiry pass, by waiting for a message on TARGET that does not come."""
        opened = self.open(TARGET, "INPUT_SHARED")
        with _none_found():
            self.get(opened, "WAIT", "NO_SYNCPOINT", WaitInterval=HELD_MS)


@contextmanager
def _none_found() -> Iterator[None]:
    try:
        yield
    except QueueManagerError as error:
        if error.reason not in NOT_FOUND:
            raise


@contextmanager
def expect_reason(call: str, *names: str) -> Iterator[None]:
    """Expect the block to end with one of these reason codes; `call` names it in a deviation."""
    expected = " or ".join(reason_text(MQRC[name]) for name in names)
    try:
        yield
    except QueueManagerError as error:
        if error.reason in {MQRC[name] for name in names}:
            return
        if error.reason == MQRC["MQRC_NOT_AUTHORIZED"]:
            raise
        raise DeviationError(f"{call}: {expected}", reason_text(error.reason)) from error
    raise DeviationError(f"{call}: {expected}", f"{call} succeeds")


class Bench(Application):
    """The first connection of a behaviour, which opens the others."""

    def __init__(self, connect: Callable[[], QueueManager], prefix: str) -> None:
        super().__init__(connect(), prefix)
        self._connect = connect
        self._opened: list[Application] = [self]

    def another(self) -> Application:
        application = Application(self._connect(), self.prefix)
        self._opened.append(application)
        return application

    def close(self) -> None:
        for application in self._opened:
            with suppress(QueueManagerError):
                application.back_out()
                application.queue_manager.disconnect()


# Declare behaviours of a queue manager on which the handler relies.

Check = Callable[[Bench], str | None]
"""Try a behaviour; return a remark for the report, or None.

Raises DeviationError, NotTriedError, or QueueManagerError for a call that must not fail.
"""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A behaviour: the statement that holds, and what a difference means for the handler."""

    name: str
    statement: str
    consequence: str
    check: Check


def behaviour(consequence: str) -> Callable[[Check], Behaviour]:
    """Turn the decorated function, whose docstring begins with the statement, into a behaviour."""

    def declare(check: Check) -> Behaviour:
        statement = (inspect.getdoc(check) or "").partition("\n")[0]
        return Behaviour(check.__name__, statement, consequence, check)

    return declare


# Browsing: order, visibility, cursors, and lengths.

LENGTH = 5000


@behaviour(
    "a snapshot has another order than the queue, so that equal messages are mistaken for each"
    " other, and messages for one target change places: do not let the handler act"
)
def a_browse_returns_messages_in_the_order_of_their_puts(bench: Bench) -> None:
    """A browse returns messages of equal priority in the order in which they were put."""
    # IBM MQ docs, "Order in which messages are retrieved from a queue".
    bench.put_numbered(SOURCE, 1, 2, 3)
    expect("messages", [1, 2, 3], bench.browse(SOURCE))


@behaviour("messages of high priority are handled after others; each message still has its outcome")
def a_browse_returns_higher_priorities_first(bench: Bench) -> None:
    """A browse returns messages of higher priority first."""
    # IBM MQ docs, "MsgDeliverySequence": MQMDS_PRIORITY.
    for number, priority in ((1, 2), (2, 9), (3, 5)):
        bench.put(SOURCE, number, Priority=priority)
    expect("messages", [2, 3, 1], bench.browse(SOURCE))


@behaviour("snapshots remove messages: do not let the handler browse")
def a_browse_removes_no_message(bench: Bench) -> None:
    """A browse leaves the messages on the queue, and does not change their BackoutCount."""
    # IBM MQ docs, "Browsing messages on a queue".
    bench.put_numbered(SOURCE, 1, 2)
    bench.browse(SOURCE)
    expect("messages", 2, bench.depth(SOURCE))
    found = bench.get_all(SOURCE)
    expect("messages", [1, 2], [number_of(body) for body, _ in found])
    expect("BackoutCount", [0, 0], [md.BackoutCount for _, md in found])


@behaviour(
    "a snapshot has messages that may still be backed out, or that another program is getting; the"
    " run books them as taken"
)
def a_browse_skips_uncommitted_messages(bench: Bench) -> None:
    """A browse shows neither uncommitted puts nor uncommitted gets of another application."""
    # IBM MQ docs, "Browsing messages on a queue".
    bench.put_numbered(SOURCE, 1, 2)
    other = bench.another()
    other.get(other.open(SOURCE, "INPUT_SHARED"), "SYNCPOINT")
    other.put(SOURCE, 3, "SYNCPOINT")
    expect("messages", [2], bench.browse(SOURCE))


@behaviour(
    "the handler could act on another message than the rule was for: do not let the handler act"
)
def a_get_under_the_cursor_gets_the_browsed_message(bench: Bench) -> None:
    """A get under the browse cursor gets the message that was browsed last, whatever its ids."""
    # IBM MQ docs, "MQGMO options": MQGMO_MSG_UNDER_CURSOR.
    bench.put_numbered(SOURCE, 1, 2, 3)
    cursor = bench.cursor()
    browsed = list(islice(cursor.messages(), 2))[-1]
    got = bench.get_browsed(cursor, browsed)
    expect("message", 2, number_of(got.body))
    expect("messages that stay", [1, 3], sorted(bench.browse(SOURCE)))


@behaviour(
    "the handler cannot see that another program was faster; it may then act on another message"
)
def a_message_that_another_application_got_is_not_under_the_cursor(bench: Bench) -> None:
    """A get under the cursor fails if another application has got the message since."""
    # IBM MQ docs, "2034 (07F2) (RC2034): MQRC_NO_MSG_UNDER_CURSOR".
    bench.put_numbered(SOURCE, 1)
    cursor = bench.cursor()
    length = bench.first(cursor).total_length
    other = bench.another()
    other.get(other.open(SOURCE, "INPUT_SHARED"))
    with (
        UnitOfWork(cursor) as unit,
        expect_reason("MQGET", "MQRC_NO_MSG_UNDER_CURSOR", "MQRC_NO_MSG_AVAILABLE"),
    ):
        unit.get_under_cursor(length)


@behaviour(
    "the handler finds messages by walking the queue, which takes long on a deep queue, or fails to"
    " find them and books them as taken"
)
def a_message_token_finds_its_message(bench: Bench) -> None:
    """A browse with the MsgToken of a message finds this message."""
    # IBM MQ docs, "MatchOptions (MQGMO)": MQMO_MATCH_MSG_TOKEN.
    bench.put_numbered(SOURCE, 1, 2, 3)
    cursor = bench.cursor()
    tokens = [message.token for message in cursor.messages()]
    found = cursor.find(tokens[1])
    expect("message", 2, number_of(found.prefix) if found else "no message")


@behaviour(
    "the handler takes long messages for short ones, and their data could be lost: do not let the"
    " handler act"
)
def a_browse_of_the_first_bytes_states_the_whole_length(bench: Bench) -> None:
    """A browse with a short buffer returns the first bytes and the length of the whole message."""
    # IBM MQ docs, "2079 (081F) (RC2079): MQRC_TRUNCATED_MSG_ACCEPTED".
    body = body_of(1).ljust(LENGTH)
    bench.put(SOURCE, body)
    cursor = bench.cursor()
    message = bench.first(cursor)
    expect("length", LENGTH, message.total_length)
    expect("bytes", 172, len(message.prefix))
    got = bench.get_browsed(cursor, message)
    expect_same("data", body, got.body)


@behaviour("a message that has grown since it was browsed loses data: do not let the handler act")
def a_get_with_a_short_buffer_leaves_the_message(bench: Bench) -> None:
    """A get with a short buffer fails, and the whole message stays on the queue."""
    # IBM MQ docs, "2080 (0820) (RC2080): MQRC_TRUNCATED_MSG_FAILED".
    body = body_of(1).ljust(LENGTH)
    bench.put(SOURCE, body)
    opened = bench.open(SOURCE, "INPUT_SHARED")
    with expect_reason("MQGET", "MQRC_TRUNCATED_MSG_FAILED"):
        bench.get(opened, length=100)
    expect("messages", 1, bench.depth(SOURCE))
    whole, _ = bench.get(opened)
    expect_same("data", body, whole)


@behaviour(
    "a discard compares the archived copy with the message that it removes; each discard would fail"
    " and leave its message"
)
def a_browse_and_a_get_return_the_same_message(bench: Bench) -> None:
    """A browse and a get return the same MQMD and the same data."""
    # IBM MQ docs, "MQGET - Get message".
    bench.put(SOURCE, 1, CorrelId=b"c" * 24, ReplyToQ=b"REPLIES", Feedback=266)
    cursor = bench.cursor()
    browsed = bench.first(cursor)
    got = bench.get_browsed(cursor, browsed)
    expect("MQMD", "the same", "the same" if got.descriptor.pack() == browsed.descriptor else "not")
    expect("message", number_of(browsed.prefix), number_of(got.body))


@behaviour("an empty queue looks like a failure; each run fails")
def the_end_of_a_queue_has_its_reason_code(bench: Bench) -> None:
    """A browse and a get of an empty queue fail with MQRC_NO_MSG_AVAILABLE."""
    # IBM MQ docs, "2033 (07F1) (RC2033): MQRC_NO_MSG_AVAILABLE".
    opened = bench.open(SOURCE, "BROWSE", "INPUT_SHARED")
    for option in ("BROWSE_FIRST", "NO_SYNCPOINT"):
        with expect_reason("MQGET", "MQRC_NO_MSG_AVAILABLE"):
            bench.get(opened, option)


# Units of work: commit, back out, visibility, and the markers on the state queue.

DO_NOT_ACT = "do not let the handler act"


@behaviour(f"other programs get messages that are then backed out, and are doubled: {DO_NOT_ACT}")
def a_put_is_invisible_until_it_is_committed(bench: Bench) -> None:
    """A message put under syncpoint is invisible to other applications until MQCMIT."""
    # IBM MQ docs, "MQPMO options": MQPMO_SYNCPOINT.
    bench.put(TARGET, 1, "SYNCPOINT")
    other = bench.another()
    expect("messages before MQCMIT", [], other.browse(TARGET))
    bench.commit()
    expect("messages after MQCMIT", [1], other.browse(TARGET))


@behaviour(f"two programs handle the same message: {DO_NOT_ACT}")
def a_message_got_is_invisible_until_the_unit_ends(bench: Bench) -> None:
    """A message got under syncpoint is invisible to other applications until the unit ends."""
    # IBM MQ docs, "MQGMO options": MQGMO_SYNCPOINT.
    bench.put_numbered(SOURCE, 1, 2)
    bench.get(bench.open(SOURCE, "INPUT_SHARED"), "SYNCPOINT")
    other = bench.another()
    body, _ = other.get(other.open(SOURCE, "INPUT_SHARED"))
    expect("message", 2, number_of(body))
    expect("messages", [], other.browse(SOURCE))


@behaviour(f"messages are lost or doubled after a commit: {DO_NOT_ACT}")
def a_commit_keeps_the_puts_and_gets_of_its_unit(bench: Bench) -> None:
    """MQCMIT moves a message: it is on its target and no longer on its queue."""
    # IBM MQ docs, "MQCMIT - Commit changes".
    bench.put_numbered(SOURCE, 1)
    bench.move_first()
    other = bench.another()
    expect("messages on the queue", [], other.browse(SOURCE))
    expect("messages on the target", [1], other.browse(TARGET))


@behaviour(f"a failed put loses or doubles the messages of its unit of work: {DO_NOT_ACT}")
def a_backed_out_unit_leaves_the_queues_as_they_were(bench: Bench) -> None:
    """MQBACK returns messages to their places on the queue, and removes the puts of the unit."""
    # IBM MQ docs, "MQBACK - Back out changes".
    bench.put_numbered(SOURCE, 1, 2)
    bench.move_first(commit=False)
    other = bench.another()
    expect("messages on the target", [], other.browse(TARGET))
    left = [number_of(body) for body, _ in other.get_all(SOURCE)]
    expect("messages on the queue", [1, 2], left)


@behaviour(
    "snapshots do not mark messages that other programs have backed out; nothing else depends on it"
)
def a_backed_out_get_counts(bench: Bench) -> None:
    """BackoutCount counts the gets of a message that were backed out."""
    # IBM MQ docs, "BackoutCount (MQMD)".
    bench.put_numbered(SOURCE, 1)
    for _ in range(2):
        bench.move_first(commit=False)
    expect("BackoutCount", [2], [md.BackoutCount for _, md in bench.get_all(SOURCE)])


@behaviour(
    "the handler backs out before it disconnects, so that nothing is lost; other programs may rely"
    " on it"
)
def disconnecting_commits(bench: Bench) -> None:
    """MQDISC commits an open unit of work."""
    # IBM MQ docs, "MQDISC - Disconnect queue manager".
    other = bench.another()
    other.put(TARGET, 1, "SYNCPOINT")
    other.queue_manager.disconnect()
    expect("messages", [1], bench.another().browse(TARGET))


@behaviour(
    "markers cannot be trusted: after a lost connection, outcomes are wrong. Do not define the"
    " state queue: then each unit of work has one message, and an uncertain one is `unknown`"
)
def a_marker_is_there_if_its_unit_was_committed(bench: Bench) -> None:
    """A marker is on the state queue after MQCMIT of its unit of work, and not after MQBACK."""
    # IBM MQ docs, "MQPUT1 - Put one message", "MsgId (MQMD)".
    name = STATE.name(bench.prefix)
    with open_state_queue(bench.queue_manager, name) as state:
        backed_out, committed = (Marker(secrets.token_hex(24), *"rpmw") for _ in range(2))
        state.put(backed_out)
        bench.back_out()
        expect("markers after MQBACK", 0, len(state.markers()))
        state.put(committed)
        bench.commit()
        is_there = [marker.unit for marker in state.markers()] == [committed.unit]
        expect("markers after MQCMIT", "its own", "its own" if is_there else "others or none")
        state.clear(committed.unit)
        bench.commit()
        expect("markers after it is cleared", 0, len(state.markers()))


@behaviour(
    "two executors can act on one dead-letter queue at once: run only one, for example in a pool of"
    " one slot"
)
def a_state_queue_has_one_executor(bench: Bench) -> None:
    """A queue that is open for exclusive input cannot be opened for input a second time."""
    # IBM MQ docs, "2042 (07FA) (RC2042): MQRC_OBJECT_IN_USE".
    other = bench.another()
    name = STATE.name(bench.prefix)
    with open_state_queue(bench.queue_manager, name) as state:
        expect("marker store", StateQueue.__name__, type(state).__name__)
        try:
            with open_state_queue(other.queue_manager, name):
                raise DeviationError(
                    "MQOPEN: MQRC_OBJECT_IN_USE (2042)", "MQOPEN succeeds a second time"
                )
        except AnotherExecutorError:
            pass
    with open_state_queue(other.queue_manager, name) as state:
        expect("marker store", StateQueue.__name__, type(state).__name__)


@behaviour("the handler cannot tell how many messages a unit of work may have: no run acts")
def the_limit_of_a_unit_of_work_can_be_inquired(bench: Bench) -> str:
    """MQINQ returns MaxUncommittedMsgs of the queue manager."""
    # IBM MQ docs, "MaxUncommittedMsgs (MQLONG)".
    limit = bench.queue_manager.inquire(bench.number("MQIA_MAX_UNCOMMITTED_MSGS"))
    expect("MaxUncommittedMsgs", "positive", "positive" if limit > 0 else "not positive")
    return f"MAXUMSGS({limit})"


@behaviour("sensing starts runs for no message, or starts none: watch the queue by other means")
def the_depth_counts_committed_messages(bench: Bench) -> None:
    """CurrentQDepth is the number of messages on a queue."""
    # IBM MQ docs, "CurrentQDepth (MQLONG)".
    expect("depth", 0, bench.depth(SOURCE))
    bench.put_numbered(SOURCE, 1, 2)
    expect("depth", 2, bench.another().depth(SOURCE))
    bench.get_all(SOURCE)
    expect("depth", 0, bench.depth(SOURCE))


# Moving messages: their context, identifiers, expiry, data and headers.

CONTEXT: Final[dict[str, Any]] = {
    "UserIdentifier": b"mqdlq".ljust(12),
    "AccountingToken": b"\x01\x02\0\x03".ljust(32, b"\0"),
    "ApplIdentityData": b"identity".ljust(32),
    "PutApplType": 28,
    "PutApplName": b"mqdlq certify".ljust(28),
    "PutDate": b"19991231",
    "PutTime": b"23595999",
    "ApplOriginData": b"orig",
}
"""A context that no queue manager generates."""
IDENTIFIERS: Final = {"MsgId": b"m" * 24, "CorrelId": b"c" * 24}
DESCRIPTION: Final = {"Format": b"MQSTR   ", "Encoding": 273, "CodedCharSetId": 500}
EXPIRY: Final = 600
"""One minute, in tenths of a second."""
BINARY: Final = bytes(range(0, 256, 2)) + b"blanks and NULs  \0\0"
"""Data shorter than a browsed header, so that it is browsed whole."""
INVALID_HEADERS: Final = (b"MQDEAD  ", b"MQHRF2  ", b"MQXMIT  ")
"""Formats whose header is checked; the message has none."""


@behaviour(
    "moved messages lose the time and the user of their put; programs that check them refuse the"
    " messages"
)
def all_context_is_passed_with_a_message(bench: Bench) -> None:
    """A message that is moved keeps its identity context and its origin context."""
    # The message has no context, which a queue manager never generates by itself. IBM MQ docs,
    # "MQPMO options": MQPMO_PASS_ALL_CONTEXT, MQPMO_NO_CONTEXT; "MQOO_SAVE_ALL_CONTEXT".
    sent = bench.put(SOURCE, 1, "NO_SYNCPOINT", "NO_CONTEXT")
    _, arrived = bench.move_and_get()
    expect_fields({name: getattr(sent, name) for name in CONTEXT}, arrived)


@behaviour("restored messages have another user, date and time than the discarded ones")
def all_context_can_be_set(bench: Bench) -> None:
    """A message that is restored has the context of the discarded message."""
    # IBM MQ docs, "MQPMO options": MQPMO_SET_ALL_CONTEXT.
    _expect_restored(bench, CONTEXT)


@behaviour(
    "a restored message has another MsgId or CorrelId: programs that wait for a reply miss it"
)
def identifiers_stay_unless_new_ones_are_asked_for(bench: Bench) -> None:
    """A message put with MQPMO_SET_ALL_CONTEXT keeps its MsgId and its CorrelId."""
    # IBM MQ docs, "MsgId (MQMD)", "MQPMO options": MQPMO_NEW_MSG_ID.
    _expect_restored(bench, IDENTIFIERS)


def _expect_moved(app: Application, body: bytes, fields: dict[str, Any]) -> None:
    """Move the message, and expect that it keeps its data and these fields of its MQMD."""
    moved, arrived = app.move_and_get()
    expect("length", len(body), len(moved))
    expect_same("data", body, moved)
    expect_fields(fields, arrived)


def _expect_restored(app: Application, fields: dict[str, Any]) -> None:
    """Put a message with these fields as a restoration does, and expect that it keeps them."""
    app.restore(app.descriptor(**fields).pack(), b"restored")

    _, arrived = app.get_one(TARGET)
    expect_fields(fields, arrived)


@behaviour("moved messages have other identifiers, so that markers, replies and archives miss them")
def a_moved_message_keeps_its_identifiers(bench: Bench) -> None:
    """A message that is moved keeps its MsgId and its CorrelId."""
    # IBM MQ docs, "MsgId (MQMD)", "CorrelId (MQMD)".
    bench.put(SOURCE, 1, **IDENTIFIERS)
    _, arrived = bench.move_and_get()
    expect_fields(IDENTIFIERS, arrived)


@behaviour("moved messages are changed: do not let the handler act")
def a_moved_message_keeps_its_data(bench: Bench) -> None:
    """A message that is moved keeps its data, trailing blanks included, and their description."""
    # IBM MQ docs, "MQGET - Get message", "MQPUT1 - Put one message": without MQGMO_CONVERT the data
    # is unchanged.
    bench.put(SOURCE, BINARY, **DESCRIPTION)
    _expect_moved(bench, BINARY, DESCRIPTION)


@behaviour("messages of groups lose their place in the group")
def a_moved_message_keeps_its_group(bench: Bench) -> None:
    """A message that is moved keeps the fields of its group, which version 2 of the MQMD has."""
    # IBM MQ docs, "GroupId (MQMD)", "MsgSeqNumber (MQMD)", "MsgFlags (MQMD)".
    flags = bench.number("MQMF_MSG_IN_GROUP")
    group = {"GroupId": b"g" * 24, "MsgSeqNumber": 3, "MsgFlags": flags}
    bench.put(SOURCE, 1, **group)
    _, arrived = bench.move_and_get()
    expect_fields(group, arrived)


@behaviour("messages that a program may no longer see live as long as they did at first")
def the_remaining_expiry_moves_with_a_message(bench: Bench) -> None:
    """A message that is moved expires when it would have expired on its queue."""
    # IBM MQ docs, "Expiry (MQMD)": MQGET returns the remaining time.
    bench.put(SOURCE, 1, Expiry=EXPIRY)
    bench.wait()
    _, arrived = bench.move_and_get()
    counts_down = 0 < arrived.Expiry < EXPIRY
    expect("Expiry", "less than at the put", "less than at the put" if counts_down else "not less")


@behaviour("the handler moves expired messages, which their sender wanted to be lost")
def an_expired_message_is_not_returned(bench: Bench) -> None:
    """Neither a browse nor a get returns a message that has expired."""
    # IBM MQ docs, "Expiry (MQMD)".
    bench.put(SOURCE, 1, Expiry=1)
    bench.put(SOURCE, 2)
    bench.wait()
    expect("browsed messages", [2], bench.browse(SOURCE))
    body, _ = bench.get_one(SOURCE)
    expect("message", 2, number_of(body))


@behaviour("dead letters that are forwarded with HEADER(YES) or moved have another header")
def a_dead_letter_header_stays_unchanged(bench: Bench) -> None:
    """An MQDLH is data: a put, a browse and a get leave each of its bytes as it was."""
    # IBM MQ docs, "MQDLH - Dead-letter header".
    letter = dead_letter_header()
    bench.put(SOURCE, letter, **DEAD_LETTER)
    browsed = bench.first(bench.cursor())
    expect_same("browsed MQDLH", letter, browsed.prefix)
    _expect_moved(bench, letter, DEAD_LETTER)


@behaviour(
    "messages with a broken header cannot be moved: they stay on the dead-letter queue, and the"
    " report shows the reason code"
)
def a_message_with_an_invalid_header_can_be_moved(bench: Bench) -> str:
    """A message that lacks the header which its Format names can be moved unchanged."""
    # If the put with a version 2 MQMD is refused (2141, 2260, 2334), the handler puts the message
    # with version 1. IBM MQ docs, "Version (MQMD)", "2334 (091E) (RC2334): MQRC_RFH_ERROR".
    refused = set()
    for name in INVALID_HEADERS:
        described = DEAD_LETTER | {"Format": name}
        reason = _put_with_both_versions(bench, BINARY, described)
        refused |= {reason} if reason else set()
        _expect_moved(bench, BINARY, described)
        bench.get_all(SOURCE)
    if not refused:
        return "headers are not checked"
    return f"headers are checked with version 2: {', '.join(map(reason_text, sorted(refused)))}"


def _put_with_both_versions(app: Application, body: bytes, described: dict[str, Any]) -> int:
    """Put a message with a version 1 MQMD; return the reason code that version 2 gives, or 0."""
    if reason := _refusal(app, body, Version=1, **described):
        expected = "MQPUT1 with a version 1 MQMD: no header is checked"
        raise DeviationError(expected, reason_text(reason))
    return _refusal(app, body, **described)


def _refusal(app: Application, body: bytes, **fields: Any) -> int:
    """Put a message; return the reason code if its headers are refused, or 0."""
    try:
        app.put(SOURCE, body, **fields)
    except QueueManagerError as error:
        if error.reason not in HEADER_REASONS:
            raise
        return error.reason
    return 0


# Message properties and reports.

PROPERTIES: Final = {b"colour": "red", b"shop.size": 3}
PROPERTY_NAMES: Final = [name.decode() for name in PROPERTIES]
UNDELIVERABLE: Final = ("MQRO_PASS_DISCARD_AND_EXPIRY", "MQRO_DISCARD_MSG")
"""A report that cannot be delivered is discarded, and does not become a dead letter."""


def _put_with_properties(app: Application) -> None:
    client = app.queue_manager.client
    handle = client.module.MessageHandle(app.queue_manager.handle)
    for name, value in PROPERTIES.items():
        if isinstance(value, str):
            handle.properties.set(name, value)
        else:
            handle.properties.set(name, value, client.CMQC.MQTYPE_INT32, 4)
    pmo = client.packed.PMO()
    pmo.Options, pmo.NewMsgHandle = client.CMQC.MQPMO_NO_SYNCPOINT, handle.msg_handle
    opened = app.open(SOURCE, "OUTPUT")
    with client.translating_errors("MQPUT", "queue"):
        opened.put(b"body", app.descriptor(Format=b"MQSTR   "), pmo)


def _properties(app: Application, queue: ScratchQueue) -> list[str]:
    """Return the names of the properties that the message on a queue has with their values."""
    cursor = app.cursor(queue)
    app.first(cursor)
    found = []
    for name, value in PROPERTIES.items():
        try:
            if cursor.handle.properties.get(name) == value:
                found.append(name.decode())
        except app.queue_manager.client.module.MQMIError:
            continue
    return found


@behaviour(
    "moved messages lose their properties; JMS programs do not recognise them: do not let the"
    " handler act on messages of JMS programs"
)
def message_properties_move_with_a_message(bench: Bench) -> None:
    """A message that is moved keeps its message properties."""
    # IBM MQ docs, "MQGMO options": MQGMO_PROPERTIES_IN_HANDLE; "Action (MQPMO)": MQACTP_FORWARD.
    _put_with_properties(bench)
    expect("properties before", PROPERTY_NAMES, _properties(bench, SOURCE))
    bench.move_first()
    expect("properties after", PROPERTY_NAMES, _properties(bench, TARGET))


@behaviour("restored messages lack the properties of the discarded ones")
def message_properties_can_be_archived_and_restored(bench: Bench) -> None:
    """A message put with its properties in an MQRFH2 has the same properties again."""
    # IBM MQ docs, "MQGMO options": MQGMO_PROPERTIES_FORCE_MQRFH2; "MQRFH2 - Rules and formatting
    # header 2".
    _put_with_properties(bench)
    cursor = bench.cursor()
    message = bench.first(cursor)
    descriptor, body = browse_with_properties(cursor, message.total_length)
    bench.restore(descriptor, body)
    expect("properties", PROPERTY_NAMES, _properties(bench, TARGET))


def _asking_for_reports(app: Application, *kinds: str) -> dict[str, Any]:
    """Return the fields of an MQMD that ask for reports on the state queue."""
    report = sum(map(app.number, (*kinds, *UNDELIVERABLE)))
    return {"Report": report, "ReplyToQ": STATE.name(app.prefix).encode()}


@behaviour(
    "a move of a dead letter that asks for reports sends them too early; units of work have room"
    " for them, so that nothing is lost"
)
def a_dead_letter_causes_no_report(bench: Bench) -> None:
    """A message with Format MQDEAD causes no report on arrival or delivery."""
    # IBM MQ docs, "Report (MQMD)": MQRO_COA, MQRO_COD.
    asked = _asking_for_reports(bench, "MQRO_COA", "MQRO_COD")
    bench.put(SOURCE, dead_letter_header(), **DEAD_LETTER, **asked)
    bench.get_all(SOURCE)
    expect("reports", 0, bench.depth(STATE))


@behaviour(
    "a failed put sends reports on messages that stay on the dead-letter queue: their senders take"
    " them for delivered"
)
def a_report_belongs_to_the_unit_of_work(bench: Bench) -> None:
    """A report on delivery is sent if the get is committed, and not if it is backed out."""
    # IBM MQ docs, "Report (MQMD)": MQRO_COD.
    bench.put(SOURCE, 1, **_asking_for_reports(bench, "MQRO_COD"))
    opened = bench.open(SOURCE, "INPUT_SHARED")
    bench.get(opened, "SYNCPOINT")
    bench.back_out()
    expect("reports after MQBACK", 0, bench.depth(STATE))
    bench.get(opened, "SYNCPOINT")
    bench.commit()
    expect("reports after MQCMIT", 1, bench.depth(STATE))


@behaviour("a put that fails because of the target's stream queue is not explained in the report")
def stream_queues_can_be_inquired(bench: Bench) -> None:
    """MQINQ returns the stream queue of a queue and its quality of service."""
    # IBM MQ docs, "Configuring streaming queues".
    name = SOURCE.name(bench.prefix)
    selectors = map(bench.number, ("MQCA_STREAM_QUEUE_NAME", "MQIA_STREAM_QUEUE_QOS"))
    found = bench.queue_manager.inquire_attributes(name, *selectors)
    expect("attributes", 2, len(found))


@behaviour("a diagnosis cannot tell, or names the wrong obstacle; a run does not need it")
def inquiries_have_the_form_that_a_diagnosis_reads(bench: Bench) -> None:
    """An inquiry by PCF says PUT, depths and MAXMSGL of a queue, and that there is none."""
    # IBM MQ docs, "Inquire Queue (Response)", "Inquire Queue Names", "Inquire Queue Status".
    look = Look(bench.queue_manager, lambda: datetime.min.replace(tzinfo=UTC))
    try:
        found = look.queue(NO_PUT.name(bench.prefix)) or {}
        expect("PUT, QTYPE", "DISABLED QLOCAL", f"{found.get('PUT')} {found.get('QTYPE')}")
        full = look.queue(FULL.name(bench.prefix)) or {}
        expect("MAXDEPTH", "1", full.get("MAXDEPTH", ""))
        short = look.queue(SHORT.name(bench.prefix)) or {}
        expect("MAXMSGL", "100", short.get("MAXMSGL", ""))
        missing = look.queue(MISSING.name(bench.prefix))
        expect("a queue that is not there", "none", "none" if missing is None else "one")
        is_listed = NO_PUT.name(bench.prefix) in look.queues()
        expect("a queue among all names", "listed", "listed" if is_listed else "missing")
        look.status(FULL.name(bench.prefix))
    except NotToldError as error:
        raise NotTriedError(str(error)) from None


# Reason codes of calls that fail, from which the handler decides what to do.

LONGEST_TRIED: Final = 4 * 1024 * 1024


@behaviour(
    "a full target is tried again with each message; the attempts of all of them are used up"
)
def a_put_to_a_full_queue_has_its_reason_code(bench: Bench) -> None:
    """A put to a queue with MAXDEPTH messages fails with MQRC_Q_FULL; uncommitted puts count."""
    # IBM MQ docs, "2053 (0805) (RC2053): MQRC_Q_FULL".
    bench.put(FULL, 1, "SYNCPOINT")
    with expect_reason("MQPUT1", "MQRC_Q_FULL"):
        bench.another().put(FULL, 2)
    bench.commit()
    expect("messages", 1, bench.depth(FULL))


@behaviour("a put-inhibited target is tried again with each message")
def a_put_to_an_inhibited_queue_has_its_reason_code(bench: Bench) -> None:
    """A put to a queue with PUT(DISABLED) fails with MQRC_PUT_INHIBITED."""
    # IBM MQ docs, "2051 (0803) (RC2051): MQRC_PUT_INHIBITED".
    with expect_reason("MQPUT1", "MQRC_PUT_INHIBITED"):
        bench.put(NO_PUT, 1)


@behaviour("the report names another cause for a get-inhibited dead-letter queue")
def a_browse_of_an_inhibited_queue_has_its_reason_code(bench: Bench) -> None:
    """A browse and a get of a queue with GET(DISABLED) fail with MQRC_GET_INHIBITED."""
    # IBM MQ docs, "2016 (07E0) (RC2016): MQRC_GET_INHIBITED".
    opened = bench.open(NO_GET, "BROWSE", "INPUT_SHARED")
    for option in ("BROWSE_FIRST", "NO_SYNCPOINT"):
        with expect_reason("MQGET", "MQRC_GET_INHIBITED"):
            bench.get(opened, option)


@behaviour(
    "a missing target, and a missing state queue, are taken for other failures, which end the pass"
)
def an_unknown_queue_has_its_reason_code(bench: Bench) -> None:
    """A queue that is not defined cannot be opened: MQRC_UNKNOWN_OBJECT_NAME."""
    # IBM MQ docs, "2085 (0825) (RC2085): MQRC_UNKNOWN_OBJECT_NAME".
    with expect_reason("MQOPEN", "MQRC_UNKNOWN_OBJECT_NAME"):
        bench.open(MISSING, "INQUIRE")
    with expect_reason("MQPUT1", "MQRC_UNKNOWN_OBJECT_NAME"):
        bench.put(MISSING, 1)


@behaviour("the report does not explain that a message names no queue")
def a_blank_queue_name_has_its_reason_code(bench: Bench) -> None:
    """A put to a blank queue name fails with MQRC_UNKNOWN_OBJECT_NAME."""
    # Another queue manager's name makes it MQRC_REMOTE_Q_NAME_ERROR. IBM MQ docs, "2184 (0888)
    # (RC2184)", "2085 (0825) (RC2085)".
    with expect_reason("MQPUT1", "MQRC_UNKNOWN_OBJECT_NAME", "MQRC_REMOTE_Q_NAME_ERROR"):
        bench.put(None, 1)


@behaviour("a message that is too long for its target is taken for another failure")
def a_message_too_long_for_its_queue_has_its_reason_code(bench: Bench) -> None:
    """A put of more bytes than MAXMSGL of the queue fails with MQRC_MSG_TOO_BIG_FOR_Q."""
    # IBM MQ docs, "2030 (07EE) (RC2030): MQRC_MSG_TOO_BIG_FOR_Q".
    bench.put(SHORT, body_of(1).ljust(100))
    with expect_reason("MQPUT1", "MQRC_MSG_TOO_BIG_FOR_Q"):
        bench.put(SHORT, body_of(1).ljust(101))


@behaviour("a message that is too long for all queues is taken for another failure")
def a_message_too_long_for_the_queue_manager_is_refused(bench: Bench) -> None:
    """A put of more bytes than MAXMSGL of the queue manager fails."""
    # The reason code is about the queue, the queue manager or the channel: the lowest limit counts.
    # IBM MQ docs, "2031 (07EF) (RC2031)", "2030 (07EE) (RC2030)", "2010 (07DA) (RC2010)".
    limit = bench.queue_manager.inquire(bench.number("MQIA_MAX_MSG_LENGTH"))
    if limit > LONGEST_TRIED:
        raise NotTriedError(f"it would send {limit + 1:,} bytes")
    refusals = ("MQRC_MSG_TOO_BIG_FOR_Q_MGR", "MQRC_MSG_TOO_BIG_FOR_Q", "MQRC_DATA_LENGTH_ERROR")
    with expect_reason("MQPUT1", *refusals):
        bench.put(SOURCE, bytes(limit + 1))


BEHAVIOURS: Final = tuple(each for each in [*globals().values()] if isinstance(each, Behaviour))
"""All behaviours, in the order in which they are declared."""
