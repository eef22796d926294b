"""Check the licences and the known vulnerabilities of installed packages (`make supply-chain`).

Writes var/licences.md. Ends with 1 if a licence has not been accepted, or if a pinned package has a
known vulnerability. If the database of vulnerabilities cannot be reached, the program reports that
and skips this check.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
TOOLS = PROJECT / ".tools" / "bin"

# Licences that let a company run and change the program. The weak copyleft of MPL and LGPL reaches
# files and libraries, which are used unchanged here.
ACCEPTED = re.compile(
    r"(?i)\b(MIT|Apache|BSD|0BSD|ISC|PSF|Python Software Foundation|Python-2\.0|MPL|Mozilla"
    r"|LGPL-3\.0|Lesser General Public|Unlicense|Zlib|CC0|HPND|Artistic)"
)
ONE_BY_ONE = {
    # Packages whose metadata name their licence in no form that a program can read.
    "mqdlq": "this project",
}


def main() -> int:
    """Write the list of licences, and look for vulnerabilities."""
    packages = _licences()
    target = PROJECT / "var" / "licences.md"
    target.parent.mkdir(mode=0o700, exist_ok=True)
    target.write_text(as_page(packages), encoding="utf-8")
    print(f"{len(packages)} packages and their licences are in {target.relative_to(PROJECT)}")
    strange = unaccepted(packages)
    for package in strange:
        found = f"{package['Name']} {package['Version']}: {package['License']!r}"
        print(f"{found} is not an accepted licence")
    vulnerable, summary = audited(_audit())
    print(summary)
    return int(bool(strange or vulnerable))


def unaccepted(packages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the packages whose licence a person must review."""
    return [
        p for p in packages if p["Name"] not in ONE_BY_ONE and not ACCEPTED.search(p["License"])
    ]


def as_page(packages: list[dict[str, str]]) -> str:
    """Return the list as a Markdown table."""
    rows = sorted(packages, key=lambda package: package["Name"].lower())
    lines = ["| package | version | licence |", "|---|---|---|"]
    lines += [
        f"| {row['Name']} | {row['Version']} | {ONE_BY_ONE.get(row['Name'], row['License'])} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


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


def _licences() -> list[dict[str, str]]:
    python = PROJECT / ".venv" / "bin" / "python"
    done = subprocess.run(
        [TOOLS / "pip-licenses", f"--python={python}", "--format=json", "--from=mixed"],
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
