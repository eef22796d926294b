"""The second stage: a run's queue in, a snapshot of what is on it out; nothing is removed."""

from __future__ import annotations

import getpass
import secrets
from collections.abc import Callable
from datetime import datetime

from mqdlq.headers import PREFIX_LENGTH, header_row
from mqdlq.lake import SnapshotManifest, SnapshotWriter, read_manifest
from mqdlq.ledger import Ledger, Run
from mqdlq.model import MessageClass
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import ConnectionSettings, QueueManager, connect

PROGRESS_EVERY = 10_000


def take_snapshot(
    run: Run,
    settings: ConnectionSettings,
    *,
    ledger: Ledger,
    lake_root: str,
    clock: Callable[[], datetime],
    progress: Callable[[str], None],
) -> SnapshotManifest:
    """Browse the queue once and publish what was on it, with the run's frozen rules.

    The queue is opened for browsing only, so nobody is disturbed and no BackoutCount moves. Called
    again for the same run it returns the snapshot already taken. Raises QueueManagerError and
    LakeError; what a crash leaves behind has no manifest, so later stages do not see it.
    """
    recorded = ledger.snapshot(run.run_id)
    if recorded is not None:
        progress(f"this run's snapshot was taken before: {recorded.snapshot_id}")
        return read_manifest(recorded.location)
    taken_at = clock()
    snapshot_id = f"{taken_at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    with (
        connect(settings) as queue_manager,
        SnapshotWriter(lake_root, run.queue_manager, run.queue, snapshot_id) as writer,
    ):
        strays = _write_rows(queue_manager, run.queue, writer, clock, progress)
        manifest = writer.publish(
            taken_at=taken_at,
            taken_by=getpass.getuser(),
            rules_digest=run.rules_digest,
            rules_text=run.rules_text,
            nul_as_blank=run.nul_as_blank,
        )
    if strays:
        # IBM's handler reports each such message whenever it passes over it.
        progress(f"AMQ8721: {strays} messages are not prefixed by a valid MQDLH; they are left")
    ledger.record_snapshot(
        run.run_id, snapshot_id, writer.directory, manifest.messages, manifest.taken_at
    )
    progress(f"snapshot {snapshot_id}: {manifest.messages} messages, {manifest.bytes} bytes")
    return manifest


def _write_rows(
    queue_manager: QueueManager,
    name: str,
    writer: SnapshotWriter,
    clock: Callable[[], datetime],
    progress: Callable[[str], None],
) -> int:
    """Write a row per message; return how many of them are no dead letters."""
    constants = queue_manager.client.CMQC
    strays = 0
    longest = min(
        int(queue_manager.inquire_queue(name, constants.MQIA_MAX_MSG_LENGTH)),
        int(queue_manager.inquire(constants.MQIA_MAX_MSG_LENGTH)),
    )
    ccsid = int(queue_manager.inquire(constants.MQIA_CODED_CHAR_SET_ID))
    queue = queue_manager.open(name, constants.MQOO_BROWSE | constants.MQOO_FAIL_IF_QUIESCING)
    try:
        cursor = BrowseCursor(queue_manager, queue, name, PREFIX_LENGTH)
        for browse_seq, message in enumerate(cursor.messages(), start=1):
            row = header_row(
                browse_seq,
                message.descriptor,
                message.prefix,
                message.total_length,
                browsed_at=clock(),
                # A dead letter as long as the queue allows may have been cut to fit.
                maybe_truncated=message.total_length >= longest,
                ccsid=ccsid,
            )
            writer.write(row)
            strays += row["class"] != MessageClass.DEAD_LETTER
            if browse_seq % PROGRESS_EVERY == 0:
                progress(f"{browse_seq} messages browsed")
    finally:
        queue_manager.close(queue)
    return strays
