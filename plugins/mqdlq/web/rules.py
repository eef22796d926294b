"""Rules tables of a handler: the text, the findings, and the use of each rule."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from mqdlq.errors import MqDlqError
from mqdlq.handlers import Handler, load_handler
from mqdlq.ledger import Ledger
from mqdlq.ledger.database import Row
from mqdlq.ledger.tables import Run
from mqdlq.model import AttemptState, Outcome
from mqdlq.reading.page_paths import Paths
from mqdlq.reading.run import NO_RULE, WrittenRule, written_rules
from mqdlq.rules import Diagnostic, check, compare
from mqdlq.rules.lint import Level, promote, review
from mqdlq.web.rendering import HEIGHT, NotFoundError, draw_bars
from mqdlq.web.requests import HandlerView
from mqdlq.web.serving import PageRoute

router: Final = APIRouter(route_class=PageRoute)

MOST_ATTEMPTED: Final = 100_000
"""The newest runs whose attempts are counted have at most so many messages."""
MOST_BARS: Final = 40


@router.get(Paths.rules)
def rules(view: HandlerView) -> HTMLResponse:
    """Show the rules of a run of this handler, and what each rule did.

    By default it is the newest run with a table.
    """
    ledger, handler, query = view.ledger, view.handler, view.request.query_params
    newest = ledger.rules_in_use.newest_run(handler)
    run = run_with_rules(handler, query.get("run_id", "") or newest, ledger)
    chosen = (query.get("from", ""), query.get("to", ""))
    try:
        configured, today = load_handler(handler), {"source": "", "error": "", "diff": None}
        today |= _todays_table(configured, ledger.runs.get(newest) if newest else None)
    except MqDlqError as error:
        configured, today = None, {"source": "", "error": error.text, "diff": None}
    return view.render(
        "rules/rules.html",
        run=run,
        is_newest=run is None or run.run_id == newest,
        today=today,
        periods=ledger.rules_in_use.periods(handler),
        chosen=chosen,
        diff=diff_of(handler, chosen, ledger) if run else None,
        chart_height=HEIGHT,
        **(_of_run(run, configured, ledger) if run else {}),
    )


def run_with_rules(handler: str, run_id: str, ledger: Ledger) -> Run | None:
    run = ledger.runs.get(run_id) if run_id else None
    if run_id and (run is None or run.handler != handler):
        raise NotFoundError(
            "MQDLQ-988",
            f"The handler {handler} has no run {run_id!r}, so its rules are not known; choose one"
            " from the list of its runs",
        )
    return run


def _todays_table(configured: Handler, newest: Run | None) -> dict[str, Any]:
    """Return the source of the table that the next run would read, and its difference.

    Instead of the difference there may be an error, which says why the next run could not read it.
    """
    try:
        source, text = configured.rules_text()
    except (MqDlqError, ValueError) as error:
        return {"source": str(configured.rules or ""), "error": getattr(error, "text", str(error))}
    before = "" if newest is None else newest.rules_text
    same = newest is not None and text == before
    return {"source": source, "diff": None if same else diff_tables(before, text)}


def _of_run(run: Run, configured: Handler | None, ledger: Ledger) -> dict[str, Any]:
    written = written_rules(run.rules_text)
    rules, attempted = used_rules(run, written, ledger)
    return {
        "lines": [line.rstrip("\r") for line in run.rules_text.removesuffix("\n").split("\n")],
        "starts": {rule.line: ordinal for ordinal, rule in written.items()},
        "findings": findings_of(run, {} if configured is None else configured.lint),
        "rules": rules,
        "attempted_runs": attempted,
        "counted": ledger.rules_in_use.counted(run.handler, run.rules_digest),
    }


def findings_of(run: Run, levels: Mapping[str, Level]) -> dict[int, list[Diagnostic]]:
    reviewed = review(run.rules_text, queue=run.queue, queue_manager=run.queue_manager, frozen=True)
    by_line: dict[int, list[Diagnostic]] = defaultdict(list)
    for found in promote(reviewed.diagnostics, levels):
        by_line[found.line].append(found)
    return dict(by_line)


def used_rules(
    run: Run, written: Mapping[int, WrittenRule], ledger: Ledger
) -> tuple[list[dict[str, Any]], int]:
    """Return the rules of a run's table with their use, and how many runs' attempts count.

    Of each rule, `succeeded` counts attempts in the newest runs, `reasons` the failed ones by
    reason code, and `bars` are the newest runs, oldest first. Rule 0 stands for messages that no
    rule decided.
    """
    in_use, table = ledger.rules_in_use, (run.handler, run.rules_digest)
    newest = in_use.newest_runs(*table, MOST_ATTEMPTED)
    succeeded: Counter[int] = Counter()
    reasons: dict[int, Counter[int]] = defaultdict(Counter)
    for (rule, state, mqrc), number in in_use.attempts(newest).items():
        if state is AttemptState.CONFIRMED:
            succeeded[rule] += number
        else:
            reasons[rule][mqrc] += number
    uses = in_use.uses(*table)
    by_rule: dict[int, list[Row]] = defaultdict(list)
    for use in uses:
        by_rule[use.rule].append(use)
    shown = list(dict.fromkeys((use.started_at, use.run_id) for use in uses))[-MOST_BARS:]
    found = []
    for ordinal in [*written, *([0] if by_rule[0] else [])]:
        own, failed = by_rule[ordinal], reasons[ordinal].total()
        outcomes: Counter[Outcome] = Counter()
        by_run: Counter[str] = Counter()
        for use in own:
            outcomes[use.outcome] += use.messages
            by_run[use.run_id] += use.messages
        numbers = [
            (by_run[run_id], f"{at:%Y-%m-%d %H:%M}: {by_run[run_id]:,}") for at, run_id in shown
        ]
        used = {
            "ordinal": ordinal,
            "written": written.get(ordinal, NO_RULE),
            "messages": outcomes.total(),
            "runs": len({use.run_id for use in own}),
            "last_at": max((use.started_at for use in own), default=None),
            "outcomes": {one: outcomes[one] for one in Outcome if outcomes[one]},
            "succeeded": succeeded[ordinal],
            "failed": failed,
            "reasons": reasons[ordinal],
            "is_unused": not (outcomes.total() or succeeded[ordinal] or failed),
            "only_failed": bool(failed) and not succeeded[ordinal],
            "bars": draw_bars(numbers, width=1000, places=MOST_BARS, least=1.0, zero=0),
        }
        found.append(used)
    return found, len(newest)


# The difference of two tables.


Line = tuple[int, int, str]
"""A line with its number in the old and in the new table, 0 in the one that lacks it."""
TableDiff = tuple[list[Line], list[str] | None]
"""The difference of two tables: their lines, and if both are valid, what they mean differently."""


def diff_of(handler: str, chosen: tuple[str, str], ledger: Ledger) -> TableDiff | None:
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
    lines: list[Line] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind == "equal":
            lines += [(i + n + 1, k + n + 1, before[i + n]) for n in range(j - i)]
        else:
            lines += [(n + 1, 0, before[n]) for n in range(i, j)]
            lines += [(0, n + 1, after[n]) for n in range(k, m)]
    tables = [check(text, frozen=True).table for text in (old, new)]
    meaning = None
    if tables[0] and tables[1]:
        meaning = [" -> ".join(each) for each in compare(tables[0], tables[1]).in_words]
    return lines, meaning
