"""The stage snapshot: take a run's snapshot, and decide whether anything is left to evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mqdlq import lake
from mqdlq.errors import HandlerError
from mqdlq.lake import SnapshotManifest
from mqdlq.stages.approve import note_causes
from mqdlq.stages.execute import Execution, settle
from mqdlq.stages.sense.work_detection import has_open_units
from mqdlq.stages.snapshot.named_messages import check_named
from mqdlq.stages.snapshot.snapshot_options import SnapshotOptions
from mqdlq.stages.snapshot.taking import take_snapshot


def snapshot_queue(execution: Execution, options: SnapshotOptions) -> SnapshotManifest | None:
    """Take the snapshot of a run's queue; return None where there is nothing to evaluate.

    Messages that earlier runs have settled need no plan to have an outcome: a run that finds no
    other message settles its account here, unless a unit of work was interrupted. Run twice, it
    finds the snapshot that was taken. Raises HandlerError, recorded for the report, for named
    messages that the run cannot act on, and what `take_snapshot` and `settle` raise.
    """
    run, ledger, log = execution.run, execution.ledger, execution.log
    manifest = take_snapshot(
        run,
        execution.settings,
        ledger=ledger,
        lake_root=execution.lake_root,
        clock=execution.clock,
        progress=log.info,
        options=options,
    )
    with recording_refusals(execution):
        for warning in check_named(run, str(places_of(manifest, execution.lake_root)["snapshot"])):
            log.warning("%s", warning)
    note_causes(run, ledger=ledger)
    if manifest.counts.full or run.dry_run or has_open_units(run, ledger):
        return manifest
    settle(execution)
    log.info("nothing new: %d messages, all settled; the rest is skipped", manifest.messages)
    return None


def places_of(manifest: SnapshotManifest, lake_root: str) -> dict[str, str | int]:
    """Return where a snapshot is, where its plan is to be, and the number of its messages."""
    plan_id = lake.plan_id(manifest.snapshot_id, manifest.rules_digest)
    return {
        "snapshot": lake.snapshot_directory(
            lake_root, manifest.queue_manager, manifest.queue, manifest.snapshot_id
        ),
        "plan_id": plan_id,
        "plan": lake.plan_directory(lake_root, plan_id),
        "messages": manifest.messages,
    }


@contextmanager
def recording_refusals(execution: Execution) -> Iterator[None]:
    """Record why the run is refused, for its report."""
    try:
        yield
    except HandlerError as error:
        run = execution.run
        execution.ledger.runs.record_refusal(run.run_id, run.handler, str(error), execution.clock())
        raise
