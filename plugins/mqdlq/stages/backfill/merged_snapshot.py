"""Merge the snapshots of a backfill's window into one.

A backfill takes no snapshot of the queue. It merges the snapshots of its window into one, which
holds the newest row of each message and is frozen with today's rules; the evaluation is then the
ordinary one. If the backfill acts, only messages that are on the queue now are included; if it
names messages, only those. Messages with equal keys are equal for all rules: the merged snapshot
holds as many as the snapshot with the most of them.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from mqdlq.errors import HandlerError
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
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables.runs import Look, Run, TakenSnapshot
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.rules import find_unstored
from mqdlq.rules.diagnostics import listed
from mqdlq.stages.execute import Execution
from mqdlq.stages.sense.start_run import BackfillWindow, find_snapshots_in_window
from mqdlq.stages.snapshot.compact_rows import record_causes
from mqdlq.stages.snapshot.taking import check_given_action, locate_snapshot


def merge_window(
    execution: Execution, window: BackfillWindow, *, apply: bool
) -> SnapshotManifest | None:
    """Merge the snapshots of a window; return None if there is nothing to evaluate.

    With `apply` the run acts: it gets only messages that are still on its queue. A second call
    returns the same snapshot. Raises HandlerError for an action that a
    named message cannot have, or for rules that a snapshot cannot answer, and the errors of
    `merge_snapshots`.
    """
    run, ledger, log = execution.run, execution.ledger, execution.log
    taken = find_snapshots_in_window(run, window, ledger)
    kept = drop_pruned(taken)
    if len(kept) < len(taken):
        log.warning("%d of %d snapshots are pruned", len(taken) - len(kept), len(taken))
    if not kept:
        why = f"All {len(taken)} snapshots taken from {window} are pruned: nothing to evaluate."
        ledger.runs.record_look(run.run_id, Look(0, False, why, execution.clock()))
        log.info("%s", why)
        return None
    for warning in check_comparisons(run, kept, apply=apply):
        log.warning("%s", warning)
    manifest = merge_snapshots(
        run,
        kept,
        execution.settings if apply else None,
        ledger=ledger,
        lake_root=execution.lake_root,
        clock=execution.clock,
    )
    check_given_action(run, str(locate_snapshot(manifest, execution.lake_root)["snapshot"]))
    record_causes(run, ledger=ledger)
    which = "are on the queue now" if apply else "to be evaluated"
    log.info("%d messages from %s %s", manifest.messages, window, which)
    return manifest if manifest.messages or not apply else None


def merge_snapshots(
    run: Run,
    taken: Iterable[TakenSnapshot],
    settings: ConnectionSettings | None,
    *,
    ledger: Ledger,
    lake_root: str,
    clock: Callable[[], datetime],
) -> SnapshotManifest:
    """Write one snapshot from several, with the run's rules and the newest row of each message.

    The snapshots must not be pruned. With `settings` the run acts: only messages that a browse of
    the queue meets now are included, and the run uses this snapshot like its own. Without, the
    snapshot is for evaluation only, and the ledger does not record it. A second call for a run that
    acts returns its snapshot. Raises LakeError and QueueManagerError.
    """
    recorded = ledger.snapshots.of_run(run.run_id)
    if recorded is not None:
        return read_manifest(recorded.location)
    taken = list(taken)
    sources, wanted = _find_sources(taken, lake_root)
    if settings is not None:
        present = _browse_message_keys(run, settings)
        wanted = Counter({key: min(number, present[key]) for key, number in wanted.items()})
    if run.named:
        wanted = Counter({key: number for key, number in wanted.items() if key in run.named})
    chosen = _choose_newest(sources, wanted)
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
            queue_kind=run.queue_kind,
        )
    if settings is not None:
        ledger.snapshots.record(
            TakenSnapshot(
                run.run_id, snapshot_id, writer.directory, manifest.messages, manifest.taken_at
            )
        )
    return manifest


def check_comparisons(run: Run, taken: Iterable[TakenSnapshot], *, apply: bool) -> Iterator[str]:
    """Yield a warning if the run's rules compare what a snapshot does not have.

    Its messages match none of these rules, and fall to later rules. Raises HandlerError if the run
    acts.
    """
    texts = [read_manifest(one.location).rules_text for one in taken]
    unstored = find_unstored(run.rules_text, texts)
    if not unstored:
        return
    what = listed(unstored, "and")
    if apply:
        raise HandlerError(
            "MQDLQ-445",
            f"the rules compare {what}, which not all snapshots of the window have; start a"
            " run that takes a new snapshot",
        )
    yield (
        f"the rules compare {what}, which not all snapshots of the window have: rules with these"
        " comparisons do not match their messages"
    )


def drop_pruned(taken: Iterable[TakenSnapshot]) -> list[TakenSnapshot]:
    """Return the snapshots that have not been pruned."""
    return [one for one in taken if snapshot_stands(one.location)]


def _find_sources(
    taken: Sequence[TakenSnapshot], lake_root: str
) -> tuple[list[str], Counter[bytes]]:
    """Return the locations of the full rows of a window's messages, oldest first, and the counts.

    A settled message has a compact row in the window, and its full row in an earlier snapshot.
    """
    earlier: dict[str, str] = {}
    wanted: Counter[bytes] = Counter()
    for one in taken:
        for snapshot_id in read_manifest(one.location).refers_to:
            earlier.setdefault(snapshot_id, find_snapshot(lake_root, snapshot_id))
        wanted |= Counter(read_message_keys(one.location)) + Counter(
            _read_settled_keys(one.location)
        )
    own = [one.location for one in taken]
    before = [place for _, place in sorted(earlier.items()) if place not in own]
    return [*before, *own], wanted


def _choose_newest(sources: Sequence[str], wanted: Counter[bytes]) -> list[Counter[bytes]]:
    """Return for each source how many rows of each message to take from it, the newest ones."""
    missing, chosen = Counter(wanted), []
    for location in reversed(sources):
        taken = Counter(read_message_keys(location)) & missing
        missing -= taken
        chosen.append(taken)
    return chosen[::-1]


def read_message_keys(location: str) -> Iterator[bytes]:
    """Yield the message keys of a snapshot's full rows, in browse order."""
    return (row["message_key"] for row in snapshot_rows(location, ["message_key"]))


def _read_settled_keys(location: str) -> Iterator[bytes]:
    for batch in settled_rows(location, ["message_key"]):
        yield from batch.column("message_key").to_pylist()


def _browse_message_keys(run: Run, settings: ConnectionSettings) -> Counter[bytes]:
    """Return how often each message key is on the run's queue now; nothing is removed."""
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
