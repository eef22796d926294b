"""The ledger's tables, declared once: `metadata` has them all.

`mqdlq.ledger.migrations` makes them in a database, one revision for each change. A test fails
where a table declared here differs from the one that the revisions make.
"""

from __future__ import annotations

from mqdlq.ledger.tables import controls, messages, retention, runs
from mqdlq.ledger.tables.columns import metadata

__all__ = [
    "controls",
    "messages",
    "metadata",
    "retention",
    "runs",
]
