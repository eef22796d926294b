"""The scratch queues on which behaviours are tried, and the commands that define them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import CertificationError, QueueManagerError
from mqdlq.mqi.browse import BrowseCursor, BrowsedMessage
from mqdlq.mqi.connect import QueueManager
from mqdlq.mqi.unit_of_work import Delivery, GotMessage, Syncpoint, UnitOfWork
from mqdlq.structures import MQDLH

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
_COMMON: Final = (
    ("SHARE", "MQIA_SHAREABILITY", 1),
    ("DEFSOPT(SHARED)", "MQIA_DEF_INPUT_OPEN_OPTION", 2),
    ("MSGDLVSQ(PRIORITY)", "MQIA_MSG_DELIVERY_SEQUENCE", 0),
)


@dataclass(frozen=True, slots=True)
class ScratchQueue:
    """A local queue; its name is the prefix and the suffix."""

    suffix: str
    own: tuple[Attribute, ...] = ()

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return _COMMON + self.own

    def name(self, prefix: str) -> str:
        return prefix + self.suffix

    def mqsc(self, prefix: str) -> str:
        attributes = " ".join(mqsc for mqsc, _, _ in self.attributes)
        return f"DEFINE QLOCAL('{self.name(prefix)}') {attributes} +\n  DESCR('{KEPT}')"


SOURCE: Final = ScratchQueue("SOURCE", (("MAXDEPTH(100)", "MQIA_MAX_Q_DEPTH", 100),))
TARGET: Final = ScratchQueue("TARGET", (("MAXDEPTH(100)", "MQIA_MAX_Q_DEPTH", 100),))
STATE: Final = ScratchQueue("STATE", (("DEFPSIST(YES)", "MQIA_DEF_PERSISTENCE", 1),))
FULL: Final = ScratchQueue("FULL", (("MAXDEPTH(1)", "MQIA_MAX_Q_DEPTH", 1),))
NO_PUT: Final = ScratchQueue("NOPUT", (("PUT(DISABLED)", "MQIA_INHIBIT_PUT", 1),))
NO_GET: Final = ScratchQueue("NOGET", (("GET(DISABLED)", "MQIA_INHIBIT_GET", 1),))
SHORT: Final = ScratchQueue("SHORT", (("MAXMSGL(100)", "MQIA_MAX_MSG_LENGTH", 100),))
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
    """Yield the MQSC commands that define the scratch queues and grant a user the authorities."""
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


# The bench on which behaviours are tried: connections to one queue manager and scratch queues.
#
# A body or a field of a message never appears in a deviation: only numbers of messages, names of
# fields, and reason codes.

NATIVE, LATIN_1 = 546, 819
DEAD_LETTER: Final[dict[str, Any]] = {
    "Format": b"MQDEAD  ",
    "Encoding": NATIVE,
    "CodedCharSetId": LATIN_1,
}
"""The fields of an MQMD that describe an MQDLH."""
BODY: Final = b"mqdlq certify, message %d"
UNKNOWN: Final = 0
"""The number of a message whose body is not the body of a numbered message."""
MOST_MESSAGES: Final = 100
HELD_S: Final = 0.25
"""How long a behaviour waits for an expiry, in seconds."""
NOT_FOUND: Final = (MQRC["MQRC_NO_MSG_AVAILABLE"], MQRC["MQRC_NO_MSG_UNDER_CURSOR"])

Shown = str | int | Sequence[int] | Sequence[str]
"""The values that a report may show."""


class DeviationError(Exception):
    """The queue manager does not do what the handler relies on."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(expected, seen)
        self.expected = expected
        self.seen = seen


class NotTriedError(Exception):
    """A behaviour cannot be tried on this queue manager; the text is why."""


def expect(subject: str, wanted: Shown, seen: Shown) -> None:
    if wanted != seen:
        raise DeviationError(f"{subject}: {_text(wanted)}", f"{subject}: {_text(seen)}")


def expect_fields(wanted: Mapping[str, Any], descriptor: Any) -> None:
    """Raise DeviationError, which names the fields of an MQMD that differ from `wanted`."""
    expect(
        "changed fields",
        [],
        [name for name, value in wanted.items() if getattr(descriptor, name) != value],
    )


def expect_same(subject: str, wanted: bytes, seen: bytes) -> None:
    """Raise DeviationError unless the bytes are the same; none of them is shown."""
    expect(subject, "unchanged", "unchanged" if wanted == seen else "changed")


def _text(value: Shown) -> str:
    if isinstance(value, str | int):
        return str(value)
    return ", ".join(map(str, value)) or "none"


def body_of(number: int) -> bytes:
    return BODY % number


def number_of(body: bytes) -> int:
    """Return the number of a message by its body, or UNKNOWN."""
    known = (number for number in range(1, 10) if body_of(number) == body)
    return next(known, UNKNOWN)


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


@dataclass
class Application:
    """One connection, and the calls that behaviours make on it.

    Options are given by name without their prefix: ``app.open(SOURCE, "OUTPUT", "INQUIRE")``. Each
    failing call raises QueueManagerError.
    """

    queue_manager: QueueManager
    prefix: str

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
        with suppress_reasons(*NOT_FOUND):
            while len(found) < MOST_MESSAGES:
                found.append(self.get(opened))
        self.queue_manager.close(opened)
        return found

    def get_one(self, queue: ScratchQueue) -> tuple[bytes, Any]:
        """Get the only message from a queue; another number of messages is a deviation."""
        found = self.get_all(queue)
        expect("messages", 1, len(found))
        return found[0]

    def browse(self, queue: ScratchQueue) -> list[int]:
        """Browse a queue as a snapshot does; return the numbers of its messages."""
        opened = self.open(queue, "BROWSE")
        messages = self.cursor(opened).messages()
        found = [number_of(each.prefix) for each in islice(messages, MOST_MESSAGES)]
        self.queue_manager.close(opened)
        return found

    def cursor(self, opened: Any) -> BrowseCursor:
        return BrowseCursor(self.queue_manager, opened, "scratch queue")

    def source_cursor(self, queue: ScratchQueue) -> BrowseCursor:
        """Open a queue as an executor opens its dead-letter queue."""
        return self.cursor(self.open(queue, "BROWSE", "INPUT_SHARED", "SAVE_ALL_CONTEXT"))

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

    def move_first(self, queue: ScratchQueue, *, commit: bool = True) -> None:
        """Move the first message to TARGET as an executor does, with all its context."""
        cursor = self.source_cursor(queue)
        message = self.first(cursor)
        with UnitOfWork(cursor) as unit:
            got = unit.get_under_cursor(message.total_length)
            unit.put(got, Delivery(TARGET.name(self.prefix), "", got.body))
            if commit:
                unit.commit()

    def move_and_get(self, queue: ScratchQueue) -> tuple[bytes, Any]:
        """Move the first message; get it from TARGET, where it must be alone."""
        self.move_first(queue)
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

    def wait(self, queue: ScratchQueue, seconds: float = HELD_S) -> None:
        """Let time pass, by waiting for a message that does not come."""
        opened = self.open(queue, "INPUT_SHARED")
        with suppress_reasons(*NOT_FOUND):
            self.get(opened, "WAIT", "NO_SYNCPOINT", WaitInterval=int(seconds * 1000))


@contextmanager
def suppress_reasons(*reasons: int) -> Iterator[None]:
    try:
        yield
    except QueueManagerError as error:
        if error.reason not in reasons:
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


@dataclass
class Bench:
    """The connections of one behaviour; leaving the block backs out and disconnects all of them."""

    connect: Callable[[], QueueManager]
    prefix: str
    _applications: list[Application] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for application in self._applications:
            with suppress(QueueManagerError):
                application.back_out()
                application.queue_manager.disconnect()

    @property
    def app(self) -> Application:
        return self._applications[0] if self._applications else self.another()

    def another(self) -> Application:
        application = Application(self.connect(), self.prefix)
        self._applications.append(application)
        return application


# Declare behaviours of a queue manager on which the handler relies.

Check = Callable[[Bench], str | None]
"""Try a behaviour; return a remark for the report, or None.

Raises DeviationError, NotTriedError, or QueueManagerError for a call that must not fail.
"""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A behaviour: its name, the statement that holds, and what a difference means."""

    name: str
    statement: str
    consequence: str
    check: Check


def behaviour(consequence: str) -> Callable[[Check], Behaviour]:
    """Turn the decorated function into a behaviour.

    Its docstring's first line is the statement. `consequence` says what a difference means for the
    handler, and what to do.
    """

    def declare(check: Check) -> Behaviour:
        statement = (inspect.getdoc(check) or "").partition("\n")[0]
        return Behaviour(check.__name__, statement, consequence, check)

    return declare
