"""The command `mqdlq explain`: for each message, which rules match and why the others do not."""

from __future__ import annotations

import json
import re
import string
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import click

from mqdlq import directories, lake
from mqdlq.cli.files import STANDARD_INPUT, Format, QueueKindOption, parse_table
from mqdlq.cli.messages.sources import (
    Message,
    Selection,
    file_messages,
    queue_messages,
    snapshot_messages,
)
from mqdlq.cli.parameters import Argument, Option
from mqdlq.cli.queue_managers import (
    Address,
    CcdtOption,
    ChannelOption,
    ClientOption,
    HostOption,
    PortOption,
    TransportOption,
    UserOption,
    connect_to,
    is_known,
    known,
)
from mqdlq.errors import ConnectionSettingsError, MqDlqError
from mqdlq.model import QueueKind
from mqdlq.reading.explanations import (
    RULES_APPLY_TO,
    explanation_as_json,
    explanation_as_text,
    unasked_as_json,
)
from mqdlq.rules import RulesTable, with_nuls_as_blanks
from mqdlq.rules import explain as explain_message
from mqdlq.rules.diagnostics import listed
from mqdlq.rules.keywords import KEYWORDS
from mqdlq.stages.snapshot.preview import choose_queue

USAGE: Final = 2
_NOT_APPLIED: Final = "its class is {}; rules apply to {} only, so it is left"
_HEXADECIMAL: Final = frozenset(string.hexdigits)
_SNAPSHOT_ID: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")


class SourceError(MqDlqError, ValueError):
    """The named source is not a file, a snapshot or a queue manager."""


def explain(
    source: Annotated[
        str,
        Argument(
            metavar="SOURCE",
            help="A file (- is standard input), a snapshot's id, or a queue manager.",
        ),
    ],
    queue: Annotated[
        str,
        Argument(
            metavar="QUEUE",
            help="The queue of a queue manager; else the table's INPUTQ, else DEADQ.",
            show_default=False,
        ),
    ] = "",
    *,
    rules: Annotated[BinaryIO, Option(metavar="PATH", help="The rules table.")],
    number: Annotated[
        list[int] | None,
        Option("--message", metavar="NUMBER", help="Only the message of this number; repeatable."),
    ] = None,
    key: Annotated[
        list[str] | None,
        Option(
            metavar="HEX",
            help="Only the message with this message_key, or its beginning; repeatable.",
        ),
    ] = None,
    msg_id: Annotated[
        list[str] | None,
        Option(metavar="HEX", help="Only messages with this MsgId; repeatable."),
    ] = None,
    nul_as_blank: Annotated[
        bool, Option("--nul-as-blank", help="Compare NULs as blanks; IBM's handler does not.")
    ] = False,
    queue_kind: QueueKindOption = QueueKind.DEAD_LETTER,
    output: Annotated[Format, Option("--format", help="How to write it.")] = Format.TEXT,
    transport: TransportOption = None,
    host: HostOption = "",
    port: PortOption = 1414,
    channel: ChannelOption = "",
    ccdt_url: CcdtOption = "",
    user: UserOption = "",
    client: ClientOption = None,
) -> None:
    """Implement `mqdlq explain`.

    A file holds JSON lines, or whatever `mqdlq decode` reads: the output of amqsbcg, a file of
    dmpmqmsg, or hexadecimal digits of a body. A line of JSON is an object with columns of a
    snapshot (a column that is absent is blank, or 0), a line of `mqdlq decode --format json`, or a
    line of `mqdlq qm browse --format json`. A queue is browsed, and nothing changes.

    Messages are numbered from 1 in a file, and by browse_seq in a snapshot or on a queue. For a
    message that no rule matches, the nearest rule is named: the first of those with the fewest
    keywords that fail. No rule is asked about a message whose class is not dead_letter, or, with
    --queue-kind backout, not no_dlh.

    Exit code 0 if every message was explained; 1 if the input, the table or a chosen message is
    not valid or not there; 2 if an argument is wrong.

    For example:
      mqdlq explain --rules include/rules/demo.rules QM1 SYSTEM.DEAD.LETTER.QUEUE --message 65
      mqdlq explain --rules include/rules/demo.rules 20261121T120000Z-1a2b3c4d --format json
      mqdlq decode dump.txt --format json | mqdlq explain --rules include/rules/demo.rules -
      echo '{"dlh_reason": 2053}' | mqdlq explain --rules include/rules/demo.rules -
      mqdlq explain --queue-kind backout --rules include/rules/backout.rules QM1 ORDERS.BACKOUT
    """
    address = Address(transport, host, port, channel, ccdt_url, user, client)
    try:
        selection = Selection(
            tuple(number or ()), _digits("--key", key, 64), _digits("--msg-id", msg_id, 48)
        )
        table = parse_table(rules, queue_kind)
        with _opened(source, queue, table, address) as messages:
            for message in _warned(selection.of(messages), source, table):
                values = with_nuls_as_blanks(message.values) if nul_as_blank else message.values
                click.echo(_explained(message, table, values, output))
    except (SourceError, ConnectionSettingsError) as error:
        click.echo(f"mqdlq: {error}", err=True)
        raise SystemExit(USAGE) from None
    except MqDlqError as error:
        is_placed = isinstance(error, ValueError)
        click.echo(error if is_placed else f"mqdlq: {error}", err=True)
        raise SystemExit(1) from None


def _digits(option: str, given: list[str] | None, most: int) -> tuple[str, ...]:
    """Return hexadecimal digits in lower case; raise SourceError for anything else."""
    for digits in given or ():
        if not 0 < len(digits) <= most or not set(digits) <= _HEXADECIMAL:
            raise SourceError(
                "MQDLQ-901", f"{option}: expected up to {most} hexadecimal digits, found {digits!r}"
            )
    return tuple(digits.lower() for digits in given or ())


@contextmanager
def _opened(
    source: str, queue: str, table: RulesTable, address: Address
) -> Iterator[Iterator[Message]]:
    """Yield the messages of a file, a snapshot or a queue; raise SourceError for others."""
    if source == "-" and not queue:
        yield file_messages(sys.stdin.buffer, STANDARD_INPUT, table, _warn)
    elif not queue and Path(source).is_file():
        with Path(source).open("rb") as file:
            yield file_messages(file, source, table, _warn)
    elif not queue and _SNAPSHOT_ID.fullmatch(source):
        yield snapshot_messages(lake.find_snapshot(directories.lake(), source))
    elif not queue and ("://" in source or Path(source).is_dir()):
        yield snapshot_messages(source.rstrip("/"))
    elif queue or is_known(source, address):
        with connect_to(source, address) as found:
            yield queue_messages(
                found,
                choose_queue(found, table, queue),
                table,
                lambda: datetime.now(UTC),  # noqa: TID251 (an entry point)
            )
    else:
        raise SourceError(
            "MQDLQ-902",
            f"{source} is not a file, a snapshot's id or a queue manager that is known here"
            f" ({known()}); to browse a queue manager of this machine, also name its queue",
        )


def _warned(messages: Iterator[Message], source: str, table: RulesTable) -> Iterator[Message]:
    """Pass the messages on; warn if there are none, or the rules look at an MQMD that is absent."""
    name = STANDARD_INPUT if source == "-" else source
    is_empty = True
    of_md = [
        keyword.name
        for keyword in KEYWORDS.values()
        if (column := keyword.column_on(table.queue_kind)) in table.columns
        and not column.startswith("dlh_")
    ]
    for message in messages:
        if of_md and not message.has_md:
            _warn(
                f"{name}: warning: without an MQMD, {listed(of_md, 'and')} compare with blank or 0"
            )
            of_md = []
        is_empty = False
        yield message
    if is_empty:
        _warn(f"{name}: there is no message to explain")


def _warn(text: str) -> None:
    click.echo(text, err=True)


def _explained(message: Message, table: RulesTable, values: Any, output: Format) -> str:
    if not table.acts_on(message.message_class):
        if output is Format.TEXT:
            applied = RULES_APPLY_TO[table.queue_kind]
            return f"{message.label}: {_NOT_APPLIED.format(message.message_class, applied)}"
        found = unasked_as_json(message.message_class, table)
    elif output is Format.TEXT:
        return explanation_as_text(message.label, table, explain_message(table, values))
    else:
        found = explanation_as_json(explain_message(table, values))
    if not message.is_row:
        identity = {"number": message.number, "message_key": message.key, "msg_id": message.msg_id}
        found = {"message": identity, **found}
    return json.dumps(found)
