"""Test the choice of versions that are tested together, and what is declared to be supported."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.matrix.cells import (
    AHEAD,
    RECREATED,
    RELEASED,
    VERSIONS,
    Cell,
    Result,
    covering_cells,
    is_done,
    outcome,
    read_results,
    record,
    select,
    supported,
    without_spark,
)
from tests.support.paths import ROOT

NEWEST = covering_cells()[0]
OLDEST = Cell("3.11", "3.3.2", "4.0.4", "pymqi", "none")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EVERY_MINOR = {"airflow": [f"3.{n}" for n in range(9)], "spark": [f"4.{n}" for n in range(9)]}


def result(cell: Cell = NEWEST, failed_at: str = "", tests: str = "3 passed") -> Result:
    return Result(
        *(cell, failed_at, "2026-11-22", 60, "0f" * 6, RECREATED),
        *({"numpy": "2.0"}, "demo 1 passed", tests),
    )


def test_each_pair_of_versions_of_two_axes_is_in_a_cell() -> None:
    cells = covering_cells()

    for one, other in combinations(Cell._fields, 2):
        met = {(getattr(cell, one), getattr(cell, other)) for cell in cells}
        assert met == set(product(VERSIONS[one], VERSIONS[other])), (one, other)


def test_the_cells_are_about_as_few_as_the_two_longest_axes_allow() -> None:
    longest, second, *_ = sorted(map(len, VERSIONS.values()), reverse=True)

    assert len(covering_cells()) == len(set(covering_cells())) <= longest * second + 2


def test_the_release_date_of_each_airflow_version_is_known() -> None:
    assert {cell.airflow for cell in (*covering_cells(), *AHEAD)} == set(RELEASED)


def test_cells_are_selected_by_parts_of_their_names() -> None:
    assert select([]) == covering_cells()
    assert {cell.spark for cell in select(["spark4.1"])} == {"4.1.3"}
    assert select([str(NEWEST), "airflow3.4"]) == [NEWEST, *AHEAD]


def test_a_selection_without_a_cell_is_an_error() -> None:
    with pytest.raises(SystemExit) as refused:
        select(["airflow3.0"])

    names = "".join(f"\n{cell}" for cell in (*covering_cells(), *AHEAD))
    assert str(refused.value) == (
        f"CELLS: no cell has airflow3.0 in its name; these are the cells:{names}"
    )


def test_a_recorded_result_replaces_only_that_of_its_cell(tmp_path: Path) -> None:
    file = tmp_path / "results.json"

    assert read_results(file) == {}
    record(result(), file)
    record(result(OLDEST), file)
    record(result(failed_at="parse"), file)

    assert read_results(file) == {NEWEST: result(failed_at="parse"), OLDEST: result(OLDEST)}


def test_only_a_cell_that_passed_with_the_same_wheel_is_done() -> None:
    wheel = result().wheel

    assert is_done(result(), wheel, with_tests=True)
    assert not is_done(None, wheel, with_tests=True)
    assert not is_done(result(), "another", with_tests=True)
    assert not is_done(result(failed_at="run"), wheel, with_tests=False)
    assert not is_done(result(tests=""), wheel, with_tests=True)
    assert is_done(result(tests=""), wheel, with_tests=False)


def test_an_outcome_names_the_step_that_failed_or_was_left_out() -> None:
    assert outcome(None) == "not run"
    assert outcome(result()) == "passed"
    assert outcome(result(failed_at="install")) == "failed: install"
    assert outcome(result(tests="")) == "passed, without the fast tests"


def test_a_version_is_supported_if_it_passed_in_all_cells_that_were_run() -> None:
    results = {NEWEST: result(), OLDEST: replace(result(OLDEST), failed_at="run")}

    assert supported("spark", results) == ("4.3.0",)
    assert supported("spark", {OLDEST: result(OLDEST), NEWEST: result()}) == ("4.0.4", "4.3.0")


def test_the_cell_chooses_the_version_of_spark_and_not_the_constraints() -> None:
    text = "pyspark==4.1.1\npyspark-client==4.1.1\nnumpy==2.4.6\n"

    assert without_spark(text) == "numpy==2.4.6\n"


def test_the_classifiers_name_the_versions_of_python_that_passed() -> None:
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    passed = supported("python", read_results())

    assert tuple(declared) == passed
    assert PROJECT["requires-python"] == f">={passed[0]}"


@pytest.mark.parametrize(("package", "axis"), [("apache-airflow", "airflow"), ("pyspark", "spark")])
def test_the_declared_range_holds_the_versions_that_passed_and_no_other_minor_version(
    package: str, axis: str
) -> None:
    results = read_results()
    ahead = {getattr(cell, axis) for cell in AHEAD if outcome(results.get(cell)).startswith("pass")}
    passed = [*supported(axis, results), *ahead]
    allowed = _declared(package)

    assert all(allowed.contains(version, prereleases=True) for version in passed)
    assert {version.rpartition(".")[0] for version in passed} == {
        minor for minor in EVERY_MINOR[axis] if allowed.contains(f"{minor}.0")
    }


def _declared(package: str) -> SpecifierSet:
    extras = PROJECT["optional-dependencies"].values()
    requirements = map(
        Requirement, (*PROJECT["dependencies"], *(one for many in extras for one in many))
    )
    (found,) = {str(each.specifier) for each in requirements if each.name == package}
    return SpecifierSet(found)
