"""Compile patterns with ``*`` and ``?`` into exact matchers of fixed-length fields.

A field is compared over its whole length, padded with blanks; case counts; NUL is not a blank.
``*`` stands for any number of characters, ``?`` for one that is no trailing blank, and a pattern
that ends before the field leaves only blanks to match (IBM MQ docs, "Rules table conventions").
"""

from __future__ import annotations

import re
from typing import Final

_ONE: Final = r"(?! *+\Z)."
"""What ``?`` matches: it fails where nothing but blanks follows in the field."""


def canonical(pattern: str) -> str:
    """Return the shortest pattern that means the same to every reader.

    Trailing blanks are not significant, and ``**`` matches what ``*`` does.

    >>> canonical("PAY**.IN*  ")
    'PAY*.IN*'
    """
    return re.sub(r"\*+", "*", pattern.rstrip(" "))


def compiled(pattern: str, one: str = _ONE) -> re.Pattern[str]:
    """Return what matches, with `match`, exactly the padded fields that the pattern matches.

    Taking each stretch between asterisks at its first place is enough, because what follows it
    then has the most room. The groups are therefore atomic: nothing found is ever given up, and
    forty-eight A's against ``*A*A*A*B`` cost no more than reading them.

    >>> [bool(compiled("PAY?.*").match(f"{name:48}")) for name in ("PAY1.IN", "PAY.IN", "pay1.in")]
    [True, False, False]
    """
    first, *stretches = canonical(pattern).split("*")
    if not stretches:
        return re.compile(_stretch(first, one) + r" *+\Z", re.DOTALL)
    *middle, last = stretches
    found = "".join(f"(?>.*?{_stretch(stretch, one)})" for stretch in middle)
    end = rf".*?{_stretch(last, one)} *+\Z" if last else ""
    return re.compile(_stretch(first, one) + found + end, re.DOTALL)


def _stretch(text: str, one: str) -> str:
    return "".join(one if char == "?" else re.escape(char) for char in text)
