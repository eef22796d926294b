"""Retention: legal holds, what a prune must keep, and what prunes have removed."""

from __future__ import annotations

from mqdlq.ledger.retention.holds import Held, Hold, Holds
from mqdlq.ledger.retention.protections import Protection
from mqdlq.ledger.retention.prunes import OpenFile, Prune, PrunedRun, Prunes
from mqdlq.ledger.retention.totals import HistoryTotal, PrunedOutcome

__all__ = [
    "Held",
    "HistoryTotal",
    "Hold",
    "Holds",
    "OpenFile",
    "Protection",
    "Prune",
    "PrunedOutcome",
    "PrunedRun",
    "Prunes",
]
