"""Outcomes are downloaded as CSV, JSON Lines and Parquet, without bodies."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq
import pytest

from mqdlq.lake.filters import RunMessageFilter
from mqdlq.ledger import Ledger
from mqdlq.reading import exports
from mqdlq.reading.exports import FORMS
from mqdlq.reading.outcome_files import SCHEMA, outcomes_of
from mqdlq.reading.run import read_sources
from mqdlq.reading.run_messages import MessageList
from tests.unit.reading.report.ended_runs import CANARY, EndedRun, bare, delivered, unmatched

HOSTILE = "=cmd|'<b>\x1b[31m\""
LETTERS = [delivered(), unmatched(dest_q_name=HOSTILE), bare()]


@pytest.fixture(name="content")
def _content(ledger: Ledger, lake_root: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Write each form in batches of two rows."""
    monkeypatch.setattr(exports, "ROWS", 2)
    run_id = EndedRun(LETTERS).record(ledger, lake_root)
    messages = MessageList(read_sources(run_id, ledger, lake_root), ledger)
    places, _ = messages.select(RunMessageFilter())
    return {form: written(form, messages, places) for form in FORMS}


def written(form: str, messages: MessageList, places: Sequence[int]) -> bytes:
    return b"".join(outcomes_of("file", "r1", messages, places).parts(form))


def records(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.decode().splitlines()]


def test_every_form_has_every_message_once(content: dict[str, bytes]) -> None:
    rows = list(csv.DictReader(io.StringIO(content["csv"].decode())))
    table = pq.read_table(io.BytesIO(content["parquet"]))

    assert [row["browse_seq"] for row in rows] == ["1", "2", "3"]
    assert [row["browse_seq"] for row in records(content["jsonl"])] == [1, 2, 3]
    assert table.schema == SCHEMA
    assert table.column("outcome").to_pylist() == ["delivered", "unmatched", "unprocessable"]
    assert {row["run_id"] for row in rows} == {"r1"}
    assert {form.media_type.partition("/")[0] for form in FORMS.values()} == {"text", "application"}


def test_a_name_cannot_be_a_formula_in_csv_and_is_kept_elsewhere(content: dict[str, bytes]) -> None:
    _, row, _ = csv.DictReader(io.StringIO(content["csv"].decode()))
    _, record, _ = records(content["jsonl"])

    assert row["dest_q_name"] == "'" + HOSTILE.replace("\x1b", r"\x1b")
    assert record["dest_q_name"] == HOSTILE
    assert record["reason_text"] == "MQRC_MSG_TOO_BIG_FOR_Q (2030)"


def test_no_form_has_a_body(content: dict[str, bytes]) -> None:
    assert all(CANARY.encode() not in written for written in content.values())


def test_a_file_without_messages_has_its_columns(ledger: Ledger, lake_root: str) -> None:
    run_id = EndedRun(LETTERS).record(ledger, lake_root)
    messages = MessageList(read_sources(run_id, ledger, lake_root), ledger)

    content = {form: written(form, messages, []) for form in FORMS}

    assert content["csv"].decode() == ",".join(SCHEMA.names) + "\r\n"
    assert content["jsonl"] == b""
    assert pq.read_table(io.BytesIO(content["parquet"])).schema == SCHEMA
