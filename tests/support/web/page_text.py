"""The words of a page."""

from __future__ import annotations

import html
import re


def words_of(page: str) -> str:
    """Return the words of HTML, each tag as a blank, without scripts and styles."""
    shown = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", shown)).split())
