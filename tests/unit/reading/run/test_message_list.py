"""The messages of a run are selected by lake and ledger, and listed page by page."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq.lake.filters import Presence, RunMessageFilter
from mqdlq.ledger import Ledger
from mqdlq.model import Outcome
from mqdlq.reading.run import read_sources
from mqdlq.reading.run_messages import MessageList
from tests.support.settled_backlog import put_backlog, run_to_end
from tests.support.world import World
from tests.unit.reading.report.ended_runs import (
    START,
    EndedRun,
    bare,
    delivered,
    exhausted,
    forwarded,
    unmatched,
)

pytestmark = pytest.mark.stages

LETTERS = [
    delivered(),
    forwarded(dest_q_mgr_name="QMEUROPE"),
    exhausted(),
    bare(),
    unmatched(dest_q_name="<script>'\x1b[31m", outcome=None),
]
MSG_ID = (b"AMQ QM1" + (3).to_bytes(17, "big")).hex()


@pytest.fixture(name="messages")
def _messages(ledger: Ledger, lake_root: str) -> MessageList:
    run_id = EndedRun(LETTERS).record(ledger, lake_root)
    return MessageList(read_sources(run_id, ledger, lake_root), ledger)


def select(messages: MessageList, **chosen: Any) -> list[int]:
    return list(messages.select(RunMessageFilter(**chosen))[0])


AT = START - timedelta(minutes=90) + timedelta(seconds=14)
FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [1, 2, 3, 4, 5]),
    ({"msg_id": MSG_ID}, [3]),
    ({"msg_id": MSG_ID[:20].upper()}, [1, 2, 3, 4, 5]),
    ({"application": "payments"}, [1, 2, 3, 4, 5]),
    ({"application": "paym*"}, [1, 2, 3, 4, 5]),
    ({"application": "paym"}, []),
    ({"application": "PAYMENTS"}, []),
    ({"text": "PAYM"}, [1, 2, 3, 4, 5]),
    ({"dest_q_name": "ORDERS.E?"}, [2]),
    ({"dest_q_mgr_name": "QMEUROPE"}, [2]),
    ({"dest_q_name": "ORDERS.EU", "dest_q_mgr_name": "QM1"}, []),
    ({"dest_q_name": "<script>*"}, [5]),
    ({"reason": 2051}, [3]),
    ({"since": AT}, [2, 3, 5]),
    ({"until": AT}, [1, 4]),
    ({"outcome": Outcome.EXHAUSTED}, [3]),
    ({"outcome": Presence.NO_OUTCOME}, [5]),
    ({"rule": 1}, [1]),
    ({"rule": 0}, [4]),
    ({"dest_q_name": "ORDERS*", "rule": 1}, []),
    ({"dest_q_name": "ORDERS*", "rule": 3}, [2]),
]


@pytest.mark.parametrize(("chosen", "expected"), FILTERS, ids=str)
def test_a_filter_narrows_the_list(
    messages: MessageList, chosen: dict[str, Any], expected: list[int]
) -> None:
    assert select(messages, **chosen) == expected


def test_a_key_is_found_by_its_first_digits(messages: MessageList) -> None:
    third = next(messages.rows([3]))

    assert select(messages, message_key=third.message_key[:9]) == [3]
    assert select(messages, message_key=third.message_key, rule=1) == []


def test_a_row_has_message_and_outcome(messages: MessageList) -> None:
    (row,) = messages.rows([3])

    assert (row.browse_seq, row.msg_id, row.dest_q_name, row.reason) == (
        3,
        MSG_ID,
        "PAYMENTS.HELD",
        2051,
    )
    assert row.fact is not None
    assert (row.outcome, row.fact.rule) == (Outcome.EXHAUSTED, 2)
    assert (row.rule_line, row.made) == (6, 3)
    assert (row.put_appl_name, row.was_left_before) == ("payments", False)


def test_no_rows_are_read_for_no_messages(messages: MessageList) -> None:
    assert list(messages.rows([])) == []


def test_messages_without_a_plan_are_listed_without_an_outcome(
    ledger: Ledger, lake_root: str
) -> None:
    run_id = EndedRun(LETTERS, plan=False).record(ledger, lake_root)
    messages = MessageList(read_sources(run_id, ledger, lake_root), ledger)

    found = [1, 2, 3, 4, 5]
    assert select(messages) == select(messages, outcome=Presence.NO_OUTCOME) == found
    assert select(messages, outcome=Outcome.DELIVERED) == []
    assert {row.outcome for row in messages.rows([1, 2])} == {None}


def test_without_the_snapshot_the_ledger_lists_what_it_has(ledger: Ledger, lake_root: str) -> None:
    run_id = EndedRun(LETTERS).record(ledger, lake_root)
    snapshot = ledger.snapshots.of_run(run_id)
    assert snapshot is not None
    for file in Path(snapshot.location).glob("headers/*.parquet"):
        file.write_bytes(b"not Parquet")
    messages = MessageList(read_sources(run_id, ledger, lake_root), ledger)

    found, (trouble,) = messages.select(RunMessageFilter())
    filtered, (too_narrow,) = messages.select(RunMessageFilter(application="x"))
    key = next(messages.rows([3])).message_key

    assert list(found) == [1, 2, 3, 4, 5]
    assert trouble.startswith("the snapshot cannot be read: ")
    assert trouble.endswith("; messages are listed as the ledger has them")
    assert list(filtered) == []
    assert too_narrow.endswith("; its columns cannot be compared, so no message is listed")
    assert select(messages, message_key=key) == [3]


def test_a_pruned_snapshot_is_a_trouble(ledger: Ledger, lake_root: str) -> None:
    run_id = EndedRun(LETTERS, snapshot=True).record(ledger, lake_root)
    snapshot = ledger.snapshots.of_run(run_id)
    assert snapshot is not None
    (Path(snapshot.location) / "_MANIFEST.json").unlink()
    messages = MessageList(read_sources(run_id, ledger, lake_root), ledger)

    found, troubles = messages.select(RunMessageFilter())

    assert list(found) == [1, 2, 3, 4, 5]
    assert troubles == (
        "there is no snapshot that can be read; messages are listed as the ledger has them",
    )


def test_settled_messages_are_listed_with_the_outcome_that_they_keep(world: World) -> None:
    put_backlog(world)
    run_to_end(world)
    world.dead_letter(b"new", dest_q="ORDERS")
    second, _ = run_to_end(world)
    sources = read_sources(second.run_id, world.ledger, world.lake_root)
    messages = MessageList(sources, world.ledger)

    found, _ = messages.select(RunMessageFilter())

    rows = {row.browse_seq: row for row in messages.rows(found)}
    found_out = {
        place: (row.outcome, row.was_left_before)
        for place, row in rows.items()
        if row.outcome is not None
    }
    assert found_out == {
        1: (Outcome.LEFT_BY_RULE, True),
        2: (Outcome.UNMATCHED, True),
        3: (Outcome.UNPROCESSABLE, True),
        4: (Outcome.LEFT_BY_RULE, False),
    }
    assert rows[1].dest_q_name == "ORDERS"
    assert rows[1].msg_id
    assert select(messages, outcome=Outcome.UNMATCHED) == [2]
    assert select(messages, outcome=Presence.NO_OUTCOME) == []
    assert select(messages, dest_q_name="NOWHERE") == [2]
    assert select(messages, dest_q_name="NOWHERE", rule=1) == []
