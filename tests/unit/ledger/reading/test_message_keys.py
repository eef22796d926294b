"""Keys of messages may be shortened to the digits that are unique, wherever a key is accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqdlq.airflow import params
from mqdlq.errors import MessageKeyError
from mqdlq.handlers import Handler
from mqdlq.lake.filters import MessageFilter
from mqdlq.ledger.tables import Restoration
from mqdlq.reading.find import Search
from mqdlq.stages.restore.selection import begin_restoration
from mqdlq.tools.acting import AskedAction, Selection, Sources, Verb, build_preview
from tests.support.world import World

pytestmark = pytest.mark.stages

RULES = "DESTQ(NOWHERE) ACTION(RETRY)\n"


@pytest.fixture(name="world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    with (world := World(tmp_path)).ledger:
        for number in range(40):
            world.dead_letter(b"%d" % number)
        world.handle(RULES)
        yield world


def keys_of(world: World) -> list[str]:
    return sorted(one.message_key.hex() for one in world.ledger.messages.of_run("run-1"))


def shared(world: World) -> tuple[str, list[str]]:
    """Return a digit with which several keys begin, and these keys."""
    keys = keys_of(world)
    found = {digit: [key for key in keys if key[0] == digit] for digit in "0123456789abcdef"}
    return max(found.items(), key=lambda item: len(item[1]))


def test_the_digits_of_a_page_are_completed_on_the_queues_of_a_handler(world: World) -> None:
    keys = keys_of(world)

    given = [keys[3][:12], keys[0].upper(), keys[3], f" {keys[5][:12]} "]

    assert world.ledger.message_facts.complete(given, ["test"]) == (keys[3], keys[0], keys[5])
    assert world.ledger.message_facts.complete([keys[3][:12]]) == (keys[3],)


def test_digits_of_several_keys_are_one_error_with_the_candidates(world: World) -> None:
    digit, keys = shared(world)

    with pytest.raises(MessageKeyError) as caught:
        world.ledger.message_facts.complete([digit], ["test"])

    shown = ", ".join(key[:9] for key in keys[:4])
    more = ", …" if len(keys) > 4 else ""
    assert str(caught.value) == (
        f"key {digit} is the beginning of {len(keys)} messages' keys ({shown}{more}); give more"
        " digits [MQDLQ-904]"
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            "12x",
            (
                "'12x' is not a message_key; expected 64 hexadecimal digits, or the first of them"
                " [MQDLQ-271]"
            ),
        ),
        (
            "0" * 20,
            (
                "no run of handler test has listed a message whose key begins with"
                " 00000000000000000000; copy the key from a page or a report, or give all 64"
                " digits [MQDLQ-272]"
            ),
        ),
    ],
)
def test_other_digits_are_one_error(world: World, given: str, text: str) -> None:
    with pytest.raises(MessageKeyError) as caught:
        world.ledger.message_facts.complete([given], ["test"])

    assert str(caught.value) == text


def test_the_keys_of_other_handlers_are_not_found(world: World) -> None:
    with pytest.raises(MessageKeyError, match="no run of handler other has listed"):
        world.ledger.message_facts.complete([keys_of(world)[0][:12]], ["other"])


def test_a_run_acts_on_messages_by_the_beginnings_of_their_keys(world: World) -> None:
    keys = keys_of(world)[:2]
    short = [key[:12] for key in keys]
    assert not params.fault({"message_keys": short})

    world.handle(RULES, action="ACTION(DISCARD)", message_keys=tuple(short))

    run = world.ledger.runs.get("run-2")
    assert run is not None
    assert run.message_keys == tuple(keys)
    assert world.depths("DLQ") == (38,)


def test_a_run_with_an_ambiguous_key_is_refused(world: World) -> None:
    digit, _ = shared(world)

    with pytest.raises(MessageKeyError, match="give more digits"):
        world.start(RULES, action="ACTION(DISCARD)", message_keys=(digit,))

    assert world.ledger.runs.get("run-2") is None


def test_a_restoration_takes_the_beginning_of_a_key(world: World) -> None:
    key = keys_of(world)[0]
    world.handle(RULES, action="ACTION(DISCARD)", message_keys=(key,))
    handler = Handler(name="test", directory=world.directory, connection="mq", rules="test.rules")

    asked = Restoration(
        restoration_id="r1",
        handler="test",
        state_queue=handler.state_queue,
        message_keys=(key[:12],),
        started_at=world.clock(),
    )
    begun = begin_restoration(asked, handler, ledger=world.ledger)

    assert begun.message_keys == (key,)


def test_an_action_of_the_page_takes_the_beginning_of_a_key(world: World) -> None:
    key = keys_of(world)[0]
    sources = Sources("test", world.ledger, world.lake_root, world.clock)

    found = build_preview(
        Selection(message_keys=(key[:12],)), AskedAction(Verb.DISCARD), None, sources
    )

    assert [one.message_key for one in found.ready] == [key]
    assert found.left_out == ()
    assert json.loads(json.dumps(found.conf(dry_run=False, why="")))["message_keys"] == [key]


def test_a_search_finds_a_message_by_the_digits_that_pages_show(world: World) -> None:
    key = keys_of(world)[0]

    def found(**chosen: str) -> list[str]:
        filter_ = MessageFilter.parse(list(chosen.items()))
        search = Search(filter_, ["test"], world.ledger, world.lake_root)
        return [one.message_key for one in search.page().messages]

    assert found(text=key[:12]) == [key]
    assert found(text=key[:12].upper()) == [key]
    assert found(message_key=key[:12]) == [key]
    assert found(message_key=key[:6].upper()) == [key]
    assert found(text="abcdefabcdef") == found(message_key="abcdefabcdef") == []
