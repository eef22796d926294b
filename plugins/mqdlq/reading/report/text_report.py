"""Print a report as text for a terminal, at most 80 lines without corrections and an error.

The verdict comes first; equal messages share a row; no information depends on colour.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from io import StringIO
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mqdlq import words
from mqdlq.causes import CountedCause
from mqdlq.model import AttemptState, MessageClass, Outcome, Verdict
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.report import building
from mqdlq.reading.report import groups as grouped
from mqdlq.reading.report.groups import MessageGroup, destination_in_words
from mqdlq.reading.run import Account, FailedRule, RuleRow, failed_in_words

WIDTH: Final = 100
_MOST_LEARNED: Final = 5
_MOST_ATTENTION, _MOST_RULES, _MOST_CAUSES, _MOST_ERROR_LINES = 5, 8, 8, 8
_MOST_LINES = 4
_VERDICTS: Final = {
    Verdict.OK: ("OK", "bold green"),
    Verdict.EMPTY: ("EMPTY", "bold green"),
    Verdict.SETTLED: ("NOTHING NEW", "bold green"),
    Verdict.ATTENTION: ("NEEDS ATTENTION", "bold yellow"),
    Verdict.UNFINISHED: ("NOT FINISHED", "bold"),
    Verdict.FAILED: ("FAILED", "bold red"),
}


def render_text(report: building.Report, paths: Paths | None = None) -> str:
    """Return the report without colour, no line wider than `WIDTH` columns.

    With `paths`, which then begin with the address of Airflow, it has links to the operator's page.
    """
    file = StringIO()
    print_report(report, Console(file=file, width=WIDTH, color_system=None), paths)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def print_report(report: building.Report, console: Console, paths: Paths | None = None) -> None:
    console.print(Group(*_parts(report, paths)), width=min(WIDTH, console.width))


def _parts(report: building.Report, paths: Paths | None) -> Iterator[RenderableType]:
    yield from _verdict(report)
    yield _facts(report, paths)
    yield from _expiry(report.expiry)
    learned = [words.learned_in_words(one, report.run_id) for one in report.learned]
    yield from _lines("Corrected outcomes", learned, most=_MOST_LEARNED, indent=2)
    lines = [line for one in report.failures for line in one.why.splitlines()]
    if len(lines) > len(report.failures):  # else the verdict has them
        yield from _section("Error", "")
        yield from (Text(f"  {words.visible(line)}") for line in lines[:_MOST_ERROR_LINES])
        yield from _rest(len(lines) - _MOST_ERROR_LINES, "line")
    if report.without_outcome:
        yield from _section("Without an outcome", words.count(report.without_outcome, "message"))
        yield from _unaccounted(report.unaccounted_groups)
    if report.needs_attention:
        yield from _section("Needs attention", words.count(report.needs_attention, "message"))
        yield from _attention(report.attention_groups, report.written_at)
    if report.more:
        yield Padding(Text(report.more, style="dim"), (0, 0, 0, 8))
    for title, said in building.control_lines(report):
        yield from _lines(title, said)
    if report.rules or report.failed_rules:
        yield from _section("Rules", _attempts(report))
        yield from _rules(report.rules)
        yield from _failed_rules(report.failed_rules)
    if report.causes:
        yield from _section("Causes", "")
        yield from _causes(report.causes)


def _verdict(report: building.Report) -> Iterator[Text]:
    word, style = _VERDICTS[report.verdict]
    run = report.run
    names = [report.run_id]
    if run is not None:
        names = [run.handler, f"{run.queue} @ {run.queue_manager}"]
    mode = ["dry run"] if run is not None and run.dry_run else []
    yield Text.assemble((word, style), "  ", "  ".join([*map(words.visible, names), *mode]))
    yield Text(report.headline, style="bold")
    if report.why:
        yield Text.assemble(("Why: ", "bold red"), words.visible(report.why))
    if report.next_steps:
        yield Text.assemble(("Next: ", "bold"), words.visible(report.next_steps))
    yield Text("")


def _facts(report: building.Report, paths: Paths | None) -> Table:
    facts = Table.grid(padding=(0, 3))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    run = report.run
    if run is not None:
        by = f", by {words.visible(run.started_by)}" if run.started_by else ""
        why = f": {words.visible(run.why)}" if run.why else ""
        when = f"{words.moment(run.started_at)}, {words.span(report.duration_s)}{by}{why}"
        facts.add_row("Run", Text(f"{words.visible(run.run_id)}  {when}"))
        facts.add_row(
            "Rules",
            Text(f"{words.visible(run.rules_source)}  {run.rules_digest[:12]}", overflow="fold"),
        )
        if run.condition:
            facts.add_row("Only", Text(words.visible(report.sources.meant), overflow="fold"))
        if paths is not None:
            facts.add_row("Page", Text(paths.run(run.handler, run.run_id), overflow="fold"))
    if report.stages:
        facts.add_row("Stages", Text(words.visible(_stages(report))))
    if report.account is not None and report.account.messages:
        for label, line in _account(report.account):
            facts.add_row(label, Text(line))
    elif report.account is None and report.sources.snapshot is not None:
        facts.add_row("Account", Text(words.untouched_in_words(report.sources.snapshot.messages)))
    return facts


def _expiry(expiry: building.Expiry | None) -> Iterator[RenderableType]:
    if expiry is None:
        return
    said = [*filter(None, (building.expiry_in_words(expiry), building.expired_in_words(expiry)))]
    if said:
        yield from _section("Expiry", "")
        yield from (Padding(Text(line), (0, 0, 0, 2)) for line in said)
    for one in expiry.causes[:_MOST_CAUSES]:
        first = f"the first at {words.moment(one.first_at)}"
        line = f"{one.messages:>5,}  {words.cause_in_words(one.cause, one.queues)}: {first}"
        yield Padding(Text(line, overflow="fold"), (0, 0, 0, 2))
    yield from _rest(sum(one.messages for one in expiry.causes[_MOST_CAUSES:]), "message")


def _stages(report: building.Report) -> str:
    if set(report.stages.values()) == {"success"}:
        return f"all {len(report.stages)} succeeded"
    return ", ".join(f"{name} {state}" for name, state in report.stages.items())


def _account(account: Account) -> Iterator[tuple[str, str]]:
    parts = [f"{n:,} {outcome.words}" for outcome, n in account.outcomes.items()]
    missing = account.messages - account.booked
    parts.extend([f"{missing:,} {words.NO_OUTCOME}"] if missing > 0 else [])
    equals = "=" if account.booked <= account.messages else "is not"
    selected = f"{account.selected:,} selected of " if account.not_selected else ""
    whole = f"{selected}{account.messages:,} in the snapshot"
    yield "Account", f"{whole} {equals} {' + '.join(parts)}"
    if account.not_selected:
        yield "", words.not_selected(account.not_selected)
    if account.settled:
        yield "", f"{account.settled:,} of them settled by earlier runs"
    browse = account.last_browse
    if browse is not None:
        returned = f", {browse.returned:,} returned" if browse.returned else ""
        met = f"{browse.depth:,} on the queue, {browse.seen:,} of this run{returned}"
        yield "", f"last browse {words.moment(browse.at)}: {met}, {browse.arrived:,} arrived since"


def _attention(groups: Sequence[MessageGroup], now: datetime) -> Iterator[RenderableType]:
    for group in groups[:_MOST_ATTENTION]:
        first = group.first
        which = "message" if group.messages == 1 else "messages"
        yield Text.assemble(
            f"  {group.messages:>5,} ",
            (words.outcome_in_words(first.outcome), "bold"),
            f"  {which} {group.browse_seqs}",
        )
        details = Table.grid(padding=(0, 1))
        details.add_column(style="dim", no_wrap=True, min_width=5)
        details.add_column(overflow="fold")
        for label, line in _details(group, now):
            details.add_row(label, Text(line))
        yield Padding(details, (0, 0, 0, 8))
    yield from _rest(sum(g.messages for g in groups[_MOST_ATTENTION:]), "message")


def _unaccounted(groups: Sequence[MessageGroup]) -> Iterator[RenderableType]:
    for group in groups[:_MOST_CAUSES]:
        first = group.first
        to = destination_in_words(group)
        cause = f"{first.reason_text}; for {to}" if first.reason else first.cause
        yield Text(f"  {group.messages:>5,}  {cause}: messages {group.browse_seqs}")
    yield from _rest(sum(g.messages for g in groups[_MOST_CAUSES:]), "message")
    yield Text(f"        next: {groups[0].first.next_step}")


def _details(group: MessageGroup, now: datetime) -> Iterator[tuple[str, str]]:
    first = group.first
    if first.cls is MessageClass.DEAD_LETTER:
        yield "cause", f"{first.cause}; for {destination_in_words(group)}"
    elif first.outcome is Outcome.UNMATCHED:  # a message without an MQDLH on a backout queue
        yield "cause", first.cause
    if group.tried:
        *earlier, last = group.tried
        before = sum(tried.attempts for tried in earlier)
        more = f"; {words.count(before, 'attempt')} before" if before else ""
        yield "tried", grouped.tried_in_words(last, group.messages) + more
    if first.why and not group.tried and first.outcome is not Outcome.UNMATCHED:
        yield "why", words.visible(first.why)
    if origin := grouped.origin_in_words(group, now):
        yield "from", origin
    yield "next", first.next_step
    if command := grouped.text_command(group):
        yield "run", command


def _lines(
    title: str, lines: Sequence[str], *, most: int = _MOST_LINES, indent: int = 4
) -> Iterator[RenderableType]:
    if lines:
        yield from _section(title, "")
    for line in lines[:most]:
        yield Padding(Text(line, overflow="fold"), (0, 0, 0, indent))
    yield from _rest(len(lines) - most, "line")


def _rules(rows: Sequence[RuleRow]) -> Iterator[RenderableType]:
    table = _table()
    table.add_column("messages", justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    table.add_column("rule", justify="right", no_wrap=True)
    table.add_column("line", justify="right", no_wrap=True)
    table.add_column("action", no_wrap=True)
    table.add_column("target", no_wrap=True, overflow="ellipsis")
    for row in rows[:_MOST_RULES]:
        table.add_row(
            f"{row.messages:,}",
            row.outcome.words,
            f"{row.rule}" if row.rule else "-",
            f"{row.line}" if row.line else "-",
            row.action or "-",
            Text(words.target(row.target_q, row.target_q_mgr) or "-"),
        )
    yield table
    yield from _rest(len(rows) - _MOST_RULES, "row")


def _failed_rules(rules: Sequence[FailedRule]) -> Iterator[RenderableType]:
    for row in rules[:_MOST_RULES]:
        to = f" to {words.target(row.target_q, row.target_q_mgr)}" if row.target_q else ""
        which = f"rule {row.rule} (line {row.line}) {row.action}{to}"
        line = f"{which}: {failed_in_words(row)}; {words.count(row.messages, 'message')}"
        yield Padding(Text(line, overflow="fold"), (0, 0, 0, 4))
    yield from _rest(len(rules) - _MOST_RULES, "rule")


def _causes(groups: Sequence[CountedCause]) -> Iterator[RenderableType]:
    table = _table()
    table.add_column("messages", justify="right", no_wrap=True)
    table.add_column("reason", max_width=34)
    table.add_column("destination", no_wrap=True, overflow="ellipsis", max_width=34)
    table.add_column("outcomes")
    for group in groups[:_MOST_CAUSES]:
        ended = [f"{n:,} {outcome.words}" for outcome, n in group.outcomes.items()]
        missing = group.messages - sum(group.outcomes.values())
        ended.extend([f"{missing:,} {words.NO_OUTCOME}"] if missing else [])
        table.add_row(
            f"{group.messages:,}",
            Text(group.cause.reason_text),
            Text(words.destination_of(group.cause, group.queues or 0)),
            ", ".join(ended),
        )
    yield table
    yield from _rest(len(groups) - _MOST_CAUSES, "group")


def _attempts(report: building.Report) -> str:
    made = sum(report.attempts.values())
    if not made:
        return "no attempts"
    failed = report.attempts.get(AttemptState.FAILED, 0)
    return f"{words.count(made, 'attempt')}, {failed:,} failed"


def _section(title: str, remark: str) -> Iterator[Text]:
    yield Text("")
    yield Text.assemble((title, "bold"), (f"  {remark}" if remark else "", "dim"))


def _table() -> Table:
    return Table(box=None, padding=(0, 1), pad_edge=True, header_style="dim")


def _rest(number: int, noun: str) -> Iterator[Text]:
    if number > 0:
        yield Text(
            f"        and {words.count(number, noun)} more: see the HTML report", style="dim"
        )
