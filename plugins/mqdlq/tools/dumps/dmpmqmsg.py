"""Parse files of dmpmqmsg (formerly qload) into messages.

The first character of a line gives its type: `*` is a comment, `A` a field of the MQMD by its
three-letter code, `X` data in hexadecimal digits, `S` data as text in quotation marks, `T` data as
the text after the blank. A message ends before the fields of the next one (IBM MQ docs, "dmpmqmsg
(queue load and unload)", "Meaning of three letter codes in dmpmqmsg output file").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from mqdlq.errors import PasteError
from mqdlq.tools.dumps.pasted import Draft, PastedMessage, parse_hexadecimal

SOURCE: Final = "dmpmqmsg"
CODES: Final = {
    "RPT": "Report",
    "MST": "MsgType",
    "EXP": "Expiry",
    "FDB": "Feedback",
    "ENC": "Encoding",
    "CCS": "CodedCharSetId",
    "FMT": "Format",
    "PRI": "Priority",
    "PER": "Persistence",
    "MSI": "MsgId",
    "COI": "CorrelId",
    "BOC": "BackoutCount",
    "RTQ": "ReplyToQ",
    "RTM": "ReplyToQMgr",
    "USR": "UserIdentifier",
    "ACC": "AccountingToken",
    "AIX": "ApplIdentityData",
    "PAT": "PutApplType",
    "PAN": "PutApplName",
    "PTD": "PutDate",
    "PTT": "PutTime",
    "AOX": "ApplOriginData",
    "GRP": "GroupId",
    "MSQ": "MsgSeqNumber",
    "OFF": "Offset",
    "MSF": "MsgFlags",
    "ORL": "OriginalLength",
}
_ATTRIBUTE: Final = re.compile(r"A ([A-Z]{3})(?: (.*))?$")
_BEGINNING: Final = re.compile(r"A [A-Z]{3}( |$)|X [0-9A-Fa-f]+")
# With display option a, the digits are followed by the same bytes as characters.
_DIGITS_AND_CHARACTERS: Final = re.compile(r"(\S*)(?:\s+\S.*)?$")


def is_recognised(lines: Sequence[str]) -> bool:
    """Return whether these lines look like a file of dmpmqmsg."""
    return any(_BEGINNING.match(line) for line in lines)


def read(lines: Sequence[str]) -> Iterator[PastedMessage]:
    """Yield the messages; raise `PasteError`."""
    draft: Draft | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("*"):
            continue
        code = _code(line, number)
        if draft is None or (code and (draft.body or code == "VER")):
            if draft is not None:
                yield draft.finish()
            draft = Draft(number, SOURCE)
        if code:
            _set(draft, code, line, number)
        else:
            draft.body += _data(line, number)
    if draft is not None:
        yield draft.finish()


def _code(line: str, number: int) -> str:
    """Return the letters of an attribute line, "" for other lines."""
    if not line.startswith("A"):
        return ""
    match = _ATTRIBUTE.match(line)
    if match is None or match[1] not in ("VER", *CODES):
        raise PasteError(number, f"expected an attribute such as A FMT MQDEAD, found {line[:12]!r}")
    return match[1]


def _set(draft: Draft, code: str, line: str, number: int) -> None:
    written = line[6:]
    if code == "VER":
        if written.strip() not in ("1", "2"):
            raise PasteError(number, f"an MQMD is of version 1 or 2, found {written.strip()!r}")
        return
    ibm_name = CODES[code]
    draft.set(ibm_name, written.strip() if ibm_name.endswith("Id") else written, number)


def _data(line: str, number: int) -> bytes:
    kind, written = line[:1], line[2:]
    match kind:
        case "X":
            found = _DIGITS_AND_CHARACTERS.match(written.rstrip())
            return parse_hexadecimal(found[1] if found else written, number, "the data")
        case "S":
            quoted = written.strip()
            if len(quoted) < 2 or quoted[0] != '"' or quoted[-1] != '"':  # noqa: PLR2004 - ""
                raise PasteError(number, "data after S stands between quotation marks")
            return _characters(quoted[1:-1], number)
        case "T":
            return _characters(written, number)
        case _:
            raise PasteError(
                number, f"a line begins with *, A, X, S or T in a file of dmpmqmsg, found {kind!r}"
            )


def _characters(text: str, number: int) -> bytes:
    """Return text as ASCII bytes; the bytes of other characters are not known."""
    if not text.isascii():
        raise PasteError(
            number, "text data with other than ASCII characters; unload it in hexadecimal digits"
        )
    return text.encode("ascii")
