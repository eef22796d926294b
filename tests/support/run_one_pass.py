"""Make one pass of a recorded run in its own process, which MQDLQ_FAULTS may kill."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from time import sleep

from mqdlq.ledger import open_ledger
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.stages.execute import Execution, make_pass


def main(directory: str, run_id: str, client: str) -> None:
    with open_ledger(f"sqlite:///{directory}/ledger.db") as ledger:
        run = ledger.runs.get(run_id)
        assert run is not None
        make_pass(
            Execution(
                run=run,
                settings=ConnectionSettings("QM1", transport="embedded", client=client),
                ledger=ledger,
                lake_root=f"{directory}/lake",
                clock=lambda: datetime.now(UTC),  # noqa: TID251
                sleep=sleep,
                log=logging.getLogger(),
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
