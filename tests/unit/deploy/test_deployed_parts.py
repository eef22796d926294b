"""Run the containers' MQSC files, database script and demo on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

import embedded_mq
from mqdlq import directories
from mqdlq.ledger import open_ledger
from mqdlq.local import demo
from tests.support.postgresql import running_server
from tests.support.world import World

RULES = (directories.PROJECT / "include" / "rules" / "demo.rules").read_text(encoding="utf-8")


def mounted_mqsc() -> list[str]:
    """Return the MQSC files in the order in which the queue manager's container runs them."""
    compose = yaml.safe_load(
        (directories.PROJECT / "docker-compose.yaml").read_text(encoding="utf-8")
    )
    mounts = [volume.split(":") for volume in compose["services"]["mq"]["volumes"]]
    files = sorted((target, source) for source, target, *_ in mounts if source.startswith("."))
    return [(directories.PROJECT / source).read_text(encoding="utf-8") for _, source in files]


@pytest.mark.slow
def test_the_demo_runs_as_the_user_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`app` fills and handles the queue with the authorities of the mounted files.

    The files run twice, because the queue manager runs them at every start.
    """
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path, definitions="")
    for commands in mounted_mqsc() * 2:
        world.mqsc(commands)
    world.settings = replace(world.settings, user="app")

    with world.ledger:
        with world.connect() as queue_manager:
            demo.fill(queue_manager, world.clock)
        outcomes = list(world.handle(RULES).values())

    assert {outcome: outcomes.count(outcome) for outcome in set(outcomes)} == {
        "delivered": 25,
        "forwarded": 24,
        "discarded": 12,
        "left_by_rule": 3,
        "unmatched": 2,
        "unprocessable": 5,
    }


def test_the_demo_fills_the_queue_manager_of_its_settings_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo only puts messages, because our `run_mqsc` cannot administer IBM MQ."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    embedded_mq.create("QM7")
    embedded_mq.run_mqsc("QM7", mounted_mqsc()[0])
    monkeypatch.setattr(embedded_mq, "run_mqsc", None)
    settings = tmp_path / "settings.json"
    settings.write_text('{"queue_manager": "QM7", "transport": "embedded"}', encoding="utf-8")

    demo.main(["--settings", str(settings)], standalone_mode=False)

    assert "71 messages wait on the dead-letter queue of QM7" in capsys.readouterr().out
    assert embedded_mq.names() == ["QM7"]


@pytest.mark.slow
def test_the_contract_tests_run_as_the_user_of_the_container(tmp_path: Path) -> None:
    """`app` has every authority that the contract tests with a real queue manager need."""
    (tmp_path / "place.py").write_text(
        f"import embedded_mq\nembedded_mq.install({str(tmp_path)!r})\n", encoding="utf-8"
    )
    embedded_mq.create("QM1", tmp_path)
    for commands in mounted_mqsc():
        embedded_mq.run_mqsc("QM1", commands, tmp_path)
    settings = {"queue_manager": "QM1", "transport": "embedded", "user": "app", "client": "ibmmq"}

    options = ("-p", "place", "-p", "no:cacheprovider", "-k", "real", "tests/contract")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"--basetemp={tmp_path / 'tests'}", *options],
        cwd=directories.PROJECT,
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "MQDLQ_TEST_QUEUE_MANAGER": json.dumps(settings),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
def test_each_role_can_use_only_its_own_database() -> None:
    """Run the script of PostgreSQL's container on a test server, once as in the container."""
    server = running_server()
    url = make_url(server.new_ledger_url())
    script = directories.PROJECT / "deploy" / "postgres" / "create-databases.sh"
    # The test server asks for no password, but the script reads these files anyway.
    secret = Path(str(url.query["host"])) / "secret"
    secret.write_text("it's a \\secret", encoding="utf-8")
    environment = {
        "PATH": os.environ["PATH"],
        "PGHOST": str(url.query["host"]),
        "PGDATABASE": "postgres",
        "POSTGRES_USER": "mqdlq_admin",
        "AIRFLOW_DATABASE_PASSWORD_FILE": str(secret),
        "LEDGER_PASSWORD_FILE": str(secret),
    }
    admin = create_engine(url)
    with admin.begin() as connection:
        connection.execute(text("CREATE ROLE mqdlq_admin SUPERUSER LOGIN"))
        # The superuser of the test server has the name of the ledger's role.
        connection.execute(text("CREATE ROLE before SUPERUSER LOGIN"))
    admin.dispose()
    before = create_engine(url.set(username="before", query={"host": url.query["host"]}))
    with before.begin() as connection:
        connection.execute(text("ALTER ROLE mqdlq RENAME TO taken"))
    try:
        subprocess.run(["/bin/bash", script], check=True, env=environment)

        place = {"host": url.query["host"]}
        ledger_url = url.set(username="mqdlq", database="mqdlq", query=place)
        with open_ledger(ledger_url.render_as_string(hide_password=False)) as ledger:
            assert ledger.runs.get("r1") is None
        for role, database in (("airflow", "mqdlq"), ("mqdlq", "airflow")):
            other = create_engine(url.set(username=role, database=database, query=place))
            with pytest.raises(OperationalError, match="permission denied for database"):
                other.connect()
    finally:
        with before.begin() as connection:
            connection.execute(text("ALTER ROLE mqdlq RENAME TO ledger_role"))
            connection.execute(text("ALTER ROLE taken RENAME TO mqdlq"))
        before.dispose()
