"""Parse the value of a keyword, or report its fault."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from mqdlq.constants import ALL_NAMES, PLATFORM_DEPENDENT, family_of
from mqdlq.rules.diagnostics import Report, listed, quoted, shortened
from mqdlq.rules.extensions import ConditionError, canonical_condition
from mqdlq.rules.keywords import MAX_NUMBER, Keyword, Kind
from mqdlq.rules.syntax.grammar import Value
from mqdlq.rules.syntax.lines import Entry

_NEEDS_QUOTES: Final = re.compile(r"[^A-Za-z0-9./_%*?&]|(?<!^)&")
_UNDECODED: Final = re.compile("[\ud800-\udfff]")
_UNUSUAL: Final = re.compile(r"[^ -~\t]")
_DIGITS: Final = re.compile(r"0*([0-9]+)", re.ASCII)
_CHARACTERS: Final = {" ": "a blank", "\t": "a tab", "'": "a quotation mark"}
_LONGEST_GUESS: Final = 64


class _FaultError(Exception):
    """A value that is not accepted; caught by the function that knows its place."""

    def __init__(self, code: str, message: str, at: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.at = at


def read_value(keyword: Keyword, value: Value, entry: Entry, report: Report) -> str | int | None:
    """Return the value: text in its final case, or a number, also for a symbolic name.

    A single ``*`` in place of a number is returned unchanged. None means that a fault was reported.
    """
    try:
        text = _unquoted(keyword, value)
        if keyword.kind in (Kind.TEXT, Kind.NAME):
            _check_text(keyword, text)
            written: str | int = text
        elif keyword.is_extension:
            return canonical_condition(keyword, text)
        else:
            written = _word_or_number(keyword, text.rstrip(" "))
    except ConditionError as fault:
        report.error(fault.code, entry.place(value.start, value.end), str(fault))
        return None
    except _FaultError as fault:
        start = value.start if fault.at is None else value.start + fault.at
        end = value.end if fault.at is None else start + 1
        report.error(fault.code, entry.place(start, end), str(fault))
        return None
    _warn(keyword, text, value, entry, report)
    return written


def closest(word: str, candidates: Iterable[str], likeness: float = 0.6) -> str:
    """Return the candidate that a misspelt word most resembles, or ""."""
    if len(word) > _LONGEST_GUESS:
        return ""
    return next(iter(get_close_matches(word, list(candidates), n=1, cutoff=likeness)), "")


def _unquoted(keyword: Keyword, value: Value) -> str:
    if value.is_quoted:
        if not value.text:
            raise _FaultError(
                "empty-value",
                f"{keyword.name} has no value; for a blank field write {keyword.name}(' ')",
            )
        if _UNDECODED.search(value.text):
            raise _FaultError("not-utf8", "the value is not UTF-8 text")
        return value.text
    if not keyword.takes_text:
        return value.text.upper()
    found = _NEEDS_QUOTES.search(value.text)
    if found:
        char = _CHARACTERS.get(found.group()) or quoted(found.group())
        doubled = value.text.replace("'", "''")
        better = f"{keyword.name}('{shortened(doubled)}')"
        raise _FaultError(
            "needs-quotes", f"{char} requires quotation marks: {better}", found.start()
        )
    # Unquoted letters become capitals: IBM's own example has fwdqm(bbbb.2).
    return value.text.upper()


def _check_text(keyword: Keyword, text: str) -> None:
    if keyword.kind is Kind.NAME:
        _refuse_wildcards(keyword, text)
    # Trailing blanks are not significant, and asterisks do not count ("any other
    # characters", IBM MQ docs, "Rules table conventions").
    length = len(text.rstrip(" ")) - text.count("*")
    if length > keyword.length:
        not_counted = " without asterisks" if "*" in text else ""
        raise _FaultError(
            "too-long",
            f"{keyword.name} has {length} characters{not_counted}, MQ allows {keyword.length}",
        )


def _word_or_number(keyword: Keyword, text: str) -> str | int:
    if text in keyword.words:
        return text
    if keyword.kind is Kind.PATTERN_NUMBER:
        if text == "*":
            return text
        if "*" in text or "?" in text:
            raise _FaultError(
                "wildcard", f"{keyword.name} takes a number or a single '*', found {quoted(text)}"
            )
    else:
        _refuse_wildcards(keyword, text)
    return _number(keyword, text)


def _number(keyword: Keyword, text: str) -> int:
    if keyword.least is not None:
        digits = _DIGITS.fullmatch(text)
        if digits:
            # Check the length first: Python does not convert thousands of digits.
            too_large = len(digits.group(1)) > len(str(MAX_NUMBER))
            return _in_range(keyword, MAX_NUMBER + 1 if too_large else int(text), shortened(text))
        if text in ALL_NAMES:
            return _in_range(keyword, ALL_NAMES[text], f"{text} ({ALL_NAMES[text]})")
        if text in PLATFORM_DEPENDENT:
            raise _FaultError(
                "unknown-name",
                f"{text} has a different number on each platform; name the platform's own",
            )
        if text.startswith("-") and _DIGITS.fullmatch(text[1:]):
            raise _FaultError("out-of-range", _range_text(keyword, shortened(text)))
        if text.startswith("MQ"):
            raise _FaultError(
                "unknown-name", f"unknown symbolic name {shortened(text)}{_guess_name(text)}"
            )
    raise _FaultError(
        "invalid-value",
        f"{keyword.name} takes {_choices(keyword)}, found {quoted(text)}{_guess(keyword, text)}",
    )


def _in_range(keyword: Keyword, number: int, shown: str) -> int:
    if keyword.least is None or not keyword.least <= number <= MAX_NUMBER:
        raise _FaultError("out-of-range", _range_text(keyword, shown))
    return number


def _range_text(keyword: Keyword, shown: str) -> str:
    return f"{keyword.name} takes a number from {keyword.least} to {MAX_NUMBER}, found {shown}"


def _refuse_wildcards(keyword: Keyword, text: str) -> None:
    if "*" in text or "?" in text:
        raise _FaultError("wildcard", f"{keyword.name} takes no wildcards, found {quoted(text)}")


def _choices(keyword: Keyword) -> str:
    choices = list(keyword.words)
    if keyword.least is not None:
        choices.append(f"a number from {keyword.least} to {MAX_NUMBER}")
    if keyword.families:
        choices.append(f"an {' or '.join(keyword.families)} name")
    if keyword.kind is Kind.PATTERN_NUMBER:
        choices.append("'*'")
    return listed(choices)


def _guess(keyword: Keyword, text: str) -> str:
    for family in keyword.families:
        if f"{family}_{text}" in ALL_NAMES:
            name = f"{family}_{text}"
            return f"; did you mean {name} ({ALL_NAMES[name]})?"
    word = closest(text.upper(), keyword.words) if keyword.words else ""
    return f"; did you mean {word}?" if word else ""


def _guess_name(text: str) -> str:
    name = closest(text, ALL_NAMES, likeness=0.8)
    return f"; did you mean {name} ({ALL_NAMES[name]})?" if name else ""


def _warn(keyword: Keyword, text: str, value: Value, entry: Entry, report: Report) -> None:
    """Warn about a value that is accepted but doubtful."""
    unusual = _UNUSUAL.search(value.text)
    if unusual:
        # With doubled quotation marks, only the place of the value is known.
        report.warning(
            "non-ascii",
            entry.place(value.start, value.end),
            f"{keyword.name} has a character outside printable ASCII, which is compared"
            " according to the message's CCSID",
        )
    if keyword.takes_text or text not in ALL_NAMES or family_of(text) in keyword.families:
        return
    usual = f"is compared with {listed(keyword.families)} names" if keyword.families else "counts"
    report.warning(
        "other-family",
        entry.place(value.start, value.end),
        f"{keyword.name} {usual}; {text} ({ALL_NAMES[text]}) is of another family",
    )
