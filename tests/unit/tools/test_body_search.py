"""Bodies are searched as their character sets say, in lots, and each search is in the audit."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mqdlq.cli import app
from mqdlq.errors import LakeError
from mqdlq.headers import DeadLetterHeader, RulesHeader2
from mqdlq.lake.filters import FilterError
from mqdlq.ledger.reading.audit import AuditFilter
from mqdlq.model import AuditKind
from mqdlq.stages.snapshot.capture import PayloadKey
from mqdlq.tools import body_search as module
from mqdlq.tools.acting import Sources
from mqdlq.tools.body_search import BodySearch, Progress, Words
from tests.support.world import World
from tests.unit.stages.execute.messages.with_properties import put_with_properties

pytestmark = pytest.mark.stages

KEY = PayloadKey("2026-11", b"k" * 32)


@pytest.fixture(name="own_world")
def _world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("MQDLQ_HOME", str(tmp_path))
    world = World(tmp_path)
    with world.ledger:
        yield world


def put(world: World, text: bytes, ccsid: int = 1208, **fields: Any) -> None:
    header = DeadLetterHeader(2053, "ORDERS", "QM1", 546, ccsid, "MQSTR")
    body = header.encode(encoding=546, ccsid=1208) + text
    given = {"Format": b"MQDEAD  ", "Encoding": 546, "CodedCharSetId": 1208}
    world.put("DLQ", body, **given | fields)


def take(world: World, payload: str = "full", key: PayloadKey | None = None) -> None:
    run = world.start("ACTION(IGNORE)")
    world.snapshot(run, payload=payload, key=key, rescan=True)


def search(
    world: World, text: str, where: str = "", *, is_hex: bool = False, keys: Any = None
) -> BodySearch:
    sources = Sources("test", world.ledger, world.lake_root, world.clock)
    return BodySearch(Words(text, is_hex), where, sources, lambda: keys or {})


def whole(found: BodySearch, who: str = "ann") -> Progress:
    done = found.begin(who)
    while not done.is_over:
        done = found.go_on(done)
    return done


def applications(world: World, text: str, where: str = "", **how: Any) -> list[str]:
    found = search(world, text, where, **how)
    return sorted(one.put_appl_name for one in found.messages(whole(found)))


def audited(world: World) -> list[str]:
    events = world.ledger.audit_trail.events(AuditFilter(what=AuditKind.BODIES_SEARCHED))
    return [f"{event.who} {event.handler}: {event.details}" for event in events]


@pytest.mark.parametrize(
    ("ccsid", "codec"),
    [(1208, "utf-8"), (500, "cp500"), (850, "cp850"), (1200, "utf-16-be"), (1200, "utf-16-le")],
)
def test_a_text_is_found_in_the_character_set_of_its_message(
    own_world: World, ccsid: int, codec: str
) -> None:
    put(own_world, "für PMT-01 ünd".encode(codec), ccsid, PutApplName=b"this")
    put(own_world, "für PMT-02".encode(codec), ccsid, PutApplName=b"other")
    take(own_world)

    assert applications(own_world, "r PMT-01 ü") == ["this"]
    assert applications(own_world, "pmt-01") == []
    assert applications(own_world, "PMT-01".encode(codec).hex(), is_hex=True) == ["this"]


@pytest.mark.parametrize("word", ["über", "PMT-01"])
def test_an_mqrfh2_is_searched_as_text_and_the_data_after_it_as_it_says(
    own_world: World, word: str
) -> None:
    folder = "<usr><way>über</way></usr>".ljust(31)
    header = RulesHeader2(273, 37, "MQSTR", 0, 1208, (folder,)).encode(encoding=273, ccsid=500)
    dead = DeadLetterHeader(2053, "ORDERS", "QM1", 273, 500, "MQHRF2")
    body = dead.encode(encoding=546, ccsid=1208) + header + "PMT-01".encode("cp037")
    own_world.put("DLQ", body, Format=b"MQDEAD  ", Encoding=546, CodedCharSetId=1208)
    take(own_world)

    assert len(applications(own_world, word)) == 1
    assert applications(own_world, "PMT-02") == []


def test_the_bytes_of_a_text_within_other_characters_are_not_the_text(own_world: World) -> None:
    put(own_world, "表".encode("cp932") + b"A", 932, PutApplName=b"this")  # 95 5C 41
    take(own_world)

    assert applications(own_world, "\\A") == []
    assert applications(own_world, "表A") == ["this"]


def test_a_text_that_a_character_set_lacks_is_not_in_it(own_world: World) -> None:
    put(own_world, b"abc", 819)
    put(own_world, b"abc", 65_000)
    take(own_world)

    done = whole(search(own_world, "\u0416"))

    assert (len(done.found), done.unreadable) == (0, 1)


def test_only_messages_that_meet_the_condition_are_searched(own_world: World) -> None:
    for name in (b"pay-a", b"pay-b", b"crm"):
        put(own_world, b"PMT-01", PutApplName=name)
    take(own_world)

    assert applications(own_world, "PMT-01", "application=pay*") == ["pay-a", "pay-b"]
    assert applications(own_world, "PMT-01", "state=departed") == []
    assert "ann test: 'PMT-01' as text, of messages with application=pay*" in audited(own_world)


def test_a_message_of_several_snapshots_is_found_once(own_world: World) -> None:
    put(own_world, b"PMT-01", PutApplName=b"this")
    take(own_world)
    own_world.clock.sleep(60)
    take(own_world, "none")
    own_world.clock.sleep(60)
    take(own_world)

    done = whole(search(own_world, "PMT-01"))

    assert applications(own_world, "PMT-01") == ["this"]
    assert (done.looked, done.uncaptured) == (3, 1)


def test_encrypted_bodies_are_searched_with_their_key_only(own_world: World) -> None:
    put(own_world, b"PMT-01", PutApplName=b"this")
    take(own_world, key=KEY)

    assert applications(own_world, "PMT-01", keys={KEY.key_id: KEY.key}) == ["this"]
    with pytest.raises(LakeError, match="MQDLQ-429"):
        applications(own_world, "PMT-01")


def test_a_body_that_is_captured_in_part_is_counted(own_world: World) -> None:
    put(own_world, "größer als zehn".encode())
    take(own_world, "head: 3")  # it ends within a character

    done = whole(search(own_world, "zehn"))

    assert (len(done.found), done.partly) == (0, 1)


def test_a_search_goes_on_where_a_lot_ended(
    own_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOT_BYTES", 1)
    for number in range(3):
        put(own_world, b"PMT-01", PutApplName=b"%d" % number)
        take(own_world)
        own_world.clock.sleep(60)

    done, looked = search(own_world, "PMT-01").begin("ann"), []
    while not done.is_over:
        found = search(own_world, "PMT-01")
        done = found.go_on(found.begin("ann", done.model_dump_json()))
        looked.append(done.looked)

    assert looked == [3, 5, 6, 6]
    assert len(done.found) == 3
    assert audited(own_world) == ["ann test: 'PMT-01' as text"]


def test_a_lot_ends_with_its_time(own_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOT_TIME", timedelta(0))
    for _ in range(2):
        put(own_world, b"PMT-01")
        take(own_world)
        own_world.clock.sleep(60)

    found = search(own_world, "PMT-01")

    assert found.go_on(found.begin("ann")).looked == 2
    assert found.total == 3


def test_a_search_ends_when_it_has_found_enough(
    own_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FOUND", 2)
    for _ in range(3):
        put(own_world, b"PMT-01")
    take(own_world)

    done = whole(search(own_world, "PMT-01"))

    assert (len(done.found), done.is_over, done.is_complete) == (2, True, False)


def test_progress_of_other_words_or_of_long_ago_is_a_new_search(own_world: World) -> None:
    put(own_world, b"PMT-01")
    take(own_world)
    done = whole(search(own_world, "PMT-01")).model_dump_json()

    assert search(own_world, "PMT-02").begin("ann", done).looked == 0
    assert search(own_world, "PMT-01").begin("bob", done).looked == 0
    own_world.clock.sleep(2 * 3600)
    assert search(own_world, "PMT-01").begin("ann", done).looked == 0

    assert sorted(audited(own_world)) == [
        "ann test: 'PMT-01' as text",
        "ann test: 'PMT-01' as text",
        "ann test: 'PMT-02' as text",
        "bob test: 'PMT-01' as text",
    ]


@pytest.mark.parametrize(
    ("text", "is_hex", "fault"),
    [
        (" ", False, "words: there are none; expected a text, or hexadecimal digits"),
        ("x" * 201, False, "words: they are too long; expected at most 200 characters"),
        ("PMT-01", True, "words: they are no bytes; expected pairs of hexadecimal digits"),
    ],
)
def test_words_that_are_not_valid_are_refused_and_not_repeated(
    text: str, is_hex: bool, fault: str
) -> None:
    with pytest.raises(FilterError) as caught:
        Words(text, is_hex)

    assert fault in str(caught.value)
    assert "PMT" not in f"{caught.value} {Words('PMT')!r}"


def test_progress_that_is_not_of_this_search_is_refused(own_world: World) -> None:
    put(own_world, b"PMT-01")
    take(own_world)
    found = search(own_world, "PMT-01")

    with pytest.raises(FilterError, match="progress: it is not that of a search"):
        found.begin("ann", "{}")
    pruned = Progress(began_at=own_world.clock(), snapshot_id="gone")
    with pytest.raises(FilterError, match="progress: its snapshot was pruned"):
        found.go_on(pruned)


def test_neither_the_words_nor_a_body_are_logged(
    own_world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    put(own_world, b"PMT-01 in a body")
    take(own_world)
    whole(search(own_world, "PMT-01"))

    assert "PMT-01" not in caplog.text


def test_the_command_lists_what_it_finds_and_says_what_was_not_searched(
    own_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test.yaml").write_text("connection: mq\nrules: test.rules\n")
    (tmp_path / "test.rules").write_text("ACTION(IGNORE)\n")
    monkeypatch.setenv("MQDLQ_RULES_DIR", str(tmp_path))
    put(own_world, b"PMT-01", PutApplName=b"pay")
    put(own_world, b"PMT-01", PutApplName=b"crm")
    take(own_world, "head: 3")
    own_world.clock.sleep(60)
    take(own_world)

    def call(*arguments: str, given: str = "") -> Any:
        return CliRunner().invoke(app, ["find", "test", *arguments], input=given)

    done = call("PMT-01", "--where", "application=pay*")
    assert done.exit_code == 0, done.output
    assert "MQRC_Q_FULL (2053)  ORDERS @ QM1\n" in done.stdout
    assert "1 message found; looked at 4 of 4 rows; 1 body captured in part" in done.stdout
    written = call("-", "--format", "json", given="PMT-01\n")
    assert written.exit_code == 0, written.output
    as_json = json.loads(written.stdout)
    assert sorted(one["application"] for one in as_json["messages"]) == ["crm", "pay"]
    assert "2 messages found" in call(b"PMT".hex(), "--hex").stdout
    stopped = call("PMT-01", "--seconds", "0")
    assert (stopped.exit_code, "stopped before all was looked at" in stopped.stdout) == (1, True)
    assert call("zz", "--hex").exit_code == 2
    assert len(audited(own_world)) == 4


@pytest.mark.parametrize("key", [None, KEY])
def test_a_property_that_is_kept_apart_from_the_body_is_found(
    own_world: World, key: PayloadKey | None
) -> None:
    put_with_properties(own_world, (b"orderId", "Größe 4711", "MQTYPE_STRING", -1))
    put(own_world, b"another")
    take(own_world, key=key)
    keys = {KEY.key_id: KEY.key}

    for text in ("Größe 4711", "<orderId"):
        assert len(whole(search(own_world, text, keys=keys)).found) == 1
    digits = b"4711".hex()
    assert len(whole(search(own_world, digits, is_hex=True, keys=keys)).found) == 1
    assert not whole(search(own_world, "4712", keys=keys)).found
