"""The command `mqdlq`: every command is declared here, and imported when it is called."""

from typing import Final

import click

from mqdlq import directories
from mqdlq.cli.commands import Command, OnDemand

directories.adopt_options()

COMMANDS: Final = {
    "init": Command("Write the first files of a handler.", "init:init"),
    "run": Command("Run a handler once, in the foreground, through Airflow.", "run:run"),
    "stop": Command("End a run in progress after its unit of work.", "stop:stop"),
    "backfill": Command(
        "Evaluate stored snapshots by today's rules, through Airflow.", "run:backfill"
    ),
    "check": Command("Report what a handler's user may and may not do.", "check:check"),
    "connection": Command("Define and test Airflow connections to queue managers."),
    "connection add": Command(
        "Define a connection from options, from MQSERVER or from a CCDT.", "connections:add"
    ),
    "connection test": Command(
        "Report what a connection's user may and may not do.", "connections:test"
    ),
    "certify": Command(
        "Try whether a queue manager does what handlers rely on.", "certify:certify"
    ),
    "backout-advice": Command(
        "Report which queues have no working backout queue.", "backout:backout_advice"
    ),
    "preview": Command("Browse a queue, and show what a rules table would do.", "preview:preview"),
    "explain": Command(
        "Show which rules match each message, and why others do not.", "explain:explain"
    ),
    "diagnose": Command(
        "Say what is in the way of dead letters, and what ends it.", "diagnose:diagnose"
    ),
    "decode": Command("Show what a message is, and its headers.", "decode:decode"),
    "causes": Command("Count the messages of a dump by why they are dead.", "causes:causes"),
    "report": Command("Print the report of a run.", "report:report"),
    "find": Command("Search in the captured bodies of messages.", "find:find"),
    "restore": Command("Restore discarded messages from the archive."),
    "restore list": Command(
        "List the archived messages, and whether each can be restored.", "restore:list_archive"
    ),
    "restore run": Command(
        "Restore discarded messages, in the foreground, through Airflow.",
        "restore:run_restoration",
    ),
    "ledger": Command("Recognise and take on an older copy of the ledger."),
    "ledger status": Command("Say whether the ledger is older than the lake.", "ledger:status"),
    "ledger take-on": Command(
        "Take on an older ledger, so that handlers act again.", "ledger:take_on_ledger"
    ),
    "prune": Command(
        "Remove archive copies and runs by the policies of handlers.",
        "ledger:prune_archive_and_ledger",
    ),
    "hold": Command("Protect archive copies and runs by legal holds."),
    "hold add": Command("Place a legal hold, with a reason.", "ledger:add_hold"),
    "hold remove": Command("Remove a legal hold, with a reason.", "ledger:remove_hold"),
    "hold list": Command("List the legal holds.", "ledger:list_holds"),
    "shadow": Command("Compare our decisions with what another handler did.", "shadow:shadow"),
    "rules": Command("Check, format, convert, compare and draft rules tables."),
    "rules check": Command("Check rules tables and handlers, without connecting.", "rules:check"),
    "rules format": Command("Write rules tables in canonical form.", "rules:format_tables"),
    "rules convert": Command("Convert a rules table to YAML, or back.", "rules:convert"),
    "rules diff": Command("Compare what two rules tables mean and do.", "rules_diff:diff"),
    "rules suggest": Command("Draft a rules table from stored snapshots.", "rules_diff:suggest"),
    "snapshots": Command("List, show, import and prune snapshots of queues."),
    "snapshots list": Command(
        "List the snapshots of each queue, newest first.", "snapshots:list_snapshots"
    ),
    "snapshots show": Command("Show a snapshot's manifest and a count by cause.", "snapshots:show"),
    "snapshots prune": Command("Remove old snapshots.", "snapshots:prune"),
    "snapshots import": Command(
        "Make a snapshot from the output of amqsbcg or dmpmqmsg.", "snapshots:import_snapshot"
    ),
    "snapshots payload": Command(
        "Write the captured message bodies of a snapshot to files.", "snapshots:write_payload"
    ),
    "qm": Command(
        "Create, start, end and use embedded queue managers.", "queue_managers:qm", passes_on=True
    ),
    "mcp": Command("Serve tools that look and propose to an assistant.", "mcp:mcp"),
    "lsp": Command("Serve editors of rules tables and handlers.", "lsp:lsp"),
    "explain-error": Command(
        "Print what an error's id means, and what to do.", "explain_error:explain_error"
    ),
    "airflow": Command("Run Airflow's command line.", "run:airflow", passes_on=True),
}
"""The commands by their paths; a group has no place."""


app: Final = click.version_option(package_name="mqdlq", message="%(package)s %(version)s")(
    OnDemand(
        COMMANDS,
        help="Handle IBM MQ's dead-letter queues, as an Airflow workflow on Spark.",
        context_settings={"max_content_width": 100},
    )
)
