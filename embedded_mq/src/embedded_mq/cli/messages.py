"""The commands `mqdlq qm …`: embedded queue managers made, filled and looked into by hand."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

import embedded_mq
from mqdlq.cli.console import console
from mqdlq.errors import QueueManagerError, TransportError
from mqdlq.mqi import transports
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect

QueueManagerName = Annotated[str, typer.Argument(help="The queue manager.", metavar="NAME")]
QueueName = Annotated[str, typer.Argument(help="The queue.", metavar="QUEUE")]

MQFMT_STRING = b"MQSTR   "
BINARY_FIELDS = ("MsgId", "CorrelId", "AccountingToken", "GroupId")
PREVIEW_CHARACTERS = 40


class Format(StrEnum):
    """How messages are shown."""

    TEXT = "text"
    JSON = "json"


@contextmanager
def _explained() -> Iterator[None]:
    """Report a fault of a queue manager's database, with exit code 1."""
    try:
        with transports.embedded("mqdlq qm"):
            yield
    except sqlite3.Error as error:
        typer.echo(f"mqdlq: the queue manager's database cannot be used: {error}", err=True)
        raise typer.Exit(1) from None


def _connected(name: str) -> QueueManager:
    return connect(ConnectionSettings(queue_manager=name, transport="embedded"))


def _read(path: Path) -> bytes:
    return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()


def _read_text(path: Path) -> str:
    """Return MQSC commands; bytes that are no UTF-8 are an error with their place."""
    try:
        return _read(path).decode()
    except UnicodeDecodeError as error:
        source = "standard input" if str(path) == "-" else str(path)
        line = error.object[: error.start].count(b"\n") + 1
        raise TransportError(
            f"{source}, line {line}: byte {error.object[error.start]:#04x} is not UTF-8, in which"
            " MQSC commands are read"
        ) from None


def create(
    name: QueueManagerName,
    mqsc: Annotated[
        Path | None, typer.Option(help="MQSC commands to run on it; - reads standard input.")
    ] = None,
    check_headers: Annotated[
        bool,
        typer.Option(
            "--check-headers",
            help="Check MQ headers on MQPUT with a version 2 MQMD (ALTER QMGR HDRCHECK(YES)).",
        ),
    ] = False,
) -> None:
    """Implement `mqdlq qm create`.

    If one of the MQSC commands is wrong, no queue manager is created.

    For example:
      mqdlq qm create QM2 --mqsc include/mqsc/QM1.mqsc
    """
    with _explained():
        commands = "" if mqsc is None else _read_text(mqsc)
        attributes = {"HDRCHECK": 1} if check_headers else {}
        path, done = embedded_mq.create_defined(name, commands, attributes=attributes)
        typer.echo(f"created queue manager {name} in {path}")
        for line in done:
            typer.echo(line)


def mqsc(
    name: QueueManagerName,
    file: Annotated[Path, typer.Argument(help="The commands; - reads standard input.")] = Path("-"),
) -> None:
    """Implement `mqdlq qm mqsc`.

    Either all commands take effect or, if one is wrong, none.

    SET FAULT('VERB[QUEUE]:N:WHAT:WHEN') is for tests: it makes the Nth call of VERB fail for all
    programs that use the queue manager. With N+ all later calls fail, too. WHAT is a reason code,
    kill, delay=SECONDS or, for MQGET, trace: the queue manager then changes the properties
    traceparent and tracestate of a message that is got. WHEN is before or after. DISPLAY FAULT
    shows the faults, CLEAR FAULT removes them.

    For example:
      echo 'DISPLAY QUEUE(*) CURDEPTH' | mqdlq qm mqsc QM1
    """
    with _explained():
        for line in embedded_mq.run_mqsc(name, _read_text(file)):
            typer.echo(line)


def start(name: QueueManagerName) -> None:
    """Implement `mqdlq qm start`.

    A new queue manager is running already. Nonpersistent messages are lost when a queue manager
    ends, except those on queues with NPMCLASS(HIGH).

    For example:
      mqdlq qm end QM1
      mqdlq qm start QM1
    """
    with _explained():
        embedded_mq.start(name)
        typer.echo(f"queue manager {name} is running")


def end(name: QueueManagerName) -> None:
    """Implement `mqdlq qm end`.

    Units of work are backed out. Connected applications get MQRC_Q_MGR_STOPPING (2162) at their
    next call.

    For example:
      mqdlq qm end QM1
    """
    with _explained():
        embedded_mq.end(name)
        typer.echo(f"queue manager {name} is ended")


def quiesce(name: QueueManagerName) -> None:
    """Implement `mqdlq qm quiesce`.

    No new application can connect, and the queue manager ends when the last application
    disconnects. Calls with FAIL_IF_QUIESCING options get MQRC_Q_MGR_QUIESCING (2161).

    For example:
      mqdlq qm quiesce QM1
    """
    with _explained():
        embedded_mq.quiesce(name)
        state = embedded_mq.status(name).lower()
        typer.echo(f"queue manager {name} is {state}")


def status(name: QueueManagerName) -> None:
    """Implement `mqdlq qm status`.

    The state is running, quiescing or ended.

    For example:
      mqdlq qm status QM1
    """
    with _explained():
        typer.echo(f"queue manager {name} is {embedded_mq.status(name).lower()}")


def put(
    name: QueueManagerName,
    queue: QueueName,
    text: Annotated[str | None, typer.Argument(help="The body, as text.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="The body, as bytes; - reads standard input.")
    ] = None,
) -> None:
    """Implement `mqdlq qm put`.

    The body is text (format MQSTR, CCSID 1208) or the bytes of a file (no format).

    For example:
      mqdlq qm put QM1 PAYMENTS.IN "one hundred"
    """
    if (text is None) == (file is None):
        raise typer.BadParameter("give either a text or --file")
    with _explained():
        body = _read(file) if file is not None else (text or "").encode()
        with _connected(name) as queue_manager:
            library, mqi = queue_manager.client, queue_manager.client.module
            md = mqi.MD()
            if file is None:
                md.Format, md.CodedCharSetId = MQFMT_STRING, 1208
            opened = queue_manager.open(queue, library.CMQC.MQOO_OUTPUT)
            with library.calling("MQPUT", f"queue {queue}"):
                opened.put(body, md, mqi.PMO(Options=library.CMQC.MQPMO_NO_SYNCPOINT))
            queue_manager.close(opened)
        typer.echo(f"put {len(body)} bytes to {queue}, MsgId {md.MsgId.hex()}")


def browse(
    name: QueueManagerName,
    queue: QueueName,
    shown: Annotated[
        Format, typer.Option("--format", help="text, or json: a line for each message.")
    ] = Format.TEXT,
) -> None:
    """Implement `mqdlq qm browse`.

    The messages stay on the queue.

    For example:
      mqdlq qm browse QM1 SYSTEM.DEAD.LETTER.QUEUE
      mqdlq qm browse QM1 SYSTEM.DEAD.LETTER.QUEUE --format json
    """
    with _explained(), _connected(name) as queue_manager:
        messages = _messages(queue_manager, queue)
        if shown is Format.JSON:
            for fields, body in messages:
                typer.echo(json.dumps(fields | {"body": body.hex()}))
        else:
            console().print(_table(queue, messages))


def _messages(queue_manager: QueueManager, queue: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield each message's MQMD under IBM's names, and its body."""
    library, mqi = queue_manager.client, queue_manager.client.module
    mq = library.CMQC
    opened = queue_manager.open(queue, mq.MQOO_BROWSE)
    options = mqi.GMO(Version=mq.MQGMO_VERSION_2, MatchOptions=mq.MQMO_NONE)
    options.Options = mq.MQGMO_BROWSE_NEXT | mq.MQGMO_NO_PROPERTIES
    while True:
        md = mqi.MD(Version=mq.MQMD_VERSION_2)
        try:
            with library.calling("MQGET", f"queue {queue}"):
                body = opened.get(None, md, options)
        except QueueManagerError as error:
            if error.reason == mq.MQRC_NO_MSG_AVAILABLE:
                break
            raise
        yield {name: _shown(name, value) for name, value in md.get().items()}, body
    queue_manager.close(opened)


def _shown(name: str, value: bytes | int) -> str | int:
    if isinstance(value, int):
        return value
    return value.hex() if name in BINARY_FIELDS else value.decode("latin-1").rstrip(" ")


def _table(queue: str, messages: Iterator[tuple[dict[str, Any], bytes]]) -> Table:
    table = Table(title=queue)
    for heading in ("#", "MsgId", "Format", "PutApplName", "PutDate", "PutTime", "Bytes", "Body"):
        table.add_column(heading, justify="right" if heading in {"#", "Bytes"} else "left")
    for number, (fields, body) in enumerate(messages, start=1):
        preview = body[:PREVIEW_CHARACTERS].decode("ascii", "replace")
        printable = "".join(letter if letter.isprintable() else "." for letter in preview)
        texts = [str(fields[name]) for name in ("MsgId", "Format", "PutApplName", "PutDate")]
        cells = [str(number), *texts, str(fields["PutTime"]), str(len(body)), printable]
        table.add_row(*map(Text, cells))
    return table


def depth(
    name: QueueManagerName,
    queue: Annotated[
        str | None, typer.Argument(help="The queue; without one, all that hold messages.")
    ] = None,
) -> None:
    """Implement `mqdlq qm depth`.

    Without QUEUE, every queue that holds messages is shown.

    For example:
      mqdlq qm depth QM1
      mqdlq qm depth QM1 SYSTEM.DEAD.LETTER.QUEUE
    """
    with _explained():
        if queue is not None:
            with _connected(name) as queue_manager:
                typer.echo(queue_manager.depth(queue))
            return
        table = Table("Queue", "CURDEPTH", title=f"Queue manager {name}")
        table.columns[1].justify = "right"
        for queue_name, messages in embedded_mq.depths(name).items():
            if messages:
                table.add_row(Text(queue_name), str(messages))
        if not table.row_count:
            typer.echo(f"queue manager {name}: every queue is empty")
            return
        console().print(table)


def dump(
    name: QueueManagerName,
    queue: QueueName,
    file: Annotated[Path, typer.Argument(help="A new file; - writes standard output.")],
) -> None:
    """Implement `mqdlq qm dump`.

    The file has one line of JSON for each message of the local queue; the messages stay on the
    queue. It holds message bodies, and only its owner can read it.

    For example:
      mqdlq qm dump QM1 SYSTEM.DEAD.LETTER.QUEUE dead.jsonl
    """
    with _explained():
        lines = embedded_mq.dump(name, queue)
        if str(file) == "-":
            for line in lines:
                typer.echo(line, nl=False)
        else:
            messages = _write_new(file, lines)
            typer.echo(f"dumped {messages} messages of {queue} to {file}")


def _write_new(path: Path, lines: Iterable[str]) -> int:
    """Write lines to a new file, whole or not at all; returns how many without the first and last.

    A temporary file is its owner's only from the start.
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
            complaint = f"{path} exists already; a dump is written to a new file"
            raise TransportError(complaint) from None
    return count


def load(
    name: QueueManagerName,
    queue: QueueName,
    file: Annotated[Path, typer.Argument(help="A dump; - reads standard input.")],
) -> None:
    """Implement `mqdlq qm load`.

    Either all messages are put, as they were dumped, or none.

    For example:
      mqdlq qm dump QM1 SYSTEM.DEAD.LETTER.QUEUE dead.jsonl
      mqdlq qm load QM1 PAYMENTS.PARKED dead.jsonl
    """
    with _explained():
        text = _read(file).decode(errors="replace")
        source = "standard input" if str(file) == "-" else str(file)
        messages = embedded_mq.load(name, queue, text.splitlines(), source=source)
        typer.echo(f"loaded {messages} messages into {queue}")
