"""The services of docker-compose.yaml as processes of this machine, without containers.

The settings of a container are read from the compose file, the Dockerfile and .env.example:
commands, environment, secrets, order. Only places and ports are others, since several run on one
machine: each substitution is in one table. So the rehearsal cannot drift from the compose file.
A service that is `read_only` there has read-only file systems here, if root runs the rehearsal.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from airflow.utils.net import get_hostname

from mqdlq import directories
from tests.e2e.running.confinement import can_confine, confined
from tests.support.postgresql import DEBIAN, INSTALL

PROJECT = directories.PROJECT
LOOPBACK = "127.0.0.1"
ORDER = (
    *("postgres", "mq-embedded", "airflow-init", "spark-master", "spark-worker-1"),
    *("spark-worker-2", "airflow-api-server", "airflow-scheduler", "airflow-dag-processor"),
    "airflow-triggerer",
)
ONE_SHOT = ("mq-embedded", "airflow-init")
SERVICES = tuple(service for service in ORDER if service not in ONE_SHOT)
# By what a port is in its container, what it is called here.
PORTS = {
    "postgres": {"5432": "postgres"},
    "spark-master": {"7077": "spark", "8081": "web_0"},
    "spark-worker-1": {"7077": "spark", "8081": "web_1"},
    "spark-worker-2": {"7077": "spark", "8081": "web_2"},
    "airflow-api-server": {"8080": "api"},
    "airflow-scheduler": {"8974": "health"},
}
MARK = "MQDLQ_REHEARSED_SERVICE"
"""The environment variable by which everything in a service's container is known."""


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind((LOOPBACK, 0))
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


@dataclass
class Containers:
    """The services, each a process group with its own log, over one directory."""

    directory: Path
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    restarted: list[str] = field(default_factory=list)
    sessions: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = {name for ports in PORTS.values() for name in ports.values()} | {"logs", "more"}
        self.ports = dict(zip(sorted(names), free_ports(len(names)), strict=True))
        self.compose: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yaml").read_text())
        lines = (PROJECT / ".env.example").read_text().splitlines()
        self.variables = dict(x.split("=", 1) for x in lines if x and not x.startswith("#"))
        for name in ("secrets", "state", "airflow", "tmp", "logs", "work", "home", "mq-client"):
            (self.directory / name).mkdir(mode=0o700)
        self._make_secrets()
        self._take_the_demos_rules()
        self._postgres: list[str] = []

    # -- what stands in for what

    def here(self, text: str) -> str:
        """Return a container's path, host or port as it is on this machine."""
        text = re.sub(r"(?<!\$)\$\{(\w+)\}", lambda found: self.variables[found[1]], text)
        pyspark = f"{sysconfig.get_path('purelib')}/pyspark"
        master = f"{LOOPBACK}:{self.ports['spark']}"
        places = {
            "/opt/mqdlq/.venv/lib/python3.11/site-packages/pyspark": pyspark,
            "/opt/mqdlq": str(PROJECT),
            "/opt/airflow": str(self.directory / "airflow"),
            "/run/secrets/connections.json": f"{self.directory}/secrets/connections-embedded.json",
            "/run/secrets": str(self.directory / "secrets"),
            "/var/lib/mqdlq": str(self.directory / "state"),
            "/var/lib/mq-client": str(self.directory / "mq-client"),
            "/tmp/work": str(self.directory / "work"),  # noqa: S108 (a container's)
            "/tmp/": f"{self.directory}/tmp/",  # noqa: S108
            "http://airflow-api-server:8080": f"http://{LOOPBACK}:{self.ports['api']}",
            "spark://spark-master:7077": f"spark://{master}",
            "@postgres:5432": f"@{LOOPBACK}:{self.ports['postgres']}",
        }
        longest_first = sorted(places, key=len, reverse=True)
        pattern = "|".join(re.escape(place) for place in longest_first)
        return re.sub(pattern, lambda found: places[found[0]], text)

    def _make_secrets(self) -> None:
        script = PROJECT / "deploy" / "make-secrets.py"
        secrets = self.directory / "secrets"
        subprocess.run([sys.executable, script, secrets], check=True, stdout=subprocess.DEVNULL)
        for name in ("airflow_database_url", "ledger_url"):
            path = secrets / name
            text = self.here(path.read_text())
            path.chmod(0o600)
            path.write_text(text)
        path = secrets / "connections-embedded.json"
        connections = json.loads(path.read_text())
        connections["spark_default"] |= {"host": f"spark://{LOOPBACK}", "port": self.ports["spark"]}
        path.chmod(0o600)
        path.write_text(json.dumps(connections))

    def _take_the_demos_rules(self) -> None:
        """Schedule the demo's handler once a day: a run every five minutes would be in the way."""
        rules = self.directory / "rules"
        shutil.copytree(PROJECT / "include" / "rules", rules)
        handler = rules / "demo.yaml"
        text, replaced = re.subn(r"(?m)^schedule:.*$", "schedule: 0 2 * * *", handler.read_text())
        assert replaced == 1
        handler.write_text(text)

    def environment(self, service: str) -> dict[str, str]:
        """Return what the image and the compose file set, and where things are on this machine."""
        text = (PROJECT / "Dockerfile").read_text().partition(" AS production\n")[2]
        image = dict(re.findall(r"(?m)^(?:ENV|   ) (\w+)=(\S+)", text))
        image.pop("PATH")
        own = self.compose["services"][service].get("environment") or {}
        settings = {name: self.here(str(value)) for name, value in {**image, **own}.items()}
        if "SPARK_LOCAL_HOSTNAME" in settings:
            settings["SPARK_LOCAL_HOSTNAME"] = LOOPBACK
        keep = {name: os.environ[name] for name in ("LANG", "JAVA_HOME") if name in os.environ}
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
        return {
            **keep,
            **settings,
            MARK: service,
            "HOME": str(self.directory / "home"),
            "MQDLQ_RULES_DIR": str(self.directory / "rules"),
            "PATH": path,
            # A container's /tmp ends with it; nothing is left in this machine's.
            "TMPDIR": str(self.directory / "tmp"),
            "JAVA_TOOL_OPTIONS": f"-XX:-UsePerfData -Djava.io.tmpdir={self.directory / 'tmp'}",
            "PYTHONWARNINGS": "ignore",
            "SPARK_LOCAL_IP": LOOPBACK,
            "AIRFLOW__API__HOST": LOOPBACK,
            "AIRFLOW__API__PORT": str(self.ports["api"]),
            "AIRFLOW__API__BASE_URL": f"http://{LOOPBACK}:{self.ports['api']}",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(self.ports["health"]),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(self.ports["logs"]),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(self.ports["more"]),
        }

    def command(self, service: str) -> list[str]:
        """Return a service's entry point and command."""
        found = self.compose["services"][service]
        words = [*found.get("entrypoint", ()), *found.get("command", ())]
        if words[:2] == ["/usr/bin/dumb-init", "--"]:
            words = words[2:]
        words = [self._on_loopback(service, word) for word in words]
        return [*words, "--host", LOOPBACK] if "worker" in service else words

    def _on_loopback(self, service: str, word: str) -> str:
        """Return a word of a command as it is on this machine, with the service's own ports."""
        ports = PORTS.get(service, {})
        if word in ports:
            return str(self.ports[ports[word]])
        word = re.sub(r"^spark-master$|(?<=//)spark-master(?=:8081)", LOOPBACK, word)
        for inside, name in ports.items():
            word = word.replace(f"//{LOOPBACK}:{inside}", f"//{LOOPBACK}:{self.ports[name]}")
        return self.here(word)

    # -- starting and stopping

    def start_all(self) -> None:
        self._check_order()
        for service in ORDER:
            self.start(service)

    def _check_order(self) -> None:
        """Fail where this starts a service before one it depends on."""
        for service in ORDER:
            needed = self.compose["services"][service].get("depends_on", {})
            for name in set(needed) & set(ORDER):
                assert ORDER.index(name) < ORDER.index(service), (name, service)

    def start(self, service: str) -> None:
        if service == "postgres":
            self._start_postgres()
            return
        log = self.directory / "logs" / f"{service}.log"
        command = self.command(service)
        if self.compose["services"][service].get("read_only") and can_confine():
            command = confined(self.directory, command)
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                env=self.environment(service),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=PROJECT,
                umask=0o077,
            )
        if service in ONE_SHOT:
            assert process.wait(timeout=240) == 0, self.last_words(service)
            return
        self.started[service] = process
        self.sessions[process.pid] = service
        if service in PORTS:  # the others have checks that take seconds: once is enough
            self.wait(partial(self.is_healthy, service), f"{service} is healthy")

    def revive(self) -> None:
        """Start again what has ended by itself, where the compose file would have it so.

        Airflow's services end themselves where their database is gone for a moment.
        """
        for service, process in list(self.started.items()):
            if process.poll() is not None:
                assert self.compose["services"][service]["restart"] == "unless-stopped"
                self.kill(service)  # other processes of the container end with it
                self.restarted.append(service)
                self.start(service)

    def is_healthy(self, service: str) -> bool:
        """Ask by the container's health check."""
        process = self.started.get(service)
        assert process is None or process.poll() is None, self.last_words(service)
        kind, *words = self.compose["services"][service]["healthcheck"]["test"]
        words = [self._on_loopback(service, word).replace("$$", "$") for word in words]
        asked = subprocess.run(
            ["/bin/sh", "-c", *words] if kind == "CMD-SHELL" else words,
            env={
                **self.environment(service),
                "HOSTNAME": get_hostname(),  # by which Airflow's jobs know theirs
                "PGPORT": str(self.ports["postgres"]),
                "PATH": os.pathsep.join([*self._postgres, self.environment(service)["PATH"]]),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return asked.returncode == 0

    def _start_postgres(self) -> None:
        found = shutil.which("pg_ctl")
        newest = max(DEBIAN.glob("*/bin/pg_ctl"), key=lambda p: int(p.parts[-3]), default=None)
        program = Path(found) if found else newest
        if program is None:
            pytest.skip(f"PostgreSQL is not installed: {INSTALL}")
        self._postgres = [str(program.parent)]
        place = self.directory / "postgres"
        is_new = not place.exists()
        owner = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if is_new:
            place.mkdir(mode=0o700)
            if owner:
                os.chown(place, owner.pw_uid, owner.pw_gid)
                self.directory.chmod(0o711)
            options = self.compose["services"]["postgres"]["environment"]["POSTGRES_INITDB_ARGS"]
            self._run_postgres(
                "initdb", *options.split(), "--username=postgres", "--auth-local=trust"
            )
        settings = f"-c listen_addresses={LOOPBACK} -c port={self.ports['postgres']} -k {place}"
        self._run_postgres("pg_ctl", "-w", "-l", f"{place}/log", "-o", settings, "start")
        if is_new:
            script = PROJECT / "deploy" / "postgres" / "create-databases.sh"
            secrets = self.directory / "secrets"
            environment = {
                "PATH": f"{program.parent}:{os.environ['PATH']}",
                "PGHOST": str(place),
                "PGPORT": str(self.ports["postgres"]),
                "AIRFLOW_DATABASE_PASSWORD_FILE": str(secrets / "airflow_database_password"),
                "LEDGER_PASSWORD_FILE": str(secrets / "ledger_password"),
            }
            subprocess.run(["/bin/bash", script], env=environment, check=True)

    def _run_postgres(self, program: str, *arguments: str) -> None:
        data = self.directory / "postgres" / "data"
        subprocess.run(
            [f"{self._postgres[0]}/{program}", "-D", data, *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user="nobody" if os.geteuid() == 0 else None,
            cwd=data.parent,
            timeout=120,
        )

    def kill(self, service: str) -> int:
        """End a service as `docker kill` does, everything in it at once; return how much that was.

        That is SIGKILL, which nothing can catch: as `kill -9`, a crash or the engine's end.
        """
        process = self.started.pop(service, None)
        victims = list(self.inside(service))
        for victim in victims:
            with _gone():
                victim.send_signal(signal.SIGKILL)
        psutil.wait_procs(victims, timeout=10)
        if process:
            process.wait()
        return len(victims)

    def inside(self, service: str) -> Iterator[psutil.Process]:
        """Yield the processes of a service's container."""
        if service == "postgres":
            pid = int((self.directory / "postgres/data/postmaster.pid").read_text().split()[0])
            server = psutil.Process(pid)
            yield from (server, *server.children(recursive=True))
            return
        for process in psutil.process_iter():
            with _gone():
                if self._service_of(process) == service:
                    yield process

    def commands(self, service: str) -> Iterator[str]:
        """Yield the command lines of the remaining processes."""
        for process in self.inside(service):
            with _gone():
                yield " ".join(process.cmdline())

    def _service_of(self, process: psutil.Process) -> str | None:
        """Return whose process it is: by its session, else by its environment.

        A process that sets its title, as Airflow's do, writes it over its environment.
        """
        with suppress(ProcessLookupError):
            if (leader := os.getsid(process.pid)) in self.sessions:
                return self.sessions[leader]
        environment = process.environ()
        is_ours = environment.get("TMPDIR") == str(self.directory / "tmp")
        return environment.get(MARK) if is_ours else None

    def close(self) -> None:
        """End everything, the last first."""
        for service in reversed(ORDER):
            if service in self.started:
                self.kill(service)
        if (self.directory / "postgres/data/postmaster.pid").exists():
            self._run_postgres("pg_ctl", "-m", "immediate", "stop")

    def left_behind(self) -> list[str]:
        """Return the processes that still know this directory, and the ports still listened at."""
        found = [f"port {port}" for port in self.ports.values() if _answers(port)]
        for process in psutil.process_iter():
            with _gone():
                is_named = str(self.directory) in " ".join(process.cmdline())
                if is_named or self._service_of(process):
                    found.append(f"{process.pid} {' '.join(process.cmdline())[:100]}")
        return found

    # -- waiting

    def wait(self, holds: Callable[[], bool], what: str, limit_s: float = 180) -> None:
        deadline = time.monotonic() + limit_s
        while not holds():
            if time.monotonic() > deadline:
                pytest.fail(f"not within {limit_s:.0f} s: {what}\n{self.last_words()}")
            time.sleep(0.5)

    def last_words(self, *services: str) -> str:
        tails = []
        for log in sorted((self.directory / "logs").glob("*.log")):
            if not services or log.stem in services:
                lines = log.read_text(errors="replace").splitlines()[-12:]
                tails.append(f"-- {log.stem}\n" + "\n".join(lines))
        return "\n".join(tails)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


@contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return
