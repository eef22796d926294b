"""`mqdlq backfill` over the SQLite metadata of the project's own Airflow, whose services stand.

tests/e2e/test_long_backfill.py has the whole command over running services and PostgreSQL.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mqdlq.local.environment import environment
from tests.support.world import World

pytestmark = pytest.mark.slow

MQDLQ = Path(sys.executable).with_name("mqdlq")
CONNECTION = json.dumps(
    {"conn_type": "ibmmq", "extra": {"queue_manager": "QM1", "transport": "embedded"}}
)
CREATE = """
from datetime import timedelta
from mqdlq.airflow.operators.base import utc_now
from mqdlq.handlers import load_handler
from mqdlq.local.backfill import Backfill, Interval, create, ended_intervals
now = utc_now()
asked = Backfill(load_handler("night"), now - timedelta(days=4), now, {})
found = [Interval(window) for window in ended_intervals(asked, now)]
create(asked, found)
print(len(found))
"""


@pytest.fixture(scope="module", name="home")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an Airflow that knows the handler, and a snapshot taken ninety minutes ago."""
    home = tmp_path_factory.mktemp("backfill")
    world = World(home, definitions="DEFINE QLOCAL(MQDLQ.STATE)\nDEFINE QLOCAL(DLQ)\n")
    (home / "rules").mkdir()
    (home / "rules" / "night.rules").write_text("INPUTQ(DLQ) WAIT(NO)\nACTION(IGNORE)\n")
    (home / "rules" / "night.yaml").write_text(
        "connection: mq_one\nrules: night.rules\nschedule: '0 * * * *'\n"
    )
    world.clock.now = now() - timedelta(minutes=90)
    world.dead_letter()
    world.handle("INPUTQ(DLQ) WAIT(NO)\nACTION(IGNORE)\n")
    return home


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (Airflow's intervals end by the wall clock)


def settings(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    own = {"MQDLQ_HOME": str(home), "MQDLQ_RULES_DIR": str(home / "rules")}
    return {**kept, **own, "AIRFLOW_CONN_MQ_ONE": CONNECTION}


def call(home: Path, *words: str, **more: str) -> tuple[int, str]:
    done = subprocess.run(
        [MQDLQ, *words],
        env=settings(home) | more,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stderr


def backfill(home: Path, *options: str, **more: str) -> tuple[int, str]:
    yesterday, today = (f"{now() - timedelta(days=days):%Y-%m-%d}" for days in (1, 0))
    return call(home, "backfill", "night", "--from", yesterday, "--to", today, *options, **more)


@pytest.mark.long
def test_an_airflow_that_would_begin_no_run_is_refused_with_what_is_missing(home: Path) -> None:
    """One test: each step removes one obstacle."""
    metadata = f"sqlite:///{home}/airflow/airflow.db"
    elsewhere = (
        "set AIRFLOW_HOME or AIRFLOW__DATABASE__SQL_ALCHEMY_CONN to the Airflow that has the runs"
    )
    assert backfill(home) == (
        1,
        (
            "Preparing Airflow's metadata, this once\n"
            f"mqdlq: Airflow's metadata {metadata} have no DAG mq_dlq_night; {elsewhere}"
            " [MQDLQ-843]\n"
        ),
    )

    assert call(home, "airflow", "dags", "reserialize")[0] == 0
    assert backfill(home, "--dry-run") == (0, "")
    assert backfill(home) == (
        1,
        (
            "mqdlq: mq_dlq_night is paused, so Airflow would begin no run of the backfill; `mqdlq"
            " airflow dags unpause mq_dlq_night` starts the DAG [MQDLQ-844]\n"
        ),
    )

    assert call(home, "airflow", "dags", "unpause", "--yes", "mq_dlq_night")[0] == 0
    assert backfill(home) == (
        1,
        (
            f"mqdlq: no scheduler runs over Airflow's metadata {metadata}, so none would begin a"
            f" run of the backfill; start Airflow's services, or {elsewhere} [MQDLQ-845]\n"
        ),
    )
    assert backfills(home) == 0


def test_metadata_that_cannot_be_reached_are_one_sentence(home: Path) -> None:
    nowhere = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql+psycopg://a@127.0.0.1:1/a"}

    code, said = backfill(home, **nowhere)

    assert code == 1
    assert said.startswith("mqdlq: Airflow's metadata database cannot be used (connection failed: ")
    assert said.endswith("; prepare it by `airflow db migrate` [MQDLQ-840]\n")
    assert said.count("\n") == 1


def test_airflow_creates_a_backfill_in_sqlite_while_another_process_writes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler writes all the time; Airflow's own command ends in "database is locked"."""
    monkeypatch.setenv("MQDLQ_HOME", str(home))
    assert call(home, "airflow", "dags", "reserialize")[0] == 0
    is_done = threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(home / "airflow" / "airflow.db", timeout=60)) as other:
            while not is_done.wait(0.002):
                other.execute("UPDATE slot_pool SET slots = slots")
                other.commit()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", CREATE],
            env=environment(settings(home)),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    finally:
        is_done.set()
        writer.join()

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) >= 95
    assert backfills(home) == 1


def backfills(home: Path) -> int:
    with closing(sqlite3.connect(home / "airflow" / "airflow.db")) as metadata:
        ((number,),) = metadata.execute("SELECT COUNT(*) FROM backfill").fetchall()
        return int(number)
