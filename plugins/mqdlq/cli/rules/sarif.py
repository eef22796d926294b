"""Write the findings in rules tables as a SARIF 2.1.0 log for code scanners."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from mqdlq.rules import Diagnostic

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def sarif_log(found: Iterable[Diagnostic]) -> dict[str, Any]:
    """Return the log of one run, a result for each diagnostic; columns count characters."""
    diagnostics = list(found)
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    indexes = {code: index for index, code in enumerate(codes)}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "mqdlq", "rules": [{"id": code} for code in codes]}},
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(diagnostic, indexes[diagnostic.code]) for diagnostic in diagnostics
                ],
            }
        ],
    }


def _result(diagnostic: Diagnostic, index: int) -> dict[str, Any]:
    region = {
        "startLine": diagnostic.line,
        "startColumn": diagnostic.column,
        "endColumn": diagnostic.column + diagnostic.length,
    }
    return {
        "ruleId": diagnostic.code,
        "ruleIndex": index,
        "level": diagnostic.severity,
        "message": {"text": diagnostic.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(diagnostic.path)},
                    "region": region,
                }
            }
        ],
    }


def _uri(path: str) -> str:
    """Return a path as a URI; a relative path stays relative."""
    place = Path(path)
    return place.as_uri() if place.is_absolute() else quote(place.as_posix())
