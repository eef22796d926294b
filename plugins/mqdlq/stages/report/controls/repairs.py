"""Describe the changes of messages that a run repairs."""

from __future__ import annotations

from collections import Counter
from typing import Final

from mqdlq.errors import LakeError
from mqdlq.headers import HEADER_OF_FORMAT
from mqdlq.lake import planned_messages
from mqdlq.ledger import Ledger, MessageRepair
from mqdlq.model import AttemptState
from mqdlq.stages.repairing.changes import name_of_format
from mqdlq.stages.repairing.planned import find_all_changes
from mqdlq.stages.report.controls.records import RepairRow
from mqdlq.stages.report.report_sources import Sources
from mqdlq.stages.report.wording import count, target

_NOT_SETTLED: Final = (AttemptState.INTENDED, AttemptState.UNKNOWN)


def describe_changes(changes: MessageRepair) -> str:
    """Return the planned changes of a message in one line, or why it is not repaired.

    The snapshot does not show whether the body has the header that a new Format announces.
    """
    if changes.refusal:
        return f"not repaired: {changes.refusal}"
    length = count(changes.length, "byte")
    header = HEADER_OF_FORMAT.get(changes.format_to, "")
    is_new = header and changes.format_from != changes.format_to
    condition = f"; only if its data begin with a valid {header}" if is_new else ""
    return f"{describe_fields(changes)}; body unchanged, {length}{condition}"


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
    except (LakeError, OSError):
        found = ledger.archive.repairs(run.run_id)
    moves = {copy.message_id: copy.move for copy in ledger.archive.copies(run_id=run.run_id)}
    counted = Counter[tuple[str, str]]()
    delivered, unknown = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for message_id, changes in found.items():
        words, move = (describe_fields(changes), changes.refusal), moves.get(message_id)
        counted[words] += 1
        delivered[words] += move is AttemptState.CONFIRMED
        unknown[words] += move in _NOT_SETTLED
    return tuple(
        RepairRow(*words, number, delivered[words], unknown[words])
        for words, number in counted.most_common()
    )


def repair_in_words(row: RepairRow) -> str:
    """Return the line of a report about messages that were repaired, or were not."""
    messages = count(row.messages, "message")
    if row.refusal:
        return f"{messages} not repaired: {row.refusal}"
    rest = row.messages - row.delivered - row.unknown
    states = [f"{row.delivered:,} delivered, originals in the archive"] if row.delivered else []
    states += [f"{row.unknown:,} not known"] if row.unknown else []
    states += [f"{rest:,} not delivered"] if rest else []
    return f"{messages} with {row.changes}; body unchanged; {'; '.join(states)}"
