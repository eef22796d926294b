"""Put the snapshots of a backfill's window of time together into one.

A backfill takes no snapshot of the queue. It puts the snapshots of its window together into one,
in which the newest row of a message wins, frozen with today's rules; the evaluation then is the
ordinary one. Where the backfill is to act, only messages that are on the queue now are put in;
where messages are named, only those.
Messages with equal keys are equal in all that rules look at: of them there are as many as the
snapshot has that holds most.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from mqdlq.headers import message_key
from mqdlq.lake import (
    SnapshotManifest,
    SnapshotWriter,
    find_snapshot,
    read_manifest,
    settled_rows,
    snapshot_rows,
    snapshot_stands,
)
from mqdlq.ledger import Ledger, Look, Run, TakenSnapshot
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.stages.approve import note_causes
from mqdlq.stages.execute import Execution
from mqdlq.stages.sense.backfill_window import Window, snapshots_of
from mqdlq.stages.snapshot.named_messages import check_action
from mqdlq.stages.snapshot.stage import places_of, recording_refusals


def snapshot_of_window(
    execution: Execution, window: Window, *, apply: bool
) -> SnapshotManifest | None:
    """Put the snapshots of a window together; return None where there is nothing to evaluate.

    With `apply` the run acts: it gets the messages that are still on its queue, and run twice, the
    same snapshot. Raises HandlerError, recorded for the report, for an action that a named message
    cannot have, and what `put_together` raises.
    """
    run, ledger, log = execution.run, execution.ledger, execution.log
    taken = snapshots_of(run, window, ledger)
    kept = still_kept(taken)
    if len(kept) < len(taken):
        log.warning("%d of %d snapshots are pruned", len(taken) - len(kept), len(taken))
    if not kept:
        why = f"All {len(taken)} snapshots taken from {window} are pruned: nothing to evaluate."
        ledger.runs.record_look(run.run_id, Look(0, False, why, execution.clock()))
        log.info("%s", why)
        return None
    manifest = put_together(
        run,
        kept,
        execution.settings if apply else None,
        ledger=ledger,
        lake_root=execution.lake_root,
        clock=execution.clock,
    )
    with recording_refusals(execution):
        check_action(run, str(places_of(manifest, execution.lake_root)["snapshot"]))
    note_causes(run, ledger=ledger)
    which = "are on the queue now" if apply else "to be evaluated"
    log.info("%d messages from %s %s", manifest.messages, window, which)
    return manifest if manifest.messages or not apply else None


def put_together(
    run: Run,
    taken: Iterable[TakenSnapshot],
    settings: ConnectionSettings | None,
    *,
    ledger: Ledger,
    lake_root: str,
    clock: Callable[[], datetime],
) -> SnapshotManifest:
    """Write one snapshot out of several, with the run's rules; the newest row of a message wins.

    The snapshots are those that are `still_kept`.

    With `settings` the run is to act: only messages that a browse of the queue meets now are put
    in, and the run works on this snapshot as on one of its own. Without, it is for evaluation
    only, and the ledger does not know it. Called again for a run that acts, it returns the one
    already made. Raises LakeError and QueueManagerError.
    """
    recorded = ledger.snapshots.of_run(run.run_id)
    if recorded is not None:
        return read_manifest(recorded.location)
    taken = list(taken)
    sources, wanted = _sources(taken, lake_root)
    if settings is not None:
        present = _on_the_queue(run, settings)
        wanted = Counter({key: min(number, present[key]) for key, number in wanted.items()})
    if run.named:
        wanted = Counter({key: number for key, number in wanted.items() if key in run.named})
    chosen = _newest(sources, wanted)
    at = clock()
    snapshot_id = f"{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    with SnapshotWriter(lake_root, run.queue_manager, run.queue, snapshot_id) as writer:
        browse_seq = 0
        for location, rest in zip(sources, chosen, strict=True):
            for row in snapshot_rows(location):
                if rest[row["message_key"]] > 0:
                    rest[row["message_key"]] -= 1
                    browse_seq += 1
                    writer.write({**row, "browse_seq": browse_seq})
        manifest = writer.finish(
            taken_at=at,
            taken_by=run.started_by,
            rules_digest=run.rules_digest,
            rules_text=run.rules_text,
            nul_as_blank=run.nul_as_blank,
            put_together_from=tuple(one.snapshot_id for one in taken),
            message_keys=run.message_keys,
            has_given_action=run.has_given_action,
        )
    if settings is not None:
        ledger.snapshots.record(
            TakenSnapshot(
                run.run_id, snapshot_id, writer.directory, manifest.messages, manifest.taken_at
            )
        )
    return manifest


def still_kept(taken: Iterable[TakenSnapshot]) -> list[TakenSnapshot]:
    """Return those snapshots that have not been pruned."""
    return [one for one in taken if snapshot_stands(one.location)]


def _sources(taken: Sequence[TakenSnapshot], lake_root: str) -> tuple[list[str], Counter[bytes]]:
    """Return where the full rows of a window's messages are, oldest first, and how many of each.

    A message that was settled has a compact row in the window, and its full one in an earlier
    snapshot.
    """
    earlier: dict[str, str] = {}
    wanted: Counter[bytes] = Counter()
    for one in taken:
        for snapshot_id in read_manifest(one.location).refers_to:
            earlier.setdefault(snapshot_id, find_snapshot(lake_root, snapshot_id))
        wanted |= Counter(keys_of(one.location)) + Counter(_keys_of_settled(one.location))
    own = [one.location for one in taken]
    before = [place for _, place in sorted(earlier.items()) if place not in own]
    return [*before, *own], wanted


def _newest(sources: Sequence[str], wanted: Counter[bytes]) -> list[Counter[bytes]]:
    """Return by source how many rows of each message are to be taken from it, the newest ones."""
    missing, chosen = Counter(wanted), []
    for location in reversed(sources):
        taken = Counter(keys_of(location)) & missing
        missing -= taken
        chosen.append(taken)
    return chosen[::-1]


def keys_of(location: str) -> Iterator[bytes]:
    """Yield the message keys of a snapshot's full rows, in browse order."""
    return (row["message_key"] for row in snapshot_rows(location, ["message_key"]))


def _keys_of_settled(location: str) -> Iterator[bytes]:
    for batch in settled_rows(location, ["message_key"]):
        yield from batch.column("message_key").to_pylist()


def _on_the_queue(run: Run, settings: ConnectionSettings) -> Counter[bytes]:
    """Return how often each message key is on the run's queue now; browses, and takes nothing."""
    with connect(settings) as queue_manager:
        constants = queue_manager.client.CMQC
        options = constants.MQOO_BROWSE | constants.MQOO_FAIL_IF_QUIESCING
        queue = queue_manager.open(run.queue, options)
        try:
            cursor = BrowseCursor(queue_manager, queue, run.queue)
            return Counter(
                message_key(one.descriptor, one.total_length, one.prefix)
                for one in cursor.messages()
            )
        finally:
            queue_manager.close(queue)
