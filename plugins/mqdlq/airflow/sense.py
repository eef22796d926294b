"""The task sense: a DAG run's params in, a recorded run whose queue holds messages out."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import PurePath
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import DownstreamTasksSkipped

from mqdlq import sense
from mqdlq.airflow.depth_trigger import DepthTrigger
from mqdlq.airflow.ledger_connection import open_ledger
from mqdlq.airflow.params import fault, wait_seconds
from mqdlq.airflow.stage import BACKFILL, DEFER_FROM_S, Stage, progress, utc_now
from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handler
from mqdlq.ledger import Run

POLL_S = 10  # not less than DEFER_FROM_S, or a message could resume the task too soon


class Sense(Stage):
    """Freeze the rules, record the run, and find out by MQINQ whether there is work.

    Takes no message and opens the queue for inquiry only. With WAIT(NO) it looks once; else it
    looks, and waits deferred for as long as WAIT says. Without work it skips all tasks after it,
    and the DAG run succeeds.

    Run twice, it finds the run as recorded, with the rules read the first time, and looks again.
    """

    def execute(self, context: Context) -> None:
        """Record the run; defer where there is nothing on the queue yet and WAIT allows it."""
        handler, settings = load_handler(self.handler), self.settings()
        with open_ledger() as ledger:
            run = sense.start_run(
                self.run_id(context),
                handler,
                settings,
                ledger=ledger,
                clock=utc_now,
                options=self._options(context),
            )
            depth, unfinished = sense.depth(run, settings), sense.is_unfinished(run, ledger)
        if unfinished:
            progress.info("an earlier execution was interrupted: its account is to be settled")
        elif depth == 0 and run.wait_s is not None and 0 < run.wait_s < DEFER_FROM_S:
            progress.info("no messages on %s yet; looking again in %d s", run.queue, run.wait_s)
            time.sleep(run.wait_s)
            depth = sense.depth(run, settings)
        elif depth == 0 and run.wait_s != 0:
            self._wait(run, handler.connection)
        self._conclude(run, depth, unfinished=unfinished)

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """Go on after the wait, with the depth the trigger saw."""
        with self.work(context) as work:
            self._conclude(work.run, event["depth"], unfinished=False)

    def _options(self, context: Context) -> sense.RunOptions:
        asked, dag_run = context["params"], context["dag_run"]
        if wrong := fault(dag_run.conf or {}):
            raise HandlerError(wrong)
        if asked["apply"] and dag_run.run_type.value != BACKFILL:
            raise HandlerError(
                f"apply is for backfills, and this is a {dag_run.run_type.value} run: leave it out"
            )
        return sense.RunOptions(
            input_q=asked["input_q"],
            input_q_mgr=asked["input_q_mgr"],
            rules=asked["rules"],
            dry_run=asked["dry_run"],
            message_keys=tuple(asked["message_keys"]),
            wait_s=wait_seconds(asked["wait"]),
            dag_run_id=dag_run.run_id,
            run_type=dag_run.run_type.value,
        )

    def _wait(self, run: Run, conn_id: str) -> None:
        until = None if run.wait_s is None else utc_now() + timedelta(seconds=run.wait_s)
        progress.info(
            "no messages on %s; waiting %s", run.queue, f"until {until:%H:%M:%S}" if until else "on"
        )
        trigger = DepthTrigger(conn_id, run.queue_manager, run.queue, until, POLL_S)
        self.defer(trigger=trigger, method_name="resume")

    def _conclude(self, run: Run, depth: int, *, unfinished: bool) -> None:
        place = f"{run.queue} of {run.queue_manager}"
        if depth == 0 and not unfinished:
            progress.info("no messages on %s: nothing to do, the rest is skipped", place)
            # The report, too, which otherwise runs whatever becomes of the tasks before it.
            raise DownstreamTasksSkipped(tasks=sorted(self.get_flat_relative_ids(upstream=False)))
        progress.info("%d messages on %s; rules: %s", depth, place, PurePath(run.rules_source).name)
