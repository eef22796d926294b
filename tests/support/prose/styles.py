"""Read rules of prose from `.vale.ini` and the files of its styles, and find what breaks them.

The subset of Vale's form that the project uses: the extensions `existence` and `substitution` with
`message`, `ignorecase`, `nonword`, `scope`, `tokens`, `swap` and `exceptions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.support.prose.passages import Passage, Scope

_KEYS = {
    "extends",
    "message",
    "level",
    "ignorecase",
    "nonword",
    "scope",
    "tokens",
    "swap",
    "exceptions",
}
_TEXT, _SENTENCE = "text", "sentence"


class Finding(NamedTuple):
    """Words that a rule is against, where they begin in a passage, and what to do."""

    offset: int
    words: str
    message: str
    rule: str


@dataclass(frozen=True)
class Rule:
    """A rule of a style; `instead` has for each group of the pattern what to write, "" for none."""

    name: str
    message: str
    scope: str
    pattern: re.Pattern[str]
    instead: Sequence[str]
    exceptions: frozenset[str]

    def findings(self, passage: Passage) -> Iterator[Finding]:
        """Yield the words of a passage that break the rule."""
        if self.scope in set(Scope) and self.scope != passage.scope:
            return
        texts = passage.sentences() if self.scope == _SENTENCE else [(0, passage.text)]
        for start, text in texts:
            for found in self.pattern.finditer(text):
                if found[0].lower() not in self.exceptions:
                    instead = self.instead[(found.lastindex or 1) - 1]
                    advice = self.message.replace("%s", instead, 1).replace("%s", found[0], 1)
                    yield Finding(start + found.start(), found[0], advice, self.name)


@dataclass(frozen=True)
class Styles:
    """The rules of a project, and which of them hold for which files."""

    rules: Mapping[str, Sequence[Rule]]
    sections: Sequence[tuple[str, Mapping[str, str]]]

    def rules_for(self, path: str) -> list[Rule]:
        """Return the rules for a file, given by its path below the project."""
        styles: list[str] = []
        off: set[str] = set()
        for pattern, settings in self.sections:
            if fnmatch(path, pattern):
                if "basedonstyles" in settings:
                    styles = [
                        name for name in re.split(r"[, ]+", settings["basedonstyles"]) if name
                    ]
                off |= {name for name, value in settings.items() if value == "NO"}
                off -= {name for name, value in settings.items() if value == "YES"}
        return [
            rule for name in styles for rule in self.rules[name] if rule.name.lower() not in off
        ]


def read_styles(root: Path) -> Styles:
    """Read the configuration and the styles of a project."""
    parser = ConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=True)
    parser.read_string("[*top]\n" + (root / ".vale.ini").read_text(encoding="utf-8"))
    directory = root / parser["*top"]["stylespath"]
    rules = {
        style.name: [read_rule(path) for path in sorted(style.glob("*.yml"))]
        for style in directory.iterdir()
    }
    sections = [(name, dict(parser[name])) for name in parser.sections() if name != "*top"]
    return Styles(rules, sections)


def read_rule(path: Path) -> Rule:
    """Read a rule; raises ValueError for what this reader does not know."""
    declared: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    unknown = declared.keys() - _KEYS
    if unknown or declared["extends"] not in {"existence", "substitution"}:
        raise ValueError(f"{path}: this reader does not know {unknown or declared['extends']}")
    swap = declared.get("swap") or dict.fromkeys(declared.get("tokens", ()), "")
    flags = re.IGNORECASE if declared.get("ignorecase") else re.NOFLAG
    form = "%s" if declared.get("nonword") else r"(?<!\w)(?:%s)(?!\w)"
    return Rule(
        f"{path.parent.name}.{path.stem}",
        declared["message"],
        declared.get("scope", _TEXT),
        re.compile(form % "|".join(f"({pattern})" for pattern in swap), flags),
        list(swap.values()),
        frozenset(word.lower() for word in declared.get("exceptions", ())),
    )
