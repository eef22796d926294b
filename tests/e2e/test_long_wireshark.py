"""Wireshark's dissector reads 10,000 random chains of headers as our codecs do.

Each message is wrapped as the MQPUT of a client channel, in a capture file of one TCP stream.
"""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqdlq.headers import DeadLetterHeader, MessageDescriptor, RulesHeader2
from mqdlq.headers.chain import describe

pytestmark = pytest.mark.long

MESSAGES = 10_000
ORDERS = {273: (">", 1), 546: ("<", 2)}
"""By Encoding: the byte order of `struct`, and that of a segment."""
ASCII = 819
NAME = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789./_%"
TEXT = NAME + " $&()*+-:;<=>?@[]!#'"
SHOWN = {
    "mq.md": (
        *("format", "msgtype", "expiry", "feedback", "priority", "persistence", "replytoq"),
        *("replytoqmgr", "userid", "applname", "date", "msgid", "msgflags", "origlength"),
    ),
    "mq.dlh": (
        *("reason", "destq", "destqmgr", "encoding", "ccsid", "format", "putappltype"),
        *("putapplname", "putdate", "puttime"),
    ),
    "mq.rfh": ("ccsid", "length", "string"),
}
FIELDS = [f"{group}.{name}" for group, names in SHOWN.items() for name in names]


def text(chance: random.Random, most: int, letters: str = TEXT) -> str:
    return "".join(chance.choices(letters, k=chance.randrange(most + 1))).strip()


def number(chance: random.Random) -> int:
    return chance.choice((0, 1, 2, 2053, 2**31 - 1, chance.randrange(2**31)))


def message(chance: random.Random) -> tuple[int, bytes, bytes]:
    """Return the Encoding of a message, its descriptor and its body: an MQDLH and more headers."""
    count, body, md_format = chance.randrange(3), text(chance, 40).encode(), "MQSTR"
    encoding = chance.choice(list(ORDERS))
    for _ in range(count):
        folders = tuple(f"<usr><a>{text(chance, 30, NAME)}</a></usr>" for _ in range(count))
        header = RulesHeader2(
            encoding=encoding,
            coded_char_set_id=ASCII,
            format=md_format,
            name_value_ccsid=1208,
            folders=folders,
        )
        encoding = chance.choice(list(ORDERS))
        body = header.encode(encoding=encoding, ccsid=ASCII) + body
        md_format = "MQHRF2"
    letter = DeadLetterHeader(
        reason=number(chance),
        dest_q_name=text(chance, 48, NAME),
        dest_q_mgr_name=text(chance, 48, NAME),
        encoding=encoding,
        coded_char_set_id=ASCII,
        format=md_format,
        put_appl_type=number(chance),
        put_appl_name=text(chance, 28),
        put_date=text(chance, 8, "0123456789"),
        put_time=text(chance, 8, "0123456789"),
    )
    encoding = chance.choice(list(ORDERS))
    descriptor = MessageDescriptor(
        format="MQDEAD",
        encoding=encoding,
        coded_char_set_id=ASCII,
        msg_type=number(chance),
        expiry=number(chance),
        feedback=number(chance),
        priority=number(chance),
        persistence=number(chance),
        reply_to_q=text(chance, 48, NAME),
        reply_to_q_mgr=text(chance, 48, NAME),
        user_identifier=text(chance, 12, NAME),
        put_appl_name=text(chance, 28),
        put_date=text(chance, 8, "0123456789"),
        msg_id=chance.randbytes(24),
        msg_flags=number(chance),
        original_length=number(chance),
    )
    # The descriptor is in the byte order of the segment, as its Encoding says of the body.
    written = descriptor.encode(encoding=encoding, ccsid=ASCII)
    return encoding, written, letter.encode(encoding=encoding, ccsid=ASCII) + body


def segment(encoding: int, descriptor: bytes, body: bytes) -> bytes:
    """Return a transmission segment of type MQPUT: its headers, the MQMD, an MQPMO, the body."""
    order, marked = ORDERS[encoding]
    options = b"PMO " + struct.pack(f"{order}i", 1) + bytes(120)
    call = struct.pack(">4i", 0, 0, 0, 7) + descriptor + options
    data = call + struct.pack(f"{order}i", len(body)) + body
    first = struct.pack(">4sI4B8x", b"TSH ", 28 + len(data), marked, 0x86, 0x30, 0)
    return first + struct.pack(f"{order}iHxx", encoding, ASCII) + data


def capture(segments: Iterator[bytes], file: Path) -> None:
    """Write segments as IP packets of one TCP stream to port 1414."""
    with file.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 2**18, 101))
        sent = 1
        for data in segments:
            tcp = struct.pack(">HHIIBBHHH", 40_000, 1414, sent, 1, 0x50, 0x18, 65_535, 0, 0) + data
            host, size = bytes((10, 0, 0)), 20 + len(tcp)
            ip = (
                struct.pack(">BBHHHBBH", 0x45, 0, size, 1, 0, 64, 6, 0)
                + host
                + b"\1"
                + host
                + b"\2"
            )
            out.write(struct.pack("<IIII", 0, 0, size, size) + ip + tcp)
            sent = (sent + len(data)) % 2**32


def read_by_wireshark(file: Path) -> Iterator[dict[str, str]]:
    options = ["-T", "fields", "-E", "separator=/t", "-E", "aggregator=|", "-E", "occurrence=a"]
    asked = [word for name in FIELDS for word in ("-e", name)]
    command = ["tshark", "-r", str(file), "-d", "tcp.port==1414,mq", *options, *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    for line in done.stdout.splitlines():
        yield dict(zip(FIELDS, line.split("\t"), strict=True))


def read_by_us(encoding: int, descriptor: bytes, body: bytes) -> dict[str, str]:
    md = MessageDescriptor.decode(descriptor, encoding=encoding, ccsid=ASCII)
    found = describe(
        body, len(body), encoding=md.encoding, ccsid=md.coded_char_set_id, format=md.format
    )
    letter = found.dlh
    assert letter is not None
    # Wireshark 4.0 follows one MQRFH2, and none in another byte order than the segment's.
    shown = [one for one in found.headers[1:2] if one.encoding == encoding]
    rules = [one.record for one in shown if isinstance(one.record, RulesHeader2)]
    folders = [str(folder) for one in rules for folder in one.folders]
    read = {
        "mq.md": (
            *(md.format, md.msg_type, md.expiry, md.feedback, md.priority, md.persistence),
            *(md.reply_to_q, md.reply_to_q_mgr, md.user_identifier, md.put_appl_name, md.put_date),
            *(md.msg_id.hex(), f"0x{md.msg_flags:08x}", md.original_length),
        ),
        "mq.dlh": (
            *(letter.reason, letter.dest_q_name, letter.dest_q_mgr_name, letter.encoding),
            *(letter.coded_char_set_id, letter.format, letter.put_appl_type),
            *(letter.put_appl_name, letter.put_date, letter.put_time),
        ),
        "mq.rfh": (
            "|".join("1208" for _ in rules),
            "|".join(str(len(one)) for one in folders),
            "|".join(folders),
        ),
    }
    values = [str(one) for group in SHOWN for one in read[group]]
    return dict(zip(FIELDS, values, strict=True))


def test_wireshark_reads_the_same_fields_in_random_chains_of_headers(tmp_path: Path) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    chance, file = random.Random(1), tmp_path / "messages.pcap"  # noqa: S311 (no secret)
    messages = [message(chance) for _ in range(MESSAGES)]
    capture((segment(*one) for one in messages), file)

    differing = []
    read = list(read_by_wireshark(file))
    for one, theirs in zip(messages, read, strict=True):
        ours = read_by_us(*one)
        differing += [
            (name, theirs[name], ours[name])
            for name in FIELDS
            if theirs[name].rstrip() != ours[name].rstrip()
        ]

    assert differing == []
