"""Test the workflows: their commands exist here, their actions are pinned, their rights are few."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.matrix.cells import NEXT, covering_cells, select
from tests.proof.cells import CLIENTS, IMAGES, TRANSPORTS
from tests.support.paths import ROOT

GITHUB = ROOT / ".github"
OVERRIDE = ROOT / "deploy" / "mq" / "prove.compose.yaml"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONS = sorted((GITHUB / "actions").glob("*/action.yml"))
OFFERED = ROOT / "action.yml"
"""The action for other repositories, which have none of our targets and scripts."""
COMMAND = re.compile(r"make (?P<target>[\w-]+)|bash (?P<script>\S+)")
PINNED = re.compile(
    r"uses: (?P<action>[\w.-]+/[\w./-]+)@(?P<commit>[0-9a-f]{40}) # (?P<version>v\d+\.\d+\.\d+)$"
)
USES = re.compile(r"(?m)^\s*-? ?(uses: .*)$")
RIGHTS = {
    "release.yml": {
        "attest": {"id-token", "attestations"},
        "upload": {"id-token"},
        "image": {"packages", "id-token", "attestations"},
        "release": {"contents"},
    }
}
"""The rights to write that a job of a workflow needs."""


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read(path)["jobs"]
    return found


def steps() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every step with the name of its file."""
    for path in WORKFLOWS:
        for job in jobs(path).values():
            yield from ((path.name, step) for step in job.get("steps", ()))
    for path in ACTIONS:
        yield from ((path.parent.name, step) for step in read(path)["runs"]["steps"])


def targets() -> set[str]:
    return set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))


def test_every_shell_step_is_a_make_target_or_a_script_of_the_repository() -> None:
    commands = [(file, step["run"]) for file, step in steps() if "run" in step]

    assert len(commands) > 5
    for file, command in commands:
        found = COMMAND.fullmatch(command)
        assert found, f"{file}: {command!r} is not a make target or a script"
        if found["target"]:
            assert found["target"] in targets(), f"{file}: {command!r} has no target"
        else:
            assert (ROOT / found["script"]).is_file(), f"{file}: {command!r} has no script"


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS, OFFERED], ids=lambda path: path.name)
def test_every_action_is_pinned_by_its_commit_with_its_version(path: Path) -> None:
    for line in USES.findall(path.read_text(encoding="utf-8")):
        local = line.removeprefix("uses: ./")
        if local != line:
            assert (ROOT / local).exists(), f"{path.name}: {local} does not exist"
        else:
            assert PINNED.fullmatch(line), f"{path.name}: {line}"


def test_an_action_is_pinned_to_one_commit_everywhere() -> None:
    found: dict[str, set[tuple[str, str]]] = {}
    for path in (*WORKFLOWS, *ACTIONS, OFFERED):
        for line in USES.findall(path.read_text(encoding="utf-8")):
            if pin := PINNED.fullmatch(line):
                found.setdefault(pin["action"], set()).add((pin["commit"], pin["version"]))

    assert {action: pins for action, pins in found.items() if len(pins) > 1} == {}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_has_no_right_that_it_does_not_need(path: Path) -> None:
    assert read(path)["permissions"] == {}
    may_write = {
        name: {right for right, value in job["permissions"].items() if value == "write"}
        for name, job in jobs(path).items()
    }

    assert {name: rights for name, rights in may_write.items() if rights} == RIGHTS.get(
        path.name, {}
    )
    assert all(
        set(job["permissions"]) - may_write[name] <= {"contents"}
        for name, job in jobs(path).items()
    )


def test_a_checkout_leaves_no_credentials_behind() -> None:
    checkouts = [step for _, step in steps() if "actions/checkout@" in step.get("uses", "")]

    assert checkouts
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_every_job_has_a_time_limit() -> None:
    without = [
        f"{path.name}: {name}"
        for path in WORKFLOWS
        for name, job in jobs(path).items()
        if "timeout-minutes" not in job and "uses" not in job
    ]

    assert without == []


def test_the_matrix_for_ibm_mq_has_the_rows_of_the_page() -> None:
    job = jobs(GITHUB / "workflows" / "ibm-mq.yml")["prove"]

    assert job["strategy"]["matrix"] == {
        "image": list(IMAGES.values()),
        "client": list(CLIENTS),
        "transport": list(TRANSPORTS),
    }
    assert jobs(GITHUB / "workflows" / "ci.yml")["prove"]["strategy"]["matrix"] == {
        "client": list(CLIENTS)
    }


def test_ci_runs_the_cells_of_released_versions() -> None:
    job = jobs(GITHUB / "workflows" / "ci.yml")["matrix"]
    chosen = [cell for part in job["strategy"]["matrix"]["cells"] for cell in select([part])]

    assert sorted(chosen) == sorted(covering_cells())


def test_a_workflow_tries_the_next_versions_each_week_and_may_write_nothing() -> None:
    path = GITHUB / "workflows" / "pre-releases.yml"
    (job,) = jobs(path).values()

    # YAML reads the key `on` as a truth value.
    (scheduled,) = yaml.safe_load(path.read_text(encoding="utf-8"))[True]["schedule"]
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", scheduled["cron"])
    assert [step["env"] for step in job["steps"] if step.get("run") == "make matrix"] == [
        {"CELLS": NEXT}
    ]
    assert job["permissions"] == {"contents": "read"}


def test_the_image_of_the_compose_file_is_among_those_of_the_proof() -> None:
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    found = re.search(r"(?m)^MQ_IMAGE=(.*)$", text)

    assert found
    assert found[1] in IMAGES.values()


def test_the_proof_in_containers_reads_the_variables_of_the_workflow() -> None:
    job = jobs(GITHUB / "workflows" / "ibm-mq.yml")["prove"]
    (environment,) = [step["env"] for step in job["steps"] if "run" in step]
    override = read(OVERRIDE)
    script = (ROOT / "deploy" / "container-proof.sh").read_text(encoding="utf-8")

    assert set(environment) == {"MQ_LICENSE", "MQ_IMAGE", "CLIENT", "TRANSPORT"}
    assert set(override["services"]["tests"]["environment"]) == {"CLIENT", "TRANSPORT"}
    assert set(re.findall(r"\$\{(CLIENT|TRANSPORT):-", script)) == {"CLIENT", "TRANSPORT"}
    for clients, name in ((CLIENTS, "CLIENT"), (TRANSPORTS, "TRANSPORT")):
        assert f"${{{name}:-{' '.join(clients)}}}" in script
