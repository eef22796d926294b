"""A filter of messages has one meaning: a run's page, the search and a run select the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqdlq.lake import finished_snapshots, row_masks
from mqdlq.lake.filters import (
    MessageFilter,
    Period,
    RowFilter,
    RunMessageFilter,
    mask_of,
    parse_where,
)
from mqdlq.lake.selected import rows_that_meet
from mqdlq.ledger import Ledger
from mqdlq.reading.find import FoundMessage, Search
from mqdlq.reading.run import read_sources
from mqdlq.reading.run_messages import MessageList
from tests.unit.reading.report.ended_runs import (
    START,
    EndedMessage,
    EndedRun,
    bare,
    delivered,
    forwarded,
    ledger_in,
    unmatched,
)

pytestmark = pytest.mark.slow

APPLICATIONS = ("putter", "PUTTER", " putter", "put*er", "put?er", "put%", "p_tter", "", "Ärger")
QUEUES = ("ORDERS", "orders", "ORDERS.EU", "AMQ.4711", "AMQ.*", "<b>'", "A\\B", "ORDERS\0", "")
LETTERS: list[EndedMessage] = [
    *(delivered(put_appl_name=name) for name in APPLICATIONS),
    *(forwarded(dest_q_name=name, user_identifier=name[:12]) for name in QUEUES),
    *(unmatched(dest_q_mgr_name=name) for name in ("QM1", "qm1", "QM?", "")),
    bare(),
    bare(put_appl_name="putter", body=b"other"),
]


class World:
    """A run with messages of many names, as its page lists them and as the search finds them."""

    def __init__(self, directory: Path, ledger: Ledger) -> None:
        root = str(directory / "lake")
        self._ledger, self._root = ledger, root
        self._listed = MessageList(
            read_sources(EndedRun(LETTERS).record(ledger, root), ledger, root), ledger
        )
        self.messages = Search(MessageFilter(), ["demo"], ledger, root).page().messages

    def on_the_page(self, parameters: dict[str, str]) -> list[str]:
        browse_seqs, troubles = self._listed.select(RunMessageFilter.parse(parameters))
        assert troubles == ()
        return sorted(row.message_key for row in self._listed.rows(browse_seqs))

    def by_the_search(self, parameters: dict[str, str]) -> list[str]:
        search = Search(MessageFilter.parse(parameters), ["demo"], self._ledger, self._root)
        found = search.page()
        return sorted(message.message_key for message in found.messages)

    def by_a_run(self, parameters: dict[str, str]) -> list[str]:
        """Select the messages as a run does that is started for the condition, without DuckDB."""
        text = MessageFilter.parse(parameters).text_of_where
        mask = mask_of(parse_where(text)) if text else row_masks.all_of(())
        (snapshot,) = finished_snapshots(self._root)
        found = rows_that_meet(snapshot.directory, mask, ["message_key"])
        return sorted(key.hex() for part in found for key in part["message_key"].to_pylist())


@pytest.fixture(scope="module", name="world")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("filters")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQDLQ_HOME", str(directory))
        with ledger_in(directory) as ledger:
            yield World(directory, ledger)


def values_of(message: FoundMessage) -> dict[str, str]:
    """Return the values of a message under the names of parameters."""
    at = (message.since or START) + timedelta(seconds=1)
    return {
        "text": message.put_appl_name,
        "msg_id": message.msg_id,
        "correl_id": message.correl_id,
        "message_key": message.message_key,
        "application": message.put_appl_name,
        "user": message.user_identifier,
        "dest_q_name": message.dest_q_name,
        "dest_q_mgr_name": message.dest_q_mgr_name,
        "format": message.format,
        "reason": str(message.reason),
        "cause_id": message.cause_id,
        "since": at.isoformat(),
        "until": at.isoformat(),
        "expires_before": at.isoformat(),
    }


@st.composite
def changed(draw: st.DrawFn, name: str, value: str) -> str:
    """Return the value of a parameter, or another one that fits some messages or none."""
    if name in {"msg_id", "correl_id", "message_key"}:
        digits = value[: draw(st.integers(6, len(value)))]
        return draw(st.sampled_from([digits, digits.upper()]))
    if name in {"reason", "cause_id", *Period.model_fields, "expires_before"}:
        return value
    end = draw(st.integers(0, len(value)))
    changes = (value, value[:end], value[:end] + "*", f"*{value[end:]}", value.swapcase())
    return draw(st.sampled_from((*changes, "?" * len(value), value[:end] + "?" + value[end + 1 :])))


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_the_page_of_a_run_the_search_and_a_run_find_the_same_messages(
    world: World, data: st.DataObject
) -> None:
    values = values_of(data.draw(st.sampled_from(world.messages)))
    names = data.draw(st.sets(st.sampled_from(sorted(RowFilter.model_fields)), max_size=3))
    parameters = {name: data.draw(changed(name, values[name])) for name in sorted(names)}
    if {"since", "until"} <= names:
        del parameters["until"]

    found = world.by_the_search(parameters)
    assert world.on_the_page(parameters) == found
    assert world.by_a_run(parameters) == found


def test_case_counts_and_only_wildcards_leave_characters_out(world: World) -> None:
    def found(**parameters: str) -> int:
        number = len(world.on_the_page(parameters))
        assert number == len(world.by_the_search(parameters))
        return number

    assert found(application="putte") == 0
    assert found(application="putte*") == 2
    assert found(application="PUTTE?") == 1
    assert found(text="PUTTE") == 4
