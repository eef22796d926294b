"""Every error has an id of the catalogue, and every entry of the catalogue is that of an error."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
from typer.testing import CliRunner

from mqdlq import error_catalogue
from mqdlq.cli import app
from mqdlq.directories import PROJECT
from mqdlq.errors import HandlerError, LakeError, QueueManagerError
from tests.support.declared_commands import all_commands

ENTRIES = error_catalogue.entries()
GIVEN = (
    "100-134 136-156 166-166 191-192",
    "201-227 230-233 240-241 250-257 263-263 271-272 274-275 278-278",
    "301-312 320-324 335-335",
    "401-405 407-432 434-438 445-448 470-473",
    "501-509 520-523 526-526",
    "601-615 626-627 630-630",
    "701-716",
    "801-808 810-817 840-845 850-851",
    "901-909 911-918 920-927 941-942 945-945 951-961 963-968 970-970 973-984 986-986 988-996",
)
"""Every number that was ever given to an error, so that none is given to another one."""
ID = re.compile(r"MQDLQ-\d{3}")
MARKED = re.compile(r"(?P<text>.*?) \[(?P<id>MQDLQ-\d{3})\]", re.DOTALL)
FORMAT = re.compile(r"%(\.0f|[sd])")
UNUSABLE = "the ledger … cannot be used: …; "
WITHOUT_TEXT = frozenset({"MQDLQ-109", "MQDLQ-301", "MQDLQ-404", "MQDLQ-905", "MQDLQ-906"})
"""Errors whose text comes from elsewhere; the catalogue describes it."""


def text_of(node: ast.AST) -> str:
    """Return a literal text, with … for each value that is put in at run time."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return FORMAT.sub("…", node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    return "…"


@cache
def sites() -> tuple[tuple[str, str, str], ...]:
    """Return place, id and text of each error and warning in the code."""
    return tuple(_sites())


def _sites() -> Iterator[tuple[str, str, str]]:
    for directory in ("plugins", "dags", "spark", "deploy"):
        for file in sorted((PROJECT / directory).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
            pieces = {id(piece) for node in joined for piece in node.values}
            for node in ast.walk(tree):
                place = f"{file.relative_to(PROJECT)}:{getattr(node, 'lineno', 0)}"
                if isinstance(node, ast.Call) and len(node.args) > 1:
                    error_id = text_of(node.args[0])
                    if ID.fullmatch(error_id):
                        is_remedy = ast.unparse(node.func) == "Remedy"
                        text = text_of(node.args[1])
                        yield place, error_id, f"{UNUSABLE}{text}" if is_remedy else text
                is_text = isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in pieces
                if is_text and (marked := MARKED.fullmatch(text_of(node))):
                    yield place, marked["id"], marked["text"]


def numbers() -> set[str]:
    """Return the ids of GIVEN."""
    found = set()
    for span in " ".join(GIVEN).split():
        first, last = span.split("-")
        found |= {f"MQDLQ-{number}" for number in range(int(first), int(last) + 1)}
    return found


def test_every_id_in_the_code_is_in_the_catalogue() -> None:
    assert [site for site in sites() if site[1] not in ENTRIES] == []


def test_every_entry_is_that_of_an_error_in_the_code() -> None:
    assert set(ENTRIES) - {error_id for _, error_id, _ in sites()} == set()


def test_the_texts_in_the_code_are_those_of_the_catalogue() -> None:
    wrong = []
    for place, error_id, text in sites():
        pattern = ".*".join(map(re.escape, ENTRIES[error_id].text.split("…")))
        is_plain = error_id not in WITHOUT_TEXT and text != "…"
        if is_plain and not re.fullmatch(pattern, text, re.DOTALL):
            wrong.append((place, text, ENTRIES[error_id].text))

    assert wrong == []


def test_no_id_is_given_twice_or_forgotten() -> None:
    ids = list(ENTRIES)

    assert ids == sorted(ids)
    assert set(ids) & set(error_catalogue.retired()) == set()
    assert set(ids) | set(error_catalogue.retired()) == numbers()


def test_every_entry_says_where_to_look_and_what_to_do() -> None:
    assert [
        entry for entry in ENTRIES.values() if not (entry.text and entry.look and entry.do)
    ] == []


def test_an_error_ends_its_first_line_with_its_id() -> None:
    assert str(LakeError("MQDLQ-423", "m.json is not JSON: line 1")) == (
        "m.json is not JSON: line 1 [MQDLQ-423]"
    )
    assert str(HandlerError("MQDLQ-301", "a.yaml:1:1: unknown key rulez\n    rulez: x\n    ^")) == (
        "a.yaml:1:1: unknown key rulez [MQDLQ-301]\n    rulez: x\n    ^"
    )


def test_an_error_of_an_mqi_call_has_one_id_for_all_reasons() -> None:
    error = QueueManagerError("MQGET", "queue DLQ", 2, 2016, "MQRC_GET_INHIBITED (2016)")

    assert str(error) == "MQGET of queue DLQ failed: MQRC_GET_INHIBITED (2016) [MQDLQ-100]"
    assert error.text == "MQGET of queue DLQ failed: MQRC_GET_INHIBITED (2016)"


@pytest.mark.parametrize("given", ["MQDLQ-101", "mqdlq-101", "101"])
def test_explain_error_prints_the_entry(given: str) -> None:
    assert CliRunner().invoke(app, ["explain-error", given]).output == (
        "MQDLQ-101: connection … has type …; expected …\n"
        "  look here: Admin, Connections in Airflow\n"
        "  do this:   set the connection's type to `ibmmq`\n"
        "  page:      docs/reference/errors.md#mqdlq-101\n"
    )


def test_explain_error_names_the_nearest_ids_for_an_unknown_one() -> None:
    done = CliRunner().invoke(app, ["explain-error", "439"])

    assert done.exit_code == 2
    assert done.output.splitlines()[-1] == (
        "Error: Invalid value: no error has the id MQDLQ-439; the nearest are MQDLQ-843, MQDLQ-473"
        " and MQDLQ-438"
    )


def test_every_command_that_the_catalogue_names_exists() -> None:
    text = (PROJECT / "plugins" / "mqdlq" / "errors.toml").read_text(encoding="utf-8")
    named = [tuple(words.split()) for words in re.findall(r"`mqdlq ([^`]*)`", text)]

    assert named
    assert [
        words
        for words in named
        if not any(words[:length] in all_commands() for length in range(1, len(words) + 1))
    ] == []
