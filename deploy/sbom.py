"""Write the bill of materials of the image, as CycloneDX 1.6 in JSON (`make sbom`).

It has the packages of requirements.lock that the image installs, with their licences, their
dependencies and the checksum of each of their files, and the image's other parts as far as the
Dockerfile names them: the base image and IBM's MQ client. It does not have the Debian packages of
the base image, which a scanner such as syft lists from the image itself. The same lock and
Dockerfile give the same bytes.

Run as ``.tools/bin/python -m deploy.sbom FILE`` at the top of the project.
"""

from __future__ import annotations

import re
import sys
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.markers import Marker

from deploy.supply_chain import LEFT_OUT, PROJECT, installed, of_the_lock

# Where the image runs: markers in the lock select the packages for it.
PLATFORM = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.14",
    "python_version": "3.11",
    "sys_platform": "linux",
}
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
    """Yield the packages of a lock that are installed on the image's platform."""
    for entry in _ENTRY.finditer(lock):
        if entry["name"] in LEFT_OUT:
            continue
        if entry["marker"] and not Marker(entry["marker"]).evaluate(PLATFORM):
            continue
        yield Pin(
            entry["name"],
            entry["version"],
            tuple(re.findall(r"sha256:(\w+)", entry["hashes"])),
            frozenset(re.sub(r"#|\bvia\b", " ", entry["needed_by"]).split()),
        )


def bill(lock: str, dockerfile: str, licences: dict[str, str], project: dict[str, str]) -> Bom:
    """Return the bill of materials.

    The project depends on its own dependencies in the lock, on each package that no other package
    needs, on the base image and on IBM's client. Raises KeyError for a package without a licence.
    """
    as_licence = LicenseFactory().make_from_string
    product = Component(
        type=ComponentType.APPLICATION,
        name=project["name"],
        version=project["version"],
        description=project["description"],
        licenses=[as_licence(project["license"])],
        purl=PackageURL("pypi", name=project["name"], version=project["version"]),
        bom_ref=project["name"],
    )
    found = list(pins(lock))
    packages = {
        pin.name: Component(
            name=pin.name,
            version=pin.version,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=value) for value in pin.hashes],
            licenses=[as_licence(licences[pin.name])],
            purl=PackageURL("pypi", name=pin.name, version=pin.version),
            bom_ref=pin.name,
        )
        for pin in found
    }
    others = _other_parts(dict(re.findall(r"(?m)^ARG (\w+)=(\S+)$", dockerfile)))
    needs: dict[str, list[Component]] = {}
    for pin in found:
        for other in pin.needed_by & {*packages, product.name} or {product.name}:
            needs.setdefault(other, []).append(packages[pin.name])
    serial = uuid.uuid5(uuid.NAMESPACE_OID, lock + dockerfile + project["version"])
    metadata = BomMetaData(component=product)
    bom = Bom(components=[*packages.values(), *others], serial_number=serial, metadata=metadata)
    bom.metadata.timestamp = None  # else no two bills would be the same
    bom.register_dependency(product, [*needs.pop(product.name), *others])
    for name, package in packages.items():
        bom.register_dependency(package, needs.get(name, []))
    return bom


def _other_parts(arguments: dict[str, str]) -> list[Component]:
    """Return the parts of the image that are not Python packages, by the Dockerfile's arguments."""
    image, _, tag = arguments["AIRFLOW_IMAGE"].partition(":")
    owner, _, name = image.rpartition("/")
    as_licence = LicenseFactory().make_from_string
    return [
        Component(
            type=ComponentType.CONTAINER,
            name=image,
            version=tag,
            licenses=[as_licence("Apache-2.0")],
            purl=PackageURL("docker", owner, name, tag),
            bom_ref="base-image",
        ),
        Component(
            name="IBM MQ redistributable client",
            version=arguments["MQ_CLIENT_VERSION"],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=arguments["MQ_CLIENT_SHA256"])],
            licenses=[as_licence("IBM's licence, in /opt/mqm/licenses")],
            bom_ref="ibm-mq-client",
        ),
    ]


def invalid(text: str) -> str | None:
    """Return what CycloneDX's JSON schema rejects in a bill, None if it is valid."""
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return None if error is None else str(error)


def main(target: Path) -> int:
    """Write the bill, if it is valid."""
    lock, dockerfile, project = (
        (PROJECT / name).read_text(encoding="utf-8")
        for name in ("requirements.lock", "Dockerfile", "pyproject.toml")
    )
    licences = {found["Name"]: found["License"] for found in of_the_lock(lock, installed())}
    bom = bill(lock, dockerfile, licences, tomllib.loads(project)["project"])
    text = JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    if error := invalid(text):
        print(f"the bill of materials is not valid CycloneDX 1.6: {error}", file=sys.stderr)
        return 1
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"{len(bom.components)} components are in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
