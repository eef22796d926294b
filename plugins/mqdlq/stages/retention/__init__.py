"""Retention: prune archive copies and runs by policy, never what a restoration or run needs."""

from __future__ import annotations

from mqdlq.stages.retention.policy import Policy, check_clock
from mqdlq.stages.retention.prune import (
    PruneResources,
    PruneResult,
    complete_interrupted_prunes,
    prune,
)

__all__ = [
    "Policy",
    "PruneResources",
    "PruneResult",
    "check_clock",
    "complete_interrupted_prunes",
    "prune",
]
