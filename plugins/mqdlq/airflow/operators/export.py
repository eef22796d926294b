"""The task export of mq_dlq_history: write the ledger's outcomes as Parquet to the lake."""

from __future__ import annotations

from airflow.sdk import Context

from mqdlq import directories
from mqdlq.airflow.operators.base import HandlerTask, progress
from mqdlq.ledger import open_ledger


class ExportOutcomes(HandlerTask):
    """Write the outcomes of all runs where the history in Spark reads them.

    Reads the ledger and touches no MQ. Run twice, it writes the file again.
    """

    def execute(self, context: Context) -> dict[str, str | int]:
        """Write the file; returns where lake and history stand, and how much there is to read."""
        del context
        from mqdlq import lake  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)
        from mqdlq.reading.report.report_files import export_outcomes  # noqa: PLC0415 (Arrow)

        history = f"{directories.lake().rstrip('/')}/history"
        with open_ledger() as ledger:
            outcomes = export_outcomes(ledger, history)
        stored = lake.finished_snapshots(directories.lake())
        messages = sum(snapshot.manifest.messages for snapshot in stored)
        progress.info("%d outcomes, %d messages in all snapshots", outcomes, messages)
        return {"lake": directories.lake(), "history": history, "messages": messages}
