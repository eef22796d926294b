"""Test deploy/helm/values.yaml against the chart's schema, the image and the compose file."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import jsonschema
import pytest
import yaml

from tests.unit.deploy.compose_file import PROJECT, dockerfile, services, variables

VALUES = PROJECT / "deploy" / "helm" / "values.yaml"
SCHEMA = PROJECT / "tests" / "corpus" / "helm" / "airflow-chart.schema.yaml"
PAGE = PROJECT / "docs" / "how-to" / "kubernetes.md"


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    return found


@cache
def validator() -> Any:
    schema = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def faults(document: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator().iter_errors(document)]


def test_the_values_fit_the_schema_of_the_chart() -> None:
    assert faults(values()) == []


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        ("schedulers", {}, "'schedulers' was unexpected"),
        ("scheduler.podDisruptionBudgets", {}, "'podDisruptionBudgets' was unexpected"),
        ("scheduler.replicas", "two", "'two' is not of type 'integer'"),
        ("securityContexts.container", {}, "'container' was unexpected"),
        ("env", [{"name": "A", "value": 1}], "1 is not of type 'string'"),
        ("secret", [{"name": "A"}], "'name' was unexpected"),
        ("volumes", [{"name": "a", "emptydir": {}}], "'emptydir' was unexpected"),
    ],
)
def test_a_wrong_key_or_type_does_not_fit(place: str, value: object, fault: str) -> None:
    document = values()
    *path, name = place.split(".")
    section = document
    for key in path:
        section = section[key]
    section[name] = value

    assert any(fault in found for found in faults(document)), faults(document)


def test_containers_run_as_the_images_user_on_a_read_only_root_file_system() -> None:
    given = values()
    contexts = given["securityContexts"]
    (user,) = set(re.findall(r"(?m)^USER ([1-9]\d*)$", dockerfile()))

    assert contexts["pod"]["runAsUser"] == given["uid"] == int(user)
    assert contexts["pod"]["runAsNonRoot"] is True
    assert contexts["containers"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_every_path_that_is_writable_in_the_compose_file_is_a_volume() -> None:
    """The chart itself mounts Airflow's logs and its configuration below /opt/airflow."""
    scheduler = services()["airflow-scheduler"]
    mounts = [*scheduler["tmpfs"], *scheduler["volumes"]]
    writable = {
        path
        for path in (re.sub(r"^[\w-]+:(?=/)", "", mount).partition(":")[0] for mount in mounts)
        if path.startswith("/")
    }
    given = values()
    mounted = {mount["mountPath"]: mount["name"] for mount in given["volumeMounts"]}

    assert writable - {"/opt/airflow"} <= set(mounted)
    assert set(mounted.values()) == {volume["name"] for volume in given["volumes"]}


def test_airflow_has_the_settings_of_the_compose_file() -> None:
    """Both take secrets from their own places; the addresses and the executor's are the chart's."""
    composed = services()["airflow-scheduler"]["environment"]
    given = {entry["name"]: entry["value"] for entry in values()["env"]}
    secrets = {entry["envName"] for entry in values()["secret"]}
    shared = {"DUMB_INIT_SETSID", "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT"}

    assert {name: given[name] for name in shared} == {name: composed[name] for name in shared}
    for name in ("AIRFLOW_PARALLELISM", "AIRFLOW_USERS"):
        assert variables()[name] in given.values()
    needed = {name for name in composed if name.startswith("MQDLQ_")}
    assert needed <= set(given)
    assert "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC" in secrets
    assert values()["airflowVersion"] in variables()["AIRFLOW_IMAGE"]
    assert values()["images"]["airflow"]["tag"] == variables()["MQDLQ_IMAGE"].partition(":")[2]


def test_no_value_is_a_secret_and_the_page_creates_each_object() -> None:
    given = values()
    text = VALUES.read_text(encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    names = {given[key] for key in given if key.endswith("SecretName")}
    names |= {given["data"]["metadataSecretName"]}
    names |= {entry["secretName"] for entry in given["secret"]}
    for volume in given["volumes"]:
        names |= {
            source.get("claimName") or source.get("secretName") or source.get("name")
            for key, source in volume.items()
            if key not in {"name", "emptyDir"}
        }

    assert not re.search(r"(?i)\b(password|fernetkey|jwtsecret|apisecretkey): *\S", text)
    assert len(names) == 8
    assert [name for name in names if not re.search(rf"\b{name}\b", page)] == []
