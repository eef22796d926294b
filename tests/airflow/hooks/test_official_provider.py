"""Airflow's own provider for IBM MQ is installed here, too: both use one connection.

Without it, the type `ibmmq` has our form and our test. Each test asks a Python of its own, because
Airflow reads what is installed once, and the provider looks for the client when it is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import embedded_mq
from mqdlq.mqi.airflow_connections import EXTRAS

pytestmark = pytest.mark.slow

INSTALLED = Path(sysconfig.get_path("purelib"))
HOOKS = """
from airflow.providers_manager import ProvidersManager
found = ProvidersManager()
hooks = {name: found.hooks[name].hook_class_name for name in ("ibmmq", "mqdlq")}
fields = sorted(one for one in found.connection_form_widgets if one.startswith("extra__"))
answer = [hooks, [one for one in fields if "__ibmmq__" in one or "__mqdlq__" in one]]
"""
BOTH = """
import embedded_mq
embedded_mq.install()
from airflow.models.connection import Connection
from airflow.providers.ibm.mq.hooks.mq import IBMMQHook
from mqdlq.airflow.hooks.ibmmq import MqHook
connection = Connection.get_connection_from_secrets("both")
# An embedded queue manager has no channels, so that the connection names none.
IBMMQHook("both", channel="DEV.APP.SVRCONN").produce(connection, "DLQ", "a message")
answer = [MqHook("both").get_conn().depth("DLQ"), *connection.test_connection()]
"""


def ask(program: str, directory: Path, packages: Path = INSTALLED, **variables: str) -> Any:
    """Run a program with these packages; return its variable `answer`, and fail if it warns."""
    paths = [str(packages), *(one for one in sys.path if one != str(INSTALLED))]
    done = subprocess.run(
        [sys.executable, "-S", "-W", "ignore", "-"],
        input=f"{program}\nimport json; print(json.dumps(answer))",
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(paths),
            "AIRFLOW_HOME": str(directory / "airflow"),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "already registered" not in done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def form(conn_type: str) -> list[str]:
    return sorted(f"extra__{conn_type}__{name}" for name in EXTRAS)


def test_each_of_both_providers_has_its_type(tmp_path: Path) -> None:
    hooks, fields = ask(HOOKS, tmp_path)

    assert hooks == {
        "ibmmq": "airflow.providers.ibm.mq.hooks.mq.IBMMQHook",
        "mqdlq": "mqdlq.airflow.hooks.ibmmq.MqHook",
    }
    assert fields == form("mqdlq")


def test_without_the_official_provider_its_type_has_our_form_and_our_test(tmp_path: Path) -> None:
    """The packages of this environment, without that one, are in a directory of links."""
    found = tmp_path / "packages"
    link(INSTALLED, found, but={"airflow", *(one.name for one in INSTALLED.glob("*ibm_mq-*"))})
    link(INSTALLED / "airflow", found / "airflow", but={"providers"})
    link(INSTALLED / "airflow" / "providers", found / "airflow" / "providers", but={"ibm"})

    hooks, fields = ask(HOOKS, tmp_path, found)

    assert hooks == {
        "ibmmq": "mqdlq.airflow.hooks.ibmmq.SharedTypeHook",
        "mqdlq": "mqdlq.airflow.hooks.ibmmq.MqHook",
    }
    assert fields == form("ibmmq") + form("mqdlq")


def link(source: Path, target: Path, but: set[str]) -> None:
    target.mkdir()
    for one in source.iterdir():
        if one.name not in but:
            (target / one.name).symlink_to(one)


@pytest.mark.parametrize("conn_type", ["mqdlq", "ibmmq"])
def test_both_hooks_use_a_connection_of_either_type(
    conn_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Test button is ours for our own type; the official provider's hook has no test."""
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    embedded_mq.create("QM1")
    embedded_mq.run_mqsc("QM1", "DEFINE QLOCAL(DLQ); DEFINE QLOCAL(MQDLQ.STATE)")
    embedded_mq.run_mqsc("QM1", "ALTER QMGR DEADQ(DLQ)")
    extra = {"queue_manager": "QM1", "transport": "embedded", "open_options": "MQOO_OUTPUT"}
    connection = json.dumps({"conn_type": conn_type, "extra": extra})

    depth, *tested = ask(BOTH, tmp_path, MQDLQ_HOME=str(tmp_path), AIRFLOW_CONN_BOTH=connection)

    assert depth == 1
    if conn_type == "mqdlq":
        assert tested[0]
        assert tested[1].endswith("execution: no authority is missing")
    else:
        assert not tested[0]
        assert tested[1] == "Hook IBMMQHook doesn't implement or inherit test_connection method"
