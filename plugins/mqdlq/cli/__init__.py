"""The command `mqdlq`: every command is declared here, and imported when it is called."""

from __future__ import annotations

from typing import Final

import click

from mqdlq.cli.commands import Command, Declared, Group, OnDemand

COMMANDS: Final[dict[str, Declared]] = {
    "init": Command("init:init", "Write the first files of a handler."),
    "run": Command("run:run", "Run a handler once, in the foreground, through Airflow."),
    "backfill": Command(
        "run:backfill", "Evaluate stored snapshots by today's rules, through Airflow."
    ),
    "check": Command("check:check", "Report what a handler's user may and may not do."),
    "connection": Group(
        "Define and test Airflow connections to queue managers.",
        {
            "add": Command(
                "connections:add", "Define a connection from options, from MQSERVER or from a CCDT."
            ),
            "test": Command(
                "connections:test", "Report what a connection's user may and may not do."
            ),
        },
    ),
    "certify": Command(
        "certify:certify", "Try whether a queue manager does what handlers rely on."
    ),
    "backout-advice": Command(
        "backout:backout_advice", "Report which queues have no working backout queue."
    ),
    "preview": Command("preview:preview", "Browse a queue, and show what a rules table would do."),
    "explain": Command(
        "explain:explain", "Show which rules match each message, and why others do not."
    ),
    "decode": Command("decode:decode", "Show what a message is, and its headers."),
    "report": Command("report:report", "Print the report of a run."),
    "restore": Group(
        "Restore discarded messages from the archive.",
        {
            "list": Command(
                "restore:list_archive",
                "List the archived messages, and whether each can be restored.",
            ),
            "run": Command(
                "restore:run_restoration",
                "Restore discarded messages, in the foreground, through Airflow.",
            ),
        },
    ),
    "ledger": Group(
        "Recognise and take on an older copy of the ledger.",
        {
            "status": Command("ledger:status", "Say whether the ledger is older than the lake."),
            "take-on": Command(
                "ledger:take_on_ledger", "Take on an older ledger, so that handlers act again."
            ),
        },
    ),
    "prune": Command(
        "ledger:prune_archive_and_ledger",
        "Remove archive copies and runs by the policies of handlers.",
    ),
    "hold": Group(
        "Protect archive copies and runs by legal holds.",
        {
            "add": Command("ledger:add_hold", "Place a legal hold, with a reason."),
            "remove": Command("ledger:remove_hold", "Remove a legal hold, with a reason."),
            "list": Command("ledger:list_holds", "List the legal holds."),
        },
    ),
    "shadow": Command("shadow:shadow", "Compare our decisions with what another handler did."),
    "rules": Group(
        "Check, format, convert, compare and draft rules tables.",
        {
            "check": Command(
                "rules_check:check", "Check rules tables and handlers, without connecting."
            ),
            "format": Command(
                "rules_format:format_tables", "Write rules tables in canonical form."
            ),
            "convert": Command("rules_format:convert", "Convert a rules table to YAML, or back."),
            "diff": Command("rules_diff:diff", "Compare what two rules tables mean and do."),
            "suggest": Command(
                "rules_suggest:suggest", "Draft a rules table from stored snapshots."
            ),
        },
    ),
    "snapshots": Group(
        "List, show, import and prune snapshots of queues.",
        {
            "list": Command(
                "snapshots:list_snapshots", "List the snapshots of each queue, newest first."
            ),
            "show": Command("snapshots:show", "Show a snapshot's manifest and a count by cause."),
            "prune": Command("snapshots:prune", "Remove old snapshots."),
            "import": Command(
                "snapshot_import:import_snapshot",
                "Make a snapshot from the output of amqsbcg or dmpmqmsg.",
            ),
            "payload": Command(
                "snapshots:write_payload",
                "Write the captured message bodies of a snapshot to files.",
            ),
        },
    ),
    "qm": Command("qm:qm", "Create, start, end and use embedded queue managers.", passes_on=True),
    "explain-error": Command(
        "explain_error:explain_error", "Print what an error's id means, and what to do."
    ),
    "airflow": Command("run:airflow", "Run Airflow's command line.", passes_on=True),
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
