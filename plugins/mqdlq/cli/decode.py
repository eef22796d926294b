"""The command `mqdlq decode`: show what a message is, and its headers."""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import click

from mqdlq import constants
from mqdlq.cli.output import Output, refusing
from mqdlq.cli.rules import name_of
from mqdlq.errors import PasteError
from mqdlq.headers import ChainedHeader, Description, MessageDescriptor, describe
from mqdlq.headers.ccsid import SPECIAL_CCSIDS, replace_undecodable
from mqdlq.headers.fields import HeaderField, as_json, header_fields, record_fields
from mqdlq.headers.representation import ByteOrder, integer_order
from mqdlq.rules.diagnostics import counted
from mqdlq.tools.dumps import PastedMessage, as_text, read_pasted

_CCSID_NAMES: Final = {
    0: "MQCCSI_UNDEFINED",
    -1: "MQCCSI_EMBEDDED",
    -2: "MQCCSI_INHERIT",
    -3: "MQCCSI_APPL",
}
_BYTES_A_LINE: Final = 16
_OFFSET_WIDTH: Final = 8


def _summary(message: PastedMessage, found: Description) -> Iterator[str]:
    where = f", from line {message.line}" if message.descriptor or message.line > 1 else ""
    yield f"{found.cls}: {counted(message.total_length, 'byte')}{where}"
    if found.dlh:
        names = [name.rstrip("\0") for name in (found.dlh.dest_q_name, found.dlh.dest_q_mgr_name)]
        target = " on ".join(filter(None, map(_visible, names))) or "no queue named"
        yield f"{constants.reason_text(found.dlh.reason)}, meant for {target}"
    if found.problem:
        yield f"note: {found.problem}"


def _chain(message: PastedMessage, found: Description, show_payload: bool) -> Iterator[str]:
    corners = iter("┬" + "┼" * len(found.headers))
    if message.descriptor:
        yield _line("", next(corners), "MQMD")
        yield from _fields(record_fields(message.descriptor), None)
    for header in found.headers:
        about = f"{header.structure}, {_written(header)}"
        yield _line(str(header.offset), next(corners), about)
        yield from _fields(header_fields(header), header.offset)
    length = message.total_length - found.payload_offset
    corner = "┴" if found.headers or message.descriptor else "─"
    yield _line(str(found.payload_offset), corner, f"payload, {counted(length, 'byte')}")
    if show_payload:
        yield from _dump(message.body, found.payload_offset)


def _written(header: ChainedHeader) -> str:
    if header.record is None:
        return "protected by Advanced Message Security, left as it is"
    ccsid = "no CCSID stated" if header.ccsid in SPECIAL_CCSIDS else f"CCSID {header.ccsid}"
    return f"{counted(header.length, 'byte')}, {_endian(header.encoding)}, {ccsid}"


def _endian(encoding: int) -> str:
    return "little-endian" if integer_order(encoding) is ByteOrder.LITTLE else "big-endian"


def _fields(fields: tuple[HeaderField, ...], start: int | None) -> Iterator[str]:
    width = max(len(field.ibm_name) for field in fields)
    within = ""
    for field in fields:
        offset = "" if start is None else str(start + field.offset)
        if field.within != within:
            within = field.within
            yield _line(offset, "│", f"  {within}")
        indent = "    " if within else "  "
        shown = f"{indent}{field.ibm_name:<{width}}  {_value(field)}"
        yield _line(offset, "│", shown.rstrip())


def _line(offset: str, corner: str, text: str) -> str:
    return f"{offset:>{_OFFSET_WIDTH}} {corner} {text}"


def _value(field: HeaderField) -> str:
    value = field.value
    if isinstance(value, bytes):
        return "zeros" if value and not any(value) else value.hex()
    if isinstance(value, str):
        return _visible(value)
    if field.ibm_name == "Encoding":
        order = "no byte order" if integer_order(value) is None else _endian(value)
        return f"{value} ({order})"
    if field.ibm_name in ("CodedCharSetId", "NameValueCCSID") and value in _CCSID_NAMES:
        return f"{_CCSID_NAMES[value]} ({value})"
    return constants.value_text(value, constants.FAMILIES_OF_FIELDS.get(field.ibm_name, ()))


def _visible(text: str) -> str:
    """Show text as it is, what cannot be printed as Python writes it, and count NULs at its end."""
    bare = text.rstrip("\0")
    nuls = len(text) - len(bare)
    shown = replace_undecodable(bare)
    if not shown.isprintable():
        shown = shown.encode("unicode_escape").decode("ascii")
    if not nuls:
        return shown
    return f"{shown} (and {nuls} NUL{'s' * (nuls > 1)})".lstrip()


def _dump(body: bytes, offset: int) -> Iterator[str]:
    for start in range(offset, len(body), _BYTES_A_LINE):
        data = body[start : start + _BYTES_A_LINE]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)  # noqa: PLR2004
        yield _line(str(start), " ", f"  {data.hex(' ', 2):<39}  {characters}")


# The command `mqdlq decode`: show the headers of a message.

_WITHOUT_MQMD: Final = MessageDescriptor(encoding=546, coded_char_set_id=819, format="MQDEAD")


def decode(
    file: BinaryIO,
    *,
    md_format: str | None = None,
    md_encoding: int | None = None,
    md_ccsid: int | None = None,
    output: Output = "text",
    show_payload: bool = False,
) -> None:
    """Implement `mqdlq decode`.

    Each header is read in the encoding and character set that the header before it states, the
    first header in those of the MQMD: of the input, unless an option says otherwise. A message that
    is not a dead letter is decoded too. JSON output has one line for each message.

    Takes:
      FILE: Hexadecimal digits of a message's body, output of amqsbcg, a file of dmpmqmsg, or JSON
        lines of mqdlq qm; - is standard input.
      --md-format F: MQMD.Format; MQDEAD where the input has no MQMD.
      --md-encoding N: MQMD.Encoding; 546 where it has none.
      --md-ccsid N: MQMD.CodedCharSetId; 819 where it has none.
      --show-payload: Show the payload, too, not only its length.

    For example:
      mqdlq qm browse QM1 SYSTEM.DEAD.LETTER.QUEUE --format json | mqdlq decode -
      mqdlq decode dump.txt --format json
    """
    with refusing(PasteError, code=1, prefix=""):
        messages = read_pasted(as_text(file.read()), name_of(file))
    for number, message in enumerate(messages):
        md = message.descriptor or _WITHOUT_MQMD
        found = describe(
            message.body,
            message.total_length,
            encoding=md.encoding if md_encoding is None else md_encoding,
            ccsid=md.coded_char_set_id if md_ccsid is None else md_ccsid,
            format=md.format if md_format is None else md_format,
            msg_flags=md.msg_flags,
        )
        if output == "json":
            click.echo(json.dumps(_as_json(message, found, show_payload)))
        else:
            lines = [*_summary(message, found), "", *_chain(message, found, show_payload)]
            click.echo("\n" * bool(number) + "\n".join(lines))


def _as_json(message: PastedMessage, found: Description, show_payload: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"class": found.cls, "problem": found.problem}
    if message.descriptor:
        shown["MQMD"] = as_json(record_fields(message.descriptor))
    shown["headers"] = [_header_as_json(message, header) for header in found.headers]
    shown["payload_offset"] = found.payload_offset
    shown["payload_length"] = message.total_length - found.payload_offset
    if show_payload:
        shown["payload"] = message.body[found.payload_offset :].hex()
    return shown


def _header_as_json(message: PastedMessage, header: ChainedHeader) -> dict[str, Any]:
    fields = header_fields(header)
    shown: dict[str, Any] = {"type": header.structure, "fields": as_json(fields)}
    undecoded = {
        field.ibm_name: message.body[header.offset + field.offset :][: field.length].hex()
        for field in fields
        if isinstance(field.value, str) and replace_undecodable(field.value) != field.value
    }
    return shown | ({"undecoded": undecoded} if undecoded else {})
