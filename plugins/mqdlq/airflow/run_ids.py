"""Make a run's id in ledger and report from the handler's name and the DAG run's id."""

from __future__ import annotations

import hashlib
import re

_AIRFLOWS_OWN = re.compile(r"(\w+__)?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")
LONGEST = 200
"""Characters of an id: a file's name takes 255 bytes, the ledger 250, and backfills add to it."""


def ledger_run_id(handler: str, dag_run_id: str) -> str:
    """Return an id of letters, digits, '-', '_' and '.', fit for paths.

    Ids that people make up may still come to the same one; the start of a run refuses the second.

    >>> ledger_run_id("demo", "manual__2026-11-21T02:49:22+00:00")
    'demo-manual__2026-11-21T02-49-22'
    """
    digest = hashlib.sha256(dag_run_id.encode()).hexdigest()[:8]
    if _AIRFLOWS_OWN.fullmatch(dag_run_id):
        run_id = f"{handler}-{dag_run_id.removesuffix('+00:00').replace(':', '-')}"
    else:
        safe = re.sub(r"[^A-Za-z0-9_.-]", "-", dag_run_id)
        # Two ids that people made up may differ in nothing but what was replaced.
        run_id = f"{handler}-{safe}" if safe == dag_run_id else f"{handler}-{safe}-{digest}"
    if len(run_id) <= LONGEST:
        return run_id
    return f"{run_id[: LONGEST - len(digest) - 1]}-{digest}"
