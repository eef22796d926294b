"""MQOPEN: name resolution, options and exclusive input."""

from __future__ import annotations

import struct

import pytest

from embedded_mq.errors import MqscError
from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

ELSEWHERE = """
DEFINE QLOCAL(TO.QM2) USAGE(XMITQ)
DEFINE QREMOTE(THERE) RNAME(ORDERS) RQMNAME(QM2) XMITQ(TO.QM2)
DEFINE QREMOTE(QM2.ALIAS) RNAME('') RQMNAME(QM2) XMITQ(TO.QM2)
DEFINE QREMOTE(NOWHERE) RNAME(ORDERS) RQMNAME(QM9)
DEFINE QREMOTE(LOST) RNAME(ORDERS) RQMNAME(QM2) XMITQ(MISSING)
DEFINE QREMOTE(WRONG) RNAME(ORDERS) RQMNAME(QM2) XMITQ(A)
DEFINE QREMOTE(BLANK) RQMNAME(QM2) XMITQ(TO.QM2)
DEFINE QREMOTE(OF.NO.QM) RNAME(ORDERS) XMITQ(TO.QM2)
DEFINE QREMOTE(OF.THIS.QM) RNAME(ORDERS) RQMNAME(QM1) XMITQ(TO.QM2)
DEFINE QMODEL(MODEL)
DEFINE QREMOTE(QM1.ALIAS) RQMNAME(QM1)
DEFINE QALIAS(ALIAS) TARGET(A)
DEFINE QALIAS(ALIAS.OF.THERE) TARGET(THERE)
DEFINE QALIAS(DANGLING) TARGET(MISSING)
DEFINE QALIAS(ALIAS.OF.ALIAS) TARGET(ALIAS)
"""
XQH = struct.Struct("<4si48s48s")


@pytest.mark.parametrize(
    ("name", "q_mgr", "reason"),
    [
        ("MISSING", "", "MQRC_UNKNOWN_OBJECT_NAME"),
        ("MISSING", "QM1", "MQRC_UNKNOWN_OBJECT_NAME"),
        ("A", "QM9", "MQRC_UNKNOWN_REMOTE_Q_MGR"),
        ("A", "B", "MQRC_XMIT_Q_USAGE_ERROR"),
        ("DANGLING", "", "MQRC_UNKNOWN_ALIAS_BASE_Q"),
        ("ALIAS.OF.ALIAS", "", "MQRC_ALIAS_BASE_Q_TYPE_ERROR"),
        ("NOWHERE", "", "MQRC_UNKNOWN_REMOTE_Q_MGR"),
        ("LOST", "", "MQRC_UNKNOWN_XMIT_Q"),
        ("WRONG", "", "MQRC_XMIT_Q_USAGE_ERROR"),
        ("BLANK", "", "MQRC_REMOTE_Q_NAME_ERROR"),
        ("", "", "MQRC_UNKNOWN_OBJECT_NAME"),
        ("", "TO.QM2", "MQRC_REMOTE_Q_NAME_ERROR"),
        ("", "QM2.ALIAS", "MQRC_REMOTE_Q_NAME_ERROR"),
        ("", "QM9", "MQRC_REMOTE_Q_NAME_ERROR"),
        ("OF.NO.QM", "", "MQRC_UNKNOWN_REMOTE_Q_MGR"),
        ("OF.THIS.QM", "", "MQRC_UNKNOWN_REMOTE_Q_MGR"),
        ("ORDERS", "THERE", "MQRC_UNKNOWN_REMOTE_Q_MGR"),
        ("MODEL", "QM1.ALIAS", "MQRC_Q_TYPE_ERROR"),
    ],
)
def test_mqopen_of_an_unresolvable_name_fails_with_the_reason(
    mq: World, app: Application, name: str, q_mgr: str, reason: str
) -> None:
    """IBM MQ docs, "MQOPEN": reason codes of queue-name resolution."""
    mq.mqsc(ELSEWHERE)

    with app.failing(reason):
        app.open(name, "OUTPUT", q_mgr=q_mgr)


@pytest.mark.parametrize(
    ("xmitq", "reason"),
    [
        ("MISSING", "MQRC_UNKNOWN_DEF_XMIT_Q"),
        ("A", "MQRC_DEF_XMIT_Q_USAGE_ERROR"),
        ("ALIAS", "MQRC_DEF_XMIT_Q_TYPE_ERROR"),
    ],
)
def test_defxmitq_must_name_a_transmission_queue(
    mq: World, app: Application, xmitq: str, reason: str
) -> None:
    """IBM MQ docs, "2197 (0895) (RC2197)" to "2199 (0897) (RC2199)"."""
    mq.mqsc(ELSEWHERE + f"ALTER QMGR DEFXMITQ({xmitq})")

    with app.failing(reason):
        app.open("ORDERS", "OUTPUT", q_mgr="QM9")


@pytest.mark.parametrize(
    ("name", "q_mgr"),
    [("THERE", ""), ("ALIAS.OF.THERE", ""), ("ORDERS", "QM2.ALIAS"), ("ORDERS", "QM9")],
)
def test_a_message_for_another_queue_manager_gets_an_mqxqh(
    mq: World, app: Application, name: str, q_mgr: str
) -> None:
    """IBM MQ docs, "MQXQH - Transmission-queue header": both descriptors' fields."""
    mq.mqsc(ELSEWHERE + "ALTER QMGR DEFXMITQ(TO.QM2)")
    report = app.number("MQRO_COA") + app.number("MQRO_EXPIRATION")
    put = app.md(
        Format=b"MQSTR   ",
        ReplyToQ=b"HERE",
        CodedCharSetId=819,
        MsgType=1,
        Feedback=7,
        Report=report,
    )
    app.open(name, "OUTPUT", q_mgr=q_mgr).put(b"body", put, app.pmo())
    body, md = app.get(app.open("TO.QM2", "INPUT_SHARED"))

    target = (b"ORDERS".ljust(48), (b"QM9" if q_mgr == "QM9" else b"QM2").ljust(48))
    assert XQH.unpack(body[: XQH.size]) == (b"XQH ", 1, *target)
    assert (len(body), body[-4:]) == (428 + 4, b"body")
    inner = app.mqi.MD(Version=1)
    inner.unpack(body[XQH.size : 428] + bytes(40))
    assert (inner.Version, inner.MsgId, inner.Format) == (1, put.MsgId, b"MQSTR   ")
    assert (inner.ReplyToQMgr, inner.CodedCharSetId) == (b"QM1".ljust(48), 819)
    assert (md.Format, md.CorrelId) == (b"MQXMIT  ", put.MsgId)
    assert md.MsgId != put.MsgId
    assert (md.PutApplType, md.PutApplName) == (7, b"QM1".ljust(28))
    assert (md.MsgType, md.Feedback, md.Report) == (1, 7, app.number("MQRO_EXPIRATION"))
    assert (md.ReplyToQ, md.ReplyToQMgr) == (b"HERE".ljust(48), b"QM1".ljust(48))
    assert (md.UserIdentifier, md.AccountingToken) == (put.UserIdentifier, put.AccountingToken)
    assert (inner.MsgType, inner.Feedback, inner.Report) == (1, 7, report)


def test_mqput1_accepts_queues_except_model_queues(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQPUT1", "2043 (07FB) (RC2043)", "2057 (0809) (RC2057)"."""
    mq.mqsc("DEFINE QMODEL(TEMPORARY)\nDEFINE QMODEL(PERMANENT) DEFTYPE(PERMDYN)")

    for model in (b"TEMPORARY", b"PERMANENT"):
        with app.failing("MQRC_Q_TYPE_ERROR"):
            app.handle.put1(app.mqi.OD(ObjectName=model, DynamicQName=b"MADE"), b"body")
    with app.failing("MQRC_UNKNOWN_OBJECT_NAME"):
        app.open("MADE", "BROWSE")
    queue_manager = app.mqi.OD(ObjectType=app.number("MQOT_Q_MGR"))
    with app.failing("MQRC_OBJECT_TYPE_ERROR"):
        app.handle.put1(queue_manager, b"body")


def test_a_remote_queue_can_only_be_put_to(mq: World, app: Application) -> None:
    """IBM MQ docs, "2045 (07FD) (RC2045): MQRC_OPTION_NOT_VALID_FOR_TYPE"."""
    mq.mqsc(ELSEWHERE)

    for option in ("INPUT_SHARED", "BROWSE"):
        with app.failing("MQRC_OPTION_NOT_VALID_FOR_TYPE"):
            app.open("THERE", option)
    with app.failing("MQRC_OPTION_NOT_VALID_FOR_TYPE"):
        app.open("ORDERS", "OUTPUT", "INQUIRE", q_mgr="TO.QM2")
    definition = app.open("THERE", "OUTPUT", "INQUIRE")
    assert definition.inquire(app.number("MQCA_REMOTE_Q_NAME")) == b"ORDERS".ljust(48)


def test_a_remote_definition_of_the_reply_queue_is_resolved(mq: World, app: Application) -> None:
    """IBM MQ docs, "ReplyToQMgr (MQMD)": a remote definition of the reply queue is looked up."""
    mq.mqsc(ELSEWHERE)
    md = app.put("A", ReplyToQ=b"THERE")

    assert (md.ReplyToQ.strip(), md.ReplyToQMgr.strip()) == (b"ORDERS", b"QM2")


def test_inhibiting_an_alias_queue_does_not_inhibit_its_target(mq: World, app: Application) -> None:
    """IBM MQ docs, "Alias queues": inhibiting the alias leaves its target alone."""
    mq.mqsc(ELSEWHERE + "ALTER QALIAS(ALIAS) DEFPRTY(3)")
    alias = app.open("ALIAS", "OUTPUT", "INPUT_SHARED")

    assert app.put(alias, b"1").Priority == 3, "defaults are those of the queue that was opened"
    mq.mqsc("ALTER QALIAS(ALIAS) PUT(DISABLED) GET(DISABLED)")
    with app.failing("MQRC_PUT_INHIBITED"):
        app.put(alias)
    with app.failing("MQRC_GET_INHIBITED"):
        app.get(alias)
    assert app.bodies("A") == [b"1"]


def test_shared_input_is_shared_and_exclusive_is_not(mq: World, app: Application) -> None:
    """IBM MQ docs, "2042 (07FA) (RC2042)", MQOO_INPUT_SHARED and MQOO_INPUT_EXCLUSIVE."""
    other = mq.connect()
    first, second = app.open("A", "INPUT_SHARED"), other.open("A", "INPUT_SHARED")
    with app.failing("MQRC_OBJECT_IN_USE"):
        app.open("A", "INPUT_EXCLUSIVE")
    first.close()
    second.close()

    held = app.open("A", "INPUT_EXCLUSIVE")
    with other.failing("MQRC_OBJECT_IN_USE"):
        other.open("A", "INPUT_SHARED")
    held.close()
    other.open("A", "INPUT_SHARED").close()


def test_the_queue_definition_decides_what_input_as_q_def_means(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "DefInputOpenOption", "Shareability": NOSHARE makes every input exclusive."""
    mq.mqsc("ALTER QLOCAL(A) DEFSOPT(EXCL)\nALTER QLOCAL(B) NOSHARE")
    held = [app.open("A", "INPUT_AS_Q_DEF"), app.open("B", "INPUT_SHARED")]

    for queue in ("A", "B"):
        with app.failing("MQRC_OBJECT_IN_USE"):
            app.open(queue, "INPUT_SHARED")
    assert len(held) == 2


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("FAIL_IF_QUIESCING",),
        ("INPUT_SHARED", "INPUT_EXCLUSIVE"),
        ("OUTPUT", "SAVE_ALL_CONTEXT"),
        ("BROWSE", "PASS_ALL_CONTEXT"),
        ("INPUT_SHARED", "CO_OP"),
    ],
)
def test_contradictory_open_options_are_refused(app: Application, options: tuple[str, ...]) -> None:
    """IBM MQ docs, "2046 (07FE) (RC2046): MQRC_OPTIONS_ERROR"."""
    with app.failing("MQRC_OPTIONS_ERROR"):
        app.open("A", *options)


@pytest.mark.embedded_only
def test_connecting_to_an_unknown_queue_manager_fails(mq: World) -> None:
    """IBM MQ docs, "2058 (080A) (RC2058): MQRC_Q_MGR_NAME_ERROR"; none is ever made up."""
    for name in ("QM2", "", "../QM1"):
        with pytest.raises(mq.mqi.MQMIError) as caught:
            mq.mqi.QueueManager(name)
        assert caught.value.reason == 2058


def test_a_handle_ends_with_its_object_or_connection(app: Application) -> None:
    """IBM MQ docs, "MQCLOSE", "2018 (07E2) (RC2018)", "2019 (07E3) (RC2019)"."""
    queue, other = app.open("A", "OUTPUT"), app.open("A", "OUTPUT")
    md, pmo = app.md(), app.pmo()
    pmo_handle = queue.get_handle()
    queue.close()
    extension = app.mqi.ibmmqc if app.mqi.__name__ == "ibmmq" else app.mqi.pymqe
    hconn = app.handle.get_handle()

    assert extension.MQPUT(hconn, pmo_handle, md.pack(), pmo.pack(), b"")[-2:] == (2, 2019)
    app.handle.disconnect()
    assert extension.MQCMIT(hconn) == (2, 2018)
    assert extension.MQPUT(hconn, 3, md.pack(), pmo.pack(), b"")[-2:] == (2, 2018)
    assert other is not None


@pytest.mark.parametrize("option", ["INPUT_SHARED", "OUTPUT", "BROWSE", "INQUIRE"])
def test_mqsc_neither_clears_nor_deletes_an_open_queue(
    mq: World, app: Application, option: str
) -> None:
    """IBM MQ docs, "CLEAR QLOCAL": it fails while the queue is open, with any open options."""
    app.put("B")
    queue = app.open("B", option)

    for command in ("CLEAR QLOCAL(B)", "DELETE QLOCAL(B) PURGE"):
        with pytest.raises(MqscError) as refused:
            mq.mqsc(command)
        assert str(refused.value) == "line 1: B is in use; close it first (open handles: 1)"
    queue.close()
    mq.mqsc("CLEAR QLOCAL(B)\nDELETE QLOCAL(B)")
    with app.failing("MQRC_UNKNOWN_OBJECT_NAME"):
        app.open("B", option)


def test_mqsc_neither_clears_nor_deletes_a_queue_with_uncommitted_messages(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "CLEAR QLOCAL", "2055 (0807) (RC2055): MQRC_Q_NOT_EMPTY"."""
    app.put("B", b"", "SYNCPOINT")

    for command in ("CLEAR QLOCAL(B)", "DELETE QLOCAL(B) PURGE"):
        with pytest.raises(MqscError) as refused:
            mq.mqsc(command)
        assert str(refused.value) == (
            "line 1: B has uncommitted messages; commit them or back them out first"
        )


def test_an_alias_of_the_queue_manager_itself_resolves_locally(mq: World, app: Application) -> None:
    """IBM MQ docs, "Queue-manager aliases": RNAME blank, RQMNAME this queue manager."""
    mq.mqsc("DEFINE QREMOTE(QM.OLD) RQMNAME(QM1)")
    app.put(app.open("A", "OUTPUT", q_mgr="QM.OLD"), b"home")

    assert app.bodies("A") == [b"home"]
