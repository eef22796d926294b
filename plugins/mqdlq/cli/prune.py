"""The command `mqdlq prune`: remove archive copies and runs by the handlers' policies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import click
from rich.table import Table
from rich.text import Text

from mqdlq import directories
from mqdlq.cli.console import console
from mqdlq.cli.files import Format
from mqdlq.cli.parameters import Option
from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler, load_handler, load_handlers
from mqdlq.ledger import open_ledger
from mqdlq.ledger.retention import Protection
from mqdlq.stages.retention import Policy, Pruner, PruneResult

USAGE: Final = 2


def prune_archive_and_ledger(
    handler: Annotated[str, Option(help="Only by the policy of this handler.")] = "",
    *,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be removed.")] = False,
    trust_clock: Annotated[
        bool,
        Option("--trust-clock", help="Confirm that the clock of this computer is right."),
    ] = False,
    output: Annotated[Format, Option("--format", help="How to write it.")] = Format.TEXT,
) -> None:
    """Implement `mqdlq prune`.

    The keys keep_archive_for and keep_runs_for of a handler are its policy; without a key, nothing
    of that kind is removed. A table shows what goes, and what stays beyond the limit and why. The
    command removes nothing that a restoration or an unfinished run may need, and nothing under a
    legal hold (mqdlq hold).

    Exit code 0 if all policies were applied; 1 if an error prevented that; 2 for a wrong handler.

    For example:
      mqdlq prune --dry-run
    """
    handlers, faults = _load(handler)
    with open_ledger(create=False) as ledger:
        pruner = Pruner(
            ledger,
            directories.lake(),
            clock=lambda: datetime.now(UTC),  # noqa: TID251 (an entry point)
            who=directories.account(),
            progress=lambda text: click.echo(text, err=True),
        )
        policies = [Policy.of(one) for one in handlers]
        found = pruner.prune(policies, is_dry_run=dry_run, trust_clock=trust_clock)
    if output is Format.JSON:
        shown = [_as_json(one) for one in found]
        click.echo(json.dumps({"dry_run": dry_run, "handlers": shown}, indent=2))
    else:
        _print(found, is_dry_run=dry_run)
    for fault in faults:
        click.echo(f"mqdlq: not pruned: {fault}", err=True)
    if faults:
        raise SystemExit(1)


def _load(name: str) -> tuple[Sequence[Handler], Sequence[HandlerError]]:
    if not name:
        return load_handlers()
    try:
        return [load_handler(name)], []
    except HandlerError as error:
        click.echo(error, err=True)
        raise SystemExit(USAGE) from None


def _print(found: Sequence[PruneResult], *, is_dry_run: bool) -> None:
    if not found:
        click.echo("no handler has keep_archive_for or keep_runs_for: nothing is removed")
    for one in found:
        console().print(Text(f"{one.policy.handler}: {one.policy}", style="bold"), soft_wrap=True)
        console().print(_table(one, "would be removed" if is_dry_run else "removed"))


def _table(found: PruneResult, word: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("Copies", "Bytes", "Runs", "Messages"):
        table.add_column(name, justify="right", no_wrap=True)
    copies, runs = found.copies, found.runs
    numbers = (copies.copies, copies.stored_bytes, len(runs.run_ids), runs.messages)
    table.add_row(word, *(f"{number:,}" for number in numbers))
    for why in Protection:
        kept = copies.kept[why], runs.kept[why]
        if any(kept):
            shown = [f"{number:,}" if number else "" for number in kept]
            table.add_row(f"kept: {why.words}", shown[0], "", shown[1], "")
    return table


def _as_json(found: PruneResult) -> dict[str, Any]:
    policy, copies, runs = found.policy, found.copies, found.runs
    return {
        "handler": policy.handler,
        "policy": str(policy),
        "copies": copies.copies,
        "bytes": copies.stored_bytes,
        "runs": list(runs.run_ids),
        "messages": runs.messages,
        "kept_copies": {why.value: number for why, number in sorted(copies.kept.items())},
        "kept_runs": {why.value: number for why, number in sorted(runs.kept.items())},
    }
