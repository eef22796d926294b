"""One pass of a recorded run in its own process, which may freeze (SIGSTOP) at a step."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from datetime import UTC, datetime
from time import sleep
from typing import Any

from sqlalchemy import event

from mqdlq.ledger import Ledger, open_ledger
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.mqi.unit_of_work import Syncpoint, UnitOfWork
from mqdlq.stages.execute import Execution, make_pass

SETTINGS = "MQDLQ_EXECUTOR_SETTINGS"
"""The variable with the connection settings as JSON, for a queue manager that is given."""
READY = "ready"


def freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def freeze_before(step: str, ledger: Ledger) -> None:
    """Freeze before the first attempts are written as `step`, or before the first MQCMIT."""
    if step == "MQCMIT":
        commit = UnitOfWork.commit

        def commit_late(unit: Syncpoint) -> None:
            UnitOfWork.commit = commit  # type: ignore[method-assign]
            freeze()
            commit(unit)

        UnitOfWork.commit = commit_late  # type: ignore[method-assign, assignment]
    elif step:
        seen: list[str] = []
        # The first statement of the transaction: a frozen process must not hold the ledger.
        first = "INSERT INTO units" if step == "intended" else "INSERT INTO unit_states"

        def look(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
            is_it = statement.startswith(f"{first} ")
            is_it = is_it and (step == "intended" or step in str(parameters))
            if is_it and not seen:
                seen.append(statement)
                freeze()

        event.listen(ledger.engine, "before_cursor_execute", look)


def main(directory: str, run_id: str, step: str) -> None:
    """Make the pass; a line on standard output says that it begins."""
    given = os.environ.get(SETTINGS, '{"queue_manager": "QM1", "transport": "embedded"}')
    with open_ledger(f"sqlite:///{directory}/ledger.db") as ledger:
        run = ledger.runs.get(run_id)
        assert run is not None
        freeze_before(step, ledger)
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        make_pass(
            Execution(
                run=run,
                settings=ConnectionSettings(**json.loads(given)),
                ledger=ledger,
                lake_root=f"{directory}/lake",
                clock=lambda: datetime.now(UTC),  # noqa: TID251
                sleep=lambda seconds: sleep(min(seconds, 0.02)),
                log=logging.getLogger(),
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
