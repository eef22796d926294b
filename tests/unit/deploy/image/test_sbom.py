"""Test the bill of materials of an image, which the tools of `make check-deploy` write."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.inventory import inventory, python_packages
from mqdlq import directories

PROJECT = directories.PROJECT
PYTHON = PROJECT / ".tools" / "bin" / "python"

pytestmark = pytest.mark.slow

DEBIAN = {
    "system": {"id": "debian", "version": "12"},
    "debian": [
        {"name": "libc6", "version": "2.36-9", "architecture": "amd64", "licences": []},
        {"name": "zlib1g", "version": "1:1.2", "architecture": "amd64", "licences": ["Zlib"]},
    ],
}


# What an image contains


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def distribution(root: Path, place: str, *headers: str) -> None:
    write(root / place / "METADATA", "\n".join(("Metadata-Version: 2.1", *headers, "", "text")))


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    """Make a root directory with a distribution and a package of Debian."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("dpkg-query is not installed")
    write(tmp_path / "etc/os-release", 'NAME="Debian"\nID=debian\nVERSION_ID="12"\n')
    status = "Status: install ok installed\nArchitecture: amd64\nMaintainer: A\nDescription: b\n"
    gone = status.replace("install ok installed", "deinstall ok config-files")
    packages = (f"Package: sed\nVersion: 4.9-1\n{status}", f"Package: old\nVersion: 1\n{gone}")
    write(tmp_path / "var/lib/dpkg/status", "\n".join(packages))
    write(
        tmp_path / "usr/share/doc/sed/copyright",
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"
        "Files: *\nLicense: GPL-3+\n\nFiles: debian/*\nLicense: GPL-3+\n",
    )
    distribution(
        tmp_path,
        "opt/.venv/lib/Dotted.Name-1.0.dist-info",
        "Name: Dotted.Name",
        "Version: 1.0",
        "Classifier: License :: OSI Approved :: MIT License",
        "License: a long text",
    )
    (tmp_path / "opt/mqm").mkdir()
    return tmp_path


def test_an_inventory_has_python_and_debian_packages_with_their_licences(root: Path) -> None:
    place = "opt/.venv/lib"
    package = {"name": "dotted-name", "version": "1.0", "licences": ["MIT License"], "place": place}
    sed = {"name": "sed", "version": "4.9-1", "architecture": "amd64", "licences": ["GPL-3+"]}

    assert inventory(root) == {
        "system": {"id": "debian", "version": "12"},
        "python": [package],
        "debian": [sed],
        "ibm_mq_client": False,
    }


def test_an_inventory_says_whether_ibms_client_is_there(root: Path) -> None:
    (root / "opt/mqm/lib64").mkdir()

    assert inventory(root)["ibm_mq_client"] is True


@pytest.mark.parametrize(
    ("headers", "licences"),
    [
        (("License-Expression: MIT", "License: other"), ["MIT"]),
        (("License: BSD", "Classifier: License :: OSI Approved"), ["BSD"]),
        ((), []),
    ],
)
def test_the_licence_of_a_distribution_is_the_most_exact_that_it_names(
    headers: tuple[str, ...], licences: list[str], tmp_path: Path
) -> None:
    distribution(tmp_path, "a-1.dist-info", "Name: a", "Version: 1", *headers)

    assert [one["licences"] for one in python_packages(tmp_path)] == [licences]


# Its bill of materials


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if not PYTHON.exists():
        pytest.skip("the tools are not installed: make check-deploy")
    return subprocess.run(
        [PYTHON, *arguments], cwd=PROJECT, capture_output=True, text=True, check=False
    )


@pytest.fixture(name="found", scope="module")
def _found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an inventory with the packages of this environment."""
    file = tmp_path_factory.mktemp("sbom") / "inventory.json"
    packages = list(python_packages(Path(sys.prefix)))
    file.write_text(json.dumps({**DEBIAN, "python": packages, "ibm_mq_client": True}))
    return file


@pytest.fixture(name="bill", scope="module")
def _bill(found: Path) -> bytes:
    target = found.with_name("sbom.json")
    done = run("-m", "deploy.sbom", found, target)
    assert (done.returncode, done.stderr) == (0, "")
    return target.read_bytes()


def components(bill: bytes) -> dict[str, dict[str, Any]]:
    return {found["bom-ref"]: found for found in json.loads(bill)["components"]}


def test_the_bill_has_what_the_inventory_has(found: Path, bill: bytes) -> None:
    python = json.loads(found.read_text(encoding="utf-8"))["python"]
    wanted = {f"{one['name']}=={one['version']}" for one in python if one["name"] != "mqdlq"}
    others = {"deb:libc6:amd64", "deb:zlib1g:amd64", "base-image", "ibm-mq-client"}

    assert set(components(bill)) == wanted | others
    zlib = components(bill)["deb:zlib1g:amd64"]
    assert zlib["purl"] == "pkg:deb/debian/zlib1g@1:1.2?arch=amd64&distro=debian-12"
    assert zlib["licenses"] == [{"license": {"name": "Zlib"}}]


def test_packages_of_the_lock_have_its_checksums(bill: bytes) -> None:
    lock = (PROJECT / "requirements.lock").read_text(encoding="utf-8")
    unconditional = dict(re.findall(r"(?m)^([a-z0-9-]+)==(\S+) \\$", lock))
    del unconditional["pyspark-client"]  # a part of pyspark
    found = components(bill)
    hashes = [
        value["content"]
        for name, version in unconditional.items()
        for value in found[f"{name}=={version}"]["hashes"]
    ]

    assert len(hashes) > len(unconditional) > 150
    assert [value for value in hashes if value not in lock] == []


def test_every_component_is_a_dependency_of_the_product(bill: bytes) -> None:
    document = json.loads(bill)
    needs = {one["ref"]: one.get("dependsOn", []) for one in document["dependencies"]}
    product = document["metadata"]["component"]
    reached, following = {"mqdlq"}, ["mqdlq"]
    while following:
        new = set(needs.get(following.pop(), ())) - reached
        reached |= new
        following += new

    assert reached - {"mqdlq"} == set(components(bill))
    named = {ref.partition("==")[0] for ref in needs["mqdlq"]}
    assert named >= {"apache-airflow", "pyspark", "psycopg", "ibmmq", "base-image"}
    assert (product["name"], product["licenses"]) == ("mqdlq", [{"license": {"id": "Apache-2.0"}}])


def test_the_bill_of_an_image_without_ibms_client_lacks_it(found: Path, tmp_path: Path) -> None:
    given = json.loads(found.read_text(encoding="utf-8")) | {"ibm_mq_client": False}
    (tmp_path / "inventory.json").write_text(json.dumps(given), encoding="utf-8")

    assert run("-m", "deploy.sbom", tmp_path / "inventory.json", tmp_path / "bill").returncode == 0
    assert "ibm-mq-client" not in components((tmp_path / "bill").read_bytes())


def test_the_same_inventory_gives_the_same_bytes(found: Path, bill: bytes, tmp_path: Path) -> None:
    assert run("-m", "deploy.sbom", found, tmp_path / "again.json").returncode == 0
    assert (tmp_path / "again.json").read_bytes() == bill


def test_a_bill_that_is_not_cyclonedx_is_found_invalid(bill: bytes, tmp_path: Path) -> None:
    document = json.loads(bill)
    document["components"][0]["type"] = "parcel"
    (tmp_path / "wrong.json").write_text(json.dumps(document), encoding="utf-8")

    script = "import sys; from deploy.sbom import invalid; print(invalid(open(sys.argv[1]).read()))"
    done = run("-c", script, tmp_path / "wrong.json")

    assert "parcel" in done.stdout
