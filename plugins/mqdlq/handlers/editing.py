"""What an editor offers at a place of a rules table or of a handler's file, and what a word means.

Lines and columns count from 0 here, as editors count them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqdlq.causes import advice_on
from mqdlq.constants import ALL_NAMES, family_of, reason_text, value_text
from mqdlq.handlers.configuration import keys_below
from mqdlq.handlers.tables import KEYS_OF_TABLE
from mqdlq.rules.keywords import EXTENSIONS, KEYWORDS, KNOWN, Keyword, Kind, Part
from mqdlq.rules.reading import choices

_REASONS: Final = ("MQRC", "MQFB")
_SIGNS: Final = ("+", "-")
_SUBSTITUTIONS: Final = {"FWDQ": ("&DESTQ", "&REPLYQ"), "FWDQM": ("&DESTQM", "&REPLYQM")}
_WORD: Final = re.compile(r"[A-Za-z0-9_.&*]+")
_OPEN_VALUE: Final = re.compile(r"([A-Za-z]\w*)[ \t]*\([ \t]*'?[^()']*\Z")
_YAML_VALUE: Final = re.compile(r"([A-Za-z_.]+)['\"]?[ \t]*:[ \t]+[^{}:]*\Z")
_YAML_KEY: Final = re.compile(r"([A-Za-z_.]+)['\"]?[ \t]*:(?:[ \t{]|\Z)")
_LINKED: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_ITEM: Final = re.compile(r"[ \t]*(?:-[ \t]+)*")


class Offer(NamedTuple):
    """What can be written at a place, what it is, and what it means."""

    text: str
    detail: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Cursor:
    """A place in a file: `is_yaml` says in which form."""

    lines: Sequence[str]
    line: int
    column: int
    is_yaml: bool = False

    @property
    def text(self) -> str:
        return self.lines[self.line] if self.line < len(self.lines) else ""

    @property
    def before(self) -> str:
        return self.text[: self.column]

    @property
    def word(self) -> tuple[int, int]:
        """The start and the end of the word that the cursor is in, or at the end of."""
        at = next((m for m in _WORD.finditer(self.text) if m.end() >= self.column), None)
        return at.span() if at and at.start() <= self.column else (self.column, self.column)

    def moved(self, column: int) -> "Cursor":
        return Cursor(self.lines, self.line, column, self.is_yaml)

    @property
    def is_comment(self) -> bool:
        return self.before.lstrip().startswith("#" if self.is_yaml else "*")


def offers(cursor: Cursor) -> list[Offer]:
    """Return what can be written at a place: keywords or keys, or values of the one before it."""
    if cursor.is_comment:
        return []
    keyword, following = _context(cursor)
    return [*_values(keyword)] if keyword else [*following()]


def meaning(cursor: Cursor) -> str:
    """Return what the word at a place means: a keyword, a symbolic name or a number; "" if none.

    A reason has what to do about it, and when a retry succeeds.
    """
    start, end = cursor.word
    word = cursor.text[start:end].upper()
    if cursor.is_comment or not word:
        return ""
    keyword, _ = _context(cursor.moved(start))
    if keyword is None:
        return _named_meaning(cursor, word) if _is_name(cursor, end) else ""
    if word in ALL_NAMES:
        return _number_meaning(ALL_NAMES[word], (family_of(word),))
    is_number = word.isascii() and word.isdecimal() and len(word) < len(str(10**10))
    return _number_meaning(int(word), keyword.families) if is_number and keyword.families else ""


def _is_name(cursor: Cursor, end: int) -> bool:
    return cursor.text[end:].lstrip("'\" \t").startswith(":" if cursor.is_yaml else "(")


def _named_meaning(cursor: Cursor, word: str) -> str:
    """Return the meaning of a keyword, or of a key of a handler's file."""
    path = _path(cursor.moved(cursor.word[0])) if cursor.is_yaml else []
    if cursor.is_yaml and "table" not in path:
        return _key_meaning(word.lower(), keys_below(path).get(word.lower(), ""))
    known = KNOWN.get(KEYS_OF_TABLE.get(word, "") if cursor.is_yaml else word)
    return _keyword_meaning(known) if known else ""


def _key_meaning(key: str, text: str) -> str:
    """Return what a key means, without links, whose pages an editor does not have."""
    shown = _LINKED.sub(r"\1", text)
    return f"**{key}**: {shown}" if text else ""


_Following = Callable[[], Iterable[Offer]]


def _context(cursor: Cursor) -> tuple[Keyword | None, _Following]:
    """Return the keyword whose value is written at a place; or what gives the keys there."""
    return _yaml_context(cursor) if cursor.is_yaml else _table_context(cursor)


def _table_context(cursor: Cursor) -> tuple[Keyword | None, _Following]:
    first = cursor.line
    while first and _continues(cursor.lines[first - 1]):
        first -= 1
    parts = [line.rstrip().rstrip("+-") for line in cursor.lines[first : cursor.line]]
    entry = " ".join([*(part for part in parts if not _is_comment(part)), cursor.before])
    is_first = all(_is_comment(line) or not line.strip() for line in cursor.lines[:first])
    value = _OPEN_VALUE.search(entry)

    def following() -> Iterator[Offer]:
        written = {word.upper() for word in re.findall(r"([A-Za-z]\w*)[ \t]*\(", entry)}
        for keyword in KEYWORDS.values():
            if keyword.name not in written and (is_first or keyword.part is Part.RULE):
                yield Offer(f"{keyword.name}(", keyword.part, _keyword_meaning(keyword))

    return (KEYWORDS.get(value[1].upper()) if value else None), following


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("*")


def _continues(line: str) -> bool:
    return _is_comment(line) or line.rstrip().endswith(_SIGNS)


def _yaml_context(cursor: Cursor) -> tuple[Keyword | None, _Following]:
    path = _path(cursor)
    of_table = "table" in path
    value = _YAML_VALUE.search(cursor.before)
    named = value[1] if value else ""
    if not named and path and cursor.before.lstrip().startswith("- "):
        named = path[-1]
    keyword = KNOWN.get(KEYS_OF_TABLE.get(named.upper(), "")) if of_table else None

    def following() -> Iterator[Offer]:
        if named and not of_table:
            return
        if not of_table:
            for key, text in keys_below(path).items():
                yield Offer(f"{key}: ", "key", _key_meaning(key, text))
            return
        for key in _keys_of_table(path):
            known = KNOWN.get(KEYS_OF_TABLE.get(key.upper(), ""))
            yield Offer(f"{key}: ", "key", _keyword_meaning(known) if known else "")

    return keyword, following


def _path(cursor: Cursor) -> list[str]:
    """Return the keys that a place of a YAML file is below, by the columns where they begin."""
    path, below = [], _begin(cursor.before)
    if key := _YAML_KEY.search(cursor.before.rpartition("{")[0]):
        path.append(key[1])
    for line in reversed(cursor.lines[: cursor.line]):
        key = _YAML_KEY.match(line, _begin(line))
        if key and key.start() < below:
            path.append(key[1])
            below = key.start()
    return path[::-1]


def _begin(line: str) -> int:
    found = _ITEM.match(line)
    return found.end() if found else 0


def _keys_of_table(path: Sequence[str]) -> Iterable[str]:
    if path[-1] == "table":
        return ("control", "rules")
    if "control" in path:
        return (k.lower() for k, name in KEYS_OF_TABLE.items() if KNOWN[name].part is Part.CONTROL)
    if path[-1] == "match":
        return (name for name, one in KEYWORDS.items() if one.is_pattern)
    if path[-1] == "extensions":
        return map(str.lower, EXTENSIONS)
    settings = (k.name.lower() for k in KEYWORDS.values() if k.part is Part.RULE)
    return ("match", "extensions", *(n for n in settings if not KNOWN[n.upper()].is_pattern))


def _values(keyword: Keyword) -> Iterator[Offer]:
    for word in (*keyword.words, *_SUBSTITUTIONS.get(keyword.name, ())):
        yield Offer(word, keyword.name)
    for name, number in ALL_NAMES.items():
        if family_of(name) in keyword.families:
            yield Offer(name, str(number), _number_meaning(number, (family_of(name),)))
    if keyword.kind is Kind.PATTERN_NUMBER:
        yield Offer("*", "every number")


def _keyword_meaning(keyword: Keyword) -> str:
    field = keyword.field
    if keyword.is_pattern and not keyword.is_extension:
        field = f"{'MQDLH' if keyword.column.startswith('dlh_') else 'MQMD'}.{field}"
    compared = f"compares {field} with" if field else "takes"
    if keyword.kind is Kind.TEXT:
        taken = f"text of at most {keyword.length} characters; * and ? are wildcards"
    elif keyword.kind is Kind.NAME:
        taken = f"a name of at most {keyword.length} characters"
    elif keyword.is_extension:
        taken = "a condition"
    else:
        taken = choices(keyword)
    return f"**{keyword.name}** {compared} {taken}"


def _number_meaning(number: int, families: Sequence[str]) -> str:
    if families[0] not in _REASONS:
        return f"**{value_text(number, families)}**"
    advice = advice_on(number)
    lines = [f"**{reason_text(number)}**" + (f": {advice.meaning}" if advice.meaning else "")]
    if advice.meaning:
        lines.append(f"It {advice.kind.words}. Next: {advice.advice}.")
    if advice.retry_until:
        lines.append(f"A retry succeeds when {advice.retry_until}.")
    return "\n\n".join(lines)
