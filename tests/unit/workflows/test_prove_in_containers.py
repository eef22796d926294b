"""Test the compose file of `make compose-prove`, which needs no container for that."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.unit.deploy.compose_file import COMPOSE_FILE, variables

OVERRIDE = ROOT / "deploy" / "mq" / "prove.compose.yaml"
TOOLS = ROOT / ".tools" / "lib"


@pytest.fixture(name="merged", scope="module")
def _merged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Let Docker Compose merge both files."""
    program = next(TOOLS.glob("python3*/site-packages/compose/docker-compose"), None)
    if program is None:
        pytest.skip("Docker Compose is not installed: make check-deploy")
    settings = tmp_path_factory.mktemp("compose") / "env"
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    settings.write_text(f"{text}\nCOMPOSE_PROFILES=mq,test\n", encoding="utf-8")
    files = ["--file", str(COMPOSE_FILE), "--file", str(OVERRIDE)]
    outside = {name: value for name, value in os.environ.items() if name not in variables()}

    done = subprocess.run(
        [program, "--env-file", settings, *files, "config", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        env={**outside, "MQ_PORT": "0", "MQ_CONSOLE_PORT": "0"},
    )

    assert (done.returncode, done.stderr) == (0, "")
    services: dict[str, Any] = json.loads(done.stdout)["services"]
    return services


def mounts(service: dict[str, Any]) -> dict[str, Path]:
    return {mount["target"]: Path(mount["source"]) for mount in service["volumes"]}


def test_the_queue_manager_has_the_certificates_where_ibms_container_reads_them(
    merged: dict[str, Any],
) -> None:
    found = mounts(merged["mq"])

    tls = ROOT / "deploy" / "secrets" / "tls"
    assert found["/etc/mqm/pki/keys/mqdlq"] == tls / "queue-manager"
    assert found["/etc/mqm/pki/trust/0"] == tls / "trust"
    assert mounts(merged["tests"])["/run/mqdlq-tls"] == tls / "client"


def test_the_queue_manager_runs_all_definitions_of_the_proof_in_order(
    merged: dict[str, Any],
) -> None:
    found = mounts(merged["mq"])

    definitions = [found[target] for target in sorted(found) if target.endswith(".mqsc")]
    assert [path.relative_to(ROOT).as_posix() for path in definitions] == [
        "include/mqsc/QM1.mqsc",
        "deploy/mq/authorities.mqsc",
        "tests/contract/queues.mqsc",
        "deploy/mq/demo-and-tests.mqsc",
        "deploy/mq/proof-channels.mqsc",
        "tests/proof/queues.mqsc",
    ]
    assert all(path.is_file() for path in definitions)


def test_the_container_of_the_proof_runs_it_and_keeps_its_results(merged: dict[str, Any]) -> None:
    tests = merged["tests"]
    script = tests["command"][-1]

    assert ROOT / Path(script).relative_to("/opt/mqdlq") == ROOT / "deploy" / "container-proof.sh"
    assert mounts(tests)["/opt/mqdlq/var/proof"] == ROOT / "var" / "proof"
    assert set(tests["depends_on"]) == {"mq"}


def test_a_password_is_passed_on_only_if_the_script_sets_it(merged: dict[str, Any]) -> None:
    assert merged["mq"]["environment"]["MQ_APP_PASSWORD"] is None
    assert merged["tests"]["environment"]["CLIENT"] is None
