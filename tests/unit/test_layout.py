"""A module and a package beside it have different names."""

from __future__ import annotations

from pathlib import Path

from tests.support.paths import ROOT

PLACES = ("plugins", "embedded_mq", "spark", "dags", "deploy", "benchmarks", "tests")


def modules() -> list[Path]:
    found = [path for place in PLACES for path in (ROOT / place).rglob("*.py")]
    assert len(found) > 500
    return sorted(path.relative_to(ROOT) for path in found)


def test_no_module_and_package_have_the_same_name() -> None:
    twins = [str(path) for path in modules() if (ROOT / path).with_suffix("").is_dir()]

    assert not twins, f"rename the module or the package beside it: {twins}"
