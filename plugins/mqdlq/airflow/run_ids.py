"""Make a run's id in ledger and report from the handler's name and the DAG run's id."""

import hashlib
import re

_AIRFLOWS_OWN = re.compile(r"(\w+__)?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")
_LEDGERS_TIME = re.compile(r"((?:\w+__)?\d{4}-\d\d-\d\d)T(\d\d-\d\d-\d\d)(\.\d+)?")
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


def backfill_run_id(handler: str, dag_run_id: str, cleared: int) -> str:
    """Return the id of a backfill's run, after its DAG run was cleared so many times.

    A backfill may take over a run that has been before, again and again, under its old id.

    >>> backfill_run_id("demo", "scheduled__2026-11-21T02:00:00+00:00", 1)
    'demo-scheduled__2026-11-21T02-00-00-backfill-1'
    """
    return f"{ledger_run_id(handler, dag_run_id)}-backfill-{cleared}"


def possible_dag_run_ids(handler: str, run_id: str) -> list[str]:
    """Return the ids of DAG runs whose id in the ledger is this one, as far as it shows them.

    Ids with replaced characters that people made up are not among them.

    >>> possible_dag_run_ids("demo", "demo-manual__2026-11-21T02-49-22")
    ['manual__2026-11-21T02:49:22+00:00', 'manual__2026-11-21T02-49-22']
    """
    rest = run_id.removeprefix(f"{handler}-")
    found = _LEDGERS_TIME.fullmatch(rest)
    airflows = [f"{found[1]}T{found[2].replace('-', ':')}{found[3] or ''}+00:00"] if found else []
    return [one for one in (*airflows, rest) if ledger_run_id(handler, one) == run_id]
