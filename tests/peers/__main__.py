"""Run test suites of other projects over embedded queue managers: `make peers`.

Each suite is fetched by pip or git, pinned by a digest or a commit, to var/peers; nothing of it is
ever committed. `python -m tests.peers NAME…` runs some of them. The outcomes go to
tests/peers/results.json, and by `make docs-pages` to docs/reference/mqi-coverage.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

from tests.peers.suites import RESULTS, SUITES, Suite, read_results, summary
from tests.support.paths import ROOT

PLACE: Final = ROOT / "var" / "peers"
PACKAGES: Final = PLACE / "packages"
UV: Final = Path(sys.executable).with_name("uv")
BUILDERS: Final = ("flit_core==4.2.0",)
"""What prepares the metadata of source distributions, beside what this project has."""


def fetch(suite: Suite) -> Path:
    """Fetch a suite; return the directory of its tests. Raises CalledProcessError."""
    if not suite.source:
        return Path(__file__).with_name(suite.tests)
    place = PLACE / suite.name.replace(" ", "-")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if suite.is_of_git:
        address, _, commit = suite.source.rpartition("@")
        for words in (["init"], ["fetch", "--depth", "1", address, commit], ["checkout", commit]):
            _run(shutil.which("git") or "git", "-C", place, words[0], "--quiet", *words[1:])
        return place / suite.tests
    # ibmmq's metadata is only made where a header of IBM's SDK seems to be.
    (place / "sdk" / "inc").mkdir(parents=True)
    (place / "sdk" / "inc" / "cmqc.h").touch()
    wanted = place / "requirement.txt"
    wanted.write_text(f"{suite.source}\n", encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    only = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--require-hashes")
    _run(*pip, *only, "--dest", place, "-r", wanted, MQ_FILE_PATH=str(place / "sdk"))
    (archive,) = place.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    (found,) = place.glob(f"*/{suite.tests}")
    return found


def run(suite: Suite, tests: Path) -> dict[str, str]:
    """Run a suite's tests; return their outcomes."""
    place = PLACE / f"{suite.name.replace(' ', '-')}.run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    home, outcomes, root = place / "home", place / "outcomes.json", tests
    if tests.is_file():
        root = tests.parent
    alone = ("-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", root, "--confcutdir", root)
    pytest = (sys.executable, "-m", "pytest", "-p", "tests.peers.witness", "--quiet", "--tb=short")
    with (place / "log").open("w", encoding="utf-8") as file:
        subprocess.run(
            [*pytest, *alone, *suite.options, tests],
            env=_environment(PEERS_HOME=str(home), PEERS_RESULT=str(outcomes), **suite.variables),
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    found: dict[str, str] = json.loads(outcomes.read_text(encoding="utf-8"))
    return found


def _run(*command: str | Path, **variables: str) -> None:
    subprocess.run(command, env=_environment(**variables), check=True)


def _environment(**variables: str) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT), str(PACKAGES)])
    return {**os.environ, "PYTHONPATH": paths, "AIRFLOW_HOME": str(PLACE / "airflow"), **variables}


def main() -> int:
    """Run the suites that the command line names, or all; return 1 if one could not be fetched."""
    names = sys.argv[1:] or [suite.name for suite in SUITES]
    chosen = [suite for suite in SUITES if suite.name in names]
    needed = sorted({*BUILDERS, *(package for suite in chosen for package in suite.packages)})
    PLACE.mkdir(parents=True, exist_ok=True)
    _run(UV, "pip", "install", "--quiet", "--no-deps", "--target", PACKAGES, *needed)
    missing = False
    for suite in chosen:
        try:
            tests = fetch(suite)
        except subprocess.CalledProcessError:
            sys.stdout.write(f"{suite.name}: cannot be fetched from here, and keeps its results\n")
            missing = True
            continue
        result = summary(run(suite, tests))
        kept = read_results() if RESULTS.exists() else {}
        results = json.dumps({**kept, suite.name: result}, indent=2, sort_keys=True)
        RESULTS.write_text(f"{results}\n", encoding="utf-8")
        refused = sum(result["refused"].values())
        sys.stdout.write(
            f"{suite.name}: {result['passed']} passed, {refused} refused aloud,"
            f" {len(result['failed'])} failed, {result['skipped']} skipped\n"
        )
    return int(missing)


if __name__ == "__main__":
    sys.exit(main())
