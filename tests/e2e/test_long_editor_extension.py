"""The extension for VS Code has no fault of types and can be packed, with npm and its registry."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.long

SOURCE = ROOT / "editors" / "vscode"


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
def test_the_extension_has_no_fault_of_types_and_is_packed_with_its_client(tmp_path: Path) -> None:
    place = tmp_path / "vscode"
    shutil.copytree(SOURCE, place, ignore=shutil.ignore_patterns("node_modules", "*.vsix"))
    for arguments in (["ci"], ["run", "check"], ["run", "package"]):
        command = [shutil.which("npm") or "npm", *arguments]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        if arguments == ["ci"] and "ENOTFOUND" in done.stderr:
            pytest.skip("npm's registry cannot be reached")
        assert done.returncode == 0, done.stdout + done.stderr

    with zipfile.ZipFile(place / "mqdlq.vsix") as packed:
        names = set(packed.namelist())
    assert "extension/extension.js" in names
    assert "extension/node_modules/vscode-languageclient/lib/node/main.js" in names
    assert not any(name.startswith("extension/node_modules/typescript/") for name in names)
