"""Make one attempt at a recorded restoration in its own process, which MQDLQ_FAULTS may kill."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from time import sleep

from mqdlq.ledger import open_ledger
from mqdlq.mqi.connect import ConnectionSettings
from mqdlq.stages.restore.restoration import RestorationResources, restore


def main(directory: str, name: str, client: str) -> None:
    with open_ledger(f"sqlite:///{directory}/ledger.db") as ledger:
        recorded = ledger.restorations.get(name)
        assert recorded is not None
        settings = ConnectionSettings("QM1", transport="embedded", client=client)

        def clock() -> datetime:
            return datetime.now(UTC)  # noqa: TID251

        restore(
            RestorationResources(
                restoration=recorded,
                settings=settings,
                ledger=ledger,
                lake_root=f"{directory}/lake",
                max_messages_per_unit=128,
                clock=clock,
                sleep=sleep,
                log=logging.getLogger(),
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
