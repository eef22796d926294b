"""A handler's name and the id of a DAG run in, the id of the run in ledger and report out."""

from __future__ import annotations

import hashlib
import re

_AIRFLOWS_OWN = re.compile(r"(\w+__)?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")


def ledger_run_id(handler: str, dag_run_id: str) -> str:
    """Return an id of letters, digits, '-', '_' and '.', fit for paths; equal for equal runs only.

    >>> ledger_run_id("demo", "manual__2026-11-21T02:49:22+00:00")
    'demo-manual__2026-11-21T02-49-22'
    """
    if _AIRFLOWS_OWN.fullmatch(dag_run_id):
        return f"{handler}-{dag_run_id.removesuffix('+00:00').replace(':', '-')}"
    safe = re.sub(r"[^A-Za-z0-9_.-]", "-", dag_run_id)
    if safe == dag_run_id:
        return f"{handler}-{dag_run_id}"
    # Two ids that people made up may differ in nothing but what was replaced.
    return f"{handler}-{safe}-{hashlib.sha256(dag_run_id.encode()).hexdigest()[:8]}"
