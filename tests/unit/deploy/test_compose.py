"""docker-compose.yaml, .env.example, the Dockerfile and what they name: they fit each other.

No container runs here. What can be run without one is: the compose file through Docker Compose's
own reader, the MQSC files on the embedded queue manager, the database script on PostgreSQL.
"""

from __future__ import annotations

import importlib.util
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


def locked(package: str) -> str:
    text = (PROJECT / "requirements.lock").read_text(encoding="utf-8")
    found = re.search(rf"(?m)^{package}==(\S+)", text)
    assert found
    return found[1]


def targets(service: dict[str, Any]) -> set[str]:
    """Return where a service's secrets are mounted."""
    given = service.get("secrets", ())
    return {one if isinstance(one, str) else str(one["target"]) for one in given}


# The compose file by itself


@pytest.mark.parametrize("profiles", ["mq", "embedded", "mq,s3", "mq,test"])
def test_it_is_valid_by_the_compose_specification(profiles: str, tmp_path: Path) -> None:
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


def test_every_variable_is_in_the_example_and_every_one_of_the_example_is_used() -> None:
    used = VARIABLE.findall(COMPOSE_FILE.read_text(encoding="utf-8"))

    assert {name for name, _ in used} == set(variables()) - {"COMPOSE_PROFILES"}
    # One place says what a variable is by default, and that is the example.
    assert {rest for _, rest in used} == {""}


def test_everything_is_published_on_loopback_alone() -> None:
    ports = [port for service in services().values() for port in service.get("ports", ())]

    assert len(ports) == 6
    assert [port for port in ports if not re.fullmatch(r"127\.0\.0\.1:\$\{\w+\}:\d+", port)] == []


def test_images_are_pinned_by_version() -> None:
    images = {name: value for name, value in variables().items() if name.endswith("_IMAGE")}

    assert len(images) == 5
    assert all(re.search(r":\D*\d+\.\d|:RELEASE\.\d", image) for image in images.values())


def test_our_image_is_built_and_never_looked_for_in_a_registry() -> None:
    ours = {name: s for name, s in services().items() if s["image"] == "${MQDLQ_IMAGE}"}

    assert {s["pull_policy"] for s in ours.values()} == {"never"}
    # The only platform of which IBM's client is downloaded.
    assert {s["platform"] for s in ours.values()} == {"linux/amd64"}
    assert "-IBM-MQC-Redist-LinuxX64.tar.gz" in dockerfile()


def test_a_scheduler_that_is_stopped_waits_for_its_tasks() -> None:
    """The image's dumb-init would pass SIGTERM on to them; whoever may wait has two minutes."""
    scheduler = services()["airflow-scheduler"]

    assert scheduler["environment"]["DUMB_INIT_SETSID"] == "0"
    assert scheduler["stop_grace_period"] == "2m"


def test_every_service_has_limits_and_says_when_it_is_ready() -> None:
    one_shot = {"airflow-init", "mq-embedded", "tests"}

    assert [n for n, s in services().items() if not s["deploy"]["resources"]["limits"]] == []
    assert {n for n, s in services().items() if "healthcheck" not in s} == one_shot
    assert {n for n, s in services().items() if s["restart"] == "no"} == one_shot


def test_what_is_ours_runs_without_privileges_on_a_read_only_image() -> None:
    ours = {name: s for name, s in services().items() if s["image"] == "${MQDLQ_IMAGE}"}

    assert len(ours) == 10
    for name, service in ours.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_spark_may_execute_what_it_unpacks() -> None:
    """The JVM unpacks its codecs to /tmp and maps them; Docker mounts a tmpfs `noexec` by itself.

    Without them not one plan is written: "failed to map segment from shared object".
    """
    runs_spark = {"airflow-scheduler", "spark-master", "spark-worker-1", "spark-worker-2", "tests"}
    executable = {
        name
        for name, service in services().items()
        for mount in service.get("tmpfs", ())
        if re.fullmatch(r"/tmp:(.*,)?exec(,.*)?", mount)  # noqa: S108 (a container's)
    }

    assert executable == runs_spark


def test_the_mq_client_finds_the_directory_it_writes_to() -> None:
    """It makes none itself (IBM MQ docs, "Redistributable clients on Linux"), and shares none."""
    found = re.search(r"MQ_OVERRIDE_DATA_PATH=(\S+)", dockerfile())
    assert found
    connecting = [name for name in services() if "airflow" in name or name == "tests"]

    assert len(connecting) == 6
    for name in connecting:
        assert f"{found[1]}:uid=50000,gid=0,mode=0700" in services()[name]["tmpfs"], name
    # Where the image runs without the compose file.
    assert re.search(rf"install --directory --owner airflow .*{found[1]}(\s|$)", dockerfile())


# The compose file and what it names


def test_every_secret_is_a_file_that_is_made() -> None:
    """No variable holds one, and each container is given those it reads and no others."""
    made = {str(secret["file"]).rpartition("/")[2] for secret in compose()["secrets"].values()}
    module = make_secrets()

    assert made - {"${MQDLQ_CONNECTIONS}"} == set(compose()["secrets"]) - {"connections"}
    # Read by a script that is mounted, or by the image itself.
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


def test_secrets_are_made_once_and_are_their_owners_alone(tmp_path: Path) -> None:
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


def test_every_file_that_is_mounted_is_there() -> None:
    mounted = [
        volume.partition(":")[0]
        for service in services().values()
        for volume in service.get("volumes", ())
        if volume.startswith(".")
    ]

    assert [path for path in mounted if not (PROJECT / path).exists()] == []


def test_every_setting_of_ours_is_one_the_program_reads() -> None:
    environment = set(services()["airflow-scheduler"]["environment"])
    environment |= set(re.findall(r"\b(MQDLQ_\w+)=", dockerfile()))
    source = (PROJECT / "plugins" / "mqdlq" / "directories.py").read_text(encoding="utf-8")

    read = set(re.findall(r"\"(MQDLQ_\w+)\"", source))
    assert {name for name in environment if name.startswith("MQDLQ_")} <= read


# The Dockerfile


def test_the_dockerfile_pins_what_the_project_pins() -> None:
    arguments = dict(re.findall(r"(?m)^ARG (\w+)=(\S+)$", dockerfile()))
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")

    for name in ("AIRFLOW_IMAGE", "MQ_CLIENT_VERSION", "MQ_CLIENT_SHA256"):
        assert arguments[name] == variables()[name], name
        assert name in services()["airflow-init"]["build"]["args"]
    assert arguments["AIRFLOW_IMAGE"] == (
        f"apache/airflow:slim-{locked('apache-airflow')}-python3.11"
    )
    assert f"UV_VERSION := {arguments['UV_VERSION']}\n" in makefile
    for name in ("MQ_CLIENT_SHA256", "UV_SHA256"):
        assert re.fullmatch(r"[0-9a-f]{64}", arguments[name])
    # Nothing is installed by pip or uv but what a hash names, and this project itself.
    installs = re.findall(r"pip install ([^&\n]*)", re.sub(r"\\\n", " ", dockerfile()))
    assert len(installs) == 5
    assert [options for options in installs if "--require-hashes" not in options] == [
        f"--quiet --python .venv/bin/python --no-deps --no-build-isolation --editable {ours} "
        for ours in (".", "./embedded_mq")
    ]
    project = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    version = variables()["MQDLQ_IMAGE"].partition(":")[2]
    assert f'version = "{version}"' in project


def test_the_image_is_set_up_by_the_commands_that_make_runs() -> None:
    """Each `make set-up` runs them here, with the lock that develops; no image was built here."""
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    makefile = makefile.replace("requirements-dev.lock", "requirements.lock")
    for name, place in {"UV": ".venv/bin/uv", "BIN": ".venv/bin"}.items():
        makefile = makefile.replace(f"$({name})", place)
    commands = re.findall(
        r"(?m)^\t@(\.venv/bin/(?:uv pip install|python -m mqdlq\.(?:mqi|local\.class)).*)$",
        re.sub(r"\s*\\\n\s*", " ", makefile),
    )
    image = re.sub(r"\s*\\\n\s*", " ", dockerfile())

    of_the_tools = [command for command in commands if ".tools" in command]
    needed = [command for command in commands if command not in of_the_tools]
    assert len(needed) == 5
    assert [command for command in needed if command not in image] == []


def test_the_image_has_what_the_services_use() -> None:
    text = dockerfile()
    volumes = {
        volume.split(":")[1]
        for name, service in services().items()
        if service["image"] == "${MQDLQ_IMAGE}" and name != "tests"
        for volume in service.get("volumes", ())
    }

    assert volumes == {"/opt/airflow", "/var/lib/mqdlq", "/opt/mqdlq/dags", "/opt/mqdlq/include"}
    for path in volumes:
        assert path in text, path
    spark_class = services()["spark-master"]["entrypoint"][-1]
    site = spark_class.partition("/lib/python3.11/site-packages/")[2]
    assert (Path(importlib.util.find_spec("pyspark").origin).parents[1] / site).exists()  # type: ignore[union-attr,arg-type]
    assert "MQDLQ_HOME=/var/lib/mqdlq" in text
    assert variables()["MQDLQ_LAKE"].startswith("/var/lib/mqdlq/")


def test_the_image_of_production_has_neither_the_embedded_queue_manager_nor_tools() -> None:
    stages = re.split(r"(?m)^FROM (\S+(?: AS \S+)?)$", dockerfile())
    production, trial, default = (
        stages[stages.index(name) + 1]
        for name in ("${AIRFLOW_IMAGE} AS production", "production AS trial", "production")
    )
    environment = stages[stages.index("${AIRFLOW_IMAGE} AS environment") + 1]

    assert default.strip() == ""
    for needed in ("embedded_mq", "requirements-dev.lock"):
        assert needed in trial
        assert needed not in production + environment
    assert services()["airflow-init"]["build"]["target"] == "${MQDLQ_TARGET}"
    assert variables()["MQDLQ_TARGET"] == "production"


def test_the_image_ends_with_a_user_who_is_not_root() -> None:
    assert re.findall(r"(?m)^USER (\d+)$", dockerfile())[-1] == "50000"


def test_nothing_but_the_program_goes_into_the_image() -> None:
    lines = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", dockerfile())
    assert lines[1] == "*"
    assert let_in == {name for names in copied for name in names.split()}
