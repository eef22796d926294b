"""The ledger that tasks open: by environment, by connection, or the file that is always there."""

from __future__ import annotations

import json
import secrets
import traceback
from pathlib import Path

import pytest
from airflow.sdk import Connection
from sqlalchemy import make_url

from mqdlq.airflow.dags.history import ExportOutcomes
from mqdlq.airflow.hooks.connections import open_ledger, url_of
from mqdlq.airflow.retries import is_transient
from mqdlq.errors import ConnectionSettingsError, LedgerUnavailableError
from tests.support.postgresql import server

PASSWORD = secrets.token_hex(4) + "@/:"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    monkeypatch.delenv("MQDLQ_LEDGER_URL", raising=False)


def test_without_a_connection_the_ledger_is_the_sqlite_file(tmp_path: Path) -> None:
    with open_ledger() as ledger:
        assert ledger.engine.url.database == str(tmp_path / "ledger.db")


def test_the_ledger_connection_names_a_postgresql_database(monkeypatch: pytest.MonkeyPatch) -> None:
    found = server()
    if found is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    url = make_url(found.new_ledger_url())
    keys = {"conn_type": "postgres", "login": url.username, "schema": url.database}
    extra = dict(url.query)
    monkeypatch.setenv("AIRFLOW_CONN_MQDLQ_LEDGER", json.dumps(keys | {"extra": extra}))

    with open_ledger() as ledger:
        assert ledger.engine.dialect.name == "postgresql"
        assert ledger.engine.url.database == url.database
        assert ledger.runs.latest() is None


def test_the_ledger_url_in_the_environment_overrides_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MQDLQ_LEDGER", json.dumps({"conn_type": "postgres"}))
    monkeypatch.setenv("MQDLQ_LEDGER_URL", f"sqlite:///{tmp_path}/other.db")

    with open_ledger() as ledger:
        assert ledger.engine.url.database == str(tmp_path / "other.db")


def test_the_ledger_url_in_a_file_overrides_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MQDLQ_LEDGER", json.dumps({"conn_type": "postgres"}))
    (tmp_path / "url").write_text(f"sqlite:///{tmp_path}/other.db\n")
    monkeypatch.setenv("MQDLQ_LEDGER_URL_FILE", str(tmp_path / "url"))

    with open_ledger() as ledger:
        assert ledger.engine.url.database == str(tmp_path / "other.db")


def test_the_ledger_url_has_every_field_of_the_connection() -> None:
    given = Connection(
        conn_id="mqdlq_ledger",
        conn_type="postgres",
        host="db.example.com",
        port=5433,
        login="mqdlq",
        password=PASSWORD,
        schema="ledger",
        extra=json.dumps({"sslmode": "verify-full", "connect_timeout": 5}),
    )

    url = make_url(url_of(given))

    assert (url.drivername, url.host, url.port) == ("postgresql+psycopg", "db.example.com", 5433)
    assert (url.username, url.password, url.database) == ("mqdlq", PASSWORD, "ledger")
    assert dict(url.query) == {"sslmode": "verify-full", "connect_timeout": "5"}


def test_a_task_fails_with_one_sentence_if_the_ledgers_server_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = {"conn_type": "postgres", "host": "127.0.0.1", "port": 1, "login": "mqdlq"}
    keys |= {"password": PASSWORD, "schema": "ledger"}
    monkeypatch.setenv("AIRFLOW_CONN_MQDLQ_LEDGER", json.dumps(keys))

    with pytest.raises(LedgerUnavailableError) as failed:
        open_ledger()

    assert str(failed.value) == (
        "the ledger postgresql+psycopg://mqdlq:***@127.0.0.1:1/ledger cannot be used:"
        ' connection to server at "127.0.0.1", port 1 failed: Connection refused; start'
        " the database server, or correct the ledger's URL [MQDLQ-205]"
    )
    logged = "".join(traceback.format_exception(failed.value))
    assert "sqlalche.me" not in logged
    assert PASSWORD not in logged
    assert is_transient(failed.value)


def test_a_ledger_connection_of_another_type_is_refused() -> None:
    with pytest.raises(ConnectionSettingsError) as refused:
        url_of(Connection(conn_id="mqdlq_ledger", conn_type="mysql"))

    assert str(refused.value) == (
        "connection 'mqdlq_ledger' has type 'mysql', expected 'postgres'; correct its"
        " type, or remove the connection to keep the ledger in SQLite [MQDLQ-201]"
    )


def test_the_export_of_the_history_reads_the_ledger_that_the_connection_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MQDLQ_LEDGER", json.dumps({"conn_type": "mysql"}))

    with pytest.raises(ConnectionSettingsError, match="MQDLQ-201"):
        ExportOutcomes(task_id="export").execute({})
