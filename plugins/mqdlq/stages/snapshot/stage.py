"""The stage snapshot: take a run's snapshot, and decide whether there is anything to evaluate."""

from __future__ import annotations

from mqdlq import lake
from mqdlq.lake import SnapshotManifest
from mqdlq.stages.evidence.statistics_check import check_statistics
from mqdlq.stages.evidence.stream_check import browse_stream, record_stream_check
from mqdlq.stages.execute import Execution, settle
from mqdlq.stages.sense.work_detection import has_open_units
from mqdlq.stages.snapshot.named_messages import check_named_messages
from mqdlq.stages.snapshot.recorded_causes import record_causes
from mqdlq.stages.snapshot.snapshot_options import SnapshotOptions
from mqdlq.stages.snapshot.taking import take_snapshot


def snapshot_queue(execution: Execution, options: SnapshotOptions) -> SnapshotManifest | None:
    """Take the snapshot of a run's queue; return None if there is nothing to evaluate.

    Messages that earlier runs have settled need no plan. If a run finds no other message and no
    interrupted unit of work, it settles its account here. A second call finds the snapshot of the
    first. Raises HandlerError, recorded for the report, for named messages that the run cannot act
    on, and the errors of `take_snapshot` and `settle`.
    """
    run, ledger, log = execution.run, execution.ledger, execution.log
    # Before the snapshot; if this run has a snapshot, it is too late for the check.
    is_new = ledger.snapshots.of_run(run.run_id) is None
    copies = browse_stream(execution) if options.stream and is_new else None
    manifest = take_snapshot(
        run,
        execution.settings,
        ledger=ledger,
        lake_root=execution.lake_root,
        clock=execution.clock,
        progress=log.info,
        options=options,
    )
    if copies is not None:
        record_stream_check(execution, copies)
    if options.statistics and is_new:
        check_statistics(execution, options.statistics)
    place = str(locate_snapshot(manifest, execution.lake_root)["snapshot"])
    for warning in check_named_messages(run, place):
        log.warning("%s", warning)
    record_causes(run, ledger=ledger)
    if manifest.counts.full or run.dry_run or has_open_units(run, ledger):
        return manifest
    settle(execution)
    log.info(
        "nothing new: %d messages, all settled; the other tasks are skipped", manifest.messages
    )
    return None


def locate_snapshot(manifest: SnapshotManifest, lake_root: str) -> dict[str, str | int]:
    """Return the locations of a snapshot and of its plan, and the number of its messages."""
    plan_id = lake.plan_id(manifest.snapshot_id, manifest.rules_digest)
    return {
        "snapshot": lake.snapshot_directory(
            lake_root, manifest.queue_manager, manifest.queue, manifest.snapshot_id
        ),
        "plan_id": plan_id,
        "plan": lake.plan_directory(lake_root, plan_id),
        "messages": manifest.messages,
    }
