"""Messages without their trace properties: what goes, and that nothing else does."""

from __future__ import annotations

import pytest

from mqdlq.headers import (
    DeadLetterHeader,
    MessageDescriptor,
    RulesHeader2,
    encode_dlh,
    encode_md,
    encode_rfh2,
    without_trace_properties,
)

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
    return encode_md(
        MessageDescriptor(encoding=encoding, coded_char_set_id=ccsid, format=name, msg_id=b"m" * 24)
    )


def rfh2(*folders: str, name: str = "MQSTR") -> bytes:
    header = RulesHeader2(
        coded_char_set_id=LATIN_1, format=name, folders=tuple(map(padded, folders))
    )
    return encode_rfh2(header, encoding=NATIVE, ccsid=UTF_8)


def dead_letter(ccsid: int, name: str) -> bytes:
    header = DeadLetterHeader(
        reason=2053, dest_q_name="A", encoding=NATIVE, coded_char_set_id=ccsid, format=name
    )
    return encode_dlh(header, encoding=NATIVE, ccsid=LATIN_1)


DEAD = described(NATIVE, LATIN_1, "MQDEAD")


@pytest.mark.parametrize("trace", [*TRACES, "".join(TRACES)])
@pytest.mark.parametrize("folder", ["<usr>{0}{1}</usr>", "<usr>{1}{0}</usr>"])
def test_trace_properties_go_and_the_others_stay(trace: str, folder: str) -> None:
    before = dead_letter(UTF_8, "MQHRF2") + rfh2(folder.format(trace, OTHER), "<mcd><x/></mcd>")
    after = dead_letter(UTF_8, "MQHRF2") + rfh2(f"<usr>{OTHER}</usr>", "<mcd><x/></mcd>")

    assert without_trace_properties(DEAD, before + b"body") == (DEAD, after + b"body")
    assert without_trace_properties(DEAD, after + b"body") == (DEAD, after + b"body")


def test_a_header_with_nothing_else_in_it_goes_behind_an_mqdlh() -> None:
    body = dead_letter(UTF_8, "MQHRF2") + rfh2(f"<usr>{TRACES[0]}</usr>") + b"body"

    plain = dead_letter(LATIN_1, "MQSTR") + b"body"
    assert without_trace_properties(DEAD, body) == (DEAD, plain)


def test_a_header_with_nothing_else_in_it_goes_behind_the_mqmd() -> None:
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
def test_whatever_else_looks_like_it_stays(body: bytes) -> None:
    md = described(NATIVE, UTF_8, "MQHRF2")

    assert without_trace_properties(md, body) == (md, body)
