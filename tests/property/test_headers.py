from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mqdlq.errors import MalformedHeaderError, PasteError
from mqdlq.headers import DeadLetterHeader, MessageDescriptor, RulesHeader2, classify
from mqdlq.headers.ccsid import load_tables
from mqdlq.headers.chain import HEADERS_READ
from mqdlq.model import MessageClass
from mqdlq.tools.dumps import PastedMessage, read_pasted
from tests.fuzz.header_properties import (
    CODECS,
    hostile_messages_hold,
    message_of,
    what_must_hold,
)
from tests.support.wire.hostile_messages import GROWING
from tests.support.wire.pasted_messages import print_amqsbcg, print_dmpmqmsg

pytestmark = pytest.mark.slow

EBCDIC = {37, 273, 424, 500, 875, 1026, 1140, *load_tables()}
CCSIDS = st.sampled_from(
    [819, 1208, 437, 932, 943, 949, 950, 954, 1386, 5488, 37, 500, 1047, 875, 924, 930, 1141, 1148]
)
ENCODINGS = st.sampled_from([273, 546, 785])
PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=48).map(str.rstrip)
ANY_INT = st.integers(-(2**31), 2**31 - 1)


@given(st.binary(min_size=164, max_size=164), ENCODINGS, CCSIDS)
@example(b"\x81\x20\x82" * 54 + b"xx", 546, 932)
def test_a_dlh_of_any_content_comes_back_byte_for_byte(
    content: bytes, encoding: int, ccsid: int
) -> None:
    struc_id = b"\xc4\xd3\xc8\x40" if ccsid in EBCDIC else b"DLH "
    version = (1).to_bytes(4, "little" if encoding == 546 else "big")
    data = struc_id + version + content

    letter = DeadLetterHeader.decode(data, encoding=encoding, ccsid=ccsid)

    assert letter.encode(encoding=encoding, ccsid=ccsid) == data


@given(st.binary(min_size=356, max_size=356), st.sampled_from([1208, 819, 437]))
def test_an_md_of_any_content_comes_back_byte_for_byte(content: bytes, ccsid: int) -> None:
    data = b"MD  \2\0\0\0" + content

    assert MessageDescriptor.decode(data, ccsid=ccsid).encode(ccsid=ccsid) == data


@given(
    st.sampled_from([b"", b"DLH ", b"\xc4\xd3\xc8\x40", b"DLH \1\0\0\0", b"DLH \0\0\0\1"]),
    st.binary(max_size=200),
    ANY_INT,
    ANY_INT | CCSIDS,
    st.text(max_size=8),
)
def test_every_message_has_a_class(
    start: bytes, rest: bytes, encoding: int, ccsid: int, md_format: str
) -> None:
    body = start + rest

    cls, problem, dlh = classify(
        body[:172], len(body), encoding=encoding, ccsid=ccsid, format=md_format
    )

    assert (cls is MessageClass.DEAD_LETTER) == (dlh is not None)
    assert problem or cls is MessageClass.DEAD_LETTER


@given(st.binary(max_size=400), ANY_INT, ANY_INT)
def test_nothing_but_the_headers_own_error_escapes(data: bytes, encoding: int, ccsid: int) -> None:
    with contextlib.suppress(MalformedHeaderError):
        DeadLetterHeader.decode(data, encoding=encoding, ccsid=ccsid)
    with contextlib.suppress(MalformedHeaderError):
        MessageDescriptor.decode(data, ccsid=ccsid)


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data(), encoding=ENCODINGS, ccsid=CCSIDS)
def test_every_header_of_the_chain_comes_back_byte_for_byte(
    name: str, data: Any, encoding: int, ccsid: int
) -> None:
    """Every byte that is neither StrucId, Version nor a length is arbitrary."""
    codec = CODECS[name]
    size = codec.length - len(codec.fixed(encoding, ccsid))
    content = data.draw(st.binary(min_size=size, max_size=size))
    header = codec.fixed(encoding, ccsid) + content

    read = codec.kind.decode(header, encoding=encoding, ccsid=ccsid)

    assert read.encode(encoding=encoding, ccsid=ccsid) == header


@given(
    st.lists(st.binary(max_size=40), max_size=4),
    st.sampled_from([1208, 1200, 13488, 17584, 819, 0]),
    ENCODINGS,
    CCSIDS,
)
def test_rfh2_folders_of_any_content_come_back_byte_for_byte(
    folders: list[bytes], named: int, encoding: int, ccsid: int
) -> None:
    header = RulesHeader2(name_value_ccsid=named, folders=tuple(folders))
    data = header.encode(encoding=encoding, ccsid=ccsid)

    read = RulesHeader2.decode(data, encoding=encoding, ccsid=ccsid)

    assert read.encode(encoding=encoding, ccsid=ccsid) == data
    assert all(isinstance(folder, str) for folder in read.folders) or named != 1208


@given(st.binary(max_size=700))
@example(b"")
def test_the_properties_of_header_parsing_hold_for_any_bytes(data: bytes) -> None:
    what_must_hold(data)


@given(
    st.sampled_from(list(GROWING)),
    st.sampled_from([1, 2, 99, 100, 101, 102, 999, 1_000, 1_001, 1_200]),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=3),
)
def test_the_properties_of_header_parsing_hold_for_hostile_headers(
    name: str, count: int, damage: list[tuple[int, int]]
) -> None:
    """A few parts, as many as a limit allows, one more; sound, and with some bytes changed."""
    hostile_messages_hold(GROWING[name][0](count), damage)


@given(
    st.lists(st.sampled_from(sorted({*CODECS, "MQRFH2", "MQDLH"} - {"MQTM"})), min_size=1),
    st.integers(95, 105),
)
def test_a_long_chain_of_any_headers_is_read_up_to_the_limit(names: list[str], count: int) -> None:
    chained = (names * count)[:count]
    message = message_of(chained, encoding=273, ccsid=1047)

    # The MQDLH of a dead letter is read in any case; the limit is that of the chain behind it.
    read = min(count, HEADERS_READ + (chained[0] == "MQDLH"))
    assert message.described(b"data") == (message.structures[:read], [0, *message.ends][read])


@given(
    st.lists(st.sampled_from([*CODECS, "MQRFH2", "MQDLH"]), max_size=4),
    st.binary(max_size=40),
    st.integers(0, 2000),
    ENCODINGS,
    CCSIDS,
)
def test_a_chain_of_headers_is_followed_to_its_end(
    names: list[str], payload: bytes, cut: int, encoding: int, ccsid: int
) -> None:
    """In a whole chain every header is found, in a truncated one every whole header."""
    message = message_of(names, encoding=encoding, ccsid=ccsid)

    assert message.described(payload) == (message.structures, len(message.body))
    if cut < len(message.body):
        whole = [end for end in message.ends if end <= cut]
        assert message.described(cut=cut) == (
            message.structures[: len(whole)],
            whole[-1] if whole else 0,
        )


@given(
    st.lists(
        st.builds(
            MessageDescriptor,
            report=ANY_INT,
            expiry=ANY_INT,
            msg_id=st.binary(min_size=24, max_size=24),
            reply_to_q=PRINTABLE,
            user_identifier=st.text("a'b: X", max_size=12).map(str.rstrip),
            put_appl_name=PRINTABLE.map(lambda text: text[:28].rstrip()),
            msg_seq_number=ANY_INT,
        ),
        max_size=3,
    ),
    st.binary(max_size=60),
    st.sampled_from([print_amqsbcg, print_dmpmqmsg]),
)
def test_pasted_messages_are_read_as_they_were_written(
    descriptors: list[MessageDescriptor], body: bytes, write: Any
) -> None:
    messages = [(descriptor, body) for descriptor in descriptors]
    assume(messages)

    found = read_pasted(write(messages))

    assert [(message.descriptor, message.body) for message in found] == messages


@given(st.data())
def test_a_damaged_paste_is_read_or_refused_with_its_line(data: Any) -> None:
    write = data.draw(st.sampled_from([print_amqsbcg, print_dmpmqmsg]))
    text = write([(MessageDescriptor(format="MQDEAD"), b"DLH " + bytes(180))] * 2)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 80)))
    damaged = text[:start] + data.draw(st.text(max_size=20)) + text[end:]

    found, error = _read(damaged)

    assert found or error
    if error:
        assert str(error).startswith(f"paste:{error.line}: ")
        assert 1 <= error.line <= damaged.count("\n") + 1


def _read(text: str) -> tuple[tuple[PastedMessage, ...], PasteError | None]:
    try:
        return read_pasted(text, "paste"), None
    except PasteError as error:
        return (), error


@given(st.text())
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    with contextlib.suppress(PasteError):
        read_pasted(text)
