"""Test the Markdown that Airflow shows, with names that try to be markup."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mqdlq.model import Outcome
from mqdlq.reading.report.building import Report
from mqdlq.reading.report.markdown import code, link, plain, run_note
from tests.unit.reading.report.ended_runs import EndedRun, bare, delivered, failed_at, unmatched

ReportOf = Callable[..., Report]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("ORDERS.EU", "`ORDERS.EU`"),
        ("", "`(blank)`"),
        ("[a](https://evil.example)", "`[a](https://evil.example)`"),
        ("![a](x)<img src=x>", "`![a](x)<img src=x>`"),
        ("a`b", "``a`b``"),
        ("``a`", "``` ``a` ```"),
        ("a|b\\", "`a\\x7cb\\`"),
        (" a ", "`  a  `"),
        ("a\nb\x1b\u202e", "`a\\nb\\x1b\\u202e`"),
        ("x" * 300, f"`{'x' * 200}…`"),
    ],
)
def test_a_name_is_a_code_span_that_it_cannot_end(name: str, written: str) -> None:
    assert code(name) == written


def test_markup_in_our_own_words_is_escaped() -> None:
    assert plain("a_b *c* <d> [e](f) `g` | ~h~ # &amp; \\") == (
        "a\\_b \\*c\\* \\<d\\> \\[e\\]\\(f\\) \\`g\\` \\| \\~h\\~ \\# \\&amp; \\\\"
    )


@pytest.mark.parametrize("name", ["https://evil.example", "WWW.evil.example", "a@evil.example"])
def test_words_with_an_address_are_a_code_span(name: str) -> None:
    assert plain(f"moved to {name}") == f"`moved to {name}`"


def test_a_link_ends_where_its_address_ends() -> None:
    assert link("the [report]", "/mqdlq/dags/a)(b") == "[the \\[report\\]](/mqdlq/dags/a%29%28b)"


def test_the_note_of_a_run_has_its_state_and_its_headline(report_of: ReportOf) -> None:
    report = report_of(EndedRun([delivered(), unmatched(), bare()]))

    assert run_note(report) == {
        "note": ("Needs attention. 3 messages: 1 handled, 2 need attention. The account adds up."),
        "attention": "2 messages to act on.",
    }


def test_the_note_of_a_run_without_findings_marks_no_task(report_of: ReportOf) -> None:
    report = report_of(EndedRun([delivered()]))

    assert run_note(report) == {
        "note": "Everything is handled. 1 message: 1 handled. The account adds up.",
        "attention": "",
    }


def test_the_note_of_a_failed_run_says_why_without_markup(report_of: ReportOf) -> None:
    error = "MQPUT of queue <img src=x>[a](https://evil.example)` " + "x" * 400
    run = EndedRun([delivered(outcome=Outcome.DELIVERED)])

    note = run_note(report_of(run, failed_at("execute"), error))["note"]

    assert note.startswith(
        "Failed. 1 message: 1 handled. The account adds up. The run failed at execute. Why:"
        " ``stage execute failed: MQPUT of queue <img src=x>[a](https://evil.example)` xxx"
    )
    assert len(note) < 500
