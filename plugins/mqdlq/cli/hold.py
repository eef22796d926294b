"""The commands `mqdlq hold add`, `remove` and `list`: legal holds, which no prune touches."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Final

import click

from mqdlq import directories
from mqdlq.cli.files import Format
from mqdlq.cli.parameters import Argument, Option
from mqdlq.handlers import handler_names
from mqdlq.ledger import open_ledger
from mqdlq.ledger.reading.message_keys import MessageKeyError
from mqdlq.ledger.retention import Hold
from mqdlq.words import count, moment, visible

USAGE: Final = 2
Reason = Annotated[str, Option(help="Why, for example the number of the case.")]


def add(
    *,
    handler: Annotated[str, Option(help="Hold everything of this handler.")] = "",
    run: Annotated[str, Option(help="Hold this run.")] = "",
    message: Annotated[
        str, Option(metavar="KEY", help="Hold this message_key, or its beginning.")
    ] = "",
    reason: Reason,
) -> None:
    """Implement `mqdlq hold add`.

    Name one handler, one run or one message. The ledger records the reason, the user of this
    computer, and the time. A hold covers archive copies, runs in the ledger, and their snapshots.

    Exit code 0 if the hold applies; 1 if the ledger has no such run or message; 2 for wrong usage.

    For example:
      mqdlq hold add --handler demo --reason "case 2026-117"
    """
    if sum(map(bool, (handler, run, message))) != 1:
        raise _usage("name one of --handler, --run and --message")
    if not reason.strip():
        raise _usage("--reason: say why, for example the number of the case")
    with open_ledger(create=False) as ledger:
        try:
            (key,) = ledger.message_keys.complete([message]) if message else ("",)
        except MessageKeyError as error:
            raise _usage(f"--message: {error}") from None
        hold = ledger.holds.add(
            handler=handler,
            run_id=run,
            message_key=key,
            reason=reason.strip(),
            who=directories.account(),
            at=datetime.now(UTC),  # noqa: TID251 (an entry point)
        )
        covered = ledger.holds.covered(hold)
    if handler and not covered.runs and handler not in handler_names():
        where = directories.rules_directory()
        click.echo(f"mqdlq: warning: neither the ledger nor {where} has {handler}", err=True)
    click.echo(
        f"hold {hold.hold_id} covers {_subject(hold)}: {count(covered.runs, 'run')},"
        f" {count(covered.copies, 'archive copy', 'archive copies')}"
    )
    if covered.pruned_runs or covered.pruned_copies:
        click.echo(
            f"pruned before: {count(covered.pruned_runs, 'run')},"
            f" {count(covered.pruned_copies, 'archive copy', 'archive copies')}"
        )


def remove(
    hold: Annotated[int, Argument(help="The number of the hold.")], *, reason: Reason
) -> None:
    """Implement `mqdlq hold remove`.

    The hold and its removal stay in the ledger. The next prune applies the policy again.

    Exit code 0 if the hold is removed; 1 if there is no such hold, or it was removed before.

    For example:
      mqdlq hold add --handler demo --reason "case 2026-117"
      mqdlq hold remove 1 --reason "case closed"
    """
    if not reason.strip():
        raise _usage("--reason: say why, for example the number of the case")
    with open_ledger(create=False) as ledger:
        removed = ledger.holds.release(
            hold,
            reason=reason.strip(),
            who=directories.account(),
            at=datetime.now(UTC),  # noqa: TID251 (an entry point)
        )
    click.echo(f"hold {removed.hold_id} on {_subject(removed)} is removed")


def list_holds(
    *,
    removed: Annotated[
        bool, Option("--removed", help="Also the holds that no longer apply.")
    ] = False,
    output: Annotated[Format, Option("--format", help="How to write it.")] = Format.TEXT,
) -> None:
    """Implement `mqdlq hold list`.

    For example:
      mqdlq hold list --removed
    """
    with open_ledger(create=False) as ledger:
        found = ledger.holds.all(released=removed)
    if output is Format.JSON:
        shown = [
            {
                name: value.isoformat() if isinstance(value, datetime) else value or None
                for name, value in asdict(one).items()
            }
            for one in found
        ]
        click.echo(json.dumps({"holds": shown}, indent=2))
        return
    if not found:
        click.echo("no hold applies")
    for one in found:
        click.echo(f"{one.hold_id:>4}  {_subject(one)}")
        click.echo(f"      {moment(one.at)} by {visible(one.who)}: {visible(one.reason)}")
        if one.released_at is not None:
            by = f"{visible(one.released_by)}: {visible(one.release_reason)}"
            click.echo(f"      removed {moment(one.released_at)} by {by}")


def _subject(hold: Hold) -> str:
    if hold.handler:
        return f"handler {visible(hold.handler)}"
    return f"run {visible(hold.run_id)}" if hold.run_id else f"message {hold.message_key}"


def _usage(text: str) -> SystemExit:
    click.echo(f"mqdlq: {text}", err=True)
    return SystemExit(USAGE)
