from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mqdlq.cli import app
from mqdlq.headers import DeadLetterHeader, MessageDescriptor, RulesHeader2
from mqdlq.headers.records import MessageDescriptor1, RulesHeader, TransmissionQueueHeader
from tests.support.wire.pasted_messages import print_amqsbcg, print_dmpmqmsg

SECRET = b"the customer's secret"
LETTER = DeadLetterHeader(
    2053, "PAYMENTS.IN", "QM1", 273, 1208, "MQHRF2", 6, "amqrmppa", "20261121", "09153042"
).encode(
    encoding=546,
    ccsid=819,
)
FOLDERS = RulesHeader2(546, 1208, "MQSTR", folders=("<usr><n>é</n></usr>    ",)).encode(
    encoding=273, ccsid=1208
)
BODY = LETTER + FOLDERS + SECRET


def decode(text: str | bytes, *options: str) -> Result:
    return CliRunner().invoke(app, ["decode", *options, "-"], input=text)


def decoded(text: str | bytes, *options: str) -> list[dict[str, Any]]:
    result = decode(text, "--format", "json", *options)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_decode_prints_class_headers_and_payload_offset_as_json() -> None:
    assert decoded(BODY.hex()) == [
        {
            "class": "dead_letter",
            "problem": "",
            "headers": [
                {
                    "type": "MQDLH",
                    "fields": {
                        "StrucId": "DLH ",
                        "Version": 1,
                        "Reason": 2053,
                        "DestQName": "PAYMENTS.IN",
                        "DestQMgrName": "QM1",
                        "Encoding": 273,
                        "CodedCharSetId": 1208,
                        "Format": "MQHRF2",
                        "PutApplType": 6,
                        "PutApplName": "amqrmppa",
                        "PutDate": "20261121",
                        "PutTime": "09153042",
                    },
                },
                {
                    "type": "MQRFH2",
                    "fields": {
                        "StrucId": "RFH ",
                        "Version": 2,
                        "StrucLength": 64,
                        "Encoding": 546,
                        "CodedCharSetId": 1208,
                        "Format": "MQSTR",
                        "Flags": 0,
                        "NameValueCCSID": 1208,
                        "NameValueData": ["<usr><n>é</n></usr>    "],
                    },
                },
            ],
            "payload_offset": 236,
            "payload_length": 21,
        }
    ]


def test_decode_prints_the_header_chain_with_the_offset_of_every_field() -> None:
    result = decode(BODY.hex())

    assert result.stdout == (
        """\
dead_letter: 257 bytes
MQRC_Q_FULL (2053), meant for PAYMENTS.IN on QM1

       0 ┬ MQDLH, 172 bytes, little-endian, CCSID 819
       0 │   StrucId         DLH
       4 │   Version         1
       8 │   Reason          MQRC_Q_FULL (2053)
      12 │   DestQName       PAYMENTS.IN
      60 │   DestQMgrName    QM1
     108 │   Encoding        273 (big-endian)
     112 │   CodedCharSetId  1208
     116 │   Format          MQHRF2
     124 │   PutApplType     MQAT_UNIX (6)
     128 │   PutApplName     amqrmppa
     156 │   PutDate         20261121
     164 │   PutTime         09153042
     172 ┼ MQRFH2, 64 bytes, big-endian, CCSID 1208
     172 │   StrucId         RFH
     176 │   Version         2
     180 │   StrucLength     64
     184 │   Encoding        546 (little-endian)
     188 │   CodedCharSetId  1208
     192 │   Format          MQSTR
     200 │   Flags           0
     204 │   NameValueCCSID  1208
     212 │   NameValueData   <usr><n>é</n></usr>
     236 ┴ payload, 21 bytes
"""
    )


@pytest.mark.parametrize("output", ["text", "json"])
def test_decode_prints_the_payload_only_on_request(output: str) -> None:
    hidden = decode(BODY.hex(), "--format", output).stdout
    shown = decode(BODY.hex(), "--format", output, "--show-payload").stdout

    assert SECRET[:6].decode() not in hidden
    assert SECRET.hex() not in hidden
    assert (SECRET.hex() if output == "json" else "the customer's s") in shown


def test_options_of_decode_set_the_fields_of_the_mqmd() -> None:
    body = DeadLetterHeader(2085, "ORDERS").encode(encoding=785, ccsid=1047).hex()

    (found,) = decoded(body, "--md-encoding", "785", "--md-ccsid", "1047", "--md-format", "MQSTR")

    assert found["headers"][0]["fields"]["DestQName"] == "ORDERS"
    assert found["problem"].startswith("MQMD.Format is 'MQSTR', not MQDEAD; ")
    assert decoded(body)[0]["class"] == "undecodable"


@pytest.mark.parametrize(
    ("body", "options", "cls", "problem"),
    [
        ("0000", [], "no_dlh", "no MQDLH, although MQMD.Format is MQDEAD"),
        ("68656c6c6f", ["--md-format", "MQSTR"], "no_dlh", "no MQDLH"),
        (LETTER[:100].hex(), [], "truncated_dlh", "MQDLH needs 172 bytes, the message has 100"),
        (LETTER.hex(), ["--md-encoding", "273"], "unsupported_dlh_version",
         ("MQDLH.Version is 16777216 in MQMD.Encoding 273, it would be 1 in the other byte order; "
          "only 1 exists")),
        (LETTER.hex(), ["--md-ccsid", "37"], "undecodable",
         "StrucId is ASCII, but MQMD.CodedCharSetId 37 is EBCDIC"),
    ],
)  # fmt: skip
def test_decode_classifies_other_messages_and_exits_with_0(
    body: str, options: list[str], cls: str, problem: str
) -> None:
    (found,) = decoded(body, *options)

    assert (found["class"], found["problem"], found["headers"]) == (cls, problem, [])
    assert (found["payload_offset"], found["payload_length"]) == (0, len(body) // 2)
    assert decode(body, *options).stdout.splitlines()[-1] == (
        f"       0 ─ payload, {len(body) // 2} bytes"
    )


MD = MessageDescriptor(format="MQDEAD", encoding=785, coded_char_set_id=500, msg_flags=2)
ZOS = DeadLetterHeader(2051, "ORDERS").encode(encoding=785, ccsid=500)


@pytest.mark.parametrize("write", [print_amqsbcg, print_dmpmqmsg])
def test_each_message_of_a_pasted_dump_is_decoded_by_its_own_mqmd(write: Any) -> None:
    found = decoded(write([(MD, ZOS), (MessageDescriptor(format="MQSTR"), b"x"), (MD, ZOS)]))

    assert [message["class"] for message in found] == ["dead_letter", "no_dlh", "dead_letter"]
    assert found[0]["headers"][0]["fields"]["DestQName"] == "ORDERS"
    assert found[0]["MQMD"]["Encoding"] == 785
    assert found[0]["problem"].endswith("; a segment of a logical message")


def test_an_option_of_decode_overrides_the_mqmd_of_a_pasted_dump() -> None:
    paste = print_amqsbcg([(MD, ZOS)])

    assert decoded(paste, "--md-ccsid", "819")[0]["class"] == "undecodable"


def test_decoded_text_of_a_pasted_dump_begins_with_the_mqmd() -> None:
    shown = decode(print_amqsbcg([(MD, ZOS), (MD, ZOS)])).stdout

    assert "\n         ┬ MQMD\n         │   StrucId           MD\n" in shown
    assert "\n       0 ┼ MQDLH, 172 bytes, big-endian, CCSID 500\n" in shown
    assert shown.count("MQRC_PUT_INHIBITED (2051), meant for ORDERS\n") == 2


def test_decode_reads_output_that_a_windows_shell_redirected() -> None:
    assert len(decoded(print_amqsbcg([(MD, ZOS)]).encode("utf-16"))) == 1


def test_the_mqmd_in_an_mqxqh_is_a_nested_json_object() -> None:
    carried = MessageDescriptor1(format="MQSTR", msg_id=b"\x01" * 24)
    body = TransmissionQueueHeader("Q", "QM2", carried).encode(encoding=546, ccsid=819)

    (found,) = decoded(body.hex(), "--md-format", "MQXMIT")

    fields = found["headers"][0]["fields"]
    assert (fields["RemoteQName"], fields["MsgDesc"]["Format"]) == ("Q", "MQSTR")
    assert fields["MsgDesc"]["MsgId"] == "01" * 24
    assert (found["class"], found["payload_offset"]) == ("no_dlh", 428)
    text = decode(body.hex(), "--md-format", "MQXMIT").stdout
    assert "     104 │   MsgDesc\n     104 │     StrucId         " in text


def test_decode_prints_undecodable_bytes_in_hexadecimal_digits() -> None:
    broken = bytearray(LETTER)
    broken[12:14] = b"\xff\xfe"

    (found,) = decoded(broken.hex(), "--md-ccsid", "1208")

    header = found["headers"][0]
    assert header["fields"]["DestQName"] == "\ufffd\ufffdYMENTS.IN"
    assert header["undecoded"] == {"DestQName": broken[12:60].hex()}


def test_decode_counts_the_nuls_at_the_end_of_a_name() -> None:
    letter = DeadLetterHeader(dest_q_name="Q" + "\0" * 47, put_date="20261121", put_time="09153042")
    shown = decode(letter.encode(encoding=546, ccsid=819).hex()).stdout

    assert "MQRC_NONE (0), meant for Q\n" in shown
    assert "DestQName       Q (and 47 NULs)\n" in shown


def test_decode_prints_the_name_value_string_of_an_mqrfh() -> None:
    body = RulesHeader(name_value_string="a b").encode(encoding=546, ccsid=819)

    (found,) = decoded(body.hex(), "--md-format", "MQHRF")

    assert found["headers"][0]["fields"]["NameValueString"] == "a b"
    assert found["headers"][0]["fields"]["StrucLength"] == 35


def test_decode_lists_ams_protected_data_in_the_header_chain(tmp_path: Path) -> None:
    letter = DeadLetterHeader(format="MQSTR").encode(encoding=546, ccsid=819)
    file = tmp_path / "message.hex"
    file.write_text((letter + b"PDMQ" + bytes(8)).hex())

    result = CliRunner().invoke(app, ["decode", str(file)])

    assert (
        "     172 ┼ PDMQ, protected by Advanced Message Security, left as it is\n"
        "     172 │   StrucId  PDMQ\n"
        "     172 ┴ payload, 12 bytes\n"
    ) in result.stdout


def test_input_without_a_message_is_one_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "message.hex"
    file.write_text("444c\n48 zz\n")

    result = CliRunner().invoke(app, ["decode", str(file)])

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"{file}:2: 'z' is not a hexadecimal digit; expected the digits of a message's body, the "
        "output of amqsbcg, or a file of dmpmqmsg [MQDLQ-906]\n"
    )
