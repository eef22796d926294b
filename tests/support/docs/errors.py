"""Tables of docs/reference/errors.md: the catalogue of errors."""

from __future__ import annotations

from collections.abc import Iterator

from mqdlq.error_catalogue import PREFIX, catalogue, entries, sites


def tables() -> str:
    """Return a table of the errors of each area, in the order of their ids."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    said: dict[str, dict[str, None]] = {}
    for site in sites():
        said.setdefault(site.error_id, {})[site.text] = None
    for area, title in catalogue()["areas"].items():
        yield f"\n## {area}xx: {title}\n"
        yield "| id | text | look here | do this |"
        yield "|---|---|---|---|"
        for entry in entries().values():
            if entry.error_id.removeprefix(PREFIX).startswith(area):
                first = f'<a id="{entry.anchor}"></a>{entry.error_id}'
                texts = [entry.text] if entry.text else list(said[entry.error_id])
                shown = "<br>".join(map(_code, texts))
                yield f"| {first} | {shown} | {entry.look} | {entry.do} |"


def _code(text: str) -> str:
    """Return a text as a code span of Markdown; one with backticks needs two around it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
