"""Check the licences and the known vulnerabilities of installed packages (`make supply-chain`).

Writes docs/reference/licences.md, which lists the packages of requirements.lock, and
var/licences.md, which lists all packages of .venv. Ends with 1 if a licence has not been accepted,
or if a pinned package has a known vulnerability. If the database of vulnerabilities cannot be
reached, the program reports that and skips this check.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
TOOLS = PROJECT / ".tools" / "bin"
PAGE = PROJECT / "docs" / "reference" / "licences.md"

# Licences that let a company run and change the program. The weak copyleft of MPL and LGPL reaches
# files and libraries, which are used unchanged here.
ACCEPTED = re.compile(
    r"(?i)\b(MIT|Apache|BSD|0BSD|ISC|PSF|Python Software Foundation|Python-2\.0|MPL|Mozilla"
    r"|LGPL-3\.0|Lesser General Public|Unlicense|Zlib|CC0|HPND|Artistic)"
)
# Packages of the lock that .venv does not have, since they are for another version of Python.
ELSEWHERE = {
    "pyyaml-ft": "MIT License",
    "httpx2-jsfetch": "BSD-3-Clause",  # for browsers only
    "pywin32": "Python Software Foundation License",  # for Windows only
}
# A part of pyspark in a package of its own, which no environment of ours installs.
LEFT_OUT = {"pyspark-client"}
COPYLEFT = re.compile(r"GPL|MPL|Mozilla|EPL|Eclipse|CDDL|EUPL")
# Conditions that such licences set for users of the product.
REMARKS = {
    "certifi": "A list of certificates, used unchanged. MPL 2.0 applies to changes of its files.",
    "pathspec": "A dependency of Airflow, used unchanged. MPL 2.0 applies to changes of its files.",
    "psycopg": "The driver for PostgreSQL, imported unchanged. If you give an image with it to"
    " others, LGPL 3.0 obliges you to add its text, to offer its source, and to let them replace"
    " the package.",
    "psycopg-binary": "The compiled part of psycopg, with the same conditions.",
    "text-unidecode": "A dependency of Airflow under a choice of two licences. Choose the Artistic"
    " License: then the GPL does not apply.",
}
PARTS = {
    "IBM MQ redistributable client": "IBM's licence, in `/opt/mqm/licenses`. It allows you to"
    " distribute the client with an application, under its conditions.",
    "Airflow's image, with Debian": "Apache License 2.0; `/usr/share/doc` has the licence of each"
    " Debian package",
    "OpenJDK": "GPL 2.0 with the Classpath Exception, which permits programs under any licence to"
    " run on it",
    "Java libraries of PySpark": "Apache License 2.0, and the licences in the directory `licenses`"
    " of the package",
}
_TEXT = """# Third-party licences

This page lists the licences of the packages that mqdlq runs with: those of `requirements.lock`.
It is for people who review what they install.
mqdlq and embedded-mq are under the [Apache License 2.0](../../LICENSE).
`make supply-chain` writes this page, from the metadata of the packages.

## Licences that need attention

These packages have conditions on changed or distributed copies:

{attention}
## Other parts of the image

The [image](../how-to/deploy.md) also contains the following parts. The wheel contains none of them.

{parts}
## Packages

{packages}"""


def main() -> int:
    """Write both lists of licences, and look for vulnerabilities."""
    packages = installed()
    target = PROJECT / "var" / "licences.md"
    target.parent.mkdir(mode=0o700, exist_ok=True)
    target.write_text(as_table(packages), encoding="utf-8")
    print(f"{len(packages)} packages and their licences are in {target.relative_to(PROJECT)}")
    product = of_the_lock((PROJECT / "requirements.lock").read_text(encoding="utf-8"), packages)
    PAGE.write_text(as_page(product), encoding="utf-8")
    print(f"{len(product)} of them run the product: {PAGE.relative_to(PROJECT)}")
    strange = unaccepted(packages)
    for package in strange:
        found = f"{package['Name']} {package['Version']}: {package['License']!r}"
        print(f"{found} is not an accepted licence")
    vulnerable, summary = audited(_audit())
    print(summary)
    return int(bool(strange or vulnerable))


def unaccepted(packages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the packages whose licence a person must review."""
    return [package for package in packages if not ACCEPTED.search(package["License"])]


def of_the_lock(lock: str, installed: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the packages of a lock that are installed, with all versions and the licence.

    A package with several versions has one for each of several versions of Python.
    """
    versions: dict[str, list[str]] = {}
    for name, version in re.findall(r"(?m)^([a-z0-9-]+)==(\S+)", lock):
        if name not in LEFT_OUT:
            versions.setdefault(name, []).append(version)
    licences = ELSEWHERE | {_normal(package["Name"]): package["License"] for package in installed}
    if missing := sorted(set(versions) - set(licences)):
        sys.exit(
            f"the licence of {', '.join(missing)} is unknown, since .venv does not have the"
            " package: write it to ELSEWHERE in deploy/supply_chain.py"
        )
    return [
        {"Name": name, "Version": ", ".join(given), "License": licences[name]}
        for name, given in versions.items()
    ]


def _normal(name: str) -> str:
    """Return a distribution's name as locks have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def as_page(packages: list[dict[str, str]]) -> str:
    """Return the page of the documentation."""
    attention = [
        (package["Name"], package["License"], REMARKS[package["Name"]])
        for package in packages
        if package["Name"] in REMARKS
    ]
    return _TEXT.format(
        attention=_table(("package", "licence", "meaning"), attention),
        parts=_table(("part", "licence"), PARTS.items()),
        packages=as_table(packages),
    )


def as_table(packages: list[dict[str, str]]) -> str:
    """Return the list as a Markdown table."""
    rows = sorted(packages, key=lambda package: package["Name"].lower())
    cells = [(row["Name"], row["Version"], row["License"]) for row in rows]
    return _table(("package", "version", "licence"), cells)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(row)} |\n" for row in (heads, *rows)]
    return "".join([lines[0], "|---" * len(heads) + "|\n", *lines[1:]])


def audited(found: dict[str, Any] | str) -> tuple[list[str], str]:
    """Return the vulnerable packages and a summary of pip-audit's result, or of its error."""
    if isinstance(found, str):
        return [], f"known vulnerabilities: not looked for, since pip-audit failed: {found}"
    packages = found["dependencies"]
    asked = [package for package in packages if "skip_reason" not in package]
    if not asked:
        return [], (
            "known vulnerabilities: not looked for, since the database of PyPI's advisories cannot"
            f" be reached from here (none of {len(packages)} packages was found in it)"
        )
    faults = [
        f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in"
        f" {', '.join(vulnerability['fix_versions']) or 'no version'}"
        for package in asked
        for vulnerability in package["vulns"]
    ]
    summary = f"known vulnerabilities: {len(faults)} in {len(asked)} of {len(packages)} packages"
    return faults, "\n".join([summary, *faults])


def installed() -> list[dict[str, str]]:
    """Return name, version and licence of each package of .venv, by pip-licenses."""
    python = PROJECT / ".venv" / "bin" / "python"
    done = subprocess.run(
        [TOOLS / "pip-licenses", f"--python={python}", "--format=json", "--with-system"],
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


def _audit() -> dict[str, Any] | str:
    lock = str(PROJECT / "requirements-dev.lock")
    call = [str(TOOLS / "pip-audit"), "--requirement", lock]
    call += ["--no-deps", "--disable-pip", "--format=json", "--progress-spinner=off"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said: list[str] = done.stderr.strip().splitlines()
        return said[-1] if said else "it printed no error"
    return found


if __name__ == "__main__":
    sys.exit(main())
