"""The action for other repositories: its commands run as they are written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

GOOD = "REASON(MQRC_Q_FULL) ACTION(RETRY)\nACTION(IGNORE)\n"
WRONG = "REASON(MQRC_Q_FUL) ACTION(RETRY)\n"


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return found


def run(step: str, directory: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step of the action as a runner does, with the defaults of other inputs."""
    declared = action()
    (found,) = [one for one in declared["runs"]["steps"] if one.get("name") == step]
    assert found["shell"] == "bash"
    values = {
        **{f"inputs.{name}": one["default"] for name, one in declared["inputs"].items()},
        **{f"inputs.{name}": value for name, value in inputs.items()},
        "steps.python.outputs.python-path": sys.executable,
        "github.action_path": str(ROOT),
    }
    variables = {
        name: re.sub(r"\$\{\{ (.*?) \}\}", lambda part: values[part[1]], text)
        for name, text in found["env"].items()
    }
    script = directory / "step.sh"
    script.write_text(found["run"], encoding="utf-8")
    return subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", script],
        cwd=directory,
        env={"PATH": os.environ["PATH"], "RUNNER_TEMP": str(directory), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(name="workspace")
def _workspace(tmp_path: Path) -> Path:
    """Return a directory with a table, and this installation where the action has its own."""
    (tmp_path / "mqdlq" / "bin").mkdir(parents=True)
    (tmp_path / "mqdlq" / "bin" / "mqdlq").symlink_to(Path(sys.executable).with_name("mqdlq"))
    (tmp_path / "include" / "rules").mkdir(parents=True)
    (tmp_path / "include" / "rules" / "orders.rules").write_text(GOOD)
    return tmp_path


def found_in(file: Path) -> list[tuple[str, str, int]]:
    (log,) = json.loads(file.read_text(encoding="utf-8"))["runs"]
    places = [(one, one["locations"][0]["physicalLocation"]) for one in log["results"]]
    return [
        (one["ruleId"], place["artifactLocation"]["uri"], place["region"]["startLine"])
        for one, place in places
    ]


def test_valid_tables_pass_with_an_empty_log(workspace: Path) -> None:
    done = run("Check", workspace)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "include/rules/orders.rules: 2 rules\n"
    assert found_in(workspace / "mqdlq.sarif") == []


def test_a_table_with_an_error_fails_and_is_in_the_log_by_its_path(workspace: Path) -> None:
    (workspace / "a table.rules").write_text(WRONG)
    paths = "include/rules\na table.rules\n"

    done = run("Check", workspace, paths=paths, sarif="found.sarif")

    assert done.returncode == 1
    assert "a table.rules:1:8: unknown symbolic name MQRC_Q_FUL" in done.stdout
    assert found_in(workspace / "found.sarif") == [("unknown-name", "a%20table.rules", 1)]


def test_a_path_that_does_not_exist_fails(workspace: Path) -> None:
    done = run("Check", workspace, paths="nowhere")

    assert done.returncode == 2
    assert "nowhere" in done.stderr


@pytest.mark.long
def test_the_action_installs_what_it_needs_from_its_own_source(tmp_path: Path) -> None:
    installed = run("Install mqdlq", tmp_path)
    assert installed.returncode == 0, installed.stderr
    (tmp_path / "orders.rules").write_text(GOOD)

    done = run("Check", tmp_path, paths="orders.rules")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "orders.rules: 2 rules\n"


def test_the_page_shows_the_inputs_that_the_action_has() -> None:
    page = (ROOT / "docs" / "how-to" / "write-rules.md").read_text(encoding="utf-8")
    block = re.search(r"```yaml\n(jobs:.*?)```", page, re.DOTALL)

    assert block
    steps = yaml.safe_load(block[1])["jobs"]["rules"]["steps"]
    (ours,) = [step for step in steps if "mqdlq@" in step["uses"]]
    assert set(ours["with"]) <= set(action()["inputs"])
    assert steps[-1]["with"]["sarif_file"] == action()["inputs"]["sarif"]["default"]
