"""The services of docker-compose.yaml in containers, and Airflow in them by REST.

They start by `deploy/compose.sh up` in a copy of the project: its image is built, its .env and
secrets are made there. Only ports, names of volumes and the schedule of the demo are others.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import httpx
import pytest

from mqdlq.airflow.run_ids import ledger_run_id
from mqdlq.ledger import Ledger, open_ledger
from tests.e2e.containers.engine import PLACE, PODMAN, PROJECT, Engine
from tests.e2e.running.services import ENDED, Airflow, free_port
from tests.unit.deploy.compose_file import services, variables

LOOPBACK = "127.0.0.1"
NAME = "mqdlq-here"
IMAGE = variables()["MQDLQ_IMAGE"]
COPIED = (
    *("docker-compose.yaml", ".env.example", "Dockerfile", ".dockerignore", "requirements.lock"),
    *("requirements-dev.lock", "pyproject.toml", "README.md", "LICENSE", "NOTICE"),
    *("plugins", "embedded_mq", "dags", "include", "spark", "deploy", "tests/contract"),
)
ONE_SHOT = ("mq-embedded", "airflow-init")
SERVICES = tuple(
    name
    for name, service in services().items()
    if not service.get("profiles") and name not in ONE_SHOT
)
# Volumes of a size that a test can fill, as the engine's own option for a volume makes them: the
# user to whom each belongs, and its file system's place in it.
SMALL = {"state": ("50000", "lake"), "postgres": ("0", "")}
SIZE = "1g"
# One process in the container of the scheduler answers about QM1, which is on its volume.
PLACES = """
import json, sys
import embedded_mq
from mqdlq.mqi.connect import ConnectionSettings, connect
found = {}
with connect(ConnectionSettings("QM1", transport="embedded")) as queue_manager:
    depths = embedded_mq.depths("QM1")
    module, constants = queue_manager.client.module, queue_manager.client.CMQC
    for name in set(depths) - {"MQDLQ.STATE"}:
        queue = queue_manager.open(name, constants.MQOO_BROWSE)
        while True:
            options = constants.MQGMO_BROWSE_NEXT | constants.MQGMO_ACCEPT_TRUNCATED_MSG
            descriptor = module.MD()
            try:
                queue.get(0, descriptor, module.GMO(Options=options))
            except module.MQMIError as error:
                if error.reason == constants.MQRC_NO_MSG_AVAILABLE:
                    break
                if error.reason != constants.MQRC_TRUNCATED_MSG_ACCEPTED:
                    raise
            key = bytes(descriptor.MsgId).hex()
            found[key] = found.get(key, 0) + 1
        queue_manager.close(queue)
print(json.dumps({"depths": depths, "ids": found}))
"""


class Containers:
    """The services of the compose file, each a container, in a directory of a test.

    `project` is the checkout whose files they are; `settings` are variables of .env.
    """

    def __init__(
        self,
        engine: Engine,
        directory: Path,
        project: Path = PROJECT,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.engine = engine
        self.directory = directory / "project"
        self.take_over(project)
        ports = ("AIRFLOW_PORT", "POSTGRES_PORT", "SPARK_PORT")
        self.ports = {name: free_port() for name in ports}
        self.fills = 0
        self.environment = {
            **engine.environment,
            "COMPOSE_PROJECT_NAME": NAME,
            **{name: str(port) for name, port in self.ports.items()},
            **settings,
        }

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the services as administrators do; end them with all that they left."""
        self.remove_what_was_left()
        self.make_small_volumes()
        try:
            self.up()
            yield
        finally:
            self.remove()
        assert self.engine.podman("ps", "--all", "--quiet") == ""
        assert NAME not in self.engine.podman("volume", "ls", "--quiet")

    def take_over(self, project: Path) -> None:
        """Have the files of a checkout, and keep what is not of it: .env and the secrets."""
        for name in COPIED:
            source, target = project / name, self.directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                # The directory itself stays, since containers have mounted it.
                for left in target.glob("*"):
                    if left.is_dir() and left.name != "secrets":
                        shutil.rmtree(left)
                ignored = shutil.ignore_patterns("__pycache__", "secrets")
                shutil.copytree(source, target, ignore=ignored, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)
        handler = self.directory / "include/rules/demo.yaml"
        # Once a day: a run every five minutes would be in the way.
        text, replaced = re.subn(r"(?m)^schedule:.*$", "schedule: 0 2 * * *", handler.read_text())
        assert replaced == 1
        handler.write_text(text)

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.ports['AIRFLOW_PORT']}"

    def secret(self, name: str) -> str:
        return (self.directory / "deploy/secrets" / name).read_text(encoding="utf-8").strip()

    @property
    def ledger_url(self) -> str:
        """The address of the ledger from this machine, as the compose file maps its port."""
        port = f"@{LOOPBACK}:{self.ports['POSTGRES_PORT']}"
        return self.secret("ledger_url").replace("@postgres:5432", port)

    # -- volumes that can be full

    def make_small_volumes(self) -> None:
        """Make volumes before the compose file does: in memory, of a size that a test can fill."""
        for name, (user, inside) in SMALL.items():
            place = PLACE / "volumes" / name
            (place / inside).mkdir(parents=True)
            options = f"size={SIZE},mode=0700,uid={user}"
            _run("/bin/mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place / inside))
            shutil.chown(place, int(user), 0)
            place.chmod(0o700)
            bound = ("--opt=type=none", "--opt=o=rbind", f"--opt=device={place}")
            self.engine.podman("volume", "create", *bound, f"{NAME}_{name}")

    @contextmanager
    def full(self, name: str) -> Iterator[None]:
        """Leave no room in one of these volumes."""
        filler = PLACE / "volumes" / name / SMALL[name][1] / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(2**16)):
                pass
        assert shutil.disk_usage(filler.parent).free == 0
        try:
            yield
        finally:
            filler.unlink()

    # -- by our own scripts and Docker Compose

    def up(self) -> str:
        """Start the services as administrators do; return what the script says last.

        It is repeated where podman's name server did not know a container that runs: for a moment
        it knows none while others join the network.
        """
        self.fills += 1  # by the demo's service, which each start runs
        try:
            said = self.script("deploy/compose.sh", "up")
        except pytest.fail.Exception as failed:
            if "failed to resolve host" not in str(failed):
                raise
            self.fills += 1
            said = self.script("deploy/compose.sh", "up")
        return said.splitlines()[-1]

    def script(self, *words: str, limit_s: float = 1800) -> str:
        return self._run(["bash", *words], limit_s)

    def compose(self, *words: str, limit_s: float = 300) -> str:
        return self._run(["docker-compose", *words], limit_s)

    def _run(self, command: list[str], limit_s: float) -> str:
        try:
            done = subprocess.run(
                command,
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired as late:
            pytest.fail(f"{' '.join(command)}: not within {limit_s} s: {late.stdout!r}"[-3000:])
        if done.returncode:
            tail = "\n".join(done.stdout.splitlines()[-30:])
            pytest.fail(f"{' '.join(command)}: {done.returncode}\n{tail}\n{self.last_words()}")
        return done.stdout

    def fill(self) -> None:
        """Let the demo's service put its messages once more, as `docker compose start` does."""
        self.engine.podman("start", "--attach", f"{NAME}-mq-embedded-1")
        self.fills += 1

    def state_of(self, service: str) -> tuple[str, str]:
        """Return a container's state and health."""
        said = self.engine.podman("inspect", f"{NAME}-{service}-1")
        state = json.loads(said)[0]["State"]
        return state["Status"], (state.get("Health") or state.get("Healthcheck") or {})["Status"]

    def kill(self, service: str) -> None:
        """End a container by SIGKILL, as a crash would, and start it again, as the engine does.

        Podman's restart policy takes a container that was killed by hand for stopped.
        """
        self.engine.podman("kill", f"{NAME}-{service}-1")
        self.engine.podman("wait", f"{NAME}-{service}-1")
        self.engine.podman("start", f"{NAME}-{service}-1")

    @contextmanager
    def paused(self, service: str) -> Iterator[None]:
        self.engine.podman("pause", f"{NAME}-{service}-1")
        try:
            yield
        finally:
            self.engine.podman("unpause", f"{NAME}-{service}-1")

    @contextmanager
    def cut_off(self, service: str) -> Iterator[None]:
        """Take a container from the network, and back under another address."""
        network, container = f"{NAME}_inside", f"{NAME}-{service}-1"
        self.engine.podman("network", "disconnect", network, container)
        try:
            yield
        finally:
            self.engine.podman("network", "connect", f"--alias={service}", network, container)

    def bill_of_materials(self) -> str:
        """Make the image's bill by the checkout's own command, and return it."""
        self._run(["make", "-C", str(PROJECT), "sbom", "DOCKER=podman", f"IMAGE={IMAGE}"], 300)
        return (PROJECT / "var/sbom.json").read_text(encoding="utf-8")

    def inside(self, service: str, *command: str) -> str:
        return self.engine.podman("exec", f"{NAME}-{service}-1", *command)

    def places(self) -> dict[str, dict[str, int]]:
        """Return the depths of QM1's queues, and how often each MsgId is on them."""
        found: dict[str, dict[str, int]] = json.loads(
            self.inside("airflow-scheduler", "python", "-c", PLACES).splitlines()[-1]
        )
        return found

    def last_words(self) -> str:
        tails = []
        for service in (*ONE_SHOT, *SERVICES):
            said = subprocess.run(
                [PODMAN, "logs", "--tail", "12", f"{NAME}-{service}-1"],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            tails.append(f"-- {service}\n{said.stdout}")
        return "\n".join(tails)

    def remove_what_was_left(self) -> None:
        """Remove the containers of an earlier test that was itself killed."""
        shutil.copy(self.directory / ".env.example", self.directory / ".env")
        self.remove()

    def remove(self) -> None:
        self.compose("--profile", "*", "down", "--volumes", "--timeout", "10")
        for name, (_, inside) in SMALL.items():
            place = PLACE / "volumes" / name
            if (place / inside).is_mount():
                _run("/bin/umount", str(place / inside))
            shutil.rmtree(place, ignore_errors=True)


class AirflowInContainers(Airflow):
    """The Airflow of the compose file: another password, another ledger."""

    def __init__(self, containers: Containers) -> None:
        self.containers = containers
        services = SimpleNamespace(address=containers.address)
        super().__init__(services, containers.directory)  # type: ignore[arg-type]

    def log_in(self) -> None:
        password = json.loads(self.containers.secret("airflow_passwords"))["admin"]
        given = {"username": "admin", "password": password}
        answer = self._http.post("/auth/token", json=given)
        self.token = str(answer.json()["access_token"])
        self._http.headers["Authorization"] = f"Bearer {self.token}"

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        with open_ledger(self.containers.ledger_url) as ledger:
            yield ledger

    def _last_words(self) -> str:
        return self.containers.last_words()

    def call(self, method: str, path: str, **body: Any) -> httpx.Response:
        """Ask again where the api-server or its database is just being started again."""
        deadline = time.monotonic() + 180
        while True:
            try:
                answer = super().call(method, path, **body)
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            else:
                if answer.status_code < 500 or time.monotonic() > deadline:
                    return answer
            time.sleep(1)

    def comes_to(self, run_id: str, moment: str) -> bool:
        """Wait until a run is where somebody is to die; False where it has ended before."""
        there: list[bool] = []

        def has_come() -> bool:
            there[:] = [not self.has_ended(run_id) and self.is_at(run_id, moment)]
            return there[0] or self.has_ended(run_id)

        self.wait(has_come, 600)
        return there[0]

    def has_ended(self, run_id: str) -> bool:
        return self.run("demo", run_id)["state"] in ENDED

    def is_at(self, run_id: str, moment: str) -> bool:
        if moment == "executes":
            of_the_run = "SELECT count(*) FROM attempts WHERE run_id = %s"
            with self.ledger() as ledger, ledger.engine.connect() as connection:
                run = (ledger_run_id("demo", run_id),)
                return bool(connection.exec_driver_sql(of_the_run, run).scalar())
        task = {"takes its snapshot": "snapshot", "evaluates": "evaluate", "retries": "retry"}
        return self.tasks("demo", run_id).get(task[moment]) == "running"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def wait_until_healthy(containers: Containers, limit_s: float = 300) -> None:
    """Wait until each service is healthy by its own check."""

    def ill() -> list[str]:
        return [s for s in SERVICES if containers.state_of(s) != ("running", "healthy")]

    deadline = time.monotonic() + limit_s
    while found := ill():
        if time.monotonic() > deadline:
            pytest.fail(f"not healthy: {found}\n{containers.last_words()}")
        time.sleep(1)
