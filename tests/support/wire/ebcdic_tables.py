"""Write the EBCDIC code pages of the headers from the tables of ICU.

``python -m tests.support.wire.ebcdic_tables`` calls ICU's command `uconv` (Debian: apt-get install
icu-devtools).
"""

from __future__ import annotations

import subprocess
from typing import Final

from mqdlq.headers.ccsid import TABLES_FILE, UNDEFINED

_SINGLE_BYTE: Final = (
    *(277, 278, 280, 284, 285, 290, 297, 420, 838, 870, 871, 918, 1025, 1047, 1097, 1112, 1122),
    *(1123, 1130, 1132, 1137, 1141, 1142, 1143, 1144, 1145, 1146, 1147, 1148, 1149, 1153, 1154),
    *(1155, 1156, 1157, 1158, 1160, 1164, 4971, 12712, 16804),
)
_SEVERAL_BYTE: Final = (930, 933, 935, 937, 939, 1364, 1371, 1388, 1390, 1399)
"""Of these, which change to two bytes a character by shift-out, the single bytes are kept."""

_CCSID_924: Final = {
    0x4A: "Ý",
    0x6A: "Š",
    0x9D: "ž",
    0x9F: "€",
    0xB0: "¢",
    0xB7: "Œ",
    0xB8: "œ",
    0xB9: "Ÿ",
    0xBA: "¬",
    0xBB: "š",
    0xBE: "Ž",
}
"""Where CCSID 924 (Latin-9) differs from 1047: ICU's table ibm-924_P100-1998; uconv lacks it."""


def _table_of_icu(ccsid: int) -> str:
    return "".join(_character(ccsid, bytes([byte])) for byte in range(256))


def _character(ccsid: int, byte: bytes) -> str:
    command = ["uconv", "-f", f"ibm-{ccsid}", "-t", "utf-16be", "--from-callback", "substitute"]
    converted = subprocess.run(command, input=byte, capture_output=True, check=True).stdout.decode(
        "utf-16-be"
    )
    # ICU answers a byte it knows no character for with SUB, too; only 3F is SUB itself.
    undefined = len(converted) != 1 or (converted == "\x1a" and byte != b"\x3f")
    return UNDEFINED if undefined else converted


def _generated() -> dict[int, str]:
    found = {ccsid: _table_of_icu(ccsid) for ccsid in (*_SINGLE_BYTE, *_SEVERAL_BYTE)}
    open_systems = list(found[1047])
    for byte, character in _CCSID_924.items():
        open_systems[byte] = character
    found[924] = "".join(open_systems)
    return dict(sorted(found.items()))


if __name__ == "__main__":
    TABLES_FILE.write_text(
        "".join(
            f"{ccsid} {table.encode('utf-16-be').hex()}\n" for ccsid, table in _generated().items()
        ),
        encoding="ascii",
    )
