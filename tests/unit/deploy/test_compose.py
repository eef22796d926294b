"""Test that docker-compose.yaml, .env.example, the Dockerfile and the files they name agree.

No container runs here. Other tests run the parts that need none: Docker Compose reads the compose
file, the MQSC files run on the embedded queue manager, the database script on PostgreSQL.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.deploy.compose_file import (
    COMPOSE_FILE,
    PROJECT,
    compose,
    dockerfile,
    make_secrets,
    services,
    variables,
)

VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)([^}]*)\}")
TOOLS = PROJECT / ".tools" / "lib"


def targets(service: dict[str, Any]) -> set[str]:
    """Return where a service's secrets are mounted."""
    given = service.get("secrets", ())
    return {one if isinstance(one, str) else str(one["target"]) for one in given}


# The compose file by itself


@pytest.mark.parametrize("profiles", ["mq", "embedded", "mq,s3", "mq,test"])
def test_the_compose_file_is_valid_by_the_compose_specification(
    profiles: str, tmp_path: Path
) -> None:
    """Docker Compose checks a file against the specification's JSON schema before all else."""
    program = next(TOOLS.glob("python3*/site-packages/compose/docker-compose"), None)
    if program is None:
        pytest.skip("Docker Compose is not installed: make check-deploy")
    settings = tmp_path / "env"
    text = (PROJECT / ".env.example").read_text(encoding="utf-8")
    settings.write_text(text + f"\nCOMPOSE_PROFILES={profiles}\n", encoding="utf-8")

    done = subprocess.run(
        [program, "--env-file", settings, "--file", COMPOSE_FILE, "config", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name not in variables()},
    )

    assert (done.returncode, done.stderr) == (0, "")
    wanted = {
        name
        for name, service in services().items()
        if not service.get("profiles") or set(service["profiles"]) & set(profiles.split(","))
    }
    assert set(json.loads(done.stdout)["services"]) == wanted


def test_env_example_has_exactly_the_variables_of_the_compose_file() -> None:
    used = VARIABLE.findall(COMPOSE_FILE.read_text(encoding="utf-8"))

    assert {name for name, _ in used} == set(variables()) - {"COMPOSE_PROFILES"}
    # Only the example contains default values.
    assert {rest for _, rest in used} == {""}


def test_every_port_is_open_on_loopback_only() -> None:
    ports = [port for service in services().values() for port in service.get("ports", ())]

    assert len(ports) == 6
    assert [port for port in ports if not re.fullmatch(r"127\.0\.0\.1:\$\{\w+\}:\d+", port)] == []


def test_images_are_pinned_by_version() -> None:
    images = {name: value for name, value in variables().items() if name.endswith("_IMAGE")}

    assert len(images) == 5
    assert all(re.search(r":\D*\d+\.\d|:RELEASE\.\d", image) for image in images.values())


def test_our_image_is_built_and_never_pulled() -> None:
    ours = {name: s for name, s in services().items() if s["image"] == "${MQDLQ_IMAGE}"}

    assert {s["pull_policy"] for s in ours.values()} == {"never"}
    # IBM's client is downloaded for this platform only.
    assert {s["platform"] for s in ours.values()} == {"linux/amd64"}
    assert "-IBM-MQC-Redist-LinuxX64.tar.gz" in dockerfile()


def test_a_stopped_scheduler_waits_for_its_tasks() -> None:
    """The image's dumb-init would pass SIGTERM on to the tasks; they have two minutes to end."""
    scheduler = services()["airflow-scheduler"]

    assert scheduler["environment"]["DUMB_INIT_SETSID"] == "0"
    assert scheduler["stop_grace_period"] == "2m"


def test_every_service_has_resource_limits_and_a_health_check() -> None:
    one_shot = {"airflow-init", "mq-embedded", "tests"}

    assert [n for n, s in services().items() if not s["deploy"]["resources"]["limits"]] == []
    assert {n for n, s in services().items() if "healthcheck" not in s} == one_shot
    assert {n for n, s in services().items() if s["restart"] == "no"} == one_shot


def test_our_services_run_without_privileges_on_a_read_only_image() -> None:
    ours = {name: s for name, s in services().items() if s["image"] == "${MQDLQ_IMAGE}"}

    assert len(ours) == 10
    for name, service in ours.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_spark_may_execute_files_that_it_unpacks() -> None:
    """The JVM unpacks its codecs to /tmp and maps them; Docker's default for a tmpfs is `noexec`.

    Without the codecs no plan can be written: "failed to map segment from shared object".
    """
    runs_spark = {"airflow-scheduler", "spark-master", "spark-worker-1", "spark-worker-2", "tests"}
    executable = {
        name
        for name, service in services().items()
        for mount in service.get("tmpfs", ())
        if re.fullmatch(r"/tmp:(.*,)?exec(,.*)?", mount)  # noqa: S108 (a container's)
    }

    assert executable == runs_spark


def test_the_directory_of_the_mq_clients_error_log_exists_in_every_service_that_connects() -> None:
    """The client does not create it (IBM MQ docs, "Redistributable clients on Linux")."""
    found = re.search(r"MQ_OVERRIDE_DATA_PATH=(\S+)", dockerfile())
    assert found
    connecting = [name for name in services() if "airflow" in name or name == "tests"]

    assert len(connecting) == 6
    for name in connecting:
        assert f"{found[1]}:mode=1777" in services()[name]["tmpfs"], name
    # For an image that runs without the compose file.
    assert re.search(rf"install --directory --owner airflow .*{found[1]}(\s|$)", dockerfile())


def test_no_command_and_no_check_is_the_text_of_a_shell() -> None:
    given = [
        service.get(key, []) for service in services().values() for key in ("command", "entrypoint")
    ]
    checks = [
        service["healthcheck"]["test"]
        for service in services().values()
        if "healthcheck" in service
    ]

    assert [words for words in given if not isinstance(words, list) or "-c" in words] == []
    assert {check[0] for check in checks} == {"CMD"}


# The compose file and the files it names


def test_make_secrets_creates_every_secret_of_the_compose_file() -> None:
    """No variable contains a secret, and each container gets only the secrets that it reads."""
    made = {str(secret["file"]).rpartition("/")[2] for secret in compose()["secrets"].values()}
    module = make_secrets()

    assert made - {"${MQDLQ_CONNECTIONS}"} == set(compose()["secrets"]) - {"connections"}
    # Secrets that a mounted script or the image itself reads.
    elsewhere = {
        "postgres": {"airflow_database_password", "ledger_password"},
        "mq": {"mqAppPassword", "mqAdminPassword"},
        "tests": {"mq_app_password"},
    }
    for name, service in services().items():
        text = json.dumps({k: service.get(k) for k in ("environment", "command")})
        read = set(re.findall(r"/run/secrets/([\w.]+)", text))
        assert read | elsewhere.get(name, set()) == targets(service), name
    assert not re.search(r"(?i)(password|secret|token)\s*[:=]\s*[A-Za-z0-9]{8,}$", _texts())
    assert module.make.__doc__


def _texts() -> str:
    return COMPOSE_FILE.read_text(encoding="utf-8") + dockerfile()


def test_secrets_are_created_once_in_a_private_directory(tmp_path: Path) -> None:
    directory = tmp_path / "secrets"
    made = make_secrets().make(directory)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    wanted = set(compose()["secrets"]) - {"connections"}
    assert set(made) == wanted | {"connections-mq.json", "connections-embedded.json"}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert len(before["airflow_fernet_key"]) == 44
    assert before["ledger_password"] in before["ledger_url"]
    assert make_secrets().make(directory) == []
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_every_mounted_file_exists() -> None:
    mounted = [
        volume.partition(":")[0]
        for service in services().values()
        for volume in service.get("volumes", ())
        if volume.startswith(".")
    ]

    assert [path for path in mounted if not (PROJECT / path).exists()] == []


def test_the_program_reads_every_mqdlq_setting_of_the_compose_file() -> None:
    environment = set(services()["airflow-scheduler"]["environment"])
    environment |= set(re.findall(r"\b(MQDLQ_\w+)=", dockerfile()))
    source = (PROJECT / "plugins" / "mqdlq" / "directories.py").read_text(encoding="utf-8")

    read = set(re.findall(r"\"(MQDLQ_\w+)\"", source))
    assert {name for name in environment if name.startswith("MQDLQ_")} <= read
