"""The command `mqdlq report`: print the report of a run from the ledger and the lake."""

import sys
from collections import Counter

import click
from rich.console import Console

from mqdlq import directories
from mqdlq.cli.ledger import warn_of_older_ledger
from mqdlq.cli.output import Output, now, write_json
from mqdlq.errors import LedgerError
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.tables import Prune
from mqdlq.model import Outcome
from mqdlq.reading.report.building import Report, rows_needing_attention
from mqdlq.reading.report.files import latest_run_id, read_ended_report, written_stages
from mqdlq.reading.report.json_report import render_json, render_row
from mqdlq.reading.report.text_report import print_report, render_text
from mqdlq.reading.run import read_sources
from mqdlq.words import count, moment, outcomes_in_words


def report(
    run_id: str | None = None, output: Output = "text", needs_attention: bool = False
) -> None:
    """Implement `mqdlq report`.

    The report is read from the ledger and the lake; no queue manager is needed. It lists at most
    1,000 messages with the same trouble, 10,000 in all, and counts the others. --needs-attention
    lists all of them, in any format.

    Exit code 0 whatever the report says; 1 if there is no such run.

    Takes:
      RUN: The run; without one, the latest.
      --needs-attention: List all messages that need attention or have no outcome, as lines of JSON.

    For example:
      mqdlq report
      mqdlq report --format json
    """
    with open_ledger(create=False) as ledger:
        warn_of_older_ledger(ledger)
        wanted = _wanted(run_id, ledger)
        if (pruned := ledger.prunes.pruned_run(wanted)) is not None:
            _show_pruned(wanted, pruned, ledger, output, needs_attention=needs_attention)
        elif needs_attention:
            _list(wanted, ledger)
        elif not _show_snapshot_pruned(wanted, ledger, output):
            lake_root = directories.lake()
            found = read_ended_report(wanted, ledger=ledger, lake_root=lake_root, now=now())
            _show(found, output)


def _wanted(run_id: str | None, ledger: Ledger) -> str:
    latest = latest_run_id(ledger)
    if latest is None:
        raise LedgerError(
            "MQDLQ-907",
            f"the ledger {ledger} has no run; start one with `mqdlq run HANDLER`, or name the"
            " ledger of Airflow's connection mqdlq_ledger in MQDLQ_LEDGER_URL",
        )
    wanted = run_id or latest
    is_known = ledger.runs.get(wanted) is not None or ledger.prunes.pruned_run(wanted) is not None
    if not is_known and not written_stages(wanted)[0]:
        raise LedgerError("MQDLQ-908", f"no run {wanted!r} is recorded; the latest is {latest!r}")
    return wanted


def _show_written(run_id: str, output: Output, how: str) -> bool:
    """Print the report that was written at a run's end; return whether there is one."""
    name = "report.json" if output == "json" else "report.txt"
    file = directories.report_directory(run_id) / name
    if not file.is_file():
        return False
    if output == "text":
        click.echo(f"{how}\n")
    click.echo(file.read_text(encoding="utf-8"), nl=False)
    return True


def _show_snapshot_pruned(run_id: str, ledger: Ledger, output: Output) -> bool:
    """Print the report written at a run's end if its snapshot was pruned since; return whether so.

    A new report could not read the messages.
    """
    snapshot = ledger.snapshots.of_run(run_id)
    at = ledger.snapshots.pruned_at(snapshot.run_id) if snapshot is not None else None
    if at is None:
        return False
    how = f"The snapshot was pruned ({moment(at)}); this was written at the run's end:"
    return _show_written(run_id, output, how)


def _show_pruned(
    run_id: str, prune: Prune, ledger: Ledger, output: Output, *, needs_attention: bool
) -> None:
    """Print the report that was written at a pruned run's end, or its totals if there is none."""
    how = f"pruned at {moment(prune.at)} by {prune.policy} of handler {prune.handler}"
    if needs_attention:
        raise LedgerError(
            "MQDLQ-256",
            f"run {run_id} was pruned at {moment(prune.at)} by {prune.policy} of handler"
            f" {prune.handler}, and its messages are no longer in the ledger; leave"
            " --needs-attention out",
        )
    if _show_written(run_id, output, f"The run was {how}; this was written at its end:"):
        return
    counted: Counter[Outcome] = Counter()
    for one in ledger.prunes.outcomes_of(run_id):
        counted[one.outcome] += one.messages
    if output == "json":
        outcomes = {str(outcome): number for outcome, number in counted.items()}
        document = {"run": run_id, "pruned_at": prune.at.isoformat(), "policy": prune.policy}
        write_json(document | {"outcomes": outcomes})
    else:
        ended = outcomes_in_words(counted) or "no messages"
        click.echo(f"{run_id} was {how}. {count(counted.total(), 'message')}: {ended}.")


def _list(run_id: str, ledger: Ledger) -> None:
    """Write the messages as they are read: a million of them need no more memory than a few."""
    sources = read_sources(run_id, ledger, directories.lake())
    for trouble in sources.troubles:
        click.echo(f"mqdlq: {trouble}; only what the ledger knows is listed", err=True)
    for row in rows_needing_attention(sources, ledger):
        sys.stdout.write(f"{render_row(row)}\n")


def _show(found: Report, output: Output) -> None:
    if output == "json":
        click.echo(render_json(found), nl=False)
    elif sys.stdout.isatty():
        print_report(found, Console())
    else:
        click.echo(render_text(found), nl=False)
