"""Read the code blocks of the documentation, and the commands in its consoles."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.paths import ROOT

LANGUAGES: Final = frozenset({"console", "json", "mqsc", "python", "rules", "text", "yaml"})
_BLOCK: Final = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<language>.*)\n"
    r"(?P<text>(?:.*\n)*?)(?P=indent)(?P=fence)$",
    re.MULTILINE,
)
_PLACEHOLDER: Final = re.compile(r"<([a-z_ -]+)>")
_OPERATORS: Final = frozenset("|&;<>()")
_PROMPT: Final = "$ "


class CodeBlock(NamedTuple):
    """A fenced block: where it begins, and its language."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        """Return the block's place."""
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Return the documents whose code is checked; design decisions are history."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "embedded_mq" / "README.md"]
    return sorted(path for path in found if path.parent.name != "adr")


def code_blocks(path: Path) -> Iterator[CodeBlock]:
    """Yield the code blocks of a document."""
    text = path.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        yield CodeBlock(
            path.relative_to(ROOT).as_posix(),
            text.count("\n", 0, found.start()) + 1,
            found["language"],
            textwrap.dedent(found["text"]),
        )


def inputs(block: CodeBlock) -> Iterator[str]:
    """Yield the commands at the prompts of a console, each with all its lines."""
    lines = iter(block.text.splitlines())
    for line in lines:
        if not line.startswith(_PROMPT):
            continue
        command = line.removeprefix(_PROMPT)
        while not _is_complete(command):
            command += "\n" + next(lines).removeprefix("> ")
        yield command


def _is_complete(command: str) -> bool:
    document = re.search(r"<<-? *'?(\w+)", command)
    if document:
        return command.endswith(f"\n{document[1]}")
    try:
        shlex.split(command)
    except ValueError:
        return False
    return not command.endswith("\\")


def calls(command: str) -> Iterator[list[str]]:
    """Yield the words of each program that a command calls, without what a shell adds."""
    text = _PLACEHOLDER.sub(r"\1", command.partition("<<")[0])
    words: list[str] = []
    names_file = False
    for word in shlex.shlex(text, posix=True, punctuation_chars=True):
        if set(word) <= _OPERATORS:
            names_file = bool(set(word) & {"<", ">"})
            if not names_file:
                yield from _without_assignments(words)
                words = []
        elif names_file:
            names_file = False
        else:
            words.append(word)
    yield from _without_assignments(words)


def _without_assignments(words: list[str]) -> Iterator[list[str]]:
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    if words:
        yield words
