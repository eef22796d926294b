"""Check the words of the project, or of the files and directories given: `make prose`.

The rules are in `styles`, in the form that Vale reads. Prints ``file:line: words: message [rule]``
for each finding; ends with 1 if one of them is an error. Warnings are about taste.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import accumulate
from pathlib import Path

import yaml

from tests.support.paths import ROOT

_PLACES = ("benchmarks", "dags", "deploy", "docs", "embedded_mq", "plugins", "spark", "tests")
_UNREAD = re.compile(
    r"\A---\n.*?^---$|^\s*(?P<fence>```+|~~~+).*?^\s*(?P=fence)|(?P<code>`+)(?!`).*?(?<!`)(?P=code)(?!`)"
    r"|<!--.*?-->|</?[a-z][^>]*>|\]\([^)]*\)|https?://\S+|noqa: ?[A-Z0-9, ]+|type: ignore\S*",
    re.DOTALL | re.MULTILINE,
)
_SENTENCE = re.compile(r"[a-z]+,? [a-z]+,? [a-z]+")
_SAID = re.compile(
    r'^ *"""(?P<docstring>(?:\\.|.)*?)"""|#(?P<comment>[^\n]*)'
    r'|(?P<marks>"""|\'\'\')(?P<text>(?:\\.|.)*?)(?P=marks)'
    r'|(?P<quote>["\'])(?P<string>(?:\\.|(?!(?P=quote))[^\\\n])*)(?P=quote)',
    re.DOTALL | re.MULTILINE,
)
_VALUE = re.compile(r"\{[^}]*\}")


@dataclass(frozen=True)
class Rule:
    """A rule of a style; `instead` has for each group of the pattern what to write."""

    name: str
    level: str
    message: str
    pattern: re.Pattern[str]
    instead: Sequence[str]


def read_rules() -> list[Rule]:
    """Read the rules: the extension `substitution` of Vale."""
    rules = []
    for path in sorted((ROOT / "styles" / "mqdlq").glob("*.yml")):
        declared = yaml.safe_load(path.read_text(encoding="utf-8"))
        words = "|".join(f"({words})" for words in declared["swap"])
        pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)
        instead = list(declared["swap"].values())
        rules.append(Rule(path.stem, declared["level"], declared["message"], pattern, instead))
    return rules


def files(paths: Sequence[Path] = ()) -> list[Path]:
    """Return the Markdown and Python files of the project, or those at or below these paths."""
    settings = ConfigParser()
    settings.read_string("[*]\n" + (ROOT / ".vale.ini").read_text(encoding="utf-8"))
    free = [name for name in settings.sections() if settings[name].get("BasedOnStyles") == ""]
    found = [*ROOT.glob("*.md"), *(path for place in _PLACES for path in (ROOT / place).rglob("*"))]
    wanted = [path.resolve() for path in paths] or [ROOT]
    return sorted(
        path
        for path in found
        if path.suffix in {".md", ".py"}
        and not path.is_symlink()
        and any(path.is_relative_to(place) for place in wanted)
        and not any(fnmatch(path.relative_to(ROOT).as_posix(), pattern) for pattern in free)
    )


def findings(name: str, text: str, rules: Sequence[Rule]) -> Iterator[tuple[str, str]]:
    """Yield the level of each finding in a file's text, and a line about it."""
    prose = _python(text, is_test="tests/" in name) if name.endswith(".py") else text
    prose = _UNREAD.sub(lambda found: re.sub(r"[^\n]", "·", found[0]), prose)
    lines = [" ".join(line.split()) for line in prose.split("\n")]
    starts = list(accumulate((len(line) + 1 for line in lines if line), initial=0))
    numbers = [number for number, line in enumerate(lines, 1) if line]
    together = " ".join(filter(None, lines))
    for rule in rules:
        for found in rule.pattern.finditer(together):
            number = numbers[bisect_right(starts, found.start()) - 1]
            advice = rule.message % (rule.instead[(found.lastindex or 1) - 1], found[0])
            yield rule.level, f"{name}:{number}: {found[0]}: {advice} [mqdlq.{rule.name}]"


def _python(text: str, *, is_test: bool) -> str:
    """Return comments, docstrings and sentences of a module on their lines, the rest left out.

    The strings of tests are data.
    """
    parts = []
    end = 0
    for found in _SAID.finditer(text):
        parts.append("\n" * text.count("\n", end, found.start()))
        end = found.end()
        words = found["comment"] or found["docstring"]
        said = found["text"] or found["string"]
        if said and not is_test and _SENTENCE.search(said):
            words = said
        if words:
            parts.append(" " + _VALUE.sub("·", words))
        else:
            parts.append("\n" * found[0].count("\n"))
    return "".join(parts)


def main() -> int:
    """Print the findings."""
    rules = read_rules()
    found = [
        finding
        for path in files([Path(given) for given in sys.argv[1:]])
        for finding in findings(
            path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"), rules
        )
    ]
    sys.stdout.writelines(f"{level}: {line}\n" for level, line in found)
    return int(any(level == "error" for level, _ in found))


if __name__ == "__main__":
    sys.exit(main())
