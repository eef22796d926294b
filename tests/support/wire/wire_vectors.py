"""Write tests/corpus/wire/*.json: `python -m tests.support.wire.wire_vectors`.

A vector is a message body in hexadecimal digits, the fields of its MQMD that describe it, and the
expected result of reading it. Bodies and expectations are built together from `wire_layouts`, which
was written by hand; nothing here imports the code under test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.wire.wire_layouts import KINDS, complete, order, packed, text

CORPUS = Path(__file__).parents[2] / "corpus" / "wire"
PAYLOAD = b"payload"
ASCII_LITTLE, EBCDIC_BIG = (546, 819), (785, 500)
NOT_ALL = "MQDLH needs 172 bytes, the message has {}"


@dataclass
class Body:
    """A body that is being written, with the headers that a reader must find in it."""

    encoding: int = 546
    ccsid: int = 819
    format: str = "MQDEAD"
    data: bytes = b""
    headers: list[dict[str, Any]] = field(default_factory=list)
    following: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self.following = (self.encoding, self.ccsid)

    def add(self, kind: str, says: tuple[int, int], format: str, **values: Any) -> Body:  # noqa: A002
        """Add a header, written as announced; it states how the following bytes are written."""
        layout = KINDS[kind]
        own = {"Encoding": says[0], "CodedCharSetId": says[1], "Format": format}
        known = {name for name, *_ in layout.fields}
        if kind == "MQXQH":
            return self._add_xqh(own, says, values)
        folders = values.pop("folders", None)
        rest = b"" if folders is None else self._folders(kind, folders, values)
        values = complete(kind, {**{k: v for k, v in own.items() if k in known}, **values})
        if rest:
            values["StrucLength"] = layout.length + len(rest)
        data = packed(kind, values, *self.following) + rest
        fields = {"StrucId": layout.struc_id, "Version": layout.version, **values}
        if kind == "MQRFH2":
            fields["NameValueData"] = folders
        if kind == "MQRFH":
            fields["NameValueString"] = (folders or [""])[0].rstrip(" ")
        if kind == "MQRFH2" and not folders:
            del fields["NameValueData"]
        self._found(layout.type, data, fields)
        if kind not in ("MQCIH_1", "MQCIH_2", "MQIIH"):  # their Encoding and CCSID are reserved
            self.following = (says[0], self.following[1] if says[1] == -2 else says[1])
        return self

    def _add_xqh(self, own: dict[str, Any], says: tuple[int, int], values: dict[str, Any]) -> Body:
        md = complete("MQMD", {**own, **values.pop("md", {})})
        values = complete("MQXQH", values)
        data = packed("MQXQH", values, *self.following) + packed("MQMD", md, *self.following)
        fields = {"StrucId": "XQH ", "Version": 1, **values}
        fields["MsgDesc"] = {"StrucId": "MD  ", "Version": 1, **md}
        self._found("MQXQH", data, fields)
        self.following = says
        return self

    def _folders(self, kind: str, folders: list[str], values: dict[str, Any]) -> bytes:
        encoding, ccsid = self.following
        if kind == "MQRFH":
            return text(folders[0], ccsid)
        utf_16 = "utf-16-be" if order(encoding) == "big" else "utf-16-le"
        codec = "utf-8" if values["NameValueCCSID"] == 1208 else utf_16
        pieces = [folder.encode(codec) for folder in folders]
        return b"".join(len(piece).to_bytes(4, order(encoding)) + piece for piece in pieces)

    def _found(self, type: str, data: bytes, fields: dict[str, Any]) -> None:  # noqa: A002
        self.headers.append(
            {"type": type, "offset": len(self.data), "length": len(data), "fields": fields}
        )
        self.data += data

    def vector(self, name: str, problem: str = "", payload: bytes = PAYLOAD) -> dict[str, Any]:
        """Return the vector of a dead letter with all the headers added."""
        judged = ("dead_letter", problem)
        end = len(self.data)
        return _vector(name, self, self.data + payload, judged, self.headers, payload_offset=end)

    def cut(self, name: str, length: int, problem: str) -> dict[str, Any]:
        """Return the vector of a dead letter cut off within its last header."""
        *whole, last = self.headers
        told = f"{problem}; from offset {last['offset']} on all is payload"
        data = self.data[: last["offset"] + length]
        judged = ("dead_letter", told)
        return _vector(name, self, data, judged, whole, payload_offset=last["offset"])

    def no_letter(self, name: str, cls: str, problem: str, data: bytes) -> dict[str, Any]:
        """Return the vector of a message that is not a dead letter."""
        return _vector(name, self, data, (cls, problem), [], payload_offset=0)


def _vector(
    name: str,
    body: Body,
    data: bytes,
    judged: tuple[str, str],
    headers: list[dict[str, Any]],
    *,
    payload_offset: int,
) -> dict[str, Any]:
    return {
        "name": name,
        "hex": data.hex(),
        "md": {"format": body.format, "encoding": body.encoding, "ccsid": body.ccsid},
        "class": judged[0],
        "problem": judged[1],
        "headers": headers,
        "payload_offset": payload_offset,
        "payload_length": len(data) - payload_offset,
    }


DLH: dict[str, Any] = {
    "Reason": 2053,
    "DestQName": "PAYMENTS.IN",
    "DestQMgrName": "QM1",
    "PutApplType": 6,
    "PutApplName": "amqrmppa",
    "PutDate": "20261121",
    "PutTime": "09153042",
}


def letter(
    written: tuple[int, int] = ASCII_LITTLE,
    says: tuple[int, int] = ASCII_LITTLE,
    format: str = "MQSTR",  # noqa: A002
    md_format: str = "MQDEAD",
    **values: Any,
) -> Body:
    """Begin a body with an MQDLH."""
    return Body(*written, md_format).add("MQDLH", says, format, **{**DLH, **values})


def dead_letters() -> Iterator[dict[str, Any]]:
    """Yield every byte order with every code page, and special cases of dead letters."""
    names = {
        819: "Müller", 1208: "Müller €", 437: "Müller", 850: "Müller", 1252: "Müller €",
        37: "a[b]^c", 273: "Müller ß", 500: "a[b]^c!", 1140: "price €", 1047: "a[b]^c",
        1141: "Müller €", 1146: "£5 or $6 or €7", 1148: "a[b] €",
    }  # fmt: skip
    for ccsid, name in names.items():
        for encoding in (546, 273, 785):
            yield letter((encoding, ccsid), PutApplName=name).vector(
                f"an MQDLH in Encoding {encoding} and CCSID {ccsid}"
            )
    for encoding, ccsid in ((17, 819), (34, 819), (1, 37), (2, 37), (1041, 500), (-4095, 819)):
        yield letter((encoding, ccsid)).vector(
            f"only the last digit of Encoding {encoding} tells the byte order"
        )
    for ccsid in (0, -1, -2, -3):
        note = f"MQMD.CodedCharSetId {ccsid} names no code page; the MQDLH was read by its StrucId"
        for written in (819, 500):
            body = letter((546, written))
            body.ccsid = ccsid
            yield body.vector(f"CCSID {ccsid} over a header in {written}", note)
    for md_format in ("MQSTR", "", "mqdead"):
        yield letter(md_format=md_format).vector(
            f"an MQDLH under MQMD.Format {md_format!r}",
            f"MQMD.Format is {md_format!r}, not MQDEAD",
        )
    for date, time in (("20261321", "09153042"), ("", ""), ("21.11.26", "09:15:30")):
        yield letter(PutDate=date, PutTime=time).vector(
            f"a date and time that are none: {date!r} {time!r}",
            f"MQDLH.PutDate {date!r} and PutTime {time!r} are not a date and time "
            "(YYYYMMDD, HHMMSSTH)",
        )
    yield letter(DestQName="Q" + "\0" * 47).vector("a name that NULs fill up")
    yield letter().vector("a dead letter without payload", payload=b"")
    yield letter(Reason=-1, PutApplType=2**31 - 1).vector("numbers at the ends of their range")
    yield letter(says=(546, 99999)).vector(
        "a CCSID nobody knows for what follows",
        "MQDLH.CodedCharSetId 99999 is not a CCSID known here",
    )


def no_dead_letters() -> Iterator[dict[str, Any]]:
    """Yield messages that are not dead letters, with the reasons."""
    for written in (ASCII_LITTLE, EBCDIC_BIG):
        body = letter(written)
        for _, _, offset, _ in [*KINDS["MQDLH"].fields, ("", "", 171, 0), ("", "", 4, 0)]:
            yield body.no_letter(
                f"an MQDLH cut off at {offset}, CCSID {written[1]}",
                "truncated_dlh", NOT_ALL.format(offset), body.data[:offset],
            )  # fmt: skip
        for length in (0, 3):
            yield body.no_letter(
                f"no more than {length} bytes, CCSID {written[1]}",
                "no_dlh", "no MQDLH, although MQMD.Format is MQDEAD", body.data[:length],
            )  # fmt: skip
    only = "; only 1 exists"
    other = ", it would be 1 in the other byte order"
    for encoding, told, swapped in ((546, 273, True), (273, 546, True), (785, 546, True)):
        body = letter((encoding, 819))
        body.encoding = told
        yield body.no_letter(
            f"an MQDLH in Encoding {encoding} under {told}", "unsupported_dlh_version",
            f"MQDLH.Version is 16777216 in MQMD.Encoding {told}{other * swapped}{only}", body.data,
        )  # fmt: skip
    body = letter()
    yield body.no_letter(
        "an MQDLH of version 2", "unsupported_dlh_version",
        f"MQDLH.Version is 2 in MQMD.Encoding 546{only}", b"DLH \2\0\0\0" + body.data[8:],
    )  # fmt: skip
    for of_body, told in ((819, 500), (819, 1047), (500, 819), (37, 1208)):
        family, other_family = ("ASCII", "EBCDIC") if of_body == 819 else ("EBCDIC", "ASCII")
        body = letter((546, of_body))
        body.ccsid = told
        yield body.no_letter(
            f"an MQDLH in {of_body} under {told}", "undecodable",
            f"StrucId is {family}, but MQMD.CodedCharSetId {told} is {other_family}", body.data,
        )  # fmt: skip
    for ccsid in (1200, 99999):
        body = letter()
        body.ccsid = ccsid
        yield body.no_letter(
            f"an MQDLH under CCSID {ccsid}", "undecodable",
            f"MQMD.CodedCharSetId {ccsid} is not a CCSID known here for headers", body.data,
        )  # fmt: skip
    body = letter()
    body.encoding = 0
    yield body.no_letter(
        "an MQDLH under an Encoding without a byte order", "undecodable",
        "MQMD.Encoding 0 states no byte order for integers", body.data,
    )  # fmt: skip
    yield Body(format="MQSTR").no_letter("a plain message", "no_dlh", "no MQDLH", b"hello" * 50)


SAMPLES: dict[str, dict[str, Any]] = {
    "MQDLH": {**DLH, "Reason": 2085},
    "MQMDE": {"GroupId": "ab" * 24, "MsgSeqNumber": 7, "Offset": 4096, "OriginalLength": -1},
    "MQXQH": {
        "RemoteQName": "ORDERS", "RemoteQMgrName": "QM2",
        "md": {"MsgType": 8, "Expiry": -1, "MsgId": "0f" * 24, "ReplyToQ": "REPLIES",
               "UserIdentifier": "anna", "PutApplName": "orders", "PutDate": "20261120"},
    },
    "MQRFH": {"folders": ["MQPSCommand Publish MQPSTopic a/b    "]},
    "MQRFH2": {
        "NameValueCCSID": 1208,
        "folders": ["<mcd><Msd>jms_text</Msd></mcd>  ", "<usr><name>Müller</name></usr>  "],
    },
    "MQCIH_1": {"UOWControl": 273, "Facility": "0102030405060708", "TransactionId": "PAY1"},
    "MQCIH_2": {"Function": "LINK", "AbendCode": "ASRA", "CursorPosition": -3, "InputItem": 9},
    "MQIIH": {"LTermOverride": "LTERM7", "TranInstanceId": "77" * 16, "TranState": "C",
              "CommitMode": "0", "SecurityScope": "F"},
    "MQTM": {"QName": "PAYMENTS", "ProcessName": "PROC", "ApplType": 6, "ApplId": "/opt/pay",
             "UserData": "&"},
}  # fmt: skip
WRITTEN = [(546, 819), (273, 1208), (785, 37), (546, 500), (785, 1047)]


def headers() -> Iterator[dict[str, Any]]:
    """Yield each header after an MQDLH, written in several ways, complete and truncated."""
    for kind, values in SAMPLES.items():
        for written in WRITTEN:
            yield _behind(kind, values, written).vector(
                f"{kind} in Encoding {written[0]} and CCSID {written[1]}"
            )
        yield from _cut_off(kind, values)
    for encoding in (546, 273):
        body = letter(says=(encoding, 819), format="MQHRF2")
        body.add("MQRFH2", ASCII_LITTLE, "MQSTR", NameValueCCSID=1200, folders=["<a>é€</a>"])
        yield body.vector(f"folders in UTF-16, Encoding {encoding}")
    yield (
        letter(format="MQHRF2")
        .add("MQRFH2", ASCII_LITTLE, "MQSTR", NameValueCCSID=1208)
        .vector("an MQRFH2 without folders")
    )


def _behind(kind: str, values: dict[str, Any], written: tuple[int, int]) -> Body:
    body = letter(says=written, format=KINDS[kind].format)
    return body.add(kind, ASCII_LITTLE, "MQSTR", **values)


def _cut_off(kind: str, values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    layout = KINDS[kind]
    whole = layout.length + (324 if kind == "MQXQH" else 0)
    offsets = [0, 4, *(offset for _, _, offset, _ in layout.fields), whole - 1]
    if kind == "MQXQH":
        offsets += [104 + offset for _, _, offset, _ in KINDS["MQMD"].fields]
    for length in sorted(set(offsets)):
        body = _behind(kind, values, ASCII_LITTLE)
        # Before its Version is there, an MQCIH counts as one of the newest.
        needed = 180 if kind == "MQCIH_1" and length < 8 else whole
        problem = f"{layout.type} at offset 172: expected {needed} bytes, found {length}"
        yield body.cut(f"{kind} cut off at {length}", length, problem)
    if kind.startswith("MQRFH"):
        body = _behind(kind, values, ASCII_LITTLE)
        stated = body.headers[-1]["length"]
        for length in (layout.length, layout.length + 4, stated - 1):
            yield body.cut(
                f"{kind} cut off at {length}", length,
                f"{layout.type} at offset 180: expected StrucLength from {layout.length} to the "
                f"{length} bytes there are, found {stated}",
            )  # fmt: skip


def chains() -> Iterator[dict[str, Any]]:
    """Yield messages with several headers, each written differently."""
    big, small, zos = (273, 1208), (546, 819), (785, 1047)
    yield (
        letter(says=zos, format="MQXMIT")
        .add("MQXQH", small, "MQHMDE", **SAMPLES["MQXQH"])
        .add("MQMDE", big, "MQHRF2", **SAMPLES["MQMDE"])
        .add("MQRFH2", small, "MQSTR", **SAMPLES["MQRFH2"])
        .vector("a message for another queue manager, in a group, with properties")
    )
    yield (
        letter(zos, says=zos, format="MQHRF2")
        .add("MQRFH2", (785, 37), "MQCICS", **SAMPLES["MQRFH2"])
        .add("MQCIH_2", (99, 99), "MQSTR", **SAMPLES["MQCIH_2"])
        .vector("properties before a CICS bridge header")
    )
    yield (
        letter(says=zos, format="MQIMS")
        .add("MQIIH", (99, 99), "MQDEAD", **SAMPLES["MQIIH"])
        .add("MQDLH", small, "MQHRF", **SAMPLES["MQDLH"])
        .add("MQRFH", small, "MQSTR", **SAMPLES["MQRFH"])
        .vector("what follows an MQIIH is written as the MQIIH")
    )
    for written in WRITTEN:
        yield (
            letter(says=written, format="MQDEAD")
            .add("MQDLH", zos, "MQDEAD", **SAMPLES["MQDLH"])
            .add("MQDLH", small, "MQSTR", **SAMPLES["MQDLH"])
            .vector(f"dead-lettered three times, the second time in {written}")
        )
        yield (
            letter(written, says=(written[0], -2), format="MQHMDE")
            .add("MQMDE", (written[0], -2), "MQHRF2", **SAMPLES["MQMDE"])
            .add("MQRFH2", written, "MQTRIG", **SAMPLES["MQRFH2"])
            .add("MQTM", small, "", **SAMPLES["MQTM"])
            .vector(f"MQCCSI_INHERIT from one header to the next, in {written}")
        )
    body = letter(format="MQHRF2").add("MQRFH2", zos, "MQXMIT", **SAMPLES["MQRFH2"])
    body.add("MQXQH", small, "MQSTR", **SAMPLES["MQXQH"])
    start = body.headers[-1]["offset"]
    yield body.cut(
        "the third header of a chain is cut off", 400,
        f"MQXQH at offset {start}: expected 428 bytes, found 400",
    )  # fmt: skip
    for struc_id, name in ((b"PDMQ", "ASCII"), (b"\xd7\xc4\xd4\xd8", "EBCDIC")):
        body = letter()
        found = body.vector(f"a payload protected by AMS, {name}", "", struc_id + bytes(60))
        opaque = {"type": "PDMQ", "offset": 172, "length": 0, "fields": {"StrucId": "PDMQ"}}
        yield found | {"headers": [*found["headers"], opaque]}


FILES = {
    "dead_letters": dead_letters,
    "no_dead_letters": no_dead_letters,
    "headers": headers,
    "chains": chains,
}


def written(name: str) -> str:
    """Return the content of one file: a JSON list, a vector a line."""
    lines = ",\n".join(json.dumps(vector, ensure_ascii=False) for vector in FILES[name]())
    return f"[\n{lines}\n]\n"


if __name__ == "__main__":
    for name in FILES:
        (CORPUS / f"{name}.json").write_text(written(name), encoding="utf-8")
