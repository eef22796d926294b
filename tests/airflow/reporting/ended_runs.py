"""Runs that have ended, and their metrics."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from mqdlq.airflow.metrics import emit
from mqdlq.handlers import Handler
from mqdlq.ledger.tables import Run
from mqdlq.reading.report.files import write_report
from mqdlq.stages.execute import Execution, make_pass, settle
from mqdlq.stages.snapshot.taking import record_causes
from tests.support.world import World


def tell(
    world: World | Execution, run: Run, *, schedule: str | None = None, failed: str = ""
) -> None:
    """Emit the metrics of a run as its report does, 90 seconds after noon."""
    ledger, now = world.ledger, world.clock() + timedelta(seconds=90)
    stages = {failed: "failed"} if failed else {}
    files = write_report(
        run.run_id, ledger=ledger, lake_root=world.lake_root, stages=stages, clock=world.clock
    )
    oldest = ledger.accounts.oldest_that_stays(run, files.oldest_left)
    files = replace(files, oldest_left=oldest)
    handler = Handler(name="test", directory=Path(), connection="mq", rules="x", schedule=schedule)
    emit(run, files, handler, ledger=ledger, now=now)


def handled(tmp_path: Path, *reasons: int) -> Execution:
    """Make a run over a message with each of these reasons; the first can be delivered."""
    world = World(tmp_path)
    for number, reason in enumerate(reasons):
        dest_q = "ELSEWHERE" if number else "PAYMENTS"
        world.dead_letter(dest_q=dest_q, reason=reason, body=str(number).encode())
    execution = world.plan("WAIT(NO)\nDESTQ(PAYMENTS) ACTION(RETRY)\n")
    record_causes(execution.run, ledger=execution.ledger)
    make_pass(execution)
    settle(execution)
    return execution
