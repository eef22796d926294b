"""No byte of a body gets where it does not belong, whatever a handler captures."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.world import World

pytestmark = pytest.mark.e2e

CANARY = b"CANARY-8c1f42"
RULES = """\
RETRYINT(1) WAIT(NO)
DESTQ(PAYMENTS) ACTION(RETRY)
DESTQ(CLOSED) ACTION(RETRY) RETRY(2)
DESTQ(ORDERS) ACTION(FWD) FWDQ(PARKED) HEADER(NO)
DESTQ(OLD) ACTION(DISCARD)
DESTQ(HELD) ACTION(IGNORE)
"""
FORMS = re.compile(
    b"|".join(
        re.escape(form)
        for form in (
            CANARY,
            CANARY.hex().encode(),
            CANARY.hex().upper().encode(),
            base64.b64encode(CANARY)[:16],
            str(list(CANARY))[1:-1].encode(),
            CANARY.decode().encode("utf-16-le"),
            CANARY.decode().encode("cp500"),
        )
    )
)


def fill(world: World) -> None:
    """Put dead letters for every rule, and strays, with the canary in every body."""
    for queue in ("PAYMENTS", "CLOSED", "ORDERS", "OLD", "HELD", "NOWHERE"):
        for number in range(3):
            world.dead_letter(CANARY + b" %d" % number, dest_q=queue)
    world.put("DLQ", CANARY)
    world.put("DLQ", b"DLH " + CANARY, Format=b"MQDEAD  ")
    world.put("DLQ", CANARY * 20, Format=b"MQDEAD  ")
    world.dead_letter(CANARY * 2000, dest_q="NOWHERE", inner=(546, 819, "MQHRF2"))


def run(home: Path, payload: str, faults: str = "") -> subprocess.CompletedProcess[str]:
    """Run the handler through Airflow and Spark, with Spark's event log on."""
    (home / "rules" / "canary.yaml").write_text(
        f"connection: mq_demo\nrules: canary.rules\npayload: {payload}\ntask_retries: 0\n"
    )
    (home / "spark" / "events").mkdir(parents=True, exist_ok=True)
    (home / "spark" / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir file://{home}/spark/events\n"
    )
    return subprocess.run(
        [sys.executable, "-c", "from mqdlq.cli import app; app()", "run", "canary"],
        env={
            **os.environ,
            "MQDLQ_HOME": str(home),
            "MQDLQ_RULES_DIR": str(home / "rules"),
            "MQDLQ_FAULTS": faults,
            "SPARK_CONF_DIR": str(home / "spark"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def content(path: Path) -> bytes:
    """Return what a file holds, a Parquet file's values uncompressed."""
    if path.suffix != ".parquet":
        return path.read_bytes()
    return repr(pq.read_table(path).to_pylist()).encode() + path.read_bytes()


def belongs(path: Path, home: Path) -> bool:
    """Whether bodies belong there: on queues, in the archive, in captured payload."""
    inside = path.relative_to(home)
    return inside.parts[0] == "queue_managers" or (
        inside.parts[0] == "lake" and ("archive" in inside.parts or "payload" in inside.parts)
    )


def test_message_bodies_are_stored_only_where_they_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    metadata(tmp_path / "airflow")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "canary.rules").write_text(RULES)
    world = World(tmp_path)
    world.ledger.close()
    fill(world)

    broken = run(tmp_path, "full", faults="MQCMIT:2:2009:before")
    fill(world)
    whole = run(tmp_path, "none")

    assert broken.returncode != 0, broken.stdout
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert "MQRC_CONNECTION_BROKEN (2009)" in broken.stdout
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    singing = [path for path in files if FORMS.search(content(path))]
    said = (broken.stdout + broken.stderr + whole.stdout + whole.stderr).encode()
    assert [str(path) for path in singing if not belongs(path, tmp_path)] == []
    assert not FORMS.search(said)
    assert any("payload" in path.parts for path in singing)  # the search does find it
    assert any("archive" in path.parts for path in singing)
    events = list((tmp_path / "spark" / "events").rglob("*"))
    assert len([path for path in events if path.is_file()]) >= 2
    assert (tmp_path / "airflow" / "airflow.db").stat().st_size > 0
