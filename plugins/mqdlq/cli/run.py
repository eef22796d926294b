"""The commands that start an Airflow: `mqdlq run`, `mqdlq backfill` and `mqdlq airflow`."""

import json
import os
import sys
from datetime import UTC, datetime, time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import click

from mqdlq.cli.output import refusal, refusing
from mqdlq.errors import HandlerError, MqDlqError
from mqdlq.handlers import load_handler
from mqdlq.local import environment

HandlerName = Annotated[str, "HANDLER: The handler's name: the stem of its YAML file."]
Why = Annotated[str, "--why: The reason, or the number of a ticket."]


class OptionError(MqDlqError):
    """A value of --conf, --from or --to is not valid."""


def run(
    handler: HandlerName,
    *,
    where: str = "",
    as_of: str = "",
    action: str = "",
    until_fixed: bool = False,
    conf: str = "{}",
    body: Path | None = None,
    why: str = "",
) -> None:
    """Implement `mqdlq run`.

    The run ends with its report. After a run that acted, WAIT(n) lets another one wait n seconds
    for messages that arrive later, and so on. `dry_run` only reports what the run would do;
    docs/reference/parameters.md lists the other parameters.

    Exit code 0 if the run succeeded, even if the queue was empty; 1 if it failed; 2 if the handler,
    its connection or the parameters are not valid, before the run is created.

    Takes:
      --where: Only the messages that meet this condition: the parameter where.
      --as-of SNAPSHOT: Of those in this snapshot, not those that arrived since: as_of.
      --action: One rule without patterns for them: the parameter action.
      --until-fixed: Hold messages while their destination refuses them: until_fixed.
      --conf: The run's parameters, as JSON.
      --body FILE: Replace the body of the one message in message_keys: adds it to repair.
      --why: The reason for the run, or a ticket: the parameter why.

    For example:
      mqdlq run demo
      mqdlq run demo --conf '{"dry_run": true}' --why "ticket 4711"
      mqdlq run demo --where 'reason=MQRC_Q_FULL and application=payd*' --action 'ACTION(RETRY)'
    """
    texts = {"where": where, "as_of": as_of, "action": action, "why": why}
    options: dict[str, Any] = texts | {"until_fixed": until_fixed}
    with refusing(HandlerError, OptionError, prefix=""):
        load_handler(handler)
        given = _check(conf) | {name: value for name, value in options.items() if value}
    if body is not None:
        from mqdlq.cli.replacing import store  # noqa: PLC0415 (it imports Arrow)

        given["repair"] = (given.get("repair") or {}) | store(handler, body, given)
    from mqdlq.local import foreground  # noqa: PLC0415 (the schemas of parameters take long)

    raise SystemExit(foreground.run(handler, given))


def _check(conf: str) -> dict[str, Any]:
    try:
        parsed = json.loads(conf)
    except ValueError as error:
        raise OptionError("MQDLQ-912", f"--conf is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise OptionError(
            "MQDLQ-913", '--conf is not a JSON object; expected an object such as {"dry_run": true}'
        )
    return parsed


def backfill(
    handler: HandlerName,
    *,
    since: str,
    until: str,
    rules: str = "",
    apply: bool = False,
    why: Why = "",
    dry_run: bool = False,
) -> None:
    """Implement `mqdlq backfill`.

    Starts a backfill of the handler's DAG over the intervals whose snapshots the rules are to
    evaluate, and follows it to its end. It uses the Airflow that AIRFLOW_HOME or
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN names; without them, that of `make up`. Its scheduler must
    run. Intervals that have a run already are evaluated as well.

    A TIME is a date, or a date and a time in UTC; a date after --to means the whole day.

    Exit code 0 if every interval with snapshots was evaluated; 1 if one was not, or if there is
    none; 2 if the handler or an option is not valid, before anything starts.

    Takes:
      --from TIME: The start of the first interval, or earlier.
      --to TIME: The start of the last interval, or later.
      --rules TABLE: A rules table beside the handler's own.
      --apply: Act on those messages that are still on the queue.
      --dry-run: Only list what would be evaluated; start nothing.

    For example:
      mqdlq backfill demo --from 2026-11-16 --to 2026-11-18T06:00 --dry-run
    """
    with refusing(HandlerError, OptionError):
        times = _range(handler, since, until)
    conf = {"rules": rules, "apply": apply, "why": why}
    given = {name: value for name, value in conf.items() if value}
    from mqdlq.local import foreground  # noqa: PLC0415 (the schemas of parameters take long)

    if wrong := foreground.why_refused(handler, given):
        raise refusal(f"mqdlq: {wrong}")
    os.umask(0o077)  # metadata and logs are for their owner alone
    environment.quieten_airflow()
    environment.select_airflow()
    from mqdlq.local import backfill as local  # noqa: PLC0415 (imports Airflow)

    raise SystemExit(local.backfill(handler, *times, given, is_dry_run=dry_run))


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
        raise OptionError("MQDLQ-156", f"--from {since} is later than --to {until}; exchange them")
    return first, last


def _time(option: str, given: str, of_day: time) -> datetime:
    """Return a time in UTC; a date without a time gets the one given."""
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise OptionError(
            "MQDLQ-918",
            f"{option}: {given} is not a time; expected 2026-11-16, or 2026-11-16T02:00 in UTC",
        ) from None
    if "T" not in given and " " not in given:
        found = datetime.combine(found, of_day)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def airflow() -> None:
    """Implement `mqdlq airflow`.

    It uses the Airflow that AIRFLOW_HOME or AIRFLOW__DATABASE__SQL_ALCHEMY_CONN names; without
    them, that of `make up`. All arguments go to Airflow, --help too, and Airflow's exit code comes
    back.

    For example:
      mqdlq airflow dags list
    """
    arguments = click.get_current_context().args
    version("apache-airflow-core")  # a missing one is reported as for any other command
    os.umask(0o077)  # metadata and logs are for their owner alone
    # Metadata that the environment names are not migrated here.
    is_own = not (environment.names_airflow() or environment.names_metadata())
    if is_own and not {"-h", "--help", "version", "db"} & set(arguments[:2]):
        environment.migrate()
    sys.stdout.flush()
    # This process becomes Airflow, so that a signal reaches it. Airflow writes its warnings to
    # standard output, where `--output json` belongs.
    os.execve(  # noqa: S606 (this very Python, no shell)
        sys.executable,
        [sys.executable, "-m", "airflow", *arguments],
        {**environment.selected_environment(), "PYTHONWARNINGS": "ignore"},
    )
