"""Write the bill of materials of an image, as CycloneDX 1.6 in JSON (`make sbom`).

It has what the image contains, as deploy/inventory.py found it there: the Python packages of every
environment, Debian's packages, and IBM's MQ client or the embedded queue manager in its place. The
lock adds the dependencies and the checksums of its packages, the Dockerfile the base image. The
Java libraries are a part of the package pyspark.
The same image and the same lock give the same bytes.

Run as ``.tools/bin/python -m deploy.sbom INVENTORY FILE`` at the top of the project.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

PROJECT = Path(__file__).resolve().parents[1]
_ENTRY = re.compile(
    r"(?m)^(?P<name>[a-z0-9-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>.+?))? \\\n"
    r"(?P<hashes>(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
    r"(?P<needed_by>(?: +#.*\n)*)"
)


@dataclass(frozen=True)
class Pin:
    """One entry of the lock."""

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: frozenset[str]


def pins(lock: str) -> Iterator[Pin]:
    for entry in _ENTRY.finditer(lock):
        yield Pin(
            entry["name"],
            entry["version"],
            tuple(re.findall(r"sha256:(\w+)", entry["hashes"])),
            frozenset(re.sub(r"#|\bvia\b", " ", entry["needed_by"]).split()),
        )


def bill(inventory: dict[str, Any], lock: str, dockerfile: str, project: dict[str, str]) -> Bom:
    """Return the bill of materials.

    The project depends on its own dependencies in the lock, on each package that no other package
    needs, and on the base image; the base image on the packages of Debian.
    """
    product = Component(
        type=ComponentType.APPLICATION,
        name=project["name"],
        version=project["version"],
        description=project["description"],
        licenses=[LicenseFactory().make_from_string(project["license"])],
        purl=PackageURL("pypi", name=project["name"], version=project["version"]),
        bom_ref=project["name"],
    )
    pinned = {(pin.name, pin.version): pin for pin in pins(lock)}
    of_python = {
        (one["name"], one["version"]): _of_python(one, pinned.get((one["name"], one["version"])))
        for one in inventory["python"]
        if one["name"] != product.name
    }
    of_debian = [_of_debian(one, inventory["system"]) for one in inventory["debian"]]
    arguments = dict(re.findall(r"(?m)^ARG (\w+)=(\S+)$", dockerfile))
    base = _base_image(arguments["AIRFLOW_IMAGE"])
    client = [_ibm_mq_client(arguments)] if inventory["ibm_mq_client"] else []

    # What the lock pins has the names of the packages that need it.
    locked = {
        name: found for (name, version), found in of_python.items() if (name, version) in pinned
    }
    needs: dict[str, list[Component]] = {}
    for name, package in locked.items():
        needed_by = pinned[name, str(package.version)].needed_by
        for other in needed_by & {*locked, product.name} or {product.name}:
            needs.setdefault(other, []).append(package)
    others = [found for found in of_python.values() if found not in locked.values()]
    seed = json.dumps(inventory, sort_keys=True) + lock + dockerfile + project["version"]
    bom = Bom(
        components=[*of_python.values(), *of_debian, base, *client],
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, seed),
        metadata=BomMetaData(component=product),
    )
    bom.metadata.timestamp = None  # else no two bills would be the same
    bom.register_dependency(product, [*needs.pop(product.name), *others, base, *client])
    for name, package in locked.items():
        bom.register_dependency(package, needs.get(name, []))
    bom.register_dependency(base, of_debian)
    return bom


def _of_python(found: dict[str, Any], pin: Pin | None) -> Component:
    name, version = found["name"], found["version"]
    hashes = pin.hashes if pin else ()
    return Component(
        name=name,
        version=version,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=value) for value in hashes],
        licenses=[LicenseFactory().make_from_string(value) for value in found["licences"]],
        purl=PackageURL("pypi", name=name, version=version),
        bom_ref=f"{name}=={version}",
    )


def _of_debian(found: dict[str, Any], system: dict[str, str]) -> Component:
    name, version = found["name"], found["version"]
    more = {"arch": found["architecture"], "distro": f"{system['id']}-{system['version']}"}
    return Component(
        name=name,
        version=version,
        licenses=[LicenseFactory().make_with_name(value) for value in found["licences"]],
        purl=PackageURL("deb", system["id"], name, version, more),
        bom_ref=f"deb:{name}:{found['architecture']}",
    )


def _base_image(reference: str) -> Component:
    image, _, tag = reference.partition(":")
    owner, _, name = image.rpartition("/")
    return Component(
        type=ComponentType.CONTAINER,
        name=image,
        version=tag,
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
        purl=PackageURL("docker", owner, name, tag),
        bom_ref="base-image",
    )


def _ibm_mq_client(arguments: dict[str, str]) -> Component:
    return Component(
        name="IBM MQ redistributable client",
        version=arguments["MQ_CLIENT_VERSION"],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=arguments["MQ_CLIENT_SHA256"])],
        licenses=[LicenseFactory().make_from_string("IBM's licence, in /opt/mqm/licenses")],
        bom_ref="ibm-mq-client",
    )


def invalid(text: str) -> str | None:
    """Return what CycloneDX's JSON schema rejects in a bill, None if it is valid."""
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return None if error is None else str(error)


def main(inventory: Path, target: Path) -> int:
    """Write the bill, if it is valid."""
    lock, dockerfile, project = (
        (PROJECT / name).read_text(encoding="utf-8")
        for name in ("requirements.lock", "Dockerfile", "pyproject.toml")
    )
    found = json.loads(inventory.read_text(encoding="utf-8"))
    bom = bill(found, lock, dockerfile, tomllib.loads(project)["project"])
    text = JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    if error := invalid(text):
        print(f"the bill of materials is not valid CycloneDX 1.6: {error}", file=sys.stderr)
        return 1
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"{len(bom.components)} components are in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
