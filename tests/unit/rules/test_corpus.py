"""Small rules tables with their expected content or errors in the file of the same name.

``python -m unit.rules.test_corpus`` in `tests` writes the expected files, for a review by diff.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mqdlq.rules import CheckResult, check, parse, print_table

CORPUS = Path(__file__).parents[2] / "corpus" / "rules"
VALID = sorted(CORPUS.glob("valid/*.rules"))
INVALID = sorted(CORPUS.glob("invalid/*.rules"))

assert VALID
assert INVALID


def checked(path: Path) -> CheckResult:
    return check(path.read_bytes(), path.name)


def said(result: CheckResult) -> str:
    return "".join(f"{diagnostic}\n" for diagnostic in result.diagnostics)


def described(result: CheckResult) -> dict[str, Any]:
    assert result.table is not None, said(result)
    return {
        "control": dict(result.control),
        "rules": [{"line": rule.line, "keywords": dict(rule.keywords)} for rule in result.rules],
        "warnings": said(result).splitlines(),
        "print": print_table(result.table).splitlines(),
    }


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_valid_table_of_the_corpus_parses_to_its_expected_json(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))

    assert described(checked(path)) == expected


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_the_canonical_print_of_a_valid_table_parses_to_that_table_and_is_stable(
    path: Path,
) -> None:
    table = parse(path.read_bytes())
    text = print_table(table)

    assert parse(text) == table
    assert print_table(parse(text)) == text
    assert max(map(len, text.splitlines())) <= 72


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_table_of_the_corpus_is_rejected_with_all_its_faults(path: Path) -> None:
    result = checked(path)
    expected = path.with_suffix(".err").read_text(encoding="utf-8")

    assert said(result) == expected
    assert result.table is None


def write_what_is_expected() -> None:
    for path in VALID:
        text = json.dumps(described(checked(path)), indent=2, ensure_ascii=False)
        path.with_suffix(".json").write_text(f"{text}\n", encoding="utf-8")
    for path in INVALID:
        path.with_suffix(".err").write_text(said(checked(path)), encoding="utf-8")


if __name__ == "__main__":
    write_what_is_expected()
