"""What the benchmarks measure against: floors of the same run, and the ratios to reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class Target(NamedTuple):
    """A number of a benchmark's result, found by its `path`, and the most that it should be."""

    what: str
    floor: str
    path: tuple[str, ...]
    most: float


TARGETS: Final = (
    Target(
        "whole run, each further message, processor time",
        "batched loop of the same client",
        ("whole_run", "ratio_to_plain_loop"),
        1.3,
    ),
    Target(
        "approve, settle and report, processor time",
        "execute of the same run",
        ("whole_run", "approve_settle_report_to_execute"),
        0.1,
    ),
    Target(
        "memory of a run, MiB more",
        "a run of fewer messages",
        ("whole_run", "peak_MiB_grows_by"),
        100,
    ),
    Target(
        "ledger, bytes for a message that a rule moved",
        "none",
        ("whole_run", "ledger_bytes_of_a_message"),
        400,
    ),
    Target(
        "parse of the DAG file, many handlers, nothing changed",
        "one handler; 1,000 DAGs of empty tasks are beside it",
        ("parsing", "ratio_of_parses"),
        20,
    ),
    Target(
        "start of a task beside many handlers",
        "one handler",
        ("parsing", "ratio_of_task_starts"),
        1.1,
    ),
    Target(
        "`mqdlq run` of 10 messages, processor time",
        "seven empty tasks, one a spark-submit, run the same way",
        ("fixed_cost", "ratio"),
        1.2,
    ),
    Target(
        "dead letter put to delivered, `schedule: event`, elapsed time",
        "seven empty tasks, one a spark-submit, started by an asset event",
        ("events", "ratio"),
        1.2,
    ),
    Target(
        "dead letter put to noticed, `schedule: event`, seconds",
        "none",
        ("events", "noticed_s"),
        2,
    ),
    Target(
        "page of one of 4,300 causes, ms of processor time",
        "none; the home page is beside it",
        ("causes", "causes_ms"),
        300,
    ),
)


def build_table(measured: Mapping[str, Any]) -> str:
    """Return the targets of the benchmarks that were run, as a Markdown table."""
    rows = [_row_of(each, measured) for each in TARGETS if each.path[0] in measured]
    if not rows:
        return ""
    head = ("what", "floor or peer of the same run", "measured", "at most", "reached")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows))


def _row_of(target: Target, measured: Mapping[str, Any]) -> tuple[str, ...]:
    found: Any = measured
    for key in target.path:
        found = found[key]
    reached = "yes" if found <= target.most else "no"
    return target.what, target.floor, f"{found:,.4g}", f"{target.most:g}", reached
