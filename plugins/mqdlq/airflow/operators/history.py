"""The tasks of mq_dlq_history: write the ledger's outcomes, and remove what is kept no longer."""

from __future__ import annotations

from airflow.sdk import Context

from mqdlq import directories
from mqdlq.airflow.hooks.connections import open_ledger
from mqdlq.airflow.operators.base import HandlerTask, progress, started_by, utc_now
from mqdlq.handlers import load_handlers


class ExportOutcomes(HandlerTask):
    """Write the outcomes of all runs where the history in Spark reads them.

    Reads the ledger and touches no MQ. Run twice, it writes the file again.
    """

    def execute(self, context: Context) -> dict[str, str | int]:
        """Write the file; returns where lake and history stand, and how much there is to read."""
        del context
        from mqdlq import lake  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)
        from mqdlq.reading.outcome_files import export_outcomes  # noqa: PLC0415 (Arrow)

        history = f"{directories.lake().rstrip('/')}/history"
        with open_ledger() as ledger:
            outcomes = export_outcomes(ledger, history)
        stored = lake.finished_snapshots(directories.lake())
        messages = sum(snapshot.manifest.messages for snapshot in stored)
        progress.info("%d outcomes, %d messages in all snapshots", outcomes, messages)
        return {"lake": directories.lake(), "history": history, "messages": messages}


class Prune(HandlerTask):
    """Remove archive copies and runs by `keep_archive_for` and `keep_runs_for` of each handler.

    Changes ledger and lake, and touches no MQ. The ledger records what goes before it goes and the
    result afterwards. It removes nothing that a restoration or an unfinished run may need, and
    nothing under a legal hold. A handler whose file has an error is not pruned.

    Run twice, it completes what the first one began, and removes what has become old since. Two at
    once remove the same, once.
    """

    def execute(self, context: Context) -> dict[str, int]:
        """Prune; returns how many copies and runs were removed. Fails if the clock looks wrong."""
        from mqdlq.stages.retention import Policy, Pruner  # noqa: PLC0415 (imports Arrow, which DAG parsing must not)

        handlers, faults = load_handlers(self.directory)
        for fault in faults:
            progress.warning("not pruned: %s [MQDLQ-257]", fault.text)
        with open_ledger() as ledger:
            pruner = Pruner(ledger, directories.lake(), utc_now, started_by(context), progress.info)
            found = pruner.prune([Policy.of(handler) for handler in handlers])
        for one in found:
            progress.info(
                "%s (%s): %d archive copies and %d runs removed; %d copies and %d runs are kept"
                " beyond it",
                one.policy.handler,
                one.policy,
                one.copies,
                len(one.run_ids),
                one.kept_copies.total(),
                one.kept_runs.total(),
            )
        return {
            "copies": sum(one.copies for one in found),
            "runs": sum(len(one.run_ids) for one in found),
        }
