"""docker-compose.yaml as Airflow understands it: its connections and its settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from airflow.configuration import conf, retrieve_configuration_description
from airflow.sdk import Connection

from mqdlq.airflow.hooks.ibmmq import settings_of
from mqdlq.mqi.connect import ConnectionSettings
from tests.unit.deploy.compose_file import dockerfile, make_secrets, services


def test_make_secrets_writes_the_connections_of_the_compose_file(tmp_path: Path) -> None:
    make_secrets().make(tmp_path)
    found = {}
    for profile in ("mq", "embedded"):
        text = (tmp_path / f"connections-{profile}.json").read_text(encoding="utf-8")
        found[profile] = json.loads(text)

    password = (tmp_path / "mq_app_password").read_text(encoding="utf-8")
    assert _settings(found["mq"]["mq_demo"]) == ConnectionSettings(
        "QM1", host="mq", channel="DEV.APP.SVRCONN", user="app", password=password
    )
    assert _settings(found["embedded"]["mq_demo"]) == ConnectionSettings(
        "QM1", transport="embedded"
    )
    spark = found["mq"]["spark_default"]
    assert f"{spark['host']}:{spark['port']}" in services()["spark-worker-1"]["command"]
    assert services()["spark-master"]["hostname"] == "spark-master"


def _settings(keys: dict[str, Any]) -> ConnectionSettings:
    extra = json.dumps(keys["extra"])
    return settings_of(Connection(conn_id="mq_demo", **{**keys, "extra": extra}))


def test_every_airflow_setting_of_the_compose_file_exists() -> None:
    described = retrieve_configuration_description()
    names = set(services()["airflow-scheduler"]["environment"])
    names |= set(re.findall(r"\bAIRFLOW__\w+", dockerfile()))
    unknown = []
    for name in {name for name in names if name.startswith("AIRFLOW__")}:
        _, section, option = name.lower().split("__")
        is_command = option.endswith("_cmd")
        option = option.removesuffix("_cmd")
        known = option in described.get(section, {}).get("options", {})
        # Only what Airflow takes for sensitive may come from a command.
        if not known or (is_command and (section, option) not in conf.sensitive_config_values):
            unknown.append(name)

    assert unknown == []
