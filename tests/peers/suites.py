"""Which test suites of other projects are run, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Suite:
    """A suite: where it is from, and how it is run.

    `source` is a requirement of pip's with the digest of its source distribution, or the address of
    a repository and its commit, or "" for this directory. `tests` is the place in it. `packages`
    are installed for the suite, beside those of this project, and without their own needs.
    """

    name: str
    about: str
    source: str
    tests: str
    packages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_of_git(self) -> bool:
        return "://" in self.source


SUITES: Final = (
    Suite(
        "ibmmq",
        "ibmmq 2.1.2, its own tests",
        "ibmmq==2.1.2"
        " --hash=sha256:b9fc092f9ffa2ddf03e49558c726f458cab9e74a260a0cc2da2b944f5a27adcc",
        "code/tests",
        packages=("ddt==1.7.2",),
    ),
    Suite(
        "pymqi",
        "pymqi 1.12.11, its own tests, with pymqi 1.12.13",
        "https://github.com/dsuch/pymqi@16184a62f368fde6eaa17d80c818be1b2d4bdbe9",
        "code/tests",
        packages=("ddt==1.7.2",),
        variables={"PYMQI_TEST_QM_NAME": "QM1"},
    ),
    Suite(
        "official provider",
        "apache-airflow-providers-ibm-mq 0.1.0, its own tests, with ibmmq 2.1.2",
        "apache-airflow-providers-ibm-mq==0.1.0"
        " --hash=sha256:9a4f1611ba9493f1968f92cba05a78c349b36213c5fa4680dce7dfe113a81b1b",
        "tests/unit",
        packages=("apache-airflow-providers-ibm-mq==0.1.0", "pytest-asyncio==1.5.0"),
        options=("-p", "pytest_asyncio"),
    ),
    Suite(
        "faststream-mq",
        "faststream-mq 0.3.0 with ibmmq 2.1.2: our stories, as its distribution has no tests",
        "",
        "faststream_stories.py",
        packages=("faststream-mq==0.3.0", "faststream==0.7.8", "fast-depends==3.0.9"),
    ),
)

EXPLAINED: Final[Mapping[str, str]] = {
    "test_connect_with_wrong_credentials": "an embedded queue manager checks no passwords",
    "test_failing_connect_without_required_credentials": "the same",
}
"""Why a test failed, by its name without the file."""


def read_results() -> dict[str, dict[str, Any]]:
    """Return the outcomes by the names of suites: counts, refusals by text, and failed tests."""
    found: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def summary(outcomes: Mapping[str, str]) -> dict[str, Any]:
    """Return what is kept of the outcomes of tests."""
    refused = [one.partition(": ")[2] for one in outcomes.values() if one.startswith("refused")]
    return {
        "passed": sum(one == "passed" for one in outcomes.values()),
        "skipped": sum(one == "skipped" for one in outcomes.values()),
        "refused": {text: refused.count(text) for text in sorted(set(refused))},
        "failed": sorted(test for test, one in outcomes.items() if one == "failed"),
    }


def table() -> str:
    """Return the table of the page about the coverage of the MQI."""
    lines = [
        "| suite | passed | refused aloud | failed | skipped | what is refused, or fails |",
        "|---|---|---|---|---|---|",
    ]
    results = read_results()
    lines += [_row(suite, results[suite.name]) for suite in SUITES if suite.name in results]
    return "\n".join(lines) + "\n"


def _row(suite: Suite, result: Mapping[str, Any]) -> str:
    refused = [f"{number}: {text}" for text, number in result["refused"].items()]
    failed = [f"`{name}`: {EXPLAINED[name]}" for name in map(short, result["failed"])]
    numbers = (
        result["passed"],
        sum(result["refused"].values()),
        len(result["failed"]),
        result["skipped"],
    )
    cells = [suite.about, *map(str, numbers), "<br>".join([*refused, *failed])]
    return f"| {' | '.join(cells)} |"


def short(test: str) -> str:
    """Return a test's name without its file and its parameters."""
    return test.rpartition("::")[2].partition("[")[0]
