"""Removal of trace properties from messages, without any other change."""

from __future__ import annotations

import pytest

from mqdlq.headers import (
    DeadLetterHeader,
    MessageDescriptor,
    RulesHeader2,
    without_trace_properties,
)
from mqdlq.headers.records import RulesHeader

NATIVE, LATIN_1, UTF_8 = 546, 819, 1208
TRACES = (
    "<traceparent>00-1-2-01</traceparent>",
    "<tracestate dt='string'>mq=1</tracestate>",
    "<traceparent xsi:nil='true'/>",
)
OTHER = "<colour>red</colour>"


def padded(folder: str) -> str:
    return folder + " " * (-len(folder.encode()) % 4)


def described(encoding: int, ccsid: int, name: str) -> bytes:
    return MessageDescriptor(
        encoding=encoding, coded_char_set_id=ccsid, format=name, msg_id=b"m" * 24
    ).encode()


def rfh2(*folders: str, name: str = "MQSTR") -> bytes:
    header = RulesHeader2(
        coded_char_set_id=LATIN_1, format=name, folders=tuple(map(padded, folders))
    )
    return header.encode(encoding=NATIVE, ccsid=UTF_8)


def dead_letter(ccsid: int, name: str) -> bytes:
    header = DeadLetterHeader(
        reason=2053, dest_q_name="A", encoding=NATIVE, coded_char_set_id=ccsid, format=name
    )
    return header.encode(encoding=NATIVE, ccsid=LATIN_1)


DEAD = described(NATIVE, LATIN_1, "MQDEAD")


@pytest.mark.parametrize("trace", [*TRACES, "".join(TRACES)])
@pytest.mark.parametrize("folder", ["<usr>{0}{1}</usr>", "<usr>{1}{0}</usr>"])
def test_only_trace_properties_are_removed_from_a_header(trace: str, folder: str) -> None:
    before = dead_letter(UTF_8, "MQHRF2") + rfh2(folder.format(trace, OTHER), "<mcd><x/></mcd>")
    after = dead_letter(UTF_8, "MQHRF2") + rfh2(f"<usr>{OTHER}</usr>", "<mcd><x/></mcd>")

    assert without_trace_properties(DEAD, before + b"body") == (DEAD, after + b"body")
    assert without_trace_properties(DEAD, after + b"body") == (DEAD, after + b"body")


def test_an_rfh2_with_trace_properties_only_is_removed_after_an_mqdlh() -> None:
    body = dead_letter(UTF_8, "MQHRF2") + rfh2(f"<usr>{TRACES[0]}</usr>") + b"body"

    plain = dead_letter(LATIN_1, "MQSTR") + b"body"
    assert without_trace_properties(DEAD, body) == (DEAD, plain)


def test_an_rfh2_with_trace_properties_only_is_removed_after_the_mqmd() -> None:
    md = described(NATIVE, UTF_8, "MQHRF2")
    body = rfh2(f"<usr>{TRACES[0]}</usr>", name="MQHRF2") + rfh2(f"<usr>{TRACES[1]}</usr>")

    plain = described(NATIVE, LATIN_1, "MQSTR"), b"body"
    assert without_trace_properties(md, body + b"body") == plain


@pytest.mark.parametrize(
    "body",
    [
        b"<usr><traceparent>in the data</traceparent></usr>",
        rfh2("<mcd><traceparent>x</traceparent></mcd>"),
        rfh2("<usr><traceparents>x</traceparents></usr>"),
        rfh2("<usr><group><traceparent>x</traceparent></group></usr>")[:-1],
    ],
)
def test_bodies_that_resemble_trace_properties_are_unchanged(body: bytes) -> None:
    md = described(NATIVE, UTF_8, "MQHRF2")

    assert without_trace_properties(md, body) == (md, body)


OF_ANOTHER = (
    rfh2(f"<usr><group>{TRACES[0]}</group></usr>"),
    rfh2(f"<usr><!--{TRACES[0]}-->{OTHER}</usr>"),
    rfh2(f"<usr>{OTHER}</usr><jms>{TRACES[0]}</jms>"),
    rfh2(f"<jms>{TRACES[0]}</jms>"),
    rfh2(f"<usr>{OTHER}</usr>", f"<mcd>{TRACES[0]}</mcd>"),
)


@pytest.mark.parametrize("before", OF_ANOTHER)
def test_the_names_of_trace_properties_elsewhere_are_unchanged(before: bytes) -> None:
    md = described(NATIVE, UTF_8, "MQHRF2")

    assert without_trace_properties(md, before + b"body") == (md, before + b"body")


@pytest.mark.parametrize(("folder", "flags"), [("<usr a='1'>{}</usr>", 0), ("<usr>{}</usr>", 1)])
def test_an_mqrfh2_with_other_content_is_kept(folder: str, flags: int) -> None:
    folders = (padded(folder.format(TRACES[0])),)
    header = RulesHeader2(NATIVE, LATIN_1, "MQSTR", flags, folders=folders)
    md = described(NATIVE, UTF_8, "MQHRF2")

    kept, body = without_trace_properties(md, header.encode(encoding=NATIVE, ccsid=UTF_8) + b"body")

    assert kept == md
    assert body.startswith(b"RFH ")
    assert b"traceparent" not in body


MANY_FOLDERS = RulesHeader2(NATIVE, UTF_8, "MQHRF2", folders=("",) * 1001)


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("MQHRF", RulesHeader(NATIVE, UTF_8, "MQHRF2").encode(encoding=NATIVE, ccsid=LATIN_1)),
        ("MQHRF2", MANY_FOLDERS.encode(encoding=NATIVE, ccsid=LATIN_1)),
    ],
    ids=["another header", "a header that is not read whole"],
)
def test_a_header_is_removed_only_if_the_previous_header_can_be_encoded_again(
    name: str, before: bytes
) -> None:
    """The previous header describes the removed one, and must describe the data after it."""
    md = described(NATIVE, LATIN_1, name)
    body = before + rfh2(f"<usr>{TRACES[0]}</usr>") + b"body"

    assert without_trace_properties(md, body) == (md, body)
    kept = before + rfh2(f"<usr>{TRACES[0]}{OTHER}</usr>") + b"body"
    assert without_trace_properties(md, kept)[1] == before + rfh2(f"<usr>{OTHER}</usr>") + b"body"
