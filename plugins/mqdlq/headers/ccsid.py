"""EBCDIC code pages that Python lacks.

`ebcdic_tables.txt` in this directory has a line for each: the CCSID, then four hexadecimal digits
for the character of every byte, FFFD for a byte that is not a character by itself.
``python -m tests.support.wire.ebcdic_tables`` writes it.
"""

import codecs
import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

TABLES_FILE: Final = Path(__file__).with_name("ebcdic_tables.txt")
UNDEFINED: Final = "\ufffd"


@cache
def load_tables() -> dict[int, str]:
    """Return the tables of the file by CCSID; a byte without a character is U+FFFD."""
    rows = (line.split() for line in TABLES_FILE.read_text(encoding="ascii").splitlines())
    return {int(ccsid): bytes.fromhex(digits).decode("utf-16-be") for ccsid, digits in rows}


# Text codecs for CCSIDs, which read and write the text of headers without loss.

MQCCSI_INHERIT: Final = -2
SPECIAL_CCSIDS: Final = frozenset({0, -1, MQCCSI_INHERIT, -3})
"""MQCCSI_Q_MGR (or UNDEFINED), EMBEDDED, INHERIT and APPL, which do not name a code page."""
UTF_16: Final = frozenset({1200, 13488, 17584})
"""CCSIDs of UTF-16, which data and folders of an MQRFH2 may have, but not headers."""
_REVERSED: Final = 2  # MQENC_INTEGER_REVERSED
_NO_CHARACTER: Final = re.compile("[\ud800-\udfff]")
_ASCII: Final = bytes(range(128)).decode("ascii")


class Family(StrEnum):
    """Family of code pages with the same bytes for letters, digits and the blank."""

    ASCII = "ASCII"
    EBCDIC = "EBCDIC"


_CP: Final = (437, 737, 775, 850, 852, 855, 857, 858, 860, 861, 862, 863, 864, 865, 866, 869, 874)
_SINGLE_BYTE_ASCII: Final = {
    367: "ascii",
    813: "iso8859_7",
    819: "latin_1",
    878: "koi8_r",
    912: "iso8859_2",
    913: "iso8859_3",
    914: "iso8859_4",
    915: "iso8859_5",
    916: "iso8859_8",
    919: "iso8859_10",
    920: "iso8859_9",
    921: "iso8859_13",
    923: "iso8859_15",
    1089: "iso8859_6",
    **{number: f"cp{number}" for number in _CP},
    **{1250 + n: f"cp{1250 + n}" for n in range(9)},
    **{5346 + n: f"cp{1250 + n}" for n in range(9)},  # the same with the euro sign
}
_SEVERAL_BYTE_ASCII: Final = {
    932: "cp932",
    936: "gbk",
    943: "cp932",
    949: "cp949",
    950: "cp950",
    954: "euc_jp",
    970: "euc_kr",
    1208: "utf_8",
    1363: "cp949",
    1383: "gb2312",
    1386: "gbk",
    5050: "euc_jp",
    5488: "gb18030",
    33722: "euc_jp",
}
_EBCDIC: Final = {ccsid: f"cp{ccsid:03}" for ccsid in (37, 273, 424, 500, 875, 1026, 1140)}


@dataclass(frozen=True, slots=True)
class TextCodec:
    """Lossless codec for the text of one CCSID.

    A byte that the code page does not define is decoded as the lone surrogate U+DC00 + byte, as
    with Python's "surrogateescape", and encoded as that byte again.
    """

    ccsid: int
    family: Family
    table: str
    several_byte: str = ""
    keeps_ascii: bool = field(init=False)

    def __post_init__(self) -> None:
        """Check whether bytes below 128 are ASCII characters; in CCSID 864, one is not."""
        object.__setattr__(self, "keeps_ascii", self.table[:128] == _ASCII)

    def decode(self, data: bytes) -> str:
        """Decode text; never fails."""
        if self.keeps_ascii and data.isascii():
            return data.decode("ascii")
        if self.several_byte:
            try:
                text = data.decode(self.several_byte)
                if text.encode(self.several_byte) == data:
                    return text
            except UnicodeError:
                pass
        return codecs.charmap_decode(data, "strict", self.table)[0]

    def encode(self, text: str) -> bytes:
        """Encode text; raise `UnicodeError` if the CCSID lacks a character."""
        if self.several_byte:
            return text.encode(self.several_byte, "surrogateescape")
        return codecs.charmap_encode(text, "strict", _encoding_map(self.table))[0]


@cache
def text_codec(ccsid: int) -> TextCodec | None:
    """Return the codec of a CCSID, or None if the CCSID is not supported.

    UTF-16 and other CCSIDs without single-byte letters are not supported, because no MQ header can
    have them (IBM MQ docs, "MQDLH - Dead-letter header").
    """
    if ccsid in _SINGLE_BYTE_ASCII:
        return TextCodec(ccsid, Family.ASCII, _table(_characters(_SINGLE_BYTE_ASCII[ccsid])))
    if ccsid in _SEVERAL_BYTE_ASCII:
        return TextCodec(
            ccsid, Family.ASCII, _table(_characters("ascii")), _SEVERAL_BYTE_ASCII[ccsid]
        )
    if ccsid in _EBCDIC:
        return TextCodec(ccsid, Family.EBCDIC, _table(_characters(_EBCDIC[ccsid])))
    if characters := load_tables().get(ccsid):
        return TextCodec(ccsid, Family.EBCDIC, _table(characters))
    return None


def read_text(data: bytes, ccsid: int, encoding: int) -> str | None:
    """Return data as text, None if they are not text in this CCSID, or if it is not known.

    `encoding` has the order of the bytes of UTF-16.
    """
    if ccsid in UTF_16:
        try:
            return data.decode("utf-16-le" if encoding & _REVERSED else "utf-16-be")
        except UnicodeError:
            return None
    codec = text_codec(ccsid)
    text = codec.decode(data) if codec else None
    return None if text is None or _NO_CHARACTER.search(text) else text


def following_ccsid(ccsid: int, preceding: int) -> int:
    """Return the CCSID that a header states for the data after it, with INHERIT resolved.

    The other special values are returned unchanged.
    """
    return preceding if ccsid == MQCCSI_INHERIT else ccsid


def replace_undecodable(text: str) -> str:
    """Replace undecodable bytes by U+FFFD, because Parquet and JSON cannot hold surrogates."""
    return text if text.isascii() else _NO_CHARACTER.sub("\ufffd", text)


def _characters(codec: str) -> str:
    """Return the 256 characters of a single-byte codec, with U+FFFD for undefined bytes."""
    return "".join(bytes([byte]).decode(codec, "replace") for byte in range(256))


def _table(characters: str) -> str:
    """Return 256 distinct characters: repeated and undefined ones become lone surrogates."""
    seen = {UNDEFINED}
    distinct = []
    for byte, character in enumerate(characters):
        known = character not in seen
        seen.add(character)
        distinct.append(character if known else chr(0xDC00 + byte))
    return "".join(distinct)


@cache
def _encoding_map(table: str) -> Any:
    return codecs.charmap_build(table)
