"""The command `mqdlq`: every command is declared here, and imported when it is called."""

from __future__ import annotations

from typing import Final

import click

from mqdlq.cli.on_demand import Command, Declared, Group, OnDemand
from mqdlq.cli.parameters import Option as Option

COMMANDS: Final[dict[str, Declared]] = {
    "init": Command("mqdlq.cli.init:init", "Write the first files of a handler."),
    "run": Command("mqdlq.cli.run:run", "Run a handler once, in the foreground, through Airflow."),
    "backfill": Command(
        "mqdlq.cli.backfill:backfill",
        "Evaluate stored snapshots by today's rules, through Airflow.",
    ),
    "check": Command("mqdlq.cli.check:check", "Report what a handler's user may and may not do."),
    "connection": Group(
        "Define and test Airflow connections to queue managers.",
        {
            "add": Command(
                "mqdlq.cli.connections:add",
                "Define a connection from options, from MQSERVER or from a CCDT.",
            ),
            "test": Command(
                "mqdlq.cli.connections:test",
                "Report what a connection's user may and may not do.",
            ),
        },
    ),
    "certify": Command(
        "mqdlq.cli.certify:certify",
        "Try whether a queue manager does what handlers rely on.",
    ),
    "backout-advice": Command(
        "mqdlq.cli.backout:backout_advice",
        "Report which queues have no working backout queue.",
    ),
    "preview": Command(
        "mqdlq.cli.preview:preview", "Browse a queue, and show what a rules table would do."
    ),
    "explain": Command(
        "mqdlq.cli.messages.explain:explain",
        "Show which rules match each message, and why others do not.",
    ),
    "decode": Command(
        "mqdlq.cli.messages.decode:decode", "Show what a message is, and its headers."
    ),
    "report": Command(
        "mqdlq.cli.report:report", "Print the report of a run.", needs_arguments=False
    ),
    "restore": Group(
        "Restore discarded messages from the archive.",
        {
            "list": Command(
                "mqdlq.cli.restore:list_archive",
                "List the archived messages, and whether each can be restored.",
                needs_arguments=False,
            ),
            "run": Command(
                "mqdlq.cli.restore:run_restoration",
                "Restore discarded messages, in the foreground, through Airflow.",
            ),
        },
    ),
    "ledger": Group(
        "Recognise and take on an older copy of the ledger.",
        {
            "status": Command(
                "mqdlq.cli.ledger:status",
                "Say whether the ledger is older than the lake.",
                needs_arguments=False,
            ),
            "take-on": Command(
                "mqdlq.cli.ledger:take_on_ledger",
                "Take on an older ledger, so that handlers act again.",
            ),
        },
    ),
    "prune": Command(
        "mqdlq.cli.prune:prune_archive_and_ledger",
        "Remove archive copies and runs by the policies of handlers.",
        needs_arguments=False,
    ),
    "hold": Group(
        "Protect archive copies and runs by legal holds.",
        {
            "add": Command("mqdlq.cli.hold:add", "Place a legal hold, with a reason."),
            "remove": Command("mqdlq.cli.hold:remove", "Remove a legal hold, with a reason."),
            "list": Command(
                "mqdlq.cli.hold:list_holds",
                "List the legal holds.",
                needs_arguments=False,
            ),
        },
    ),
    "shadow": Command(
        "mqdlq.cli.shadow:shadow", "Compare our decisions with what another handler did."
    ),
    "rules": Group(
        "Check, format, convert, compare and draft rules tables.",
        {
            "check": Command(
                "mqdlq.cli.rules.check:check",
                "Check rules tables and handlers, without connecting.",
            ),
            "format": Command(
                "mqdlq.cli.rules.format:format_tables", "Write rules tables in canonical form."
            ),
            "convert": Command(
                "mqdlq.cli.rules.format:convert", "Convert a rules table to YAML, or back."
            ),
            "diff": Command(
                "mqdlq.cli.rules.diff:diff", "Compare what two rules tables mean and do."
            ),
            "suggest": Command(
                "mqdlq.cli.rules.suggest:suggest",
                "Draft a rules table from stored snapshots.",
                needs_arguments=False,
            ),
        },
    ),
    "snapshots": Group(
        "List, show, import and prune snapshots of queues.",
        {
            "list": Command(
                "mqdlq.cli.snapshots.manage:list_snapshots",
                "List the snapshots of each queue, newest first.",
                needs_arguments=False,
            ),
            "show": Command(
                "mqdlq.cli.snapshots.manage:show",
                "Show a snapshot's manifest and a count by cause.",
            ),
            "prune": Command(
                "mqdlq.cli.snapshots.manage:prune",
                "Remove old snapshots.",
                needs_arguments=False,
            ),
            "import": Command(
                "mqdlq.cli.snapshots.importing:import_snapshot",
                "Make a snapshot from the output of amqsbcg or dmpmqmsg.",
            ),
            "payload": Command(
                "mqdlq.cli.snapshots.payload:write_payload",
                "Write the captured message bodies of a snapshot to files.",
            ),
        },
    ),
    "qm": Command(
        "mqdlq.cli.qm:qm",
        "Create, start, end and use embedded queue managers.",
        needs_arguments=False,
        passes_on=True,
    ),
    "explain-error": Command(
        "mqdlq.cli.explain_error:explain_error", "Print what an error's id means, and what to do."
    ),
    "airflow": Command(
        "mqdlq.cli.airflow:airflow",
        "Run Airflow's command line.",
        needs_arguments=False,
        passes_on=True,
    ),
}


def _print_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:  # noqa: ARG001 (click's signature)
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 (takes a tenth of a start)

        click.echo(f"mqdlq {version('mqdlq')}")
        context.exit()


app: Final = OnDemand(
    COMMANDS,
    help="Handle IBM MQ's dead-letter queues, as an Airflow workflow on Spark.",
    context_settings={"max_content_width": 100},
    params=[
        click.Option(
            ["--version"],
            help="Show the version and exit.",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
        )
    ],
)
