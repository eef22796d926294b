from __future__ import annotations

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import classify, decode_dlh, decode_md, encode_dlh, encode_md
from mqdlq.model import MessageClass

CCSIDS = st.sampled_from([819, 1208, 437, 932, 943, 949, 950, 954, 1386, 5488, 37, 500, 1047, 875])
ENCODINGS = st.sampled_from([273, 546, 785])
ANY_INT = st.integers(-(2**31), 2**31 - 1)


@given(st.binary(min_size=164, max_size=164), ENCODINGS, CCSIDS)
@example(b"\x81\x20\x82" * 54 + b"xx", 546, 932)
def test_a_dlh_of_any_content_comes_back_byte_for_byte(
    content: bytes, encoding: int, ccsid: int
) -> None:
    struc_id = b"\xc4\xd3\xc8\x40" if ccsid in {37, 500, 875, 1047} else b"DLH "
    version = (1).to_bytes(4, "little" if encoding == 546 else "big")
    data = struc_id + version + content

    letter = decode_dlh(data, encoding=encoding, ccsid=ccsid)

    assert encode_dlh(letter, encoding=encoding, ccsid=ccsid) == data


@given(st.binary(min_size=356, max_size=356), st.sampled_from([1208, 819, 437]))
def test_an_md_of_any_content_comes_back_byte_for_byte(content: bytes, ccsid: int) -> None:
    data = b"MD  \2\0\0\0" + content

    assert encode_md(decode_md(data, ccsid=ccsid), ccsid=ccsid) == data


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

    found = classify(body[:172], len(body), encoding=encoding, ccsid=ccsid, format=md_format)

    assert (found.cls is MessageClass.DEAD_LETTER) == (found.dlh is not None)
    assert found.problem or found.cls is MessageClass.DEAD_LETTER


@given(st.binary(max_size=400), ANY_INT, ANY_INT)
def test_nothing_but_the_headers_own_error_escapes(data: bytes, encoding: int, ccsid: int) -> None:
    with contextlib.suppress(MalformedHeaderError):
        decode_dlh(data, encoding=encoding, ccsid=ccsid)
    with contextlib.suppress(MalformedHeaderError):
        decode_md(data, ccsid=ccsid)
