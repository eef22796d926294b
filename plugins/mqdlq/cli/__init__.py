"""The command `mqdlq`: arguments in, text, JSON and exit codes out."""

from __future__ import annotations

import typer

from mqdlq.cli.on_demand import Place, on_demand

COMMANDS = {
    "run": Place("mqdlq.cli.run", "run"),
    "check": Place("mqdlq.cli.check", "check"),
    "preview": Place("mqdlq.cli.preview", "preview"),
    "explain": Place("mqdlq.cli.explain", "explain"),
    "decode": Place("mqdlq.cli.decode", "decode"),
    "report": Place("mqdlq.cli.report", "report", asks=False),
    "restore": Place("mqdlq.cli.restore"),
    "shadow": Place("mqdlq.cli.shadow", "shadow"),
    "rules": Place("mqdlq.cli.rules"),
    "snapshots": Place("mqdlq.cli.snapshots"),
    "qm": Place("mqdlq.cli.qm"),
    "airflow": Place("mqdlq.cli.airflow"),
}

app = typer.Typer(cls=on_demand(COMMANDS), no_args_is_help=True, add_completion=False)


@app.callback()
def mqdlq() -> None:
    """Handle IBM MQ's dead-letter queues, as an Airflow workflow on Spark."""
