"""`mqdlq report`: a run's id in, its report as text or JSON out, read anew from the ledger."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from mqdlq import home
from mqdlq.errors import LedgerError, MqDlqError
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.report import (
    Report,
    latest_run_id,
    print_report,
    read_report,
    render_json,
    render_text,
    written_stages,
)


class Format(StrEnum):
    """How a report is shown."""

    TEXT = "text"
    JSON = "json"


def report(
    run_id: Annotated[
        str | None, typer.Argument(help="The run; without one, the latest.", metavar="RUN")
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.TEXT,
) -> None:
    """Say what became of every message of a run; touches no queue manager.

    Ends with 0 whatever the report says, and with 1 where there is no such run.

    Example: mqdlq report --format json
    """
    try:
        with open_ledger() as ledger:
            _show(_read(run_id, ledger), output)
    except MqDlqError as error:
        typer.echo(f"mqdlq: {error}", err=True)
        raise typer.Exit(1) from None


def _read(run_id: str | None, ledger: Ledger) -> Report:
    latest = latest_run_id(ledger)
    if latest is None:
        raise LedgerError(
            f"the ledger {ledger.engine.url.render_as_string()} has no run yet: `mqdlq run HANDLER`"
            " makes one; where Airflow's connection mqdlq_ledger names another ledger,"
            " MQDLQ_LEDGER_URL has to name it here"
        )
    wanted = run_id or latest
    stages, error = written_stages(wanted)
    if not stages and ledger.run(wanted) is None:
        raise LedgerError(f"no run {wanted!r} is recorded; the latest is {latest!r}")
    now = datetime.now(UTC)  # noqa: TID251 (an entry point)
    return read_report(
        wanted, ledger=ledger, lake_root=home.lake(), stages=stages, error=error, now=now
    )


def _show(found: Report, output: Format) -> None:
    if output is Format.JSON:
        typer.echo(render_json(found), nl=False)
    elif sys.stdout.isatty():
        print_report(found, Console())
    else:
        typer.echo(render_text(found), nl=False)
