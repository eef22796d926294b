"""The wheel has all of the package, and works outside a checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

PACKAGE = ROOT / "plugins" / "mqdlq"
PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=sys.argv[1])
applications = {task.application for dag in bag.dags.values() for task in dag.tasks
                if hasattr(task, "application")}
print(json.dumps([sorted(bag.dags), bag.import_errors, sorted(applications)]))
"""


def project(directory: Path) -> Any:
    return tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def extras() -> dict[str, list[str]]:
    found: dict[str, list[str]] = project(ROOT)["optional-dependencies"]
    return found


def build(distribution: Path, target: str, directory: Path) -> Path:
    """Build a wheel or a source distribution, and return its file."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    subprocess.run(
        [*command, "--directory", directory], cwd=distribution, check=True, capture_output=True
    )
    (found,) = directory.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return found


@pytest.fixture(scope="module", name="wheel")
def _wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", name="installed")
def _installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory in which the wheel is installed without the packages it needs."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", target, wheel], check=True, capture_output=True)
    return target


@pytest.fixture(name="outside")
def _outside(installed: Path, tmp_path: Path) -> Outside:
    return Outside(installed, tmp_path)


class Outside:
    """A directory outside the checkout, from which programs see the installed package."""

    def __init__(self, installed: Path, directory: Path) -> None:
        self.directory = directory
        self.installed = installed
        kept = {
            name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME") if name in os.environ
        }
        self.environment = {
            **kept,
            "PYTHONPATH": str(installed),
            "AIRFLOW_HOME": str(directory / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        }

    def run(self, *arguments: str | Path, code: int = 0) -> str:
        """Run this Python with arguments; return its output."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    def handler(self, directory: Path) -> Path:
        """Write a handler to a new directory."""
        directory.mkdir(parents=True)
        (directory / "orders.rules").write_text("INPUTQ(DLQ)\nREASON(2053) ACTION(RETRY)\n")
        (directory / "orders.yaml").write_text("connection: mq\nrules: orders.rules\n")
        return directory


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if ".dist-info/" not in name}

    wanted = {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == wanted
    assert {
        "mqdlq/errors.toml",
        "mqdlq/reading/report/report.html",
        "mqdlq/ledger/migrations/versions/r0001_create_the_ledger.sql",
        "mqdlq/evaluation/applications/evaluate_rules.py",
    } <= packed


def test_the_wheel_declares_its_entry_points_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        (entries,) = (name for name in file.namelist() if name.endswith("entry_points.txt"))
        declared = file.read(entries).decode()
        names = file.namelist()

    for group in (
        "console_scripts",
        "airflow.plugins",
        "airflow.policy",
        "apache_airflow_provider",
    ):
        assert f"[{group}]" in declared
    assert [name.rpartition("/")[2] for name in names if "/licenses/" in name] == [
        "LICENSE",
        "NOTICE",
    ]


def test_the_extra_embedded_names_the_version_that_is_built_beside_the_wheel() -> None:
    ours, embedded = project(ROOT), project(ROOT / "embedded_mq")

    assert ours["version"] == embedded["version"]
    pin = f"embedded-mq[cli]=={embedded['version']}"
    assert pin in ours["optional-dependencies"]["embedded"]


def test_every_requirement_has_a_lower_and_an_upper_bound() -> None:
    optional = [line for lines in extras().values() for line in lines]

    open_ended = [
        line
        for line in [*project(ROOT)["dependencies"], *optional]
        if line != "mqdlq[airflow]" and "==" not in line and not (">=" in line and "<" in line)
    ]
    assert open_ended == []
    assert set(extras()) == {
        "airflow",
        "spark",
        "postgres",
        "s3",
        "pymqi",
        "ibmmq",
        "embedded",
        "page",
        "mcp",
        "lsp",
    }


def test_the_page_of_the_package_lists_every_extra() -> None:
    page = (ROOT / "docs" / "reference" / "package.md").read_text(encoding="utf-8")

    listed = re.findall(r"(?m)^\| `(\w+)` \|", page)
    assert sorted(listed) == sorted(extras())


def test_pyspark_is_here_without_pyspark_client_that_would_write_over_it() -> None:
    assert version("pyspark").startswith("4.3.")
    with pytest.raises(PackageNotFoundError):
        version("pyspark-client")


def test_the_extra_spark_brings_the_pandas_that_pyspark_asks_for_without_pyspark_client() -> None:
    """PySpark's mapInArrow asks for it, though PySpark does not require it."""
    asks = Path(str(distribution("pyspark").locate_file("pyspark/sql/pandas/utils.py")))

    assert 'minimum_pandas_version = "2.2.0"' in asks.read_text(encoding="utf-8")
    assert "pandas<4,>=2.2; extra == 'spark'" in (requires("mqdlq") or ())


def test_commands_of_an_installed_package_need_no_checkout(outside: Outside) -> None:
    handlers = outside.handler(outside.directory / "airflow" / "mqdlq" / "handlers")
    message = outside.directory / "message.json"
    message.write_text('{"dlh_reason": 2053}\n')

    mqdlq = outside.installed / "bin" / "mqdlq"

    place = outside.run("-c", "import mqdlq; print(mqdlq.__file__)")
    checked = outside.run(mqdlq, "rules", "check", handlers)
    rules = str(handlers / "orders.rules")
    explained = outside.run(mqdlq, "explain", "--rules", rules, "--format", "json", message)
    found = outside.run("-c", "from mqdlq import directories as d; print(d.rules_directory())")
    revision = outside.run("-m", "mqdlq.ledger")
    outside.run("-m", "mqdlq.evaluation.workers", "mqdlq.zip")

    assert place == f"{outside.installed}/mqdlq/__init__.py\n"
    assert "orders" in checked
    assert json.loads(explained)["chain"] == [2]
    assert found == f"{handlers}\n"
    assert revision.strip()
    assert (outside.directory / "airflow" / "mqdlq" / "ledger.db").is_file()
    with zipfile.ZipFile(outside.directory / "mqdlq.zip") as archive:
        assert "mqdlq/evaluation/applications/evaluate_rules.py" in archive.namelist()


def test_init_outside_a_checkout_writes_the_files_of_a_handler(outside: Outside) -> None:
    mqdlq = outside.installed / "bin" / "mqdlq"

    printed = outside.run(mqdlq, "init", "dlq", "--queue-manager", "QM1")
    checked = outside.run(mqdlq, "rules", "check", "dlq/handlers")
    definitions = outside.run(
        "-c",
        "from mqdlq.local import demo as d; print(open(d.DEFINITIONS, encoding='utf-8').read())",
    )

    assert "  dlq/handlers/qm1.yaml\n" in printed
    assert "warning" not in checked
    assert "ALTER QMGR DEADQ" in definitions


@pytest.mark.airflow
def test_three_lines_have_the_dags_of_an_installed_package(outside: Outside) -> None:
    handlers = outside.handler(outside.directory / "handlers")
    dags = outside.directory / "dags"
    dags.mkdir()
    (dags / "dlq.py").write_text(
        "from mqdlq.airflow import handler_dags\n\n"
        f"globals().update(handler_dags({str(handlers)!r}))\n"
    )

    answer = json.loads(outside.run("-c", PARSE, dags).splitlines()[-1])

    applications = outside.installed / "mqdlq" / "evaluation" / "applications"
    assert answer == [
        ["mq_dlq_history", "mq_dlq_orders", "mq_dlq_restore"],
        {},
        [str(applications / "dlq_history.py"), str(applications / "evaluate_rules.py")],
    ]
