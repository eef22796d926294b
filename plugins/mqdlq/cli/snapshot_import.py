"""The command `mqdlq snapshots import`: make a snapshot from a dump."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any, BinaryIO, Final

import click

from mqdlq import directories, lake
from mqdlq.cli.commands import Argument, Option
from mqdlq.cli.files import YAML, name_of, review_table
from mqdlq.cli.output import Format, Output, now, refusing
from mqdlq.errors import LakeError, MalformedHeaderError, MqDlqError, PasteError
from mqdlq.headers import MessageDescriptor, header_row
from mqdlq.model import QueueKind
from mqdlq.mqi.browse import BrowsedMessage
from mqdlq.rules import RulesError, RulesTable, freeze, table_with
from mqdlq.stages.snapshot.rows import PropertyMatches
from mqdlq.tools.dumps import PastedMessage, as_text, read_pasted

_NAME_LENGTH: Final = 48
_REHEARSAL: Final = "imported, for rehearsals only: a run takes its own snapshot"


@dataclass(frozen=True, slots=True)
class _Paste:
    """A file that was read: its name, the digest of its bytes, its messages with their MQMDs."""

    name: str
    digest: str
    messages: tuple[tuple[MessageDescriptor, PastedMessage], ...]

    def described(self) -> str:
        """Say in the manifest what was imported."""
        sources = " and ".join(sorted({message.source for _, message in self.messages}))
        return f"{sources or 'nothing'} in {self.name}, SHA-256 {self.digest}"


def import_snapshot(
    pastes: Annotated[
        list[BinaryIO],
        Argument(
            metavar="PASTE", help="Output of amqsbcg or files of dmpmqmsg; - is standard input."
        ),
    ],
    *,
    queue_manager: Annotated[str, Option(metavar="QM", help="The snapshot's queue manager.")],
    queue: Annotated[str, Option(metavar="Q", help="The snapshot's queue.")],
    rules: Annotated[
        BinaryIO | None,
        Option(metavar="PATH", help="The rules table an evaluation is to take."),
    ] = None,
    taken_at: Annotated[
        datetime | None,
        Option(
            metavar="TIME",
            type=click.DateTime(["%Y-%m-%dT%H:%M:%SZ"]),
            help="When the messages were dumped, as 2026-11-21T12:00:00Z; now, if not given.",
        ),
    ] = None,
    output: Output = Format.TEXT,
) -> None:
    """Implement `mqdlq snapshots import`.

    Use the snapshot to rehearse a rules table, by `mqdlq rules diff --snapshot` or by an
    evaluation. No run acts on it, because no run has browsed the queue.

    For example:
      mqdlq snapshots import --queue-manager QM1 --queue DLQ dump.txt
    """
    with refusing(MqDlqError, code=1, prefix=""):
        _check_names(queue_manager, queue)
        at = now() if taken_at is None else taken_at.replace(tzinfo=UTC)
        table, text = _frozen(rules)
        found = [_read(paste) for paste in pastes]
        snapshot_id = f"{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
        with lake.SnapshotWriter(directories.lake(), queue_manager, queue, snapshot_id) as writer:
            for row in _rows(found, at, PropertyMatches(table_with(text, "PROPERTY"))):
                writer.write(row)
            manifest = writer.finish(
                taken_at=at,
                taken_by=directories.account(),
                rules_digest=table.digest if table else "",
                rules_text=text,
                queue_kind=table.queue_kind if table else QueueKind.DEAD_LETTER,
                imported_from=tuple(paste.described() for paste in found),
            )
    if output is Format.JSON:
        shown = {"snapshot_id": manifest.snapshot_id, "directory": writer.directory}
        click.echo(json.dumps(shown | {"messages": manifest.messages}))
        return
    click.echo(
        f"snapshot {manifest.snapshot_id}: {manifest.messages} messages in {writer.directory}"
    )
    click.echo(_REHEARSAL)


def _check_names(*names: str) -> None:
    for name in names:
        if not 0 < len(name) <= _NAME_LENGTH:
            raise LakeError(
                "MQDLQ-914",
                f"{name!r} is not a name of a queue or queue manager; expected 1 to 48 characters",
            )


def _frozen(file: BinaryIO | None) -> tuple[RulesTable | None, str]:
    """Return a table as a run would freeze it: a file as it is, YAML as its canonical print."""
    if file is None:
        return None, ""
    data, name = file.read(), name_of(file)
    result = review_table(data, name)
    if result.table is None:
        raise RulesError(result.diagnostics)
    try:
        text = "" if name.endswith(YAML) else data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    return result.table, text or freeze(result.table)


def _read(file: BinaryIO) -> _Paste:
    data, name = file.read(), name_of(file)
    messages = []
    for message in read_pasted(as_text(data), name):
        if message.descriptor is None:
            raise PasteError(message.line, "this message has no MQMD; a snapshot needs it", name)
        messages.append((message.descriptor, message))
    return _Paste(name, sha256(data).hexdigest(), tuple(messages))


def _rows(pastes: list[_Paste], at: datetime, matches: PropertyMatches) -> Iterator[dict[str, Any]]:
    """Yield a row for each message, in the order of the files and of what is in them."""
    messages = ((paste.name, *message) for paste in pastes for message in paste.messages)
    for browse_seq, (name, descriptor, message) in enumerate(messages, start=1):
        try:
            yield pasted_row(browse_seq, descriptor, message, matches, at)
        except MalformedHeaderError as error:
            raise PasteError(message.line, str(error), name) from None


def pasted_row(
    browse_seq: int,
    descriptor: MessageDescriptor,
    message: PastedMessage,
    matches: PropertyMatches,
    browsed_at: datetime,
) -> dict[str, Any]:
    """Return a message of a dump as a row of a snapshot; raises MalformedHeaderError."""
    shown = BrowsedMessage(descriptor.encode(), message.body, message.total_length)
    row = header_row(
        browse_seq, shown.descriptor, shown.prefix, shown.total_length, browsed_at=browsed_at
    )
    # Whether the queue cut a message depends on its MAXMSGL, of which a dump says nothing.
    return row | {"maybe_truncated": None} | matches.compare(shown, is_complete=False)
