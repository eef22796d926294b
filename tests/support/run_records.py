"""Builders of run records, for tests of functions that use no ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mqdlq.ledger.tables import Look, Run
from mqdlq.stages.sense import Decision

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def run_record(**changes: Any) -> Run:
    values: dict[str, Any] = {
        "run_id": "demo-1",
        "handler": "demo",
        "dag_run_id": "1",
        "run_type": "manual",
        "queue_manager": "QM1",
        "queue": "DLQ",
        "state_queue": "MQDLQ.STATE",
        "rules_source": "demo.rules",
        "rules_digest": "0" * 64,
        "rules_text": "",
        "retry_interval_s": 60,
        "wait_s": 0,
        "carry_attempts": False,
        "dry_run": False,
        "max_run_time_s": 3600,
        "started_at": NOON,
    }
    return Run(**{**values, **changes})


def outline(decision: Decision) -> tuple[bool, int, str]:
    """Return of a decision that ends a wait: whether there is work, the depth, and why."""
    assert isinstance(decision, Look)
    return decision.is_work, decision.depth, decision.why
