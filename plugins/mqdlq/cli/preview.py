"""The command `mqdlq preview`: show what a rules table would do with a queue."""

import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import click
from rich.console import Group, RenderableType
from rich.text import Text

from mqdlq import words
from mqdlq.cli.causes import causes_as_json
from mqdlq.cli.output import Output, attributes, console, now, refusing, titled_table, write_json
from mqdlq.cli.queue_managers import AddressOptions
from mqdlq.cli.rules import QueueKindOption, parse_table
from mqdlq.cli.snapshots import causes_table
from mqdlq.errors import ConnectionSettingsError
from mqdlq.model import Outcome, QueueKind, Step
from mqdlq.rules import RulesError
from mqdlq.stages.snapshot.preview import Preview, UnhandledMessages, preview_queue

_MOST: Final = 12
_SHOWN: Final = ("rule", "rule_line", "action", "target_q", "target_q_mgr", "tries")
_WITHOUT_ATTEMPTS: Final = (
    "mqdlq: warning: a preview does not know the number of attempts so far: no rule that compares"
    " attempts matches; a dry run of the handler counts them"
)


def preview(
    queue_manager: str,
    queue: str = "",
    *,
    rules: BinaryIO,
    output: Output = "text",
    nul_as_blank: bool = False,
    queue_kind: QueueKindOption = QueueKind.DEAD_LETTER,
    address: AddressOptions,
) -> None:
    """Implement `mqdlq preview`.

    The queue is opened for browsing and inquiring only, and nothing changes. Neither Airflow nor
    Spark is needed.

    Exit code 0 if the queue was browsed; 1 if it could not be browsed; 2 if an argument or the
    rules table is wrong.

    Takes:
      QUEUE_MANAGER: The queue manager's name.
      QUEUE: The queue; else the table's INPUTQ, else DEADQ.
      --rules PATH: The rules table.
      --nul-as-blank: Compare NULs as blanks.

    For example:
      mqdlq preview --rules include/rules/demo.rules QM1
      mqdlq preview --rules include/rules/demo.rules QM1 SYSTEM.DEAD.LETTER.QUEUE --format json
    """
    with refusing(RulesError, prefix=""), refusing(ConnectionSettingsError):
        table = parse_table(rules, queue_kind)
        if "attempts_made" in table.columns:
            click.echo(_WITHOUT_ATTEMPTS, err=True)
        is_watched = sys.stderr.isatty()
        with address.connect(queue_manager) as connected:
            found = preview_queue(
                connected,
                table,
                queue.strip(),
                clock=now,
                progress=_tell if is_watched else lambda _: None,
                nul_as_blank=nul_as_blank,
            )
        if is_watched:
            sys.stderr.write("\r\x1b[K")
    if output == "json":
        write_json(_as_json(found))
        return
    console().print(Group(*_parts(found)))


def _tell(messages: int) -> None:
    sys.stderr.write(f"\r{messages:,} messages browsed")
    sys.stderr.flush()


def _as_json(found: Preview) -> dict[str, Any]:
    names = (
        *("outcome", "class=cause.cls", "problem", "cause.cause_id", "cause.reason"),
        *("cause.reason_text", "cause.dest_q_name", "cause.dest_q_mgr_name"),
        *("messages", "browse_seqs"),
    )
    return {
        **attributes(found, "queue_manager", "queue", "at", "messages", "bytes", "maybe_truncated"),
        "causes": causes_as_json(found.causes),
        "plan": [attributes(step, *_SHOWN) | {"messages": n} for step, n in found.planned],
        "needs_attention": [
            attributes(trouble, *names) | {"next_step": _advice(trouble)}
            for trouble in found.needs_attention
        ],
    }


def _parts(found: Preview) -> Iterator[RenderableType]:
    yield Text.assemble(
        ("PREVIEW", "bold"),
        f"  {words.visible(found.queue)} @ {words.visible(found.queue_manager)}",
        f"  {found.messages:,} messages, {found.bytes:,} bytes  {words.moment(found.at)}",
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
    yield from _attention(found.needs_attention)


def _matrix(planned: list[tuple[Step, int]]) -> RenderableType:
    if not planned:
        return Text("No rule matches any of them.", style="bold")
    title = "First actions that the rules would try"
    shown = titled_table(title, "Messages", "Rule", "Action", "Target")
    for one, messages in planned[:_MOST]:
        times = f" (up to {one.tries} times)" if one.tries > 1 else ""
        shown.add_row(
            f"{messages:,}",
            f"{one.rule} (line {one.rule_line})",
            f"{one.action}{times}",
            Text(words.target(one.target_q, one.target_q_mgr)),
        )
    if rest := planned[_MOST:]:
        others = sum(messages for _, messages in rest)
        shown.add_row(f"{others:,}", f"{len(rest):,} more rows", "", "")
    return shown


def _attention(troubles: list[UnhandledMessages]) -> Iterator[RenderableType]:
    messages = sum(trouble.messages for trouble in troubles)
    if not messages:
        yield Text("Nothing needs attention.", style="bold green")
        return
    title = f"Needs attention: {messages:,}"
    shown = titled_table(title, "Messages", "Why", "What to do", "browse_seq")
    for one in troubles[:_MOST]:
        more = " ..." if one.messages > len(one.browse_seqs) else ""
        shown.add_row(
            f"{one.messages:,}",
            Text(_why(one)),
            Text(_advice(one)),
            words.numbers(one.browse_seqs) + more,
        )
    if rest := troubles[_MOST:]:
        messages = sum(one.messages for one in rest)
        shown.add_row(f"{messages:,}", f"{len(rest):,} more causes", "", "")
    yield shown


def _why(one: UnhandledMessages) -> str:
    cause = one.cause
    if not cause.is_of_dead_letters:
        name, problem = words.cause_in_words(cause), one.problem and words.visible(one.problem)
        return problem if problem.startswith(name) else f"{name}: {problem}".rstrip(": ")
    meaning = cause.meaning or "reason unknown"
    return f"{one.outcome.words}: {cause.reason_text}, {meaning}, {words.destination_of(cause)}"


def _advice(one: UnhandledMessages) -> str:
    return words.next_step(Outcome(one.outcome), one.cause.cls, one.cause.reason)
