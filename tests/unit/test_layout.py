"""No file and no directory grows until nobody finds anything in it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.support.paths import ROOT

MOST_LINES, MOST_MODULES = 400, 15
REVISIONS = Path("plugins/mqdlq/ledger/migrations/versions")
"""One file for each change of the ledger, by number: it grows with every change."""
PLACES = ("plugins", "embedded_mq", "spark", "dags", "deploy", "benchmarks", "tests")


def modules() -> list[Path]:
    found = [path for place in PLACES for path in (ROOT / place).rglob("*.py")]
    assert len(found) > 500
    return sorted(path.relative_to(ROOT) for path in found)


def test_no_module_is_longer_than_400_lines() -> None:
    lengths = {
        str(path): len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in modules()
    }

    too_long = {path: lines for path, lines in lengths.items() if lines > MOST_LINES}
    assert not too_long, f"split these modules, {MOST_LINES} lines at most: {too_long}"


def test_no_directory_has_more_than_15_modules() -> None:
    counts = Counter(str(path.parent) for path in modules() if path.name != "__init__.py")
    del counts[str(REVISIONS)]

    too_full = {place: count for place, count in counts.items() if count > MOST_MODULES}
    assert not too_full, (
        f"move modules into packages, {MOST_MODULES} in a directory at most: {too_full}"
    )


def test_no_module_and_package_have_the_same_name() -> None:
    twins = [str(path) for path in modules() if (ROOT / path).with_suffix("").is_dir()]

    assert not twins, f"rename the module or the package beside it: {twins}"
