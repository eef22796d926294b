"""Print what an image contains, as JSON: the packages of Python and of Debian, and the MQ client.

`make sbom` runs it in a container of the image. It uses only the standard library.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

LEFT_OUT = {"proc", "sys", "dev", "run"}
# Of the trove classifiers, the last part names the licence.
_CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?(?!OSI Approved$)(?P<name>[^:]+)")


def python_packages(root: Path) -> Iterator[dict[str, Any]]:
    """Yield each installed distribution below a directory, in every environment there."""
    for place, directories, _ in os.walk(root):
        if Path(place) == root:
            directories[:] = [name for name in directories if name not in LEFT_OUT]
        for name in directories:
            metadata = Path(place, name, "METADATA")
            if name.endswith(".dist-info") and metadata.is_file():
                yield _distribution(metadata, root)


def _distribution(metadata: Path, root: Path) -> dict[str, Any]:
    given = HeaderParser().parsestr(metadata.read_text(encoding="utf-8"))
    classifiers = [
        found["name"]
        for line in given.get_all("Classifier", [])
        if (found := _CLASSIFIER.fullmatch(line))
    ]
    # Some packages put the whole text of their licence into the field.
    field = (given["License"] or "").strip()
    licence = given["License-Expression"] or ", ".join(classifiers) or field.partition("\n")[0]
    return {
        "name": re.sub(r"[-_.]+", "-", given["Name"]).lower(),
        "version": given["Version"],
        "licences": [licence] if licence else [],
        "place": str(metadata.parents[1].relative_to(root)),
    }


def debian_packages(root: Path) -> Iterator[dict[str, Any]]:
    """Yield each installed package of Debian, with the licences its copyright file names."""
    form = "${db:Status-Status}\t${Package}\t${Version}\t${Architecture}\n"
    command = ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", f"--showformat={form}"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        status, name, version, architecture = line.split("\t")
        if status == "installed":
            yield {
                "name": name,
                "version": version,
                "architecture": architecture,
                "licences": _licences(root / "usr/share/doc" / name / "copyright"),
            }


def _licences(copyright_file: Path) -> list[str]:
    """Return the licences of a copyright file in Debian's machine-readable form, else none."""
    if not copyright_file.is_file():
        return []
    text = copyright_file.read_text(encoding="utf-8", errors="replace")
    if not text.startswith("Format:"):
        return []
    named = re.findall(r"(?m)^License: *(\S[^\n]*)$", text)
    return sorted({name.strip() for name in named})


def release(root: Path) -> dict[str, str]:
    """Return the distribution of the image: its id, and its version."""
    text = (root / "etc/os-release").read_text(encoding="utf-8")
    found = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)"?$', text))
    return {"id": found["ID"], "version": found.get("VERSION_ID", "")}


def inventory(root: Path) -> dict[str, Any]:
    client = root / "opt/mqm"
    return {
        "system": release(root),
        "python": sorted(python_packages(root), key=lambda one: (one["name"], one["place"])),
        "debian": sorted(debian_packages(root), key=lambda one: one["name"]),
        "ibm_mq_client": client.is_dir() and any(client.iterdir()),
    }


if __name__ == "__main__":
    print(json.dumps(inventory(Path("/")), indent=1))
