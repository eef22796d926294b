"""Parse the text of MQSC commands into `Command` objects.

A command ends with its line, or with a semicolon. A line that ends with ``+`` continues with the
first nonblank character of the next line, a line that ends with ``-`` with its first character. A
line that begins with ``*`` is a comment (IBM MQ docs, "Script (MQSC) commands").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a command, with its line."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


class ProblemError(Exception):
    """A command cannot be parsed or run."""

    def __init__(self, line: int, message: str) -> None:
        """Take the line and the text of the problem."""
        super().__init__(message)
        self.problem = Problem(line, message)


@dataclass(frozen=True, slots=True)
class Parameter:
    """``KEYWORD`` or ``KEYWORD(value)``; a value that is not quoted is folded to upper case."""

    keyword: str
    value: str | None
    line: int


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its verb, the kind of object with its name, and the other parameters."""

    verb: str
    kind: str
    name: str | None
    parameters: tuple[Parameter, ...]
    line: int

    def with_parameters(self, parameters: tuple[Parameter, ...]) -> Command:
        """Return the command with other parameters."""
        return replace(self, parameters=parameters)

    def with_name(self, name: str | None) -> Command:
        """Return the command for another object."""
        return replace(self, name=name)


def split_parameters(
    command: Command, *keywords: str
) -> tuple[dict[str, str | None], tuple[Parameter, ...]]:
    """Return the values of some parameters by keyword, and the other parameters."""
    found = {part.keyword: part.value for part in command.parameters if part.keyword in keywords}
    return found, tuple(part for part in command.parameters if part.keyword not in keywords)


END_OF_COMMAND = "\n"


@dataclass(frozen=True, slots=True)
class Character:
    """A character of a command, with its line."""

    text: str
    line: int


VERBS = {
    "DEF": "DEFINE",
    "ALT": "ALTER",
    "DIS": "DISPLAY",
    "DELETE": "DELETE",
    "CLEAR": "CLEAR",
    "SET": "SET",
    "STA": "START",
    "STOP": "STOP",
}
KINDS = {
    "QL": "QLOCAL",
    "QA": "QALIAS",
    "QR": "QREMOTE",
    "QM": "QMODEL",
    "Q": "QUEUE",
    "CHL": "CHANNEL",
    "CHS": "CHSTATUS",
}
_TOKEN = re.compile(
    r"\s*(?:,\s*)?(?P<keyword>[A-Za-z][A-Za-z0-9]*)"
    r"(?:\s*\(\s*(?:'(?P<quoted>(?:[^']|'')*)'|(?P<plain>[^()']*?))\s*\))?(?=[\s,(]|$)"
)


def parse_commands(text: str) -> Iterator[Command | Problem]:
    """Yield the commands of a text, and a `Problem` for each that cannot be parsed."""
    for characters in _statements(text):
        try:
            yield _command(characters)
        except ProblemError as error:
            yield error.problem


def _statements(text: str) -> Iterator[list[Character]]:
    """Yield the characters of each command, with continued lines joined."""
    statement: list[Character] = []
    is_quoted = False
    for character in _join_lines(text):
        is_quoted ^= character.text == "'"
        if character.text == END_OF_COMMAND or (character.text == ";" and not is_quoted):
            yield from _unless_blank(statement)
            statement, is_quoted = [], False
        else:
            statement.append(character)


def _join_lines(text: str) -> Iterator[Character]:
    """Yield the characters of commands, and `END_OF_COMMAND` after a line without continuation."""
    skips_blanks = True
    for number, raw in enumerate(text.splitlines(), start=1):
        if raw.lstrip().startswith("*"):
            continue
        line = raw.strip() if skips_blanks else raw.rstrip()
        goes_on = line[-1:] in {"+", "-"}
        skips_blanks = not line.endswith("-")
        for letter in line[:-1] if goes_on else line:
            yield Character(letter, number)
        if not goes_on:
            yield Character(END_OF_COMMAND, number)
    yield Character(END_OF_COMMAND, 0)


def _unless_blank(statement: list[Character]) -> Iterator[list[Character]]:
    if any(not character.text.isspace() for character in statement):
        yield statement


def _command(characters: list[Character]) -> Command:
    text = "".join(character.text for character in characters)
    parameters = list(_parameters(text, characters))
    verb, line = parameters[0].keyword, parameters[0].line
    verb = VERBS.get(verb, verb)
    if verb not in VERBS.values() or parameters[0].value is not None:
        known = ", ".join(VERBS.values())
        raise ProblemError(line, f"{parameters[0].keyword} is not supported; use {known}")
    if len(parameters) == 1:
        raise ProblemError(line, f"{verb} needs an object, for example {verb} QLOCAL(MY.QUEUE)")
    subject = parameters[1]
    kind = KINDS.get(subject.keyword, subject.keyword)
    _check_repetition(parameters)
    return Command(verb, kind, subject.value, tuple(parameters[2:]), line)


def _parameters(text: str, characters: list[Character]) -> Iterator[Parameter]:
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            at = len(text) - len(text[position:].lstrip())
            shown = text[at:].split(maxsplit=1)[0]
            raise ProblemError(
                characters[at].line,
                f"cannot read {shown!r}; use KEYWORD or KEYWORD(value), with a closing )",
            )
        value = match["plain"] and match["plain"].upper()
        if match["quoted"] is not None:
            value = match["quoted"].replace("''", "'")
        yield Parameter(match["keyword"].upper(), value, characters[match.start("keyword")].line)
        position = match.end()


def _check_repetition(parameters: list[Parameter]) -> None:
    seen = set()
    for parameter in parameters[2:]:
        if parameter.keyword in seen:
            raise ProblemError(parameter.line, f"{parameter.keyword} is given twice; give it once")
        seen.add(parameter.keyword)
