"""The command `mqdlq`: arguments in, text, JSON and exit codes out."""

from __future__ import annotations

import typer

from mqdlq.cli import qm, rules, snapshots
from mqdlq.cli.decode import decode
from mqdlq.cli.explain import explain
from mqdlq.cli.preview import preview
from mqdlq.cli.report import report
from mqdlq.cli.run import run
from mqdlq.cli.shadow import shadow

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="A dead-letter queue handler for IBM MQ, as an Airflow workflow on Spark.",
)
app.command(no_args_is_help=True)(run)
app.command(no_args_is_help=True)(preview)
app.command(no_args_is_help=True)(explain)
app.command(no_args_is_help=True)(decode)
app.command()(report)
app.command(no_args_is_help=True)(shadow)
app.add_typer(rules.app, name="rules")
app.add_typer(snapshots.app, name="snapshots")
app.add_typer(qm.app, name="qm")
app.add_typer(snapshots.app, name="snapshots")
