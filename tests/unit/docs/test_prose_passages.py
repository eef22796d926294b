"""Prose is read from Markdown and Python with its places, without code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.prose import markdown, python
from tests.support.prose.passages import Passage, Scope
from tests.support.prose.styles import read_rule

PAGE = """\
---
title: told
---
# The title

A paragraph
of two lines with `code told`.

- An item
  that continues

```text
told
```

| head | other \\| cell |
|---|---|
| `a|b` | last |
"""
MODULE = '''\
"""The first line.

The rest, in two
lines.

    an example
"""

NAME = 1  # beside code
"""A documented attribute."""


def function(name: str) -> None:
    # A comment
    # in two lines
    raise ValueError(f"{name}: the queue is full")
'''


def read(passages: list[Passage]) -> list[tuple[Scope, str, tuple[int, int]]]:
    return [(passage.scope, passage.text, passage.place(0)) for passage in passages]


def test_markdown_has_headings_paragraphs_items_and_cells() -> None:
    assert read(list(markdown.passages(PAGE))) == [
        (Scope.HEADING, "The title", (4, 3)),
        (Scope.PARAGRAPH, "A paragraph of two lines with ···········.", (6, 1)),
        (Scope.PARAGRAPH, "An item that continues", (9, 3)),
        (Scope.CELL, "head", (16, 3)),
        (Scope.CELL, "other \\| cell", (16, 10)),
        (Scope.CELL, "·····", (18, 3)),
        (Scope.CELL, "last", (18, 11)),
    ]


def test_python_has_docstrings_comments_and_messages() -> None:
    assert read(list(python.passages(MODULE))) == [
        (Scope.DOCSTRING, "The first line.", (1, 4)),
        (Scope.DOCSTRING, "The rest, in two lines.", (3, 1)),
        (Scope.DOCSTRING, "A documented attribute.", (10, 4)),
        (Scope.COMMENT, "beside code", (9, 13)),
        (Scope.COMMENT, "A comment in two lines", (14, 7)),
        (Scope.MESSAGE, "·: the queue is full", (16, 22)),
    ]


def test_a_test_has_a_name_in_place_of_messages() -> None:
    module = "def test_a_queue_is_full() -> None:\n    assert f() == 'the queue is full'\n"

    assert read(list(python.passages(module, is_test=True))) == [
        (Scope.NAME, "A queue is full", (1, 10))
    ]


def test_a_place_is_that_of_the_line_a_word_stands_on() -> None:
    passage = list(markdown.passages(PAGE))[1]

    assert passage.place(passage.text.index("two")) == (7, 4)


def test_sentences_end_at_a_stop_before_a_capital_letter() -> None:
    (passage,) = markdown.passages("One e.g. this. *Two* is it? `code` is three.")

    assert [sentence.text for sentence in passage.sentences()] == [
        "One e.g. this.",
        "*Two* is it?",
        "······ is three.",
    ]


def test_a_rule_that_the_reader_does_not_know_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "Rule.yml"
    path.write_text("extends: occurrence\nmessage: m\n", encoding="utf-8")

    with pytest.raises(ValueError, match="does not know occurrence"):
        read_rule(path)
