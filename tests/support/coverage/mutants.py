"""Compare the mutants that survived `make mutate` with those in docs/contributing/mutants.md.

``python -m tests.support.coverage.mutants`` prints each survivor without an explanation as a row
for the page, and exits with 1 if there is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "contributing" / "mutants.md"
MUTMUT = Path(sys.executable).with_name("mutmut")
ANY = "*"
"""On the page, represents all mutants of a function."""
UNDECIDED = ("survived", "no tests", "timeout", "suspicious")
_ROW = re.compile(r"^\| `(\S+)` \| `(.*?)` \| `(.*?)` \| (.+) \|$", re.MULTILINE)
_RESULT = re.compile(r"^\s*(\S+__mutmut_\d+): (.+)$", re.MULTILINE)


class Mutant(NamedTuple):
    """A change of one function: the removed and the added lines, without surrounding blanks."""

    function: str
    before: str
    after: str

    def __str__(self) -> str:
        """Return the beginning of the page's row."""
        before, after = (text.replace("|", r"\|") for text in (self.before, self.after))
        return f"| `{self.function}` | `{before}` | `{after}` | "


def explained() -> dict[Mutant, str]:
    """Return the mutants on the page with their explanations."""
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {
        Mutant(name, before.replace(r"\|", "|"), after.replace(r"\|", "|")): reason
        for name, before, after, reason in rows
    }


def undecided() -> Iterator[tuple[Mutant, str]]:
    """Yield the mutants that mutmut has not seen killed, and their results."""
    for name, ended in _RESULT.findall(_mutmut("results")):
        if ended in UNDECIDED:
            yield _mutant(name, _mutmut("show", name)), ended


def _mutant(name: str, difference: str) -> Mutant:
    lines = [line for line in difference.splitlines() if not line.startswith(("---", "+++"))]
    before, after = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    module, _, function = name.rpartition("__mutmut_")[0].rpartition(".")
    dotted = function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    return Mutant(f"{module}.{dotted}", before, after)


def _mutmut(*words: str) -> str:
    done = subprocess.run([MUTMUT, *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def main() -> int:
    """Print the survivors that the page does not explain."""
    known = explained()
    unknown = [
        (mutant, ended)
        for mutant, ended in undecided()
        if not {mutant, Mutant(mutant.function, ANY, ANY)} & known.keys()
    ]
    for mutant, ended in unknown:
        print(f"{mutant}{ended} |")  # noqa: T201 - for people
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
