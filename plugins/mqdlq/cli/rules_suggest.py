"""The command `mqdlq rules suggest`: draft a rules table from stored snapshots."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import click

from mqdlq.cli.commands import Option
from mqdlq.cli.output import refusing
from mqdlq.cli.rules_diff import Since, Snapshots, stored_snapshots
from mqdlq.errors import LakeError
from mqdlq.lake import Snapshot
from mqdlq.model import QueueKind
from mqdlq.rules import RulesError, parse
from mqdlq.tools.rule_suggestions import draft_table, rank_causes
from mqdlq.words import count


def suggest(
    snapshots: Snapshots = None,
    back: Since = None,
    parking_queue: Annotated[
        str,
        Option(metavar="QUEUE", help="Forward messages that a retry cannot help."),
    ] = "",
    at_most: Annotated[
        int,
        Option("--causes", type=click.IntRange(min=1), help="Give so many causes their own rule."),
    ] = 50,
) -> None:
    """Implement `mqdlq rules suggest`.

    The draft has a rule for each cause (reason and destination), the most frequent first, with the
    number of messages it would have matched. Queues with generated names get one rule, such as
    DESTQ(AMQ.*), if no other message with the reason matches it. It retries causes that pass by
    themselves, and leaves or, with --parking-queue, forwards the others. It never discards. Read
    the draft before you use it.

    Nothing is suggested for backout queues. With --since, their snapshots are left out.

    For example:
      mqdlq rules suggest --since 30d --parking-queue APP.PARKED > include/rules/draft.rules
    """
    if not snapshots and not back:
        raise click.BadParameter("name snapshots by --snapshot, or say how far back by --since")
    with refusing(LakeError, RulesError, prefix=""):
        stored = _of_dead_letter_queues(snapshots or (), back)
        text = draft_table(
            *rank_causes(stored, at_most), snapshots=len(stored), parking_queue=parking_queue
        )
        parse(text, "<draft>")
    click.echo(text, nl=False)


def _of_dead_letter_queues(named: list[str] | tuple[()], back: timedelta | None) -> list[Snapshot]:
    """Return the snapshots of dead-letter queues; raise LakeError for a named one of another kind.

    Snapshots of backout queues that only `back` chooses are left out, with a note.
    """
    for one in stored_snapshots(named, None) if named else ():
        _refuse_backout_queue(one)
    stored = stored_snapshots(named, back)
    usable = [one for one in stored if one.manifest.queue_kind is not QueueKind.BACKOUT]
    if not usable:
        _refuse_backout_queue(stored[0])
    if left_out := len(stored) - len(usable):
        click.echo(f"left out: {count(left_out, 'snapshot')} of backout queues", err=True)
    return usable


def _refuse_backout_queue(snapshot: Snapshot) -> None:
    manifest = snapshot.manifest
    if manifest.queue_kind is QueueKind.BACKOUT:
        raise LakeError(
            "MQDLQ-917",
            f"snapshot {manifest.snapshot_id} is of the backout queue {manifest.queue}; rules are"
            " suggested for dead-letter queues only",
        )
