"""Test the scripts of a release, without a registry and without GitHub."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

DIGEST = f"sha256:{'ab' * 32}"
CHANGELOG = """\
# Changelog

## Unreleased

- Not yet.

## 0.2.0 - 2026-12-01

### Added

- A thing.

## 0.1.0 - 2026-11-01

- The first.
"""


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    """Make a project of version 0.2.0 with the scripts; the programs they call record it."""
    place = tmp_path / "project"
    (place / "deploy").mkdir(parents=True)
    for name in ("release.py", "release-image.sh", "github-release.sh"):
        shutil.copy(ROOT / "deploy" / name, place / "deploy")
    (place / "pyproject.toml").write_text('[project]\nname = "mqdlq"\nversion = "0.2.0"\n')
    (place / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "bin").mkdir()
    for name in ("docker", "gh", "make"):
        program = tmp_path / "bin" / name
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/asked\n'
            f'[ "$1" != login ] || cat >{tmp_path}/given\n'
            f'[ "$2" != inspect ] || echo "registry.example.com/me/mqdlq@{DIGEST}"\n'
        )
        program.chmod(0o755)
    return place


def run(place: Path, *words: str, **environment: str) -> tuple[int, str, str]:
    """Run a script; return its exit code, standard output and standard error."""
    done = subprocess.run(
        words,
        cwd=place,
        env={"PATH": f"{place.parent}/bin:/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def release(place: Path, *words: str) -> tuple[int, str, str]:
    return run(place, sys.executable, "-I", "-S", "deploy/release.py", *words)


def test_a_tag_of_the_current_version_may_be_released(place: Path) -> None:
    assert release(place, "check", "v0.2.0") == (0, "", "")


def test_a_tag_of_another_version_may_not_be_released(place: Path) -> None:
    assert release(place, "check", "v0.3.0") == (
        1,
        "",
        (
            "tag 'v0.3.0' is not v0.2.0, the version in pyproject.toml; correct the version, or tag"
            " the commit v0.2.0\n"
        ),
    )


def test_a_version_without_a_section_in_the_changelog_may_not_be_released(place: Path) -> None:
    (place / "CHANGELOG.md").write_text(CHANGELOG.replace("0.2.0", "0.2.1"))

    assert release(place, "check", "v0.2.0") == (
        1,
        "",
        (
            "CHANGELOG.md has no section 0.2.0; rename `## Unreleased` to, for example,"
            " `## 0.2.0 - 2026-12-01`\n"
        ),
    )


def test_a_section_without_text_may_not_be_released(place: Path) -> None:
    (place / "CHANGELOG.md").write_text(CHANGELOG.replace("### Added\n\n- A thing.\n", ""))

    assert release(place, "check", "v0.2.0") == (
        1,
        "",
        "CHANGELOG.md says nothing below the heading of 0.2.0\n",
    )


def test_a_wrong_call_shows_the_usage(place: Path) -> None:
    usage = "usage: python deploy/release.py check|notes TAG\n"

    assert release(place, "check") == (2, "", usage)
    assert release(place, "publish", "v0.2.0") == (2, "", usage)


def test_release_notes_are_the_versions_section_of_the_changelog(place: Path) -> None:
    assert release(place, "notes", "v0.2.0") == (0, "wrote var/release-notes.md\n", "")
    assert (place / "var/release-notes.md").read_text() == "### Added\n\n- A thing.\n"


def test_the_image_of_a_release_is_built_pushed_and_named_by_its_digest(place: Path) -> None:
    output = place / "output"
    settings = {
        "TAG": "v0.2.0",
        "IMAGE_REGISTRY": "registry.example.com",
        "IMAGE": "me/mqdlq",
        "REGISTRY_USER": "me",
        "REGISTRY_TOKEN": "a token",
        "GITHUB_OUTPUT": str(output),
    }

    code, said, complaint = run(place, "/bin/bash", "deploy/release-image.sh", **settings)

    assert (code, complaint) == (0, "")
    assert said == f"registry.example.com/me/mqdlq@{DIGEST}\n"
    assert output.read_text() == f"digest={DIGEST}\n"
    asked = (place.parent / "asked").read_text().splitlines()
    tag = "registry.example.com/me/mqdlq:0.2.0"
    assert asked[:3] == [
        "docker login --username me --password-stdin registry.example.com",
        f"make image IMAGE={tag}",
        f"docker push {tag}",
    ]
    assert (place.parent / "given").read_text() == "a token\n"


def test_the_image_of_a_release_needs_a_registry(place: Path) -> None:
    code, _, complaint = run(place, "/bin/bash", "deploy/release-image.sh", TAG="v0.2.0")

    assert code == 1
    assert complaint.endswith("IMAGE_REGISTRY: the host of the registry\n")
    assert not (place.parent / "asked").exists()


def test_a_github_release_has_packages_bill_of_materials_and_notes(place: Path) -> None:
    for name in ("dist/mqdlq.whl", "dist/mqdlq.tar.gz", "var/sbom.json"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).touch()

    assert run(place, "/bin/bash", "deploy/github-release.sh", TAG="v0.2.0") == (0, "", "")

    assert (place.parent / "asked").read_text() == (
        "gh release create v0.2.0 --verify-tag --title mqdlq 0.2.0 --notes-file"
        " var/release-notes.md dist/mqdlq.whl dist/mqdlq.tar.gz var/sbom.json\n"
    )


def test_a_github_release_without_packages_is_refused(place: Path) -> None:
    code, _, complaint = run(place, "/bin/bash", "deploy/github-release.sh", TAG="v0.2.0")

    assert (code, complaint) == (1, "There is nothing in dist: run make wheel and make sbom\n")
