from __future__ import annotations

import struct
from dataclasses import asdict, fields, replace

import pytest

from mqdlq.errors import MalformedHeaderError
from mqdlq.headers import DeadLetterHeader, MessageDescriptor
from mqdlq.structures import MQDLH, MQMD

BIG, LITTLE = 273, 546
LETTER = DeadLetterHeader(
    reason=2053,
    dest_q_name="PAYMENTS.IN",
    dest_q_mgr_name="QM1",
    encoding=LITTLE,
    coded_char_set_id=1208,
    format="MQSTR",
    put_appl_type=6,
    put_appl_name="amqrmppa",
    put_date="20261121",
    put_time="09153042",
)
DESCRIPTOR = MessageDescriptor(
    report=1,
    expiry=600,
    format="MQDEAD",
    coded_char_set_id=819,
    msg_id=bytes(range(24)),
    correl_id=b"\xff" * 24,
    backout_count=2,
    reply_to_q="REPLIES",
    reply_to_q_mgr="QM2",
    user_identifier="mqm",
    accounting_token=b"\x16" + bytes(31),
    appl_identity_data="branch 7",
    put_appl_name="payments",
    put_date="20261121",
    put_time="09153041",
    group_id=b"\x01" * 24,
    msg_flags=16,
)


def test_an_mqdlh_has_172_bytes_and_the_field_offsets_of_ibm() -> None:
    """Offsets: IBM MQ docs, "MQDLH - Dead-letter header"."""
    offsets = {field.ibm_name: field.offset for field in MQDLH.fields}

    assert MQDLH.length == 172
    assert offsets == {
        "Reason": 8,
        "DestQName": 12,
        "DestQMgrName": 60,
        "Encoding": 108,
        "CodedCharSetId": 112,
        "Format": 116,
        "PutApplType": 124,
        "PutApplName": 128,
        "PutDate": 156,
        "PutTime": 164,
    }


def test_an_mqmd_has_364_bytes_and_the_field_offsets_of_ibm() -> None:
    offsets = {field.ibm_name: field.offset for field in MQMD.fields}

    assert MQMD.length == 364
    assert [offsets[name] for name in ("Expiry", "Format", "MsgId", "BackoutCount")] == [
        16,
        32,
        48,
        96,
    ]
    assert [offsets[name] for name in ("ReplyToQ", "AccountingToken", "PutApplName")] == [
        100,
        208,
        276,
    ]
    assert [offsets[name] for name in ("GroupId", "OriginalLength")] == [324, 360]


@pytest.mark.parametrize(
    ("layout", "record"), [(MQDLH, DeadLetterHeader), (MQMD, MessageDescriptor)]
)
def test_records_have_the_field_names_of_ibm_in_snake_case(layout: object, record: type) -> None:
    names = [field.name for field in layout.fields]  # type: ignore[attr-defined]

    assert names == [field.name for field in fields(record)]


def test_an_mqdlh_is_decoded_as_its_sender_wrote_it() -> None:
    """A header laid out by hand: little-endian, ASCII, blank-padded as an MCA does."""
    data = struct.pack(
        "<4sii48s48sii8si28s8s8s",
        b"DLH ",
        1,
        2053,
        b"PAYMENTS.IN".ljust(48),
        b"QM1".ljust(48),
        546,
        1208,
        b"MQSTR   ",
        6,
        b"amqrmppa".ljust(28),
        b"20261121",
        b"09153042",
    )

    assert DeadLetterHeader.decode(data + b"body", encoding=LITTLE, ccsid=819) == LETTER
    assert LETTER.encode(encoding=LITTLE, ccsid=819) == data


@pytest.mark.parametrize("ccsid", [37, 500, 1047, 1140, 437, 819, 1208, 0, -2])
@pytest.mark.parametrize("encoding", [BIG, LITTLE, 785])
def test_an_mqdlh_survives_encoding_in_both_byte_orders_and_every_code_page(
    encoding: int, ccsid: int
) -> None:
    data = LETTER.encode(encoding=encoding, ccsid=ccsid)

    assert len(data) == 172
    assert DeadLetterHeader.decode(data, encoding=encoding, ccsid=ccsid) == LETTER


def test_an_mqdlh_in_big_endian_ebcdic_equals_the_bytes_that_zos_writes() -> None:
    data = LETTER.encode(encoding=785, ccsid=500)

    assert data[:14].hex() == "c4d3c8400000000100000805d7c1"


def test_with_a_special_ccsid_the_struc_id_decides_the_code_page() -> None:
    data = LETTER.encode(encoding=BIG, ccsid=500)

    assert DeadLetterHeader.decode(data, encoding=BIG, ccsid=0) == LETTER


def test_nuls_in_text_fields_survive_decoding_and_encoding() -> None:
    """AMS is known to end names with a NUL (IBM APAR IT31856)."""
    letter = replace(LETTER, dest_q_name="PAYMENTS\0IN\0", put_date="\0" * 8)
    data = letter.encode(encoding=BIG, ccsid=37)

    assert DeadLetterHeader.decode(data, encoding=BIG, ccsid=37) == letter


def test_an_undecodable_byte_survives_decoding_and_encoding() -> None:
    data = bytearray(LETTER.encode(encoding=BIG, ccsid=1208))
    data[20] = 0xFF

    assert DeadLetterHeader.decode(bytes(data), encoding=BIG, ccsid=1208).encode(
        encoding=BIG, ccsid=1208
    ) == bytes(data)


def test_an_md_survives_decoding_and_encoding() -> None:
    data = DESCRIPTOR.encode()

    assert len(data) == 364
    assert MessageDescriptor.decode(data) == DESCRIPTOR


def test_an_mqmd_with_the_padding_of_the_client_survives_decoding_and_encoding() -> None:
    """The client library pads with NULs what it fills in itself, the queue manager with blanks."""
    data = bytearray(DESCRIPTOR.encode())
    data[100:148] = b"REPLIES".ljust(48, b"\0")

    assert MessageDescriptor.decode(bytes(data)).reply_to_q == "REPLIES" + "\0" * 41
    assert MessageDescriptor.decode(bytes(data)).encode() == bytes(data)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (lambda: DeadLetterHeader.decode(b"DLH \1\0\0\0", encoding=546, ccsid=819),
         "MQDLH at offset 0: expected 172 bytes, found 8"),
        (lambda: DeadLetterHeader.decode(bytes(172), encoding=546, ccsid=819),
         "MQDLH at offset 0: expected StrucId 'DLH ' in ASCII, found other bytes"),
        (lambda: DeadLetterHeader.decode(b"DLH \2\0\0\0" + bytes(164), encoding=546, ccsid=819),
         "MQDLH at offset 4: expected Version 1, found 2"),
        (lambda: DeadLetterHeader.decode(b"DLH " + bytes(168), encoding=0, ccsid=819),
         ("MQDLH at offset 4: expected an Encoding with an integer order (MQENC_INTEGER_NORMAL or "
          "_REVERSED), found Encoding 0")),
        (lambda: DeadLetterHeader.decode(b"DLH " + bytes(168), encoding=546, ccsid=99999),
         "MQDLH at offset 0: expected a CCSID this project reads, found CCSID 99999"),
        (lambda: replace(LETTER, dest_q_name="Q" * 52).encode(encoding=546, ccsid=819),
         "MQDLH at offset 12: expected DestQName of at most 48 bytes, found 52 bytes"),
        (lambda: replace(LETTER, dest_q_name="Ω").encode(encoding=546, ccsid=819),
         "MQDLH at offset 12: expected DestQName in characters of CCSID 819, found 'Ω'"),
        (lambda: replace(LETTER, reason=2**31).encode(encoding=546, ccsid=819),
         "MQDLH at offset 8: expected Reason as an MQLONG, found 2147483648"),
        (lambda: MessageDescriptor.decode(bytes(324)),
         "MQMD at offset 0: expected 364 bytes, found 324"),
        (lambda: MessageDescriptor.decode(bytes(364), ccsid=7),
         "MQMD at offset 0: expected a CCSID this project reads, found CCSID 7"),
        (lambda: replace(DESCRIPTOR, msg_id=b"short").encode(),
         "MQMD at offset 48: expected MsgId as 24 bytes, found 5"),
    ],
)  # fmt: skip
def test_a_structure_error_names_the_fault_and_its_offset(fault: object, text: str) -> None:
    with pytest.raises(MalformedHeaderError) as caught:
        fault()  # type: ignore[operator]

    assert str(caught.value) == text


def test_a_structure_error_has_its_place_as_data() -> None:
    with pytest.raises(MalformedHeaderError) as caught:
        DeadLetterHeader.decode(b"DLH \2\0\0\0" + bytes(164), encoding=546, ccsid=819)

    fault = caught.value
    assert (fault.structure, fault.offset, fault.expected, fault.found) == (
        "MQDLH",
        4,
        "Version 1",
        "2",
    )


def test_an_mqmd_has_the_defaults_of_ibm() -> None:
    """MQMD_DEFAULT (IBM MQ docs, "MQMD - Initial values"), but for the characters' padding."""
    blank = asdict(MessageDescriptor())

    assert (blank["msg_type"], blank["expiry"], blank["msg_seq_number"]) == (8, -1, 1)
    assert (blank["priority"], blank["persistence"], blank["original_length"]) == (-1, 2, -1)
