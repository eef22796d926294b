"""The trace of a message is found in its MQRFH2, and linked to by a valid address only."""

from __future__ import annotations

import pytest

from mqdlq.errors import HomeError
from mqdlq.headers import DeadLetterHeader, MessageDescriptor
from mqdlq.headers.records import RulesHeader2
from mqdlq.reading.message import VARIABLE, trace_link, traceparent_of

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"


def message(usr: str) -> tuple[bytes, bytes]:
    descriptor = MessageDescriptor(format="MQDEAD", coded_char_set_id=1208).encode()
    header = DeadLetterHeader(
        2053, "PAY", "QM1", 546, 1208, "MQHRF2", 6, "m", "20261121", "11000000"
    ).encode(encoding=546, ccsid=1208)
    folder = usr + " " * (-len(usr) % 4)
    rules = RulesHeader2(
        encoding=546,
        coded_char_set_id=1208,
        format="MQSTR",
        name_value_ccsid=1208,
        folders=(folder,),
    )
    return descriptor, header + rules.encode(encoding=546, ccsid=1208) + b"body"


def test_a_traceparent_in_the_folder_usr_is_found() -> None:
    usr = f"<usr><traceparent>{TRACEPARENT}</traceparent><a>b</a></usr>"

    assert traceparent_of(*message(usr)) == TRACEPARENT


@pytest.mark.parametrize(
    "usr",
    [
        "<usr><a>b</a></usr>",
        "<usr><traceparent>none</traceparent></usr>",
        f"<usr><traceparent>00-{'0' * 32}-00f067aa0ba902b7-01</traceparent></usr>",
        f"<jms><traceparent>{TRACEPARENT}</traceparent></jms>",
    ],
)
def test_a_property_of_another_form_or_place_does_not_count(usr: str) -> None:
    assert traceparent_of(*message(usr)) == ""


def test_a_message_without_headers_has_no_traceparent() -> None:
    assert traceparent_of(MessageDescriptor(format="MQSTR").encode(), b"body") == ""
    assert traceparent_of(b"no descriptor", b"") == ""


def test_the_trace_id_takes_its_place_in_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "https://traces.example.com/trace/{trace_id}?view=1")

    assert trace_link(TRACEPARENT) == f"https://traces.example.com/trace/{TRACE_ID}?view=1"
    assert trace_link("") == ""


def test_without_an_address_no_trace_is_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)

    assert trace_link(TRACEPARENT) == ""


@pytest.mark.parametrize(
    "template",
    [
        "javascript:alert('{trace_id}')",
        "https://traces.example.com/",
        "https://{trace_id}.example.com/",
        "https://traces.example.com/{trace_id}/{span_id}",
        "https:///{trace_id}",
    ],
)
def test_an_address_of_another_form_is_refused(
    monkeypatch: pytest.MonkeyPatch, template: str
) -> None:
    monkeypatch.setenv(VARIABLE, template)

    with pytest.raises(HomeError) as caught:
        trace_link(TRACEPARENT)

    assert str(caught.value) == (
        "MQDLQ_TRACE_URL is not the address of a tool; expected http or https, and {trace_id}"
        " once after the host, such as https://tools.example.com/{trace_id}"
        " [MQDLQ-976]"
    )
