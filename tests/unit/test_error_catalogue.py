"""Every error has an id of the catalogue, and every entry of the catalogue is that of an error."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from mqdlq import error_catalogue
from mqdlq.cli import app
from mqdlq.directories import PROJECT
from mqdlq.errors import HandlerError, LakeError, QueueManagerError
from tests.support.declared_commands import all_commands

pytestmark = pytest.mark.slow

ENTRIES = error_catalogue.entries()
SITES = error_catalogue.sites()


def test_every_id_in_the_code_is_in_the_catalogue_and_the_other_way_round() -> None:
    assert {site.error_id for site in SITES} ^ set(ENTRIES) == set()


def test_every_id_that_the_code_names_is_that_of_an_error() -> None:
    named = {
        (str(file.relative_to(PROJECT)), error_id)
        for directory in ("plugins", "dags", "spark", "deploy")
        for file in (PROJECT / directory).rglob("*.py")
        for error_id in re.findall(r"MQDLQ-\d{3}", file.read_text(encoding="utf-8"))
    }

    assert [one for one in sorted(named) if one[1] not in ENTRIES] == []


def test_the_catalogue_has_the_text_of_an_error_only_if_the_code_has_none() -> None:
    without = {site.error_id for site in SITES if not site.text}

    assert {entry.error_id for entry in ENTRIES.values() if entry.text} == without


def test_a_text_of_the_code_has_names_for_its_values() -> None:
    (text,) = ENTRIES["MQDLQ-103"].texts()

    assert text == "connection {name} has an unknown extra {key}{hint}"
    assert ENTRIES["MQDLQ-405"].texts()[0] != ENTRIES["MQDLQ-405"].texts()[1]


def test_no_id_is_given_twice() -> None:
    ids = list(ENTRIES)

    assert ids == sorted(ids)
    assert set(ids) & set(error_catalogue.catalogue()["retired"]) == set()


def test_every_entry_says_where_to_look_and_what_to_do() -> None:
    raised = {site.error_id for site in SITES}

    assert [
        entry
        for entry in ENTRIES.values()
        if not (entry.look and entry.do and (entry.text or entry.error_id in raised))
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
        "MQDLQ-101: connection {conn_id} has type {conn_type}; expected {connection_type}, or"
        " {shared_type} of Airflow's provider for IBM MQ\n"
        "  look here: Admin, Connections in Airflow\n"
        "  do this:   set the connection's type to `mqdlq`\n"
        "  page:      docs/reference/errors.md#mqdlq-101\n"
    )


def test_explain_error_names_the_nearest_ids_for_an_unknown_one() -> None:
    done = CliRunner().invoke(app, ["explain-error", "439"])

    assert done.exit_code == 2
    assert done.output.splitlines()[-1] == (
        "Error: Invalid value: no error has the id MQDLQ-439; the nearest are MQDLQ-943, MQDLQ-843"
        " and MQDLQ-473"
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
