"""The catalogue of errors: what each error id means, and what to do.

The text of an error stands where it is raised, and is read from there: a wheel has its sources.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

PREFIX = "MQDLQ-"
_PACKAGE: Final = Path(__file__).parent
_SCRIPTS: Final = _PACKAGE.parents[1] / "deploy"
"""Scripts of the repository that raise errors, too; a wheel has none of them."""
_ID: Final = re.compile(r"MQDLQ-\d{3}")
_MARKED: Final = re.compile(r"(?P<text>.*?) \[(?P<id>MQDLQ-\d{3})\]", re.DOTALL)
_FORMAT: Final = re.compile(r"%(\.0f|[sd])")
_UNUSABLE: Final = "the ledger … cannot be used: …; "
"""The words of `mqdlq.ledger.access` before each of its remedies."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An error's entry in the catalogue.

    `look` and `do` are Markdown, with links from docs/reference. `text` describes the text of an
    error that the code takes from elsewhere.
    """

    error_id: str
    look: str
    do: str
    text: str = ""

    @property
    def anchor(self) -> str:
        return self.error_id.lower()

    def texts(self) -> tuple[str, ...]:
        """Return what the error says, by each place that raises it; () for a script not here."""
        if self.text:
            return (self.text,)
        return tuple(dict.fromkeys(site.text for site in sites(self.error_id)))


class Site(NamedTuple):
    """A place that raises an error or logs a warning; `text` is "" if it comes from elsewhere.

    The text has names of values in braces, and … for values without a name.
    """

    error_id: str
    place: str
    text: str


@cache
def catalogue() -> Mapping[str, Any]:
    """Return the entries by their ids, the titles of `areas`, and the `retired` ids."""
    return tomllib.loads((_PACKAGE / "errors.toml").read_text(encoding="utf-8"))


def entries() -> dict[str, Entry]:
    found = {key: value for key, value in catalogue().items() if key.startswith(PREFIX)}
    return {error_id: Entry(error_id, **entry) for error_id, entry in found.items()}


def without_links(markdown: str) -> str:
    """Return a text as a terminal shows it: links without their targets."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", markdown)


def sites(error_id: str = PREFIX) -> list[Site]:
    return [
        site
        for directory in (_PACKAGE, _SCRIPTS)
        for file in sorted(directory.rglob("*.py"))
        if error_id in (source := file.read_text(encoding="utf-8"))
        for site in _sites_of(ast.parse(source), str(file.relative_to(_PACKAGE.parent.parent)))
        if site.error_id.startswith(error_id)
    ]


def _sites_of(tree: ast.Module, file: str) -> Iterator[Site]:
    pieces = {
        id(piece)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for piece in node.values
    }
    for node in ast.walk(tree):
        place = f"{file}:{getattr(node, 'lineno', 0)}"
        match node:
            case ast.Call(func=called, args=[ast.Constant(value=str(error_id)), said, *_]) if (
                _ID.fullmatch(error_id)
            ):
                first = _UNUSABLE if ast.unparse(called) == "Remedy" else ""
                yield Site(error_id, place, first + _text(_assigned(said, tree)))
            case ast.Constant() | ast.JoinedStr() if id(node) not in pieces:
                if marked := _MARKED.fullmatch(_text(node)):
                    yield Site(marked["id"], place, marked["text"])


def _assigned(node: ast.expr, tree: ast.Module) -> ast.expr:
    """Return the value of a variable: what was assigned to its name last above it."""
    if not isinstance(node, ast.Name):
        return node
    above = [
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.Assign)
        and one.lineno < node.lineno
        and any(isinstance(target, ast.Name) and target.id == node.id for target in one.targets)
    ]
    return max(above, key=lambda one: one.lineno).value if above else node


def _text(node: ast.expr) -> str:
    """Return a literal text with its values by name, "" for what is not a literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _FORMAT.sub("…", node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_piece, node.values))
    return ""


def _piece(node: ast.expr) -> str:
    match node:
        case ast.FormattedValue(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return f"{{{name.strip('_').lower()}}}"
        case ast.FormattedValue():
            return "…"
    return _text(node)
