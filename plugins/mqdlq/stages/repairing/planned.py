"""The changes that a run with a repair makes to its messages, as planned or as recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mqdlq.lake import snapshot_rows
from mqdlq.ledger import Ledger, MessageRepair, Run
from mqdlq.model import Step
from mqdlq.stages.repairing.changes import COLUMNS, find_changes
from mqdlq.stages.repairing.repair import read_repair


def find_all_changes(
    run: Run, steps: Mapping[int, Sequence[Step]], ledger: Ledger
) -> dict[int, MessageRepair]:
    """Return the changes of a run's messages by message id, in browse order; none without a repair.

    `steps` are those of the run's plan by browse_seq. Changes that the run has recorded, after a
    look at the body, replace the changes that follow from the snapshot.
    """
    repair, snapshot = read_repair(run.repair), ledger.snapshots.of_run(run.run_id)
    if repair is None or snapshot is None:
        return {}
    ids = {one.browse_seq: one.message_id for one in ledger.messages.of_run(run.run_id)}
    planned = {
        ids[seq]: find_changes(repair, steps[seq][0], run.queue_manager, row, ids[seq])
        for row in snapshot_rows(snapshot.location, ["browse_seq", *COLUMNS])
        if (seq := row["browse_seq"]) in ids and steps.get(seq)
    }
    return planned | ledger.archive.repairs(run.run_id)
