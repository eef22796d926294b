"""Test the files that `mqdlq rules format` and `convert` write and leave unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app

MESSY = "* caf\xe9\n\n\ndestq(a) +\n  action(retry)\n".encode("latin-1")
TIDY = "* caf\xe9\n\nDESTQ(A) ACTION(RETRY)\n".encode("latin-1")
REFUSED = "ACTION(FWD)\n"
ERROR = (
    "b.rules:1:1: ACTION(FWD) needs FWDQ, the queue to forward to\n    ACTION(FWD)\n    ~~~~~^\n"
)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(app, ["rules", *arguments], input=stdin)


def test_format_rewrites_a_file_in_place_and_says_so() -> None:
    Path("a.rules").write_bytes(MESSY)

    first, second = run("format", "a.rules"), run("format", "a.rules")

    assert (first.exit_code, first.stdout) == (0, "a.rules: formatted\n")
    assert (second.exit_code, second.stdout) == (0, "a.rules: is canonical already\n")
    assert Path("a.rules").read_bytes() == TIDY
    assert [path.name for path in Path().iterdir()] == ["a.rules"]


def test_format_keeps_the_mode_of_a_file_and_writes_through_a_link() -> None:
    Path("a.rules").write_bytes(MESSY)
    Path("a.rules").chmod(0o640)
    Path("link.rules").symlink_to("a.rules")

    run("format", "link.rules")

    assert Path("link.rules").is_symlink()
    assert Path("a.rules").read_bytes() == TIDY
    assert Path("a.rules").stat().st_mode & 0o777 == 0o640


def test_format_only_says_what_would_change_when_asked_to_check() -> None:
    Path("a.rules").write_bytes(MESSY)
    Path("b.rules").write_bytes(TIDY)

    both, one = run("format", "--check", "a.rules", "b.rules"), run("format", "--check", "b.rules")

    assert (both.exit_code, both.stdout) == (
        1,
        "a.rules: would be changed\nb.rules: is canonical\n",
    )
    assert (one.exit_code, one.stdout) == (0, "b.rules: is canonical\n")
    assert Path("a.rules").read_bytes() == MESSY


def test_format_takes_standard_input_to_standard_output() -> None:
    result = run("format", "-", stdin=MESSY)

    assert (result.exit_code, result.stdout_bytes) == (0, TIDY)


def test_format_leaves_a_rejected_table_unchanged_and_formats_the_others() -> None:
    Path("a.rules").write_bytes(MESSY)
    Path("b.rules").write_text(REFUSED, encoding="utf-8")

    result = run("format", "b.rules", "a.rules")

    assert result.exit_code == 1
    assert result.stderr == f"{ERROR}b.rules: refused, nothing is written\n"
    assert Path("b.rules").read_text(encoding="utf-8") == REFUSED
    assert Path("a.rules").read_bytes() == TIDY


def test_convert_goes_to_yaml_and_back() -> None:
    there = run("convert", "--to", "yaml", "-", stdin="DESTQ(A) ACTION(RETRY)\n")
    back = run("convert", "--to", "table", "-", stdin=there.stdout)

    assert (there.exit_code, there.stdout) == (
        0,
        "table:\n  rules:\n    - match:\n        DESTQ: A\n      action: RETRY\n",
    )
    assert (back.exit_code, back.stdout) == (0, "DESTQ(A) ACTION(RETRY)\n")


def test_convert_reports_errors_and_writes_nothing() -> None:
    Path("b.rules").write_text(REFUSED, encoding="utf-8")

    result = run("convert", "--to", "yaml", "b.rules")

    assert (result.exit_code, result.stdout, result.stderr) == (1, "", ERROR)


def test_check_reads_the_table_of_a_handler() -> None:
    Path("h.yaml").write_text(
        "connection: mq\nlint: {no-catch-all: off}\n"
        "table: {rules: [{match: {REASON: [1, 2]}, action: retry}]}\n",
        encoding="utf-8",
    )
    Path("x.yaml").write_text("table: {rules: [{action: go}]}\n", encoding="utf-8")

    result = run("check", "h.yaml", "x.yaml")

    assert (result.exit_code, result.stdout) == (
        1,
        (
            "h.yaml: handler, connection mq, 2 rules\n"
            "x.yaml:1:26: ACTION takes DISCARD, IGNORE, RETRY or FWD, found 'GO'\n"
            "    table: {rules: [{action: go}]}\n"
            "                             ~^\n"
            "x.yaml: refused, 1 error\n"
        ),
    )


@pytest.mark.parametrize(
    "arguments",
    [("format", "missing.rules"), ("convert", "-"), ("convert", "--to", "json", "-")],
)
def test_a_wrong_call_ends_with_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2
