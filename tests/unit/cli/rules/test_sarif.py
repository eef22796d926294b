"""Test that `mqdlq rules check --format sarif` writes a valid SARIF 2.1.0 log.

The schema here contains the requirements of SARIF 2.1.0 (OASIS, sections 3.13 to 3.30) for the
objects and properties of the log, and allows no others; it is not OASIS's own file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft7Validator

from mqdlq.cli import app


def object_schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def array_schema(items: dict[str, Any], **constraints: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **constraints}


TEXT = {"type": "string"}
FROM_1 = {"type": "integer", "minimum": 1}
RULE = object_schema(["id"], id=TEXT)
DRIVER = object_schema(["name"], name=TEXT, rules=array_schema(RULE, uniqueItems=True))
PLACE = object_schema(
    [],
    artifactLocation=object_schema([], uri={"type": "string", "pattern": r"^[!-~]+$"}),
    region=object_schema(["startLine"], startLine=FROM_1, startColumn=FROM_1, endColumn=FROM_1),
)
RESULT = object_schema(
    ["message"],
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    level={"enum": ["none", "note", "warning", "error"]},
    message=object_schema(["text"], text=TEXT),
    locations=array_schema(object_schema([], physicalLocation=PLACE)),
)
RUN = object_schema(
    ["tool"],
    tool=object_schema(["driver"], driver=DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=array_schema(RESULT),
)
LOG = object_schema(
    ["version", "runs"],
    **{"$schema": TEXT, "version": {"enum": ["2.1.0"]}, "runs": array_schema(RUN, minItems=0)},
)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def log_of(exit_code: int, *paths: str, stdin: str = "") -> dict[str, Any]:
    arguments = ["rules", "check", "--format", "sarif", *paths]
    result = CliRunner().invoke(app, arguments, input=stdin)
    assert result.exit_code == exit_code
    log: dict[str, Any] = json.loads(result.stdout)
    Draft7Validator.check_schema(LOG)
    Draft7Validator(LOG).validate(log)
    return log


def test_every_diagnostic_of_every_file_is_a_result_with_its_rule() -> None:
    Path("a b.rules").write_text("ACTION(FWD)\nACTION(GO)\n", encoding="utf-8")
    Path("c.rules").write_text("\tACTION(IGNORE)\n", encoding="utf-8")

    (run,) = log_of(1, "a b.rules", "c.rules")["runs"]

    assert run["tool"]["driver"] == {
        "name": "mqdlq",
        "rules": [{"id": "invalid-value"}, {"id": "missing-fwdq"}, {"id": "tab"}],
    }
    assert run["results"] == [
        {
            "ruleId": code,
            "ruleIndex": index,
            "level": level,
            "message": {"text": message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": uri},
                        "region": {"startLine": line, "startColumn": start, "endColumn": end},
                    }
                }
            ],
        }
        for code, index, level, message, uri, line, start, end in [
            (
                "missing-fwdq",
                1,
                "error",
                "ACTION(FWD) needs FWDQ, the queue to forward to",
                "a%20b.rules",
                1,
                1,
                7,
            ),
            (
                "invalid-value",
                0,
                "error",
                "ACTION takes DISCARD, IGNORE, RETRY or FWD, found 'GO'",
                "a%20b.rules",
                2,
                8,
                10,
            ),
            ("tab", 2, "warning", "a tab; only blanks are portable", "c.rules", 1, 1, 2),
        ]
    ]


def test_a_sarif_log_without_results_is_valid() -> None:
    Path("a.rules").write_text("ACTION(IGNORE)\n", encoding="utf-8")

    (run,) = log_of(0, "a.rules")["runs"]

    assert run["results"] == []


def test_an_absolute_path_becomes_a_file_uri_and_standard_input_a_name() -> None:
    path = Path("a.rules").absolute()
    path.write_text("ACTION(FWD)\n", encoding="utf-8")

    (run,) = log_of(1, str(path), "-", stdin="ACTION(FWD)\n")["runs"]

    assert [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in run["results"]
    ] == [path.as_uri(), "%3Cstdin%3E"]


def test_the_corpus_of_all_errors_makes_a_valid_sarif_log() -> None:
    corpus = Path(__file__).parents[3] / "corpus" / "rules" / "invalid"

    (run,) = log_of(1, *map(str, sorted(corpus.glob("*.rules"))))["runs"]

    assert len(run["results"]) > 100
