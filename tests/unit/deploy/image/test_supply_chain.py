"""Test the report on installed packages: unreviewed licences and known vulnerabilities."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import pytest

from mqdlq import directories


@pytest.fixture(name="report")
def _report() -> Any:
    place = directories.PROJECT / "deploy" / "supply_chain.py"
    spec = importlib.util.spec_from_file_location("supply_chain", place)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def package(name: str, licence: str, version: str = "1.0") -> dict[str, str]:
    return {"Name": name, "Version": version, "License": licence}


def test_an_unreviewed_licence_is_reported(report: Any) -> None:
    taken = [package("b", "MIT License"), package("a", "Apache-2.0")]
    strange = [package("c", "AGPL-3.0"), package("d", "UNKNOWN"), package("e", "GPL-2.0")]

    assert report.unaccepted(taken + strange) == strange
    assert report.as_table(taken) == (
        "| package | version | licence |\n|---|---|---|\n"
        "| a | 1.0 | Apache-2.0 |\n| b | 1.0 | MIT License |\n"
    )


def test_the_page_of_licences_has_every_package_of_the_lock(report: Any) -> None:
    lock = (directories.PROJECT / "requirements.lock").read_text(encoding="utf-8")
    page = report.PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| ([a-z0-9-]+) \| ([^|]+) \| ([^|]+) \|$", page)
    listed = [package(name, licence, version) for name, version, licence in rows]

    packages = report.of_the_lock(lock, listed)
    assert page == report.as_page(packages), "run `make supply-chain`"
    assert len(packages) > 150
    assert report.unaccepted(packages) == []
    assert set(report.REMARKS) == {
        found["Name"] for found in packages if report.COPYLEFT.search(found["License"])
    }


def test_a_package_of_the_lock_without_a_known_licence_is_reported(report: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        report.of_the_lock(
            "a==1.0\nnew-one==2.0 ; sys_platform == 'win32'\n", [package("A", "MIT")]
        )

    assert str(ended.value) == (
        "the licence of new-one is unknown, since .venv does not have the package: write it to"
        " ELSEWHERE in deploy/supply_chain.py"
    )


def test_versions_of_a_package_share_a_row(report: Any) -> None:
    found = report.of_the_lock("numpy==2.4.6 ; x\nnumpy==2.5.5 ; y\n", [package("NumPy", "BSD")])

    assert found == [package("numpy", "BSD", "2.4.6, 2.5.5")]


def test_packages_that_could_not_be_checked_are_not_reported_as_safe(report: Any) -> None:
    skipped = {"dependencies": [{"name": "a", "skip_reason": "not found"}]}

    assert report.audited("no route to host") == (
        [],
        "known vulnerabilities: not looked for, since pip-audit failed: no route to host",
    )
    assert report.audited(skipped) == (
        [],
        (
            "known vulnerabilities: not looked for, since the database of PyPI's advisories cannot"
            " be reached from here (none of 1 packages was found in it)"
        ),
    )


def test_a_vulnerability_is_reported_with_the_version_that_fixes_it(report: Any) -> None:
    vulns = [{"id": "CVE-1", "fix_versions": ["1.1"]}, {"id": "CVE-2", "fix_versions": []}]
    found = {
        "dependencies": [
            {"name": "a", "version": "1.0", "vulns": vulns},
            {"name": "b", "version": "2.0", "vulns": []},
            {"name": "c", "skip_reason": "not found"},
        ]
    }
    faults = ["a 1.0: CVE-1, fixed in 1.1", "a 1.0: CVE-2, fixed in no version"]

    assert report.audited(found) == (
        faults,
        "\n".join(["known vulnerabilities: 2 in 2 of 3 packages", *faults]),
    )
