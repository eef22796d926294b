"""The command `mqdlq decode`: show the headers of a message."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from mqdlq.cli.files import Format, name_of
from mqdlq.cli.messages.decode_text import drawn
from mqdlq.errors import PasteError
from mqdlq.headers import ChainedHeader, Description, describe
from mqdlq.headers.fields import as_json, descriptor_fields, header_fields, undecodable_fields
from mqdlq.headers.pasted_messages import PastedMessage, as_text, read_pasted

_FORMAT: Final = "MQDEAD"
_ENCODING: Final = 546
_CCSID: Final = 819


@dataclass(frozen=True, slots=True)
class _Stated:
    """MQMD fields from the options; None for an option that is not given."""

    format: str | None
    encoding: int | None
    ccsid: int | None


def decode(
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(
            metavar="FILE",
            help="Hexadecimal digits of a message's body, output of amqsbcg, a file of dmpmqmsg, or"
            " JSON lines of mqdlq qm; - is standard input.",
        ),
    ],
    *,
    md_format: Annotated[
        str | None,
        typer.Option(metavar="F", help=f"MQMD.Format; {_FORMAT} where the input has no MQMD."),
    ] = None,
    md_encoding: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"MQMD.Encoding; {_ENCODING} where it has none."),
    ] = None,
    md_ccsid: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"MQMD.CodedCharSetId; {_CCSID} where it has none."),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.TEXT,
    show_payload: Annotated[
        bool, typer.Option("--show-payload", help="Show the payload, too, not only its length.")
    ] = False,
) -> None:
    """Implement `mqdlq decode`.

    Each header is read in the encoding and character set that the header before it states, the
    first header in those of the MQMD: of the input, unless an option says otherwise. A message that
    is not a dead letter is decoded too. JSON output has one line for each message.

    For example:
      mqdlq qm browse QM1 SYSTEM.DEAD.LETTER.QUEUE --format json | mqdlq decode -
      mqdlq decode dump.txt --format json
    """
    stated = _Stated(md_format, md_encoding, md_ccsid)
    try:
        messages = read_pasted(as_text(file.read()), name_of(file))
    except PasteError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from None
    for number, message in enumerate(messages):
        found = _described(message, stated)
        if output is Format.JSON:
            typer.echo(json.dumps(_as_json(message, found, show_payload)))
        else:
            typer.echo("\n" * bool(number) + drawn(message, found, show_payload))


def _described(message: PastedMessage, stated: _Stated) -> Description:
    md = message.descriptor
    encoding, ccsid, md_format = stated.encoding, stated.ccsid, stated.format
    if encoding is None:
        encoding = md.encoding if md else _ENCODING
    if ccsid is None:
        ccsid = md.coded_char_set_id if md else _CCSID
    if md_format is None:
        md_format = md.format if md else _FORMAT
    return describe(
        message.body,
        message.total_length,
        encoding=encoding,
        ccsid=ccsid,
        format=md_format,
        msg_flags=md.msg_flags if md else 0,
    )


def _as_json(message: PastedMessage, found: Description, show_payload: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"class": found.cls, "problem": found.problem}
    if message.descriptor:
        shown["MQMD"] = as_json(descriptor_fields(message.descriptor))
    shown["headers"] = [_header_as_json(message, header) for header in found.headers]
    shown["payload_offset"] = found.payload_offset
    shown["payload_length"] = message.total_length - found.payload_offset
    if show_payload:
        shown["payload"] = message.body[found.payload_offset :].hex()
    return shown


def _header_as_json(message: PastedMessage, header: ChainedHeader) -> dict[str, Any]:
    fields = header_fields(header)
    shown: dict[str, Any] = {"type": header.structure, "fields": as_json(fields)}
    if unread := undecodable_fields(fields):
        shown["undecoded"] = {
            field.ibm_name: message.body[header.offset + field.offset :][: field.length].hex()
            for field in unread
        }
    return shown
