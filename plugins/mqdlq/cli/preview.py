"""`mqdlq preview`: a live queue and a rules table in, what the table would do with it out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from mqdlq.cli.causes import causes_table
from mqdlq.cli.files import Format, parse_table
from mqdlq.constants import reason_text
from mqdlq.errors import ConnectionSettingsError, MqDlqError
from mqdlq.model import MessageClass, Outcome
from mqdlq.mqi import embedded
from mqdlq.mqi.connect import connect
from mqdlq.mqi.settings import ConnectionSettings
from mqdlq.report.causes import cause_of
from mqdlq.report.words import CLASSES, OUTCOMES, moment, next_step, numbers, place, target, visible
from mqdlq.rules import RulesError, RulesTable
from mqdlq.snapshot.preview import Planned, Preview, Trouble, preview_queue

USAGE: Final = 2
PASSWORD: Final = "MQDLQ_PASSWORD"  # noqa: S105 (the variable's name)
_MOST: Final = 12


class Transport(StrEnum):
    """How a queue manager is reached."""

    CLIENT = "client"
    BINDINGS = "bindings"
    EMBEDDED = "embedded"


def preview(
    queue_manager: Annotated[
        str, typer.Argument(metavar="QUEUE_MANAGER", help="The queue manager's name.")
    ],
    queue: Annotated[
        str,
        typer.Argument(
            metavar="QUEUE",
            help="The queue; else the table's INPUTQ, else DEADQ.",
            show_default=False,
        ),
    ] = "",
    *,
    rules: Annotated[typer.FileBinaryRead, typer.Option(metavar="PATH", help="The rules table.")],
    output: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.TEXT,
    nul_as_blank: Annotated[
        bool, typer.Option("--nul-as-blank", help="Compare NULs as blanks.")
    ] = False,
    transport: Annotated[
        Transport | None,
        typer.Option(
            help="How to get there: over TCP, by its name alone (bindings, or what MQSERVER or a"
            " CCDT in the environment says), or one of `mqdlq qm`. Else: client with --host or"
            " --ccdt-url; embedded where `mqdlq qm` has one of that name; bindings.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Its address.", show_default=False)] = "",
    port: Annotated[int, typer.Option(help="The listener's port.")] = 1414,
    channel: Annotated[str, typer.Option(help="The channel.", show_default=False)] = "",
    ccdt_url: Annotated[
        str, typer.Option(help="The URL of a channel definition table.", show_default=False)
    ] = "",
    user: Annotated[
        str,
        typer.Option(
            help="A user id; its password is read from MQDLQ_PASSWORD.", show_default=False
        ),
    ] = "",
    client: Annotated[str | None, typer.Option(help="pymqi or ibmmq.", show_default=False)] = None,
) -> None:
    """Implement `mqdlq preview`.

    The queue is opened for browsing and inquiring only, and nothing changes. Neither Airflow nor
    Spark is needed.

    Exit code 0 if the queue was browsed, whatever is on it; 1 if it could not be; 2 if an argument
    or the rules table is wrong.

    For example:
      mqdlq preview --rules include/rules/demo.rules QM1
      mqdlq preview --rules include/rules/demo.rules QM1 SYSTEM.DEAD.LETTER.QUEUE --format json
    """
    try:
        table = parse_table(rules)
        settings = ConnectionSettings(
            queue_manager=queue_manager,
            transport=transport or _transport(queue_manager, host or ccdt_url),
            client=client,
            host=host,
            port=port,
            channel=channel,
            ccdt_url=ccdt_url,
            user=user,
            password=os.environ.get(PASSWORD, "") if user else "",
        )
    except (RulesError, ConnectionSettingsError) as error:
        typer.echo(error if isinstance(error, RulesError) else f"mqdlq: {error}", err=True)
        raise typer.Exit(USAGE) from None
    try:
        found = _look(settings, table, queue, nul_as_blank)
    except MqDlqError as error:
        typer.echo(f"mqdlq: {error}", err=True)
        raise typer.Exit(1) from None
    if output is Format.JSON:
        typer.echo(json.dumps(_as_json(found), indent=2))
        return
    console = Console()
    for part in _parts(found):
        console.print(part)


def _transport(name: str, address: str) -> Transport:
    if address:
        return Transport.CLIENT
    return Transport.EMBEDDED if embedded.exists(name) else Transport.BINDINGS


def _look(
    settings: ConnectionSettings, table: RulesTable, queue: str, nul_as_blank: bool
) -> Preview:
    is_watched = sys.stderr.isatty()
    with connect(settings) as queue_manager:
        found = preview_queue(
            queue_manager,
            table,
            queue.strip(),
            clock=lambda: datetime.now(UTC),  # noqa: TID251 (an entry point)
            progress=_tell if is_watched else lambda _: None,
            nul_as_blank=nul_as_blank,
        )
    if is_watched:
        sys.stderr.write("\r\x1b[K")
    return found


def _tell(messages: int) -> None:
    sys.stderr.write(f"\r{messages:,} messages browsed")
    sys.stderr.flush()


def _as_json(found: Preview) -> dict[str, Any]:
    return {
        "queue_manager": found.queue_manager,
        "queue": found.queue,
        "at": found.at.isoformat(),
        "messages": found.messages,
        "bytes": found.bytes,
        "maybe_truncated": found.maybe_truncated,
        "causes": [cause.as_json() for cause in found.causes],
        "plan": [asdict(planned) for planned in found.planned],
        "needs_a_person": [
            {
                "outcome": trouble.outcome.value,
                "class": trouble.cls.value,
                "problem": trouble.problem,
                "reason": trouble.reason,
                "reason_text": reason_text(trouble.reason) if trouble.reason else "",
                "dest_q_name": trouble.dest_q_name,
                "dest_q_mgr_name": trouble.dest_q_mgr_name,
                "messages": trouble.messages,
                "browse_seqs": list(trouble.browse_seqs),
                "next_step": _advice(trouble),
            }
            for trouble in found.needs_a_person
        ],
    }


def _parts(found: Preview) -> Iterator[RenderableType]:
    yield Text.assemble(
        ("PREVIEW", "bold"),
        f"  {visible(found.queue)} @ {visible(found.queue_manager)}",
        f"  {found.messages:,} messages, {found.bytes:,} bytes  {moment(found.at)}",
    )
    if not found.messages:
        yield Text("No messages.")
        return
    yield Text("")
    yield causes_table(found.causes)
    yield Text("")
    yield _matrix(found.planned)
    if found.maybe_truncated:
        yield Text(f"{found.maybe_truncated:,} are as long as the queue allows: maybe cut to fit.")
    yield Text("")
    yield from _people(found.needs_a_person)


def _matrix(planned: tuple[Planned, ...]) -> RenderableType:
    if not planned:
        return Text("No rule matches any of them.", style="bold")
    shown = _table("What the rules would try first", "Messages", "Rule", "Action", "Target")
    for one in planned[:_MOST]:
        times = f" (up to {one.tries} times)" if one.tries > 1 else ""
        shown.add_row(
            f"{one.messages:,}",
            f"{one.rule} (line {one.rule_line})",
            f"{one.action}{times}",
            Text(target(one.target_q, one.target_q_mgr)),
        )
    if rest := planned[_MOST:]:
        messages = sum(one.messages for one in rest)
        shown.add_row(f"{messages:,}", f"{len(rest):,} more rows", "", "")
    return shown


def _people(troubles: tuple[Trouble, ...]) -> Iterator[RenderableType]:
    messages = sum(trouble.messages for trouble in troubles)
    if not messages:
        yield Text("Nothing needs a person.", style="bold green")
        return
    shown = _table(f"Needs a person: {messages:,}", "Messages", "Why", "What to do", "browse_seq")
    for one in troubles[:_MOST]:
        more = " ..." if one.messages > len(one.browse_seqs) else ""
        shown.add_row(
            f"{one.messages:,}",
            Text(_why(one)),
            Text(_advice(one)),
            numbers(one.browse_seqs) + more,
        )
    if rest := troubles[_MOST:]:
        messages = sum(one.messages for one in rest)
        shown.add_row(f"{messages:,}", f"{len(rest):,} more causes", "", "")
    yield shown


def _why(one: Trouble) -> str:
    if one.cls is not MessageClass.DEAD_LETTER:
        words, problem = CLASSES[one.cls], visible(one.problem) if one.problem else ""
        return problem if problem.startswith(words) else f"{words}: {problem}".rstrip(": ")
    at = place(one.dest_q_name, one.dest_q_mgr_name)
    meaning = cause_of(one.reason).meaning
    return (
        f"{OUTCOMES[one.outcome]}: {reason_text(one.reason)}, {meaning or 'reason unknown'}, {at}"
    )


def _advice(one: Trouble) -> str:
    return next_step(Outcome(one.outcome), one.cls, one.reason)


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number else "right", overflow="fold")
    return table
