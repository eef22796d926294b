"""Check that a tag may be released, and take its notes from the changelog.

``python deploy/release.py check v0.2.0`` (`make release-check TAG=v0.2.0`) compares the tag with
pyproject.toml and CHANGELOG.md. ``python deploy/release.py notes v0.2.0`` (`make release-notes`)
writes var/release-notes.md. The script needs only the standard library.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
NOTES = Path("var") / "release-notes.md"
HEADING = r"(?m)^## {version} - (?P<date>\d{{4}}-\d\d-\d\d)\n(?P<notes>.*?)(?=^## |\Z)"


class ReleaseError(Exception):
    """A tag that may not be released, with the correction."""


def check(tag: str, project: Path = PROJECT) -> str:
    """Return the changelog's section of the version.

    Raises ReleaseError if tag and version differ, or if the section is missing or empty.
    """
    text = (project / "pyproject.toml").read_text(encoding="utf-8")
    version = str(tomllib.loads(text)["project"]["version"])
    if tag != f"v{version}":
        raise ReleaseError(
            f"tag {tag!r} is not v{version}, the version in pyproject.toml; correct the version, or"
            f" tag the commit v{version}"
        )
    changelog = (project / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(HEADING.format(version=re.escape(version)), changelog, flags=re.DOTALL)
    if found is None:
        raise ReleaseError(
            f"CHANGELOG.md has no section {version}; rename `## Unreleased` to, for example,"
            f" `## {version} - 2026-12-01`"
        )
    notes = found["notes"].strip()
    if not notes:
        raise ReleaseError(f"CHANGELOG.md says nothing below the heading of {version}")
    return notes


def main() -> int:
    """Check the tag that the command line names; return the exit code."""
    verb, tag = sys.argv[1:] if len(sys.argv) == 3 else ("", "")  # noqa: PLR2004
    if verb not in {"check", "notes"}:
        print("usage: python deploy/release.py check|notes TAG", file=sys.stderr)
        return 2
    try:
        notes = check(tag)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    if verb == "notes":
        path = PROJECT / NOTES
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(notes + "\n", encoding="utf-8")
        print(f"wrote {NOTES}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
