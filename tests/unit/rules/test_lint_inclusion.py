"""Pattern inclusion, compared with the matcher that defines the result."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqdlq.rules import Pattern, matches, parse
from mqdlq.rules.lint import covers, includes, rule_covers
from mqdlq.rules.wildcards import canonical, compiled

CHARACTERS = "AB \0Z"


def format_pattern(text: str) -> Pattern:
    return Pattern("FORMAT", "dlh_format", canonical(text))


def patterns_up_to(size: int) -> list[str]:
    texts = ("".join(chars) for n in range(size + 1) for chars in product("AB *?", repeat=n))
    return sorted({canonical(text) for text in texts})


def fields_matching(pattern: str, length: int) -> frozenset[str]:
    fields = ("".join(chars) for chars in product(CHARACTERS, repeat=length))
    return frozenset(filter(compiled(pattern).match, fields))


def is_too_long(pattern: str, length: int) -> bool:
    return len(pattern) - pattern.count("*") > length


VECTORS = [
    ("A*", "AB", True),
    ("A*", "AB*", True),
    ("A*", "A", True),
    ("A*", "*A", False),
    ("AB", "A*", False),
    ("?*", "*?", True),
    ("*?", "?*", True),
    ("?*", "*", False),
    ("?*", "", False),
    ("?*", "' '", True),
    ("*", "", True),
    ("", " *", False),
    (" *", "", True),
    ("*A*", "*A", True),
    ("*A*", "B*AB", True),
    ("*A", "*A*", False),
    ("A*B", "A*A*B", True),
    ("A*A*B", "A*B", False),
    ("??*", "*?*?", True),
    ("??*", "A?", True),
    ("??*", "A", False),
    ("A?", "A B", False),
    ("A??", "A B", True),
    ("????????", "*ABCDEFG?", True),
    ("????????", "*ABCDEF?", False),
    ("ABCDEFGH", "*ABCDEFGH*", True),
    ("ABCDEFG*", "ABC*DEFG", False),
    ("a*", "A*", False),
]


@pytest.mark.parametrize(("wide", "narrow", "expected"), VECTORS)
def test_pattern_inclusion_agrees_with_the_vectors(wide: str, narrow: str, expected: bool) -> None:
    assert covers(format_pattern(wide), format_pattern(narrow)) is expected


def test_pattern_inclusion_is_exact_for_all_small_patterns() -> None:
    matched = {
        pattern: fields_matching(pattern, 2)
        for pattern in patterns_up_to(3)
        if not is_too_long(pattern, 2)
    }

    for wide, narrow in product(matched, repeat=2):
        assert includes(wide, narrow, 2) == (matched[narrow] <= matched[wide])


TEXTS = st.text("AB *?", max_size=6).map(canonical).filter(lambda text: not is_too_long(text, 4))


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(TEXTS, TEXTS)
def test_pattern_inclusion_never_claims_too_much_for_larger_patterns(
    wide: str, narrow: str
) -> None:
    if includes(wide, narrow, 4):
        assert fields_matching(narrow, 4) <= fields_matching(wide, 4)


@st.composite
def fields_of(draw: st.DrawFn, pattern: str) -> str:
    """Draw a value by filling in the wildcards of a pattern."""
    filling = st.text(CHARACTERS, max_size=2)
    return "".join(
        draw(filling) if char == "*" else draw(st.sampled_from(CHARACTERS)) if char == "?" else char
        for char in pattern
    )[:8].rstrip(" ")


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.data())
def test_a_covering_pattern_matches_every_value_of_the_covered_pattern(data: st.DataObject) -> None:
    narrow = data.draw(st.text("AB *?", max_size=8).map(canonical))
    # Loosening a pattern here and there gives one that often covers it.
    loosened = [data.draw(st.sampled_from([char, char, "?", "*"])) for char in narrow]
    wide = canonical("".join(loosened) + data.draw(st.sampled_from(["", "*"])))
    value = data.draw(fields_of(narrow))

    if covers(format_pattern(wide), format_pattern(narrow)):
        assert format_pattern(wide).matches(value) or not format_pattern(narrow).matches(value)


def test_a_rule_covers_another_if_each_of_its_patterns_does() -> None:
    wide, narrow, other = parse(
        "DESTQ(A*) REASON(1) ACTION(IGNORE)\n"
        "DESTQ(AB) REASON(1) USERID(JO) ACTION(RETRY)\n"
        "DESTQ(AB) USERID(JO) ACTION(RETRY)\n"
    ).rules

    assert rule_covers(wide, narrow)
    assert not rule_covers(narrow, wide)
    assert not rule_covers(wide, other)
    assert not matches(wide, {"dlh_dest_q_name": "AB", "user_identifier": "JO"})


def test_a_numeric_pattern_covers_only_itself() -> None:
    one, other, any_text = parse(
        "REASON(1) ACTION(RETRY)\nREASON(2) ACTION(RETRY)\nDESTQ(*A*) ACTION(RETRY)\n"
    ).rules

    assert covers(one.patterns[0], one.patterns[0])
    assert not covers(one.patterns[0], other.patterns[0])
    assert not covers(any_text.patterns[0], one.patterns[0])
    assert not covers(one.patterns[0], any_text.patterns[0])


@pytest.mark.parametrize(("wide", "narrow"), [(" ?*", " *A*"), ("*A?", "AA*")])
def test_pattern_inclusion_may_miss_a_match_behind_an_asterisk(wide: str, narrow: str) -> None:
    assert not includes(wide, narrow, 3)
    assert fields_matching(narrow, 3) <= fields_matching(wide, 3)


def test_hostile_patterns_are_compared_without_backtracking() -> None:
    hard = f"{'*A' * 24}*B"

    assert not includes(hard, "A" * 48, 48)
    assert includes(f"*A{'?' * 20}*", f"*A{'?' * 21}*B", 48)
