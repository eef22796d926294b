"""Test the result files of the proof, and the table that is made of them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from mqdlq.tools.certify.behaviours import BEHAVIOURS
from tests.proof import page
from tests.proof.__main__ import _add_to
from tests.proof.cells import CLIENTS, EMBEDDED, PROOFS, Cell, cells
from tests.proof.results import FILE, Counts, Result, merge, read_all
from tests.support.paths import ROOT

KNOWN = {"a_quiescing_queue_manager_refuses_calls", *(one.name for one in BEHAVIOURS)}

PASSED = Counts(10, 0, 2)
RESULT = Result(
    is_embedded=False,
    command_level=945,
    version="09040501",
    platform="Unix",
    client="ibmmq",
    client_version="2.1.2",
    mq_client="9.4.0.5",
    transport="tls",
    cipher="ANY_TLS12_OR_HIGHER",
    date="2026-11-20",
    mqdlq="0.1.0",
    proofs=dict.fromkeys(PROOFS, PASSED),
)
JUNIT = """\
<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10" time="1.0">
<testcase classname="a" name="b"/></testsuite></testsuites>
"""


def write(result: Result, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    result.write(directory / FILE)
    return directory / FILE


@pytest.mark.parametrize(
    ("level", "release"), [(930, "9.3"), (935, "9.3"), (945, "9.4"), (1000, "10.0"), (1001, "10.0")]
)
def test_the_queue_managers_command_level_names_the_row(level: int, release: str) -> None:
    assert replace(RESULT, command_level=level).cell == Cell(release, "ibmmq", "tls")


def test_errors_of_tests_count_as_failed(tmp_path: Path) -> None:
    report = tmp_path / "contract.xml"
    report.write_text(JUNIT, encoding="utf-8")

    assert Counts.of_junit_file(report) == Counts(passed=4, failed=3, skipped=3)


@pytest.mark.parametrize("counts", [Counts(9, 1, 0), Counts(0, 0, 12)])
def test_a_proof_without_a_passed_test_has_failed(counts: Counts) -> None:
    assert not RESULT.has_failed
    assert replace(RESULT, proofs={**RESULT.proofs, "kills": counts}).has_failed


def test_a_newer_result_replaces_the_older_one_of_its_row(tmp_path: Path) -> None:
    newer, older = replace(RESULT, date="2026-11-21", mqdlq="0.2.0"), RESULT
    found = [write(result, tmp_path / result.date) for result in (newer, older)]
    results = tmp_path / "results"
    results.mkdir()

    assert merge(found, results) == ["9.4-ibmmq-tls", "9.4-ibmmq-tls"]
    assert merge(found[1:], results) == ["9.4-ibmmq-tls"]

    assert read_all(results) == {"9.4-ibmmq-tls": newer}


def test_a_file_that_is_not_a_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text('{"proofs": {}, "colour": "green"}', encoding="utf-8")

    with pytest.raises(ValueError, match=r"result\.json is not a result of `make prove`: .*colour"):
        merge([path], tmp_path)


def test_a_row_shows_failed_tests_first() -> None:
    counts = {**RESULT.proofs, "demo": Counts(0, 1, 0)}
    rows = page.table({"9.4-ibmmq-tls": replace(RESULT, proofs=counts)}).splitlines()

    assert (
        "| IBM MQ 9.4 (9.4.5.1, Unix) | ibmmq 2.1.2 with MQ client 9.4.0.5"
        " | TCP with TLS, ANY_TLS12_OR_HIGHER"
        " | 10 passed, 2 skipped | **1 failed**, 0 passed | 10 passed, 2 skipped"
        " | 10 passed, 2 skipped | 2026-11-20, mqdlq 0.1.0 |"
    ) in rows
    assert (
        "| IBM MQ 10.0 | pymqi | TCP | not yet run | not yet run | not yet run | not yet run |  |"
    ) in rows
    assert len(rows) == 2 + len(cells())


def test_a_result_from_another_queue_manager_has_its_own_row() -> None:
    other = replace(RESULT, command_level=920, version="09020012", platform="Windows")

    rows = page.table({other.cell.name: other}).splitlines()

    assert len(rows) == 2 + len(cells()) + 1
    assert rows[-1].startswith("| IBM MQ 9.2 (9.2.0.12, Windows) | ibmmq 2.1.2 with")


def test_the_page_shows_the_committed_results() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.document(), "run `make proved-on`"


def test_a_record_has_no_more_than_certify_writes_and_no_names() -> None:
    assert page.read_records()
    for name, record in page.read_records().items():
        assert record["record"] == "mqdlq certify", name
        assert not {"queue_manager", "scratch_prefix", "host", "user"} & set(record), name
        assert {one["name"] for one in record["behaviours"]} <= KNOWN, name


def test_each_difference_of_a_record_became_a_test() -> None:
    tests = tomllib.loads(page.RECORDS.with_name("differences.toml").read_text(encoding="utf-8"))

    differing = {name for one in page.read_records().values() for name in page.differences(one)}
    assert set(tests) == differing
    for test in tests.values():
        file, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8")


def test_a_difference_of_a_record_is_named_in_its_row() -> None:
    (record, *_) = page.read_records().values()
    (first, *others) = record["behaviours"]
    changed = {**record, "differs": 1, "behaviours": [{**first, "result": "differs"}, *others]}

    assert page.differences(changed) == [first["name"]]
    assert page.differences(record) == []


def test_a_proof_that_runs_again_keeps_the_counts_of_the_others() -> None:
    again = replace(RESULT, date="2026-11-23", proofs={"demo": Counts(1, 0, 0)})

    added = _add_to(RESULT, again)

    assert added == replace(again, proofs={**RESULT.proofs, "demo": Counts(1, 0, 0)})
    assert list(added.proofs) == list(PROOFS)
    assert _add_to(replace(RESULT, mqdlq="0.0.9"), again) == again


def test_every_proof_has_passed_on_the_embedded_queue_manager() -> None:
    results = read_all(page.RESULTS)

    for client in CLIENTS:
        result = results[Cell(EMBEDDED, client, EMBEDDED).name]
        assert result.proofs.keys() == PROOFS.keys()
        assert not result.has_failed
    assert {name: result.cell.name for name, result in results.items()} == {
        name: name for name in results
    }
