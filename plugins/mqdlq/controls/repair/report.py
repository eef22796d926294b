"""Describe the changes of messages that a run repairs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from mqdlq.controls.repair.changes import describe_fields, find_all_changes
from mqdlq.errors import LakeError
from mqdlq.lake import planned_messages
from mqdlq.ledger import Ledger, Run
from mqdlq.model import AttemptState
from mqdlq.reasons import Reason, code_of, words_of
from mqdlq.words import count

_NOT_SETTLED: Final = (AttemptState.INTENDED, AttemptState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class RepairRow:
    """Messages that a run repairs in the same way, or does not repair for the same reason.

    `changes` is in words, from and to; `refusal`, in words and as a code, is "" if they can be
    repaired. `delivered` counts the delivered messages, whose originals are in the archive, and
    `unknown` the messages whose unit of work was interrupted and is not settled.
    """

    changes: str
    refusal: str
    refusal_code: str
    messages: int
    delivered: int
    unknown: int


def repair_rows(run: Run | None, ledger: Ledger) -> tuple[RepairRow, ...]:
    """Return the changes of a run's messages, counted, the most frequent ones first.

    They are the changes that the run has recorded, and the planned ones of its other messages.
    """
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
    counted = Counter[tuple[str, Reason | None]]()
    delivered, unknown = counted.copy(), counted.copy()
    for message_id, changes in found.items():
        kind, move = (describe_fields(changes), changes.refusal), moves.get(message_id)
        counted[kind] += 1
        delivered[kind] += move is AttemptState.CONFIRMED
        unknown[kind] += move in _NOT_SETTLED
    return tuple(
        RepairRow(
            kind[0], words_of(kind[1]), code_of(kind[1]), number, delivered[kind], unknown[kind]
        )
        for kind, number in counted.most_common()
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
