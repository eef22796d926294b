"""Commands that put, browse, dump and load messages."""

import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import embedded_mq
from embedded_mq import constants
from embedded_mq.cli.administration import QueueManagerName
from embedded_mq.cli.files import name_of, read
from embedded_mq.errors import EmbeddedQueueManagerError

QueueName = Annotated[str, typer.Argument(help="The queue.", metavar="QUEUE")]

MQFMT_NONE, MQFMT_STRING = b" " * 8, b"MQSTR   "
PREVIEW_CHARACTERS = 40

Fields = dict[str, str | int]


class Format(StrEnum):
    """Output format of messages."""

    TEXT = "text"
    JSON = "json"


def put(
    name: QueueManagerName,
    queue: QueueName,
    text: Annotated[str | None, typer.Argument(help="The body, as text.", metavar="TEXT")] = None,
    file: Annotated[
        Path | None, typer.Option(help="The body, as bytes; - reads standard input.")
    ] = None,
) -> None:
    """Put one message on a queue.

    The body is text (format MQSTR, CCSID 1208) or the bytes of a file (no format).

    For example:
      embedded-mq put QM1 PAYMENTS.IN "one hundred"
    """
    if (text is None) == (file is None):
        raise typer.BadParameter("give either a text or --file")
    body = read(file) if file is not None else (text or "").encode()
    described = (MQFMT_NONE, 0) if file is not None else (MQFMT_STRING, 1208)
    from embedded_mq.cli.session import open_session  # noqa: PLC0415 (the engine takes long to import)

    with open_session(name) as session:
        msg_id = session.put(queue, body, *described)
    typer.echo(f"put {len(body)} bytes to {queue}, MsgId {msg_id.hex()}")


def browse(
    name: QueueManagerName,
    queue: QueueName,
    shown: Annotated[
        Format, typer.Option("--format", help="text, or json: a line for each message.")
    ] = Format.TEXT,
) -> None:
    """Show the messages on a queue.

    The messages stay on the queue.

    For example:
      embedded-mq browse QM1 SYSTEM.DEAD.LETTER.QUEUE
      embedded-mq browse QM1 SYSTEM.DEAD.LETTER.QUEUE --format json
    """
    from embedded_mq.cli.session import open_session  # noqa: PLC0415 (the engine takes long to import)

    with open_session(name) as session:
        messages = session.browse(queue)
        if shown is Format.JSON:
            for fields, body in messages:
                typer.echo(json.dumps(fields | {"body": body.hex()}))
        else:
            _print_table(queue, messages)


def _print_table(queue: str, messages: Iterator[tuple[Fields, bytes]]) -> None:
    from embedded_mq.cli.tables import print_table  # noqa: PLC0415 (rich takes long to import)

    rows = []
    for number, (fields, body) in enumerate(messages, start=1):
        preview = body[:PREVIEW_CHARACTERS].decode("ascii", "replace")
        printable = "".join(letter if letter.isprintable() else "." for letter in preview)
        texts = [
            str(fields[name]) for name in ("MsgId", "Format", "PutApplName", "PutDate", "PutTime")
        ]
        rows.append([str(number), *texts, str(len(body)), printable])
    headings = ["#", "MsgId", "Format", "PutApplName", "PutDate", "PutTime", "Bytes", "Body"]
    print_table(queue, headings, rows, right={"#", "Bytes"})


def dead_letter(
    name: QueueManagerName,
    queue: QueueName,
    reason: Annotated[
        str, typer.Option(help="The MQRC name or number for the MQDLH.", metavar="REASON")
    ] = "MQRC_Q_FULL",
    watch: Annotated[
        bool, typer.Option("--watch", help="Look every second, until Ctrl-C.")
    ] = False,
) -> None:
    """Send the messages of a queue back as dead letters.

    It plays an application or a channel that cannot handle them: each message goes to the
    queue manager's dead-letter queue behind an MQDLH.

    For example:
      embedded-mq put QM1 PAYMENTS.IN "one hundred"
      embedded-mq dead-letter QM1 PAYMENTS.IN --reason MQRC_PUT_INHIBITED
    """
    number = _reason_code(reason)
    from embedded_mq.cli.session import open_session  # noqa: PLC0415 (the engine takes long to import)

    with open_session(name) as session:
        while True:
            moved = session.dead_letter(queue, name, number)
            if moved or not watch:
                messages = "1 message" if moved == 1 else f"{moved} messages"
                typer.echo(f"dead-lettered {messages} of {queue}: {constants.reason_text(number)}")
            if not watch:
                return
            time.sleep(1)


def _reason_code(reason: str) -> int:
    number = int(reason) if reason.isdecimal() else constants.MQRC.get(reason)
    if number is None or not constants.name_of(number, ("MQRC", "MQFB")):
        raise typer.BadParameter(
            f"{reason} is not a reason code; give a name or a number, such as MQRC_Q_FULL or 2053",
            param_hint="--reason",
        )
    return number


def dump(
    name: QueueManagerName,
    queue: QueueName,
    file: Annotated[
        Path, typer.Argument(help="A new file; - writes standard output.", metavar="FILE")
    ],
) -> None:
    """Write the messages of a queue to a file.

    The file has one line of JSON for each message of the local queue; the messages stay on the
    queue. It holds message bodies, and only its owner can read it.

    For example:
      embedded-mq dump QM1 SYSTEM.DEAD.LETTER.QUEUE dead.jsonl
    """
    lines = embedded_mq.dump(name, queue)
    if str(file) == "-":
        for line in lines:
            typer.echo(line, nl=False)
    else:
        messages = _write_new(file, lines)
        typer.echo(f"dumped {messages} messages of {queue} to {file}")


def _write_new(path: Path, lines: Iterable[str]) -> int:
    """Write all lines to a new file or none; return their number without the first and the last.

    The temporary file is readable only by its owner from the start.
    """
    count = -2
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".") as file:
        for line in lines:
            file.write(line)
            count += 1
        file.flush()
        os.fsync(file.fileno())
        try:
            os.link(file.name, path)
        except FileExistsError:
            complaint = f"{path} already exists; name a new file for the dump"
            raise EmbeddedQueueManagerError(complaint) from None
    return count


def load(
    name: QueueManagerName,
    queue: QueueName,
    file: Annotated[Path, typer.Argument(help="A dump; - reads standard input.", metavar="FILE")],
) -> None:
    """Put the messages of a dump on a queue.

    Either all messages are put, unchanged, or none.

    For example:
      embedded-mq dump QM1 SYSTEM.DEAD.LETTER.QUEUE dead.jsonl
      embedded-mq load QM1 PAYMENTS.PARKED dead.jsonl
    """
    text = read(file).decode(errors="replace")
    messages = embedded_mq.load(name, queue, text.splitlines(), source=name_of(file))
    typer.echo(f"loaded {messages} messages into {queue}")
