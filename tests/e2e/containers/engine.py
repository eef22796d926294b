"""Podman as the engine of Docker Compose, for a machine with neither Docker nor a registry.

Debian's packages build and run the containers, and Docker Compose (`make check-deploy` installs
it) speaks to podman's socket. What differs from a machine with Docker: the base images are
stand-ins made of packages, and this runs the health checks, which podman leaves to systemd.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from mqdlq import directories
from tests.unit.deploy.compose_file import variables

PROJECT = directories.PROJECT
PLACE = Path(os.environ.get("MQDLQ_CONTAINERS", "/var/tmp/mqdlq-containers"))  # noqa: S108 (large)
"""Images stay here for the next time; the directory may be deleted."""
PROGRAMS = ("podman", "runc", "mmdebstrap", "netavark", "aardvark-dns", "iptables")
INSTALL = (
    "apt-get install --no-install-recommends podman runc netavark aardvark-dns iptables mmdebstrap"
)
SETTINGS = {
    # crun refuses hybrid cgroups, and only netavark has names of containers.
    "containers.conf": """
[network]
network_backend = "netavark"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
[containers]
default_ulimits = ["nofile=10000:10000", "nproc=4096:4096"]
""",
    "storage.conf": """
[storage]
driver = "overlay"
graphroot = "{place}/store"
runroot = "{place}/run"
""",
    "registries.conf": 'unqualified-search-registries = ["docker.io"]\n',
}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# How this machine reaches packages; a build in a container reaches them the same way.
HANDED_IN = ("http_proxy", "https_proxy", "no_proxy", "PIP_INDEX_URL", "UV_DEFAULT_INDEX")
S3_IMAGE = "localhost/s3-server:1"
"""The image of .env.example is named by its digest, which no other image can have."""
CHECKS_EVERY_S = 2
PODMAN = "/usr/bin/podman"


class Engine:
    """Podman with its own store, and its socket for as long as this is open."""

    def __init__(self) -> None:
        PLACE.mkdir(parents=True, exist_ok=True)
        for name, text in SETTINGS.items():
            (PLACE / name).write_text(text.replace("{place}", str(PLACE)), encoding="utf-8")
        socket = f"unix://{PLACE}/socket"
        self.environment = {
            **{name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ},
            "PATH": f"{_compose()}:{os.environ['PATH']}:/usr/sbin:/sbin:/usr/lib/podman",
            "CONTAINERS_CONF": f"{PLACE}/containers.conf",
            "CONTAINERS_STORAGE_CONF": f"{PLACE}/storage.conf",
            "CONTAINERS_REGISTRIES_CONF": f"{PLACE}/registries.conf",
            # Health checks and SHELL are in images of this format only.
            "BUILDAH_FORMAT": "docker",
            "DOCKER_HOST": socket,
            "DOCKER_BUILDKIT": "0",
            "COMPOSE": "docker-compose",
        }
        with (PLACE / "podman.log").open("w") as log:
            self._service = subprocess.Popen(
                [PODMAN, "system", "service", "--time=0", socket],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._ended = threading.Event()
        self._checks = threading.Thread(target=self._check_health, daemon=True)
        self._checks.start()

    def close(self) -> None:
        self._ended.set()
        self._checks.join(timeout=120)
        self._service.terminate()
        self._service.wait(timeout=30)

    def podman(self, *arguments: str, limit_s: float = 300) -> str:
        """Run podman; return what it printed."""
        done = subprocess.run(
            [PODMAN, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
        )
        said = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        assert done.returncode == 0, f"podman {' '.join(arguments)}:\n{said}"
        return done.stdout

    def _check_health(self) -> None:
        while not self._ended.wait(CHECKS_EVERY_S):
            listed = self._quietly("ps", "--quiet", "--filter", "status=running")
            for container in listed.split():
                if not self._ended.is_set():
                    self._quietly("healthcheck", "run", container)

    def _quietly(self, *arguments: str) -> str:
        """Ask podman where the container may have ended meanwhile, or have no health check."""
        try:
            return subprocess.run(
                [PODMAN, *arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                check=False,
                timeout=60,
            ).stdout
        except subprocess.TimeoutExpired:
            return ""

    # -- the base images

    def make_base_images(self) -> None:
        """Make what a registry would serve, unless it is here from the last time."""
        debian = re.search(r"(?m)^FROM (debian:\S+)", (PROJECT / "Dockerfile").read_text())
        assert debian
        self._make_debian(f"docker.io/library/{debian[1]}")
        airflow = variables()["AIRFLOW_IMAGE"]
        version = re.search(r"slim-([\d.]+)-", airflow)
        assert version
        argument = f"--build-arg=AIRFLOW_VERSION={version[1]}"
        self._build(f"docker.io/{airflow}", "airflow", argument, "requirements.lock")
        self._build(f"docker.io/library/{variables()['POSTGRES_IMAGE']}", "postgres")

    def make_s3_image(self) -> None:
        self._build(S3_IMAGE, "s3", "", "requirements-dev.lock")

    def _make_debian(self, name: str) -> None:
        if self._has(name):
            return
        archive = PLACE / "debian.tar"
        settings = subprocess.run(
            ["/usr/bin/apt-config", "dump"], capture_output=True, text=True, check=True
        ).stdout
        options = re.findall(r'(?m)^(Acquire::(?:Check|http|https)\S* "[^"]+");$', settings)
        hooks = []
        if CERTIFICATES.exists():
            hooks = [f'--customize-hook=cp {CERTIFICATES} "$1{CERTIFICATES}"']
        command = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates"]
        command += [*(f"--aptopt={option}" for option in options), *hooks, "bookworm", str(archive)]
        made = subprocess.run(
            command, capture_output=True, text=True, check=False, env=self.environment, timeout=600
        )
        if made.returncode:
            pytest.skip(f"Debian's packages cannot be had here: {made.stderr.strip()[-300:]}")
        given = {name: os.environ[name] for name in HANDED_IN if name in os.environ}
        if CERTIFICATES.exists():
            given |= dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT"), str(CERTIFICATES))
        changes = [f"--change=ENV {key}={value}" for key, value in given.items()]
        self.podman("import", "--quiet", *changes, "--change=CMD bash", str(archive), name)
        archive.unlink()

    def _build(self, name: str, what: str, argument: str = "", lock: str = "") -> None:
        """Build one of the stand-ins, in a directory with the pins of a lock."""
        if self._has(name):
            return
        pinned = (PROJECT / lock).read_text(encoding="utf-8") if lock else ""
        pins = re.findall(r"(?m)^([a-z0-9-]+==[^ \n]+(?: ; .*)?) \\$", pinned)
        context = PLACE / what
        shutil.rmtree(context, ignore_errors=True)
        shutil.copytree(Path(__file__).with_name("images"), context)
        (context / "constraints.txt").write_text("\n".join(pins) + "\n", encoding="utf-8")
        more = [argument] if argument else []
        file = f"--file={context}/{what}.Containerfile"
        self.podman("build", "--quiet", f"--tag={name}", *more, file, str(context), limit_s=900)

    def _has(self, name: str) -> bool:
        asked = subprocess.run([PODMAN, "image", "exists", name], env=self.environment, check=False)
        return asked.returncode == 0


def _compose() -> Path | None:
    """Return the directory of Docker Compose: the program in .tools/bin hides its exit code."""
    programs = PROJECT.glob(".tools/lib/python3*/site-packages/compose/docker-compose")
    return next((program.parent for program in programs), None)


def why_not(environment: Mapping[str, str] = os.environ) -> str:
    """Return why no container can run here, or nothing."""
    if os.geteuid() != 0:
        return "only root may build and run containers here"
    path = f"{environment['PATH']}:/usr/sbin:/sbin:/usr/lib/podman"
    if missing := [name for name in PROGRAMS if not shutil.which(name, path=path)]:
        return f"{', '.join(missing)} is not installed: {INSTALL}"
    if not _compose():
        return "Docker Compose is not installed: make .tools/.set-up"
    return ""
