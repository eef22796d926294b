"""Test how each action changes a message, by the messages on the queues afterwards."""

from __future__ import annotations

import pytest

from mqdlq.lake import storage
from mqdlq.lake.archive import full_digest, read_back
from tests.support.world import World

pytestmark = pytest.mark.stages

BODY = b"\x00\xffevery byte\x80 as it is\r\n"
NATIVE, BIG_ENDIAN, Z_OS = 546, 273, 785


def text(field: bytes) -> str:
    return field.decode("ascii").rstrip(" \0")


def test_retry_delivers_the_message_without_its_mqdlh(world: World) -> None:
    """Format, Encoding and CodedCharSetId come from the MQDLH, all other fields from the putter."""
    inner = (BIG_ENDIAN, 1208, "MQHRF2")
    world.dead_letter(BODY, inner=inner, MsgId=b"m" * 24, CorrelId=b"c" * 24, Priority=7)

    assert world.handle("ACTION(RETRY)") == {1: "delivered"}

    ((md, body),) = world.messages("PAYMENTS")
    assert body == BODY
    assert (md.Encoding, md.CodedCharSetId, text(md.Format)) == inner
    assert (md.MsgId, md.CorrelId, md.Priority) == (b"m" * 24, b"c" * 24, 7)
    assert (text(md.PutApplName), md.PutDate, md.PutTime) == ("putter", b"20261120", b"10203040")
    assert md.Persistence == 1
    assert world.bodies("DLQ") == []


def test_forward_with_header_moves_the_message_unchanged(world: World) -> None:
    world.dead_letter(BODY, MsgId=b"m" * 24)
    ((before, whole),) = world.messages("DLQ")

    outcomes = world.handle("ACTION(FWD) FWDQ(PARKED) HEADER(YES)")

    assert outcomes == {1: "forwarded"}
    ((after, body),) = world.messages("PARKED")
    assert body == whole
    assert after.pack() == before.pack()


def test_forward_without_header_to_the_reply_queue(world: World) -> None:
    world.dead_letter(BODY, dest_q="GONE", ReplyToQ=b"ORDERS", ReplyToQMgr=b"QM1")

    outcomes = world.handle("ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&REPLYQM) HEADER(NO)")

    assert outcomes == {1: "forwarded"}
    assert world.bodies("ORDERS") == [BODY]


@pytest.mark.parametrize(("encoding", "ccsid"), [(NATIVE, 819), (BIG_ENDIAN, 819), (Z_OS, 500)])
def test_a_header_of_any_byte_order_and_character_set_is_stripped(
    world: World, encoding: int, ccsid: int
) -> None:
    inner = (encoding, ccsid, "MQSTR")
    world.dead_letter(BODY, encoding=encoding, ccsid=ccsid, inner=inner)

    assert world.handle("ACTION(RETRY)") == {1: "delivered"}

    ((md, body),) = world.messages("PAYMENTS")
    assert body == BODY
    assert (md.Encoding, md.CodedCharSetId, md.Format) == (encoding, ccsid, b"MQSTR   ")


@pytest.mark.parametrize("name", [b"M\xc4STR   ", b"\0\0\0\0\0\0\0\0", b"        "])
def test_a_message_of_any_format_is_moved_unchanged(world: World, name: bytes) -> None:
    world.dead_letter(BODY)
    ((_, whole),) = world.messages("DLQ")
    world.mqsc("CLEAR QLOCAL(DLQ)")
    odd = whole[:116] + name + whole[124:]
    world.put("DLQ", odd, Format=b"MQDEAD  ", Encoding=NATIVE, CodedCharSetId=819)

    assert world.handle("ACTION(RETRY)") == {1: "delivered"}

    ((md, body),) = world.messages("PAYMENTS")
    assert (md.Format.replace(b"\0", b" "), body) == (name.replace(b"\0", b" "), BODY)


def test_an_inherited_character_set_is_that_of_the_mqmd(world: World) -> None:
    world.dead_letter(BODY, ccsid=1208, inner=(NATIVE, -2, "MQSTR"))

    world.handle("ACTION(RETRY)")

    ((md, _),) = world.messages("PAYMENTS")
    assert md.CodedCharSetId == 1208


def test_discard_writes_a_verified_copy(world: World) -> None:
    world.dead_letter(BODY, MsgId=b"m" * 24)
    ((md, whole),) = world.messages("DLQ")

    assert world.handle("ACTION(DISCARD)") == {1: "discarded"}

    assert world.bodies("DLQ") == []
    (copied,) = world.ledger.archive.digests("run-1").values()
    assert copied == full_digest(md.pack(), whole)
    (name,) = storage.file_names(f"{world.lake_root}/archive/run-1", ".parquet")
    assert list(read_back(f"{world.lake_root}/archive/run-1/{name}").values()) == [copied]


def test_only_the_owner_can_read_the_archive(world: World) -> None:
    world.dead_letter(BODY)

    world.handle("ACTION(DISCARD)")

    modes = {p.stat().st_mode & 0o077 for p in (world.directory / "lake" / "archive").rglob("*")}
    assert modes == {0}


def test_ignore_leaves_the_message_untouched(world: World) -> None:
    world.dead_letter(BODY)
    ((before, whole),) = world.messages("DLQ")

    assert world.handle("ACTION(IGNORE)") == {1: "left_by_rule"}

    ((after, body),) = world.messages("DLQ")
    assert (after.pack(), body) == (before.pack(), whole)
    assert after.BackoutCount == 0


def test_unmatched_and_unprocessable_messages_stay(world: World) -> None:
    world.dead_letter(BODY, dest_q="PAYMENTS")
    world.put("DLQ", b"no header at all")
    world.put("DLQ", b"DLH \x01\x00\x00\x00 cut", Format=b"MQDEAD  ")

    outcomes = world.handle("DESTQ(ELSEWHERE) ACTION(RETRY)")

    assert outcomes == {1: "unmatched", 2: "unprocessable", 3: "unprocessable"}
    assert world.depths("DLQ") == (3,)


def test_message_properties_are_moved_with_the_message(world: World) -> None:
    world.dead_letter(BODY)
    put_again_with_a_property(world)

    assert world.handle("ACTION(RETRY)") == {1: "delivered", 2: "delivered"}

    assert world.bodies("PAYMENTS") == [BODY, BODY]
    assert properties_of_the_last(world, "PAYMENTS") == b"blue"


def put_again_with_a_property(world: World) -> None:
    """Put the one message of the DLQ again, with the property colour."""
    ((_, whole),) = world.messages("DLQ")
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        handle = module.MessageHandle(queue_manager.handle)
        handle.properties.set(b"colour", b"blue")
        md, pmo, od = module.MD(), module.PMO(), module.OD()
        md.Version = constants.MQMD_VERSION_2
        md.Format, md.Encoding, md.CodedCharSetId = b"MQDEAD  ", NATIVE, 819
        pmo.Version, pmo.NewMsgHandle = constants.MQPMO_VERSION_3, handle.msg_handle
        od.ObjectName = b"DLQ"
        queue_manager.handle.put1(od, whole, md, pmo)


def properties_of_the_last(world: World, queue: str) -> bytes:
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        opened = queue_manager.open(queue, constants.MQOO_BROWSE)
        handle = module.MessageHandle(queue_manager.handle)
        for _ in range(2):
            gmo = module.GMO()
            gmo.Version = constants.MQGMO_VERSION_4
            gmo.Options = constants.MQGMO_BROWSE_NEXT | constants.MQGMO_PROPERTIES_IN_HANDLE
            gmo.MsgHandle = handle.msg_handle
            opened.get(None, module.MD(), gmo)
        value = handle.properties.get(b"colour")
        opened.close()
        return bytes(value) if isinstance(value, bytes) else value.encode()


def test_a_message_that_is_only_an_mqdlh_is_delivered_empty(world: World) -> None:
    world.dead_letter(b"")

    world.handle("ACTION(RETRY)")

    ((_, body),) = world.messages("PAYMENTS")
    assert body == b""
