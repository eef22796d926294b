"""The commands `mqdlq ledger status` and `take-on`: recognise and take on an older ledger."""

from __future__ import annotations

from typing import Annotated

import click

from mqdlq import directories
from mqdlq.cli.commands import Option
from mqdlq.cli.output import now, refusal
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.stages.older_ledger import describe_older_ledger, take_on
from mqdlq.words import count, moment


def warn_of_older_ledger(ledger: Ledger) -> bool:
    """Write to stderr what a ledger misses that is older than the lake; return whether it is."""
    if why := describe_older_ledger(ledger, directories.lake()):
        click.echo(f"mqdlq: {why}", err=True)
    return bool(why)


def status() -> None:
    """Implement `mqdlq ledger status`.

    Says whether the lake has work that the ledger does not know, as after an older copy of the
    ledger was restored, and what the ledger misses. Markers on state queues are not read: `mqdlq
    check HANDLER` does that.

    Exit code 0 if the ledger is the newest one; 1 if it is older.

    For example:
      mqdlq ledger status
    """
    with open_ledger(create=False) as ledger:
        if warn_of_older_ledger(ledger):
            raise SystemExit(1)
        newest = ledger.epochs.newest()
    if newest is None:
        click.echo("the ledger and the lake have no work yet")
    else:
        last = "no pass or restoration yet"
        if newest.number:
            works = count(newest.number, "pass or restoration", "passes and restorations")
            last = f"{works}, the last of which began at {moment(newest.worked_at)}"
        click.echo(f"epoch {newest.epoch}; {last}")
        if newest.who:
            at = moment(newest.began_at)
            click.echo(f"taken on by {newest.who} at {at}: {newest.why}")


def take_on_ledger(
    why: Annotated[str, Option(help="The reason, such as the number of a ticket.")],
) -> None:
    """Implement `mqdlq ledger take-on`.

    Use it after an older copy of the ledger was restored, or for a new ledger over an old lake. The
    ledger then records what the lake knows of the lost time, and the audit who took it on and why.
    Afterwards handlers act again; what markers prove is booked by their next pass. A restoration of
    messages archived before needs --again, because a lost restoration may have put them.

    Exit code 0 if the ledger is taken on; 2 without a reason.

    For example:
      mqdlq ledger take-on --why "ticket 4711: disk lost, copy of Monday restored"
    """
    if not why.strip():
        raise refusal("mqdlq: --why: say why, for example the number of a ticket")
    with open_ledger() as ledger:
        who, lake = directories.account(), directories.lake()
        epoch, missing = take_on(ledger, lake, who=who, why=why.strip(), clock=now)
    for words in missing.in_words or ["nothing that the lake shows"]:
        click.echo(f"missing: {words}")
    click.echo(
        f"epoch {epoch.epoch} begins. Handlers may act again; messages archived before now are"
        " restored with --again only."
    )
