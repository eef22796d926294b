"""The command `mqdlq certify`: try on a queue manager what the handler relies on."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from mqdlq.cli.certify.interruption import Interruption, interruptible
from mqdlq.cli.certify.report import as_json, finding_lines, heading, summary
from mqdlq.errors import MqDlqError
from mqdlq.local.connection_store import find_settings
from mqdlq.mqi.connect import QueueManager, connect
from mqdlq.mqi.connecting.settings import ConnectionSettings
from mqdlq.stages import certify as stage

NOT_RUN: Final = 2
INTERRUPTED: Final = 130


def certify(
    connection: Annotated[
        str,
        typer.Argument(
            metavar="CONNECTION",
            help="The id of an Airflow connection of type ibmmq: of the environment"
            " (AIRFLOW_CONN_*), or of this Airflow.",
        ),
    ],
    *,
    prefix: Annotated[
        str,
        typer.Option(
            "--scratch-prefix",
            metavar="PREFIX",
            help="How the names of the scratch queues begin.",
        ),
    ] = stage.DEFAULT_PREFIX,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the report to a file, as JSON."),
    ] = None,
    mask: Annotated[
        bool,
        typer.Option(
            "--mask-names", help="Leave the names of queue manager and queues out of the report."
        ),
    ] = False,
    mqsc: Annotated[
        bool,
        typer.Option(
            "--mqsc",
            help="Print the MQSC commands for an administrator, and do not connect.",
        ),
    ] = False,
    wait_for_quiesce: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="At the end, wait for someone to quiesce the queue manager, and observe it.",
        ),
    ] = 0.0,
) -> None:
    """Implement `mqdlq certify`.

    Defines eight scratch queues through the command server of the queue manager, tries on them each
    behaviour that the handler relies on, and deletes them, also after an interruption. No other
    queue is opened. If the user may not define queues, an administrator defines them with the
    commands of --mqsc; they are then emptied and kept.

    The report says of each behaviour whether the queue manager agrees, and what a difference means
    for the handler. It holds no message, no user id and no host.

    Exit code 0 if no behaviour differs; 1 if one does; 2 if the behaviours could not be tried.

    For example:
      mqdlq certify mq_demo --mqsc
    """
    try:
        stage.check_prefix(prefix)
        settings = find_settings(connection)
        if mqsc:
            typer.echo("\n".join(stage.administrator_commands(prefix, settings.user)))
            return
        with interruptible() as interruption:
            found = _certify(
                settings, prefix, interruption, mask=mask, wait_for_quiesce=wait_for_quiesce
            )
        if output is not None:
            report = as_json(found, settings, mask=mask)
            output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
            typer.echo(f"report: {output}")
    except MqDlqError as error:
        typer.echo(f"mqdlq: {error}", err=True)
        raise typer.Exit(NOT_RUN) from None
    except KeyboardInterrupt:
        typer.echo("mqdlq: interrupted; the scratch queues are removed or empty", err=True)
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(int(found.count(stage.Verdict.DIFFERS) > 0))


def _certify(
    settings: ConnectionSettings,
    prefix: str,
    interruption: Interruption,
    *,
    mask: bool,
    wait_for_quiesce: float,
) -> stage.Certification:
    def new_connection() -> QueueManager:
        return connect(settings)

    def show(finding: stage.Finding) -> None:
        interruption.check()
        typer.echo("\n".join(finding_lines(finding)))

    found = stage.certify(
        new_connection,
        prefix,
        user=settings.user,
        clock=lambda: datetime.now(UTC),  # noqa: TID251 (an entry point)
        begin=lambda begun: typer.echo(heading(begun, mask=mask)),
        progress=show,
    )
    if wait_for_quiesce:
        typer.echo(f"waiting {wait_for_quiesce:.0f} s for the queue manager to be quiesced")
    quiesced = stage.observe_quiescing(new_connection, wait_for_quiesce, interruption.sleep)
    found.findings.append(quiesced)
    show(quiesced)
    typer.echo(summary(found))
    return found
