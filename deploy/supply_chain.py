"""What is installed in; its licences and its known vulnerabilities out (`make supply-chain`).

Writes var/licences.md. Ends with 1 where a licence is none of those taken so far, or a pinned
package has a known vulnerability. Where the database of vulnerabilities cannot be reached, it says
so and leaves that out: that is no fault of the project's.
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
# files and a library that are used unchanged.
TAKEN = re.compile(
    r"(?i)\b(MIT|Apache|BSD|0BSD|ISC|PSF|Python Software Foundation|Python-2\.0|MPL|Mozilla"
    r"|LGPL-3\.0|Lesser General Public|Unlicense|Zlib|CC0|HPND|Artistic)"
)
ONE_BY_ONE = {
    # Packages whose metadata name no licence that a program could read.
    "mqdlq": "this project",
}


def main() -> int:
    """Write the list of licences, and look for vulnerabilities."""
    packages = _licences()
    target = PROJECT / "var" / "licences.md"
    target.parent.mkdir(mode=0o700, exist_ok=True)
    target.write_text(as_page(packages), encoding="utf-8")
    print(f"{len(packages)} packages and their licences are in {target.relative_to(PROJECT)}")
    strange = not_taken(packages)
    for package in strange:
        print(f"{package['Name']} {package['Version']}: {package['License']!r} is no licence taken")
    vulnerable, told = audited(_audit())
    print(told)
    return int(bool(strange or vulnerable))


def not_taken(packages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the packages whose licence somebody has to look at."""
    return [p for p in packages if p["Name"] not in ONE_BY_ONE and not TAKEN.search(p["License"])]


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
    """Return the vulnerable packages and a sentence, from what pip-audit told or why it did not."""
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
        return said[-1] if said else "it says nothing"
    return found


if __name__ == "__main__":
    sys.exit(main())
