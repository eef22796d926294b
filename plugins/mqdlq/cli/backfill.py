"""The command `mqdlq backfill`: evaluate stored snapshots of a handler by today's rules."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, time
from typing import Annotated

import click

from mqdlq.cli.airflow import become
from mqdlq.cli.parameters import Argument, Option
from mqdlq.errors import HandlerError, MqDlqError
from mqdlq.handlers import load_handler

USAGE = 2


class TimeError(MqDlqError):
    """A value of --from or --to is not a time, or they are in the wrong order."""


def backfill(
    handler: Annotated[str, Argument(help="The handler's name: the stem of its YAML file.")],
    *,
    since: Annotated[
        str,
        Option("--from", metavar="TIME", help="The start of the first interval, or earlier."),
    ],
    until: Annotated[
        str, Option("--to", metavar="TIME", help="The start of the last interval, or later.")
    ],
    rules: Annotated[
        str, Option(metavar="TABLE", help="A rules table beside the handler's own.")
    ] = "",
    apply: Annotated[
        bool, Option("--apply", help="Act on those messages that are still on the queue.")
    ] = False,
    why: Annotated[str, Option(help="The reason, or the number of a ticket.")] = "",
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only list what would be evaluated; start nothing.")
    ] = False,
) -> None:
    """Implement `mqdlq backfill`.

    Starts a backfill of the handler's DAG over the intervals whose snapshots the rules are to
    evaluate, and follows it to its end. It uses the Airflow that AIRFLOW_HOME or
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN names; without them, that of `make up`. Its scheduler must
    run. Intervals that have a run already are evaluated as well.

    A TIME is a date, or a date and a time in UTC; a date after --to means the whole day.

    Exit code 0 if every interval with snapshots was evaluated; 1 if one was not, or if there is
    none; 2 if the handler or an option is not valid, before anything starts.

    For example:
      mqdlq backfill demo --from 2026-11-16 --to 2026-11-18T06:00 --dry-run
    """
    try:
        first, last = _range(handler, since, until)
    except (HandlerError, TimeError) as error:
        click.echo(f"mqdlq: {error}", err=True)
        raise SystemExit(USAGE) from None
    options = {
        "handler": handler,
        "since": first.isoformat(),
        "until": last.isoformat(),
        "rules": rules,
        "apply": apply,
        "why": why,
        "dry_run": dry_run,
    }
    # Airflow's own remarks go to where the answer goes.
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "ERROR"
    become("-m", "mqdlq.local.airflow_command", "mqdlq.local.backfill", json.dumps(options))


def _range(handler: str, since: str, until: str) -> tuple[datetime, datetime]:
    """Return the times between which the intervals of a handler with a cron schedule begin."""
    if not load_handler(handler).has_intervals:
        raise HandlerError(
            "MQDLQ-117",
            f"{handler} has no cron schedule, so a backfill has no interval with snapshots to"
            " evaluate; give the handler a cron schedule",
        )
    first, last = _time("--from", since, time.min), _time("--to", until, time.max)
    if first > last:
        raise TimeError("MQDLQ-156", f"--from {since} is later than --to {until}; exchange them")
    return first, last


def _time(option: str, given: str, of_day: time) -> datetime:
    """Return a time in UTC; a date without a time gets the one given."""
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise TimeError(
            "MQDLQ-918",
            f"{option}: {given} is not a time; expected 2026-11-16, or 2026-11-16T02:00 in UTC",
        ) from None
    if "T" not in given and " " not in given:
        found = datetime.combine(found, of_day)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
