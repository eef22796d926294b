"""Fill the demo's embedded queue manager with believable dead letters.

`python -m mqdlq.local.demo` defines QM1 by demo.mqsc and lets a small message mover
try to deliver some seventy messages. It dead-letters undeliverable messages as a channel does:
with the reason of the failed put in an MQDLH. A repeated call adds as many messages again.
"""

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import ConnectionSettingsError, MqDlqError, QueueManagerError
from mqdlq.headers import DeadLetterHeader, MessageDescriptor
from mqdlq.mqi import transports
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect
from mqdlq.mqi.unit_of_work import Delivery, Syncpoint

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


class Mover:
    """Delivers messages, and dead-letters what cannot be put, as a message channel agent does."""

    def __init__(self, queue_manager: QueueManager, clock: Callable[[], datetime]) -> None:
        self._queue_manager = queue_manager
        self._dlq = queue_manager.dead_letter_q_name()
        self._clock = clock
        self._room = Counter(ROOM)

    def move(self, queue: str, body: bytes, md: MessageDescriptor) -> int:
        """Put the message to its queue, else to the dead-letter queue; return the reason, or 0."""
        if md.reply_to_q:
            md = replace(md, reply_to_q_mgr=self._queue_manager.name)
        reason = MQRC["MQRC_Q_FULL"]
        if queue not in ROOM or self._room[queue]:
            try:
                self._put(queue, body, md)
            except QueueManagerError as error:
                reason = error.reason
            else:
                self._room[queue] -= 1
                return 0
        platform = md.encoding, md.coded_char_set_id
        header = _header(reason, queue, self._queue_manager.name, self._clock(), platform)
        self.dead_letter_as_is(header + body, replace(md, format="MQDEAD"))
        return reason

    def dead_letter_as_is(self, body: bytes, md: MessageDescriptor) -> None:
        """Put `body` on the dead-letter queue without a header of ours: people do such things."""
        self._put(self._dlq, body, md)

    def _put(self, queue: str, body: bytes, md: MessageDescriptor) -> None:
        with Syncpoint(self._queue_manager) as unit:
            new = replace(md, msg_id=secrets.token_bytes(24))
            unit.put_with_original_context(new.encode(), Delivery(queue, "", body))
            unit.commit()


def fill(queue_manager: QueueManager, clock: Callable[[], datetime]) -> Counter[str]:
    """Tell the story once more on a defined queue manager; return what came of its messages."""
    mover = Mover(queue_manager, clock)
    told: Counter[str] = Counter()
    for message in _messages(clock()):
        reason = mover.move(*message)
        told[f"dead-lettered: {reason_text(reason)}" if reason else "delivered"] += 1
    for body, md in _strays(clock(), queue_manager.name):
        mover.dead_letter_as_is(body, md)
        told["on the dead-letter queue without a valid MQDLH"] += 1
    return told


def _descriptor(
    appl_name: str, put_at: datetime, platform: tuple[int, int] = LINUX, **others: Any
) -> MessageDescriptor:
    """Return the MQMD of a persistent text, with the context that its putter gave it."""
    encoding, ccsid = platform
    fields = {"format": "MQSTR", "persistence": 1, **others}
    return MessageDescriptor(
        encoding=encoding,
        coded_char_set_id=ccsid,
        user_identifier=appl_name[:12],
        put_appl_type=6,  # MQAT_UNIX
        put_appl_name=appl_name,
        put_date=f"{put_at:%Y%m%d}",
        put_time=f"{put_at:%H%M%S}00",
        **fields,
    )


def _messages(now: datetime) -> Iterator[tuple[str, bytes, MessageDescriptor]]:
    """Yield queue, body and MQMD of what the mover has to deliver, in the order of the puts."""
    early, late = now - timedelta(hours=2), now - timedelta(minutes=10)
    gateway = _descriptor("payments-gateway", early)
    for number in range(1, 29):
        yield "PAYMENTS.IN", _payment(number), gateway
    host = _payment(29).decode().encode("cp500")
    yield "PAYMENTS.IN", host, _descriptor("CICSPAY1", early, Z_OS)
    for number in range(30, 38):
        yield "PAYMENTS.INTL", _payment(number), gateway
    for number in range(1, 11):
        body = f'{{"order": "EU-{secrets.token_hex(4)}", "lines": {number}}}'.encode()
        yield "ORDERS.EU", body, _descriptor("order-entry", late, AIX)
    for number in range(1, 7):
        body = f'{{"reply_to_request": "{secrets.token_hex(6)}", "part": {number}}}'.encode()
        gone = f"AMQ.{secrets.token_hex(8).upper()}"
        md = _descriptor("stock-server", late, msg_type=2, reply_to_q="REPLIES.LATE")  # MQMT_REPLY
        yield gone, body, md
    for number in range(1, 13):
        body = f"EURUSD 1.0{number:02}5 {secrets.token_hex(4)}".encode()
        yield "QUOTES.TICKER", body, _descriptor("ticker", early, persistence=0)
    for number in range(1, 4):
        body = f"statement {number} {secrets.token_hex(8)}".encode()
        yield "LEGAL.HOLD", body, _descriptor("legal-hold-export", early)
    for number in range(1, 3):
        body = f"payroll {number} {secrets.token_hex(64)}".encode()
        yield "PAYROLL.RUN", body, _descriptor("payroll", late)


def _payment(number: int) -> bytes:
    return f'{{"payment": "{secrets.token_hex(8)}", "amount": "{number * 17}.20 EUR"}}'.encode()


def _strays(now: datetime, queue_manager: str) -> Iterator[tuple[bytes, MessageDescriptor]]:
    """Yield body and MQMD of what has no valid MQDLH."""
    before = now - timedelta(days=1)
    for number in range(1, 4):
        body = f"not a dead letter {number} {secrets.token_hex(4)}".encode()
        yield body, _descriptor("batch-unload", before)
    full = (MQRC["MQRC_Q_FULL"], "PAYMENTS.IN", queue_manager, now, LINUX)
    yield _header(*full)[:100], _descriptor("old-bridge", before, format="MQDEAD")
    # But the MQMD says Latin-1.
    foreign = _header(*full, written_on=Z_OS) + "host".encode("cp500")
    yield foreign, _descriptor("unload-zos", before, format="MQDEAD")


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
