"""Store the replacement of a body for `mqdlq run --body`, and show how it differs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mqdlq import directories
from mqdlq.cli.output import now, payload_keys_of, refusing
from mqdlq.controls.repair import NO_BODIES
from mqdlq.errors import HandlerError, LakeError, MessageKeyError
from mqdlq.handlers import load_handler
from mqdlq.lake import snapshot_directory
from mqdlq.lake.schema import HEADERS
from mqdlq.ledger import open_ledger
from mqdlq.reading.find import find_row
from mqdlq.stages.snapshot.capture import read_payload
from mqdlq.tools.acting import ActionError, Sources
from mqdlq.tools.replacing import difference, record_look, store_replacement
from mqdlq.words import visible


def store(handler: str, file: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Store a file for the one message of a run; show how it differs; return it for the repair."""
    faults = (HandlerError, MessageKeyError, ActionError, LakeError, OSError)
    with refusing(*faults), open_ledger(create=False) as ledger:
        configured, keys = load_handler(handler), given.get("message_keys") or []
        if not configured.repair.body:
            raise HandlerError("MQDLQ-531", f"{handler}: {NO_BODIES}")
        if len(keys) != 1:
            raise ActionError("message_keys", f"there are {len(keys)}", "one in --conf")
        (key,) = ledger.message_facts.complete(keys, [handler])
        sources, who = Sources(handler, ledger, directories.lake(), now), directories.account()
        of_message: dict[str, Any] = {"ledger": ledger, "lake_root": sources.lake_root}
        found, payload = find_row(key, handler, columns=HEADERS.names, **of_message), None
        if found is not None:
            snapshot, row = found
            place = snapshot.queue_manager, snapshot.queue, snapshot.snapshot_id
            directory = snapshot_directory(sources.lake_root, *place)
            known = payload_keys_of(configured.payload_key)
            payload = read_payload(directory, row["browse_seq"], known)
        if found is None or payload is None:
            expected = "a run with full_snapshot, and payload in the handler's file"
            raise ActionError("--body", "no snapshot has the message's body", expected)
        new = file.read_bytes()
        stored = store_replacement(new, key, who, sources)
        record_look(sources, who, *found, f"how {stored['body_sha256']} differs")
        lines, note = difference(payload.data, new, found[1])
    for line in (note, *lines):
        click.echo(visible(line))
    click.echo(f"The replacement is stored. In Airflow, repair with {json.dumps(stored)}")
    return stored
