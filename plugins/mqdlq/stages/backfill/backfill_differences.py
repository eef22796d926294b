"""What today's rules would treat differently than the runs did that took a window's snapshots."""

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
from mqdlq.ledger import Ledger, Look, Run, TakenSnapshot
from mqdlq.model import Disposition, Outcome, PlannedMessage
from mqdlq.stages.backfill.merged_snapshot import keys_of, still_kept
from mqdlq.stages.report import report_directory
from mqdlq.stages.sense.backfill_window import Window, snapshots_of

NOT_EVALUATED: Final = "not evaluated"


@dataclass(frozen=True, slots=True)
class Difference:
    """So many messages that were treated one way then, and would be treated another way now."""

    then: str
    now: str
    messages: int


def differences(
    taken: Sequence[TakenSnapshot], put_together_at: str, plan: str, *, ledger: Ledger
) -> tuple[int, list[Difference]]:
    """Return how many messages were evaluated, and how they would be treated differently now.

    `put_together_at` is the directory of the snapshot that `plan`, another directory, was made
    of. What was planned then is read from the plans of the runs that took the snapshots, the newest
    that covers a message: that of a run for named messages covers these only.
    """
    then: dict[bytes, str] = {}
    for one in taken:
        plan_then = ledger.plans.of_run(one.run_id)
        steps = _treatments(plan_then.location) if plan_then is not None else {}
        for row in snapshot_rows(one.location, ["browse_seq", "message_key"]):
            if row["browse_seq"] in steps:
                then[row["message_key"]] = steps[row["browse_seq"]]
    for key, treatment in _of_settled(taken):
        then.setdefault(key, treatment)
    now = _treatments(plan)
    counted: Counter[tuple[str, str]] = Counter()
    evaluated = 0
    for browse_seq, key in enumerate(keys_of(put_together_at), start=1):
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
    window: Window,
    snapshot: str,
    plan: str,
    *,
    ledger: Ledger,
    clock: Callable[[], datetime],
    log: logging.Logger,
) -> None:
    """Log what today's rules would treat differently, and write it beside the run's report.

    `snapshot` and `plan` are directories: what was put together, and the plan made of it.
    """
    of_window = snapshots_of(run, window, ledger)
    taken = still_kept(of_window)
    evaluated, changed = differences(taken, snapshot, plan, ledger=ledger)
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
    directory = report_directory(run.run_id)
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


def _of_settled(taken: Iterable[TakenSnapshot]) -> Iterator[tuple[bytes, str]]:
    """Yield the keys of messages with compact rows, and how they had been left."""
    columns = ["message_key", "outcome", "action"]
    for one in taken:
        for batch in settled_rows(one.location, columns):
            for row in batch.to_pylist():
                left = row["action"] or Outcome(row["outcome"]).words
                yield row["message_key"], left


def _treatments(plan: str) -> dict[int, str]:
    return {message.browse_seq: _treatment(message) for message in planned_messages(plan)}


def _treatment(message: PlannedMessage) -> str:
    if message.disposition is not Disposition.PLANNED:
        return message.disposition.value.replace("_", " ")
    return ", then ".join(
        f"{step.action} to {step.target_q}" if step.target_q else str(step.action)
        for step in message.steps
    )
