"""Read the prose of a Python file: docstrings, comments, and strings that are sentences."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.support.prose.passages import Line, Passage, Scope, paragraphs

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_OPENING = re.compile(r"^[rRbBuUfF]*(\"\"\"|'''|\"|')")
_IS_A_SENTENCE = re.compile(r"[a-z]+,? [a-z]+,? [a-z]+")
_HOLE = "·"


def passages(text: str, *, is_test: bool = False) -> Iterator[Passage]:
    """Yield the passages of a Python module; of tests, their names in place of their strings."""
    nodes = list(ast.walk(ast.parse(text)))
    lines = text.splitlines()
    docstrings = list(_docstrings(nodes))
    for node in docstrings:
        yield from paragraphs(Scope.DOCSTRING, _lines_of(node, lines))
    yield from _comments(text)
    if is_test:
        yield from _names(nodes)
    else:
        yield from _messages(nodes, {id(node) for node in docstrings})


def _docstrings(nodes: list[ast.AST]) -> Iterator[ast.Constant]:
    """Yield the docstrings, those below attributes too."""
    for node in nodes:
        if isinstance(node, _DOCUMENTED):
            for statement in node.body:
                match statement:
                    case ast.Expr(value=ast.Constant(value=str()) as constant):
                        yield constant


def _lines_of(node: ast.Constant, lines: list[str]) -> Iterator[Line]:
    """Yield the lines between the quotation marks; examples, which are indented, are empty."""
    indentation = node.col_offset
    last = node.end_lineno or node.lineno
    for number in range(node.lineno, last + 1):
        line = lines[number - 1]
        if number == last:
            line = line.rstrip()[:-1].rstrip("\"'")
        start = len(line) - len(line.lstrip())
        if number == node.lineno:
            start = node.col_offset
            opening = _OPENING.match(line[start:])
            start += opening.end() if opening else 0
        text = line[start:].strip()
        is_code = number > node.lineno and (start > indentation or text.startswith(">>>"))
        yield Line(number, start + 1, "" if is_code else text)


def _comments(text: str) -> Iterator[Passage]:
    """Yield the comments; consecutive lines without code are one passage."""
    gathered: list[Line] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        words = token.string.lstrip("#!").lstrip()
        line = Line(token.start[0], token.end[1] - len(words) + 1, words)
        stands_alone = token.line.lstrip().startswith("#")
        if gathered and not (stands_alone and line.number == gathered[-1].number + 1):
            yield Passage(Scope.COMMENT, gathered)
            gathered = []
        gathered.append(line)
    if gathered:
        yield Passage(Scope.COMMENT, gathered)


def _messages(nodes: list[ast.AST], docstrings: set[int]) -> Iterator[Passage]:
    """Yield the strings that people read: those of three words or more."""
    in_others: set[int] = set()
    for node in nodes:
        match node:
            case ast.JoinedStr(values=values):
                in_others.update(id(value) for part in values for value in ast.walk(part))
                text = "".join(
                    str(value.value) if isinstance(value, ast.Constant) else _HOLE
                    for value in values
                )
            case ast.Constant(value=str() as text) if id(node) not in docstrings | in_others:
                pass
            case _:
                continue
        if _IS_A_SENTENCE.search(text):
            place = (node.lineno, node.col_offset + 1)
            yield Passage(Scope.MESSAGE, [Line(*place, " ".join(text.split()))])


def _names(nodes: list[ast.AST]) -> Iterator[Passage]:
    """Yield the names of tests, as sentences."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            words = node.name.removeprefix("test_").replace("_", " ").capitalize()
            column = node.col_offset + len("def test_") + 1
            yield Passage(Scope.NAME, [Line(node.lineno, column, words)])
