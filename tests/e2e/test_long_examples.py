"""The examples of the commands that start an Airflow run, after the demo has run once."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sysconfig
from pathlib import Path

import pytest

from tests.e2e.test_demo import MQDLQ, call, fill, run_demo
from tests.support.declared_commands import THROUGH_AIRFLOW, declared_commands, example_script

pytestmark = [pytest.mark.e2e, pytest.mark.long]

EXAMPLE_RUN = "demo-manual__2026-11-21T05-12-45.514631"
PATH = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])


@pytest.fixture(scope="module", name="home")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("examples")
    fill(home, "ibmmq")
    assert run_demo(home, "ibmmq").returncode == 0
    return home


# A backfill needs the services, and snapshots of scheduled runs: test_long_backfill.py.
@pytest.mark.parametrize("path", sorted(THROUGH_AIRFLOW - {("backfill",)}), ids=" ".join)
def test_the_examples_of_a_command_run_through_airflow(
    path: tuple[str, ...], home: Path, tmp_path: Path
) -> None:
    archived = json.loads(call(home, MQDLQ, "restore", "list", "--format", "json").stdout)
    program = example_script(path).replace(EXAMPLE_RUN, archived["archived"][0]["run"])

    # In an empty directory: an example may write files.
    here = f"cd {shlex.quote(str(tmp_path))}\n{program}"
    done = call(home, shutil.which("bash") or "bash", "-euc", here, PATH=PATH)

    assert done.returncode == 0, f"{program}\n{done.stdout}\n{done.stderr}"


def test_every_command_that_starts_an_airflow_exists() -> None:
    assert {path for path, _ in declared_commands()} >= THROUGH_AIRFLOW
