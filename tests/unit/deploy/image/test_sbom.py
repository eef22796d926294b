"""Test the bill of materials of the image, which the tools of `make check-deploy` write."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mqdlq import directories

PROJECT = directories.PROJECT
PYTHON = PROJECT / ".tools" / "bin" / "python"

pytestmark = pytest.mark.slow


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if not PYTHON.exists():
        pytest.skip("the tools are not installed: make check-deploy")
    return subprocess.run(
        [PYTHON, *arguments], cwd=PROJECT, capture_output=True, text=True, check=False
    )


@pytest.fixture(name="bill", scope="module")
def _bill(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    target = tmp_path_factory.mktemp("sbom") / "sbom.json"
    done = run("-m", "deploy.sbom", target)
    assert (done.returncode, done.stderr) == (0, "")
    return target.read_bytes()


def components(bill: bytes) -> dict[str, dict[str, Any]]:
    return {found["bom-ref"]: found for found in json.loads(bill)["components"]}


def test_the_bill_has_the_packages_of_the_lock_that_the_image_installs(bill: bytes) -> None:
    lock = (PROJECT / "requirements.lock").read_text(encoding="utf-8")
    unconditional = dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+) \\$", lock))
    del unconditional["pyspark-client"]  # a part of pyspark
    found = components(bill)

    assert len(unconditional) > 150
    assert {name: found[name]["version"] for name in unconditional} == unconditional
    assert set(found) - set(unconditional) >= {"base-image", "ibm-mq-client", "numpy", "uvloop"}
    assert not {"colorama", "pyspark-client"} & set(found)  # the first is for Windows
    for name, version in re.findall(r"(?m)^(\S+)==(\S+) ; python_full_version < '3\.12'", lock):
        assert found[name]["version"] == version


def test_each_package_has_checksums_and_a_licence(bill: bytes) -> None:
    lock = (PROJECT / "requirements.lock").read_text(encoding="utf-8")
    packages = {name: one for name, one in components(bill).items() if name != "base-image"}

    assert [name for name, one in packages.items() if not one.get("licenses")] == []
    hashes = {value["content"] for one in packages.values() for value in one["hashes"]}
    dockerfile = (PROJECT / "Dockerfile").read_text(encoding="utf-8")
    assert [value for value in hashes if value not in lock + dockerfile] == []
    assert all(one["hashes"] for one in packages.values())


def test_every_component_is_a_dependency_of_the_product(bill: bytes) -> None:
    document = json.loads(bill)
    needs = {one["ref"]: one.get("dependsOn", []) for one in document["dependencies"]}
    product = document["metadata"]["component"]
    reached, following = {"mqdlq"}, ["mqdlq"]
    while following:
        new = set(needs[following.pop()]) - reached
        reached |= new
        following += new

    assert reached - {"mqdlq"} == set(components(bill))
    assert set(needs["mqdlq"]) >= {"apache-airflow", "pyspark", "psycopg", "ibmmq", "base-image"}
    assert (product["name"], product["licenses"]) == ("mqdlq", [{"license": {"id": "Apache-2.0"}}])


def test_the_same_lock_gives_the_same_bytes(bill: bytes, tmp_path: Path) -> None:
    assert run("-m", "deploy.sbom", tmp_path / "again.json").returncode == 0
    assert (tmp_path / "again.json").read_bytes() == bill


def test_a_bill_that_is_not_cyclonedx_is_found_invalid(bill: bytes, tmp_path: Path) -> None:
    document = json.loads(bill)
    document["components"][0]["type"] = "parcel"
    (tmp_path / "wrong.json").write_text(json.dumps(document), encoding="utf-8")

    script = "import sys; from deploy.sbom import invalid; print(invalid(open(sys.argv[1]).read()))"
    done = run("-c", script, tmp_path / "wrong.json")

    assert "parcel" in done.stdout
