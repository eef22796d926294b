"""For all tables, patterns and input: print and parse agree, the matcher is right, no crash."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqdlq.constants import ALL_NAMES
from mqdlq.rules import RulesError, RulesTable, check, parse, print_table
from mqdlq.rules.keywords import KEYWORDS, MAX_NUMBER, Keyword, Kind, Part
from mqdlq.rules.wildcards import compiled

pytestmark = pytest.mark.slow

NAMES = sorted(name for name, value in ALL_NAMES.items() if value >= 0)
CHARACTERS = st.sampled_from("AaB1./_%&-+'(), *?\tü\0")
PIECES = st.sampled_from(
    [
        *KEYWORDS,
        *"()',*?&+- \t\n\r\0ü=",
        "\n",
        "+\n",
        "-\n",
        "''",
        "RETRY",
        "FWD",
        "MQRC_Q_FULL",
        "9",
    ]
)


def text_of(keyword: Keyword, characters: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Draw a value within its length, with as many asterisks as come."""
    lengths = st.lists(characters, min_size=1, max_size=2 * keyword.length)
    return lengths.map("".join).filter(
        lambda text: len(text.rstrip(" ")) - text.count("*") <= keyword.length
    )


def value_of(keyword: Keyword) -> st.SearchStrategy[str]:
    if keyword.kind is Kind.TEXT:
        return text_of(keyword, CHARACTERS).map(quoted)
    if keyword.kind is Kind.NAME:
        plain = CHARACTERS.filter(lambda character: character not in "*?")
        return text_of(keyword, plain).filter(str.strip).map(quoted)
    if keyword.kind is Kind.WORD:
        return st.sampled_from(keyword.words)
    numbers = st.integers(keyword.least or 0, MAX_NUMBER).map(str)
    if keyword.kind is Kind.PATTERN_NUMBER:
        return numbers | st.sampled_from(NAMES) | st.just("*")
    return numbers


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@st.composite
def entries(draw: st.DrawFn, part: Part) -> str:
    action = draw(st.sampled_from(["RETRY", "FWD", "DISCARD", "IGNORE"]))
    only_forward = {"FWDQ", "FWDQM", "HEADER"}
    fixed = {"ACTION", "FWDQ"}
    usable = [
        keyword
        for keyword in KEYWORDS.values()
        if keyword.part is part
        and keyword.name not in fixed
        and (action == "FWD" or keyword.name not in only_forward)
    ]
    chosen = draw(st.lists(st.sampled_from(usable), unique=True, min_size=part is Part.CONTROL))
    parameters = [f"{keyword.name}({draw(value_of(keyword))})" for keyword in chosen]
    if part is Part.RULE:
        parameters.append(f"ACTION({action})")
        if action == "FWD":
            parameters.append(f"FWDQ({draw(value_of(KEYWORDS['FWDQ']))})")
    return " ".join(draw(st.permutations(parameters)))


@st.composite
def tables(draw: st.DrawFn) -> RulesTable:
    control = draw(st.lists(entries(Part.CONTROL), max_size=1))
    rules = draw(st.lists(entries(Part.RULE), min_size=1, max_size=4))
    return parse("".join(f"{entry}\n" for entry in [*control, *rules]))


@settings(deadline=None, max_examples=300)
@given(tables())
def test_a_printed_table_is_read_as_the_same_table(table: RulesTable) -> None:
    text = print_table(table)

    assert parse(text) == table
    assert print_table(parse(text)) == text
    assert parse(text).digest == table.digest
    assert max(map(len, text.split("\n"))) <= 72


@settings(deadline=None, max_examples=300)
@given(tables(), st.data())
def test_continuation_lines_do_not_change_a_table(table: RulesTable, data: st.DataObject) -> None:
    whole = print_table(table).replace("+\n    ", "").replace("-\n", "")
    # A line may not begin with an asterisk, and one of blanks alone would be skipped.
    possible = [
        at for at in range(1, len(whole)) if whole[at] not in " *\n" and whole[at - 1] != "\n"
    ]
    cuts = data.draw(st.sets(st.sampled_from(possible), max_size=20))
    cut = "".join("-\n" + char if at in cuts else char for at, char in enumerate(whole))

    assert parse(cut) == table


def naive(pattern: str, field: str) -> bool:
    """Match by the definition, trying everything."""

    @cache
    def match(p: int, f: int) -> bool:
        rest = field[f:]
        if p == len(pattern):
            return not rest.strip(" ")
        if not rest:
            return not pattern[p:].strip("*")
        if pattern[p] == "?":
            return bool(rest.strip(" ")) and match(p + 1, f + 1)
        if pattern[p] == "*":
            return p + 1 == len(pattern) or any(match(p + 1, at) for at in range(f, len(field)))
        return pattern[p] == rest[0] and match(p + 1, f + 1)

    return match(0, 0)


@settings(deadline=None, max_examples=2000)
@given(st.text("AB *?", max_size=12), st.text("AB \0", max_size=8))
def test_the_matcher_agrees_with_a_naive_one(pattern: str, field: str) -> None:
    padded = field.ljust(8)

    assert (compiled(pattern).match(padded) is not None) == naive(pattern.rstrip(" "), padded)


@settings(deadline=None, max_examples=500)
@given(st.text() | st.binary() | st.lists(PIECES, max_size=60).map("".join))
def test_no_input_raises_anything_but_a_rules_error(text: str | bytes) -> None:
    result = check(text)
    places = [(diagnostic.line, diagnostic.column) for diagnostic in result.diagnostics]
    assert places == sorted(places)
    assert all(str(diagnostic) for diagnostic in result.diagnostics)
    if result.table is None:
        with pytest.raises(RulesError) as caught:
            parse(text)
        assert caught.value.diagnostics == result.diagnostics
        assert str(caught.value)
    else:
        assert parse(print_table(result.table)) == result.table
