"""Write docs/reference/errors.md: the catalogue of errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqdlq.error_catalogue import areas, entries, sites

_INTRODUCTION: Final = (
    "# Errors",
    "",
    "<!-- Generated from the code and plugins/mqdlq/errors.toml by `make docs-pages`. -->",
    "",
    "Every error and warning of mqdlq ends its first line with an id, such as `[MQDLQ-101]`.",
    "Look the id up here, or run `mqdlq explain-error MQDLQ-101`.",
    "In the texts, a name in braces or `…` stands for what varies.",
    "",
    (
        "No error loses a message: each message is on the dead-letter queue, on the target of a"
        " rule, or in the archive."
    ),
    (
        "You can clear and run a task again at any time: the ledger records every moved message,"
        " and no task moves it twice."
    ),
    "Airflow runs a task again up to `task_retries` times if the error may end by itself.",
    "",
    "Faults of a rules table have their own codes; see [Rules](rules.md).",
    "The [runbook](../how-to/runbook.md) says what to do when an alert comes.",
)


def document() -> str:
    """Return the text of docs/reference/errors.md."""
    return "\n".join([*_INTRODUCTION, *_tables()]) + "\n"


def _tables() -> Iterator[str]:
    said: dict[str, dict[str, None]] = {}
    for site in sites():
        said.setdefault(site.error_id, {})[site.text] = None
    for area, title in areas().items():
        yield f"\n## {area}xx: {title}\n"
        yield "| id | text | look here | do this |"
        yield "|---|---|---|---|"
        for entry in entries().values():
            if entry.area == area:
                first = f'<a id="{entry.anchor}"></a>{entry.error_id}'
                texts = [entry.text] if entry.text else list(said[entry.error_id])
                shown = "<br>".join(map(_code, texts))
                yield f"| {first} | {shown} | {entry.look} | {entry.do} |"


def _code(text: str) -> str:
    """Return a text as a code span of Markdown; one with backticks needs two around it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
