"""The matcher of wildcards, tested by vectors that define it."""

from __future__ import annotations

import re
import time

import pytest

from mqdlq.rules.wildcards import automaton, canonical, compiled, fits, plain

VECTORS = [
    ("ABC*", "ABC", 8, True),
    ("ABC?", "ABC", 8, False),
    ("A?C", "A C", 8, True),
    ("?*", "", 48, False),
    ("?*", "X", 48, True),
    ("*?", "", 8, False),
    ("*?", "X", 8, True),
    (" ", "", 8, True),
    (" ", "A", 8, False),
    ("A ", "A", 8, True),
    (" A", "A", 8, False),
    ("A*B", "AB", 8, True),
    ("A*B", "AxxB", 8, True),
    ("A*B", "AxxBc", 8, False),
    ("*A", "XXA", 8, True),
    ("*A", "XAXXA", 8, True),
    ("*A", "XAB", 8, False),
    ("*A B", "XA B", 8, True),
    ("*A*", "XAB", 8, True),
    ("*A*", "XB", 8, False),
    ("*A *", "XA", 8, True),
    ("*A *", "XAB", 8, False),
    ("*A *", "XXXXXXXA", 8, False),
    ("ABCDEFGH*", "ABCDEFGH", 8, True),
    ("ABCDEFGH", "ABCDEFGH", 8, True),
    ("*ABCDEFGH*", "ABCDEFGH", 8, True),
    ("ABCDEFGH*X", "ABCDEFGH", 8, False),
    ("abc", "ABC", 8, False),
    ("*", "", 8, True),
    ("**", "", 8, True),
    ("A* ", "ABC", 8, True),
    ("A* ", "ABCDEFGH", 8, True),
    ("A *", "A", 8, True),
    ("A *", "AB", 8, False),
    ("????????", "ABCDEFGH", 8, True),
    ("????????", "ABCDEFG", 8, False),
    ("MY.QUEUE", "MY.QUEUE\0\0", 48, False),
    ("MY.QUEUE*", "MY.QUEUE\0\0", 48, True),
    ("MYxQUEUE", "MY.QUEUE", 48, False),
    ("A*B*C", "ABBC", 8, True),
    ("A*B*C", "ACB", 8, False),
    ("A*", "A\nB", 8, True),
]


@pytest.mark.parametrize(("pattern", "field", "length", "expected"), VECTORS)
def test_pattern_matching_agrees_with_the_vectors(
    pattern: str, field: str, length: int, expected: bool
) -> None:
    assert (compiled(pattern).match(field.ljust(length)) is not None) is expected


@pytest.mark.parametrize(("pattern", "field", "length", "expected"), VECTORS)
def test_a_plain_text_matches_as_its_expression_does(
    pattern: str, field: str, length: int, expected: bool
) -> None:
    text = plain(pattern)

    assert text is None or text.match(field.ljust(length)) is expected


@pytest.mark.parametrize(("pattern", "field"), [vector[:2] for vector in VECTORS])
def test_the_expression_for_automata_says_what_fits(pattern: str, field: str) -> None:
    found = re.fullmatch(automaton(pattern), field.rstrip(" "), re.DOTALL)

    assert (found is not None) is fits(pattern, field)


@pytest.mark.parametrize("pattern", ["A?B*C*D*E", "A?B*C*D*", "A?B"])
def test_a_pattern_matches_only_if_every_part_between_asterisks_occurs(pattern: str) -> None:
    """A new line is a character like others."""
    field = pattern.replace("?", "\n").replace("*", "-\n")

    assert compiled(pattern).match(field.ljust(48))
    assert not compiled(pattern).match(field.replace("B", "Z").ljust(48))


def test_a_hostile_pattern_is_matched_without_backtracking() -> None:
    hostile = compiled("*A" * 47 + "*B")
    field = "A" * 48

    start = time.perf_counter()

    assert not any(hostile.match(field) for _ in range(100))
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("pattern", ["*A" * 99 + "*B", "*" * 199 + "!", "?*" * 99 + "!"])
def test_a_name_of_any_length_is_compared_with_a_hostile_pattern_in_no_time(pattern: str) -> None:
    start = time.process_time()

    assert not fits(pattern, "A" * 5_000)
    assert time.process_time() - start < 1


def test_a_value_of_any_length_fits_a_pattern_as_a_whole_without_its_trailing_blanks() -> None:
    assert fits("PAY*", "PAY.IN  ")
    assert fits("PAY.?N", "PAY.IN" + " " * 60)
    assert not fits("PAY.I", "PAY.IN")
    assert not fits("PAY.IN?", "PAY.IN ")
    assert not fits("pay*", "PAY.IN")


def test_a_canonical_pattern_has_no_trailing_blanks_or_repeated_asterisks() -> None:
    assert canonical("A***B**  ") == "A*B*"
