"""The command `mqdlq snapshots payload`: write captured message bodies to files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import click

from mqdlq import directories, lake
from mqdlq.cli.parameters import Argument, Option
from mqdlq.errors import LakeError, MqDlqError
from mqdlq.stages.snapshot.capture import read_payloads

_PRIVATE_DIRECTORY: Final = 0o700
_PRIVATE_FILE: Final = 0o600


def write_payload(
    snapshot: Annotated[
        str, Argument(metavar="ID|DIR", help="A snapshot, by its id or its directory.")
    ],
    to: Annotated[
        Path, Option(help="The directory to write to; it is created if it does not exist.")
    ],
    message: Annotated[
        list[int] | None,
        Option(
            metavar="NUMBER", help="Only this message, by its number in the snapshot; repeatable."
        ),
    ] = None,
    key_connection: Annotated[
        str | None,
        Option(help="The Airflow connection with the key, where the payload is encrypted."),
    ] = None,
) -> None:
    """Implement `mqdlq snapshots payload`.

    Each body goes to a file NUMBER.bin that only you can read, as it was on the queue and in its
    own character set. Existing files are not replaced. The payload of a settled message is in the
    earlier snapshot that holds its full row.

    For example:
      mqdlq snapshots payload 20261121T120000Z-1a2b3c4d --message 65 --to bodies
    """
    try:
        directory = snapshot.rstrip("/")
        if "/" not in directory:
            directory = lake.find_snapshot(directories.lake(), directory)
        written = _write(directory, to, message or (), _keys(key_connection))
    except (MqDlqError, OSError) as error:
        click.echo(f"mqdlq: {error}", err=True)
        raise SystemExit(1) from None
    click.echo(f"{written} payloads written to {to}")


def _write(directory: str, to: Path, wanted: Sequence[int], keys: dict[str, bytes]) -> int:
    """Write the payloads; raise `LakeError` where one that is wanted was never captured."""
    manifest = lake.read_manifest(directory)
    if manifest.payload == "none":
        raise LakeError(
            "MQDLQ-915",
            f"{directory} has no payload, as the handler's `payload` was none when it was taken",
        )
    to.mkdir(mode=_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    missing, written = set(wanted), 0
    for browse_seq, payload in read_payloads(directory, keys):
        if wanted and browse_seq not in missing:
            continue
        missing.discard(browse_seq)
        options = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(to / f"{browse_seq}.bin", options, _PRIVATE_FILE), "wb") as file:
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


def _keys(conn_id: str | None) -> dict[str, bytes]:
    """Return the keys a connection of this Airflow holds, none without a connection."""
    if conn_id is None:
        return {}
    # Airflow takes seconds to import, and only an encrypted payload needs it.
    from mqdlq.airflow.hooks.payload_keys import payload_keys  # noqa: PLC0415

    return payload_keys(conn_id)
