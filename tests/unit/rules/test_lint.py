"""The linter: its warnings about small tables, their places, and severities set by handlers.

``python -m unit.rules.test_lint`` in `tests` writes the expected files, for a review by diff.
"""

from __future__ import annotations

import json
import time
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from mqdlq.cli import app
from mqdlq.constants import reason_text
from mqdlq.rules import Diagnostic, Severity, check, explain, parse
from mqdlq.rules.lint import (
    HOPELESS_REASONS,
    Code,
    Effort,
    find_loops,
    find_unreached,
    lint,
    promote,
    review,
)

CORPUS = sorted((Path(__file__).parents[2] / "corpus" / "rules" / "lint").glob("*.rules"))

assert CORPUS

FULL = "REASON(MQRC_Q_FULL) ACTION(RETRY)\n"
REST = "ACTION(FWD) FWDQ(PARKED)\n"


def said(path: Path) -> str:
    diagnostics = review(path.read_bytes(), path.name).diagnostics
    return "".join(f"{diagnostic}\n" for diagnostic in diagnostics)


def codes(text: str, queue: str = "", queue_manager: str = "") -> list[str]:
    result = review(text, queue=queue, queue_manager=queue_manager)
    return [diagnostic.code for diagnostic in result.diagnostics]


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_each_table_of_the_lint_corpus_has_its_expected_warnings(path: Path) -> None:
    assert said(path) == path.with_suffix(".warnings").read_text(encoding="utf-8")


def test_the_lint_corpus_has_every_code() -> None:
    shown = {
        diagnostic.code for path in CORPUS for diagnostic in review(path.read_bytes()).diagnostics
    }

    assert set(Code) <= shown


def test_a_lint_warning_never_rejects_a_table() -> None:
    for path in CORPUS:
        result = review(path.read_bytes())

        assert result.table == parse(path.read_bytes())
        assert {d.severity for d in result.diagnostics} <= {Severity.WARNING}


def test_a_rejected_table_is_not_linted() -> None:
    text = "ACTION(IGNORE)\nACTION(FWD)\n"

    assert review(text) == check(text)


def test_without_the_source_text_a_warning_is_placed_at_the_line_of_its_rule() -> None:
    table = parse(f"{REST}\n  REASON(2035) ACTION(RETRY)\n")

    assert lint(table, source="a.rules") == (
        Diagnostic(
            severity=Severity.WARNING,
            code="hopeless-retry",
            line=3,
            column=1,
            message=(
                "MQRC_NOT_AUTHORIZED (2035) does not pass by itself (someone must grant the"
                " authority), so every ACTION(RETRY) fails; forward the message to a queue that"
                " someone monitors"
            ),
            path="a.rules",
            source="",
            length=1,
        ),
    )


def test_a_queue_argument_overrides_inputq() -> None:
    text = f"INPUTQ(ONE)\n{FULL}ACTION(FWD) FWDQ(OTHER)\n"

    assert codes(text) == []
    assert codes(text, queue="OTHER") == ["forward-to-input-queue"]
    assert codes("INPUTQ(ONE)\nACTION(FWD) FWDQ(ONE)\n", queue="OTHER") == []


def test_a_queue_manager_argument_overrides_inputqm() -> None:
    text = f"INPUTQM(ONE)\nDESTQM(OTHER) ACTION(FWD) FWDQ(&DESTQ)\n{REST}"

    assert codes(text) == ["dropped-queue-manager"]
    assert codes(text, queue_manager="OTHER") == []


def test_every_hopeless_reason_has_a_symbolic_name() -> None:
    assert all(reason_text(reason).startswith("MQRC_") for reason in HOPELESS_REASONS)
    assert {2030, 2035, 2085} <= set(HOPELESS_REASONS)
    assert not {2051, 2053, 2056, 2192} & set(HOPELESS_REASONS)


def test_a_handler_can_turn_a_warning_into_an_error_or_off() -> None:
    found = review("DESTQ(A)REASON(2035) ACTION(RETRY)\n").diagnostics
    assert [d.code for d in found] == ["no-catch-all", "no-separator", "hopeless-retry"]

    promoted = promote(found, {"hopeless-retry": "error", "no-catch-all": "off", "tab": "error"})

    assert [(d.code, d.severity) for d in promoted] == [
        ("no-separator", Severity.WARNING),
        ("hopeless-retry", Severity.ERROR),
    ]


def test_an_error_cannot_be_turned_off() -> None:
    found = review("ACTION(FWD)\n").diagnostics

    assert promote(found, {"missing-fwdq": "off"}) == found


def test_rules_check_reports_lint_findings_as_warnings_and_exits_with_0() -> None:
    result = CliRunner().invoke(app, ["rules", "check", "--format", "json", "-"], input=FULL)

    (file,) = json.loads(result.stdout)["files"]
    assert (result.exit_code, file["valid"]) == (0, True)
    assert file["diagnostics"] == [
        {
            "severity": "warning",
            "code": "no-catch-all",
            "line": 1,
            "column": 1,
            "message": (
                "a message that no rule matches stays on the queue;"
                " end the table with a rule without patterns, such as ACTION(FWD) FWDQ(PARKED)"
            ),
        }
    ]


RULES = st.builds(
    "{} {} ACTION({})\n".format,
    st.sampled_from(["", "DESTQ(A*)", "DESTQ(AB)", "DESTQ(?*)", "DESTQ(*B)", "DESTQ(' ')"]),
    st.sampled_from(["", "REASON(1)", "REASON(2)"]),
    st.sampled_from(["IGNORE", "DISCARD", "RETRY"]),
)
MESSAGES = [
    {"dlh_dest_q_name": name, "dlh_reason": reason}
    for name in ("", "A", "B", "AB", "BA", "AAB", "Z")
    for reason in (1, 2, 3)
]


@settings(deadline=None)
@given(st.lists(RULES, min_size=1, max_size=6))
def test_no_message_reaches_a_rule_that_the_linter_reports_as_unreachable(rules: list[str]) -> None:
    table = parse("".join(rules))
    unreached = {d.line for d in lint(table) if d.code in ("unreachable-rule", "shadowed-rule")}

    for values in MESSAGES:
        assert not unreached & {rule.line for rule in explain(table, values).chain}


KEYWORDS = ["DESTQ", "DESTQM", "FEEDBACK", "FORMAT", "MSGTYPE", "PERSIST", "REASON", "REPLYQ"]

HOSTILE = {
    "discards that cannot be told apart early": [f"DESTQ(*{n}*)" for n in range(3000)],
    "patterns that are hard to compare": [
        f"DESTQ(*{a}{'?' * n}*{b})" for a, b in combinations("ABCDEFGH", 2) for n in range(20, 40)
    ],
    "every set of columns": [
        " ".join(f"{keyword}({n})" for at, keyword in enumerate(KEYWORDS) if n >> at & 1)
        for n in range(1, 1 << len(KEYWORDS))
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("patterns", HOSTILE.values(), ids=HOSTILE)
def test_linting_a_hostile_table_ends_quickly(patterns: list[str]) -> None:
    table = parse("".join(f"{pattern} +\n ACTION(DISCARD)\n" for pattern in patterns))

    start = time.process_time()
    lint(table)

    assert time.process_time() - start < 10


LOOPS = "DESTQ(A) ACTION(FWD) FWDQ(B)\nDESTQ(B) ACTION(FWD) FWDQ(A)\n"
SHADOWED = "DESTQ(A*) ACTION(DISCARD)\nDESTQ(AB) ACTION(RETRY)\n"


@pytest.mark.parametrize(("allowed", "found"), [(0, 0), (1, 1)])
def test_the_search_for_forwarding_loops_stops_at_its_work_limit(allowed: int, found: int) -> None:
    table = parse(LOOPS)

    assert len(list(find_loops(table, ("DLQ", "QM1"), Effort(allowed)))) == found


@pytest.mark.parametrize(("allowed", "found"), [(0, 0), (1, 0), (2, 1)])
def test_the_search_for_shadowed_rules_stops_at_its_work_limit(allowed: int, found: int) -> None:
    """One unit of work for the columns that rules ask for, one for each rule that asks."""
    assert len(list(find_unreached(parse(SHADOWED), Effort(allowed)))) == found


def write_what_is_expected() -> None:
    for path in CORPUS:
        path.with_suffix(".warnings").write_text(said(path), encoding="utf-8")


if __name__ == "__main__":
    write_what_is_expected()
