"""Results of the proof: a JSON file for each cell, without names, hosts or users."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tests.proof.cells import EMBEDDED, Cell

FILE: Final = "result.json"


@dataclass(frozen=True, slots=True)
class Counts:
    """The tests of one proof. `failed` includes tests that ended with an error."""

    passed: int
    failed: int
    skipped: int

    @classmethod
    def of_junit_file(cls, path: Path) -> Counts:
        """Count the tests of a JUnit XML file."""
        suites = ET.parse(path).getroot().iter("testsuite")  # noqa: S314 (pytest wrote it)
        total = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
        for suite in suites:
            for key in total:
                total[key] += int(suite.get(key, 0))
        failed = total["failures"] + total["errors"]
        return cls(total["tests"] - failed - total["skipped"], failed, total["skipped"])


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one cell: the versions that took part, the date, and the counts.

    `version` is VVRRMMFF, as the queue manager reports it (MQCA_VERSION), `command_level` its
    MQIA_COMMAND_LEVEL. `mq_client` is the version of IBM's C client, if one was used, and `cipher`
    the CipherSpec of the channel. `date` is the UTC date.
    """

    is_embedded: bool
    command_level: int
    version: str
    platform: str
    client: str
    client_version: str
    mq_client: str
    transport: str
    cipher: str
    date: str
    mqdlq: str
    proofs: dict[str, Counts]

    @property
    def cell(self) -> Cell:
        """The cell that the queue manager's own answers say this is."""
        release = f"{self.command_level // 100}.{self.command_level % 100 // 10}"
        return Cell(EMBEDDED if self.is_embedded else release, self.client, self.transport)

    @property
    def has_failed(self) -> bool:
        """Whether a test failed, or a proof has no passed test."""
        return any(counts.failed or not counts.passed for counts in self.proofs.values())

    def write(self, path: Path) -> None:
        """Write the result as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Result:
        """Read a result that `write` wrote; ValueError names the file if it is not one."""
        try:
            keys = json.loads(path.read_text(encoding="utf-8"))
            proofs = {name: Counts(**counts) for name, counts in keys.pop("proofs").items()}
            return cls(**keys, proofs=proofs)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} is not a result of `make prove`: {error}") from error


def read_all(directory: Path) -> dict[str, Result]:
    """Return the results in a directory by the names of their cells."""
    return {path.stem: Result.read(path) for path in sorted(directory.glob("*.json"))}


def merge(found: Iterable[Path], directory: Path) -> list[str]:
    """Copy results into a directory, each under its cell's name; return the names.

    A newer result of a cell replaces an older one. ValueError names a file that is not a result.
    """
    directory.mkdir(exist_ok=True)
    results = sorted((Result.read(path) for path in found), key=lambda result: result.date)
    for result in results:
        target = directory / f"{result.cell.name}.json"
        if not target.exists() or Result.read(target).date <= result.date:
            result.write(target)
    return [result.cell.name for result in results]
