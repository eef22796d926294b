"""The services of docker-compose.yaml as processes of this machine, without containers.

What a container would be given is read from the compose file, the Dockerfile and .env.example:
commands, environment, secrets, order. Only places and ports are others, since several run on one
machine: each substitution is in one table. So the rehearsal cannot drift from the compose file.
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
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from mqdlq import home
from postgresql import DEBIAN, INSTALL

PROJECT = home.PROJECT
LOOPBACK = "127.0.0.1"
ORDER = (
    *("postgres", "mq-embedded", "airflow-init", "spark-master", "spark-worker-1"),
    *("spark-worker-2", "airflow-api-server", "airflow-scheduler", "airflow-dag-processor"),
    "airflow-triggerer",
)
ONE_SHOT = ("mq-embedded", "airflow-init")
# Airflow waits five minutes before it takes a task for dead; we do not wait that long for it.
IMPATIENCE = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "20",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
}


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
    """The services, each a process group of its own with its own log, over one directory."""

    directory: Path
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = ("api", "postgres", "spark", "web_0", "web_1", "web_2", "health", "logs", "more")
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.compose: dict[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yaml").read_text())
        lines = (PROJECT / ".env.example").read_text().splitlines()
        self.variables = dict(x.split("=", 1) for x in lines if x and not x.startswith("#"))
        for name in ("secrets", "state", "airflow", "tmp", "logs", "work"):
            (self.directory / name).mkdir(mode=0o700)
        self._make_secrets()
        self._take_the_demos_rules()
        self._postgres: list[str] = []

    # -- what stands in for what

    def here(self, text: str) -> str:
        """Return a container's path, host or port as it is on this machine."""
        text = re.sub(r"\$\{(\w+)\}", lambda found: self.variables[found[1]], text)
        pyspark = f"{sysconfig.get_path('purelib')}/pyspark"
        master = f"{LOOPBACK}:{self.ports['spark']}"
        places = {
            "/opt/mqdlq/.venv/lib/python3.11/site-packages/pyspark": pyspark,
            "/opt/mqdlq": str(PROJECT),
            "/opt/airflow": str(self.directory / "airflow"),
            "/run/secrets/connections.json": f"{self.directory}/secrets/connections-embedded.json",
            "/run/secrets": str(self.directory / "secrets"),
            "/var/lib/mqdlq": str(self.directory / "state"),
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
        text = (PROJECT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
        image = dict(re.findall(r"(?m)^(?:ENV|   ) (\w+)=(\S+)", text))
        image.pop("PATH")
        own = self.compose["services"][service].get("environment") or {}
        settings = {name: self.here(str(value)) for name, value in {**image, **own}.items()}
        if "SPARK_LOCAL_HOSTNAME" in settings:
            settings["SPARK_LOCAL_HOSTNAME"] = LOOPBACK
        keep = {
            name: os.environ[name] for name in ("HOME", "LANG", "JAVA_HOME") if name in os.environ
        }
        path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
        return {
            **keep,
            **settings,
            **IMPATIENCE,
            "MQDLQ_RULES_DIR": str(self.directory / "rules"),
            "PATH": path,
            "TMPDIR": str(self.directory / "tmp"),
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
        web = {"spark-master": "web_0", "spark-worker-1": "web_1", "spark-worker-2": "web_2"}
        for place, word in enumerate(words):
            if service in web and word == "8081":
                words[place] = str(self.ports[web[service]])
            elif word == "7077":
                words[place] = str(self.ports["spark"])
            elif word == "spark-master":
                words[place] = LOOPBACK
        words = [self.here(word) for word in words]
        return [*words, "--host", LOOPBACK] if "worker" in service else words

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
        with log.open("ab") as output:
            process = subprocess.Popen(
                self.command(service),
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
        self.wait(lambda: self.is_healthy(service), f"{service} is healthy")

    def is_healthy(self, service: str) -> bool:
        """Ask as the container's health check does; a job's is the api-server's to tell."""
        process = self.started.get(service)
        assert process is None or process.poll() is None, self.last_words(service)
        port = {
            "spark-master": "web_0",
            "spark-worker-1": "web_1",
            "spark-worker-2": "web_2",
            "airflow-api-server": "api",
            "airflow-scheduler": "health",
        }.get(service)
        if port is None:
            return True
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self.ports[port])) == 0

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

    def kill(self, service: str) -> None:
        """End a service as `docker kill` does: everything in it, at once."""
        if service == "postgres":
            pid = int((self.directory / "postgres/data/postmaster.pid").read_text().split()[0])
            victims = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        else:
            process = self.started.pop(service)
            leader = psutil.Process(process.pid)
            victims = [leader, *leader.children(recursive=True)]
        for victim in victims:
            with _gone():
                victim.send_signal(signal.SIGKILL)
        psutil.wait_procs(victims, timeout=10)

    def close(self) -> None:
        """End everything, the last first."""
        for service in reversed(ORDER):
            if service in self.started:
                self.kill(service)
        if (self.directory / "postgres/data/postmaster.pid").exists():
            self._run_postgres("pg_ctl", "-m", "immediate", "stop")

    def left_behind(self) -> list[str]:
        """Return the processes that still know this directory."""
        found = []
        for process in psutil.process_iter():
            with _gone():
                known = " ".join([*process.cmdline(), *process.environ().values()])
                if str(self.directory) in known and process.pid != os.getpid():
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


@contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return
