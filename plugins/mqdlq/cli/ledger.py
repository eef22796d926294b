"""The commands `mqdlq ledger …`, `prune` and `hold …`: look after the ledger and the archive."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import click
from rich.table import Table
from rich.text import Text

from mqdlq import directories
from mqdlq.cli.output import Output, attributes, console, now, refusal, refusing, write_json
from mqdlq.errors import HandlerError, MessageKeyError
from mqdlq.handlers import Handler, handler_names, load_handler, load_handlers
from mqdlq.ledger import Ledger, open_ledger
from mqdlq.ledger.retention import Hold, Protection
from mqdlq.stages.older_ledger import describe_older_ledger, take_on
from mqdlq.stages.retention import Pruner, PruneResult, policy_of
from mqdlq.words import count, moment, visible

Reason = Annotated[str, "--reason: Why, for example the number of the case."]


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


def take_on_ledger(why: str) -> None:
    """Implement `mqdlq ledger take-on`.

    Use it after an older copy of the ledger was restored, or for a new ledger over an old lake. The
    ledger then records what the lake knows of the lost time, and the audit who took it on and why.
    Afterwards handlers act again; what markers prove is booked by their next pass. A restoration of
    messages archived before needs --again, because a lost restoration may have put them.

    Exit code 0 if the ledger is taken on; 2 without a reason.

    Takes:
      --why: The reason, such as the number of a ticket.

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


def prune_archive_and_ledger(
    handler: str = "", *, dry_run: bool = False, trust_clock: bool = False, output: Output = "text"
) -> None:
    """Implement `mqdlq prune`.

    The keys keep_archive_for and keep_runs_for of a handler are its policy; without a key, nothing
    of that kind is removed. A table shows what goes, and what stays beyond the limit and why. The
    command removes nothing that a restoration or an unfinished run may need, and nothing under a
    legal hold (mqdlq hold).

    Exit code 0 if all policies were applied; 1 if an error prevented that; 2 for a wrong handler.

    Takes:
      --handler: Only by the policy of this handler.
      --dry-run: Only say what would be removed.
      --trust-clock: Confirm that the clock of this computer is right.

    For example:
      mqdlq prune --dry-run
    """
    handlers, faults = _load(handler)
    with open_ledger(create=False) as ledger:
        pruner = Pruner(
            ledger,
            directories.lake(),
            clock=now,
            who=directories.account(),
            progress=lambda text: click.echo(text, err=True),
        )
        found = pruner.prune(handlers, is_dry_run=dry_run, trust_clock=trust_clock)
    if output == "json":
        shown = [_as_json(one) for one in found]
        write_json({"dry_run": dry_run, "handlers": shown})
    else:
        _print(found, is_dry_run=dry_run)
    for fault in faults:
        click.echo(f"mqdlq: not pruned: {fault}", err=True)
    if faults:
        raise SystemExit(1)


def _load(name: str) -> tuple[Sequence[Handler], Sequence[HandlerError]]:
    if not name:
        return load_handlers()
    with refusing(HandlerError, prefix=""):
        return [load_handler(name)], []


def _print(found: Sequence[PruneResult], *, is_dry_run: bool) -> None:
    if not found:
        click.echo("no handler has keep_archive_for or keep_runs_for: nothing is removed")
    for one in found:
        title = f"{one.handler.name}: {policy_of(one.handler)}"
        console().print(Text(title, style="bold"), soft_wrap=True)
        console().print(_table(one, "would be removed" if is_dry_run else "removed"))


def _table(found: PruneResult, word: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("Copies", "Bytes", "Runs", "Messages"):
        table.add_column(name, justify="right", no_wrap=True)
    numbers = (found.copies, found.stored_bytes, len(found.run_ids), found.messages)
    table.add_row(word, *(f"{number:,}" for number in numbers))
    for why in Protection:
        kept = found.kept_copies[why], found.kept_runs[why]
        if any(kept):
            shown = [f"{number:,}" if number else "" for number in kept]
            table.add_row(f"kept: {why.words}", shown[0], "", shown[1], "")
    return table


def _as_json(found: PruneResult) -> dict[str, Any]:
    return {
        "handler": found.handler.name,
        "policy": policy_of(found.handler),
        **attributes(found, "copies", "bytes=stored_bytes", "runs=run_ids", "messages"),
        "kept_copies": dict(sorted(found.kept_copies.items())),
        "kept_runs": dict(sorted(found.kept_runs.items())),
    }


def add_hold(*, handler: str = "", run: str = "", message: str = "", reason: Reason) -> None:
    """Implement `mqdlq hold add`.

    Name one handler, one run or one message. The ledger records the reason, the user of this
    computer, and the time. A hold covers archive copies, runs in the ledger, and their snapshots.

    Exit code 0 if the hold applies; 1 if the ledger has no such run or message; 2 for wrong usage.

    Takes:
      --handler: Hold everything of this handler.
      --run: Hold this run.
      --message KEY: Hold this message_key, or its beginning.

    For example:
      mqdlq hold add --handler demo --reason "case 2026-117"
    """
    if sum(map(bool, (handler, run, message))) != 1:
        raise refusal("mqdlq: name one of --handler, --run and --message")
    signed = _signed(reason)
    with open_ledger(create=False) as ledger:
        with refusing(MessageKeyError, prefix="mqdlq: --message: "):
            (key,) = ledger.message_facts.complete([message]) if message else ("",)
        hold = ledger.holds.add(handler=handler, run_id=run, message_key=key, **signed)
        runs, copies, pruned_runs, pruned_copies = ledger.holds.covered(hold)
    if handler and not runs and handler not in handler_names():
        where = directories.rules_directory()
        click.echo(f"mqdlq: warning: neither the ledger nor {where} has {handler}", err=True)
    click.echo(
        f"hold {hold.hold_id} covers {_subject(hold)}: {count(runs, 'run')},"
        f" {count(copies, 'archive copy', 'archive copies')}"
    )
    if pruned_runs or pruned_copies:
        click.echo(
            f"pruned before: {count(pruned_runs, 'run')},"
            f" {count(pruned_copies, 'archive copy', 'archive copies')}"
        )


def remove_hold(hold: int, *, reason: Reason) -> None:
    """Implement `mqdlq hold remove`.

    The hold and its removal stay in the ledger. The next prune applies the policy again.

    Exit code 0 if the hold is removed; 1 if there is no such hold, or it was removed before.

    Takes:
      HOLD: The number of the hold.

    For example:
      mqdlq hold add --handler demo --reason "case 2026-117"
      mqdlq hold remove 1 --reason "case closed"
    """
    signed = _signed(reason)
    with open_ledger(create=False) as ledger:
        removed = ledger.holds.release(hold, **signed)
    click.echo(f"hold {removed.hold_id} on {_subject(removed)} is removed")


def _signed(reason: str) -> dict[str, Any]:
    """Return why, by whom and when a hold is placed or removed; refuse a blank reason."""
    if not reason.strip():
        raise refusal("mqdlq: --reason: say why, for example the number of the case")
    return {"reason": reason.strip(), "who": directories.account(), "at": now()}


def list_holds(*, removed: bool = False, output: Output = "text") -> None:
    """Implement `mqdlq hold list`.

    Takes:
      --removed: Also the holds that no longer apply.

    For example:
      mqdlq hold list --removed
    """
    with open_ledger(create=False) as ledger:
        found = ledger.holds.all(released=removed)
    if output == "json":
        given = [asdict(one).items() for one in found]
        write_json({"holds": [{name: value or None for name, value in one} for one in given]})
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
