"""Fill the demo's embedded queue manager with believable dead letters.

`python -m mqdlq.local.demo` defines QM1 by demo.mqsc and lets a small message mover
try to deliver some seventy messages. It dead-letters undeliverable messages as a channel does:
with the reason of the failed put in an MQDLH. A repeated call adds as many messages again.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import ConnectionSettingsError, MqDlqError, QueueManagerError
from mqdlq.headers import DeadLetterHeader
from mqdlq.mqi import transports
from mqdlq.mqi.connect import MQCC_FAILED, ConnectionSettings, QueueManager, connect

QUEUE_MANAGER = "QM1"
DEFINITIONS = Path(__file__).with_name("demo.mqsc")
"""Also include/mqsc/QM1.mqsc, for the queue manager of the compose file."""
# Each platform's MQMD.Encoding and CodedCharSetId.
LINUX, AIX, Z_OS = (546, 819), (273, 819), (785, 500)
ROOM = {"PAYMENTS.IN": 4}
"""Nobody read payments for a while: the queue had room for four more, then for none.

The mover remembers it. To fill the queue for real, MAXDEPTH would have to be altered, and who may
fill a queue manager need not be its administrator.
"""


@dataclass(frozen=True, slots=True)
class Message:
    """A message on its way to `target_q`, with the context its putter gave it."""

    target_q: str
    body: bytes
    appl_name: str
    put_at: datetime
    msg_type: int = 8  # MQMT_DATAGRAM
    reply_to_q: str = ""
    persistence: int = 1
    platform: tuple[int, int] = LINUX


class Mover:
    """Delivers messages, and dead-letters what cannot be put, as a message channel agent does."""

    def __init__(self, queue_manager: QueueManager, clock: Callable[[], datetime]) -> None:
        self._queue_manager = queue_manager
        self._client = queue_manager.client
        self._dlq = queue_manager.dead_letter_q_name()
        self._clock = clock
        self._room = Counter(ROOM)

    def move(self, message: Message) -> int:
        """Put the message to its queue, else to the dead-letter queue; return the reason, or 0."""
        descriptor = self._descriptor(message)
        try:
            self._deliver(message, descriptor)
        except QueueManagerError as error:
            self._dead_letter(message, descriptor, error.reason)
            return error.reason
        return 0

    def _deliver(self, message: Message, descriptor: Any) -> None:
        queue = message.target_q
        if queue in ROOM and not self._room[queue]:
            reason = MQRC["MQRC_Q_FULL"]
            raise QueueManagerError(
                "MQPUT1", f"queue {queue}", MQCC_FAILED, reason, reason_text(reason)
            )
        self._put(queue, message.body, descriptor)
        self._room[queue] -= 1

    def dead_letter_as_is(self, message: Message, body: bytes, format_name: bytes) -> None:
        """Put `body` on the dead-letter queue without a header of ours: people do such things."""
        descriptor = self._descriptor(message)
        descriptor.Format = format_name
        self._put(self._dlq, body, descriptor)

    def _dead_letter(self, message: Message, descriptor: Any, reason: int) -> None:
        name, now = self._queue_manager.name, self._clock()
        header = _header(reason, message.target_q, name, now, message.platform)
        descriptor.Format = self._client.CMQC.MQFMT_DEAD_LETTER_HEADER
        self._put(self._dlq, header + message.body, descriptor)

    def _descriptor(self, message: Message) -> Any:
        descriptor = self._client.module.MD()
        descriptor.Version = self._client.CMQC.MQMD_VERSION_2
        descriptor.MsgId = secrets.token_bytes(24)
        descriptor.MsgType = message.msg_type
        descriptor.Format = self._client.CMQC.MQFMT_STRING
        descriptor.Encoding, descriptor.CodedCharSetId = message.platform
        descriptor.Persistence = message.persistence
        descriptor.ReplyToQ = message.reply_to_q.encode()
        descriptor.ReplyToQMgr = self._queue_manager.name.encode() if message.reply_to_q else b""
        descriptor.UserIdentifier = message.appl_name[:12].encode()
        descriptor.PutApplType = self._client.CMQC.MQAT_UNIX
        descriptor.PutApplName = message.appl_name.encode()
        descriptor.PutDate = f"{message.put_at:%Y%m%d}".encode()
        descriptor.PutTime = f"{message.put_at:%H%M%S}00".encode()
        return descriptor

    def _put(self, queue: str, body: bytes, descriptor: Any) -> None:
        module, constants = self._client.module, self._client.CMQC
        target = module.OD()
        target.ObjectName = queue.encode()
        pmo = module.PMO()
        pmo.Options = constants.MQPMO_SET_ALL_CONTEXT | constants.MQPMO_NO_SYNCPOINT
        copy = module.MD()
        copy.unpack(descriptor.pack())
        with self._client.translating_errors("MQPUT1", f"queue {queue}"):
            self._queue_manager.handle.put1(target, body, copy, pmo)


def fill(queue_manager: QueueManager, clock: Callable[[], datetime]) -> Counter[str]:
    """Tell the story once more on a defined queue manager; return what came of its messages."""
    mover = Mover(queue_manager, clock)
    told: Counter[str] = Counter()
    for message in _messages(clock()):
        reason = mover.move(message)
        told[f"dead-lettered: {reason_text(reason)}" if reason else "delivered"] += 1
    for message, body, format_name in _strays(clock(), queue_manager.name):
        mover.dead_letter_as_is(message, body, format_name)
        told["on the dead-letter queue without a valid MQDLH"] += 1
    return told


def _messages(now: datetime) -> Iterator[Message]:
    """Yield what the mover has to deliver, in the order in which it was put."""
    early, late = now - timedelta(hours=2), now - timedelta(minutes=10)
    for number in range(1, 29):
        yield Message("PAYMENTS.IN", _payment(number), "payments-gateway", early)
    host = _payment(29).decode().encode("cp500")
    yield Message("PAYMENTS.IN", host, "CICSPAY1", early, platform=Z_OS)
    for number in range(30, 38):
        yield Message("PAYMENTS.INTL", _payment(number), "payments-gateway", early)
    for number in range(1, 11):
        body = f'{{"order": "EU-{secrets.token_hex(4)}", "lines": {number}}}'.encode()
        yield Message("ORDERS.EU", body, "order-entry", late, platform=AIX)
    for number in range(1, 7):
        body = f'{{"reply_to_request": "{secrets.token_hex(6)}", "part": {number}}}'.encode()
        gone = f"AMQ.{secrets.token_hex(8).upper()}"
        yield Message(gone, body, "stock-server", late, msg_type=2, reply_to_q="REPLIES.LATE")
    for number in range(1, 13):
        body = f"EURUSD 1.0{number:02}5 {secrets.token_hex(4)}".encode()
        yield Message("QUOTES.TICKER", body, "ticker", early, persistence=0)
    for number in range(1, 4):
        body = f"statement {number} {secrets.token_hex(8)}".encode()
        yield Message("LEGAL.HOLD", body, "legal-hold-export", early)
    for number in range(1, 3):
        body = f"payroll {number} {secrets.token_hex(64)}".encode()
        yield Message("PAYROLL.RUN", body, "payroll", late)


def _payment(number: int) -> bytes:
    return f'{{"payment": "{secrets.token_hex(8)}", "amount": "{number * 17}.20 EUR"}}'.encode()


def _strays(now: datetime, queue_manager: str) -> Iterator[tuple[Message, bytes, bytes]]:
    """Yield what has no valid MQDLH: message, body as it is put, Format."""
    plain = Message("", b"", "batch-unload", now - timedelta(days=1))
    for number in range(1, 4):
        yield plain, f"not a dead letter {number} {secrets.token_hex(4)}".encode(), b"MQSTR   "
    cut = _header(MQRC["MQRC_Q_FULL"], "PAYMENTS.IN", queue_manager, now, LINUX)[:100]
    yield replace(plain, appl_name="old-bridge"), cut, b"MQDEAD  "
    # But the MQMD says Latin-1.
    foreign = _header(
        MQRC["MQRC_Q_FULL"], "PAYMENTS.IN", queue_manager, now, LINUX, written_on=Z_OS
    )
    yield replace(plain, appl_name="unload-zos"), foreign + "host".encode("cp500"), b"MQDEAD  "


def _header(
    reason: int,
    queue: str,
    queue_manager: str,
    now: datetime,
    platform: tuple[int, int],
    *,
    written_on: tuple[int, int] | None = None,
) -> bytes:
    """Return an MQDLH; `platform` is that of the body which follows it."""
    encoding, ccsid = platform
    header = DeadLetterHeader(
        reason=reason,
        dest_q_name=queue,
        dest_q_mgr_name=queue_manager,
        encoding=encoding,
        coded_char_set_id=ccsid,
        format="MQSTR",
        put_appl_type=6,
        put_appl_name="mqdlq demo mover",
        put_date=f"{now:%Y%m%d}",
        put_time=f"{now:%H%M%S}00",
    )
    encoding, ccsid = written_on or platform
    return header.encode(encoding=encoding, ccsid=ccsid)


@click.command()
@click.option("--client", help="The MQ client to use: pymqi or ibmmq.")
@click.option(
    "--settings",
    help="A JSON file with the fields of ConnectionSettings: another queue manager, on which"
    " include/mqsc/QM1.mqsc has been run.",
)
def main(client: str | None, settings: str | None) -> None:
    """Define QM1 if need be, and put the demo's dead letters on its dead-letter queue.

    Example: python -m mqdlq.local.demo --client ibmmq
    """
    try:
        if settings is None:
            define(QUEUE_MANAGER)
            place = ConnectionSettings(QUEUE_MANAGER, transport="embedded", client=client)
        else:
            place = _named(Path(settings))
        told, depth = tell(place)
    except MqDlqError as error:
        click.echo(f"mqdlq.local.demo: {error}", err=True)
        raise SystemExit(1) from error
    for what, count in told.items():
        click.echo(f"{count:5} messages {what}")
    click.echo(f"{depth:5} messages wait on the dead-letter queue of {place.queue_manager}")


def define(name: str) -> None:
    """Create the embedded queue manager `name` if it does not exist, and define the demo's queues.

    Raises TransportError if the transport is not installed, or if the definitions fail.
    """
    definitions = DEFINITIONS.read_text(encoding="utf-8")
    with transports.embedded(f"queue manager {name} of the demo") as queue_managers:
        if not queue_managers.exists(name):
            queue_managers.create(name)
        queue_managers.run_mqsc(name, definitions)


def _named(path: Path) -> ConnectionSettings:
    try:
        return ConnectionSettings(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConnectionSettingsError(
            "MQDLQ-817", f"{path} holds no connection settings: {error}"
        ) from error


def tell(settings: ConnectionSettings) -> tuple[Counter[str], int]:
    """Put the demo's messages; return what came of them, and the dead-letter queue's depth."""
    with connect(settings) as queue_manager:
        told = fill(queue_manager, lambda: datetime.now(UTC))  # noqa: TID251 (the entry point)
        return told, queue_manager.depth(queue_manager.dead_letter_q_name())


if __name__ == "__main__":
    main()
