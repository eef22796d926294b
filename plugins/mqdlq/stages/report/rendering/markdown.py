"""Write text from messages into Markdown, so that it can be nothing but text.

Airflow renders a run's note and the page of an approval as Markdown, and makes links of addresses
in plain text, escaped or not. In a code span nothing is a link, an image or HTML.
"""

from __future__ import annotations

import re
from typing import Final

from mqdlq.stages.report.wording import visible

MOST: Final = 200
_ADDRESS: Final = re.compile(r"(?i)//|www\.|[^\s@]@[^\s@]|[^\x20-\x7e]")
_ACTIVE: Final = re.compile(r"([\\`*_{}\[\]()#<>&~|!])")


def code(text: str, most: int = MOST) -> str:
    r"""Return text from a message as a code span of at most so many characters.

    A vertical bar, which would end the cell of a table, is written as an escape.

    >>> print(code("A`|<b>"))
    ``A`\x7c<b>``
    """
    shown = visible(text).replace("|", "\\x7c")
    shown = shown if len(shown) <= most else f"{shown[:most]}…"
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    # A backtick or a blank at an end needs a blank, which a reader of Markdown removes.
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def plain(text: str) -> str:
    r"""Return our own words, in which no character is markup.

    Words with a name that looks like an address become a code span, because no escape keeps Airflow
    from making a link of it.

    >>> print(plain("5 messages [new]"))
    5 messages \[new\]
    """
    if _ADDRESS.search(text):
        return code(text)
    return _ACTIVE.sub(r"\\\1", text)


def link(words: str, address: str) -> str:
    """Return a link; the address is one of our own, in which names are percent-encoded."""
    return f"[{plain(words)}]({address.replace('(', '%28').replace(')', '%29')})"
