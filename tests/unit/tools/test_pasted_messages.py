from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from mqdlq.errors import PasteError
from mqdlq.headers import DeadLetterHeader, MessageDescriptor
from mqdlq.headers.fields import as_json, record_fields
from mqdlq.tools.dumps import PastedMessage, _read_dmpmqmsg, read_pasted
from tests.support.wire.pasted_messages import print_amqsbcg, print_dmpmqmsg

MD = MessageDescriptor(
    report=1,
    expiry=600,
    format="MQDEAD",
    coded_char_set_id=819,
    msg_id=bytes(range(24)),
    correl_id=b"\xff" * 24,
    backout_count=2,
    reply_to_q="REPLIES",
    reply_to_q_mgr="QM2",
    user_identifier="o'brien",
    accounting_token=b"\x16" + bytes(31),
    appl_identity_data="branch : 7",
    put_appl_type=11,
    put_appl_name="MQSeries\\pgm\\bin\\amqsput.exe",
    put_date="20261121",
    put_time="09153041",
    group_id=b"\x01" * 24,
    msg_seq_number=3,
    msg_flags=8,
)
LETTER = DeadLetterHeader(2053, "PAYMENTS").encode(encoding=546, ccsid=819) + b"a 'b' \xc3\xa9"
MESSAGES = [(MD, LETTER), (MessageDescriptor(format="MQSTR"), b""), (MD, b"X" * 33)]
WRITERS = pytest.mark.parametrize("write", [print_amqsbcg, print_dmpmqmsg])


@WRITERS
def test_every_message_of_a_pasted_dump_is_parsed_unchanged(write: Callable[..., str]) -> None:
    found = read_pasted(write(MESSAGES))

    assert [(message.descriptor, message.body) for message in found] == MESSAGES
    assert [message.total_length for message in found] == [len(body) for _, body in MESSAGES]
    assert {message.source for message in found} == {write.__name__.removeprefix("print_")}


@WRITERS
def test_a_dump_with_windows_line_ends_is_parsed_unchanged(write: Callable[..., str]) -> None:
    text = write(MESSAGES)

    assert read_pasted(text.replace("\n", "\r\n")) == read_pasted(text)


def test_the_repr_of_a_pasted_message_omits_its_body() -> None:
    assert repr(read_pasted(print_amqsbcg(MESSAGES))[0]) == (
        f"<PastedMessage from line 9, {len(LETTER)} bytes>"
    )


def test_a_dump_with_typographic_quotation_marks_and_asterisks_is_parsed() -> None:
    text = print_amqsbcg(MESSAGES[1:]).replace("****", "\\*\\*\\*\\*")
    left, right = "\N{LEFT SINGLE QUOTATION MARK}", "\N{RIGHT SINGLE QUOTATION MARK}"
    text = re.sub(r": (X?)'(.*?)'", rf": \1{left}\2{right}", text)

    assert [message.body for message in read_pasted(text)] == [b"", b"X" * 33]


def test_a_message_longer_than_its_dump_keeps_its_length() -> None:
    text = print_amqsbcg([(MD, LETTER)]).replace(f"of {len(LETTER)} bytes", "of 900000 bytes")

    (message,) = read_pasted(text)

    assert (message.body, message.total_length) == (LETTER, 900_000)


def test_a_dump_of_an_older_amqsbcg_has_its_length_once() -> None:
    text = print_amqsbcg([(MD, LETTER)]).replace(
        f"{len(LETTER)} of {len(LETTER)}", str(len(LETTER))
    )

    assert read_pasted(text)[0].total_length == len(LETTER)


def test_properties_and_unknown_lines_of_a_dump_are_skipped() -> None:
    text = print_amqsbcg([(MD, LETTER)]).replace(
        "****   Message      ****",
        "****Message properties****\n  colour : 'red'\n  Format : 'x'\n\n****   Message      ****",
    )

    assert read_pasted(text)[0].descriptor == MD


def test_lines_after_the_mqmd_in_a_newer_dump_are_skipped() -> None:
    text = print_amqsbcg([(MD, LETTER)]).replace(
        "OriginalLength : '-1'", "OriginalLength : '-1'\n  Reason : 2053\n  Format : 'MQSTR   '"
    )

    assert read_pasted(text)[0].descriptor == MD


@pytest.mark.parametrize("nested", [True, False])
def test_json_lines_of_the_embedded_queue_manager_are_read(nested: bool) -> None:
    fields = as_json(record_fields(MD))
    row: dict[str, Any] = {"MQMD": fields} if nested else fields
    lines = [json.dumps({**row, "body": LETTER.hex()})] * 2
    head = '{"format": "mqdlq queue dump", "version": 1, "queue_manager": "QM1", "queue": "DLQ"}'
    dump = "\n".join([head, *lines, '{"messages": 2}', ""])

    for text in (dump, "\n".join(lines)):
        found = read_pasted(text)
        assert [(m.descriptor, m.body, m.source) for m in found] == [(MD, LETTER, "mqdlq qm")] * 2


def test_undecodable_bytes_of_names_survive_json() -> None:
    written = json.dumps({"Format": "", "Encoding": 1, "CodedCharSetId": 0,
                          "ReplyToQ": "\u00c3\u00a9\u00ff", "body": ""})  # fmt: skip

    (message,) = read_pasted(written)

    assert message.descriptor
    assert message.descriptor.reply_to_q == "\u00e9\udcff"


def test_hexadecimal_digits_of_a_body_alone_are_a_message() -> None:
    text = print_amqsbcg([(MD, LETTER)])
    dump = text[text.index("00000000:") : text.index(" No more")]

    assert [(m.descriptor, m.body) for m in read_pasted(dump + dump)] == [(None, LETTER)] * 2


def test_an_mqmd_of_version_1_has_no_group_fields() -> None:
    text = print_amqsbcg([(MessageDescriptor(format="MQSTR"), b"x")])
    text = re.sub(r"  (GroupId|MsgSeq|Offset|MsgFlags|OriginalL).*\n", "", text)

    (message,) = read_pasted(text.replace("Version : 2", "Version : 1"))

    assert message.descriptor == MessageDescriptor(format="MQSTR")


@pytest.mark.parametrize(
    "text", ["444c4820", "44 4C\n48 20\n", "0x444C4820", "  444c\t4820  ", "444C 4820\r\n\r\n"]
)
def test_hexadecimal_digits_may_be_divided_in_any_way(text: str) -> None:
    assert read_pasted(text) == (PastedMessage(None, b"DLH ", 4, 1, "hexadecimal digits"),)


def test_message_data_of_dmpmqmsg_may_be_text() -> None:
    text = 'A FMT MQSTR\nA ENC 546\nA CCS 819\nX 0041  <.A>\nS " say "hi" "\nT  to all\n'

    assert read_pasted(text)[0].body == b'\0A say "hi"  to all'


GOOD = print_amqsbcg([(MD, LETTER)])
FILE = print_dmpmqmsg([(MD, LETTER)])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("444C48 2x",
         ("1: 'x' is not a hexadecimal digit; expected the digits of a message's body, the output"
          " of "
          "amqsbcg, or a file of dmpmqmsg")),
        ("", ("1: there is nothing to read; expected the digits of a message's body, the output of "
              "amqsbcg, or a file of dmpmqmsg")),
        (" \r\n0x\n", ("1: there is nothing to read; expected the digits of a message's body, the "
                      "output of amqsbcg, or a file of dmpmqmsg")),
        ("\nAMQSBCG0 - starts here\n\n MQOPEN - 'Q'\n No more messages\n MQCLOSE\n MQDISC",
         "7: amqsbcg printed no message: the queue was empty or not read"),
        ("44\n4", "2: the body: 3 hexadecimal digits are an odd number"),
        (GOOD.replace("Encoding : 546", "Encoding : many"),
         "14: Encoding must be a number, found 'many'"),
        (GOOD.replace("  CodedCharSetId : 819", ""),
         "14: expected CodedCharSetId on the same line"),
        (GOOD.replace("Format : 'MQDEAD  '", "Format : MQDEAD"),
         "15: Format must be written as '…', found 'MQDEAD'"),
        (GOOD.replace("Format : ", "Fromat : "),
         ("15: expected a field of the MQMD, as in Format : 'MQDEAD  ', found "
          "\"  Fromat : 'MQDEAD  '\"")),
        (GOOD.replace("  Format : 'MQDEAD  '\n", ""),
         "9: the MQMD of this message lacks Format"),
        (GOOD.replace("MsgId : X'0001", "MsgId : X'**01"),
         "17: MsgId: '*' is not a hexadecimal digit"),
        (GOOD.replace("MsgId : X'0001", "MsgId : X'01"),
         "17: MsgId has 24 bytes, found 23"),
        (GOOD.replace("MsgId : X'00", "MsgId : X'0"),
         "17: MsgId: 47 hexadecimal digits are an odd number"),
        (GOOD.replace("BackoutCount : 2", "BackoutCount : 2147483648"),
         "19: BackoutCount must fit four bytes, found 2147483648"),
        (GOOD.replace("BackoutCount : 2", "Format : 'MQSTR   '"),
         "19: Format stands there a second time"),
        (GOOD.replace("REPLIES", "R" * 55), "20: ReplyToQ holds 48, found 55 bytes"),
        (GOOD.replace("Version : 2", "Version : 3"),
         "11: an MQMD is of version 1 or 2, found '3'"),
        (GOOD.replace("444C 4820 0100", "444C **** 0100"),
         "43: the dump: '*' is not a hexadecimal digit"),
        (GOOD.replace("00000010:", "00000020:"),
         "44: expected the bytes from 00000010 on, found 00000020"),
        (GOOD.replace("000000A0:  ", "000000A0:  zz "),
         "53: expected hexadecimal digits after the offset"),
        (GOOD[: GOOD.index("000000A0")], ("9: the paste shows the first 160 bytes of a message of "
         "180; at least 172 are needed")),
        (GOOD[: GOOD.index("****   Message ")], "9: this message has no length and no bytes"),
        (GOOD[: GOOD.index("   X'16")], "9: this message lacks the AccountingToken"),
        (GOOD.replace("180 of 180", "176 of 176"),
         "54: the message has 176 bytes, but more are dumped"),
        (FILE.replace("A FMT", "A FMX"), ("12: expected an attribute such as A FMT MQDEAD, found "
         "'A FMX MQDEAD'")),
        (FILE.replace("A VER 2", "A VER two"), "5: an MQMD is of version 1 or 2, found 'two'"),
        (FILE.replace("A ENC 546", "A ENC"), "10: Encoding must be a number, found ''"),
        (FILE.replace("X 444C", "Y 444C"),
         "33: a line begins with *, A, X, S or T in a file of dmpmqmsg, found 'Y'"),
        (FILE.replace("X 444C", "X 444"), "33: the data: 49 hexadecimal digits are an odd number"),
        (FILE + "S no marks\n", "41: data after S stands between quotation marks"),
        ('{"body": ""}\n{"body"', ('2: expected a message such as {"Format": "MQDEAD", …, "body": '
         '"444C…"}')),
        ('{"MQMD": 7, "body": ""}',
         ('1: expected a message such as {"Format": "MQDEAD", …, "body": '
         '"444C…"}')),
        ('{"Format": null, "body": ""}', "1: Format must be text, found null"),
        ('{"Format": ["MQDEAD"], "body": ""}', '1: Format must be text, found ["MQDEAD"]'),
        ('{"Encoding": 546.5, "body": ""}', "1: Encoding must be a number, found 546.5"),
        ('{"Format": "\\ud800", "body": ""}',
         "1: Format holds half a character (a lone surrogate)"),
        (GOOD.replace("Encoding : 546", f"Encoding : {'9' * 5000}"),
         f"14: Encoding must be a number, found '{'9' * 40}…'"),
        (GOOD.replace("180 of 180", "180 of 104857601"),
         "41: a message has at most 104857600 bytes, found 104857601"),
        (GOOD.replace("180 of 180", f"180 of {'9' * 5000}"),
         f"41: a message has at most 104857600 bytes, found {'9' * 40}…"),
        ('{"Format": "", "body": ""}', "1: the MQMD of this message lacks Encoding"),
        ('{"format": "mqdlq queue dump"}\n{"body": "00"}\n',
         "3: the dump is cut off: of its messages, 1 are there"),
        (FILE + "T é\n",
         "41: text data with other than ASCII characters; unload it in hexadecimal digits"),
    ],
)  # fmt: skip
def test_an_unknown_line_of_a_dump_is_an_error_with_its_number(text: str, error: str) -> None:
    with pytest.raises(PasteError) as caught:
        read_pasted(text, "paste.txt")

    assert str(caught.value) == f"paste.txt:{error} [MQDLQ-906]"


def test_a_dump_error_without_a_file_name_begins_with_line() -> None:
    with pytest.raises(PasteError, match=r"^line 2: 'x' is not a hexadecimal digit"):
        read_pasted("44\nx")


def test_a_file_of_dmpmqmsg_with_comments_only_has_no_messages() -> None:
    assert list(_read_dmpmqmsg(["* dmpmqmsg Version: 9.4.0", "", "  "])) == []
