"""Evaluate finished snapshots into a finished plan.

The rules come from the snapshot's manifest, or from a file. With the rules of its manifest, a
snapshot's settled messages get no plan, and the plan of a run for some messages covers only
these. With several snapshots or the rules of a file, all messages are evaluated, including settled
ones. A finished plan with the same content stays; a finished plan with the same name and other
content is an error. Files of an interrupted evaluation are removed. MQ is not used.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from mqdlq import lake
from mqdlq.errors import LakeError
from mqdlq.evaluation.decisions import columns_needed
from mqdlq.evaluation.messages import (
    Bounds,
    Messages,
    Strategy,
    frozen_rules,
    nul_as_blank,
    queue_kind,
    rules_of_file,
)
from mqdlq.evaluation.plan_parts import (
    PlanPart,
    Receipt,
    buckets_are_complete,
    counts_of,
    dispositions_of,
    hash_of,
)
from mqdlq.lake import PlanDescription, Snapshot
from mqdlq.lake.selected import chosen_of


def evaluate(
    *directories: str,
    plan: str,
    rules: str | None = None,
    explain: bool = False,
    bounds: Bounds | None = None,
) -> PlanDescription:
    """Evaluate the snapshots in these directories into a plan in another.

    Raises `LakeError` for a snapshot that contradicts its manifest, and for a finished plan with
    other content.
    """
    started = time.monotonic()
    place = plan.rstrip("/")
    snapshots = [Snapshot.at(directory) for directory in directories]
    table = rules_of_file(rules, queue_kind(snapshots)) if rules else frozen_rules(snapshots)
    finished = lake.find_plan(place)
    name = f"mqdlq {place.rsplit('/', 1)[-1]}"
    whole = len(snapshots) > 1 or rules is not None
    manifest = snapshots[0].manifest
    messages = Messages(name, snapshots, columns_needed(table), bounds or Bounds(), whole)
    _log(f"{_named(snapshots)}: {messages.number} messages, {len(table.rules)} rules")

    part = PlanPart(
        table,
        plan=None if finished else place,
        nul_as_blank=nul_as_blank(snapshots),
        explain=explain,
        # A selection is part of the rules that were frozen for the one run of the snapshot.
        chosen=None if whole else chosen_of(snapshots[0]),
        has_given_action=not whole and manifest.has_given_action,
        remembered=messages.bounds.remembered,
    )
    if not finished:
        lake.start_plan(place)
    receipts = _receipts(messages, part)
    if finished:
        if (found := hash_of(receipts)) != finished.plan_hash:
            raise LakeError(
                "MQDLQ-410",
                f"{place} is a finished plan with hash {finished.plan_hash}, this evaluation has "
                f"{found}; give it another plan id",
            )
        _log(f"plan {finished.plan_id} stands already, hash {finished.plan_hash}")
        return finished
    description = PlanDescription(
        plan_id=place.rsplit("/", 1)[-1],
        plan_hash=hash_of(receipts),
        snapshot_ids=tuple(snapshot.manifest.snapshot_id for snapshot in snapshots),
        rules_digest=table.digest,
        messages=sum(receipt.rows for receipt in receipts),
        dispositions=dispositions_of(receipts),
        counts=counts_of(receipts),
    )
    lake.keep_attempts(place, [receipt.file for receipt in receipts if receipt.file])
    read = sum(receipt.read for receipt in receipts)
    _check_counts(messages, description, read, lake.count_planned(place))
    lake.finish_plan(place, description)
    totals = ", ".join(f"{count} {name}" for name, count in description.dispositions.items())
    _log(f"plan {description.plan_id}: {totals}, hash {description.plan_hash}")
    _log(f"evaluated in {time.monotonic() - started:.1f} s")
    return description


def _receipts(messages: Messages, part: PlanPart) -> list[Receipt]:
    """Evaluate all messages, and return the receipts of the plan's parts in browse order."""
    strategy, why = messages.strategy()
    receipts = _evaluate_by(messages, part, strategy, why)
    if not buckets_are_complete(receipts):
        why = "the messages are not in browse order"
        receipts = _evaluate_by(messages, part, Strategy.ROWS, why)
    return sorted(receipts, key=lambda receipt: receipt.first)


def _evaluate_by(messages: Messages, part: PlanPart, strategy: Strategy, why: str) -> list[Receipt]:
    _log(f"strategy {strategy}: {why}")
    is_sorted = strategy is Strategy.ROWS or len(messages.snapshots) > 1
    return messages.process(replace(part, sorted=is_sorted), strategy)


def _check_counts(
    messages: Messages, description: PlanDescription, read: int, written: int
) -> None:
    """Raise `LakeError` if a message was lost or duplicated."""
    if len(messages.snapshots) == 1 and read != messages.number:
        raise LakeError(
            "MQDLQ-408",
            f"{_named(messages.snapshots)} holds {read} messages, its manifest says"
            f" {messages.number}; take a new snapshot",
        )
    counted = sum(description.dispositions.values())
    if not written == description.messages == counted:
        raise LakeError(
            "MQDLQ-409",
            f"{_named(messages.snapshots)}: {written} rows were written, {description.messages}"
            f" hashed and {counted} counted; report this text",
        )


def _named(snapshots: Sequence[Snapshot]) -> str:
    """Return the names of the snapshots for a message."""
    if len(snapshots) == 1:
        return f"snapshot {snapshots[0].manifest.snapshot_id}"
    return f"{len(snapshots)} snapshots"


def _log(line: str) -> None:
    sys.stdout.write(f"evaluate_rules: {line}\n")
    sys.stdout.flush()
