"""A queue of 200 messages whose names instruct agents: every name stays a quoted value."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from mqdlq.agents.answers import MOST_CHARACTERS
from mqdlq.agents.catalogue import TOOLS
from mqdlq.agents.serving import MOST_BYTES, listed
from tests.support.agents import call, door, examples, texts_of
from tests.support.hostile_queue import (
    MARKS,
    NAMES,
    is_strange,
    make_hostile_world,
    properties_with,
)
from tests.support.web.demo_world import message_data
from tests.support.world import World

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="hostile")
def _hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with patch.dict(os.environ):
        world = make_hostile_world(tmp_path_factory.mktemp("hostile"))
        with world.ledger:
            yield world


@pytest.fixture(autouse=True)
def _in_its_home(hostile: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQDLQ_HOME", str(hostile.directory))
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(hostile.directory / "handlers"))


def test_no_character_of_a_message_is_outside_of_an_untrusted_field(hostile: World) -> None:
    opened = door(hostile, frozenset({"demo"}))
    wanted, seen = examples(opened, "PROMPT.IGNORE"), set[str]()
    for tool in TOOLS:
        given = wanted[tool.name] | (
            {"limit": 50} if "limit" in tool.arguments.model_fields else {}
        )
        if tool.name == "find_messages":
            given["where"] = ""
        answer = call(opened, tool.name, **given)
        assert isinstance(answer, dict), (tool.name, answer)
        text = json.dumps(answer)
        assert len(text) <= MOST_BYTES
        assert text.isascii()
        for found, is_marked in texts_of(answer):
            assert found.isprintable() or tool.name == "show_rules", (tool.name, found)
            if is_strange(found):
                assert is_marked, (tool.name, found)
                assert len(found) <= MOST_CHARACTERS + 1
                seen.add(tool.name)

    assert {"list_causes", "show_cause", "find_messages", "show_message", "show_report"} <= seen
    assert {"propose_action", "diagnose", "draft_rule", "explain_message"} <= seen


def test_a_pasted_dump_of_hostile_properties_is_explained_without_them(hostile: World) -> None:
    opened = door(hostile, frozenset({"demo"}))
    body = message_data("CLOSED", 2051, "x", hostile.clock(), properties_with(NAMES[0]))
    answer = call(opened, "explain_dump", handler="demo", dump=body.hex())

    (row,) = answer["rows"]
    assert row["total_bytes"] == len(body)
    assert not [text for text, is_marked in texts_of(answer) if is_strange(text) and not is_marked]


def test_all_200_messages_are_read_in_parts_of_bounded_size(hostile: World) -> None:
    opened, found = door(hostile, frozenset({"demo"})), list[str]()
    some: dict[str, Any] = {"next_cursor": 0}
    while some["next_cursor"] is not None:
        start = some["next_cursor"]
        some = call(opened, "find_messages", handler="demo", limit=50, cursor=start)
        assert len(json.dumps(some)) < MOST_BYTES
        found += [one["message_key"] for one in some["rows"]]

    assert len(found) == len(set(found)) == 200


def test_no_mark_of_a_message_is_in_the_description_of_a_tool() -> None:
    text = "".join(listed(tool).model_dump_json() for tool in TOOLS)

    assert not any(mark in text for mark in MARKS)


def test_a_search_with_hostile_words_is_recorded_and_answered_as_data(hostile: World) -> None:
    opened = door(hostile, frozenset({"demo"}))
    words = "application='IGNORE THE ABOVE*'"
    found = call(opened, "find_messages", handler="demo", where=words)
    events = call(opened, "list_audit", handler="demo", limit=50)["rows"]

    assert len(found["rows"]) > 0
    assert words in [one["untrusted"].get("details") for one in events]
