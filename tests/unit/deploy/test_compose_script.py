"""Test deploy/compose.sh and the files it prepares, without a Docker engine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mqdlq import directories

pytestmark = pytest.mark.slow

PROJECT = directories.PROJECT
IBM_MQ = {
    "COMPOSE_PROFILES": "mq",
    "MQ_CLIENT": "ibm",
    "MQDLQ_CONNECTIONS": "connections-mq.json",
}
ACCEPTED = {**IBM_MQ, "MQ_LICENSE": "accept"}


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """Copy the files that the script needs; add a `docker` that records its arguments."""
    place = tmp_path / "project"
    shutil.copytree(PROJECT / "deploy", place / "deploy", ignore=shutil.ignore_patterns("secrets"))
    shutil.copy(PROJECT / ".env.example", place)
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\necho "$@" $MQDLQ_TARGET >>{tmp_path}/asked\n', encoding="utf-8")
    docker.chmod(0o755)
    return place


def compose(place: Path, verb: str, **environment: str) -> tuple[int, str, str]:
    """Run the script; return its exit code, the recorded calls of Docker, and standard error."""
    done = subprocess.run(
        ["/bin/bash", place / "deploy" / "compose.sh", verb],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{place.parent}/bin:/usr/bin:/bin", **environment},
    )
    asked = place.parent / "asked"
    return done.returncode, asked.read_text() if asked.exists() else "", done.stderr


@pytest.mark.parametrize("verb", ["up", "down", "test"])
def test_a_missing_docker_engine_is_reported_in_one_sentence(verb: str, place: Path) -> None:
    (place.parent / "bin" / "docker").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")

    assert compose(place, verb) == (
        1,
        "",
        (
            "No Docker engine answers here, and docker-compose.yaml needs one (with Compose 2.24 or"
            " newer), or podman (docs/how-to/deploy.md#podman); `make run` handles the demo's"
            " dead letters without.\n"
        ),
    )
    assert not (place / ".env").exists()


def test_ibm_mq_starts_only_where_its_licence_is_accepted(place: Path) -> None:
    code, asked, complaint = compose(place, "up", **IBM_MQ)

    assert (code, asked) == (1, "info\n")
    assert complaint.endswith("or do without IBM MQ, as .env.example does\n")


def test_the_profile_mq_needs_an_image_with_ibms_client(place: Path) -> None:
    assert compose(place, "up", COMPOSE_PROFILES="mq", MQ_LICENSE="accept") == (
        1,
        "info\n",
        (
            "the profile mq needs IBM's client in the image: set MQ_CLIENT=ibm and"
            " MQDLQ_CONNECTIONS=connections-mq.json in .env\n"
        ),
    )


def test_another_program_than_docker_reads_the_compose_file(place: Path) -> None:
    """`docker info` is not asked: where podman is the engine, there may be no docker."""
    (place.parent / "bin" / "docker").rename(place.parent / "bin" / "docker-compose")

    assert compose(place, "up", COMPOSE="docker-compose") == (
        0,
        "up --build --detach --wait\n",
        "",
    )


def test_an_environment_variable_overrides_the_env_file(place: Path) -> None:
    """Docker Compose itself has the same order."""
    secrets = place.parent / "elsewhere"

    assert compose(place, "up", MQDLQ_SECRETS=str(secrets)) == (
        0,
        "info\ncompose up --build --detach --wait\n",
        "",
    )
    assert (secrets / "connections-embedded.json").exists()
    assert not (place / "deploy" / "secrets").exists()


def test_the_production_image_is_built_for_ibm_mq_too(place: Path) -> None:
    assert compose(place, "up", **ACCEPTED)[:2] == (
        0,
        "info\ncompose up --build --detach --wait\n",
    )


def test_compose_test_runs_only_with_the_profile_mq(place: Path) -> None:
    code, asked, complaint = compose(place, "test")

    assert (code, asked) == (1, "info\n")
    assert complaint == (
        "compose-test is about IBM MQ, and the profile mq is not among COMPOSE_PROFILES"
        " (embedded); `make test` has the other tests\n"
    )
    _, asked, _ = compose(place, "test", **ACCEPTED)
    # Without --profile, which would override COMPOSE_PROFILES and remove the service mq.
    assert asked.endswith(
        "info\ncompose up --build --detach --wait trial\ncompose run --rm tests trial\n"
    )


@pytest.mark.parametrize(
    ("image", "password"),
    [("mq:9.3.5.1-r2", "given"), ("mq:9.4.5.1-r1", ""), ("mq:10.0.0.5-r1", "")],
)
def test_compose_prove_starts_its_own_queue_manager_and_ends_it(
    place: Path, image: str, password: str
) -> None:
    """Images of IBM MQ 9.3 read the password of `app` from a variable, later ones a secret."""
    docker = place.parent / "bin" / "docker"
    docker.write_text(
        docker.read_text()
        + f'[ "$1" = info ] || echo "${{MQ_APP_PASSWORD:+given}}" >{place}/password\n'
        '[ "$6" != run ] || exit 1\n'
    )

    code, asked, complaint = compose(place, "prove", **ACCEPTED, MQ_IMAGE=f"icr.io/{image}")

    files = "compose --file docker-compose.yaml --file deploy/mq/prove.compose.yaml"
    assert asked.splitlines() == [
        "info",
        f"{files} down --volumes trial",
        f"{files} build airflow-init trial",
        f"{files} up --detach --wait mq trial",
        f"{files} run --rm tests trial",
        f"{files} down --volumes trial",
    ]
    assert code == 1, "the proof failed"
    assert (place / "password").read_text().strip() == password
    assert (place / "deploy/secrets/tls/client/key.p12").exists()
    assert (place / "var/proof").is_dir()
    assert [line for line in complaint.splitlines() if not line.startswith("MQ_IMAGE is")] == []


def test_an_env_file_older_than_its_example_is_reported(place: Path) -> None:
    """`.env` is created once; after an upgrade the example has more variables and new versions."""
    example = (place / ".env.example").read_text()
    older = [
        line.replace("python3.11", "python3.10")
        for line in example.splitlines()
        if not line.startswith(("MQDLQ_LAKE", "AIRFLOW_PARALLELISM"))
    ]
    (place / ".env").write_text("\n".join(older) + "\n")

    code, asked, complaint = compose(place, "up", **ACCEPTED)

    image = next(line for line in example.splitlines() if line.startswith("AIRFLOW_IMAGE="))
    value = image.partition("=")[2]
    assert (code, asked) == (1, "info\n")
    assert complaint == (
        f"AIRFLOW_IMAGE is {value.replace('python3.11', 'python3.10')}; .env.example has {value}\n"
        ".env has no AIRFLOW_PARALLELISM MQDLQ_LAKE: take over what .env.example says\n"
    )


def test_secrets_are_made_before_anything_is_installed(tmp_path: Path) -> None:
    """The script needs only the standard library."""
    script = PROJECT / "deploy" / "make-secrets.py"
    done = subprocess.run(
        [sys.executable, "-I", "-S", script, tmp_path], capture_output=True, text=True, check=True
    )

    assert f"made {tmp_path}/ledger_url\n" in done.stdout
    assert (tmp_path / "ledger_url").read_text(encoding="utf-8") not in done.stdout
