"""The commands `mqdlq snapshots …`: what the lake holds of queues; no queue is touched."""

import os
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import click
from rich.table import Table
from rich.text import Text

from mqdlq import directories, lake, words
from mqdlq.causes import COLUMNS, CountedCause, count_causes
from mqdlq.cli.causes import causes_as_json
from mqdlq.cli.output import (
    Output,
    attributes,
    console,
    now,
    payload_keys_of,
    refusal,
    refusing,
    titled_table,
    write_json,
)
from mqdlq.cli.rules import YAML, name_of, review_table
from mqdlq.errors import LakeError, MalformedHeaderError, MqDlqError, PasteError
from mqdlq.lake import Snapshot, storage
from mqdlq.ledger import open_ledger
from mqdlq.model import Outcome, QueueKind
from mqdlq.rules import RulesTable, freeze, table_with
from mqdlq.stages.retention import find_reasons_to_keep, prune_snapshots
from mqdlq.stages.snapshot.capture import read_payloads
from mqdlq.stages.snapshot.properties import PropertyMatches
from mqdlq.tools.dumps import PastedMessage, as_text, read_pasted
from mqdlq.tools.pasted_rows import pasted_row
from mqdlq.words import moment, place, visible

_NAME_LENGTH: Final = 48
_MOST_CAUSES: Final = 12
Name = Annotated[str, "ID|DIR: A snapshot, by its id or its directory."]


def list_snapshots(output: Output = "text") -> None:
    """Implement `mqdlq snapshots list`.

    Each snapshot is listed with what it holds and why `mqdlq snapshots prune` would keep it.

    For example:
      mqdlq snapshots list
      mqdlq snapshots list --format json
    """
    found = lake.finished_snapshots(directories.lake())
    with open_ledger(create=bool(found)) as ledger:
        kept = find_reasons_to_keep(found, ledger, now())
    if output == "json":
        write_json({"snapshots": [_as_json(one, kept) for one in found]})
    elif not found:
        click.echo(f"no snapshots in {directories.lake()}")
    else:
        click.echo("\n".join(_listed(found, kept)))


def show(snapshot: Name, output: Output = "text") -> None:
    """Implement `mqdlq snapshots show`.

    The messages are counted by cause. Queues with generated names are one destination, such as
    `AMQ.*`.

    For example:
      mqdlq snapshots show 20261121T120000Z-1a2b3c4d
    """
    found = Snapshot.named(directories.lake(), snapshot)
    causes = count_causes(lake.whole_rows(found.directory, COLUMNS))
    settled = _settled(found.directory)
    if output == "json":
        counted = {"causes": causes_as_json(causes), "settled_outcomes": dict(settled)}
        write_json(_as_json(found, {}) | counted)
        return
    click.echo("\n".join(_facts(found, settled)))
    if causes:
        click.echo()
        console().print(causes_table(causes))


def prune(
    keep: Annotated[int | None, click.IntRange(min=1)] = None,
    keep_days: Annotated[float | None, click.FloatRange(min=0)] = None,
    dry_run: bool = False,
    output: Output = "text",
) -> None:
    """Implement `mqdlq snapshots prune`.

    With both limits, a snapshot that exceeds either is removed. The newest snapshot of a queue
    always stays, and so do snapshots that compact rows of another snapshot refer to or that an
    unfinished run uses.

    Takes:
      --keep: How many snapshots of each queue are kept.
      --keep-days: For how many days snapshots are kept.
      --dry-run: Only say what would be removed.

    For example:
      mqdlq snapshots prune --keep 20 --keep-days 30
    """
    if keep is None and keep_days is None:
        raise refusal("mqdlq: say how many to keep: --keep N, --keep-days D, or both")
    is_lake = bool(lake.finished_snapshots(directories.lake()))
    with open_ledger(create=is_lake) as ledger:
        removed, kept = prune_snapshots(
            directories.lake(),
            ledger=ledger,
            now=now(),
            keep=keep,
            keep_for=None if keep_days is None else timedelta(days=keep_days),
            is_dry_run=dry_run,
        )
    if output == "json":
        document = {
            "removed": [one.manifest.snapshot_id for one in removed],
            "kept": [{"snapshot_id": o.manifest.snapshot_id, "why": why} for o, why in kept],
            "dry_run": dry_run,
        }
        write_json(document)
        return
    word = "would be removed" if dry_run else "removed"
    for one in removed:
        click.echo(f"{word}: {one.manifest.snapshot_id} of {place(one.queue[1], one.queue[0])}")
    for one, why in kept:
        click.echo(f"kept: {one.manifest.snapshot_id}: {why}")
    if not removed:
        click.echo(f"nothing {word}")


def write_payload(
    snapshot: Name, to: Path, message: tuple[int, ...] = (), key_connection: str | None = None
) -> None:
    """Implement `mqdlq snapshots payload`.

    Each body goes to a file NUMBER.bin that only you can read, as it was on the queue and in its
    own character set. Existing files are not replaced. The payload of a settled message is in the
    earlier snapshot that holds its full row.

    Takes:
      --to: The directory to write to; it is created if it does not exist.
      --message NUMBER: Only this message, by its number in the snapshot; repeatable.
      --key-connection: The Airflow connection with the key, where the payload is encrypted.

    For example:
      mqdlq snapshots payload 20261121T120000Z-1a2b3c4d --message 65 --to bodies
    """
    with refusing(OSError, code=1):
        directory = snapshot.rstrip("/")
        if "/" not in directory:
            directory = lake.find_snapshot(directories.lake(), directory)
        written = _write(directory, to, message, payload_keys_of(key_connection))
    click.echo(f"{written} payloads written to {to}")


def _write(directory: str, to: Path, wanted: Sequence[int], keys: dict[str, bytes]) -> int:
    """Write the payloads; raise `LakeError` where one that is wanted was never captured."""
    manifest = lake.read_manifest(directory)
    if manifest.payload == "none":
        raise LakeError(
            "MQDLQ-915",
            f"{directory} has no payload, as the handler's `payload` was none when it was taken",
        )
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    missing, written = set(wanted), 0
    for browse_seq, payload in read_payloads(directory, keys):
        if wanted and browse_seq not in missing:
            continue
        missing.discard(browse_seq)
        options = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(to / f"{browse_seq}.bin", options, 0o600), "wb") as file:
            file.write(payload)
        written += 1
    if missing:
        elsewhere = f"; try {', '.join(manifest.refers_to)}" if manifest.refers_to else ""
        raise LakeError(
            "MQDLQ-916",
            f"{directory} has no payload of message {', '.join(map(str, sorted(missing)))}"
            f"{elsewhere}",
        )
    return written


def _settled(directory: str) -> Counter[str]:
    counted: Counter[str] = Counter()
    for batch in lake.settled_rows(directory, ["outcome"]):
        counted.update(str(Outcome(one)) for one in batch.column("outcome").to_pylist())
    return counted


def _as_json(found: Snapshot, kept: Mapping[str, str]) -> dict[str, Any]:
    manifest = found.manifest
    return {
        **attributes(manifest, "snapshot_id", "queue_manager", "queue", "taken_at", "taken_by"),
        **attributes(manifest, "imported_from", "put_together_from", "messages", "full", "settled"),
        **attributes(manifest, "refers_to", "bytes"),
        "stored_bytes": storage.size(found.directory),
        "payload": manifest.payload,
        "payload_key_id": manifest.payload_key_id or None,
        **attributes(manifest, "rules_digest", "schema_version"),
        "directory": found.directory,
        "kept_because": kept.get(manifest.snapshot_id),
    }


def _listed(found: Sequence[Snapshot], kept: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the list; each snapshot's id stands whole at the start of a line."""
    for (queue_manager, queue), snapshots in groupby(found, key=lambda one: one.queue):
        yield visible(f"{queue} @ {queue_manager}")
        yield f"{'Snapshot':27}{'Messages':>10}{'Settled':>10}{'Stored':>12}  Payload"
        for one in snapshots:
            manifest = one.manifest
            yield (
                f"{manifest.snapshot_id:27}{manifest.messages:>10,}{manifest.settled:>10,}"
                f"{_bytes(storage.size(one.directory)):>12}  {_payload(one)}"
            )
            if why := kept.get(manifest.snapshot_id):
                yield f"  kept: {visible(why)}"


def _facts(found: Snapshot, settled: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each fact of the manifest; ids and paths stay whole."""
    manifest = found.manifest
    known = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(settled.items()))
    rows = {
        "Snapshot": manifest.snapshot_id,
        "Queue": visible(f"{manifest.queue} @ {manifest.queue_manager}"),
        "Taken": f"{moment(manifest.taken_at)} by {visible(manifest.taken_by)}",
        "Imported": "; ".join(map(visible, manifest.imported_from)),
        "Put together": f"from {', '.join(manifest.put_together_from)}"
        if manifest.put_together_from
        else "",
        "Messages": f"{manifest.messages:,}, {manifest.bytes:,} bytes",
        "Settled": f"{manifest.settled:,}: {known}" if settled else "",
        "Refers to": ", ".join(manifest.refers_to),
        "Payload": _payload(found),
        "Stored": f"{_bytes(storage.size(found.directory))} in {visible(found.directory)}",
        "Rules": manifest.rules_digest[:12],
        "Schema": f"version {manifest.schema_version}",
    }
    yield from (f"{name:15}{value}" for name, value in rows.items() if value)


def _payload(found: Snapshot) -> str:
    key = found.manifest.payload_key_id
    return f"{found.manifest.payload}, key {visible(key)}" if key else found.manifest.payload


def _bytes(number: int) -> str:
    if number < 1 << 20:
        return f"{number / 1024:.1f} KiB"
    return f"{number / (1 << 20):,.1f} MiB"


def causes_table(causes: Sequence[CountedCause]) -> Table:
    """Return the largest causes, a row to each; the rest are counted in one."""
    table = titled_table("Why they are here", "Messages", "Reason", "Destination", "Dead-lettered")
    for counted in causes[:_MOST_CAUSES]:
        cause = counted.cause
        in_words = words.reason_in_words(cause.reason)
        table.add_row(
            f"{counted.messages:,}",
            Text(in_words if cause.is_of_dead_letters else words.cause_in_words(cause)),
            Text(words.destination_of(cause, counted.queues)),
            words.period(counted.first_at, counted.last_at),
        )
    if rest := causes[_MOST_CAUSES:]:
        messages = sum(cause.messages for cause in rest)
        table.add_row(f"{messages:,}", f"{len(rest):,} more causes", "", "")
    return table


def import_snapshot(
    pastes: tuple[BinaryIO, ...],
    *,
    queue_manager: str,
    queue: str,
    rules: BinaryIO | None = None,
    taken_at: Annotated[datetime | None, click.DateTime(["%Y-%m-%dT%H:%M:%SZ"])] = None,
    output: Output = "text",
) -> None:
    """Implement `mqdlq snapshots import`.

    Use the snapshot to rehearse a rules table, by `mqdlq rules diff --snapshot` or by an
    evaluation. No run acts on it, because no run has browsed the queue.

    Takes:
      PASTE: Output of amqsbcg or files of dmpmqmsg; - is standard input.
      --queue-manager QM: The snapshot's queue manager.
      --queue Q: The snapshot's queue.
      --rules PATH: The rules table an evaluation is to take.
      --taken-at TIME: When the messages were dumped, as 2026-11-21T12:00:00Z; now, if not given.

    For example:
      mqdlq snapshots import --queue-manager QM1 --queue DLQ dump.txt
    """
    with refusing(MqDlqError, code=1, prefix=""):
        for name in (queue_manager, queue):
            if not 0 < len(name) <= _NAME_LENGTH:
                raise LakeError(
                    "MQDLQ-914",
                    f"{name!r} is not a name of a queue or queue manager; expected 1 to 48"
                    " characters",
                )
        at = now() if taken_at is None else taken_at.replace(tzinfo=UTC)
        table, text = _frozen(rules)
        found = [_read(paste) for paste in pastes]
        snapshot_id = f"{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
        with lake.SnapshotWriter(directories.lake(), queue_manager, queue, snapshot_id) as writer:
            matches = PropertyMatches(table_with(text, "PROPERTY"))
            pasted = [(name, message) for name, _, messages in found for message in messages]
            for browse_seq, (name, message) in enumerate(pasted, start=1):
                try:
                    writer.write(pasted_row(browse_seq, message, matches, at))
                except MalformedHeaderError as error:
                    raise PasteError(message.line, str(error), name) from None
            manifest = writer.finish(
                taken_at=at,
                taken_by=directories.account(),
                rules_digest=table.digest if table else "",
                rules_text=text,
                queue_kind=table.queue_kind if table else QueueKind.DEAD_LETTER,
                imported_from=tuple(what for _, what, _ in found),
            )
    if output == "json":
        shown = {"snapshot_id": manifest.snapshot_id, "directory": writer.directory}
        write_json(shown | {"messages": manifest.messages}, indent=None)
        return
    click.echo(
        f"snapshot {manifest.snapshot_id}: {manifest.messages} messages in {writer.directory}"
    )
    click.echo("imported, for rehearsals only: a run takes its own snapshot")


def _frozen(file: BinaryIO | None) -> tuple[RulesTable | None, str]:
    """Return a table as a run would freeze it: a file as it is, YAML as its canonical print."""
    if file is None:
        return None, ""
    data, name = file.read(), name_of(file)
    table = review_table(data, name).valid_table()
    try:
        text = "" if name.endswith(YAML) else data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    return table, text or freeze(table)


def _read(file: BinaryIO) -> tuple[str, str, list[PastedMessage]]:
    """Return the name of a file, what the manifest says of it, and its messages with an MQMD."""
    data, name = file.read(), name_of(file)
    messages = list(read_pasted(as_text(data), name))
    for message in messages:
        if message.descriptor is None:
            raise PasteError(message.line, "this message has no MQMD; a snapshot needs it", name)
    sources = " and ".join(sorted({message.source for message in messages})) or "nothing"
    return name, f"{sources} in {name}, SHA-256 {sha256(data).hexdigest()}", messages
