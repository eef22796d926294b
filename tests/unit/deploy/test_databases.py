"""Test a ledger that many processes create at once, and one that a backup restores."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from mqdlq import directories
from mqdlq.lake.archive import read_back
from mqdlq.ledger import open_ledger
from mqdlq.ledger.migrations import revisions
from tests.support.postgresql import DEBIAN, ledger_url_fixture
from tests.support.world import World

pytestmark = pytest.mark.slow

__all__ = ["ledger_url_fixture"]

PROCESSES = 5
RULES = """
DESTQ(PAYMENTS) ACTION(RETRY) RETRY(2)
DESTQ(ORDERS) ACTION(DISCARD)
"""


def _environment(ledger_url: str, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a container, with the ledger's URL in a file."""
    file = tmp_path / "ledger_url"
    file.write_text(ledger_url + "\n", encoding="utf-8")
    paths = [os.environ["PATH"], *(str(path) for path in DEBIAN.glob("*/bin"))]
    return {
        **{name: value for name, value in os.environ.items() if name != "MQDLQ_LEDGER_URL"},
        "MQDLQ_LEDGER_URL_FILE": str(file),
        "MQDLQ_HOME": str(tmp_path),
        "PATH": os.pathsep.join(paths),
    }


def test_migrations_run_once_however_many_processes_start_at_once(
    ledger_url: str, tmp_path: Path
) -> None:
    environment = _environment(ledger_url, tmp_path)
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "mqdlq.ledger"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    told = [process.communicate(timeout=120)[0] for process in started]

    newest = revisions()[-1]
    assert [process.returncode for process in started] == [0] * PROCESSES, told
    assert {line.rpartition(": ")[2] for line in told} == {f"revision {newest}\n"}
    with open_ledger(ledger_url) as ledger, ledger.engine.connect() as connection:
        assert connection.scalars(text("SELECT version_num FROM ledger_revision")).all() == [newest]


def _backup(verb: str, directory: Path, environment: dict[str, str]) -> Any:
    script = directories.PROJECT / "deploy" / "backup.py"
    return subprocess.run(
        [sys.executable, script, verb, directory],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _make_database(ledger_url: str) -> str:
    """Create a separate database for the ledger; other tests use schemas of one database."""
    if ledger_url.startswith("sqlite"):
        for file in Path(ledger_url.removeprefix("sqlite:///")).parent.glob("ledger.db*"):
            file.unlink()
        return ledger_url
    url = make_url(ledger_url)
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE IF EXISTS backed_up"))
        connection.execute(text("CREATE DATABASE backed_up"))
    engine.dispose()
    own = url.set(database="backed_up", query={"host": url.query["host"]})
    return own.render_as_string(hide_password=False)


def test_a_backup_restores_ledger_and_lake_and_the_next_run_adds_up(
    ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes, snapshots and archive copies are restored; the time after the backup is unknown.

    Messages handled after the backup are gone from the queue; the next run handles the others.
    """
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    own_url = _make_database(ledger_url)
    world = World(tmp_path, ledger_url=own_url)
    environment = _environment(own_url, tmp_path)
    copy = tmp_path / "backups" / "monday"
    with world.ledger:
        for dest_q in ("PAYMENTS", "ORDERS", "ELSEWHERE"):
            world.dead_letter(dest_q=dest_q)
        before = world.handle(RULES)
        first = world.ledger.runs.get("run-1")
        assert first is not None
        copies = sorted(Path(world.lake_root).rglob("archive/**/*.parquet"))
        archived = [read_back(str(path)) for path in copies]
        assert (done := _backup("backup", copy, environment)).returncode == 0, done.stderr
        again = _backup("backup", copy, environment)
        assert again.stderr == (
            f"deploy/backup.py: {copy} exists; name a new directory [MQDLQ-920]\n"
        )
        full = _backup("restore", copy, environment)
        assert full.stderr == (
            f"deploy/backup.py: the lake {world.lake_root} is not empty; move it away"
            " first [MQDLQ-923]\n"
        )
        world.dead_letter(dest_q="PAYMENTS")
        world.handle(RULES)  # after the backup, so not in its ledger
    shutil.rmtree(world.lake_root)
    _make_database(ledger_url)

    assert (done := _backup("restore", copy, environment)).returncode == 0, done.stderr

    with open_ledger(own_url) as world.ledger:
        assert world.ledger.runs.get("run-1") == first
        assert world.outcomes(first) == before
        assert set(before.values()) == {"delivered", "discarded", "unmatched"}
        assert world.ledger.runs.get("run-2") is None
        world.dead_letter(dest_q="PAYMENTS")
        assert set(world.handle(RULES).values()) == {"delivered", "unmatched"}
    assert [read_back(str(path)) for path in copies] == archived
    assert len(archived) == 1
    mode = (copy / "ledger").stat().st_mode & 0o077
    assert (mode, copy.parent.stat().st_mode & 0o077) == (0, 0)


def test_a_file_that_vanishes_during_a_backup_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handlers may run during a backup: they rename written files and prune snapshots."""
    backup = _script()
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    with world.ledger:
        world.dead_letter(dest_q="PAYMENTS")
        world.handle(RULES)
    vanishing = Path(world.lake_root) / "snapshots" / "half-written"
    vanishing.write_bytes(b"x")
    add = backup.tarfile.TarFile.add

    def add_late(archive: Any, name: Any, *arguments: Any, **more: Any) -> None:
        if Path(name).name == vanishing.name:
            vanishing.unlink()
        add(archive, name, *arguments, **more)

    monkeypatch.setattr(backup.tarfile.TarFile, "add", add_late)

    backup.backup(tmp_path / "copy")

    assert not vanishing.exists()
    with tarfile.open(tmp_path / "copy" / "lake.tar") as archive:
        copied = {name for name in archive.getnames() if name.endswith(".parquet")}
    assert copied == {
        f"./{path.relative_to(world.lake_root)}"
        for path in Path(world.lake_root).rglob("*.parquet")
    }


@pytest.mark.parametrize("missing", ["ledger", "lake"])
def test_a_backup_without_a_ledger_or_a_lake_is_refused(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a backup of the wrong place would be noticed only when it is needed."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    if missing == "lake":
        with open_ledger(f"sqlite:///{tmp_path}/ledger.db"):
            pass
    else:
        (tmp_path / "lake").mkdir()

    done = _backup("backup", tmp_path / "copy", {**os.environ, "MQDLQ_HOME": str(tmp_path)})

    assert done.returncode == 1
    assert (
        done.stderr
        == {
            "ledger": (
                f"deploy/backup.py: the ledger sqlite:///{tmp_path}/ledger.db is"
                " empty; correct MQDLQ_LEDGER_URL [MQDLQ-922]\n"
            ),
            "lake": (
                f"deploy/backup.py: there is no lake {tmp_path}/lake; correct"
                " MQDLQ_LAKE [MQDLQ-921]\n"
            ),
        }[missing]
    )
    assert not (tmp_path / "copy").exists()


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "backup", directories.PROJECT / "deploy" / "backup.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
