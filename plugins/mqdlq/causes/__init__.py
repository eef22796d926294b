"""Causes: why messages are dead letters, as one fingerprint that every part of mqdlq uses.

A `Cause` is a reason code with a destination, or the class of messages without a valid MQDLH. Its
`cause_id` is the same in reports, drafts of rules, the ledger, metrics, alerts and pages.
"""

from __future__ import annotations

from mqdlq.causes.advice import BY_CLASS, Advice, Kind, advice_on
from mqdlq.causes.counting import (
    CAUSE_COLUMNS,
    COLUMNS,
    GENERATED,
    MOST_CAUSES,
    MOST_NAMES,
    Cause,
    CauseCounter,
    CountedCause,
    cause_of_row,
    count_causes,
    find_cause,
    generalize,
    is_generalized,
    without_destination,
)

__all__ = [
    "BY_CLASS",
    "CAUSE_COLUMNS",
    "COLUMNS",
    "GENERATED",
    "MOST_CAUSES",
    "MOST_NAMES",
    "Advice",
    "Cause",
    "CauseCounter",
    "CountedCause",
    "Kind",
    "advice_on",
    "cause_of_row",
    "count_causes",
    "find_cause",
    "generalize",
    "is_generalized",
    "without_destination",
]
