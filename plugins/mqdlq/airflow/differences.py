"""A backfill's evaluation in, what today's rules would do otherwise, in words and as JSON, out."""

from __future__ import annotations

import json
from dataclasses import asdict

from mqdlq import home
from mqdlq.airflow.operators.base import Work, progress, utc_now
from mqdlq.ledger import Look, record_look
from mqdlq.stages.backfill import differences, still_kept
from mqdlq.stages.report import report_directory
from mqdlq.stages.sense import Window, snapshots_of


def tell_differences(work: Work, window: Window, snapshot: str, plan: str) -> None:
    """Say what would be treated differently, and write it beside the run's report."""
    of_window = snapshots_of(work.run, window, work.ledger)
    taken = still_kept(of_window)
    evaluated, changed = differences(taken, snapshot, plan, ledger=work.ledger)
    number = sum(difference.messages for difference in changed)
    headline = (
        f"Backfill of {window}: today's rules would treat {number} of {evaluated} messages"
        " differently. Nothing was done; apply: true does it."
    )
    if pruned := len(of_window) - len(taken):
        headline += f" {pruned} of {len(of_window)} snapshots are pruned, and not in this."
    for difference in changed:
        progress.info(
            "%d messages: then %s; now %s", difference.messages, difference.then, difference.now
        )
    progress.info("%s", headline)
    record_look(work.ledger, work.run.run_id, Look(evaluated, False, headline, utc_now()))
    directory = report_directory(work.run.run_id)
    home.make_private_directory(directory.absolute())
    document = {
        "window": [window.start.isoformat(), window.end.isoformat()],
        "snapshots": [one.snapshot_id for one in taken],
        "rules_digest": work.run.rules_digest,
        "messages": evaluated,
        "differences": [asdict(difference) for difference in changed],
    }
    text = json.dumps(document, indent=2) + "\n"
    (directory / "differences.json").write_text(text, encoding="utf-8")
