"""The site builds from the documentation: every link leads somewhere, and nothing is loaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.support.docs.browser_page import PACKAGES, commands, imported
from tests.support.paths import ROOT

pytestmark = pytest.mark.slow

REPOSITORY = "https://example.com/mqdlq/blob/main"
RESOURCE = re.compile(
    r"<(?:link|script|img|iframe|source|video)\b[^>]*(?:href|src)=[\"']?(?:\w+:)?//"
)


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", directory],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "MQDLQ_REPOSITORY": REPOSITORY},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return directory


def test_a_page_of_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}

    assert len(texts) > 30
    assert not {
        str(path): RESOURCE.findall(text) for path, text in texts.items() if RESOURCE.search(text)
    }
    assert not [path for path, text in texts.items() if 'class="mermaid"' in text]


def test_links_of_documents_lead_to_the_site_or_to_the_repository(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    coverage = (site / "reference" / "mqi-coverage.html").read_text(encoding="utf-8")

    assert 'href="contributing/index.html"' in home
    assert f'href="{REPOSITORY}/tests/contract/' in coverage


def test_what_runs_in_the_browser_needs_no_package_but_click() -> None:
    installed = {
        name.partition(".")[0]
        for name, file in imported().items()
        if "site-packages" in file and not name.startswith("_")
    }

    assert installed <= set(PACKAGES)


def test_what_runs_in_the_browser_has_the_data_files_of_its_modules() -> None:
    names = set(zipfile.ZipFile(BytesIO(commands())).namelist())

    assert {"click/testing.py", "mqdlq/cli/explain.py", "mqdlq/constants/names.txt"} <= names
    assert not [name for name in names if name.startswith(("mqdlq/web", "mqdlq/ledger"))]


def test_the_page_that_takes_users_data_may_talk_to_its_own_site_only(site: Path) -> None:
    page = (site / "try" / "index.html").read_text(encoding="utf-8")
    policy = re.search(r'<head><meta http-equiv="Content-Security-Policy" content="([^"]+)">', page)

    assert policy
    assert policy[1].startswith("default-src 'self';")
    assert not re.search(r"https?:|\*", policy[1])
    assert "Content-Security-Policy" not in (site / "index.html").read_text(encoding="utf-8")
