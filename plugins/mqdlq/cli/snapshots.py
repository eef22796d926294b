"""`mqdlq snapshots`: what the lake holds of queues; no queue is touched."""

from __future__ import annotations

import typer

from mqdlq.cli.snapshots_import import import_snapshot

app = typer.Typer(
    no_args_is_help=True, help="Snapshots: what was on a queue, as Parquet in the lake."
)
app.command("import", no_args_is_help=True)(import_snapshot)


@app.callback()
def snapshots() -> None:
    """Keep the verb before its arguments, though there is but one."""
