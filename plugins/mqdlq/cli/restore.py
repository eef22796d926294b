"""The commands `mqdlq restore list` and `run`: list the archive, restore from it."""

from itertools import groupby
from typing import Annotated, Any, Final

import click
from rich.table import Table
from rich.text import Text

from mqdlq.cli.ledger import warn_of_older_ledger
from mqdlq.cli.output import Output, attributes, console, refusal, refusing, write_json
from mqdlq.constants import MQRC
from mqdlq.controls.repair.changes import describe_fields
from mqdlq.errors import HandlerError, MessageKeyError, RestoreError
from mqdlq.handlers import load_handler
from mqdlq.ledger import open_ledger
from mqdlq.reasons import code_of, words_of
from mqdlq.stages.restore.selection import ListedCopy, Restorability, list_copies, sort_newest_first
from mqdlq.words import count, moment, place, span, visible

SHOWN: Final = 1000
_WITH_REASON: Final = {Restorability.RESTORED_AGAIN, Restorability.DOUBTFUL, Restorability.REPAIRED}


def list_archive(
    *,
    handler: str = "",
    run: str = "",
    queue_manager: str = "",
    queue: str = "",
    message: tuple[str, ...] = (),
    reason: str = "",
    most: Annotated[int | None, click.IntRange(min=1)] = None,
    each: bool = False,
    output: Output = "text",
) -> None:
    """Implement `mqdlq restore list`.

    The newest run comes first. Every copy that is listed is read, and its digest is checked. No
    queue is opened.

    Takes:
      --handler: Only what this handler discarded.
      --run: Only what this run discarded.
      --queue-manager: Only of this queue manager.
      --queue: Only from this queue.
      --message KEY: Only this message_key, or its beginning; repeatable.
      --reason: Only this reason: MQRC_Q_FULL, or 2053.
      --most: How many, the newest first; JSON has all.
      --each: A row for each message, with its message_key.

    For example:
      mqdlq restore list --handler demo --reason MQRC_Q_FULL
    """
    with refusing(RestoreError):
        number = _reason(reason)
    with refusing(MessageKeyError), open_ledger(create=False) as ledger:
        warn_of_older_ledger(ledger)
        keys = ledger.message_facts.complete(message, [handler] if handler else None)
        found = [
            copy
            for copy in ledger.archive.copies(handler=handler, run_id=run, message_keys=keys)
            if queue_manager in {"", copy.queue_manager} and queue in {"", copy.queue}
        ]
        limit = most or (SHOWN if output == "text" and not number else len(found))
        newest = sort_newest_first(found)[:limit]
        shown = [one for one in list_copies(newest, ledger) if number in {0, one.reason}]
    if output == "json":
        write_json({"archived": [_as_json(one) for one in shown]})
        return
    _print(shown, each=each)
    if len(found) > limit:
        click.echo(f"and {count(len(found) - limit, 'message')} more: --most N shows N")


def run_restoration(
    handler: str,
    *,
    run: str = "",
    message: tuple[str, ...] = (),
    reason: str = "",
    to_queue: str = "",
    to_queue_manager: str = "",
    no_header: bool = False,
    again: bool = False,
    why: str = "",
    dry_run: bool = False,
) -> None:
    """Implement `mqdlq restore run`.

    Exit code 0 if every message named is restored, now or by an earlier restoration; 1 if one is
    not; 2 if the handler or a parameter is wrong, or the archive lacks what is named.

    Takes:
      HANDLER: The handler whose archive is restored from.
      --run: Restore what this run discarded.
      --message KEY: Only this message_key, or its beginning; repeatable.
      --reason: Only this reason: MQRC_Q_FULL, or 2053.
      --to-queue: Put them on this queue, not back on the dead-letter queue.
      --to-queue-manager: That queue's queue manager.
      --no-header: Without their MQDLH.
      --again: Also what was restored before, or may have been, and the originals of messages that
        were delivered repaired.
      --why: The reason, or the number of a ticket.
      --dry-run: Only say what would be restored.

    For example:
      mqdlq restore run demo --run demo-manual__2026-11-21T05-12-45.514631 --dry-run
    """
    with refusing(HandlerError, prefix=""):
        load_handler(handler)
    if not run and not message:
        raise refusal("mqdlq: say what to restore: --run, --message, or both")
    given = {
        "run": run,
        "message_keys": list(message),
        "reason": reason,
        "to_queue": to_queue,
        "to_queue_manager": to_queue_manager,
        "again": again,
        "why": why,
        "dry_run": dry_run,
    }
    conf = {"handler": handler, "header": not no_header}
    conf |= {name: value for name, value in given.items() if value}
    from mqdlq.local import foreground  # noqa: PLC0415 (the schemas of parameters take long)

    raise SystemExit(foreground.run("restore", conf))


def _reason(given: str) -> int:
    if given and not given.isdecimal() and given not in MQRC:
        raise RestoreError(
            "MQDLQ-909", f"--reason: {given} is not a reason code; expected MQRC_Q_FULL or 2053"
        )
    return int(given) if given.isdecimal() else MQRC.get(given, 0)


def _print(shown: list[ListedCopy], *, each: bool) -> None:
    if not shown:
        click.echo("nothing is archived that fits")
    out = console()
    for run_id, group in groupby(shown, key=lambda one: one.copy.run_id):
        of_run = list(group)
        first = of_run[0].copy
        out.print(Text(visible(run_id), style="bold"), soft_wrap=True)
        where = place(first.queue, first.queue_manager)
        archived_at = f"archived {moment(first.at)} from {where}, {count(len(of_run), 'message')}"
        out.print(Text(archived_at), soft_wrap=True)
        out.print(_table(of_run, each=each))
        out.print()


def _table(of_run: list[ListedCopy], *, each: bool) -> Table:
    """Return the messages of a run, those alike in one row unless each is asked for."""
    alike: dict[tuple[str, ...], list[ListedCopy]] = {}
    for one in of_run:
        key = (one.copy.message_key.hex(), str(one.copy.message_id)) if each else ("",)
        alike.setdefault((*key, _what(one), _state(one)), []).append(one)
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for rows in alike.values():
        first = rows[0]
        text = Text()
        if each:
            text.append(f"{first.copy.message_key.hex()}\n", style="dim")
        text.append(f"{_what(first)}\n{_size(rows)}: ")
        style = "green" if first.restorability is Restorability.RESTORED else "yellow"
        text.append(_state(first), style=style)
        table.add_row("" if each else f"{len(rows):,}", text)
    return table


def _what(one: ListedCopy) -> str:
    rule = f"discarded by rule {one.copy.rule} (line {one.rule_line})" if one.copy.rule else ""
    if one.copy.repair is not None:
        rule = f"repaired by a given action: {describe_fields(one.copy.repair)}"
    going = f" for {place(one.dest_q, one.dest_q_mgr)}" if one.dest_q else ""
    return ", ".join(filter(None, [f"{one.reason_text}{going}", rule]))


def _size(rows: list[ListedCopy]) -> str:
    """Return the length of the messages, and their remaining Expiry when archived."""
    lengths = [one.length for one in rows if one.length is not None]
    if not lengths:
        return "unreadable"
    expiries = [one.expiry_s for one in rows if one.expiry_s is not None]
    expiry = f"expiry left {span(min(expiries))}" if expiries else "expiry unlimited"
    if len(expiries) > 1:
        expiry += " or more"
    return f"{sum(lengths):,} bytes, {expiry}"


def _state(one: ListedCopy) -> str:
    if one.restorability in _WITH_REASON:
        return f"{one.restorability} {words_of(one.why)}"
    is_explained = one.restorability in {Restorability.UNUSABLE, Restorability.PRUNED}
    return words_of(one.why) if is_explained else str(one.restorability)


def _as_json(one: ListedCopy) -> dict[str, Any]:
    copy = one.copy
    names = ("message_key", "run=run_id", "handler", "queue_manager", "queue", "archived_at=at")
    return {
        **attributes(copy, *names),
        "discarded_at": copy.moved_at if copy.repair is None else None,
        "delivered_repaired_at": copy.moved_at if copy.repair else None,
        "rule": copy.rule or None,
        "rule_line": one.rule_line or None,
        "destination_queue": one.dest_q or None,
        "destination_queue_manager": one.dest_q_mgr or None,
        "reason": one.reason,
        "reason_text": one.reason_text or None,
        **attributes(one, "bytes=length", "expiry_left_s=expiry_s", "state=restorability"),
        "why": words_of(one.why) or None,
        "why_code": code_of(one.why) or None,
        "restoration": one.restoration_id or None,
        **attributes(one, "restored_at", "copy.location"),
    }
