"""Which test shows the effect of which declared name: tests/effects.toml.

`python -m tests.support.effects.shown` hides each name in turn and runs its test, which must fail.
`… find TESTS…` looks for a test for each name that has none: it runs these tests once to see which
of them give which names a value, then some of those with the name hidden.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.support.effects.declared import KINDS
from tests.support.paths import ROOT

FILE: Final = ROOT / "tests/effects.toml"
PROCESSES: Final = 2
MOST_TESTS: Final = 8
"""How many tests are run with a name hidden before it counts as not shown."""
PYTEST: Final = (
    *(sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"),
    *("-p", "tests.support.effects.plugin"),
)


def read_shown() -> dict[str, dict[str, str]]:
    """Return the test that shows each name, by kind and name."""
    return tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def write_shown(shown: Mapping[str, Mapping[str, str]]) -> None:
    """Write the tests in the order of the declarations; a name that is gone is left out."""
    lines = ["# Tests that show what declared names change: each fails while its name is hidden."]
    for kind, declared in KINDS.items():
        names = [name for name in declared() if shown.get(kind, {}).get(name)]
        lines += ["", f'["{kind}"]', *(f'"{name}" = "{shown[kind][name]}"' for name in names)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def fails_while_hidden(kind: str, name: str, test: str) -> bool:
    """Whether a test fails while a name is hidden."""
    command = (*PYTEST, "--hide", f"{kind}: {name}", test)
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 1


def note(tests: Sequence[str]) -> dict[str, list[str]]:
    """Run tests; return which of them give which names another value than the default."""
    found: dict[str, list[str]] = defaultdict(list)
    with TemporaryDirectory() as directory:
        subprocess.run((*PYTEST, "--note", f"{directory}/note", *tests), cwd=ROOT, check=False)
        for path in Path(directory).iterdir():
            for name, noted in json.loads(path.read_text(encoding="utf-8")).items():
                found[name] += noted
    return found


def find(kind: str, name: str, noted: Sequence[str]) -> str:
    """Return one of these tests that fails while a name is hidden, "" if none is found.

    Tests that name it come first, then quick ones. Tests of rejected values show no effect.
    """
    words = set(re.split(r"[^a-z]+", name.rpartition(".")[2].lower())) - {""}

    def rank(test: str) -> tuple[bool, int, str]:
        said = set(re.split(r"[^a-z]+", test.lower()))
        return "airflow" in said, -len(words & said), test

    tests = {re.sub(r"\[.*", "", one) for one in noted}
    fit = [one for one in tests if not re.search(r"reject|refus|wrong|invalid|unknown_key", one)]
    ranked = sorted(fit, key=rank)[:MOST_TESTS]
    return next((test for test in ranked if fails_while_hidden(kind, name, test)), "")


def find_missing(tests: Sequence[str]) -> int:
    """Find tests for names without one, and write them down; return how many have none still."""
    shown, noted = read_shown(), note(tests)
    wanted = [
        (kind, name)
        for kind, declared in KINDS.items()
        for name in declared()
        if name not in shown.get(kind, {})
    ]
    with ThreadPoolExecutor(PROCESSES) as pool:
        found = pool.map(lambda one: find(one[0], one[1], noted[": ".join(one)]), wanted)
        for (kind, name), test in zip(wanted, found, strict=True):
            sys.stdout.write(f"{kind}: {name}: {test or 'no test found'}\n")
            shown.setdefault(kind, {})[name] = test
            write_shown(shown)
    return sum(not test for of in shown.values() for test in of.values())


def prove() -> int:
    """Hide each name, and run its test; return how many tests pass all the same."""
    pairs = [(kind, name, test) for kind, of in read_shown().items() for name, test in of.items()]
    with ThreadPoolExecutor(PROCESSES) as pool:
        failed = list(pool.map(lambda one: fails_while_hidden(*one), pairs))
    for (kind, name, test), is_shown in zip(pairs, failed, strict=True):
        if not is_shown:
            sys.stdout.write(f"{kind}: {name} is hidden, and {test} does not fail\n")
    sys.stdout.write(f"{sum(failed)} of {len(pairs)} names have an effect that a test shows\n")
    return len(pairs) - sum(failed)


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(bool(find_missing(given[1:]) if given[:1] == ["find"] else prove()))
