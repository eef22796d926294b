"""Test deploy/compose-backup.sh with a `docker` that runs the commands on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url

from mqdlq import directories
from mqdlq.ledger import open_ledger
from tests.support.postgresql import DEBIAN, running_server
from tests.support.world import World

pytestmark = pytest.mark.slow

SCRIPT = directories.PROJECT / "deploy" / "compose-backup.sh"
RULES = "DESTQ(PAYMENTS) ACTION(RETRY)\nDESTQ(ORDERS) ACTION(DISCARD)\n"
# It checks the words before the program, which the script wrote, and runs the rest.
DOCKER = """#!/bin/bash
set -eu
echo "$@" | head -n 1 >>"$ASKED"
case "$*" in
  "compose exec -T postgres "*) shift 4; exec "$@" ;;
  "compose run --rm --no-deps -T --entrypoint bash airflow-init "*) shift 8; exec bash "$@" ;;
  "compose up --detach --wait postgres") ;;
  *) echo "docker: $*" >&2; exit 64 ;;
esac
"""


@pytest.fixture(name="ledger")
def _ledger() -> Iterator[URL]:
    """Create the empty database of the compose file; yield its URL."""
    url = make_url(running_server().new_ledger_url())
    _drop(url, "CREATE DATABASE mqdlq")
    yield url.set(database="mqdlq", query={"host": url.query["host"]})
    _drop(url)


def _drop(url: URL, *then: str) -> None:
    engine = create_engine(
        url.set(database="postgres", query={"host": url.query["host"]}),
        isolation_level="AUTOCOMMIT",
    )
    with engine.connect() as connection:
        for command in ("DROP DATABASE IF EXISTS mqdlq WITH (FORCE)", *then):
            connection.execute(text(command))
    engine.dispose()


def call(world: World, verb: str, directory: Path) -> tuple[int, str, str]:
    url = make_url(world.ledger_url)
    docker = world.directory / "bin" / "docker"
    docker.parent.mkdir(exist_ok=True)
    docker.write_text(DOCKER, encoding="utf-8")
    docker.chmod(0o755)
    programs = [str(path) for path in DEBIAN.glob("*/bin")]
    done = subprocess.run(
        ["/bin/bash", SCRIPT, verb, directory],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": os.pathsep.join([str(docker.parent), os.environ["PATH"], *programs]),
            "PGHOST": str(url.query["host"]),
            "MQDLQ_LAKE": world.lake_root,
            "ASKED": str(world.directory / "asked"),
        },
    )
    return done.returncode, done.stdout, done.stderr


def test_a_backup_restores_the_containers_ledger_and_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: URL
) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, ledger_url=ledger.render_as_string(hide_password=False))
    copy, lake = tmp_path / "monday", Path(world.lake_root)
    with world.ledger:
        for dest_q in ("PAYMENTS", "ORDERS", "ELSEWHERE"):
            world.dead_letter(dest_q=dest_q)
        before = world.handle(RULES)
        first = world.ledger.runs.get("run-1")
        assert first is not None
    files = {
        path.relative_to(lake): path.read_bytes() for path in lake.rglob("*") if path.is_file()
    }

    assert call(world, "backup", copy) == (0, f"ledger and lake are copied to {copy}\n", "")
    assert call(world, "backup", copy) == (
        1,
        "",
        _told(f"{copy} exists; name a new directory [MQDLQ-920]"),
    )
    assert call(world, "restore", copy) == (
        1,
        "",
        _told("the lake is not empty; move it away first"),
    )
    shutil.rmtree(lake)
    assert call(world, "restore", copy) == (
        1,
        "",
        _told("the ledger is not empty; restore into a new volume"),
    )
    _drop(ledger, "CREATE DATABASE mqdlq")
    assert call(world, "restore", copy) == (0, f"ledger and lake are those of {copy} again\n", "")

    found = {
        path.relative_to(lake): path.read_bytes() for path in lake.rglob("*") if path.is_file()
    }
    assert found == files
    with open_ledger(world.ledger_url) as world.ledger:
        assert world.outcomes(first) == before
    for path in (copy, copy / "ledger", copy / "lake.tar", lake):
        assert path.stat().st_mode & 0o077 == 0, path


def _told(what: str) -> str:
    return f"deploy/compose-backup.sh: {what}\n"


def test_a_directory_without_a_backup_is_refused_before_docker_is_called(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/bash", SCRIPT, "restore", tmp_path], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (1, _told(f"{tmp_path} holds no copy"))


@pytest.mark.parametrize("verb", ["backup", "restore"])
def test_a_lake_in_an_object_store_is_refused_before_docker_is_called(
    tmp_path: Path, verb: str
) -> None:
    done = subprocess.run(
        ["/bin/bash", SCRIPT, verb, tmp_path / "copy"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "MQDLQ_LAKE": "s3://lake/dlq"},
    )

    assert (done.returncode, done.stderr) == (
        1,
        _told(
            "the lake s3://lake/dlq is no directory; copy it with its store's own tools, and the"
            " ledger with pg_dump"
        ),
    )
