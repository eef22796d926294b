"""Filters of messages are rendered to query strings and parsed from them."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqdlq.lake.filters import PARAMETERS, FilterError, MessageFilter, Presence
from mqdlq.model import Outcome

NAMES = (
    st.text(max_size=48)
    .map(lambda text: text.rstrip(" "))
    .filter(lambda text: text == "" or text.strip() != "")
)
STATES = (
    "on_queue, departed, no_outcome, delivered, forwarded, discarded, left_by_rule, leased_by_run,"
    " expired, taken, not_attempted, not_selected, retry_pending, unprocessable, unmatched,"
    " exhausted, quarantined, unknown"
)
TIMES = st.none() | st.datetimes(timezones=st.just(UTC))


def digits(length: int) -> st.SearchStrategy[str]:
    return st.just("") | st.binary(min_size=length // 2, max_size=length // 2).map(bytes.hex)


@st.composite
def filters(draw: st.DrawFn) -> MessageFilter:
    since, until = draw(TIMES), draw(TIMES)
    if since and until and since >= until:
        since = None
    names = "text queue_manager queue application user dest_q_name dest_q_mgr_name format"
    return MessageFilter(
        msg_id=draw(digits(48)),
        correl_id=draw(digits(48)),
        message_key=draw(digits(64)),
        cause_id=draw(digits(12)),
        reason=draw(st.none() | st.integers(0, 2**31 - 1)),
        since=since,
        until=until,
        expires_before=draw(TIMES),
        state=draw(st.none() | st.sampled_from([*Outcome, *Presence])),
        **{name: draw(NAMES) for name in names.split()},
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # it draws sixteen fields
@given(filters())
def test_a_filter_survives_its_query_string(chosen: MessageFilter) -> None:
    query = urlencode(chosen.parameters())
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))

    assert MessageFilter.parse(pairs) == chosen


def test_blank_parameters_and_those_of_the_page_narrow_nothing() -> None:
    pairs = [("application", "  "), ("page", "3"), ("reason", "")]

    assert MessageFilter.parse(pairs, others=["page"]).is_empty


def test_a_last_day_is_included() -> None:
    chosen = MessageFilter.parse([("since", "2026-11-21"), ("until", "2026-11-21")])

    assert chosen.since == datetime(2026, 11, 21, tzinfo=UTC)
    assert chosen.until == datetime(2026, 11, 22, tzinfo=UTC)


def test_a_reason_may_be_given_by_its_name() -> None:
    assert MessageFilter.parse([("reason", "mqrc_q_full")]).reason == 2053


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        (
            [("msg_id", "abc")],
            "msg_id: found 'abc'; expected 48 hexadecimal digits, or at least the first 6",
        ),
        (
            [("message_key", "g" * 70)],
            f"message_key: found '{'g' * 64}…'; expected 64 hexadecimal digits, or at least the \
first 6",
        ),
        (
            [("reason", "FULL")],
            "reason: found 'FULL'; expected a reason code such as 2053, or its name such as \
MQRC_Q_FULL",
        ),
        (
            [("since", "yesterday")],
            "since: found 'yesterday'; expected a day or a time in UTC, such as 2026-11-21 or \
2026-11-21T09:30",
        ),
        (
            [("since", "2026-11-22"), ("until", "2026-11-21")],
            "until: it is not after since; expected a later day or time",
        ),
        (
            [("user", "a"), ("user", "b")],
            "user: it is given twice; expected one value",
        ),
        (
            [("user", "a" * 201)],
            "user: it has 201 characters; expected at most 200",
        ),
        (
            [("aplication", "PAY")],
            f"aplication: no filter has this name; expected one of {', '.join(PARAMETERS)}",
        ),
        (
            [("state", "lost")],
            f"state: found 'lost'; expected one of {STATES}",
        ),
    ],
)
def test_a_fault_is_named_with_its_parameter_and_correction(
    pairs: list[tuple[str, str]], text: str
) -> None:
    with pytest.raises(FilterError) as caught:
        MessageFilter.parse(pairs)

    assert str(caught.value) == f"{text} [MQDLQ-975]"
