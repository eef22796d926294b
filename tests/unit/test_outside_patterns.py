"""No pattern from outside reaches Python's `re`, which may backtrack without a limit.

Patterns of people and of messages are matched by `mqdlq.rules.wildcards`. All other regular
expressions are constants of their module, which this test looks up in the source.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from mqdlq.directories import PROJECT

pytestmark = pytest.mark.slow

PARTS: Final = ("plugins", "dags", "spark", "embedded_mq/src")

EXCEPTIONS: Final = {
    ("rules/wildcards.py", "compiled"): "the one matcher, whose groups never backtrack",
    ("ledger/access.py", "explain"): "the keys of the constant _CONNECTING",
    ("agents/guides.py", ""): "made of the addresses of RESOURCES",
    ("causes.py", ""): "made of constants by _ends_in",
    ("tools/dumps.py", "_split"): "`second` is the name of a field of the MQMD",
    ("headers/trace.py", ""): "joined of constants",
}
"""The functions, by the end of their file, that are given a pattern which is not a constant."""

OF_RE: Final = {
    "compile", "match", "fullmatch", "search", "split", "findall", "finditer", "sub", "subn",
}  # fmt: skip
OF_COLUMNS: Final = {"rlike", "regexp_extract", "regexp_replace", "regexp_like", "like", "ilike"}
"""Functions of SQLAlchemy, PySpark and pyarrow that read a pattern."""


def patterns(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield function and line of every pattern of a module that is not one of its constants."""
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for function, call in _calls(tree, ""):
        given = _pattern_of(call)
        if given is not None and not _is_constant(given, constants):
            yield function, call.lineno


def _calls(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        named = child.name if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call):
            yield named, child
        yield from _calls(child, named)


def _pattern_of(call: ast.Call) -> ast.expr | None:
    """Return the pattern that a call is given, or None if it is not given any."""
    if not isinstance(call.func, ast.Attribute):
        return None
    owner, name = call.func.value, call.func.attr
    named = {word.arg: word.value for word in call.keywords}
    if isinstance(owner, ast.Name) and owner.id == "re" and name in OF_RE:
        return call.args[0] if call.args else named["pattern"]
    if isinstance(owner, ast.Name) and owner.id == "fnmatch":
        return call
    if name in OF_COLUMNS and call.args:
        return call.args[1] if name.startswith("regexp") else call.args[0]
    return None


def _is_constant(given: ast.expr, constants: dict[str, ast.expr]) -> bool:
    if isinstance(given, ast.Name):
        value = constants.get(given.id)
        return value is not None and _is_constant(value, constants)
    if isinstance(given, ast.JoinedStr):
        return all(_is_constant(part, constants) for part in given.values)
    if isinstance(given, ast.FormattedValue):
        return _is_constant(given.value, constants)
    if isinstance(given, ast.BinOp):
        return _is_constant(given.left, constants) and _is_constant(given.right, constants)
    return isinstance(given, ast.Constant)


@cache
def modules() -> dict[Path, ast.Module]:
    """Return the modules of the product that may match by a pattern, parsed."""
    found = {}
    for file in sorted(file for part in PARTS for file in (PROJECT / part).rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if re.search(r"\bre\b|\bregex|fnmatch|glob|like\(|regexp_", source):
            found[file] = ast.parse(source)
    return found


def test_every_regular_expression_is_a_constant_of_its_module() -> None:
    found, used = [], set()
    for file, tree in modules().items():
        for function, line in patterns(tree):
            known = {one for one in EXCEPTIONS if (file.match(one[0]), function) == (True, one[1])}
            used |= known
            if not known:
                found.append(f"{file.relative_to(PROJECT)}:{line} {function}")

    assert found == []
    assert used == set(EXCEPTIONS), "an exception is no longer needed"


def test_modules_that_match_by_patterns_are_not_imported_under_other_names() -> None:
    """`from re import …` and `import re as …` would hide calls from the test above."""
    hidden = [
        f"{file.relative_to(PROJECT)}:{node.lineno}"
        for file, tree in modules().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and node.module in {"re", "fnmatch", "glob"})
        or (
            isinstance(node, ast.Import)
            and any(one.name in {"re", "fnmatch", "regex"} and one.asname for one in node.names)
        )
    ]

    assert hidden == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(p, n):\n    return re.fullmatch(p, n)",
        "def f(p):\n    return re.compile(f'{p}.*')",
        "def f(p, n):\n    return re.search(pattern=p, string=n)",
        "P = input()\ndef f(n):\n    return re.match('a' + P, n)",
        "def f(p, n):\n    return fnmatch.fnmatch(n, p)",
        "def f(p, c):\n    return c.like(p)",
        "def f(p, c):\n    return F.regexp_extract(c, p, 1)",
    ],
)
def test_a_pattern_from_outside_is_noticed(source: str) -> None:
    assert list(patterns(ast.parse(source)))


def test_a_pattern_of_constants_is_not_one_from_outside() -> None:
    source = "A = 'a'\nB = A + 'b'\nC = re.compile(rf'({A}|{B})' 'c')\nre.sub(B, '', text)"
    assert list(patterns(ast.parse(source))) == []
