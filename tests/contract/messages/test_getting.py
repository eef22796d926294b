"""MQGET: matching, order, truncation, waiting, expiry."""

from __future__ import annotations

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World


def test_a_get_returns_a_message_unchanged(app: Application) -> None:
    """IBM MQ docs, "MQPUT" and "MQGET": the data is not altered; Format and the like are kept."""
    body = bytes(range(256)) * 20
    put = app.put(
        "A", body, Format=b"MYFORMAT", Encoding=273, CodedCharSetId=500, CorrelId=b"c" * 24
    )

    got, md = app.get(app.open("A", "INPUT_SHARED"))

    assert got == body
    assert md.MsgId == put.MsgId
    assert (md.Format, md.Encoding, md.CodedCharSetId) == (b"MYFORMAT", 273, 500)
    assert md.CorrelId == b"c" * 24


def test_a_fifo_queue_ignores_priorities(mq: World, app: Application) -> None:
    """IBM MQ docs, "MsgDeliverySequence": MQMDS_FIFO."""
    mq.mqsc("ALTER QLOCAL(A) MSGDLVSQ(FIFO)")
    for priority in (2, 9, 0):
        app.put("A", b"%d" % priority, Priority=priority)

    assert app.bodies("A") == [b"2", b"9", b"0"]


def test_a_get_returns_a_new_message_of_higher_priority_than_uncommitted_ones(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "Order in which messages are retrieved": an MQGET returns the first one."""
    for number in range(3):
        app.put("A", b"%d" % number, Priority=1)
    queue = app.open("A", "INPUT_SHARED")
    app.get(queue, "SYNCPOINT")
    mq.connect().put("A", b"urgent", Priority=8)

    assert app.get(queue, "SYNCPOINT")[0] == b"urgent"
    assert app.get(queue, "SYNCPOINT")[0] == b"1"


def test_msg_id_and_correl_id_select_a_message(app: Application) -> None:
    """IBM MQ docs, "MQMD - MsgId" and "CorrelId": MQMO_MATCH_MSG_ID, MQMO_MATCH_CORREL_ID."""
    first = app.put("A", b"1", CorrelId=b"x" * 24)
    app.put("A", b"2", CorrelId=b"y" * 24)
    app.put("A", b"3", CorrelId=b"x" * 24)
    queue = app.open("A", "INPUT_SHARED")

    assert app.get(queue, CorrelId=b"y" * 24)[0] == b"2"
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(queue, MsgId=first.MsgId, CorrelId=b"y" * 24)
    assert app.get(queue, MsgId=first.MsgId, CorrelId=b"x" * 24)[0] == b"1"
    assert app.get(queue, CorrelId=b"x" * 24)[0] == b"3"


def test_version_2_can_match_nothing_where_version_1_matches_both(app: Application) -> None:
    """IBM MQ docs, "MatchOptions (MQGMO)": ignored if Version is less than MQGMO_VERSION_2."""
    app.put("A", b"1")
    queue = app.open("A", "INPUT_SHARED")
    other = {"MsgId": b"?" * 24}

    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        queue.get(None, app.md(**other), app.gmo(Version=1, MatchOptions=0))
    assert queue.get(None, app.md(**other), app.gmo(Version=2, MatchOptions=0)) == b"1"


def test_a_msg_token_selects_its_message(app: Application) -> None:
    """IBM MQ docs, "MatchOptions (MQGMO)": MQMO_MATCH_MSG_TOKEN, with MQGMO_VERSION_3."""
    for number in range(3):
        app.put("A", b"%d" % number)
    queue = app.open("A", "INPUT_SHARED", "BROWSE")
    gmo = app.gmo("BROWSE_NEXT")
    for _ in range(2):
        queue.get(None, app.md(), gmo)
    by_token = app.gmo(MatchOptions=app.number("MQMO_MATCH_MSG_TOKEN"), MsgToken=gmo.MsgToken)

    assert queue.get(None, app.md(), by_token) == b"1"
    assert app.bodies("A") == [b"0", b"2"]


def test_a_message_longer_than_the_buffer_stays_on_the_queue(app: Application) -> None:
    """IBM MQ docs, "2080 (0820) (RC2080): MQRC_TRUNCATED_MSG_FAILED"."""
    put = app.put("A", b"0123456789")
    queue = app.open("A", "INPUT_SHARED")
    md = app.md()

    with app.failing("MQRC_TRUNCATED_MSG_FAILED") as caught:
        queue.get(4, md, app.gmo())

    assert caught.value.comp == app.number("MQCC_WARNING")
    assert caught.value.original_length == 10
    assert caught.value.message == b"0123"
    assert app.depth("A") == 1
    if app.mqi.__name__ == "ibmmq":  # pymqi does not unpack the descriptor after a warning
        assert md.MsgId == put.MsgId


def test_a_message_is_removed_if_its_truncation_is_accepted(app: Application) -> None:
    """IBM MQ docs, "2079 (081F) (RC2079): MQRC_TRUNCATED_MSG_ACCEPTED"."""
    app.put("A", b"0123456789")

    with app.failing("MQRC_TRUNCATED_MSG_ACCEPTED") as caught:
        app.open("A", "INPUT_SHARED").get(4, app.md(), app.gmo("ACCEPT_TRUNCATED_MSG"))

    assert (caught.value.message, caught.value.original_length) == (b"0123", 10)
    assert app.depth("A") == 0


def test_a_client_gets_a_long_message_at_its_second_attempt(app: Application) -> None:
    """Both clients ask again with the full length after MQRC_TRUNCATED_MSG_FAILED."""
    body = b"x" * 70_000
    app.put("A", body)

    assert app.get(app.open("A", "INPUT_SHARED"))[0] == body


def test_a_waiting_get_ends_after_its_wait_interval(app: Application) -> None:
    """IBM MQ docs, "WaitInterval (MQGMO)"."""
    queue = app.open("A", "INPUT_SHARED")

    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        queue.get(None, app.md(), app.gmo("WAIT", WaitInterval=30))
    with app.failing("MQRC_WAIT_INTERVAL_ERROR"):
        queue.get(None, app.md(), app.gmo("WAIT", WaitInterval=-2))


def let_expire(app: Application) -> None:
    """Let a tenth of a second pass: wait for a message that does not come."""
    queue = app.open("B", "INPUT_SHARED")
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        queue.get(None, app.md(), app.gmo("WAIT", WaitInterval=110))


def test_expiry_is_counted_down_and_an_expired_message_is_not_got(app: Application) -> None:
    """IBM MQ docs, "Expiry (MQMD)": tenths of a second, returned as the remaining time."""
    app.put("A", b"short", Expiry=1)
    app.put("A", b"long", Expiry=600)
    let_expire(app)

    assert app.depth("A") == 2, "expired messages count until someone would have got them"
    body, md = app.get(app.open("A", "INPUT_SHARED"))
    assert body == b"long"
    assert 1 <= md.Expiry < 600
    assert app.depth("A") == 0


def test_a_browse_discards_an_expired_message(app: Application) -> None:
    """IBM MQ docs, "Expiry (MQMD)": discarded when a browse or nonbrowse MQGET would return it."""
    app.put("A", b"short", Expiry=1)
    app.put("A", b"long")
    let_expire(app)
    queue = app.open("A", "BROWSE")

    assert app.get(queue, "BROWSE_FIRST")[0] == b"long"
    assert app.depth("A") == 1


@pytest.mark.embedded_only
def test_an_expired_message_stays_until_a_get_would_return_it(app: Application) -> None:
    """IBM MQ docs, "Expiry (MQMD)"; a real queue manager's expirer may discard it sooner."""
    app.put("A", b"before", MsgId=b"1" * 24)
    app.put("A", b"under", Expiry=1)
    app.put("A", b"locked", Expiry=1)
    app.put("A", b"behind", Expiry=1, CorrelId=b"c" * 24)
    queue, other = app.open("A", "INPUT_SHARED", "BROWSE"), app.open("A", "BROWSE")
    for _ in range(2):
        app.get(queue, "BROWSE_NEXT")
    app.get(other, "BROWSE_FIRST")
    app.get(other, "BROWSE_NEXT")
    app.get(other, "BROWSE_NEXT", "LOCK")
    let_expire(app)

    assert app.get(queue, "BROWSE_FIRST", MsgId=b"1" * 24)[0] == b"before"
    assert app.depth("A") == 4, "none of them fits, or stands before the one that does"
    app.get(queue, "BROWSE_FIRST")
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(queue, "BROWSE_NEXT", CorrelId=b"c" * 24)
    assert app.depth("A") == 3, "discarded: the one that fits"
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(queue, "BROWSE_NEXT")
    assert app.depth("A") == 2, "a message that is locked stays"
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(other, "BROWSE_NEXT")
    assert app.depth("A") == 2, "the cursor stands on it already"
    with app.failing("MQRC_NO_MSG_UNDER_CURSOR"):
        app.get(other, "BROWSE_MSG_UNDER_CURSOR")
    assert app.depth("A") == 1
    assert app.bodies("A") == [b"before"]


def test_an_unconverted_message_comes_with_a_warning(app: Application) -> None:
    """IBM MQ docs, "MQGMO_CONVERT", (RC2119), (RC2110): the data comes as it is."""
    app.put("A", b"\xc1\xc2", Format=b"MQSTR   ", CodedCharSetId=500)
    app.put("A", b"same", Format=b"MQSTR   ", CodedCharSetId=1208)
    app.put("A", b"\x01", CodedCharSetId=500)
    queue = app.open("A", "INPUT_SHARED")

    with app.failing("MQRC_NOT_CONVERTED") as caught:
        app.get(queue, "CONVERT", CodedCharSetId=1208)
    assert caught.value.message == b"\xc1\xc2"
    assert app.get(queue, "CONVERT", CodedCharSetId=1208)[0] == b"same"
    with app.failing("MQRC_FORMAT_ERROR"):
        app.get(queue, "CONVERT", CodedCharSetId=1208)


def test_a_get_from_a_get_inhibited_queue_fails(mq: World, app: Application) -> None:
    """IBM MQ docs, "2016 (07E0) (RC2016): MQRC_GET_INHIBITED": an open handle feels it at once."""
    app.put("A")
    queue = app.open("A", "INPUT_SHARED", "BROWSE")
    mq.mqsc("ALTER QLOCAL(A) GET(DISABLED)")

    with app.failing("MQRC_GET_INHIBITED"):
        app.get(queue)
    with app.failing("MQRC_GET_INHIBITED"):
        app.get(queue, "BROWSE_FIRST")
    mq.mqsc("ALTER QLOCAL(A) GET(ENABLED)")
    assert app.get(queue)[0] == b"body"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("BROWSE_FIRST", "BROWSE_NEXT"), "MQRC_OPTIONS_ERROR"),
        (("BROWSE_FIRST", "SYNCPOINT"), "MQRC_OPTIONS_ERROR"),
        (("BROWSE_FIRST", "MSG_UNDER_CURSOR"), "MQRC_OPTIONS_ERROR"),
        (("SYNCPOINT", "NO_SYNCPOINT"), "MQRC_OPTIONS_ERROR"),
        (("LOCK",), "MQRC_OPTIONS_ERROR"),
        (("UNLOCK", "BROWSE_FIRST"), "MQRC_OPTIONS_ERROR"),
        *(
            pytest.param(options, "MQRC_OPTIONS_ERROR", marks=pytest.mark.embedded_only)
            for options in (("MARK_BROWSE_HANDLE", "BROWSE_FIRST"), ("LOGICAL_ORDER",))
        ),
    ],
)
def test_get_options_that_exclude_each_other_are_refused(
    app: Application, options: tuple[str, ...], reason: str
) -> None:
    """IBM MQ docs, "2046 (07FE) (RC2046): MQRC_OPTIONS_ERROR"; the last two are not emulated."""
    queue = app.open("A", "INPUT_SHARED", "BROWSE")

    with app.failing(reason):
        app.get(queue, *options)


@pytest.mark.embedded_only
def test_matching_by_group_identifier_is_refused(app: Application) -> None:
    """IBM MQ docs, "2247 (08C7) (RC2247): MQRC_MATCH_OPTIONS_ERROR"; groups are not emulated."""
    by_group = app.gmo(MatchOptions=app.number("MQMO_MATCH_GROUP_ID"))

    with app.failing("MQRC_MATCH_OPTIONS_ERROR"):
        app.open("A", "INPUT_SHARED").get(None, app.md(), by_group)


@pytest.mark.slow
def test_the_cost_of_a_browse_does_not_grow_with_the_depth(app: Application) -> None:
    """Browsing is linear: SQLite walks an index, so late messages cost what early ones do."""
    queue = app.open("A", "OUTPUT", "BROWSE")
    for number in range(1500):
        app.put(queue, b"%d" % number, "SYNCPOINT", Priority=number % 2)
    app.handle.commit()

    odd_then_even = [*range(1, 1500, 2), *range(0, 1500, 2)]
    assert app.bodies("A") == [b"%d" % number for number in odd_then_even]
