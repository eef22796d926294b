from __future__ import annotations

import pytest

from mqdlq.headers import ccsid
from mqdlq.headers.ccsid import Family, following_ccsid, read_text, text_codec

EVERY_BYTE = bytes(range(256))
SINGLE_BYTE = [367, 437, 819, 850, 858, 864, 912, 923, 1089, 1252, 5348]
SEVERAL_BYTE = [932, 943, 949, 950, 954, 1208, 1386, 5488]
EBCDIC = [37, 273, 424, 500, 875, 1026, 1140, *ccsid.load_tables()]


@pytest.mark.parametrize("ccsid", [*SINGLE_BYTE, *SEVERAL_BYTE, *EBCDIC])
def test_every_byte_of_a_code_page_survives_decoding_and_encoding(ccsid: int) -> None:
    codec = text_codec(ccsid)

    assert codec is not None
    assert codec.encode(codec.decode(EVERY_BYTE)) == EVERY_BYTE


@pytest.mark.parametrize("data", [b"\x87\x90", b"\x81"])
def test_noncanonical_bytes_of_a_code_page_survive_decoding_and_encoding(data: bytes) -> None:
    """In CCSID 932 some characters stand in two places, and some bytes are half a character."""
    codec = text_codec(932)

    assert codec is not None
    assert codec.encode(codec.decode(data)) == data


@pytest.mark.parametrize(
    ("ccsids", "family", "struc_id"),
    [
        ([*SINGLE_BYTE, *SEVERAL_BYTE], Family.ASCII, b"DLH "),
        (EBCDIC, Family.EBCDIC, b"\xc4\xd3\xc8\x40"),
    ],
)
def test_ascii_and_ebcdic_encode_a_struc_id_differently(
    ccsids: list[int], family: Family, struc_id: bytes
) -> None:
    codecs = [text_codec(ccsid) for ccsid in ccsids]

    assert {codec and (codec.family, codec.encode("DLH ")) for codec in codecs} == {
        (family, struc_id)
    }


def test_code_page_1047_has_the_square_brackets_of_zos() -> None:
    codec = text_codec(1047)

    assert codec is not None
    assert codec.decode(b"\xad\xbd\x5f\xb0\xba\xbb\x7b\x5b\x7c") == "[]^¬Ý¨#$@"


def test_code_page_924_has_the_letters_of_latin_9() -> None:
    """As ICU's table ibm-924_P100-1998 has them."""
    codec = text_codec(924)

    assert codec is not None
    assert codec.decode(b"\x4a\x6a\x9d\x9f\xb0\xb7\xb8\xb9\xba\xbb\xbe") == "ÝŠž€¢ŒœŸ¬šŽ"


@pytest.mark.parametrize(
    ("ccsid", "text"),
    [(277, "#ÆØÅæøå"), (280, "£à§éùèìò"), (285, "£$"), (297, "£à°ç§éùè"), (871, "ÞÐþð"),
     (1141, "§ÄÖÜäöüß€"), (1147, "£àç§é€"), (1148, "éàÿ€"), (1025, "ЖЯж"), (870, "ŁŃłń")],
)  # fmt: skip
def test_each_national_code_page_has_its_letters(ccsid: int, text: str) -> None:
    codec = text_codec(ccsid)

    assert codec is not None
    assert codec.decode(codec.encode(text)) == text
    assert codec.encode(text) != text.encode("cp500", "replace")


@pytest.mark.parametrize("ccsid", [930, 933, 935, 937, 939, 1364, 1371, 1388, 1390, 1399])
def test_single_bytes_of_mixed_code_pages_are_decoded(ccsid: int) -> None:
    """Names of queues are in them; what is shifted out to two bytes a character stays bytes."""
    codec = text_codec(ccsid)

    assert codec is not None
    assert codec.decode(b"\xc4\xd3\xd8\x4b\xf1\x6d\x6c\x61\x0e\x42\xc1\x0f")[:8] == "DLQ.1_%/"


def test_the_euro_sign_is_where_each_code_page_has_it() -> None:
    euro = {1140: b"\x9f", 5348: b"\x80", 858: b"\xd5", 923: b"\xa4", 1208: b"\xe2\x82\xac"}

    assert {ccsid: codec.encode("€") for ccsid in euro if (codec := text_codec(ccsid))} == euro


@pytest.mark.parametrize("ccsid", [0, -1, -2, -3, 1200, 13488, 1027, 99999])
def test_a_ccsid_without_a_code_page_for_headers_has_no_codec(ccsid: int) -> None:
    assert text_codec(ccsid) is None


@pytest.mark.parametrize(
    ("stated", "resolved"), [(-2, 500), (0, 0), (-1, -1), (-3, -3), (819, 819)]
)
def test_only_ccsi_inherit_resolves_to_the_ccsid_of_the_previous_header(
    stated: int, resolved: int
) -> None:
    assert following_ccsid(stated, preceding=500) == resolved


@pytest.mark.parametrize(
    ("data", "ccsid", "encoding", "text"),
    [
        ("für".encode(), 1208, 546, "für"),
        ("für".encode("cp500"), 500, 273, "für"),
        ("für".encode("utf-16-le"), 1200, 546, "für"),
        ("für".encode("utf-16-be"), 1200, 273, "für"),
        (b"f\xfcr", 1208, 546, None),
        (b"odd", 1200, 273, None),
        (b"text", 65_000, 546, None),
    ],
)
def test_data_are_text_only_if_their_character_set_has_all_of_them(
    data: bytes, ccsid: int, encoding: int, text: str | None
) -> None:
    assert read_text(data, ccsid, encoding) == text
