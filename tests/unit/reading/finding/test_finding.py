"""Messages are found in real snapshots, with what the ledger knows of them."""

from __future__ import annotations

import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mqdlq import lake
from mqdlq.causes import find_cause
from mqdlq.errors import LakeError
from mqdlq.lake.filters import FilterError, MessageFilter, Presence
from mqdlq.lake.schema import HEADERS
from mqdlq.lake.snapshots import PART
from mqdlq.model import Outcome
from mqdlq.reading import find as module
from mqdlq.reading.find import (
    PAGE_ROWS,
    FoundMessage,
    FoundPage,
    Search,
    find_row,
)
from mqdlq.rules.wildcards import fits
from tests.support.restorations import discard, restore_and_count
from tests.support.settled_backlog import put_backlog, run_to_end
from tests.support.world import World

pytestmark = pytest.mark.stages

HOSTILE = '<b onclick="x">\'\x1b[31m%_*\\'
RULES = "DESTQ(ORDERS) ACTION(IGNORE)\nREASON(2085) ACTION(DISCARD)\n"


def find(world: World, page: int = 1, **chosen: Any) -> FoundPage:
    return Search(MessageFilter(**chosen), ["test"], world.ledger, world.lake_root).page(page)


def queues(page: FoundPage) -> list[str]:
    return [message.dest_q_name for message in page.messages]


def only(page: FoundPage) -> FoundMessage:
    (message,) = page.messages
    return message


def test_messages_of_several_snapshots_are_counted_once_by_application(
    found_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = found_world
    for name in (b"a|b", b"a|b", b"", b"other"):
        world.dead_letter(PutApplName=name)
    for _ in range(2):
        world.handle("WAIT(NO)\nREASON(9) ACTION(IGNORE)")

    def count(**chosen: Any) -> Any:
        search = Search(MessageFilter(**chosen), ["test"], world.ledger, world.lake_root)
        return search.count_by_application(2)

    assert count() == ([("a|b", 2), ("", 1)], True)
    assert count(until=world.clock() - timedelta(days=9)) == ([], True)
    monkeypatch.setattr(module, "EXAMINED_BY_NAME", 2)
    assert count()[1] is False


def test_a_message_is_found_by_each_of_its_fields(found_world: World) -> None:
    world = found_world
    world.dead_letter(
        dest_q="PAY.IN",
        dest_q_mgr="QM2",
        reason=2085,
        MsgId=b"M" * 24,
        CorrelId=b"C" * 24,
        UserIdentifier=b"alice",
        PutApplName=b"payments",
        Expiry=6000,
    )
    world.dead_letter(dest_q="OTHER", inner=(546, 819, "OTHER"), Expiry=90_000)
    world.handle("WAIT(NO)\nACTION(IGNORE)")
    expected = only(find(world, msg_id=(b"M" * 24).hex()))
    cause = find_cause("dead_letter", 2085, "PAY.IN", "QM2").cause_id

    assert (expected.put_appl_name, expected.user_identifier) == ("payments", "alice")
    assert expected.reason == 2085
    assert (expected.cause_id, expected.outcome) == (cause, Outcome.LEFT_BY_RULE)
    fitting: list[dict[str, Any]] = [
        {"correl_id": (b"C" * 24).hex()},
        {"message_key": expected.message_key},
        {"text": expected.message_key.upper()},
        {"text": (b"C" * 24).hex()},
        {"text": "PAYM ALI"},
        {"text": "2085"},
        {"text": "mqrc_unknown_object_name"},
        {"application": "pay*"},
        {"user": "alice"},
        {"dest_q_name": "PAY.*"},
        {"dest_q_mgr_name": "QM2"},
        {"format": "MQSTR"},
        {"reason": 2085},
        {"cause_id": cause},
        {"expires_before": world.clock.now + timedelta(minutes=20)},
        {"reason": 2085, "application": "payments", "state": Outcome.LEFT_BY_RULE},
    ]
    for chosen in fitting:
        page = find(world, **chosen)
        assert page.messages == (expected,), chosen
        assert (page.total, page.has_next) == ((1, True), False)
    others: list[dict[str, Any]] = [
        {"application": "PAY*"},
        {"user": "alic"},
        {"text": "payments bob"},
        {"cause_id": "0" * 12},
        {"queue": "OTHER.DLQ"},
        {"queue_manager": "QM2"},
        {"state": Outcome.DISCARDED},
        {"state": Presence.DEPARTED},
        {"state": Presence.NO_OUTCOME},
        {"since": world.clock.now.replace(year=2027)},
    ]
    for chosen in others:
        assert find(world, **chosen).messages == (), chosen
    assert queues(find(world, queue="D*", queue_manager="QM1")) == ["PAY.IN", "OTHER"]


def test_a_settled_message_is_found_once_with_the_outcome_that_settled_it(
    found_world: World,
) -> None:
    world = found_world
    put_backlog(world)
    run_to_end(world)
    world.dead_letter(b"new", dest_q="NEW")
    run_to_end(world)

    page = find(world)

    assert queues(page) == ["NEW", "ORDERS", "NOWHERE", ""]
    assert [message.outcome for message in page.messages] == [
        Outcome.UNMATCHED,
        Outcome.LEFT_BY_RULE,
        Outcome.UNMATCHED,
        Outcome.UNPROCESSABLE,
    ]
    assert queues(find(world, state=Outcome.UNMATCHED)) == ["NEW", "NOWHERE"]
    assert len(find(world, state=Presence.ON_QUEUE).messages) == 4


def test_the_row_of_the_newest_snapshot_stands_for_a_message(found_world: World) -> None:
    world = found_world
    world.dead_letter()
    for _ in range(2):
        run_to_end(world, "WAIT(NO)\nACTION(IGNORE)", rescan="all")

    assert only(find(world)).run_id == "run-2"


def test_a_restored_message_is_on_the_queue_without_an_outcome(found_world: World) -> None:
    world = found_world
    discard(world, b"body", dest_q="PAY.IN")
    assert only(find(world)).has_departed
    restore_and_count(world)
    world.clock.sleep(60)
    world.plan(RULES)

    message = only(find(world))

    assert (message.outcome, message.has_departed, message.run_id) == (None, False, "run-2")
    assert only(find(world, state=Presence.NO_OUTCOME)) == message
    assert find(world, state=Presence.DEPARTED).messages == ()


def test_a_message_that_loops_back_is_found_with_its_newest_state(found_world: World) -> None:
    world = found_world
    for _ in range(2):
        world.dead_letter(b"loop", dest_q="GONE", reason=2085, MsgId=b"L" * 24)
        run_to_end(world, RULES)

    message = only(find(world))

    assert (message.run_id, message.outcome_run_id) == ("run-2", "run-2")
    assert message.outcome is Outcome.DISCARDED


def test_equal_messages_are_one_row_with_their_number(found_world: World) -> None:
    world = found_world
    for _ in range(2):
        world.dead_letter(b"same", MsgId=b"S" * 24)
    world.handle("WAIT(NO)\nACTION(IGNORE)")

    message = only(find(world))

    assert message.equals == 2
    record = message.as_record()
    assert (record["equals"], record["outcome"]) == (2, "left_by_rule")
    assert message.outcome_at is not None
    assert record["outcome_at"] == message.outcome_at


PATTERNS = (
    *("*", "A*", "*A", "?*", "A?C", "A*C", "?", "A.C"),
    *("A+", "a*", "*\n*", "*é*", "*[*", "*A*A*", "* C"),
)
NAMES = ("A", "ABC", "A.C", "A+", "AAC", "A\nC", "é", "[A]", "A C", "a")


def test_a_name_in_the_lake_fits_a_pattern_as_the_rules_have_it(found_world: World) -> None:
    world = found_world
    for name in NAMES:
        world.dead_letter(dest_q=name)
    world.handle("WAIT(NO)\nACTION(IGNORE)")
    standing = queues(find(world))

    for pattern in PATTERNS:
        found = queues(find(world, dest_q_name=pattern))
        assert found == [name for name in standing if fits(pattern, name)], pattern
    assert len(standing) == len(NAMES)


def test_no_pattern_takes_long_in_the_ledger_or_in_the_lake(found_world: World) -> None:
    world = found_world
    for letter in "AB":
        world.dead_letter(dest_q=letter * 48, PutApplName=letter.encode() * 28)
    world.handle("WAIT(NO)\nACTION(IGNORE)")

    start = time.process_time()
    for pattern in ("*A" * 99 + "!", "*" * 199 + "!", "?*" * 99 + "!", "*D*L*Q" * 33 + "!"):
        for name in ("dest_q_name", "application", "queue", "queue_manager", "text"):
            chosen: dict[str, Any] = {name: pattern}
            assert find(world, **chosen).messages == ()
    assert time.process_time() - start < 5


def test_names_are_compared_literally(found_world: World) -> None:
    world = found_world
    world.dead_letter(dest_q=HOSTILE)
    world.dead_letter(dest_q='<b onclick="x">\'\x1b[31mXX')
    world.handle("WAIT(NO)\nACTION(IGNORE)")

    assert queues(find(world, dest_q_name=HOSTILE)) == [HOSTILE]
    assert queues(find(world, text="%_*\\")) == [HOSTILE]
    assert find(world, text="' OR 1=1 --").messages == ()


def test_pages_follow_each_other(found_world: World) -> None:
    world = found_world
    for number in range(PAGE_ROWS + 2):
        world.dead_letter(dest_q=f"Q{number}")
    world.handle("WAIT(NO)\nACTION(IGNORE)")

    first, second, third = (find(world, page=number) for number in (1, 2, 3))

    assert queues(first) + queues(second) == [f"Q{number}" for number in range(PAGE_ROWS + 2)]
    assert (first.has_next, first.total) == (True, (52, True))
    assert (second.has_next, second.total) == (False, (52, True))
    assert (third.messages, third.total[0]) == ((), 52)
    with pytest.raises(FilterError, match="page: found 201; expected 1 to 200; narrow the filter"):
        find(world, page=201)


def test_a_page_is_full_although_equal_messages_are_one_row(found_world: World) -> None:
    world = found_world
    for number in range(PAGE_ROWS + 4):
        world.dead_letter(MsgId=bytes([max(number, 3)]) * 24)
    world.handle("WAIT(NO)\nACTION(IGNORE)")

    page = find(world)

    assert [message.equals for message in page.messages] == [4, *[1] * (PAGE_ROWS - 1)]
    assert (page.has_next, page.total[0]) == (True, PAGE_ROWS + 1)


def test_a_search_by_state_says_when_it_has_not_seen_all_messages(
    found_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = found_world
    for number in range(3):
        world.dead_letter(dest_q=f"Q{number}")
    world.handle("WAIT(NO)\nACTION(IGNORE)")
    monkeypatch.setattr(module, "_NARROWS", 2)
    assert find(world, state=Outcome.LEFT_BY_RULE).is_complete
    monkeypatch.setattr(module, "EXAMINED", 2)
    chosen = MessageFilter(state=Outcome.LEFT_BY_RULE)
    search = Search(chosen, ["test"], world.ledger, world.lake_root)

    assert len(list(search._messages(50, examined=2))) == 2
    assert not search.is_complete


def test_other_handlers_and_lakes_have_no_messages(found_world: World, tmp_path: Path) -> None:
    world = found_world
    world.dead_letter()
    world.handle("WAIT(NO)\nACTION(IGNORE)")
    root, elsewhere = world.lake_root, str(tmp_path / "elsewhere")

    assert list(Search(MessageFilter(), [], world.ledger, root).messages()) == []
    assert list(Search(MessageFilter(), ["other"], world.ledger, root).messages()) == []
    assert list(Search(MessageFilter(), ["test"], world.ledger, elsewhere).messages()) == []
    assert len(list(Search(MessageFilter(), ["test"], world.ledger, root).messages(5))) == 1


def test_a_pruned_snapshot_is_not_searched(found_world: World) -> None:
    world = found_world
    world.dead_letter()
    world.handle("WAIT(NO)\nACTION(IGNORE)")
    assert find(world).messages
    shutil.rmtree(world.recorded_snapshot("run-1").location)

    assert find(world).messages == ()


def test_an_unreadable_snapshot_is_an_error(found_world: World) -> None:
    world = found_world
    world.dead_letter()
    world.handle("WAIT(NO)\nACTION(IGNORE)")
    file = Path(world.recorded_snapshot("run-1").location) / "headers" / PART
    assert find(world).messages
    file.write_bytes(b"not Parquet")

    with pytest.raises(LakeError, match=r"cannot be searched .* \[MQDLQ-974\]"):
        find(world)


def test_a_row_is_read_whole(found_world: World) -> None:
    world = found_world
    world.dead_letter(dest_q="PAY.IN", Priority=7)
    world.handle("WAIT(NO)\nACTION(IGNORE)")
    key = only(find(world)).message_key
    given: dict[str, Any] = {"ledger": world.ledger, "lake_root": world.lake_root}
    columns = HEADERS.names

    found = find_row(key, "test", **given, columns=columns)
    assert found is not None
    snapshot, row = found
    (expected,) = lake.snapshot_rows(world.recorded_snapshot("run-1").location)

    assert (snapshot.run_id, row) == ("run-1", expected)
    assert find_row("0" * 64, "test", **given, columns=columns) is None
