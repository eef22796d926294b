"""A PostgreSQL server for tests: it starts on first use and stops when the tests end.

It listens on a socket in a private directory and on no port, so it disturbs no other server. If
PostgreSQL is not installed, the tests that need it are skipped and name the package to install.
"""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psutil
import pytest
from sqlalchemy import create_engine, text

INSTALL = "apt-get install postgresql"
DEBIAN = Path("/usr/lib/postgresql")
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # processes die in these tests, machines do not
    "max_connections": "100",  # Airflow's services hold a pool each
}
_numbers = itertools.count(1)


class Server:
    """A running server; `kill` stops it like a crash, `start` starts it again."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._directory = tempfile.mkdtemp(prefix="mqdlq-pg-", dir="/tmp")
        # PostgreSQL refuses to run as root.
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(self._directory, owner.pw_uid, owner.pw_gid)
        self._run("initdb", "--username=mqdlq", "--auth=trust", "--no-sync", "--encoding=UTF8")
        self.start()
        atexit.register(self.close)

    def start(self) -> None:
        options = " ".join(f"-c {name}='{value}'" for name, value in SETTINGS.items())
        log = f"{self._directory}/log"
        self._run("pg_ctl", "-w", "-l", log, "-o", f"-k {self._directory} {options}", "start")

    def kill(self) -> None:
        """Stop the server at once, without a checkpoint; the next start recovers from its log."""
        self._run("pg_ctl", "-m", "immediate", "stop")

    def pid(self) -> int:
        """Return the process id of the server."""
        return int(Path(f"{self._directory}/data/postmaster.pid").read_text().split()[0])

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop all its processes, as if its machine hung, and then let them continue."""
        parent = psutil.Process(self.pid())
        processes = [parent, *parent.children(recursive=True)]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._directory)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, "-D", f"{self._directory}/data", *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._directory,
            user=self._user,
            timeout=120,
        )

    def new_ledger_url(self) -> str:
        """Return the URL of an empty schema, which serves as an empty database."""
        name = f"ledger_{next(_numbers)}"
        url = f"postgresql+psycopg://mqdlq@/postgres?host={self._directory}"
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {name}"))
        engine.dispose()
        return f"{url}&options=-csearch_path%3D{name}"

    def ask_for_a_password(self, user: str, password: str) -> None:
        """Create a user who must give a password; all other users need none."""
        engine = create_engine(f"postgresql+psycopg://mqdlq@/postgres?host={self._directory}")
        with engine.begin() as connection:
            connection.execute(text(f"DROP ROLE IF EXISTS {user}"))
            connection.execute(text(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'"))
        engine.dispose()
        rules = Path(f"{self._directory}/data/pg_hba.conf")
        asked = f"local all {user} scram-sha-256\n"
        rules.write_text(asked + rules.read_text().replace(asked, ""))
        self._run("pg_ctl", "reload")

    def new_database_url(self) -> str:
        """Return the URL of an empty database."""
        name = f"database_{next(_numbers)}"
        url = f"postgresql+psycopg://mqdlq@/postgres?host={self._directory}"
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return url.replace("/postgres?", f"/{name}?")


@cache
def server() -> Server | None:
    """Return the server, None if PostgreSQL is not installed."""
    found = shutil.which("pg_ctl")
    newest = max(DEBIAN.glob("*/bin/pg_ctl"), key=lambda p: int(p.parts[-3]), default=None)
    program = Path(found) if found else newest
    return Server(program.parent) if program else None


def running_server() -> Server:
    """Return the server, or skip the test."""
    found = server()
    if found is None:
        pytest.skip(f"PostgreSQL is not installed: {INSTALL}")
    return found


@pytest.fixture(
    name="ledger_url", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
)
def ledger_url_fixture(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty ledger, once for each kind of database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    return running_server().new_ledger_url()
