"""Render Airflow's Helm chart with deploy/helm/values.yaml, by the program `helm`.

The chart is not part of this project. MQDLQ_AIRFLOW_CHART names its archive, which
``helm pull apache-airflow/airflow --version 1.22.0`` downloads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from typing import Any

import jsonschema
import pytest
import yaml

from tests.unit.deploy.test_helm_values import VALUES, values

SERVICES = {"scheduler", "api-server", "dag-processor", "triggerer"}


@pytest.fixture(name="chart", scope="module")
def _chart() -> str:
    chart = os.environ.get("MQDLQ_AIRFLOW_CHART", "")
    if not chart:
        pytest.skip("MQDLQ_AIRFLOW_CHART does not name the archive of Airflow's chart 1.22.0")
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed")
    return chart


@pytest.fixture(name="rendered", scope="module")
def _rendered(chart: str) -> list[dict[str, Any]]:
    """Return the objects that Kubernetes would get."""
    command = [
        "helm",
        "template",
        "airflow",
        chart,
        "--namespace",
        "mqdlq",
        "--values",
        f"{VALUES}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def containers(rendered: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the containers of our image, by service or job."""
    image = values()["images"]["airflow"]
    name = f"{image['repository']}:{image['tag']}"
    found: dict[str, dict[str, Any]] = {}
    for one in rendered:
        pod = one.get("spec", {}).get("template", {}).get("spec", {})
        found |= {c["name"]: c for c in pod.get("containers", ()) if c["image"] == name}
    return found


def test_the_values_fit_the_charts_own_schema(chart: str) -> None:
    with tarfile.open(chart) as archive:
        file = archive.extractfile("airflow/values.schema.json")
        assert file
        schema = json.load(file)

    assert [e.message for e in jsonschema.Draft7Validator(schema).iter_errors(values())] == []


def test_the_chart_gives_airflows_services_and_one_job_of_our_image(
    rendered: list[dict[str, Any]],
) -> None:
    jobs = {one["metadata"]["name"] for one in rendered if one["kind"] == "Job"}
    groomers = {name for name in containers(rendered) if name.endswith("-log-groomer")}

    assert jobs == {"airflow-run-airflow-migrations"}
    assert set(containers(rendered)) == {*SERVICES, "run-airflow-migrations", *groomers}
    assert "Secret" not in {one["kind"] for one in rendered if "mqdlq" in one["metadata"]["name"]}


def test_each_container_is_read_only_and_has_the_settings_and_paths_of_the_values(
    rendered: list[dict[str, Any]],
) -> None:
    given = values()
    for name, container in containers(rendered).items():
        assert container["securityContext"] == given["securityContexts"]["containers"], name
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted >= {mount["mountPath"] for mount in given["volumeMounts"]}, name
    for name in SERVICES:
        set_to = {one["name"]: one.get("value") for one in containers(rendered)[name]["env"]}
        assert {one["name"]: one["value"] for one in given["env"]}.items() <= set_to.items(), name


def test_the_job_and_the_api_server_start_by_the_script_of_the_image(
    rendered: list[dict[str, Any]],
) -> None:
    found = {name: one["args"][:3] for name, one in containers(rendered).items()}
    script = ["bash", "/opt/mqdlq/deploy/start.sh"]

    assert found["run-airflow-migrations"] == [*script, "init"]
    assert found["api-server"] == [*script, "api-server"]
