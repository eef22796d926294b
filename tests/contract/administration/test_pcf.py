"""PCF commands through the clients' own PCFExecute, and as messages on the command queue.

On a real queue manager the user needs authority to administer queues.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import embedded_mq
from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World
from tests.support.wire.pcf_messages import Commander

pytestmark = pytest.mark.stages

NAME = "MQDLQ.PCF.TEST"


@pytest.fixture
def pcf(app: Application) -> Iterator[Any]:
    """Yield the client's PCFExecute; the test's queue is deleted before and after."""
    try:
        pcf = app.mqi.PCFExecute(app.handle)
        pcf.MQCMD_PING_Q_MGR()
    except app.mqi.MQMIError as error:
        if error.reason != app.mqi.CMQC.MQRC_NOT_AUTHORIZED:
            raise
        pytest.skip("the user has no authority for PCF commands on this queue manager")
    remove(app, pcf)
    yield pcf
    remove(app, pcf)
    pcf.disconnect()


def remove(app: Application, pcf: Any) -> None:
    try:
        pcf.MQCMD_DELETE_Q({**named(app), app.mqi.CMQCFC.MQIACF_PURGE: 1})
    except app.mqi.MQMIError as error:
        if error.reason != app.mqi.CMQC.MQRC_UNKNOWN_OBJECT_NAME:
            raise


def named(app: Application, name: str = NAME) -> dict[int, Any]:
    return {app.mqi.CMQC.MQCA_Q_NAME: name.encode()}


def local(app: Application, **attributes: Any) -> dict[int, Any]:
    given = {app.number(name): value for name, value in attributes.items()}
    return {**named(app), app.mqi.CMQC.MQIA_Q_TYPE: app.mqi.CMQC.MQQT_LOCAL, **given}


def inquired(app: Application, pcf: Any, name: str, *attributes: str) -> list[dict[int, Any]]:
    wanted = [app.number(attribute) for attribute in attributes]
    asked = {app.mqi.CMQCFC.MQIACF_Q_ATTRS: wanted} if wanted else {}
    found: list[dict[int, Any]] = pcf.MQCMD_INQUIRE_Q({**named(app, name), **asked})
    return found


def test_is_connected_pings_the_queue_manager(mq: World, app: Application, pcf: Any) -> None:
    """MQCMD_PING_Q_MGR; pymqi pings to find out. IBM MQ docs, "Ping Queue Manager"."""
    other = mq.connect()

    assert other.handle.is_connected
    other.handle.disconnect()
    assert not other.handle.is_connected
    with app.failing("MQRC_SELECTOR_ERROR"):
        pcf.MQCMD_INQUIRE_Q_MGR({app.mqi.CMQCFC.MQIACF_Q_MGR_ATTRS: [4711]})


def test_pcf_creates_and_inquires_a_queue(app: Application, pcf: Any) -> None:
    """MQCMD_CREATE_Q, MQCMD_INQUIRE_Q. IBM MQ docs, "Create Queue", "Inquire Queue"."""
    pcf.MQCMD_CREATE_Q(local(app, MQIA_MAX_Q_DEPTH=7, MQCA_Q_DESC=b"a test", MQIA_DEF_PRIORITY=3))
    app.put(NAME, b"one")

    (queue,) = inquired(app, pcf, NAME, "MQIA_MAX_Q_DEPTH", "MQCA_Q_DESC", "MQIA_CURRENT_Q_DEPTH")
    assert queue == {
        app.number("MQCA_Q_NAME"): NAME.encode().ljust(48),
        app.number("MQIA_Q_TYPE"): app.number("MQQT_LOCAL"),
        app.number("MQIA_MAX_Q_DEPTH"): 7,
        app.number("MQCA_Q_DESC"): b"a test".ljust(64),
        app.number("MQIA_CURRENT_Q_DEPTH"): 1,
    }
    (everything,) = inquired(app, pcf, NAME)
    assert everything.items() >= queue.items()
    assert everything[app.number("MQIA_DEF_PRIORITY")] == 3


def test_pcf_creates_an_existing_queue_only_with_replace(app: Application, pcf: Any) -> None:
    """IBM MQ docs, "Create Queue": Replace, MQRCCF_OBJECT_ALREADY_EXISTS."""
    pcf.MQCMD_CREATE_Q(local(app, MQIA_MAX_Q_DEPTH=7))
    with pytest.raises(app.mqi.MQMIError) as caught:
        pcf.MQCMD_CREATE_Q(local(app))
    assert caught.value.reason == app.mqi.CMQCFC.MQRCCF_OBJECT_ALREADY_EXISTS

    pcf.MQCMD_CREATE_Q({**local(app, MQIA_MAX_Q_DEPTH=8), app.mqi.CMQCFC.MQIACF_REPLACE: 1})
    assert inquired(app, pcf, NAME)[0][app.number("MQIA_MAX_Q_DEPTH")] == 8


def test_pcf_changes_a_queue(app: Application, pcf: Any) -> None:
    """MQCMD_CHANGE_Q. IBM MQ docs, "Change Queue": other attributes keep their values."""
    pcf.MQCMD_CREATE_Q(local(app, MQIA_MAX_Q_DEPTH=7))
    pcf.MQCMD_CHANGE_Q(local(app, MQIA_INHIBIT_PUT=1))

    with app.failing("MQRC_PUT_INHIBITED"):
        app.put(NAME)
    assert inquired(app, pcf, NAME)[0][app.number("MQIA_MAX_Q_DEPTH")] == 7


def test_pcf_clears_or_purges_a_queue_with_messages(app: Application, pcf: Any) -> None:
    """MQCMD_CLEAR_Q, MQCMD_DELETE_Q. IBM MQ docs, "Clear Queue", "Delete Queue"."""
    pcf.MQCMD_CREATE_Q(local(app))
    app.put(NAME)
    with app.failing("MQRC_Q_NOT_EMPTY"):
        pcf.MQCMD_DELETE_Q(named(app))
    pcf.MQCMD_CLEAR_Q(named(app))
    assert app.depth(NAME) == 0

    app.put(NAME, b"", "SYNCPOINT")
    with app.failing("MQRC_Q_NOT_EMPTY"):
        pcf.MQCMD_CLEAR_Q(named(app))
    app.handle.commit()
    pcf.MQCMD_DELETE_Q({**named(app), app.mqi.CMQCFC.MQIACF_PURGE: 1})
    with app.failing("MQRC_UNKNOWN_OBJECT_NAME"):
        app.put(NAME)


@pytest.mark.parametrize("command", ["INQUIRE_Q", "DELETE_Q", "CLEAR_Q", "INQUIRE_Q_STATUS"])
def test_pcf_reports_an_unknown_queue(app: Application, pcf: Any, command: str) -> None:
    """IBM MQ docs, "2085 (0825) (RC2085): MQRC_UNKNOWN_OBJECT_NAME"."""
    with app.failing("MQRC_UNKNOWN_OBJECT_NAME"):
        getattr(pcf, f"MQCMD_{command}")(named(app))


def test_a_generic_name_selects_every_queue_with_that_prefix(app: Application, pcf: Any) -> None:
    """MQCMD_INQUIRE_Q_NAMES. IBM MQ docs, "Inquire Queue Names", "Inquire Queue"."""
    pcf.MQCMD_CREATE_Q(local(app))
    names, types = app.mqi.CMQCFC.MQCACF_Q_NAMES, app.mqi.CMQCFC.MQIACF_Q_TYPES

    (found,) = pcf.MQCMD_INQUIRE_Q_NAMES(named(app, "MQDLQ.PCF.*"))
    assert found == {names: [NAME.encode().ljust(48)], types: [1]}
    alias = app.mqi.CMQC.MQIA_Q_TYPE, app.mqi.CMQC.MQQT_ALIAS
    (found,) = pcf.MQCMD_INQUIRE_Q_NAMES({**named(app, "MQDLQ.PCF.*"), alias[0]: alias[1]})
    assert found[types] == []
    described = inquired(app, pcf, "*", "MQCA_Q_NAME")
    assert NAME.encode() in {queue[app.number("MQCA_Q_NAME")].strip() for queue in described}


def test_a_pcf_filter_selects_queues(app: Application, pcf: Any) -> None:
    """IBM MQ docs, "MQCFIF - PCF integer filter parameter", "MQCFSF - PCF string filter"."""
    pcf.MQCMD_CREATE_Q(local(app, MQIA_MAX_Q_DEPTH=7, MQCA_Q_DESC=b"chosen one"))
    asked = {**named(app, "MQDLQ.PCF.*"), app.mqi.CMQCFC.MQIACF_Q_ATTRS: [app.number("MQIA_USAGE")]}
    depth = app.mqi.Filter(app.number("MQIA_MAX_Q_DEPTH"))
    description = app.mqi.Filter(app.number("MQCA_Q_DESC"))

    (found,) = pcf.MQCMD_INQUIRE_Q(asked, [depth.less(8)])
    assert found[app.number("MQIA_MAX_Q_DEPTH")] == 7
    assert len(pcf.MQCMD_INQUIRE_Q(asked, [description.like(b"chosen*")])) == 1
    for unfit in (depth.not_equal(7), description.not_like(b"chosen*")):
        with app.failing("MQRC_UNKNOWN_OBJECT_NAME"):
            pcf.MQCMD_INQUIRE_Q(asked, [unfit])


def test_pcf_inquires_the_queue_manager(app: Application, pcf: Any) -> None:
    """MQCMD_INQUIRE_Q_MGR. IBM MQ docs, "Inquire Queue Manager": QMgrName is always returned."""
    attributes = app.mqi.CMQCFC.MQIACF_Q_MGR_ATTRS
    priority = app.number("MQIA_MAX_PRIORITY")

    (found,) = pcf.MQCMD_INQUIRE_Q_MGR({attributes: [priority]})
    assert found == {priority: 9, app.number("MQCA_Q_MGR_NAME"): app.name.encode().ljust(48)}
    (everything,) = pcf.MQCMD_INQUIRE_Q_MGR()
    assert everything[app.number("MQIA_COMMAND_LEVEL")] >= 900
    version = everything[app.number("MQCA_VERSION")]
    assert version == app.handle.inquire(app.number("MQCA_VERSION"))


def test_pcf_queue_status_counts_handles_and_messages(app: Application, pcf: Any) -> None:
    """MQCMD_INQUIRE_Q_STATUS. IBM MQ docs, "Inquire Queue Status (Response)"."""
    pcf.MQCMD_CREATE_Q(local(app))
    app.put(NAME)
    app.put(NAME, b"", "SYNCPOINT")
    reader = app.open(NAME, "INPUT_SHARED")

    (status,) = pcf.MQCMD_INQUIRE_Q_STATUS(named(app))
    assert status[app.number("MQIA_CURRENT_Q_DEPTH")] == 2
    assert status[app.mqi.CMQCFC.MQIACF_UNCOMMITTED_MSGS] == 1
    assert status[app.number("MQIA_OPEN_INPUT_COUNT")] == 1
    assert status[app.mqi.CMQCFC.MQIACF_Q_STATUS_TYPE] == app.mqi.CMQCFC.MQIACF_Q_STATUS
    reader.close()
    app.handle.backout()


@pytest.mark.embedded_only
def test_pcf_names_who_has_a_queue_open(mq: World, app: Application, pcf: Any) -> None:
    """MQCMD_INQUIRE_Q_STATUS, MQIACF_Q_HANDLE. IBM MQ docs, "Inquire Queue Status (Response)"."""
    fields = app.mqi.CMQCFC
    asked = {**named(app, "A"), fields.MQIACF_Q_STATUS_TYPE: fields.MQIACF_Q_HANDLE}
    with pytest.raises(app.mqi.MQMIError) as caught:
        pcf.MQCMD_INQUIRE_Q_STATUS(asked)
    assert caught.value.reason == fields.MQRCCF_Q_STATUS_NOT_FOUND
    read = mq.connect_as("alice").open("A", "INPUT_EXCLUSIVE", "INQUIRE")
    written = app.open("A", "OUTPUT")

    own, alice = pcf.MQCMD_INQUIRE_Q_STATUS(asked)

    assert alice == {
        app.number("MQCA_Q_NAME"): b"A".ljust(48),
        fields.MQIACF_Q_STATUS_TYPE: fields.MQIACF_Q_HANDLE,
        fields.MQCACF_APPL_TAG: Path(sys.executable).name.encode().ljust(28),
        app.number("MQIA_APPL_TYPE"): app.number("MQAT_USER"),
        fields.MQCACF_USER_IDENTIFIER: b"alice".ljust(12),
        fields.MQIACF_PROCESS_ID: os.getpid(),
        fields.MQIACF_HANDLE_STATE: fields.MQHSTATE_INACTIVE,
        fields.MQIACF_OPEN_OPTIONS: app.options("MQOO", ("INPUT_EXCLUSIVE", "INQUIRE")),
        fields.MQIACF_OPEN_INPUT_TYPE: fields.MQQSO_EXCLUSIVE,
        fields.MQIACF_OPEN_OUTPUT: fields.MQQSO_NO,
        fields.MQIACF_OPEN_BROWSE: fields.MQQSO_NO,
        fields.MQIACF_OPEN_INQUIRE: fields.MQQSO_YES,
        fields.MQIACF_OPEN_SET: fields.MQQSO_NO,
        fields.MQCACH_CHANNEL_NAME: b" " * 20,
        fields.MQCACH_CONNECTION_NAME: b" " * 264,
    }
    assert (own[fields.MQIACF_OPEN_INPUT_TYPE], own[fields.MQIACF_OPEN_OUTPUT]) == (0, 1)
    attributes = {fields.MQIACF_Q_STATUS_ATTRS: [fields.MQIACF_PROCESS_ID]}
    reading = app.mqi.Filter(fields.MQIACF_OPEN_INPUT_TYPE).not_equal(fields.MQQSO_NO)
    (found,) = pcf.MQCMD_INQUIRE_Q_STATUS({**asked, **attributes}, [reading])
    assert found == {
        app.number("MQCA_Q_NAME"): b"A".ljust(48),
        fields.MQIACF_Q_STATUS_TYPE: fields.MQIACF_Q_HANDLE,
        fields.MQIACF_PROCESS_ID: os.getpid(),
        fields.MQIACF_OPEN_INPUT_TYPE: fields.MQQSO_EXCLUSIVE,
    }
    read.close()
    written.close()


LAST = ("LAST_PUT_DATE", "LAST_PUT_TIME", "LAST_GET_DATE", "LAST_GET_TIME")


@pytest.mark.embedded_only
def test_pcf_queue_status_says_when_a_monitored_queue_was_last_used(
    mq: World, app: Application, pcf: Any
) -> None:
    """MONQ. IBM MQ docs, "Inquire Queue Status (Response)": LastPutDate, OldestMsgAge, and so on.

    The queue manager's MONQ(NONE) switches monitoring off for all queues. A browse is no get.
    """
    fields = app.mqi.CMQCFC

    def status() -> tuple[bool, bool, int, int]:
        (found,) = pcf.MQCMD_INQUIRE_Q_STATUS(named(app, "A"))
        put_date, put_time, got_date, got_time = (
            found[getattr(fields, f"MQCACF_{name}")].rstrip().decode() for name in LAST
        )
        age, level = found[fields.MQIACF_OLDEST_MSG_AGE], found[app.number("MQIA_MONITORING_Q")]
        for date, at in ((put_date, put_time), (got_date, got_time)):
            if date:
                assert datetime.fromisoformat(f"{date} {at.replace('.', ':')}").year >= 2026
        return bool(put_date), bool(got_date), age, level

    app.put("A")
    assert status() == (False, False, -1, app.number("MQMON_OFF"))
    mq.mqsc("ALTER QMGR MONQ(LOW)")
    put, got, age, level = status()
    assert (put, got, level) == (False, False, app.number("MQMON_LOW"))
    assert 0 <= age < 60
    app.get(app.open("A", "INPUT_SHARED"))
    assert status() == (False, True, 0, app.number("MQMON_LOW"))
    mq.mqsc("ALTER QLOCAL(A) MONQ(HIGH)\nALTER QMGR MONQ(OFF)")
    old = {"PutDate": b"20200101", "PutTime": b"00000000"}
    app.put("A", b"", "SET_ALL_CONTEXT", **old)
    put, got, age, level = status()
    assert (put, got, level) == (True, True, app.number("MQMON_HIGH"))
    assert age > 6 * 365 * 24 * 3600
    mq.mqsc("ALTER QMGR MONQ(NONE)")
    assert status() == (False, False, -1, app.number("MQMON_OFF"))


@pytest.mark.embedded_only
def test_the_last_put_is_forgotten_when_the_queue_manager_is_started(mq: World) -> None:
    """IBM MQ docs, "Inquire Queue Status (Response)": since the queue manager started."""
    mq.mqsc("ALTER QLOCAL(A) MONQ(MEDIUM)")
    app = mq.connect()
    app.put("A")
    app.get(app.open("A", "INPUT_SHARED"))
    app.disconnect()
    embedded_mq.end("QM1")
    embedded_mq.start("QM1")
    app = mq.connect()
    app.put("A")

    pcf = app.mqi.PCFExecute(app.handle)
    (found,) = pcf.MQCMD_INQUIRE_Q_STATUS(named(app, "A"))
    pcf.disconnect()

    assert found[app.mqi.CMQCFC.MQCACF_LAST_PUT_DATE].rstrip()
    assert not found[app.mqi.CMQCFC.MQCACF_LAST_GET_DATE].rstrip()


def test_a_pcf_response_identifies_its_command(app: Application, pcf: Any) -> None:
    """IBM MQ docs, "PCF responses": the fields of MQMD and MQCFH; one message for each queue."""
    assert pcf is not None
    commander = Commander(app)
    message = commander.command("MQCMD_INQUIRE_Q", commander.text("MQCA_Q_NAME", "SYSTEM.*"))
    sent = commander.put(message, Persistence=0)

    header, parameters, md = commander.response()
    assert (header.Type, header.Command, header.MsgSeqNumber) == (2, 13, 1)
    assert (header.CompCode, header.Reason, header.Control) == (0, 0, 0)
    assert parameters[app.number("MQCA_Q_NAME")].startswith(b"SYSTEM.")
    assert (md.MsgType, md.Format, md.CorrelId) == (2, b"MQADMIN ", sent.MsgId)
    assert (md.UserIdentifier, md.Persistence, md.Expiry) == (sent.UserIdentifier, 0, -1)
    while not header.Control:
        before, (header, _, _) = header.MsgSeqNumber, commander.response()
        assert header.MsgSeqNumber == before + 1


def test_a_pcf_command_runs_when_it_is_committed(app: Application, pcf: Any) -> None:
    """IBM MQ docs, "Units of work": MQPMO_SYNCPOINT, MQCMIT, MQBACK."""
    pcf.MQCMD_CREATE_Q(local(app))
    commander = Commander(app)
    clear = commander.command("MQCMD_CLEAR_Q", commander.text("MQCA_Q_NAME", NAME))
    app.put(NAME)
    commander.put(clear, "SYNCPOINT")
    app.handle.backout()
    commander.put(clear, "SYNCPOINT")
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(commander.replies)
    assert app.depth(NAME) == 1

    app.handle.commit()
    assert commander.response()[0].Reason == 0
    assert app.depth(NAME) == 0
    with app.failing("MQRC_NO_MSG_AVAILABLE"):
        app.get(commander.replies)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"Type": 7}, "MQRCCF_CFH_TYPE_ERROR"),
        ({"Version": 9}, "MQRCCF_CFH_VERSION_ERROR"),
        ({"StrucLength": 40}, "MQRCCF_CFH_LENGTH_ERROR"),
        ({"MsgSeqNumber": 2}, "MQRCCF_CFH_MSG_SEQ_NUMBER_ERR"),
        ({"Control": 0}, "MQRCCF_CFH_CONTROL_ERROR"),
        ({"Command": 4711}, "MQRCCF_CFH_COMMAND_ERROR"),
        ({"ParameterCount": -1}, "MQRCCF_CFH_PARM_COUNT_ERROR"),
    ],
)
def test_the_header_of_a_pcf_command_is_checked(
    app: Application, pcf: Any, fields: dict[str, int], reason: str
) -> None:
    """IBM MQ docs, "PCF reason codes", 3001 to 3007."""
    assert pcf is not None
    commander = Commander(app)

    found, _ = commander.ask(commander.command("MQCMD_PING_Q_MGR", **fields))
    assert found == getattr(app.mqi.CMQCFC, reason)


def test_a_pcf_command_with_another_format_is_refused(app: Application, pcf: Any) -> None:
    """IBM MQ docs, "3023 (0BCF) (RC3023): MQRCCF_MD_FORMAT_ERROR"."""
    assert pcf is not None
    commander = Commander(app)

    found, _ = commander.ask(commander.command("MQCMD_PING_Q_MGR"), Format=b"MQSTR   ")
    assert found == app.mqi.CMQCFC.MQRCCF_MD_FORMAT_ERROR


def test_pcf_says_when_a_queue_was_altered(mq: World, app: Application, pcf: Any) -> None:
    """AlterationDate, CreationDate and their times. IBM MQ docs, "Inquire Queue (Response)"."""
    pcf.MQCMD_CREATE_Q(local(app))

    altered = ("MQCA_ALTERATION_DATE", "MQCA_ALTERATION_TIME")
    created = ("MQCA_CREATION_DATE", "MQCA_CREATION_TIME")
    (queue,) = inquired(app, pcf, NAME, *altered, *created)

    date = queue[app.number("MQCA_ALTERATION_DATE")].decode()
    at = queue[app.number("MQCA_ALTERATION_TIME")].decode()
    assert datetime.fromisoformat(f"{date.rstrip()} {at.replace('.', ':')}").year >= 2026
    made = (queue[app.number(name)].decode().rstrip() for name in created)
    assert datetime.fromisoformat(" ".join(made).replace(".", ":")).year >= 2026
    assert f"ALTDATE({date.rstrip()})" in mq.mqsc(f"DISPLAY QUEUE({NAME}) ALTDATE")[0]


def test_pcf_includes_queues_of_clusters_if_asked(app: Application, pcf: Any) -> None:
    """ClusterInfo. IBM MQ docs, "Inquire Queue". There is no cluster here, so it adds none."""
    pcf.MQCMD_CREATE_Q(local(app))

    (queue,) = pcf.MQCMD_INQUIRE_Q({**named(app), app.mqi.CMQCFC.MQIACF_CLUSTER_INFO: 1})

    assert queue[app.number("MQCA_Q_NAME")].rstrip() == NAME.encode()
