"""The extension for VS Code starts a command that exists, and its page names its settings."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from mqdlq.cli import COMMANDS
from tests.support.paths import ROOT

PLACE = ROOT / "editors" / "vscode"
SOURCE = (PLACE / "extension.js").read_text(encoding="utf-8")


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PLACE / "package.json").read_text(encoding="utf-8"))
    return found


def test_it_starts_the_language_server() -> None:
    assert re.findall(r'args: \["(\w+)"\]', SOURCE) == ["lsp"]
    assert COMMANDS["lsp"].place


def test_it_has_the_version_of_the_package_and_all_files_that_it_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    contributed = manifest()["contributes"]

    assert manifest()["version"] == project["version"]
    named = [manifest()["main"], contributed["languages"][0]["configuration"]]
    assert all((PLACE / name).is_file() for name in [*named, contributed["grammars"][0]["path"]])


def test_it_reads_each_setting_and_the_page_of_editors_explains_it() -> None:
    settings = manifest()["contributes"]["configuration"]["properties"]
    page = (ROOT / "docs" / "how-to" / "editors.md").read_text(encoding="utf-8")

    read = {f"mqdlq.{name}" for name in re.findall(r'settings\.get\("(\w+)"', SOURCE)}
    assert read == set(settings)
    for name, declared in settings.items():
        assert f"| `{name}` | `{declared['default']}` |" in page
