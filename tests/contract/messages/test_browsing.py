"""Browse cursors: their position, their movement, and gets under them."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World


def three(app: Application) -> None:
    for number in range(3):
        app.put("A", b"%d" % number)


def test_each_handle_has_its_own_browse_cursor(app: Application) -> None:
    """IBM MQ docs, "The browse cursor": it belongs to the queue handle."""
    three(app)
    one, other = app.open("A", "BROWSE"), app.open("A", "BROWSE")
    app.get(one, "BROWSE_FIRST")
    app.get(one, "BROWSE_NEXT")

    assert app.get(other, "BROWSE_NEXT")[0] == b"0"
    assert app.get(one, "BROWSE_NEXT")[0] == b"2"
    assert app.get(one, "BROWSE_FIRST")[0] == b"0"


def test_the_message_under_the_cursor_can_be_browsed_again_and_got(app: Application) -> None:
    """IBM MQ docs, "MQGMO options": MQGMO_BROWSE_MSG_UNDER_CURSOR, MQGMO_MSG_UNDER_CURSOR."""
    three(app)
    queue = app.open("A", "BROWSE", "INPUT_SHARED")
    app.get(queue, "BROWSE_FIRST")
    app.get(queue, "BROWSE_NEXT")

    assert app.get(queue, "BROWSE_MSG_UNDER_CURSOR")[0] == b"1"
    assert app.get(queue, "MSG_UNDER_CURSOR", MsgId=b"?" * 24)[0] == b"1", "ids do not matter"
    with app.failing("MQRC_NO_MSG_UNDER_CURSOR"):
        app.get(queue, "MSG_UNDER_CURSOR")
    assert app.get(queue, "BROWSE_NEXT")[0] == b"2"


def test_no_message_is_under_a_new_browse_cursor(app: Application) -> None:
    """IBM MQ docs, "2034 (07F2) (RC2034): MQRC_NO_MSG_UNDER_CURSOR"."""
    three(app)
    queue = app.open("A", "BROWSE", "INPUT_SHARED")

    with app.failing("MQRC_NO_MSG_UNDER_CURSOR"):
        app.get(queue, "MSG_UNDER_CURSOR")
    with app.failing("MQRC_NO_MSG_UNDER_CURSOR"):
        app.get(queue, "BROWSE_MSG_UNDER_CURSOR")


def test_a_message_got_by_another_application_is_not_under_the_cursor(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "2034 (07F2) (RC2034)": the message has gone since it was browsed."""
    three(app)
    queue = app.open("A", "BROWSE", "INPUT_SHARED")
    app.get(queue, "BROWSE_FIRST")
    other = mq.connect()
    theirs = other.open("A", "INPUT_SHARED")
    other.get(theirs, "SYNCPOINT")

    with app.failing("MQRC_NO_MSG_UNDER_CURSOR"):
        app.get(queue, "MSG_UNDER_CURSOR", "SYNCPOINT")
    other.handle.backout()
    assert app.get(queue, "MSG_UNDER_CURSOR", "SYNCPOINT")[0] == b"0"


def test_the_browse_cursor_does_not_move_if_a_message_does_not_fit(app: Application) -> None:
    """IBM MQ docs, "MQGMO options": with MQRC_TRUNCATED_MSG_FAILED the cursor does not move."""
    app.put("A", b"a")
    app.put("A", b"long enough")
    queue = app.open("A", "BROWSE")
    queue.get(4, app.md(), app.gmo("BROWSE_FIRST"))

    for _ in range(2):
        with app.failing("MQRC_TRUNCATED_MSG_FAILED"):
            queue.get(4, app.md(), app.gmo("BROWSE_NEXT"))
    assert app.get(queue, "BROWSE_MSG_UNDER_CURSOR")[0] == b"a"
    assert queue.get(20, app.md(), app.gmo("BROWSE_NEXT")) == b"long enough"


def test_an_accepted_truncation_moves_the_browse_cursor(app: Application) -> None:
    """IBM MQ docs, "MQGMO options": MQGMO_ACCEPT_TRUNCATED_MSG with a browse."""
    app.put("A", b"long enough")
    app.put("A", b"a")
    queue = app.open("A", "BROWSE")

    with app.failing("MQRC_TRUNCATED_MSG_ACCEPTED"):
        queue.get(4, app.md(), app.gmo("BROWSE_NEXT", "ACCEPT_TRUNCATED_MSG"))
    assert app.get(queue, "BROWSE_NEXT")[0] == b"a"


def test_a_browse_skips_uncommitted_messages(mq: World, app: Application) -> None:
    """IBM MQ docs, "Browsing messages on a queue": uncommitted messages are invisible."""
    three(app)
    queue = app.open("A", "BROWSE")
    app.get(queue, "BROWSE_NEXT")
    other = mq.connect()
    other.put("A", b"3", "SYNCPOINT")
    other.get(other.open("A", "INPUT_SHARED"), "SYNCPOINT")

    assert [app.get(queue, "BROWSE_NEXT")[0] for _ in range(2)] == [b"1", b"2"]
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(queue, "BROWSE_NEXT")
    other.handle.commit()
    assert app.get(queue, "BROWSE_NEXT")[0] == b"3"


def test_browse_next_may_match_identifiers(app: Application) -> None:
    """IBM MQ docs, "MQGMO_BROWSE_NEXT": the next message that satisfies the criteria."""
    for number in range(6):
        app.put("A", b"%d" % number, CorrelId=(b"x" if number % 2 else b"y") * 24)
    queue = app.open("A", "BROWSE")

    found = [app.get(queue, "BROWSE_NEXT", CorrelId=b"x" * 24)[0] for _ in range(3)]

    assert found == [b"1", b"3", b"5"]


def test_a_browse_of_a_queue_not_open_for_browse_fails(app: Application) -> None:
    """IBM MQ docs, "2036 (07F4) (RC2036)" and "2037 (07F5) (RC2037)"."""
    app.put("A")

    with app.failing("MQRC_NOT_OPEN_FOR_BROWSE"):
        app.get(app.open("A", "INPUT_SHARED"), "BROWSE_FIRST")
    with app.failing("MQRC_NOT_OPEN_FOR_INPUT"):
        app.get(app.open("A", "BROWSE"))


def browse_and_lock(app: Application, queue: Any, *options: str) -> bytes:
    return app.get(queue, *(options or ("BROWSE_FIRST",)), "LOCK")[0]


def test_a_locked_message_is_hidden_from_all_other_handles(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQGMO_LOCK": invisible to any other handle open for the queue."""
    three(app)
    queue = app.open("A", "BROWSE", "INPUT_SHARED")
    assert browse_and_lock(app, queue) == b"0"

    for other in (app, mq.connect()):
        theirs = other.open("A", "BROWSE", "INPUT_SHARED")
        assert other.get(theirs, "BROWSE_FIRST")[0] == b"1"
        assert other.depth("A") == 3
    app.handle.commit()
    app.handle.backout()
    assert app.bodies("A") == [b"1", b"2"], "a unit of work has no part in it"
    assert app.get(queue, "MSG_UNDER_CURSOR", "SYNCPOINT")[0] == b"0"
    app.handle.backout()
    body, md = app.get(app.open("A", "INPUT_SHARED"))
    assert (body, md.BackoutCount) == (b"0", 1)


def test_unlocking_shows_a_locked_message_again(app: Application) -> None:
    """IBM MQ docs, "MQGMO_UNLOCK", "2209 (08A1) (RC2209): MQRC_NO_MSG_LOCKED"."""
    three(app)
    queue = app.open("A", "BROWSE")
    browse_and_lock(app, queue)
    app.get(queue, "UNLOCK")

    assert app.bodies("A") == [b"0", b"1", b"2"]
    with app.failing("MQRC_NO_MSG_LOCKED") as caught:
        app.get(queue, "UNLOCK")
    assert caught.value.comp == app.number("MQCC_WARNING")


def test_a_handle_locks_one_message_at_a_time(app: Application) -> None:
    """IBM MQ docs, "MQGMO_LOCK": the next browse unlocks, unless it finds nothing."""
    three(app)
    queue = app.open("A", "BROWSE")
    browse_and_lock(app, queue)
    assert browse_and_lock(app, queue, "BROWSE_NEXT") == b"1"
    assert app.bodies("A") == [b"0", b"2"]
    assert browse_and_lock(app, queue, "BROWSE_MSG_UNDER_CURSOR") == b"1"
    assert browse_and_lock(app, queue, "BROWSE_NEXT") == b"2"

    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(queue, "BROWSE_NEXT")
    assert app.bodies("A") == [b"0", b"1"]
    app.get(queue, "BROWSE_FIRST")
    assert app.bodies("A") == [b"0", b"1", b"2"]


def test_a_handle_gets_the_message_that_it_has_locked(app: Application) -> None:
    """IBM MQ docs, "MQGMO_LOCK": hidden from other handles, not from its own."""
    three(app)
    queue = app.open("A", "BROWSE", "INPUT_SHARED")
    browse_and_lock(app, queue)

    with app.failing("MQRC_TRUNCATED_MSG_FAILED"):
        queue.get(0, app.md(), app.gmo())
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(queue, MsgId=b"?" * 24)
    assert app.bodies("A") == [b"1", b"2"]
    assert app.get(queue)[0] == b"0"
    assert app.depth("A") == 2


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["close", "disconnect"])
def test_a_message_lock_ends_with_its_handle(mq: World, app: Application, ending: str) -> None:
    """IBM MQ docs, "MQGMO_LOCK", "MQCLOSE": closing unlocks, and the end of a process, too."""
    three(app)
    queue = app.open("A", "BROWSE")
    browse_and_lock(app, queue)
    queue.close() if ending == "close" else app.handle.disconnect()
    mq.run("""
queue = app.open("A", "BROWSE")
app.get(queue, "BROWSE_FIRST", "LOCK")
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
""")

    other = mq.connect()
    opened = other.open("A", "INPUT_SHARED")
    assert [other.get(opened)[1].BackoutCount for _ in range(3)] == [0, 0, 0]


def test_a_cursor_on_a_removed_last_message_finds_a_new_message(app: Application) -> None:
    """The new message gets a place after the cursor, never the place of the old one."""
    app.put("A", b"last")
    queue = app.open("A", "BROWSE", "INPUT_SHARED")
    app.get(queue, "BROWSE_FIRST")
    app.get(app.open("A", "INPUT_SHARED"))
    app.put("A", b"new")

    assert app.get(queue, "BROWSE_NEXT")[0] == b"new"
