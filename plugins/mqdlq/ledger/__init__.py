"""The ledger: what runs intended, did and found, as facts that are only ever added."""

from __future__ import annotations

from mqdlq.ledger.ages import oldest_that_stays
from mqdlq.ledger.facts import DRY_RUN, Attempt, Learned, OutcomeFact, Run, RunMessage, Sighting
from mqdlq.ledger.learning import LearnedCount, known_since, learned_counts, outcomes_by_run
from mqdlq.ledger.parking import Parking, Settled
from mqdlq.ledger.precedents import earlier_targets, other_rules_before, reasons_acted_on
from mqdlq.ledger.restoring import ArchivedCopy, CopyState, Restoration, newest_restoration
from mqdlq.ledger.retention import pruned_at, record_pruned
from mqdlq.ledger.store import Ledger, open_ledger
from mqdlq.ledger.streaming import (
    InStep,
    Listed,
    attempts_between,
    attempts_in_browse_order,
    has_open_units,
    listed_messages,
    outcome_counts,
)
from mqdlq.ledger.workflow import (
    Approval,
    Cause,
    LastAccount,
    Look,
    OpenQuestion,
    TakenSnapshot,
    broken_off,
    causes_of,
    earlier_reasons,
    last_account,
    last_approval,
    last_look,
    open_question,
    record_approval,
    record_causes,
    record_look,
    snapshots_between,
)

__all__ = [
    "DRY_RUN",
    "Approval",
    "ArchivedCopy",
    "Attempt",
    "Cause",
    "CopyState",
    "InStep",
    "LastAccount",
    "Learned",
    "LearnedCount",
    "Ledger",
    "Listed",
    "Look",
    "OpenQuestion",
    "OutcomeFact",
    "Parking",
    "Restoration",
    "Run",
    "RunMessage",
    "Settled",
    "Sighting",
    "TakenSnapshot",
    "attempts_between",
    "attempts_in_browse_order",
    "broken_off",
    "causes_of",
    "earlier_reasons",
    "earlier_targets",
    "has_open_units",
    "known_since",
    "last_account",
    "last_approval",
    "last_look",
    "learned_counts",
    "listed_messages",
    "newest_restoration",
    "oldest_that_stays",
    "open_ledger",
    "open_question",
    "other_rules_before",
    "outcome_counts",
    "outcomes_by_run",
    "pruned_at",
    "reasons_acted_on",
    "record_approval",
    "record_causes",
    "record_look",
    "record_pruned",
    "snapshots_between",
]
