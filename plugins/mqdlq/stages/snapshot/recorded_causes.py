"""Record in the ledger why the messages of a snapshot are dead letters."""

from __future__ import annotations

from typing import Final

from mqdlq.causes import COLUMNS, CauseCounter, CountedCause
from mqdlq.errors import LakeError
from mqdlq.lake import full_rows_of_settled, snapshot_rows
from mqdlq.ledger import Ledger, Run

MOST_CAUSES_RECORDED: Final = 1_000
"""How many causes of a run have their own row in the ledger; the others have one for each reason.

A run with 10,000 destinations would add 10,000 rows to the ledger each time, and a list of so many
causes helps nobody.
"""


def record_causes(run: Run, *, ledger: Ledger) -> None:
    """Record once why the messages of a run are dead letters, those settled by earlier runs too.

    A run for named messages records these only. If the rows of settled messages cannot be read,
    the other messages are recorded without them.
    """
    snapshot = ledger.snapshots.of_run(run.run_id)
    if snapshot is None or ledger.snapshots.causes(run.run_id):
        return
    try:
        found = _count(run, snapshot.location, with_settled=not run.named)
    except (LakeError, OSError):  # the report says what is missing
        found = _count(run, snapshot.location, with_settled=False)
    ledger.snapshots.record_causes(run.run_id, found)


def _count(run: Run, location: str, *, with_settled: bool) -> list[CountedCause]:
    counter = CauseCounter()
    for row in snapshot_rows(location, ("message_key", *COLUMNS)):
        if not run.named or row["message_key"] in run.named:
            counter.add_row(row)
    if with_settled:
        for row in full_rows_of_settled(location, COLUMNS):
            counter.add_row(row, is_settled=True)
    return counter.counted(MOST_CAUSES_RECORDED)
