"""A window of time in, what today's rules would do with the snapshots taken in it out.

A backfill takes no snapshot of the queue. It puts the snapshots of its window together into one,
in which the newest row of a message wins, frozen with today's rules; the evaluation then is the
ordinary one. Where the backfill is to act, only messages that are on the queue now are put in;
where messages are named, only those.
Messages with equal keys are equal in all that rules look at: of them there are as many as the
snapshot has that holds most.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from mqdlq import home
from mqdlq.headers import message_key
from mqdlq.lake import (
    SnapshotManifest,
    SnapshotWriter,
    find_snapshot,
    parked_rows,
    planned_messages,
    read_manifest,
    snapshot_rows,
    snapshot_stands,
)
from mqdlq.ledger import Ledger, Look, Run, TakenSnapshot, record_look
from mqdlq.model import Disposition, PlannedMessage
from mqdlq.mqi.browse import BrowseCursor
from mqdlq.mqi.connect import ConnectionSettings, connect
from mqdlq.stages.report import report_directory
from mqdlq.stages.sense import Window, snapshots_of

NOT_EVALUATED: Final = "not evaluated"


@dataclass(frozen=True, slots=True)
class Difference:
    """So many messages that were treated one way then, and would be treated another way now."""

    then: str
    now: str
    messages: int


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
    recorded = ledger.snapshot(run.run_id)
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
        manifest = writer.publish(
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
        ledger.record_snapshot(
            run.run_id, snapshot_id, writer.directory, manifest.messages, manifest.taken_at
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
        wanted |= Counter(_keys(one.location)) + Counter(_keys_of_parked(one.location))
    own = [one.location for one in taken]
    before = [place for _, place in sorted(earlier.items()) if place not in own]
    return [*before, *own], wanted


def _newest(sources: Sequence[str], wanted: Counter[bytes]) -> list[Counter[bytes]]:
    """Return by source how many rows of each message are to be taken from it, the newest ones."""
    missing, chosen = Counter(wanted), []
    for location in reversed(sources):
        taken = Counter(_keys(location)) & missing
        missing -= taken
        chosen.append(taken)
    return chosen[::-1]


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
        plan_then = ledger.plan(one.run_id)
        steps = _treatments(plan_then.location) if plan_then is not None else {}
        for row in snapshot_rows(one.location, ["browse_seq", "message_key"]):
            if row["browse_seq"] in steps:
                then[row["message_key"]] = steps[row["browse_seq"]]
    for key, treatment in _of_parked(taken):
        then.setdefault(key, treatment)
    now = _treatments(plan)
    counted: Counter[tuple[str, str]] = Counter()
    evaluated = 0
    for browse_seq, key in enumerate(_keys(put_together_at), start=1):
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
    record_look(ledger, run.run_id, Look(evaluated, False, headline, clock()))
    directory = report_directory(run.run_id)
    home.make_private_directory(directory.absolute())
    document = {
        "window": [window.start.isoformat(), window.end.isoformat()],
        "snapshots": [one.snapshot_id for one in taken],
        "rules_digest": run.rules_digest,
        "messages": evaluated,
        "differences": [asdict(difference) for difference in changed],
    }
    text = json.dumps(document, indent=2) + "\n"
    (directory / "differences.json").write_text(text, encoding="utf-8")


def _keys(location: str) -> Iterator[bytes]:
    return (row["message_key"] for row in snapshot_rows(location, ["message_key"]))


def _keys_of_parked(location: str) -> Iterator[bytes]:
    for batch in parked_rows(location, ["message_key"]):
        yield from batch.column("message_key").to_pylist()


def _of_parked(taken: Iterable[TakenSnapshot]) -> Iterator[tuple[bytes, str]]:
    """Yield the keys of messages with compact rows, and how they had been left."""
    columns = ["message_key", "outcome", "action"]
    for one in taken:
        for batch in parked_rows(one.location, columns):
            for row in batch.to_pylist():
                left = row["action"] or row["outcome"].removeprefix("left_").replace("_", " ")
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
