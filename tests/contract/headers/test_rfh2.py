"""Message properties in MQRFH2 headers, which options and the queue control."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from embedded_mq_tests.builders import Application
from tests.support.contract_worlds import World

XML = (
    "<usr><colour>red &amp; blue</colour><size dt='i4'>3</size><raw dt='bin.hex'>00ff</raw>"
    "<open dt='boolean'>1</open><ratio dt='r8'>0.5</ratio><none xsi:nil='true'/></usr>"
)


def rfh2(*folders: str, order: str = "<", ccsid: int = 1208, behind: bytes = b"MQSTR   ") -> bytes:
    """Return an MQRFH2 in front of data in EBCDIC (500) with integers in the order given."""
    codec = "utf-8" if ccsid == 1208 else "utf-16-be" if order == ">" else "utf-16-le"
    parts = [(text + " " * (-len(text.encode(codec)) % 4)).encode(codec) for text in folders]
    values = b"".join(struct.pack(order + "i", len(part)) + part for part in parts)
    fixed = (b"RFH ", 2, 36 + len(values), 785, 500, behind, 0, ccsid)
    return struct.pack(order + "4siiii8sii", *fixed) + values


def dlh(behind: bytes) -> bytes:
    """Return an MQDLH that describes the data after it, by default as an MQRFH2."""
    fields = (b"DLH ", 1, 2053, b"A", b"QM1", 546, 1208, behind, 6, b"test", b"", b"")
    return struct.pack("<4sii48s48sii8si28s8s8s", *fields)


def put_rfh2(app: Application, body: bytes, queue: str = "A", **fields: Any) -> None:
    # With a version 1 MQMD, no queue manager checks the header.
    md = {"Version": 1, "Format": b"MQHRF2  ", "Encoding": 546, "CodedCharSetId": 1208, **fields}
    app.put(queue, body, **md)


def get(app: Application, *options: str, with_handle: bool = False) -> tuple[bytes, Any, Any]:
    """Get from A; return the body, the descriptor and the message handle."""
    handle = app.mqi.MessageHandle(app.handle)
    fields = {"MsgHandle": handle.msg_handle} if with_handle else {}
    md, queue = app.md(), app.open("A", "INPUT_SHARED", "BROWSE")
    return queue.get(None, md, app.gmo("BROWSE_FIRST", *options, **fields)), md, handle


@pytest.mark.parametrize(("order", "ccsid"), [("<", 1208), (">", 1208), ("<", 1200), (">", 13488)])
def test_properties_are_read_from_an_mqrfh2(app: Application, order: str, ccsid: int) -> None:
    """IBM MQ docs, "Mapping property data types to MQRFH2 data types", "MsgHandle (MQGMO)"."""
    put_rfh2(
        app,
        rfh2(XML, "<jms><Dst>queue:///A</Dst></jms>", order=order, ccsid=ccsid) + b"body",
        Encoding=546 if order == "<" else 273,
    )

    body, md, handle = get(app, "PROPERTIES_IN_HANDLE", with_handle=True)

    assert body == b"body"
    assert (md.Format, md.Encoding, md.CodedCharSetId) == (b"MQSTR   ", 785, 500)
    names = (b"colour", b"usr.size", b"raw", b"open", b"ratio", b"none", b"jms.Dst")
    values = [handle.properties.get(name) for name in names]
    assert values == ["red & blue", 3, b"\x00\xff", 1, 0.5, None, "queue:///A"]


@pytest.mark.parametrize(
    ("control", "options"),
    [
        ("COMPAT", ()),
        ("ALL", ()),
        ("FORCE", ()),
        ("V6COMPAT", ()),
        ("NONE", ("PROPERTIES_FORCE_MQRFH2",)),
        ("NONE", ("PROPERTIES_COMPATIBILITY",)),
    ],
)
def test_an_mqrfh2_is_returned_byte_for_byte(
    mq: World, app: Application, control: str, options: tuple[str, ...]
) -> None:
    """IBM MQ docs, "PROPCTL queue options", "MQGMO options": byte for byte, padding and all.

    MQGMO_PROPERTIES_AS_Q_DEF is the default of a get.
    """
    mq.mqsc(f"ALTER QLOCAL(A) PROPCTL({control})")
    data = rfh2("<usr  ><a dt = 'i4' >1</a ></usr>  ", "<psc><Command>x</Command></psc>") + b"body"
    put_rfh2(app, data)

    body, md, _ = get(app, *options)

    assert (body, md.Format, md.Encoding) == (data, b"MQHRF2  ", 546)


def test_folders_without_properties_stay_in_the_mqrfh2(mq: World, app: Application) -> None:
    """IBM MQ docs, "PROPCTL queue options": name-value pairs remain, properties are taken out."""
    mq.mqsc("ALTER QLOCAL(A) PROPCTL(NONE)")
    put_rfh2(app, rfh2(XML, "<own><a>1</a></own>", "<x content='properties'><y>2</y></x>") + b"!")
    rest = rfh2("<own><a>1</a></own>") + b"!"

    assert get(app)[0] == rest
    assert get(app, "NO_PROPERTIES")[0] == rest
    body, md, handle = get(app, with_handle=True)
    assert (body, md.Format) == (rest, b"MQHRF2  ")
    assert handle.properties.get(b"x.y") == "2"
    with app.failing("MQRC_PROPERTY_NOT_AVAILABLE"):
        handle.properties.get(b"own.a")


def test_properties_are_written_as_an_mqrfh2(mq: World, app: Application) -> None:
    """IBM MQ docs, "MQGMO_PROPERTIES_FORCE_MQRFH2", "Mapping property descriptor fields"."""
    handle = app.mqi.MessageHandle(app.handle)
    special = app.mqi.PD(Context=1, CopyOptions=app.number("MQCOPY_REPLY"))
    handle.properties.set(b"colour", "<red>", pd=special)
    handle.properties.set(b"wmq.group.size", -1, app.number("MQTYPE_INT16"), 2)
    handle.properties.set(b"raw", b"\xff", app.number("MQTYPE_BYTE_STRING"), 1)
    handle.properties.set(b"none", None, app.number("MQTYPE_NULL"), 0)
    md = app.md(Format=b"MQSTR   ", Encoding=785, CodedCharSetId=500)
    app.open("A", "OUTPUT").put(b"body", md, app.pmo(NewMsgHandle=handle.msg_handle))
    usr = (
        "<usr><colour context='user' copy='reply'>&lt;red&gt;</colour>"
        "<raw dt='bin.hex'>ff</raw><none xsi:nil='true'></none></usr>"
    )
    wmq = "<wmq content='properties'><group><size dt='i2'>-1</size></group></wmq>"

    body, md, _ = get(app, "PROPERTIES_FORCE_MQRFH2")

    assert body == rfh2(usr, wmq) + b"body"
    assert (md.Format, md.Encoding, md.CodedCharSetId) == (b"MQHRF2  ", 546, 1208)
    assert get(app)[0] == body, "a property in usr makes COMPAT show them all"
    put_rfh2(app, body, "B")
    mq.mqsc("ALTER QLOCAL(A) PROPCTL(V6COMPAT)")
    assert get(app)[0] == b"body", "what MQSETMP has set is not added to the data"


def test_compatibility_returns_properties_only_if_one_belongs_to_jms(app: Application) -> None:
    """IBM MQ docs, "MQGMO_PROPERTIES_COMPATIBILITY": mcd, jms, usr or mqext, else none at all."""
    handle = app.mqi.MessageHandle(app.handle)
    handle.properties.set(b"wmq.colour", "red")
    app.open("A", "OUTPUT").put(b"body", app.md(), app.pmo(NewMsgHandle=handle.msg_handle))

    assert get(app)[0] == b"body"
    assert get(app, "PROPERTIES_COMPATIBILITY")[0] == b"body"
    assert get(app, with_handle=True)[2].properties.get(b"wmq.colour") == "red"


def test_propctl_force_returns_an_mqrfh2_despite_a_message_handle(
    mq: World, app: Application
) -> None:
    """IBM MQ docs, "PropertyControl": MQPROP_FORCE_MQRFH2 ignores a message handle."""
    mq.mqsc("ALTER QLOCAL(A) PROPCTL(FORCE)")
    data = rfh2(XML) + b"body"
    put_rfh2(app, data)

    body, _, handle = get(app, with_handle=True)

    assert body == data
    with app.failing("MQRC_PROPERTY_NOT_AVAILABLE"):
        handle.properties.get(b"colour")


def test_propctl_v6compat_leaves_an_mqrfh2_unchanged(mq: World, app: Application) -> None:
    """IBM MQ docs, "PropertyControl": MQPROP_V6COMPAT, also with a message handle."""
    mq.mqsc("ALTER QLOCAL(A) PROPCTL(V6COMPAT)")
    data = rfh2(XML) + b"body"
    put_rfh2(app, data)

    body, _, handle = get(app, with_handle=True)

    assert body == data
    with app.failing("MQRC_PROPERTY_NOT_AVAILABLE"):
        handle.properties.get(b"colour")


def test_an_mqrfh2_behind_a_dead_letter_header_holds_properties_too(app: Application) -> None:
    """IBM MQ docs, "Generation of MQRFH2 headers": behind MQXQH, MQDLH and MQRFH headers."""
    put_rfh2(app, dlh(b"MQHRF2  ") + rfh2(XML) + b"body", Format=b"MQDEAD  ")

    body, md, handle = get(app, "PROPERTIES_IN_HANDLE", with_handle=True)

    assert md.Format == b"MQDEAD  "
    assert (len(body), body[172:]) == (176, b"body")
    assert struct.unpack_from("<ii8s", body, 108) == (785, 500, b"MQSTR   ")
    assert handle.properties.get(b"colour") == "red & blue"
    forward = app.pmo(OriginalMsgHandle=handle.msg_handle, Action=app.number("MQACTP_FORWARD"))
    app.open("B", "OUTPUT").put(body, md, forward)
    again, _ = app.get(app.open("B", "INPUT_SHARED"))
    assert again[:172] == dlh(b"MQHRF2  ")
    assert b"<colour>red &amp; blue</colour>" in again[172:-4]


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"RFH ",
        rfh2(XML)[:-4],
        rfh2(XML).replace(b"RFH ", b"RFH?"),
        rfh2()[:32] + b"\x25\0\0\0",
        rfh2(XML)[:36] + b"\xff" * 4,
    ],
)
def test_an_invalid_mqrfh2_is_message_data(app: Application, broken: bytes) -> None:
    """IBM MQ docs, "MQRFH2 headers that are not valid": MQGET succeeds and returns it as it is."""
    put_rfh2(app, broken)
    handle = app.mqi.MessageHandle(app.handle)
    handle.properties.set(b"colour", "red")

    body, md, _ = get(app, "PROPERTIES_IN_HANDLE", with_handle=True)

    assert (body, md.Format) == (broken, b"MQHRF2  ")
    with app.failing("MQRC_RFH_ERROR"):
        app.open("A", "OUTPUT").put(broken, md, app.pmo(NewMsgHandle=handle.msg_handle))


def test_a_message_handle_without_properties_has_no_effect_on_a_put(app: Application) -> None:
    """IBM MQ docs, "MQRFH2 headers that are not valid": refused with a message handle."""
    handle = app.mqi.MessageHandle(app.handle)

    md = app.md(Version=1, Format=b"MQHRF2  ")
    app.open("A", "OUTPUT").put(b"no header", md, app.pmo(NewMsgHandle=handle.msg_handle))

    assert app.bodies("A") == [b"no header"]


@pytest.mark.parametrize(
    "folder",
    [
        "<usr><a>1</b></usr>",
        "<usr><a>1</a>",
        "<usr>text<a>1</a></usr>",
        "<usr><a dt='i1'>300</a></usr>",
        "<usr><a dt='i4'>x</a></usr>",
        "<usr><a>1</a></usr><usr></usr>",
        "<<usr><a>1</a></usr>",
        "<usr><a>1 < 2</a></usr>",
        "<usr><{0}>1</{0}></usr>".format("n" * 4096),
    ],
)
def test_a_folder_that_cannot_be_read_holds_no_properties(app: Application, folder: str) -> None:
    """IBM MQ docs, "MQRFH2 headers that are not valid": it stays where it is, unread."""
    data = rfh2(folder, "<jms><Dst>A</Dst></jms>") + b"body"
    put_rfh2(app, data)

    body, _, handle = get(app, with_handle=True)

    assert body == rfh2(folder) + b"body"
    assert handle.properties.get(b"%") in {"A", ("A", "jms.Dst")}
    assert get(app)[0] == data
