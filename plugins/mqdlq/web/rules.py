"""Rules tables of a handler: the text, the findings, and the use of each rule."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import Row
from mqdlq.ledger.tables import Run
from mqdlq.model import AttemptState, Outcome
from mqdlq.reading.run import NO_RULE, WrittenRule, written_rules
from mqdlq.rules import Comparison, Diagnostic, check, compare
from mqdlq.rules.lint import Level, promote, review
from mqdlq.web.rendering import HEIGHT, Bar, NotFoundError, draw_bars, render
from mqdlq.web.requests import SourcesDep
from mqdlq.web.serving import PageRoute

router: Final = APIRouter(route_class=PageRoute)

MOST_ATTEMPTED: Final = 100_000
"""The newest runs whose attempts are counted have at most so many messages."""
MOST_BARS: Final = 40
NO_LEVELS: Final[Mapping[str, Level]] = {}


@router.get("/dags/{dag_id}/rules")
def rules(request: Request, sources: SourcesDep) -> HTMLResponse:
    """Show the rules of a run of this handler, and what each rule did.

    By default it is the newest run with a table.
    """
    ledger, handler, query = sources.ledger, sources.handler, request.query_params
    newest = ledger.rules_in_use.newest_run(handler)
    run = run_with_rules(handler, query.get("run_id", "") or newest, ledger)
    configured, fault = _configured(handler)
    source, error, difference = todays_table(
        configured, fault, ledger.runs.get(newest) if newest else None
    )
    chosen = (query.get("from", ""), query.get("to", ""))
    return render(
        request,
        "rules/rules.html",
        run=run,
        is_newest=run is None or run.run_id == newest,
        today={"source": source, "error": error, "diff": difference},
        periods=ledger.rules_in_use.periods(handler),
        chosen=chosen,
        diff=diff_of(handler, chosen, ledger) if run else None,
        chart_height=HEIGHT,
        **(_of_run(run, configured, ledger) if run else {}),
    )


def run_with_rules(handler: str, run_id: str, ledger: Ledger) -> Run | None:
    """Return a run of a handler, None without an id; raise NotFoundError for one of another."""
    run = ledger.runs.get(run_id) if run_id else None
    if run_id and (run is None or run.handler != handler):
        raise NotFoundError(
            "MQDLQ-988",
            f"The handler {handler} has no run {run_id!r}, so its rules are not known; choose one"
            " from the list of its runs",
        )
    return run


def _configured(handler: str) -> tuple[Handler | None, str]:
    try:
        return load_handler(handler), ""
    except MqDlqError as error:
        return None, error.text


def todays_table(
    configured: Handler | None, fault: str, newest: Run | None
) -> tuple[str, str, TableDiff | None]:
    """Return the source of the table that the next run would read, and its difference.

    Instead of the difference there may be an error, which says why the next run could not read it.
    """
    if configured is None:
        return "", fault, None
    try:
        source, text = configured.rules_text()
    except (MqDlqError, ValueError) as error:
        return str(configured.rules or ""), getattr(error, "text", str(error)), None
    if newest is None:
        return source, "", diff_tables("", text)
    same = text == newest.rules_text
    return source, "", None if same else diff_tables(newest.rules_text, text)


def _of_run(run: Run, configured: Handler | None, ledger: Ledger) -> dict[str, Any]:
    """Return what the page shows of a run: its table with findings, and the use of each rule."""
    written = written_rules(run.rules_text)
    rules, attempted = used_rules(run, written, ledger)
    return {
        "lines": [line.rstrip("\r") for line in run.rules_text.removesuffix("\n").split("\n")],
        "starts": {rule.line: ordinal for ordinal, rule in written.items()},
        "findings": findings_of(run, NO_LEVELS if configured is None else configured.lint),
        "rules": rules,
        "attempted_runs": attempted,
        "counted": ledger.rules_in_use.counted(run.handler, run.rules_digest),
    }


def findings_of(run: Run, levels: Mapping[str, Level]) -> dict[int, list[Diagnostic]]:
    """Return the findings in a run's table by line."""
    reviewed = review(run.rules_text, queue=run.queue, queue_manager=run.queue_manager, frozen=True)
    by_line: dict[int, list[Diagnostic]] = defaultdict(list)
    for found in promote(reviewed.diagnostics, levels):
        by_line[found.line].append(found)
    return dict(by_line)


@dataclass(frozen=True, slots=True)
class UsedRule:
    """A rule with its use in the counted runs.

    `succeeded` counts attempts in the newest runs, `reasons` the failed ones by reason code. `bars`
    are the newest runs, oldest first. Rule 0 stands for messages that no rule decided.
    """

    ordinal: int
    written: WrittenRule
    messages: int
    runs: int
    last_at: datetime | None
    outcomes: Mapping[Outcome, int]
    succeeded: int
    reasons: Counter[int]
    bars: list[Bar]

    @property
    def failed(self) -> int:
        """The number of failed attempts."""
        return self.reasons.total()

    @property
    def is_unused(self) -> bool:
        """Whether no message reached the rule."""
        return not self.messages and not self.succeeded and not self.failed

    @property
    def only_failed(self) -> bool:
        """Whether all its attempts failed."""
        return bool(self.failed) and not self.succeeded


def used_rules(
    run: Run, written: Mapping[int, WrittenRule], ledger: Ledger
) -> tuple[list[UsedRule], int]:
    """Return the rules of a run's table with their use, and how many runs' attempts count."""
    in_use, table = ledger.rules_in_use, (run.handler, run.rules_digest)
    uses = in_use.uses(*table)
    newest = in_use.newest_runs(*table, MOST_ATTEMPTED)
    succeeded: Counter[int] = Counter()
    reasons: dict[int, Counter[int]] = defaultdict(Counter)
    for (rule, state, mqrc), number in in_use.attempts(newest).items():
        if state is AttemptState.CONFIRMED:
            succeeded[rule] += number
        else:
            reasons[rule][mqrc] += number
    by_rule: dict[int, list[Row]] = defaultdict(list)
    for use in uses:
        by_rule[use.rule].append(use)
    shown = list(dict.fromkeys((use.started_at, use.run_id) for use in uses))[-MOST_BARS:]
    found = []
    for ordinal in [*written, *([0] if by_rule[0] else [])]:
        own = by_rule[ordinal]
        outcomes: Counter[Outcome] = Counter()
        for use in own:
            outcomes[use.outcome] += use.messages
        found.append(
            UsedRule(
                ordinal=ordinal,
                written=written.get(ordinal, NO_RULE),
                messages=outcomes.total(),
                runs=len({use.run_id for use in own}),
                last_at=max((use.started_at for use in own), default=None),
                outcomes={one: outcomes[one] for one in Outcome if outcomes[one]},
                succeeded=succeeded[ordinal],
                reasons=reasons[ordinal],
                bars=_bars(own, shown),
            )
        )
    return found, len(newest)


def _bars(uses: Sequence[Row], shown: Sequence[tuple[datetime, str]]) -> list[Bar]:
    """Draw a rule's messages in each of the shown runs."""
    counted: Counter[str] = Counter()
    for use in uses:
        counted[use.run_id] += use.messages
    numbers = [
        (counted[run_id], f"{at:%Y-%m-%d %H:%M}: {counted[run_id]:,}") for at, run_id in shown
    ]
    return draw_bars(numbers, width=1000, places=MOST_BARS, least=1.0, zero=0)


# The difference of two tables.


@dataclass(frozen=True, slots=True)
class TableDiff:
    """The difference of two tables: of their text, and, if both are valid, of their meaning.

    Each line has its number in the old and in the new table, 0 in the one that lacks it.
    """

    lines: list[tuple[int, int, str]]
    meaning: Comparison | None

    @property
    def changes(self) -> list[str]:
        """The differences in meaning, a line for each."""
        return [" -> ".join(each) for each in self.meaning.in_words] if self.meaning else []


def diff_of(handler: str, chosen: tuple[str, str], ledger: Ledger) -> TableDiff | None:
    """Return the difference of two tables in use, by their digests; None if one is not chosen."""
    if not all(chosen):
        return None
    texts = []
    for digest in chosen:
        run = ledger.runs.get(ledger.rules_in_use.newest_run(handler, digest))
        if run is None:
            raise NotFoundError(
                "MQDLQ-989",
                f"No run of the handler {handler} has read a rules table {digest!r}; choose one"
                " from the list of its tables",
            )
        texts.append(run.rules_text)
    return diff_tables(*texts)


def diff_tables(old: str, new: str) -> TableDiff:
    """Return the difference of two tables' texts, line by line, and of their meaning."""
    before, after = old.splitlines(), new.splitlines()
    lines: list[tuple[int, int, str]] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind == "equal":
            lines += [(i + n + 1, k + n + 1, before[i + n]) for n in range(j - i)]
        else:
            lines += [(n + 1, 0, before[n]) for n in range(i, j)]
            lines += [(0, n + 1, after[n]) for n in range(k, m)]
    tables = [check(text, frozen=True).table for text in (old, new)]
    meaning = compare(tables[0], tables[1]) if tables[0] and tables[1] else None
    return TableDiff(lines, meaning)
