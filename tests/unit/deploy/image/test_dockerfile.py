"""Test what the Dockerfile promises, and that it agrees with the files that it names.

No image is built here. The step that downloads IBM's client runs with archives of this test.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.deploy.compose_file import PROJECT, dockerfile, services, variables

STAGES = ("mq-client", "environment", "production", "trial", "")


def instructions() -> Iterator[tuple[str, str, str]]:
    """Yield each instruction with its stage: the stage, the keyword, the arguments."""
    text = re.sub(r"(?m)^\s*#.*\n", "", dockerfile()).replace("\\\n", "")
    stage = "before"
    for line in filter(None, text.splitlines()):
        keyword, _, arguments = line.partition(" ")
        if keyword == "FROM":
            stage = arguments.partition(" AS ")[2]
        yield stage, keyword, " ".join(arguments.split())


def locked(package: str) -> str:
    text = (PROJECT / "requirements.lock").read_text(encoding="utf-8")
    found = re.search(rf"(?m)^{package}==(\S+)", text)
    assert found
    return found[1]


def test_each_stage_that_runs_ends_as_a_numeric_user_other_than_root() -> None:
    users = {stage: given for stage, keyword, given in instructions() if keyword == "USER"}

    assert dict.fromkeys(("environment", "production", "trial"), "50000") == users
    assert [stage for stage, keyword, _ in instructions() if keyword == "FROM"] == [*STAGES]


def test_every_file_of_the_image_comes_from_the_project_or_by_a_checksum() -> None:
    """No ADD fetches an address; one step downloads a file, and compares its checksum."""
    found = list(instructions())
    downloads = [
        (stage, run) for stage, keyword, run in found if re.search(r"\b(curl|wget) -", run)
    ]

    assert {keyword for _, keyword, _ in found} == {
        *("ARG", "COPY", "ENV", "FROM", "LABEL", "RUN", "SHELL", "USER", "WORKDIR")
    }
    ((stage, run),) = downloads
    assert stage == "mq-client"
    assert run.index("curl ") < run.index("sha256sum ") < run.index("tar --extract")
    bases = [given for _, keyword, given in found if keyword == "FROM"]
    assert [base.partition(" ")[0] for base in bases] == [
        *("debian:12.11-slim", "${AIRFLOW_IMAGE}", "${AIRFLOW_IMAGE}", "production", "production")
    ]


def test_other_users_than_root_cannot_change_the_program() -> None:
    copied = [given for _, keyword, given in instructions() if keyword == "COPY"]

    assert [given for given in copied if "--chown" in given or "--chmod" in given] == []


def test_no_secret_is_an_argument_or_a_variable_of_the_image() -> None:
    names = {
        name
        for _, keyword, given in instructions()
        if keyword in {"ARG", "ENV", "LABEL"}
        for name in re.findall(r"([\w.-]+)(?:=|$)", given)
    }

    assert len(names) > 30
    assert [name for name in names if re.search("(?i)password|secret|token|credential", name)] == []


def test_the_image_has_the_labels_of_the_oci_specification() -> None:
    ((stage, given),) = [(s, given) for s, keyword, given in instructions() if keyword == "LABEL"]
    labels = dict(re.findall(r"([\w.-]+)=\"([^\"]*)\"", given))
    arguments = dict(re.findall(r"(?m)^ARG (\w+)=(\S+)$", dockerfile()))
    prefix = "org.opencontainers.image."

    assert stage == "production"
    assert {name.removeprefix(prefix) for name in labels} == {
        *("title", "description", "version", "revision", "created", "source", "licenses"),
        *("base.name", "mqdlq.mq-client", "mqdlq.mq-client.version"),
    }
    used = {name for value in labels.values() for name in re.findall(r"\$\{(\w+)", value)}
    assert used <= set(arguments)
    ibms = " AND LicenseRef-IBM-MQ-redistributable-client"
    assert labels[prefix + "licenses"] == f"Apache-2.0${{MQ_CLIENT:+{ibms}}}"
    project = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'description = "{labels[prefix + "description"]}"' in project
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    for name in ("VERSION", "REVISION", "CREATED", "SOURCE"):
        assert f"--build-arg {name}=" in makefile


def unpack(
    place: Path, version: str, checksum: str, client: str = "ibm"
) -> subprocess.CompletedProcess[str]:
    """Run the step that downloads the MQ client, with the archives of a directory."""
    (step,) = [
        run for stage, keyword, run in instructions() if keyword == "RUN" and "curl -" in run
    ]
    (place / "work").mkdir()
    return subprocess.run(
        ["/bin/bash", "-eo", "pipefail", "-c", step],
        cwd=place / "work",
        env={
            "PATH": "/usr/bin:/bin",
            "MQ_CLIENT": client,
            "MQ_CLIENT_VERSION": version,
            "MQ_CLIENT_SHA256": checksum,
            "MQ_CLIENT_SITE": place.as_uri(),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def archive(place: Path, version: str) -> str:
    """Write an archive of the MQ client; return its checksum."""
    (place / "bin").mkdir()
    (place / "bin" / "genmqpkg.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    target = place / f"{version}-IBM-MQC-Redist-LinuxX64.tar.gz"
    with tarfile.open(target, "w:gz") as file:
        file.add(place / "bin", "bin")
    return hashlib.sha256(target.read_bytes()).hexdigest()


@pytest.mark.parametrize("version", ["9.4.0.5", "10.0.0.0"])
def test_the_client_is_unpacked_if_its_checksum_is_the_given_one(
    tmp_path: Path, version: str
) -> None:
    done = unpack(tmp_path, version, archive(tmp_path, version))

    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["bin"]


def test_an_image_with_the_embedded_queue_manager_downloads_nothing_of_ibms(tmp_path: Path) -> None:
    done = unpack(tmp_path, "no version", "no checksum", client="")

    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "work").iterdir()) == []


def test_the_build_refuses_a_client_that_it_does_not_know(tmp_path: Path) -> None:
    (step,) = [run for _, keyword, run in instructions() if keyword == "RUN" and "*) echo" in run]
    done = subprocess.run(
        ["/bin/bash", "-ec", step],
        env={"PATH": str(tmp_path), "MQ_CLIENT": "ibmmq"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (
        1,
        "MQ_CLIENT is 'ibmmq': set it to ibm, or to nothing\n",
    )


@pytest.mark.parametrize("given", ["", "5398c48756e80f1cbba86d17d75a55d18f9164bafa6b48eb7f501efc"])
def test_a_client_with_another_checksum_fails_the_build(tmp_path: Path, given: str) -> None:
    found = archive(tmp_path, "10.0.0.0")

    done = unpack(tmp_path, "10.0.0.0", given)

    assert done.returncode == 1
    assert done.stderr == (
        f"the archive of MQ client 10.0.0.0 has the SHA-256 {found}, and MQ_CLIENT_SHA256 is"
        f" '{given}': compare both with the checksum at IBM Fix Central, and set MQ_CLIENT_SHA256"
        " to that\n"
    )
    assert not (tmp_path / "work" / "bin").exists()


def test_dockerfile_and_project_pin_the_same_versions() -> None:
    arguments = dict(re.findall(r"(?m)^ARG (\w+)=(\S+)$", dockerfile()))
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    project = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")

    assert arguments["MQ_CLIENT"] == "ibm"
    assert "MQ_CLIENT" in services()["airflow-init"]["build"]["args"]
    for name in ("AIRFLOW_IMAGE", "MQ_CLIENT_VERSION", "MQ_CLIENT_SHA256"):
        assert arguments[name] == variables()[name], name
        assert name in services()["airflow-init"]["build"]["args"]
    assert arguments["AIRFLOW_IMAGE"] == (
        f"apache/airflow:slim-{locked('apache-airflow')}-python3.11"
    )
    assert f"UV_VERSION := {arguments['UV_VERSION']}\n" in makefile
    assert f'version = "{arguments["VERSION"]}"\n' in project
    for name in ("MQ_CLIENT_SHA256", "UV_SHA256"):
        assert re.fullmatch(r"[0-9a-f]{64}", arguments[name])
    # pip and uv install only packages pinned by a hash, and this project itself.
    installs = re.findall(r"pip install ([^&\n]*)", re.sub(r"\\\n", " ", dockerfile()))
    assert len(installs) == 6
    assert [options for options in installs if "--require-hashes" not in options] == [
        f"--quiet --python .venv/bin/python --no-deps --no-build-isolation {ours} "
        for ours in ("--editable .", "./embedded_mq; }", "--editable ./embedded_mq")
    ]
    version = variables()["MQDLQ_IMAGE"].partition(":")[2]
    assert f'version = "{version}"' in project


def test_dockerfile_and_makefile_set_up_the_project_by_the_same_commands() -> None:
    """No image is built here; `make set-up` runs these commands with the development lock."""
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    makefile = makefile.replace("requirements-dev.lock", "requirements.lock")
    for name, place in {"UV": ".venv/bin/uv", "BIN": ".venv/bin"}.items():
        makefile = makefile.replace(f"$({name})", place)
    commands = re.findall(
        r"(?m)^\t@(?:\{ )?(\.venv/bin/(?:uv pip install|"
        r"python (?:deploy/pymqi|-m mqdlq\.local\.class)).*?)"
        r"(?: 2>&1;.*)?$",
        re.sub(r"\s*\\\n\s*", " ", makefile),
    )
    image = re.sub(r"\s*\\\n\s*", " ", dockerfile()).replace(" --quiet", "")

    of_the_tools = [command for command in commands if ".tools" in command]
    needed = [one.replace(" --quiet", "") for one in commands if one not in of_the_tools]
    assert len(needed) == 5
    assert [command for command in needed if command not in image] == []


def test_the_image_contains_every_file_that_the_services_use() -> None:
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


def test_the_production_image_has_neither_embedded_queue_manager_nor_tools() -> None:
    stages = re.split(r"(?m)^FROM (\S+(?: AS \S+)?)$", dockerfile())
    production, trial, default = (
        stages[stages.index(name) + 1]
        for name in ("${AIRFLOW_IMAGE} AS production", "production AS trial", "production")
    )
    environment = stages[stages.index("${AIRFLOW_IMAGE} AS environment") + 1]

    assert default.strip() == ""
    for needed in ("COPY embedded_mq", "requirements-dev.lock"):
        assert needed in trial
        assert needed not in production
    assert "requirements-dev.lock" not in environment
    assert environment.count("./embedded_mq") == 1
    assert re.search(r"\[ \"\$\{MQ_CLIENT\}\" = ibm \] \|\|[^;]* \./embedded_mq;", environment)
    assert "rm -r embedded_mq\n" in environment
    assert services()["airflow-init"]["build"]["target"] == "${MQDLQ_TARGET}"
    assert variables()["MQDLQ_TARGET"] == "production"


def test_only_the_program_is_copied_into_the_image() -> None:
    lines = (PROJECT / ".dockerignore").read_text(encoding="utf-8").splitlines()

    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", dockerfile())
    assert lines[1] == "*"
    assert let_in == {name for names in copied for name in names.split()}
