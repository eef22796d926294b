"""MQINQ and MQSET."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World


def inquire(app: Application, queue: Any, selector: str) -> Any:
    return queue.inquire(app.number(selector))


@pytest.mark.parametrize(
    ("selector", "value"),
    [
        ("MQCA_Q_NAME", b"C".ljust(48)),
        ("MQCA_Q_DESC", b"what it is for".ljust(64)),
        ("MQIA_Q_TYPE", 1),
        ("MQIA_DEFINITION_TYPE", 1),
        ("MQIA_CURRENT_Q_DEPTH", 1),
        ("MQIA_MAX_Q_DEPTH", 77),
        ("MQIA_MAX_MSG_LENGTH", 1000),
        ("MQIA_INHIBIT_PUT", 0),
        ("MQIA_INHIBIT_GET", 1),
        ("MQIA_DEF_PRIORITY", 4),
        ("MQIA_DEF_PERSISTENCE", 1),
        ("MQIA_BACKOUT_THRESHOLD", 3),
        ("MQCA_BACKOUT_REQ_Q_NAME", b"A".ljust(48)),
        ("MQIA_USAGE", 0),
        ("MQIA_SHAREABILITY", 1),
        ("MQIA_MSG_DELIVERY_SEQUENCE", 0),
        ("MQIA_OPEN_INPUT_COUNT", 1),
        ("MQIA_DEF_INPUT_OPEN_OPTION", 4),
        ("MQIA_HARDEN_GET_BACKOUT", 0),
        ("MQIA_PROPERTY_CONTROL", 2),
    ],
)
def test_mqinq_returns_the_attributes_of_a_queue(
    mq: World, app: Application, selector: str, value: int | bytes
) -> None:
    """IBM MQ docs, "MQINQ", table of selectors for queues."""
    mq.mqsc("""DEFINE QLOCAL(C) DESCR('what it is for') MAXDEPTH(77) MAXMSGL(1000) GET(DISABLED) +
       DEFPRTY(4) DEFPSIST(YES) BOTHRESH(3) BOQNAME(A) DEFSOPT(EXCL) NOHARDENBO PROPCTL(ALL)""")
    app.put("C")
    reader = app.open("C", "INPUT_SHARED")

    assert inquire(app, app.open("C", "INQUIRE"), selector) == value
    assert reader is not None


@pytest.mark.parametrize(
    ("selector", "value"),
    [
        ("MQCA_Q_MGR_NAME", b"QM1".ljust(48)),
        ("MQCA_COMMAND_INPUT_Q_NAME", b"SYSTEM.ADMIN.COMMAND.QUEUE".ljust(48)),
        ("MQCA_VERSION", b"09040000"),
        ("MQCA_DEAD_LETTER_Q_NAME", b"A".ljust(48)),
        ("MQIA_CODED_CHAR_SET_ID", 819),
        ("MQIA_PLATFORM", 3),
        ("MQIA_COMMAND_LEVEL", 940),
        ("MQIA_MAX_MSG_LENGTH", 4_194_304),
        ("MQIA_MAX_UNCOMMITTED_MSGS", 10_000),
        ("MQIA_MAX_PRIORITY", 9),
        ("MQIA_SYNCPOINT", 1),
        ("MQCA_Q_MGR_DESC", b"a queue manager".ljust(64)),
        ("MQCA_DEF_XMIT_Q_NAME", b"B".ljust(48)),
    ],
)
def test_mqinq_returns_the_attributes_of_the_queue_manager(
    mq: World, app: Application, selector: str, value: int | bytes
) -> None:
    """IBM MQ docs, "MQINQ", table of selectors for the queue manager."""
    mq.mqsc("ALTER QMGR DEADQ(A) CCSID(819) DESCR('a queue manager') DEFXMITQ(B)")

    assert inquire(app, app.handle, selector) == value


@pytest.mark.embedded_only
def test_a_queue_manager_may_have_no_dead_letter_queue(app: Application) -> None:
    """IBM MQ docs, "DeadLetterQName (MQCHAR48)": blank by default."""
    assert inquire(app, app.handle, "MQCA_DEAD_LETTER_Q_NAME") == b" " * 48


@pytest.mark.parametrize(
    ("queue", "selector", "value"),
    [
        ("ALIAS", "MQCA_BASE_Q_NAME", b"A".ljust(48)),
        ("ALIAS", "MQIA_BASE_TYPE", 1),
        ("THERE", "MQCA_REMOTE_Q_NAME", b"ORDERS".ljust(48)),
        ("THERE", "MQCA_REMOTE_Q_MGR_NAME", b"QM2".ljust(48)),
        ("THERE", "MQCA_XMIT_Q_NAME", b"TO.QM2".ljust(48)),
    ],
)
def test_mqinq_returns_the_target_of_an_alias_and_of_a_remote_definition(
    mq: World, app: Application, queue: str, selector: str, value: int | bytes
) -> None:
    """IBM MQ docs, "MQINQ", table of selectors for queues."""
    mq.mqsc("""DEFINE QALIAS(ALIAS) TARGET(A) TARGTYPE(QUEUE)
       DEFINE QREMOTE(THERE) RNAME(ORDERS) RQMNAME(QM2) XMITQ(TO.QM2)""")

    assert inquire(app, app.open(queue, "INQUIRE"), selector) == value


def test_an_alias_queue_has_no_depth(mq: World, app: Application) -> None:
    """IBM MQ docs, "2068 (0814) (RC2068): MQRC_SELECTOR_NOT_FOR_TYPE": a warning."""
    mq.mqsc("DEFINE QALIAS(ALIAS) TARGET(A)")
    alias = app.open("ALIAS", "INQUIRE")

    assert inquire(app, alias, "MQCA_BASE_Q_NAME") == b"A".ljust(48)
    with app.failing("MQRC_SELECTOR_NOT_FOR_TYPE") as caught:
        inquire(app, alias, "MQIA_CURRENT_Q_DEPTH")
    assert caught.value.comp == app.number("MQCC_WARNING")


@pytest.mark.parametrize(
    ("selector", "value"),
    [
        ("MQIA_OPEN_OUTPUT_COUNT", 1),
        ("MQIA_OPEN_INPUT_COUNT", 2),
        ("MQIA_DEF_INPUT_OPEN_OPTION", 4),
        ("MQIA_SHAREABILITY", 1),
        ("MQIA_HARDEN_GET_BACKOUT", 1),
        ("MQIA_NPM_CLASS", 10),
        ("MQIA_TRIGGER_CONTROL", 1),
        ("MQIA_TRIGGER_TYPE", 3),
        ("MQIA_TRIGGER_DEPTH", 7),
        ("MQIA_TRIGGER_MSG_PRIORITY", 2),
        ("MQCA_TRIGGER_DATA", b"data".ljust(64)),
        ("MQCA_INITIATION_Q_NAME", b"INIT".ljust(48)),
        ("MQCA_PROCESS_NAME", b"PROC".ljust(48)),
        ("MQIA_Q_DEPTH_HIGH_LIMIT", 70),
        ("MQIA_Q_DEPTH_LOW_LIMIT", 20),
        ("MQIA_RETENTION_INTERVAL", 999_999_999),
    ],
)
def test_mqinq_returns_attributes_that_have_no_effect(
    mq: World, app: Application, selector: str, value: int | bytes
) -> None:
    """IBM MQ docs, "MQINQ": counts of handles; triggering and events have no effect."""
    mq.mqsc("""DEFINE QLOCAL(C) DEFSOPT(EXCL) NPMCLASS(HIGH) TRIGGER TRIGTYPE(DEPTH) TRIGDPTH(7) +
       TRIGMPRI(2) TRIGDATA('data') INITQ(INIT) PROCESS(PROC) QDEPTHHI(70)""")
    held = [app.open("C", "INPUT_SHARED", "OUTPUT"), app.open("C", "INPUT_SHARED")]

    assert inquire(app, app.open("C", "INQUIRE"), selector) == value
    assert len(held) == 2


def test_mqset_changes_triggering(app: Application) -> None:
    """IBM MQ docs, "MQSET": MQIA_TRIGGER_*; "2075 (081B) (RC2075)" to "2078 (081E) (RC2078)"."""
    queue = app.open("A", "SET", "INQUIRE")
    for selector, value, wrong in (
        ("MQIA_TRIGGER_CONTROL", 1, 2),
        ("MQIA_TRIGGER_TYPE", 2, 9),
        ("MQIA_TRIGGER_DEPTH", 5, 0),
    ):
        queue.set(app.number(selector), value)
        assert inquire(app, queue, selector) == value
        with app.failing(selector.replace("MQIA", "MQRC") + "_ERROR"):
            queue.set(app.number(selector), wrong)
    with app.failing("MQRC_INHIBIT_VALUE_ERROR"):
        queue.set(app.number("MQIA_INHIBIT_GET"), 2)
    with app.failing("MQRC_SELECTOR_ERROR"):
        queue.set(app.number("MQIA_MAX_Q_DEPTH"), 2)


@pytest.mark.embedded_only
def test_an_unknown_selector_is_refused(app: Application) -> None:
    """IBM MQ docs, "2067 (0813) (RC2067): MQRC_SELECTOR_ERROR"."""
    with app.failing("MQRC_SELECTOR_ERROR"):
        inquire(app, app.open("A", "INQUIRE"), "MQIA_DIST_LISTS")


def test_mqset_inhibits_a_queue_for_all_applications_at_once(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQSET": MQIA_INHIBIT_PUT, MQIA_INHIBIT_GET."""
    other = mq.connect()
    theirs = other.open("A", "OUTPUT")
    queue = app.open("A", "SET", "INQUIRE")
    queue.set(app.number("MQIA_INHIBIT_PUT"), 1)

    with other.failing("MQRC_PUT_INHIBITED"):
        other.put(theirs)
    assert inquire(app, queue, "MQIA_INHIBIT_PUT") == 1
    queue.set(app.number("MQIA_INHIBIT_PUT"), 0)
    other.put(theirs)


def test_inquiring_and_setting_need_their_open_options(mq: World, app: Application) -> None:
    """IBM MQ docs, "2038 (07F6) (RC2038)", "2040 (07F8) (RC2040)"."""
    queue = app.open("A", "OUTPUT")
    with app.failing("MQRC_NOT_OPEN_FOR_INQUIRE"):
        inquire(app, queue, "MQIA_Q_TYPE")
    extension = mq.mqi.ibmmqc if mq.client == "ibmmq" else mq.mqi.pymqe
    arguments: tuple[Any, ...] = ([10], [1], b"") if mq.client == "ibmmq" else (10, 1)

    hconn, hobj = app.handle.get_handle(), queue.get_handle()
    assert extension.MQSET(hconn, hobj, *arguments) == (2, 2040)


def test_mqset_needs_a_number_for_each_selector(mq: World, app: Application) -> None:
    """IBM MQ docs, "2021 (07E5) (RC2021): MQRC_INT_ATTR_COUNT_ERROR"; pymqi takes one of each."""
    if mq.client == "pymqi":
        pytest.skip("pymqi sets one attribute at a time")
    queue = app.open("A", "SET", "INQUIRE")
    both = [app.number("MQIA_INHIBIT_PUT"), app.number("MQIA_INHIBIT_GET")]

    hconn, hobj = app.handle.get_handle(), queue.get_handle()
    assert mq.mqi.ibmmqc.MQSET(hconn, hobj, both, [1], b"") == (2, 2021)
    assert inquire(app, queue, "MQIA_INHIBIT_PUT") == 0, "nothing is set then"
    queue.set({app.number("MQIA_TRIGGER_TYPE"): 2, app.number("MQCA_TRIGGER_DATA"): b"data"})
    assert inquire(app, queue, "MQCA_TRIGGER_DATA") == b"data".ljust(64)
