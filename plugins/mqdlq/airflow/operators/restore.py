"""The tasks of mq_dlq_restore: select archived messages and put them to a queue."""

import logging
import time
from typing import Any

from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from mqdlq import directories
from mqdlq.airflow.hooks.connections import open_ledger
from mqdlq.airflow.operators.base import HandlerTask, Stage, progress, started_by, utc_now
from mqdlq.airflow.params import request
from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.errors import LedgerError, UnfinishedRestorationError
from mqdlq.handlers import load_handler
from mqdlq.stages.sense import select_queue_manager

report_text = logging.getLogger("mqdlq.reading.report")
"""How the restoration went, as text; `mqdlq restore run` ends with it."""


def task_id_of(handler: str) -> str:
    return f"restore_{handler}"


def restoration_id(context: Context) -> str:
    return ledger_run_id("restore", context["dag_run"].run_id)


class Select(HandlerTask, BaseBranchOperator):
    """Select the copies a person asks for, write them down, and choose the handler's own task.

    Reads the ledger and, where a reason is given, the archive; touches no queue manager.

    Run twice, it finds what the first one has written down: the selection of a DAG run holds to its
    end, and what the run's configuration says otherwise by then is refused.
    """

    def names(self, context: Context) -> tuple[str, str]:
        return str(context["params"].get("handler") or ""), restoration_id(context)

    def choose_branch(self, context: Context) -> str:
        from mqdlq.stages.older_ledger import require_newest_ledger  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)
        from mqdlq.stages.restore.restoration import announce  # noqa: PLC0415 (the same)
        from mqdlq.stages.restore.selection import begin_restoration  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        values = context["params"]
        handler = load_handler(str(values["handler"]), self.directory)
        with open_ledger() as ledger:
            require_newest_ledger(ledger, directories.lake())
            asked = request(
                values, handler, restoration_id(context), started_by(context), utc_now()
            )
            new = begin_restoration(asked, handler, ledger=ledger)
            for line in announce(new, len(ledger.restorations.states(new.restoration_id))):
                progress.info("%s", line)
        return task_id_of(handler.name)


class Restore(Stage):
    """Put the selected copies on their queue, as the project's core does (`mqdlq.stages.restore`).

    Each message is put in a unit of work with a marker, which the ledger announces before and
    confirms after: it is put once or not at all, whatever ends this task and when. Copies stay in
    the archive.

    Run twice, or cleared, it finds in the ledger and in the markers what was put, and only does the
    rest; `again` is about other restorations and changes nothing in that. Two at once cannot be:
    the state queue is held exclusively.
    """

    def run_id(self, context: Context) -> str:
        return restoration_id(context)

    def execute(self, context: Context) -> dict[str, Any]:
        """Restore; returns counts and a short text. Fails where not all of it could be done."""
        from mqdlq.stages.restore.restoration import (  # noqa: PLC0415 (the same)
            RestorationResources,
            describe_result,
            restore,
        )

        name = restoration_id(context)
        with open_ledger() as ledger:
            recorded = ledger.restorations.get(name)
            if recorded is None:
                raise LedgerError(
                    "MQDLQ-712",
                    f"restoration {name} is not in the ledger; clear the task select, which"
                    " records it",
                )
            result = restore(
                RestorationResources(
                    restoration=recorded,
                    settings=select_queue_manager(self.settings(), recorded.queue_manager),
                    ledger=ledger,
                    lake_root=directories.lake(),
                    max_messages_per_unit=self.configuration().max_messages_per_unit,
                    clock=utc_now,
                    sleep=time.sleep,
                    log=progress,
                )
            )
        text = describe_result(recorded, result)
        report_text.info("%s", text)
        if result.shortfall:
            error = UnfinishedRestorationError(
                "MQDLQ-701", f"restoration {name}: {result.shortfall}"
            )
            if result.may_succeed_later:
                raise error
            raise AirflowFailException(str(error)) from error
        counts = {str(state): number for state, number in result.outcomes.items()}
        return {"restoration": name, "selected": result.total, **counts, "text": text}
