"""The outcomes of other projects' suites: each failure is explained, each refusal is named."""

from __future__ import annotations

from tests.peers.suites import EXPLAINED, SUITES, read_results, short, summary, table


def test_outcomes_are_counted_by_what_was_refused() -> None:
    outcomes = {"a::b": "passed", "a::c": "failed", "a::d": "refused: no", "a::e": "refused: no"}

    assert summary(outcomes) == {
        "passed": 1,
        "skipped": 0,
        "refused": {"no": 2},
        "failed": ["a::c"],
    }


def test_every_suite_has_run_and_each_failed_test_is_explained() -> None:
    results = read_results()

    assert set(results) == {suite.name for suite in SUITES}
    failed = {short(test) for one in results.values() for test in one["failed"]}
    assert failed == set(EXPLAINED)


def test_every_source_is_pinned_by_a_digest_or_a_commit() -> None:
    for suite in SUITES:
        pin = suite.source.rpartition("@" if suite.is_of_git else "--hash=sha256:")[2]
        assert len(pin) == (40 if suite.is_of_git else 64) or not suite.source, suite.name
        assert all("==" in package for package in suite.packages), suite.name


def test_the_table_has_a_row_for_each_suite() -> None:
    rows = table().splitlines()[2:]

    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [
        suite.about for suite in SUITES
    ]
    assert "MQSUB is not emulated" in rows[1]
