"""The ledger's tables, declared once.

`mqdlq.ledger.migrations` makes them in a database, one revision for each change. A test fails
where a table declared here differs from the one that the revisions make.
"""

from __future__ import annotations

from mqdlq.ledger.tables.columns import metadata
from mqdlq.ledger.tables.messages import (
    ATTEMPT_STATES,
    archive,
    attempt_states,
    attempts,
    learned,
    leases,
    messages,
    outcomes,
    parked,
    parked_outcomes,
    parkings,
    restoration_states,
    restorations,
    run_messages,
)
from mqdlq.ledger.tables.runs import (
    ages,
    alerts,
    approvals,
    causes,
    compact_snapshots,
    looks,
    passes,
    plans,
    prunings,
    refusals,
    runs,
    sightings,
    snapshots,
)

__all__ = [
    "ATTEMPT_STATES",
    "ages",
    "alerts",
    "approvals",
    "archive",
    "attempt_states",
    "attempts",
    "causes",
    "compact_snapshots",
    "learned",
    "leases",
    "looks",
    "messages",
    "metadata",
    "outcomes",
    "parked",
    "parked_outcomes",
    "parkings",
    "passes",
    "plans",
    "prunings",
    "refusals",
    "restoration_states",
    "restorations",
    "run_messages",
    "runs",
    "sightings",
    "snapshots",
]
