"""Test what a diagnosis says where no put decides: refusals to ask, names, bodies, and bounds."""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

import embedded_mq
from embedded_mq import mqi_constants as mq
from embedded_mq.character_fields import object_name
from embedded_mq.pcf import command_server
from embedded_mq.pcf import constants as cf
from embedded_mq.pcf import messages as pcf
from embedded_mq.pcf.command_server import COMMANDS
from embedded_mq.pcf.commands import Request, Responses
from mqdlq.constants import MQRC
from mqdlq.diagnosis.by_reason import begins_like
from mqdlq.diagnosis.diagnosing import diagnose
from mqdlq.diagnosis.looking import LONGEST_S, Look, NotToldError
from mqdlq.diagnosis.obstacles import Sample, Subject, mqsc
from mqdlq.diagnosis.records import Diagnosis, Outlook, changes
from mqdlq.errors import QueueManagerError
from tests.support.diagnosed import look, nothing_changes
from tests.support.world import NOON, World


@pytest.mark.parametrize(
    "name", ["X') DELETE QLOCAL(DLQ", "A\nDELETE QLOCAL(DLQ)", "A B", "", "A" * 49, "Ä", "A*"]
)
def test_no_command_has_a_name_that_no_queue_can_have(world: World, name: str) -> None:
    assert mqsc("Does something.", "DEFINE QLOCAL({})", name) == ()
    found = look(world, Subject(2085, (name or "''", "")))
    assert all(not one.commands for one in found.findings)


def test_a_command_follows_the_comment_that_says_what_it_changes() -> None:
    assert mqsc("Allows puts to A.b%/_1 again.", "ALTER QLOCAL({}) PUT(ENABLED)", "A.b%/_1") == (
        "* Allows puts to A.b%/_1 again.",
        "ALTER QLOCAL('A.b%/_1') PUT(ENABLED)",
    )


def test_the_queue_of_a_program_that_ended_cannot_be_defined_again(world: World) -> None:
    found = look(world, Subject(2085, ("AMQ.5F2A6C7E21034B02", ""), applications=("amqpcsea",)))

    assert found.outlook is Outlook.REFUSED
    assert [one.text for one in found.findings] == [
        (
            "no queue AMQ.5F2A6C7E21034B02 on QM1: it was a dynamic queue, which ended with the"
            " application that created it; nothing brings it back, so discard its messages"
        ),
        (
            "the command server put them: replies to a monitoring program, such as a Prometheus"
            " exporter, whose reply queue is gone; set USEDLQ(NO) on its channel, or discard them"
        ),
    ]
    assert not any(one.commands for one in found.findings)


def test_who_put_a_message_without_an_mqdlh_is_named(world: World) -> None:
    found = look(world, Subject(0, ("", ""), applications=("billing",), users=("ann",)))

    assert found.outlook is Outlook.UNKNOWN
    assert [one.text for one in found.findings] == ["put by billing (user ann)"]
    assert found.inquiries == ()


def test_a_user_who_may_not_ask_is_told_what_is_needed(world: World) -> None:
    world.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('reader') AUTHADD(CONNECT,INQ)\n"
        "SET AUTHREC PROFILE(**) OBJTYPE(QUEUE) PRINCIPAL('reader') AUTHADD(INQ,PUT,GET,BROWSE)\n"
    )
    world.settings = replace(world.settings, user="reader")

    with world.connect() as queue_manager:
        found = diagnose(queue_manager, Subject(2053, ("ORDERS", "")), world.clock, user="reader")

    assert found.outlook is Outlook.UNKNOWN
    assert [one.text for one in found.findings] == [
        (
            "MQCMD_INQUIRE_Q about ORDERS is not answered: MQRC_NOT_AUTHORIZED (2035); user reader"
            " needs +dsp on it, and +put on SYSTEM.ADMIN.COMMAND.QUEUE"
        )
    ]


def test_the_character_set_of_a_body_is_compared_with_what_its_header_says(world: World) -> None:
    for text, ccsid in (("ORDER 4711 FROM BERLIN", 500), ("ORDER 4711 FROM BERLIN", 819)):
        world.clear("DLQ")
        world.dead_letter(text.encode(), reason=2110, inner=(546, ccsid, "MQSTR"))
        ((descriptor, _),) = world.messages("DLQ")
        sample = Sample("DLQ", bytes(descriptor.MsgId), 172, ccsid, "MQSTR")

        found = look(world, Subject(2110, ("PAYMENTS", ""), sample=sample))

        assert "ORDER" not in str(found.as_record())
        if ccsid == 500:
            assert found.outlook is Outlook.REFUSED
            assert found.findings[0].text == (
                "the headers say CCSID 500 and Format MQSTR, but the body begins like 1208"
                " (ASCII): a repair of the CCSID mends it"
            )
        else:
            assert found.outlook is Outlook.UNKNOWN
            assert found.findings[-1].text == (
                "the headers say CCSID 819 and Format MQSTR, and the body begins like 1208 (ASCII)"
            )


@pytest.mark.parametrize(
    ("beginning", "found"),
    [
        (b"hello world, 4711", "1208 (ASCII)"),
        ("hello world, 4711".encode("cp500"), "500 (EBCDIC)"),
        (bytes(range(64)), ""),
        (b"", ""),
        (b"\xff" * 30, ""),
    ],
)
def test_the_beginning_of_a_body_is_of_a_kind_of_character_set_or_of_none(
    beginning: bytes, found: str
) -> None:
    assert begins_like(beginning) == found


def test_a_backout_queue_that_is_missing_is_named(world: World) -> None:
    world.mqsc("ALTER QLOCAL(ORDERS) BOTHRESH(3) BOQNAME(ORDERS.BACKOUT)")

    found = look(world, Subject(2362, ("ORDERS", "")))

    assert found.findings[-1].text == (
        "ORDERS has BOTHRESH(3) and BOQNAME(ORDERS.BACKOUT), and there is no queue ORDERS.BACKOUT"
    )
    world.mqsc("\n".join(found.findings[-1].commands))
    assert (
        "its application backed the messages out"
        in look(world, Subject(2362, ("ORDERS", ""))).findings[-1].text
    )


def test_a_diagnosis_ends_after_so_many_questions_and_after_so_long(world: World) -> None:
    with world.connect() as queue_manager:
        few = Look(queue_manager, world.clock, most=1)
        assert few.queue("ORDERS") is not None
        assert few.queue("ORDERS") is not None  # asked once
        with pytest.raises(NotToldError) as refused:
            few.queue("PARKED")
        assert str(refused.value) == (
            "MQCMD_INQUIRE_Q about PARKED was not asked: 1 inquiries took 0 s, which is as much as"
            " a diagnosis may take"
        )
        slow = Look(queue_manager, world.clock)
        world.clock.sleep(LONGEST_S + 1)
        with pytest.raises(NotToldError):
            slow.queue("ORDERS")


def test_facts_that_differ_are_said_with_both_values(world: World) -> None:
    before = look(world, Subject(2053, ("ORDERS", "")))
    world.mqsc("ALTER QLOCAL(ORDERS) MAXDEPTH(50000) PUT(DISABLED)")
    after = look(world, Subject(2053, ("ORDERS", "")))

    assert list(changes(before.facts, before.facts)) == []
    (told,) = changes(before.facts, after.facts)
    assert told.startswith("queue ORDERS: PUT ENABLED → DISABLED; MAXDEPTH 5000 → 50000")


def test_a_record_of_a_diagnosis_is_read_as_it_was_written(world: World) -> None:
    world.mqsc("ALTER QLOCAL(ORDERS) MAXDEPTH(0)")
    found = look(world, Subject(2053, ("ORDERS", "")))

    assert found.at == NOON
    assert Diagnosis.of_record(found.as_record()) == found
    assert timedelta(0) <= timedelta(milliseconds=found.inquiries[0].milliseconds)


AUTHORITIES = (
    "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('svcpay') AUTHADD(CONNECT,INQ)\n"
    "SET AUTHREC PROFILE(ORDERS) OBJTYPE(QUEUE) PRINCIPAL('svcpay') AUTHADD(INQ)\n"
)


def test_a_user_who_lacks_put_is_named_with_what_it_has_and_the_command_grants_it(
    world: World,
) -> None:
    world.mqsc(AUTHORITIES)
    refused = Subject(2035, ("ORDERS", ""), users=("svcpay",))

    found = look(world, refused)

    assert found.outlook is Outlook.REFUSED
    assert found.findings[0].text == "svcpay lacks +put on ORDERS (has +inq)"
    assert found.findings[0].commands == (
        "* Lets user svcpay put to ORDERS.",
        "SET AUTHREC PROFILE('ORDERS') OBJTYPE(QUEUE) PRINCIPAL('svcpay') AUTHADD(PUT)",
    )
    world.mqsc(found.findings[0].commands[1])
    mended = look(world, refused)
    assert mended.outlook is Outlook.CLEARED
    assert list(changes(found.facts, mended.facts)) == [
        "authority of svcpay on queue ORDERS: AUTHLIST +inq → +put +inq"
    ]


def test_a_user_of_messages_for_another_queue_manager_needs_its_transmission_queue(
    world: World,
) -> None:
    world.mqsc("DEFINE QLOCAL(QM7) USAGE(XMITQ)\n" + AUTHORITIES)

    found = look(world, Subject(2035, ("ANY", "QM7"), users=("svcpay", "ann")))

    assert [one.text for one in found.findings[:2]] == [
        "svcpay lacks +put on QM7 (has no authority)",
        "ann lacks +put on QM7 (has no authority)",
    ]


def test_an_altered_queue_says_since_when_puts_are_inhibited(world: World) -> None:
    world.mqsc("ALTER QLOCAL(ORDERS) PUT(DISABLED)")

    text = look(world, Subject(2051, ("ORDERS", ""))).findings[0].text

    assert re.fullmatch(r"ORDERS has PUT\(DISABLED\), altered \d{4}-\d\d-\d\d \d\d:\d\d", text)


def test_a_command_server_that_does_not_answer_is_said_so(world: World) -> None:
    embedded_mq.faults.set("MQGET:1+:2033:before")

    found = look(world, Subject(2053, ("ORDERS", "")))
    embedded_mq.faults.set("")

    assert found.outlook is Outlook.UNKNOWN
    assert found.findings[0].text == (
        "MQCMD_INQUIRE_Q about ORDERS is not answered: MQRC_NO_MSG_AVAILABLE (2033); the command"
        " server may not be running (strmqcsv starts it)"
    )


def test_an_answer_without_an_attribute_is_no_fact(world: World) -> None:
    with world.connect() as queue_manager:
        told = Look(queue_manager, world.clock).queue("CLOSED")

    assert told is not None
    with pytest.raises(NotToldError, match="has no TARGET"):
        told["TARGET"]


# Channels.

ROUTE = (
    "DEFINE QLOCAL(QM7) USAGE(XMITQ)\n"
    "DEFINE CHANNEL(TO.QM7) CHLTYPE(SDR) TRPTYPE(TCP) CONNAME('qm7(1414)') XMITQ(QM7)"
    " MAXMSGL(5000)\n"
)
UNAVAILABLE = MQRC["MQRC_CHANNEL_NOT_AVAILABLE"]


def test_a_channel_that_is_not_started_is_named_and_the_command_starts_it(world: World) -> None:
    world.mqsc(ROUTE)
    lost = Subject(UNAVAILABLE, ("ANY", "QM7"))

    found = look(world, lost)

    assert found.outlook is Outlook.REFUSED
    assert found.findings[0].text == ("channel TO.QM7, which takes messages from QM7, is INACTIVE")
    assert found.findings[0].commands == (
        "* Starts channel TO.QM7.",
        "START CHANNEL('TO.QM7')",
    )
    world.mqsc(found.findings[0].commands[1])
    again = look(world, lost)
    assert "is RETRYING" in again.findings[0].text
    assert again.findings[0].commands == ()
    assert any("STATUS INACTIVE → RETRYING" in one for one in changes(found.facts, again.facts))


def test_a_full_transmission_queue_says_what_its_channel_does(world: World) -> None:
    world.mqsc(ROUTE + "ALTER QLOCAL(QM7) MAXDEPTH(0)\nSTART CHANNEL(TO.QM7)")

    found = look(world, Subject(2053, ("ANY", "QM7")))

    assert found.outlook is Outlook.REFUSED
    assert "QM7 holds 0 of 0 messages (MAXDEPTH)" in found.findings[0].text
    assert "channel TO.QM7, which takes messages from QM7, is RETRYING" in found.findings[1].text


def test_a_message_too_long_for_a_channel_names_the_smallest_maxmsgl_that_takes_it(
    world: World,
) -> None:
    world.mqsc(ROUTE)

    found = look(world, Subject(2218, ("ANY", "QM7"), longest=6000))

    assert found.findings[0].text == (
        "channel TO.QM7 takes up to 5,000 bytes (MAXMSGL); the longest message has 6,428"
    )
    world.mqsc(found.findings[0].commands[1])
    assert look(world, Subject(2218, ("ANY", "QM7"), longest=6000)).outlook is Outlook.UNKNOWN


def authority_event(queue: str, user: str) -> bytes:
    """Build an event as a queue manager puts it for an MQOPEN (Not Authorized, type 2)."""

    def text(parameter: int, value: str, length: int) -> bytes:
        data = value.encode().ljust(length)
        return struct.pack("=5i", 4, 20 + length, parameter, 819, length) + data

    parameters = [
        text(2015, "QM1", 48),
        struct.pack("=4i", 3, 16, 1020, 2),
        text(3025, user, 12),
        text(2016, queue, 48),
    ]
    header = struct.pack("=9i", 7, 36, 1, 44, 1, 1, 1, 2035, len(parameters))
    return header + b"".join(parameters)


def test_an_authority_event_says_who_was_refused_last_and_when(world: World) -> None:
    world.mqsc("DEFINE QLOCAL(SYSTEM.ADMIN.QMGR.EVENT) REPLACE\n" + AUTHORITIES)
    for queue, user, at in (("ORDERS", "mover", b"09000000"), ("PARKED", "other", b"09010000")):
        fields = {"Format": b"MQEVENT ", "PutDate": b"20261121", "PutTime": at}
        world.put("SYSTEM.ADMIN.QMGR.EVENT", authority_event(queue, user), **fields)

    found = look(world, Subject(2035, ("ORDERS", ""), users=("svcpay",)))

    assert [one.text for one in found.findings if one.reason] == [
        "mover lacks +put on ORDERS (has no authority); last refused 2026-11-21 09:00",
        "svcpay lacks +put on ORDERS (has +inq)",
    ]
    assert "1 refused user" in [one.answer for one in found.inquiries]
    assert world.depths("SYSTEM.ADMIN.QMGR.EVENT") == (2,)


def put_and_back_out(world: World) -> None:
    with nothing_changes(), world.connect() as queue_manager:
        client, target = queue_manager.client, queue_manager.client.module.OD(ObjectName=b"ORDERS")
        options = client.packed.PMO(Options=client.CMQC.MQPMO_SYNCPOINT)
        queue_manager.handle.put1(target, b"", client.packed.MD(), options)
        queue_manager.handle.backout()


def test_a_change_is_found_even_if_it_is_undone(world: World) -> None:
    with pytest.raises(AssertionError) as caught:
        put_and_back_out(world)

    assert str(caught.value) == "the block may change something: MQPUT1 ORDERS, MQBACK"


def test_an_open_that_was_refused_leaves_an_event_that_names_its_user(world: World) -> None:
    world.mqsc("ALTER QMGR AUTHOREV(ENABLED)\n" + AUTHORITIES)
    own, world.settings = world.settings, replace(world.settings, user="svcpay")
    with (
        world.connect() as queue_manager,
        suppress(QueueManagerError),
        queue_manager.browsing("ORDERS"),
    ):
        pass
    world.settings = own

    found = look(world, Subject(2035, ("ORDERS", "")))

    (text,) = [one.text for one in found.findings if one.reason]
    assert text.startswith("svcpay lacks +put on ORDERS (has +inq); last refused 20")


def test_the_channel_of_a_transmission_queue_with_another_name_is_found(world: World) -> None:
    world.mqsc(
        "DEFINE QLOCAL(TO.EAST) USAGE(XMITQ)\n"
        "DEFINE QREMOTE(FAR) RNAME(ANY) RQMNAME(QM8) XMITQ(TO.EAST)\n"
        "DEFINE CHANNEL(EAST) CHLTYPE(SDR) TRPTYPE(TCP) CONNAME('qm8(1414)') XMITQ(TO.EAST)\n"
    )

    found = look(world, Subject(UNAVAILABLE, ("FAR", "")))

    assert found.findings[0].text == "channel EAST, which takes messages from TO.EAST, is INACTIVE"


def test_the_deepest_of_all_queues_are_named_where_storage_is_short(world: World) -> None:
    for number in range(30):
        world.mqsc(f"DEFINE QLOCAL(A.{number:02})")
    for _ in range(2):
        world.put("PARKED", b"x")
    world.put("ORDERS", b"x")

    found = look(world, Subject(2071, ("ORDERS", "")))

    assert re.fullmatch(
        r"the deepest of \d\d queues: PARKED 2, ORDERS 1", found.findings[-1].text
    ), found.findings


# What the embedded queue manager does not have, answered as IBM's documents say.


def answer(monkeypatch: pytest.MonkeyPatch, command: int, *responses: list[pcf.Parameter]) -> None:
    monkeypatch.setitem(cast("dict[int, Any]", COMMANDS), command, lambda _: list(responses))


@pytest.mark.parametrize(
    ("used", "outlook", "text"),
    [
        (90, Outlook.REFUSED, "the file system of the queue manager (90 %) is near the limit"),
        (89, Outlook.UNKNOWN, "nothing of QM1 is near its limit: QMFSUSE 89 %, LOGINUSE 4 %"),
    ],
)
def test_a_full_file_system_is_named_where_storage_is_short(
    world: World, monkeypatch: pytest.MonkeyPatch, used: int, outlook: Outlook, text: str
) -> None:
    told = [pcf.integer(cf.MQIACF_Q_MGR_FS_IN_USE, used), pcf.integer(1420, 4)]
    answer(monkeypatch, cf.MQCMD_INQUIRE_Q_MGR_STATUS, told)

    found = look(world, Subject(2192, ("ORDERS", "")))

    assert (found.outlook, text in [one.text for one in found.findings]) == (outlook, True)


def test_an_embedded_queue_manager_says_how_full_its_file_system_is(world: World) -> None:
    with world.connect() as queue_manager:
        told = Look(queue_manager, world.clock).in_use()

    assert list(told) == ["QMFSUSE"]
    assert 0 <= int(told["QMFSUSE"]) <= 100


def instance(place: bytes, *, inhibited: int = 0) -> list[pcf.Parameter]:
    return [
        pcf.string(mq.MQCA_Q_NAME, object_name("SPREAD")),
        pcf.integer(mq.MQIA_Q_TYPE, 7),
        pcf.string(mq.MQCA_CLUSTER_NAME, object_name("SALES")),
        pcf.string(mq.MQCA_CLUSTER_Q_MGR_NAME, place.ljust(48)),
        pcf.integer(59, 1),
        pcf.integer(mq.MQIA_INHIBIT_PUT, inhibited),
    ]


def of_clusters(monkeypatch: pytest.MonkeyPatch, *instances: list[pcf.Parameter]) -> None:
    """Let the queue manager know a queue SPREAD by a cluster, in which it is not itself."""
    own = COMMANDS[cf.MQCMD_INQUIRE_Q]

    def inquire(request: Request) -> Responses:
        asked = {one.identifier: one.value for one in request.parameters}
        is_meant = asked[mq.MQCA_Q_NAME] == b"SPREAD"
        if is_meant and cf.MQIACF_CLUSTER_INFO in asked:
            return list(instances)
        return own(request)

    monkeypatch.setitem(cast("dict[int, Any]", COMMANDS), cf.MQCMD_INQUIRE_Q, inquire)


def test_a_put_to_a_queue_of_a_cluster_goes_to_an_instance_that_takes_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_clusters(monkeypatch, instance(b"QM2", inhibited=1), instance(b"QM3"))
    world.mqsc("DEFINE QALIAS(BY.ALIAS) TARGET(SPREAD)")

    by_alias = look(world, Subject(2085, ("BY.ALIAS", "")))
    directly = look(world, Subject(2085, ("SPREAD", "")))

    for found in (by_alias, directly):
        assert found.outlook is Outlook.CLEARED
        assert [one.text for one in found.findings] == [
            "SPREAD of cluster SALES has PUT(DISABLED) at QM2",
            "SPREAD is a queue of cluster SALES, at QM3",
        ]
    assert directly.facts["queue SPREAD at QM2"]["PUT"] == "DISABLED"


def test_a_full_transmission_queue_of_clusters_is_an_obstacle_on_the_way_to_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_clusters(monkeypatch, instance(b"QM3"))
    answer(monkeypatch, cf.MQCMD_INQUIRE_CLUSTER_Q_MGR, instance(b"QM3"))
    world.mqsc("DEFINE QLOCAL(SYSTEM.CLUSTER.TRANSMIT.QUEUE) USAGE(XMITQ) MAXDEPTH(0)")

    for destination in (("SPREAD", ""), ("ANY", "QM3")):
        found = look(world, Subject(2053, destination))
        assert found.outlook is Outlook.REFUSED
        assert found.findings[0].text == (
            "SYSTEM.CLUSTER.TRANSMIT.QUEUE holds 0 of 0 messages (MAXDEPTH); nobody has it open for"
            " input"
        )


def test_a_queue_of_a_cluster_that_no_instance_takes_names_where_to_allow_puts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_clusters(monkeypatch, instance(b"QM2", inhibited=1))

    found = look(world, Subject(2268, ("SPREAD", "")))

    assert found.outlook is Outlook.REFUSED
    assert found.findings[0].commands == (
        "* On queue manager QM2, not on QM1: allows puts to SPREAD again.",
        "ALTER QLOCAL('SPREAD') PUT(ENABLED)",
    )


def test_who_may_put_to_a_queue_of_a_cluster_is_not_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_clusters(monkeypatch, instance(b"QM3"))

    found = look(world, Subject(2035, ("SPREAD", ""), users=("svcpay",)))

    assert found.outlook is Outlook.UNKNOWN
    assert "who may put to it is not inquired" in found.findings[-1].text


@pytest.mark.parametrize(
    ("algorithms", "text"),
    [
        ((4, 5), "messages to ORDERS are to be SIGNALG(SHA256) ENCALG(AES256) ENFORCE(YES)"),
        ((0, 0), "ORDERS has no policy that protects its messages"),
    ],
)
def test_the_policy_of_a_destination_is_named_where_security_failed(
    world: World, monkeypatch: pytest.MonkeyPatch, algorithms: tuple[int, int], text: str
) -> None:
    told = [pcf.integer(one, value) for one, value in zip((236, 237), algorithms, strict=True)]
    monkeypatch.setitem(cast("dict[int, Any]", command_server._NAMES), 205, "MQCMD_INQUIRE_X")
    answer(monkeypatch, 205, [*told, pcf.integer(235, 0)])

    found = look(world, Subject(2063, ("ORDERS", "")))

    assert found.outlook is Outlook.UNKNOWN
    assert found.findings[-1][1:] == (
        text,
        ("* Shows the policy of ORDERS.", "DISPLAY POLICY('ORDERS')"),
    )


def test_a_policy_that_is_not_told_leaves_the_command_that_shows_it(world: World) -> None:
    found = look(world, Subject(2063, ("ORDERS", "")))

    assert found.findings[-1].commands[-1] == "DISPLAY POLICY('ORDERS')"
    assert "MQCMD_INQUIRE_PROT_POLICY about ORDERS is not answered" in found.findings[-1].text
