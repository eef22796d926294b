"""Report which messages of a window today's rules would treat differently."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from mqdlq import directories
from mqdlq.lake import planned_messages, settled_rows, snapshot_rows
from mqdlq.ledger import Ledger
from mqdlq.ledger.tables.runs import Look, Run, TakenSnapshot
from mqdlq.model import Disposition, Outcome, PlannedMessage
from mqdlq.stages.backfill.merged_snapshot import drop_pruned, read_message_keys
from mqdlq.stages.sense.start_run import BackfillWindow, find_snapshots_in_window

NOT_EVALUATED: Final = "not evaluated"


@dataclass(frozen=True, slots=True)
class Difference:
    """How many messages were treated one way then, and would be treated another way now."""

    then: str
    now: str
    messages: int


def find_differences(
    taken: Sequence[TakenSnapshot], put_together_at: str, plan: str, *, ledger: Ledger
) -> tuple[int, list[Difference]]:
    """Return how many messages were evaluated, and how they would be treated differently now.

    `merged_snapshot` and `plan` are directories; the plan was made from that snapshot. The earlier
    treatment of a message comes from the newest plan that covers it, among the plans of the runs
    that took the snapshots. The plan of a run for named messages covers only these.
    """
    then: dict[bytes, str] = {}
    for one in taken:
        plan_then = ledger.plans.of_run(one.run_id)
        steps = _read_treatments(plan_then.location) if plan_then is not None else {}
        for row in snapshot_rows(one.location, ["browse_seq", "message_key"]):
            if row["browse_seq"] in steps:
                then[row["message_key"]] = steps[row["browse_seq"]]
    for key, treatment in _read_settled_treatments(taken):
        then.setdefault(key, treatment)
    now = _read_treatments(plan)
    counted: Counter[tuple[str, str]] = Counter()
    evaluated = 0
    for browse_seq, key in enumerate(read_message_keys(put_together_at), start=1):
        evaluated += 1
        counted[then.get(key, NOT_EVALUATED), now[browse_seq]] += 1
    changed = [
        Difference(was, is_now, number)
        for (was, is_now), number in counted.most_common()
        if was != is_now
    ]
    return evaluated, changed


def report_differences(
    run: Run,
    window: BackfillWindow,
    snapshot: str,
    plan: str,
    *,
    ledger: Ledger,
    clock: Callable[[], datetime],
    log: logging.Logger,
) -> None:
    """Log what today's rules would treat differently, and write it beside the run's report.

    `snapshot` and `plan` are the directories of the merged snapshot and of its plan.
    """
    of_window = find_snapshots_in_window(run, window, ledger)
    taken = drop_pruned(of_window)
    evaluated, changed = find_differences(taken, snapshot, plan, ledger=ledger)
    number = sum(difference.messages for difference in changed)
    headline = (
        f"Backfill of {window}: today's rules would treat {number} of {evaluated} messages"
        " differently. Nothing was done; apply: true does it."
    )
    if pruned := len(of_window) - len(taken):
        headline += f" {pruned} of {len(of_window)} snapshots are pruned, and not in this."
    for difference in changed:
        log.info(
            "%d messages: then %s; now %s", difference.messages, difference.then, difference.now
        )
    log.info("%s", headline)
    ledger.runs.record_look(run.run_id, Look(evaluated, False, headline, clock()))
    directory = directories.report_directory(run.run_id)
    directories.make_private_directory(directory.absolute())
    document = {
        "window": [window.start.isoformat(), window.end.isoformat()],
        "snapshots": [one.snapshot_id for one in taken],
        "rules_digest": run.rules_digest,
        "messages": evaluated,
        "differences": [asdict(difference) for difference in changed],
    }
    text = json.dumps(document, indent=2) + "\n"
    (directory / "differences.json").write_text(text, encoding="utf-8")


def _read_settled_treatments(taken: Iterable[TakenSnapshot]) -> Iterator[tuple[bytes, str]]:
    """Yield the keys of messages with compact rows, and how runs had left them."""
    columns = ["message_key", "outcome", "action"]
    for one in taken:
        for batch in settled_rows(one.location, columns):
            for row in batch.to_pylist():
                left = row["action"] or Outcome(row["outcome"]).words
                yield row["message_key"], left


def _read_treatments(plan: str) -> dict[int, str]:
    return {message.browse_seq: _describe_treatment(message) for message in planned_messages(plan)}


def _describe_treatment(message: PlannedMessage) -> str:
    if message.disposition is not Disposition.PLANNED:
        return message.disposition.value.replace("_", " ")
    return ", then ".join(
        f"{step.action} to {step.target_q}" if step.target_q else str(step.action)
        for step in message.steps
    )
