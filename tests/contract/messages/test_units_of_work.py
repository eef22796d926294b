"""Units of work: what is seen before MQCMIT, what MQBACK undoes, what counts."""

from __future__ import annotations

import pytest

import embedded_mq
from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World


def test_backing_out_restores_the_position_and_raises_the_backout_count(app: Application) -> None:
    """IBM MQ docs, "BackoutCount (MQMD)": each MQGET backed out counts, a browse does not."""
    for number in range(3):
        app.put("A", b"%d" % number)
    queue = app.open("A", "INPUT_SHARED", "BROWSE")
    for _ in range(2):
        app.get(queue, "SYNCPOINT")
        app.get(queue, "SYNCPOINT")
        app.put("B", b"never", "SYNCPOINT")
        app.handle.backout()

    assert app.bodies("B") == []
    counts = [(body, md.BackoutCount) for body, md in (app.get(queue) for _ in range(3))]
    assert counts == [(b"0", 2), (b"1", 2), (b"2", 0)]


def test_a_message_got_under_syncpoint_is_hidden_until_the_unit_ends(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "MQGMO_SYNCPOINT": unavailable to other applications, deleted by MQCMIT."""
    app.put("A", b"1")
    queue = app.open("A", "INPUT_SHARED")
    app.get(queue, "SYNCPOINT")
    other = mq.connect()

    assert other.bodies("A") == []
    with other.failing("MQRC_NO_MSG_AVAILABLE"):
        other.get(other.open("A", "INPUT_SHARED"))
    app.handle.commit()
    assert app.depth("A") == 0


def test_the_order_of_messages_is_the_order_of_puts_and_not_of_commits(
    mq: World, app: Application
) -> None:
    """The order on a queue is that of the puts, whatever order they are committed in."""
    app.put("A", b"first", "SYNCPOINT")
    mq.connect().put("A", b"second")
    app.handle.commit()

    assert app.bodies("A") == [b"first", b"second"]


def test_a_unit_of_work_can_get_what_it_has_put_itself(app: Application) -> None:
    """IBM MQ docs, "MQPMO_SYNCPOINT": not visible outside the unit of work; inside it is."""
    app.put("A", b"low", "SYNCPOINT", Priority=1)
    app.put("A", b"committed", Priority=4)
    app.put("A", b"high", "SYNCPOINT", Priority=8, CorrelId=b"c" * 24)
    queue = app.open("A", "INPUT_SHARED", "BROWSE")

    assert app.get(queue, "BROWSE_FIRST")[0] == b"committed", "a browse is part of no unit"
    assert app.get(queue, "SYNCPOINT", CorrelId=b"c" * 24)[0] == b"high"
    assert app.get(queue)[0] == b"committed", "nor is a get without syncpoint"
    assert app.get(queue, "SYNCPOINT")[0] == b"low"
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(queue, "SYNCPOINT")
    assert app.depth("A") == 0


@pytest.mark.parametrize("end", ["commit", "backout"])
def test_a_message_put_and_got_in_one_unit_is_gone_after_commit_or_backout(
    mq: World, app: Application, end: str
) -> None:
    """IBM MQ docs, "MQCMIT", "MQBACK": got and committed, or put and backed out."""
    app.put("A", b"both", "SYNCPOINT")
    app.put("A", b"put", "SYNCPOINT")
    app.get(app.open("A", "INPUT_SHARED"), "SYNCPOINT")
    getattr(app.handle, end)()

    left = [b"put"] if end == "commit" else []
    assert (mq.connect().bodies("A"), app.depth("A")) == (left, len(left))


@pytest.mark.parametrize(
    "event", ["put by another", "put in the unit", "put outside it", "backed out", "unlocked"]
)
def test_a_unit_of_work_gets_a_message_that_appears_before_the_ones_it_got(
    mq: World, app: Application, event: str
) -> None:
    """Each MQGET returns the first message of the highest priority (IBM MQ docs, "MQGET")."""
    other, queue, locking = mq.connect(), app.open("A", "INPUT_SHARED"), app.open("A", "BROWSE")
    if event == "backed out":
        app.put("A", b"urgent", Priority=9)
        other.get(other.open("A", "INPUT_SHARED"), "SYNCPOINT")
    elif event == "unlocked":
        app.put("A", b"urgent", Priority=9)
        app.get(locking, "BROWSE_FIRST", "LOCK")
    for _ in range(4):
        app.put("A", b"usual", Priority=3)

    before = [app.get(queue, "SYNCPOINT")[0] for _ in range(2)]
    if event == "put by another":
        other.put("A", b"urgent", Priority=9)
    elif event == "put in the unit":
        app.put("A", b"urgent", "SYNCPOINT", Priority=9)
    elif event == "put outside it":
        app.put("A", b"urgent", Priority=9)
    elif event == "backed out":
        other.handle.backout()
    else:
        app.get(locking, "UNLOCK")
    after = [app.get(queue, "SYNCPOINT")[0] for _ in range(3)]

    assert (before, after) == ([b"usual", b"usual"], [b"urgent", b"usual", b"usual"])


def test_disconnecting_commits_the_unit_of_work(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQDISC": an open unit of work is committed."""
    app.put("A", b"1")
    app.get(app.open("A", "INPUT_SHARED"), "SYNCPOINT")
    app.put("B", b"2", "SYNCPOINT")
    app.handle.disconnect()

    other = mq.connect()
    assert (other.bodies("A"), other.bodies("B")) == ([], [b"2"])


def test_a_call_outside_syncpoint_takes_effect_at_once(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQPMO_NO_SYNCPOINT", "MQGMO_NO_SYNCPOINT": outside the unit of work."""
    app.put("A", b"1", "NO_SYNCPOINT")
    app.put("B", b"2", "SYNCPOINT")
    app.get(app.open("A", "INPUT_SHARED"), "NO_SYNCPOINT")
    app.handle.backout()

    other = mq.connect()
    assert (other.bodies("A"), other.bodies("B")) == ([], [])


def test_syncpoint_if_persistent_depends_on_the_messages_persistence(app: Application) -> None:
    """IBM MQ docs, "MQGMO_SYNCPOINT_IF_PERSISTENT"."""
    app.put("A", b"persistent", Persistence=1)
    app.put("A", b"not", Persistence=0)
    queue = app.open("A", "INPUT_SHARED")
    app.get(queue, "SYNCPOINT_IF_PERSISTENT")
    app.get(queue, "SYNCPOINT_IF_PERSISTENT")
    app.handle.backout()

    assert app.bodies("A") == [b"persistent"]


def test_a_failed_put_leaves_the_unit_of_work_as_it_was(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQPUT": a call that fails has no effect; the application decides."""
    mq.mqsc("ALTER QLOCAL(B) PUT(DISABLED)")
    app.put("A", b"1", "SYNCPOINT")
    with app.failing("MQRC_PUT_INHIBITED"):
        app.put("B", b"2", "SYNCPOINT")
    app.handle.commit()

    assert app.bodies("A") == [b"1"]


def test_a_unit_of_work_is_limited_to_maxumsgs(mq: World, app: Application) -> None:
    """IBM MQ docs, "2024 (07E8) (RC2024)": puts and gets under syncpoint count together."""
    mq.mqsc("ALTER QMGR MAXUMSGS(3)")
    app.put("A", b"0")
    app.put("A", b"1", "SYNCPOINT")
    app.put("A", b"2", "SYNCPOINT")
    queue = app.open("A", "INPUT_SHARED")
    app.get(queue, "SYNCPOINT")

    with app.failing("MQRC_SYNCPOINT_LIMIT_REACHED"):
        app.put("A", b"3", "SYNCPOINT")
    app.handle.commit()
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        while True:
            app.get(queue, "NO_SYNCPOINT")


def test_the_depth_counts_uncommitted_puts_and_not_uncommitted_gets(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "CurrentQDepth (MQLONG)"."""
    app.put("A", b"1")
    app.put("A", b"2", "SYNCPOINT")
    other = mq.connect()

    assert other.depth("A") == 2
    app.get(app.open("A", "INPUT_SHARED"), "SYNCPOINT")
    assert other.depth("A") == 1
    app.handle.backout()
    assert other.depth("A") == 1


def test_losing_the_connection_before_mqcmit_backs_out(mq: World, app: Application) -> None:
    """IBM MQ docs, "2009 (07D9) (RC2009)": the outcome of the commit is not known; here, none."""
    app.put("A", b"1", "SYNCPOINT")
    embedded_mq.faults.set("MQCMIT:1:2009:before")

    with app.failing("MQRC_CONNECTION_BROKEN"):
        app.handle.commit()
    with app.failing("MQRC_CONNECTION_BROKEN"):
        app.put("A", b"2")
    assert mq.connect().bodies("A") == []


def test_losing_the_connection_after_mqcmit_keeps_the_commit(mq: World, app: Application) -> None:
    """IBM MQ docs, "2009 (07D9) (RC2009)": the outcome of the commit is not known; here, all."""
    app.put("A", b"1", "SYNCPOINT")
    embedded_mq.faults.set("MQCMIT:1:2009:after")

    with app.failing("MQRC_CONNECTION_BROKEN"):
        app.handle.commit()
    assert mq.connect().bodies("A") == [b"1"]


def test_a_broken_connection_releases_its_messages(mq: World, app: Application) -> None:
    """IBM MQ docs, "2009 (07D9) (RC2009)": what was uncommitted is backed out."""
    app.put("A", b"1")
    queue = app.open("A", "INPUT_EXCLUSIVE")
    app.get(queue, "SYNCPOINT")
    embedded_mq.faults.set("MQPUT1:1:2009:before")
    with app.failing("MQRC_CONNECTION_BROKEN"):
        app.put("B", b"2", "SYNCPOINT")

    other = mq.connect()
    body, md = other.get(other.open("A", "INPUT_EXCLUSIVE"))
    assert (body, md.BackoutCount) == (b"1", 1)


@pytest.mark.embedded_only
def test_mqbegin_warns_that_no_other_resource_manager_takes_part(app: Application) -> None:
    """IBM MQ docs, "MQBEGIN", "2121 (0849) (RC2121)"; a client connection has no MQBEGIN."""
    with app.failing("MQRC_NO_EXTERNAL_PARTICIPANTS"):
        app.handle.begin()
