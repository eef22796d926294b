"""The rules of prose find what they are written against, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT
from tests.support.prose import markdown, python
from tests.support.prose.passages import Passage
from tests.support.prose.styles import Finding, read_styles

STYLES = read_styles(ROOT)

BAD = [
    ("Archaic", "Whoever is told of it reads it anew.", ["Whoever", "told", "anew"]),
    ("Archaic", "The wait goes on with a queue of its own.", ["goes on", "of its own"]),
    ("Archaic", "It is to be moved at hand, besides.", ["is to be", "at hand", "besides"]),
    ("Clauses", "What it reads is a file. Who asks is answered.", ["What", "Who"]),
    ("Clauses", "**What can be lost: nothing.**", ["**What"]),
    ("Headings", "## What a snapshot holds", ["What"]),
    ("Headings", "## Snapshots:", [":"]),
    ("Headless", "It keeps what is left of those that failed.", ["what is left", "those that"]),
    ("Headless", "The rule, where one is, and what no rule takes.", ["where one is", "what no"]),
    ("Negation", "A directory without it is no snapshot.", ["is no snapshot"]),
    ("Negation", "A key that is none. So does the other.", ["is none", "So does the"]),
    ("Terms", "The broker may roll back.", ["broker", "roll back"]),
    ("Terms", "The plan is published by a helper.", ["published", "helper"]),
]
GOOD = [
    "The trigger starts a run, and the run continues with its own queue.",
    "What does it do? It moves messages.",
    "Say what is wrong, then which queue would be right.",
    "If there is no message, the run ends. It is no longer pending.",
    "`what is left` and `told` are code, and [a link](besides.md) has an address.",
    "Publish/subscribe is not emulated.",
    "| What to do | whichever comes first |",
    "## Why not just runmqdlq?",
]


def found(text: str) -> Iterator[Finding]:
    for passage in markdown.passages(text):
        yield from findings(passage)


def findings(passage: Passage) -> Iterator[Finding]:
    for rule in STYLES.rules_for("docs/a.md"):
        yield from rule.findings(passage)


@pytest.mark.parametrize(("rule", "text", "words"), BAD, ids=lambda value: str(value)[:40])
def test_a_rule_finds_words_and_phrases(rule: str, text: str, words: list[str]) -> None:
    hits = [hit for hit in found(text) if hit.rule == f"mqdlq.{rule}"]

    assert [hit.words for hit in sorted(hits)] == words


@pytest.mark.parametrize("text", GOOD)
def test_plain_english_is_left_alone(text: str) -> None:
    assert list(found(text)) == []


def test_a_sum_of_what_comes_in_and_goes_out_is_found_in_docstrings_only() -> None:
    text = "Rules as text in, a table out."

    (passage,) = python.passages(f'"""{text}"""\n')

    assert [hit.rule for hit in findings(passage)] == ["mqdlq.Sums"]
    assert list(found(text)) == []


def test_the_name_of_a_test_makes_sense_alone() -> None:
    (passage,) = python.passages("def test_so_does_the_file() -> None: ...\n", is_test=True)

    assert {hit.rule for hit in findings(passage)} == {"mqdlq.Negation", "mqdlq.TestNames"}


def test_every_rule_has_an_example() -> None:
    shown = {f"mqdlq.{rule}" for rule, _, _ in BAD} | {"mqdlq.Sums", "mqdlq.TestNames"}

    assert {rule.name for rule in STYLES.rules["mqdlq"]} == shown


def test_decisions_and_the_changelog_keep_their_words() -> None:
    assert STYLES.rules_for("docs/adr/0001-keep-the-core-pure.md") == []
    assert STYLES.rules_for("CHANGELOG.md") == []
    assert STYLES.rules_for("README.md")
