"""`mqdlq snapshots`: what the lake holds of queues, listed, shown, pruned; no queue is touched."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Annotated, Any, Final

import click

from mqdlq import directories, lake
from mqdlq.causes import COLUMNS, count_causes
from mqdlq.cli.console import console
from mqdlq.cli.files import Format
from mqdlq.cli.parameters import Argument, Option
from mqdlq.cli.snapshots.causes import causes_as_json, causes_table
from mqdlq.errors import MqDlqError
from mqdlq.lake import Snapshot, storage
from mqdlq.ledger import open_ledger
from mqdlq.model import Outcome
from mqdlq.stages.retention import find_reasons_to_keep, prune_snapshots
from mqdlq.words import moment, place, visible

USAGE: Final = 2
Output = Annotated[Format, Option("--format", help="How to write it.")]


def list_snapshots(output: Output = Format.TEXT) -> None:
    """Implement `mqdlq snapshots list`.

    Each snapshot is listed with what it holds and why `mqdlq snapshots prune` would keep it.

    For example:
      mqdlq snapshots list
      mqdlq snapshots list --format json
    """
    try:
        found = lake.finished_snapshots(directories.lake())
        with open_ledger(create=bool(found)) as ledger:
            now = datetime.now(UTC)  # noqa: TID251 (an entry point)
            kept = find_reasons_to_keep(found, ledger, now)
    except MqDlqError as error:
        raise _failure(error) from None
    if output is Format.JSON:
        listed = [_as_json(one, kept) for one in found]
        click.echo(json.dumps({"snapshots": listed}, indent=2))
    elif not found:
        click.echo(f"no snapshots in {directories.lake()}")
    else:
        click.echo("\n".join(_listed(found, kept)))


def show(
    snapshot: Annotated[
        str, Argument(metavar="ID|DIR", help="A snapshot, by its id or its directory.")
    ],
    output: Output = Format.TEXT,
) -> None:
    """Implement `mqdlq snapshots show`.

    The messages are counted by cause. Queues with generated names are one destination, such as
    `AMQ.*`.

    For example:
      mqdlq snapshots show 20261121T120000Z-1a2b3c4d
    """
    try:
        found = Snapshot.named(directories.lake(), snapshot)
        causes = count_causes(lake.whole_rows(found.directory, COLUMNS))
        settled = _settled(found.directory)
    except MqDlqError as error:
        raise _failure(error) from None
    if output is Format.JSON:
        shown = _as_json(found, {}) | {
            "causes": causes_as_json(causes),
            "settled_outcomes": dict(settled),
        }
        click.echo(json.dumps(shown, indent=2))
        return
    click.echo("\n".join(_facts(found, settled)))
    if causes:
        click.echo()
        console().print(causes_table(causes))


def prune(
    keep: Annotated[
        int | None,
        Option(type=click.IntRange(min=1), help="How many snapshots of each queue are kept."),
    ] = None,
    keep_days: Annotated[
        float | None,
        Option(type=click.FloatRange(min=0), help="For how many days snapshots are kept."),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be removed.")] = False,
    output: Output = Format.TEXT,
) -> None:
    """Implement `mqdlq snapshots prune`.

    With both limits, a snapshot that exceeds either is removed. The newest snapshot of a queue
    always stays, and so do snapshots that compact rows of another snapshot refer to or that an
    unfinished run uses.

    For example:
      mqdlq snapshots prune --keep 20 --keep-days 30
    """
    if keep is None and keep_days is None:
        click.echo("mqdlq: say how many to keep: --keep N, --keep-days D, or both", err=True)
        raise SystemExit(USAGE)
    try:
        is_lake = bool(lake.finished_snapshots(directories.lake()))
        with open_ledger(create=is_lake) as ledger:
            removed, kept = prune_snapshots(
                directories.lake(),
                ledger=ledger,
                now=datetime.now(UTC),  # noqa: TID251 (an entry point)
                keep=keep,
                keep_for=None if keep_days is None else timedelta(days=keep_days),
                is_dry_run=dry_run,
            )
    except MqDlqError as error:
        raise _failure(error) from None
    if output is Format.JSON:
        document = {
            "removed": [one.manifest.snapshot_id for one in removed],
            "kept": [{"snapshot_id": o.manifest.snapshot_id, "why": why} for o, why in kept],
            "dry_run": dry_run,
        }
        click.echo(json.dumps(document, indent=2))
        return
    word = "would be removed" if dry_run else "removed"
    for one in removed:
        click.echo(f"{word}: {one.manifest.snapshot_id} of {place(one.queue[1], one.queue[0])}")
    for one, why in kept:
        click.echo(f"kept: {one.manifest.snapshot_id}: {why}")
    if not removed:
        click.echo(f"nothing {word}")


def _failure(error: MqDlqError) -> SystemExit:
    click.echo(f"mqdlq: {error}", err=True)
    return SystemExit(1)


def _settled(directory: str) -> Counter[str]:
    """Count the compact rows by the outcome their messages had."""
    counted: Counter[str] = Counter()
    for batch in lake.settled_rows(directory, ["outcome"]):
        counted.update(str(Outcome(one)) for one in batch.column("outcome").to_pylist())
    return counted


def _as_json(found: Snapshot, kept: Mapping[str, str]) -> dict[str, Any]:
    manifest = found.manifest
    return {
        "snapshot_id": manifest.snapshot_id,
        "queue_manager": manifest.queue_manager,
        "queue": manifest.queue,
        "taken_at": manifest.taken_at.isoformat(),
        "taken_by": manifest.taken_by,
        "imported_from": list(manifest.imported_from),
        "put_together_from": list(manifest.put_together_from),
        "messages": manifest.messages,
        "full": manifest.full,
        "settled": manifest.settled,
        "refers_to": list(manifest.refers_to),
        "bytes": manifest.bytes,
        "stored_bytes": storage.size(found.directory),
        "payload": manifest.payload,
        "payload_key_id": manifest.payload_key_id or None,
        "rules_digest": manifest.rules_digest,
        "schema_version": manifest.schema_version,
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
    counts = f"{manifest.messages:,}, {manifest.bytes:,} bytes"
    known = ", ".join(f"{number:,} {outcome}" for outcome, number in sorted(settled.items()))
    rows = {
        "Snapshot": manifest.snapshot_id,
        "Queue": visible(f"{manifest.queue} @ {manifest.queue_manager}"),
        "Taken": f"{moment(manifest.taken_at)} by {visible(manifest.taken_by)}",
        "Imported": "; ".join(map(visible, manifest.imported_from)),
        "Put together": f"from {', '.join(manifest.put_together_from)}"
        if manifest.put_together_from
        else "",
        "Messages": counts,
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
