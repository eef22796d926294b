"""Test that `mqdlq rules check` checks handlers with their tables, and whole directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app

TABLE = "INPUTQ(DLQ)\nREASON(MQRC_Q_FULL) ACTION(RETRY)\nACTION(IGNORE)\n"
UNCAUGHT = "REASON(MQRC_Q_FULL) ACTION(RETRY)\n"
DOUBT = (
    "a message that no rule matches stays on the queue;"
    " end the table with a rule without patterns, such as ACTION(FWD) FWDQ(PARKED)"
)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(**files: str) -> None:
    for name, text in files.items():
        Path(name.replace("_", ".")).write_text(text, encoding="utf-8")


def check(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, ["rules", "check", *arguments], input=stdin)


def checked(*arguments: str) -> list[dict[str, Any]]:
    return list(json.loads(check("--format", "json", *arguments).stdout)["files"])


def test_the_shipped_demo_is_valid() -> None:
    demo = Path(__file__).parents[4] / "include" / "rules"

    found = check(str(demo / "demo.yaml"))

    assert found.exit_code == 0
    assert found.stdout.splitlines()[0] == (
        f"{demo}/demo.yaml: handler, connection mq_demo, rules demo.rules"
    )
    assert found.stdout.splitlines()[-1] == f"{demo}/demo.rules: 7 rules, 1 warning"


def test_a_handler_is_checked_with_the_table_it_names() -> None:
    write(a_yaml="connection: mq\nrules: a.rules\n", a_rules=TABLE)

    assert check("a.yaml").stdout == (
        "a.yaml: handler, connection mq, rules a.rules\na.rules: 2 rules\n"
    )
    assert checked("a.yaml") == [
        {"path": "a.yaml", "valid": True, "control": {}, "rules": [], "diagnostics": []},
        *checked("a.rules"),
    ]
    assert checked("a.rules")[0]["control"] == {"INPUTQ": "DLQ"}


def test_a_handler_with_its_own_table_is_one_file() -> None:
    write(a_yaml="connection: mq\ntable:\n  rules:\n    - action: IGNORE\n")

    assert check("a.yaml").stdout == "a.yaml: handler, connection mq, 1 rule\n"
    assert checked("a.yaml") == [
        {
            "path": "a.yaml",
            "valid": True,
            "control": {},
            "rules": [{"line": 4, "keywords": {"ACTION": "IGNORE"}}],
            "diagnostics": [],
        }
    ]


def test_the_key_lint_sets_how_serious_a_warning_is() -> None:
    handler = "connection: mq\nrules: a.rules\nlint: {no-catch-all: %s}\n"
    write(a_yaml=handler % "error", b_yaml=handler % "'off'", a_rules=UNCAUGHT)

    as_error, as_nothing = check("a.yaml"), check("b.yaml")

    assert (as_error.exit_code, as_nothing.exit_code) == (1, 0)
    assert as_error.stdout == (
        "a.yaml: handler, connection mq, rules a.rules\n"
        f"a.rules:1:1: {DOUBT}\n"
        "    REASON(MQRC_Q_FULL) ACTION(RETRY)\n"
        "    ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~^\n"
        "a.rules: refused, 1 error\n"
    )
    assert as_nothing.stdout.endswith("a.rules: 1 rule\n")


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (
            "connection: mq\nrules: b.rules\n",
            (
                "a.yaml:2:8: b.rules: the rules table cannot be read: No such file or directory\n"
                "    rules: b.rules\n"
                "           ~~~~~~^\n"
            ),
        ),
        (
            "connexion: mq\nrules: a.rules\n",
            (
                "a.yaml:1:1: unknown key connexion; did you mean connection?\n"
                "    connexion: mq\n"
                "    ~~~~~~~~^\n"
            ),
        ),
        (
            "rules: a.rules\n",
            (
                "a.yaml:1:1: the key 'connection' is missing; a handler needs it\n"
                "    rules: a.rules\n"
                "    ~~~~~~~~~~~~~^\n"
            ),
        ),
        (
            "connection: mq\n",
            (
                "a.yaml:1:1: a handler needs 'rules', a file beside it, or 'table', its rules\n"
                "    connection: mq\n"
                "    ~~~~~~~~~~~~~^\n"
            ),
        ),
        (
            "connection: mq\nrules: a.rules\nschedule: hourly\n",
            None,
        ),
    ],
    ids=["table", "key", "connection", "rules", "schedule"],
)
def test_an_invalid_handler_is_refused_with_line_and_column(handler: str, said: str | None) -> None:
    write(a_yaml=handler, a_rules=TABLE)

    result = check("a.yaml")

    assert result.exit_code == 1
    if said is None:
        assert result.stdout.startswith("a.yaml:3:11: schedule: ")
    else:
        assert result.stdout == f"{said}a.yaml: refused, 1 error\n"
    (found,) = checked("a.yaml")
    assert (found["valid"], found["control"], found["rules"]) == (False, {}, [])


def test_a_handler_with_the_name_of_another_dag_is_refused() -> None:
    write(history_yaml="connection: mq\nrules: a.rules\n", a_rules=TABLE)

    assert check("history.yaml").stdout == (
        "history.yaml:1:1: mq_dlq_history is another DAG of this project: give the handler another"
        " name\nhistory.yaml: refused, 1 error\n"
    )


def test_a_handler_whose_file_does_not_end_in_yaml_is_refused() -> None:
    write(a_yml="connection: mq\nrules: a.rules\n", a_rules=TABLE)

    assert check("a.yml").stdout == (
        "a.yml:1:1: a handler's file ends in .yaml; no run would find this one, rename it a.yaml\n"
        "a.yml: refused, 1 error\n"
    )


def test_each_handler_and_table_of_a_directory_is_checked_once() -> None:
    write(
        a_yaml="connection: mq\nrules: a.rules\nlint: {no-catch-all: 'off'}\n",
        a_rules=UNCAUGHT,
        b_rules=TABLE,
        c_txt="no table",
    )
    everything = (
        "a.yaml: handler, connection mq, rules a.rules\na.rules: 1 rule\nb.rules: 2 rules\n"
    )

    assert check(".").stdout == everything
    assert check("b.rules", "a.rules", "a.yaml").stdout == (
        "b.rules: 2 rules\na.yaml: handler, connection mq, rules a.rules\na.rules: 1 rule\n"
    )


def test_a_directory_without_handlers_and_tables_is_a_wrong_argument() -> None:
    Path("empty").mkdir()

    result = check("empty")

    assert result.exit_code == 2
    assert result.stderr.endswith("'empty' holds neither *.yaml nor *.rules\n")


def test_a_yaml_file_with_a_table_alone_is_a_table() -> None:
    write(a_yaml="table:\n  rules:\n    - action: IGNORE\n")

    assert check("a.yaml").stdout == "a.yaml: 1 rule\n"


def test_sarif_names_the_file_of_each_finding() -> None:
    write(a_yaml="connection: mq\nrules: a.rules\n", a_rules=UNCAUGHT)

    (found,) = json.loads(check("--format", "sarif", "a.yaml").stdout)["runs"][0]["results"]

    location = found["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "a.rules"
