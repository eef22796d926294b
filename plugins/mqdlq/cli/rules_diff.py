"""The commands `mqdlq rules diff` and `suggest`: what tables do with the messages of snapshots."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Literal

import click

from mqdlq import directories
from mqdlq.causes import COLUMNS
from mqdlq.cli.causes import pasted_rows
from mqdlq.cli.output import attributes, now, refusing, write_json
from mqdlq.cli.rules import QueueKindOption, name_of, parse_table
from mqdlq.errors import LakeError, MqDlqError
from mqdlq.model import QueueKind
from mqdlq.rules import (
    Comparison,
    Rule,
    RulesError,
    RulesTable,
    compare,
    find_unstored,
    freeze,
    parse,
)
from mqdlq.rules.comparing import rule_text
from mqdlq.rules.diagnostics import listed
from mqdlq.tools.rule_suggestions import draft_table, rank_causes
from mqdlq.words import count

if TYPE_CHECKING:
    from mqdlq.evaluation.differences import Treatments
    from mqdlq.lake import Snapshot

HERE_UP_TO: Final = 10_000
"""Messages that are compared without Spark, whose start alone takes longer."""


def since(text: str) -> timedelta:
    """Read how far back to go: `12h`, `30d`, `4w`."""
    units = {"h": "hours", "d": "days", "w": "weeks"}
    match = re.fullmatch(r"([1-9]\d{0,4})([hdw])", text)
    if not match:
        raise click.BadParameter(f"expected a number and h, d or w, as in 30d; found {text!r}")
    return timedelta(**{units[match[2]]: int(match[1])})


Since = Annotated[
    timedelta | None,
    click.types.FuncParamType(since),
    "--since 30d: All snapshots in the lake taken since then: hours (h), days (d) or weeks (w).",
]
Snapshots = Annotated[
    tuple[str, ...],
    "--snapshot ID|DIR: A snapshot whose messages to ask about, by its id or its directory;"
    " repeatable.",
]


def diff(
    old: BinaryIO,
    new: BinaryIO,
    snapshots: Snapshots = (),
    back: Since = None,
    output: Literal["text", "json", "html"] = "text",
    *,
    queue_kind: QueueKindOption = QueueKind.DEAD_LETTER,
    spark: bool | None = None,
) -> None:
    """Implement `mqdlq rules diff`.

    The layout of the tables does not matter. With snapshots, the command also shows which of their
    messages the tables treat differently. A message that is in several snapshots counts once, as
    the newest shows it.

    Exit code 0 if the tables mean the same; 1 if they differ; 2 if an argument is wrong or a table
    or a snapshot cannot be read.

    Takes:
      OLD: The table as it was.
      NEW: The table as it is.
      --format: How to write it.
      --spark/--no-spark: Whether to compare in Spark; without, it is used above 10000
        messages.

    For example:
      mqdlq rules diff old.rules include/rules/demo.rules
      mqdlq rules diff old.rules include/rules/demo.rules --since 30d
    """
    with refusing(RulesError, LakeError, prefix=""):
        before, after = parse_table(old, queue_kind), parse_table(new, queue_kind)
        asked = None
        if snapshots or back:
            stored = stored_snapshots(snapshots, back)
            _warn_of_unstored((before, after), stored)
            messages = sum(snapshot.manifest.messages for snapshot in stored)
            in_spark = messages > HERE_UP_TO if spark is None else spark
            from mqdlq.evaluation.differences import treatments_in  # noqa: PLC0415 (Arrow's functions)

            asked = treatments_in(before, after, stored, _submit if in_spark else None)
    found, names = compare(before, after), (name_of(old), name_of(new))
    if output == "json":
        write_json(_as_json(found, asked))
    elif output == "html":
        click.echo(_page(names, _as_text(names, found, None), asked), nl=False)
    else:
        click.echo("\n".join(_as_text(names, found, asked)))
    raise SystemExit(int(not found.is_same))


def _warn_of_unstored(tables: Sequence[RulesTable], stored: Sequence[Snapshot]) -> None:
    """Warn of comparisons that snapshots cannot answer: they match no message of these."""
    texts = [snapshot.manifest.rules_text for snapshot in stored]
    found = {what for table in tables for what in find_unstored(freeze(table), texts)}
    if found:
        click.echo(
            f"mqdlq: warning: not all snapshots have {listed(sorted(found), 'and')}, which matches"
            " no message there",
            err=True,
        )


def stored_snapshots(named: Sequence[str], back: timedelta | None) -> list[Snapshot]:
    """Return the snapshots named and those taken so far back; raise `LakeError` if none."""
    from mqdlq import lake  # noqa: PLC0415 (tables and dumps need no Arrow)

    places = {lake.Snapshot.named(directories.lake(), snapshot).directory for snapshot in named}
    if back:
        since_then = now() - back
        found = lake.finished_snapshots(directories.lake())
        places |= {
            one.directory
            for one in found
            if one.manifest.taken_at >= since_then and not one.manifest.put_together_from
        }
    if not places:
        raise LakeError(
            "MQDLQ-911", f"{directories.lake()} holds no finished snapshot taken in the last {back}"
        )
    return [lake.Snapshot.at(place) for place in sorted(places)]


def _submit(application: Path, arguments: list[str], messages: int) -> int:
    from mqdlq.evaluation.spark_conf import submit, submit_command  # noqa: PLC0415 (only here)

    return submit(submit_command(application, arguments, messages=messages))


def _as_json(found: Comparison, asked: Treatments | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "same": found.is_same,
        "control": [
            {"keyword": keyword, "old": old or None, "new": new or None}
            for keyword, old, new in found.control
        ],
        "rules": [
            {"change": one.change, "old": _rule_as_json(one.old), "new": _rule_as_json(one.new)}
            for one in found.rules
        ],
    }
    if asked is None:
        return shown
    never = {"old": asked.never_old, "new": asked.never_new}
    return shown | {
        **attributes(asked, "snapshots", "messages", "different"),
        "matrix": [
            attributes(cell, "old", "new", "messages")
            | {"samples": [attributes(one, "snapshot_id", "browse_seq") for one in cell.samples]}
            for cell in asked.cells
        ],
        "never_matched": {
            name: [_rule_as_json(rule) for rule in rules] for name, rules in never.items()
        },
    }


def _rule_as_json(rule: Rule | None) -> dict[str, Any] | None:
    return {"line": rule.line, "rule": rule_text(rule)} if rule else None


def _as_text(names: tuple[str, str], found: Comparison, asked: Treatments | None) -> list[str]:
    lines = [f"{names[0]} and {names[1]} {'mean the same' if found.is_same else 'differ'}"]
    for words, *others in found.in_words:
        lines += [words, *(f"    -> {text}" for text in others)]
    return lines if asked is None else [*lines, "", *_treatments_as_text(names, asked)]


def _treatments_as_text(names: tuple[str, str], asked: Treatments) -> list[str]:
    many = len(asked.snapshots) > 1
    where = f"{len(asked.snapshots)} snapshots" if many else f"snapshot {asked.snapshots[0]}"
    lines = [f"{where}: {asked.different} of {asked.messages} messages are treated differently"]
    for cell in asked.cells:
        samples = ", ".join(
            f"{one.snapshot_id} browse_seq {one.browse_seq}" if many else str(one.browse_seq)
            for one in cell.samples
        )
        more = ", ..." if cell.messages > len(cell.samples) else ""
        lines += [
            f"  {cell.messages}: {cell.old}",
            f"    -> {cell.new}",
            f"    {'' if many else 'browse_seq '}{samples}{more}",
        ]
    for name, never in zip(names, (asked.never_old, asked.never_new), strict=True):
        if never:
            lines.append(f"{name}: no message met these rules")
            lines += [f"  line {rule.line}: {rule_text(rule)}" for rule in never]
    return lines


def _page(names: tuple[str, str], lines: Sequence[str], asked: Treatments | None) -> str:
    """Return the page; `lines` say what differs in the tables themselves."""
    from jinja2 import Environment  # noqa: PLC0415 (only here)

    rows: dict[str, dict[str, object]] = defaultdict(dict)
    most = 1
    for cell in asked.cells if asked else ():
        rows[cell.old][cell.new] = cell
        most = max(most, cell.messages)
    environment = Environment(autoescape=True, trim_blocks=True)
    page = Path(__file__).with_name("rules_diff.html").read_text(encoding="utf-8")
    return environment.from_string(page).render(
        names=names,
        lines=lines,
        asked=asked,
        rows=rows,
        columns=list(dict.fromkeys(cell.new for cell in asked.cells)) if asked else [],
        never=zip(names, (asked.never_old, asked.never_new), strict=True) if asked else (),
        text=rule_text,
        shade=lambda cell: round(0.1 + 0.5 * cell.messages / most, 2),
        samples=lambda cell: ", ".join(f"{s.snapshot_id} {s.browse_seq}" for s in cell.samples),
    )


def suggest(
    pastes: tuple[BinaryIO, ...] = (),
    snapshots: Snapshots = (),
    back: Since = None,
    parking_queue: str = "",
    at_most: Annotated[int, click.IntRange(min=1)] = 50,
) -> None:
    """Implement `mqdlq rules suggest`.

    The draft has a rule for each cause (reason and destination), the most frequent first, with the
    number of messages it would have matched. Queues with generated names get one rule, such as
    DESTQ(AMQ.*), if no other message with the reason matches it. It retries causes that pass by
    themselves, and leaves or, with --parking-queue, forwards the others. It never discards. Read
    the draft before you use it.

    Nothing is suggested for backout queues. With --since, their snapshots are left out.

    Takes:
      PASTE: Output of amqsbcg or a file of dmpmqmsg, in place of snapshots; - is standard input.
      --parking-queue QUEUE: Forward messages that a retry cannot help.
      --causes: Give so many causes their own rule.

    For example:
      mqdlq rules suggest --since 30d --parking-queue APP.PARKED > include/rules/draft.rules
      mqdlq rules suggest dump.txt
    """
    if bool(pastes) == bool(snapshots or back):
        raise click.BadParameter(
            "name dumps, or snapshots by --snapshot, or say how far back by --since"
        )
    with refusing(MqDlqError, prefix=""):
        rows: Iterable[Mapping[str, Any]]
        if pastes:
            rows, source = pasted_rows(pastes), count(len(pastes), "dump")
        else:
            rows, source = _stored_rows(snapshots, back)
        text = draft_table(*rank_causes(rows, at_most), source=source, parking_queue=parking_queue)
        parse(text, "<draft>")
    click.echo(text, nl=False)


def _stored_rows(
    named: Sequence[str], back: timedelta | None
) -> tuple[Iterator[Mapping[str, Any]], str]:
    """Return the newest rows of messages in snapshots of dead-letter queues, and their number."""
    from mqdlq import lake  # noqa: PLC0415 (as above)

    stored = _of_dead_letter_queues(named, back)
    rows = (row for _, row in lake.newest_rows(stored, ("message_key", *COLUMNS)))
    return rows, count(len(stored), "snapshot")


def _of_dead_letter_queues(named: Sequence[str], back: timedelta | None) -> list[Snapshot]:
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
