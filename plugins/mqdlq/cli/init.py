"""The command `mqdlq init`: write the first files of a handler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from mqdlq.cli.airflow import become
from mqdlq.cli.parameters import Argument, Option


def init(
    directory: Annotated[
        Path, Argument(help="Where the files are written; it is created if it is missing.")
    ],
    *,
    connection: Annotated[str, Option(help="The Airflow connection to the queue manager.")] = "",
    queue_manager: Annotated[
        str, Option(help="The queue manager, if no connection is defined yet.")
    ] = "",
    embedded: Annotated[
        str,
        Option(
            metavar="NAME",
            help="Create an embedded queue manager with dead letters to try mqdlq without IBM MQ.",
        ),
    ] = "",
    queue: Annotated[
        str, Option(help="The queue, if it is not the queue manager's dead-letter queue.")
    ] = "",
    handler: Annotated[
        str, Option(help="The handler's name; that of the queue manager unless given.")
    ] = "",
) -> None:
    """Implement `mqdlq init`.

    Writes a handler with a rules table, a DAG file, an example of the connection, and an override
    for Docker Compose. The rules deliver messages whose queue was full or inhibited, and leave all
    other messages on the queue. The handler has no schedule, and in Airflow a person approves each
    plan. Prints the files and the next commands.

    The queue manager comes from --connection, from the only connection of type ibmmq in the
    environment (AIRFLOW_CONN_*), or from --queue-manager. If it answers, it is asked for its
    dead-letter queue. An existing file with another text is an error, and nothing is written.

    For example:
      mqdlq init dlq --embedded QM5
    """
    options = {
        "directory": str(directory),
        "handler": handler,
        "connection": connection,
        "queue_manager": queue_manager,
        "queue": queue,
        "embedded": embedded,
    }
    become("-W", "ignore", "-m", "mqdlq.local.starter", json.dumps(options))
