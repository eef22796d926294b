"""Describe the changes of messages that a run repairs."""

from __future__ import annotations

from collections import Counter

from mqdlq.errors import LakeError
from mqdlq.lake import planned_messages
from mqdlq.ledger import Ledger, MessageRepair
from mqdlq.stages.repairing.changes import name_of_format
from mqdlq.stages.repairing.planned import find_all_changes
from mqdlq.stages.report.controls.records import RepairRow
from mqdlq.stages.report.report_sources import Sources
from mqdlq.stages.report.wording import count, target


def describe_changes(changes: MessageRepair) -> str:
    """Return the changes of a message in one line, or why it is not repaired; without any body."""
    if changes.refusal:
        return f"not repaired: {changes.refusal}"
    return f"{describe_fields(changes)}; body unchanged, {count(changes.length, 'byte')}"


def describe_delivery(changes: MessageRepair) -> str:
    """Return the words for the outcome of a message that was delivered with these changes."""
    return f"repaired: {describe_fields(changes)}; original in the archive"


def describe_fields(changes: MessageRepair) -> str:
    """Return the changed fields of a message, each from and to."""
    pairs = (
        (
            "Format",
            name_of_format(changes.format_from),
            name_of_format(changes.format_to),
        ),
        ("CodedCharSetId", changes.ccsid_from, changes.ccsid_to),
        (
            "destination",
            target(changes.dest_q_from, changes.dest_q_mgr_from) or "none",
            target(changes.target_q, changes.target_q_mgr),
        ),
    )
    return ", ".join(f"{name}: {old} → {new}" for name, old, new in pairs if old != new)


def repair_rows(sources: Sources, ledger: Ledger) -> tuple[RepairRow, ...]:
    """Return the changes of a run's messages, counted, the most frequent ones first.

    They are the changes that the run has recorded, and the planned ones of its other messages.
    """
    run = sources.run
    if run is None or not run.repair:
        return ()
    plan = ledger.plans.of_run(run.run_id)
    try:
        steps = (
            {one.browse_seq: one.steps for one in planned_messages(plan.location)} if plan else {}
        )
        found = find_all_changes(run, steps, ledger)
    except (LakeError, OSError, ValueError):  # ValueError: not Parquet
        found = ledger.archive.repairs(run.run_id)
    delivered = {
        copy.message_id
        for copy in ledger.archive.copies(run_id=run.run_id)
        if not copy.is_provisional
    }
    counted, moved = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for message_id, changes in found.items():
        words = describe_fields(changes), changes.refusal
        counted[words] += 1
        moved[words] += message_id in delivered
    return tuple(RepairRow(*words, number, moved[words]) for words, number in counted.most_common())


def repair_in_words(row: RepairRow) -> str:
    """Return the line of a report about messages that were repaired, or were not."""
    messages = count(row.messages, "message")
    if row.refusal:
        return f"{messages} not repaired: {row.refusal}"
    rest = row.messages - row.delivered
    states = [f"{row.delivered:,} delivered, originals in the archive"] if row.delivered else []
    states += [f"{rest:,} not delivered"] if rest else []
    return f"{messages} with {row.changes}; body unchanged; {'; '.join(states)}"
