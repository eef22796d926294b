"""The prose check refuses terms that the glossary replaces, and warns of what is taste."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT
from tests.support.prose import files, findings, read_rules

RULES = read_rules()
PAGE = """\
---
title: broker
---
# A helper

A paragraph that rolls
back, with `code of a helper` and [a link](helper.md).

```text
helper
```

| head | publish |
"""
MODULE = '''\
"""A helper.

    broker
"""

NAME = "helper"  # the publisher publishes


def function(name: str) -> None:
    # It rolls
    # back.
    raise ValueError(f"{broker}: the helper is full")
'''


def found(text: str, name: str = "docs/a.md") -> list[tuple[str, str]]:
    """Return the level of each finding, and its place with the words."""
    return [(level, ":".join(line.split(":")[1:3])) for level, line in findings(name, text, RULES)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The broker may roll back.", ["broker", "roll back"]),
        ("The plan is published by a helper.", ["published", "helper"]),
    ],
)
def test_a_term_that_the_glossary_replaces_is_an_error(text: str, words: list[str]) -> None:
    assert found(text) == [("error", f"1: {word}") for word in words]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Whoever is told of it reads it anew.", ["Whoever", "told", "anew"]),
        ("The wait goes on with a queue of its own.", ["goes on", "of its own"]),
        ("It keeps what is left of those that failed.", ["what is left", "those that"]),
        ("A directory without it is no snapshot.", ["is no snapshot"]),
        ("A key that is none. So does the other.", ["is none", "So does the"]),
    ],
)
def test_what_is_taste_is_a_warning(text: str, words: list[str]) -> None:
    assert found(text) == [("warning", f"1: {word}") for word in words]


@pytest.mark.parametrize(
    "text",
    [
        "The trigger starts a run, and the run continues with its own queue.",
        "If there is no message, the run ends. It is no longer pending.",
        "`what is left` and `told` are code, and [a link](besides.md) has an address.",
        "Publish/subscribe is not emulated.",
        "The value is None.",
    ],
)
def test_plain_english_is_left_alone(text: str) -> None:
    assert found(text) == []


def test_markdown_is_read_without_its_code() -> None:
    assert [place for _, place in found(PAGE)] == ["4: helper", "6: rolls back", "13: publish"]


def test_python_has_docstrings_comments_and_sentences() -> None:
    assert sorted(place for _, place in found(MODULE, "plugins/a.py")) == [
        "10: rolls back",
        "12: helper",
        "1: helper",
        "3: broker",
        "6: publishes",
    ]


def test_the_strings_of_a_test_are_data() -> None:
    assert found('raise ValueError("the helper is full")\n', "tests/unit/test_a.py") == []


def test_decisions_and_the_changelog_keep_their_words() -> None:
    read = {path.relative_to(ROOT).as_posix() for path in files()}

    assert "README.md" in read
    assert not {"CHANGELOG.md", "docs/adr/0001-keep-the-core-pure.md"} & read
