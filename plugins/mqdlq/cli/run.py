"""The command `mqdlq run`: run a handler's DAG once, in the foreground."""

from __future__ import annotations

import json
from typing import Annotated, Any

import click

from mqdlq.cli.airflow import become
from mqdlq.cli.parameters import Argument, Option
from mqdlq.errors import HandlerError, MqDlqError
from mqdlq.handlers import load_handler

USAGE = 2


class ConfError(MqDlqError):
    """The value of --conf is not a JSON object."""


def run(
    handler: Annotated[str, Argument(help="The handler's name: the stem of its YAML file.")],
    *,
    conf: Annotated[str, Option(help="The run's parameters, as JSON.")] = "{}",
    why: Annotated[
        str, Option(help="The reason for the run, or a ticket: the parameter why.")
    ] = "",
) -> None:
    """Implement `mqdlq run`.

    The run ends with its report. After a run that acted, WAIT(n) lets another one wait n seconds
    for messages that arrive later, and so on. `dry_run` only reports what the run would do;
    docs/reference/parameters.md lists the other parameters.

    Exit code 0 if the run succeeded, even if the queue was empty; 1 if it failed; 2 if the handler,
    its connection or the parameters are not valid, before the run is created.

    For example:
      mqdlq run demo
      mqdlq run demo --conf '{"dry_run": true}' --why "ticket 4711"
    """
    try:
        load_handler(handler)
        given = _check(conf) | ({"why": why} if why else {})
    except (HandlerError, ConfError) as error:
        click.echo(error, err=True)
        raise SystemExit(USAGE) from None
    become("-m", "mqdlq.local.foreground", handler, json.dumps(given))


def _check(conf: str) -> dict[str, Any]:
    try:
        parsed = json.loads(conf)
    except ValueError as error:
        raise ConfError("MQDLQ-912", f"--conf is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ConfError(
            "MQDLQ-913", '--conf is not a JSON object; expected an object such as {"dry_run": true}'
        )
    return parsed
