"""Install the wheel beside each version of Python, Airflow and Spark, and use it there.

`make matrix` builds the environment of one cell after another with uv: the wheel, under the
constraints of the cell's Airflow version. There it parses a DAG file, proves the contract and the
demo as `make prove` does, and runs the fast tests. It then removes the environment, and records
the result in tests/matrix/results.json. `make docs-pages` writes the page from that file.

A cell that passed with the same wheel is not run again, so an interrupted matrix continues.
The cell `next` has the newest Airflow and Spark that the registry has, pre-releases included,
whether or not mqdlq allows them yet.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.matrix.cells import (
    NEXT,
    OFFICIAL,
    RECREATED,
    RELEASED,
    Cell,
    Result,
    is_done,
    outcome,
    read_results,
    record,
    select,
    without_spark,
)
from tests.proof.results import FILE
from tests.proof.results import Result as Proof
from tests.support.paths import ROOT

PLACE: Final = ROOT / "var" / "matrix"
HANDLERS: Final = ROOT / "include" / "rules"
UV: Final = Path(sys.executable).with_name("uv")
TEST_TOOLS: Final = ("pytest", "pytest-xdist", "hypothesis", "duckdb", "moto[server]", "mkdocs")
"""Packages that the fast tests import and the product does not need."""

LEFT_OUT: Final = ("tests/airflow", "tests/e2e", "tests/spark", "tests/unit/matrix")
"""Tests that are not fast, and tests of the results, which a cell changes."""

EXTRAS: Final = "spark,postgres,embedded"
OF_S3: Final = "moto"
"""It needs botocore, as the extra s3: that allows no python-dateutil 3, as Airflow 3.4.0b2 pins."""

SHOWN: Final = (
    "apache-airflow-core",
    "apache-airflow-providers-apache-spark",
    "apache-airflow-providers-ibm-mq",
    "pyspark",
    "ibmmq",
    "pymqi",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "sqlalchemy",
    "click",
)
"""Packages whose versions are recorded."""

DAG_FILE: Final = """\
from mqdlq.airflow import handler_dags

globals().update(handler_dags({directory!r}))
"""
PROOFS: Final = ("contract", "demo")
"""The proofs of a cell. The others do not depend on the versions of Python, Airflow and Spark."""

TESTED: Final = re.compile(r"(?m)^\d+ passed.*?(?= in )")
OURS: Final = re.compile("AIRFLOW|MQDLQ_|PYTHON|SPARK_|VIRTUAL_ENV")
"""Variables that would change what runs in a cell."""


class StepFailedError(Exception):
    """A step of a cell failed; the text is the step's name."""


class Environment:
    """A cell's virtual environment, and the logs of the commands that run in it."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.directory = PLACE / str(cell)
        self.venv = self.directory / "venv"
        self.python = self.venv / "bin" / "python"
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)

    def run(self, step: str, *command: str | Path, **variables: str) -> str:
        """Run a command; return its output, which the step's log keeps."""
        kept = {name: value for name, value in os.environ.items() if not OURS.match(name)}
        path = os.pathsep.join([str(self.python.parent), os.environ.get("PATH", os.defpath)])
        log = self.directory / f"{step}.log"
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(map(str, command))}\n")
            file.flush()
            done = subprocess.run(
                [str(part) for part in command],
                cwd=ROOT,
                env={**kept, "PATH": path, **variables},
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            raise StepFailedError(step)
        return log.read_text(encoding="utf-8", errors="replace")

    def install(self, wheels: list[Path], constraints: str) -> dict[str, str]:
        """Install the wheels and the cell's versions; return the versions of some packages."""
        cell, allowed = self.cell, self.directory / "constraints.txt"
        is_next = cell.airflow not in RELEASED
        ahead = ("--prerelease", "allow") if "b" in cell.airflow or is_next else ()
        text = without_spark(self._constraints(constraints, ahead))
        allowed.write_text(f"{text}\npyspark=={cell.spark}\n", encoding="utf-8")
        excluded = self.directory / "excluded.txt"
        excluded.write_text("pyspark-client\n", encoding="utf-8")
        self.run("install", UV, "venv", "--quiet", "--seed", "--python", cell.python, self.venv)
        limits: tuple[str | Path, ...] = ("--constraints", allowed, "--excludes", excluded)
        if is_next:
            overrides = self.directory / "overrides.txt"
            overrides.write_text(f"apache-airflow=={cell.airflow}\npyspark=={cell.spark}\n")
            limits = (*limits, "--overrides", overrides)
        add = (UV, "pip", "install", "--quiet", "--python", self.python, *limits)
        ours, embedded = (wheel.as_uri() for wheel in wheels)
        extras = EXTRAS if ahead else f"{EXTRAS},s3"
        product = [f"mqdlq[{extras}] @ {ours}", f"embedded-mq @ {embedded}"]
        if cell.provider != "none":
            product.append(f"apache-airflow-providers-ibm-mq=={cell.provider}")
        tools = [one for one in TEST_TOOLS if not (ahead and one.startswith(OF_S3))]
        self.run("install", *add, *ahead, f"apache-airflow=={cell.airflow}", *product, *tools)
        self.add_pymqi()
        text = self.run("packages", UV, "pip", "list", "--format=json", "--python", self.python)
        found = json.loads(text[text.index("[") : text.rindex("]") + 1])
        return {row["name"]: row["version"] for row in found if row["name"] in SHOWN}

    def add_pymqi(self) -> None:
        """Install the Python layer of pymqi, which needs no SDK of IBM."""
        setuptools = ("--python", self.python, "setuptools")
        self.run("install", UV, "pip", "install", "--quiet", *setuptools)
        lock = ROOT / "requirements-dev.lock"
        self.run("install", self.python, ROOT / "deploy" / "pymqi_layer.py", lock)

    def _constraints(self, template: str, ahead: tuple[str, ...]) -> str:
        cell, compiled = self.cell, self.directory / "airflow.txt"
        if template:
            address = template.format(airflow=cell.airflow, python=cell.python)
            with urllib.request.urlopen(address) as page:  # noqa: S310 (`make matrix` names it)
                return str(page.read().decode())
        source = self.directory / "airflow.in"
        source.write_text(
            f"apache-airflow=={cell.airflow}\napache-airflow-providers-apache-spark\n"
        )
        before = RELEASED.get(cell.airflow)
        newer = ("--exclude-newer", before) if before else ()
        until = (*newer, "--python-version", cell.python)
        quietly = ("--quiet", "--no-header", "--no-annotate", "--output-file", compiled)
        self.run("constraints", UV, "pip", "compile", *until, *ahead, *quietly, source)
        return compiled.read_text(encoding="utf-8")

    def parse(self) -> None:
        """Parse a DAG file; a warning that mqdlq causes is a failure."""
        file = self.directory / "dags.py"
        file.write_text(DAG_FILE.format(directory=str(HANDLERS)))
        script = Path(__file__).with_name("parse_dags.py")
        homes = {
            "MQDLQ_HOME": f"{self.directory}/home",
            "AIRFLOW_HOME": f"{self.directory}/airflow",
        }
        self.run("parse", self.python, script, file, MQDLQ_RULES_DIR=str(HANDLERS), **homes)

    def prove(self) -> str:
        """Prove the contract and the demo through the cell's client; return what passed."""
        directory = self.directory / "proof"
        only = [part for name in PROOFS for part in ("--only", name)]
        client = ("--client", self.cell.client, "--results", directory)
        self.run("proof", self.python, "-m", "tests.proof", *client, *only)
        proofs = Proof.read(directory / FILE).proofs
        return ", ".join(f"{name} {counts.passed} passed" for name, counts in proofs.items())

    def test(self, processes: str) -> str:
        """Run the fast tests of the checkout, over both clients; return how many passed."""
        report = self.run(
            "tests",
            *(self.python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider"),
            # Older packages cause warnings of a newer pytest and of Python.
            *("-p", "no:anyio", "-W", "ignore:SelectableGroups:DeprecationWarning"),
            *(f"--ignore={place}" for place in LEFT_OUT),
            *("-m", "not airflow and not slow", "-n", processes, "--dist", "worksteal"),
        )
        passed = TESTED.search(report)
        return passed[0] if passed else ""

    def remove(self) -> None:
        """Remove everything but the logs."""
        for name in ("venv", "home", "airflow"):
            shutil.rmtree(self.directory / name, ignore_errors=True)


def run_cell(cell: Cell, wheels: list[Path], options: argparse.Namespace) -> Result:
    """Do all steps of a cell, or those before the first that fails."""
    began, environment, wheel = time.monotonic(), Environment(cell), digest(wheels[0])
    failed_at, packages, proof, tests = "", {}, "", ""
    try:
        packages = environment.install(wheels, options.constraints)
        environment.parse()
        proof = environment.prove()
        if not options.without_tests:
            tests = environment.test(options.processes)
    except StepFailedError as error:
        failed_at = str(error)
    finally:
        environment.remove()
    return Result(
        cell=cell,
        failed_at=failed_at,
        date=f"{datetime.now(UTC):%Y-%m-%d}",  # noqa: TID251 (a program's start reads the clock)
        seconds=round(time.monotonic() - began),
        wheel=wheel,
        constraints=OFFICIAL if options.constraints else RECREATED,
        packages=packages,
        proof=proof,
        tests=tests,
    )


def digest(wheel: Path) -> str:
    """Return the beginning of the wheel's SHA-256."""
    return hashlib.sha256(wheel.read_bytes()).hexdigest()[:12]


def find_wheels() -> list[Path]:
    """Return the wheels of mqdlq and of embedded-mq, which `make wheel` has built."""
    found = [[*(ROOT / "dist").glob(f"{name}-*.whl")] for name in ("mqdlq", "embedded_mq")]
    if any(len(wheels) != 1 for wheels in found):
        raise SystemExit("dist/ does not have one wheel each of both distributions: run make wheel")
    return [wheel for (wheel,) in found]


def newest(package: str) -> str:
    """Return the newest version of a package, which may be a pre-release."""
    options = ("--quiet", "--no-header", "--no-annotate", "--no-deps", "--prerelease", "allow")
    done = subprocess.run(
        [UV, "pip", "compile", *options, "-"],
        input=package,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip().partition("==")[2]


def chosen(parts: list[str]) -> list[Cell]:
    """Return the cells that the command line names; `next` is one of versions to come."""
    if parts != [NEXT]:
        return select(parts)
    packages = ("apache-airflow", "pyspark", "apache-airflow-providers-ibm-mq")
    airflow, spark, provider = map(newest, packages)
    return [Cell("3.13", airflow, spark, "ibmmq", provider)]


def main() -> int:
    """Run the cells; return 1 if one failed, or has no interpreter on PATH."""
    options = _options()
    cells, wheels = chosen(options.cells), find_wheels()
    missing = {cell.python for cell in cells if not shutil.which(f"python{cell.python}")}
    for version in sorted(missing):
        sys.stdout.write(f"python{version} is not on PATH: its cells are not run\n")
    has_failed = bool(missing)
    for number, cell in enumerate(cells, 1):
        if cell.python in missing:
            continue
        known = read_results().get(cell)
        if is_done(known, digest(wheels[0]), with_tests=not options.without_tests):
            sys.stdout.write(f"{number}/{len(cells)} {cell}: {outcome(known)} before\n")
            continue
        sys.stdout.write(f"{number}/{len(cells)} {cell}: ")
        sys.stdout.flush()
        result = run_cell(cell, wheels, options)
        record(result)
        sys.stdout.write(f"{outcome(result)}, {result.seconds} s\n")
        if result.failed_at:
            has_failed = True
            sys.stdout.write(f"    see {PLACE / str(cell) / result.failed_at}.log\n")
    return int(has_failed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make matrix",
        description="Run the wheel beside each version of Python, Airflow and Spark.",
        epilog="Example: python -m tests.matrix spark4.1 python3.13-airflow3.3.2",
    )
    parser.add_argument("cells", nargs="*", help="parts of names of cells, or next; else all")
    parser.add_argument(
        "--constraints",
        default="",
        help="the address of Airflow's constraints, with {airflow} and {python} for the versions;"
        " without it, they are recreated from the packages at the release's date",
    )
    parser.add_argument("--without-tests", action="store_true", help="leave out the fast tests")
    parser.add_argument("--processes", default="2", help="processes of the fast tests")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
