"""The PCF codec reads written messages again, and reads or refuses any bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_mq.pcf import constants as cf
from embedded_mq.pcf import messages as pcf
from embedded_mq.pcf.messages import Header, Parameter, PcfError

pytestmark = pytest.mark.slow

LONGS = st.integers(-(2**31), 2**31 - 1)
LONGS64 = st.integers(-(2**63), 2**63 - 1)
DATA = st.binary(max_size=40)
REASONS = {0, *(value for name, value in vars(cf).items() if name.startswith("MQRCCF_"))}
ORDERS = st.sampled_from("<>")


def equally_long(count_and_length: tuple[int, int]) -> st.SearchStrategy[tuple[bytes, ...]]:
    count, length = count_and_length
    texts = st.binary(min_size=length, max_size=length)
    return st.lists(texts, min_size=count, max_size=count).map(tuple)


STRINGS = st.tuples(st.integers(0, 4), st.integers(1, 20)).flatmap(equally_long)
HEADERS = st.builds(
    Header, LONGS, LONGS, LONGS, LONGS, LONGS, LONGS, st.integers(1, cf.MQCFH_VERSION_3)
)


def parameters(kind: int, values: st.SearchStrategy[pcf.Value]) -> st.SearchStrategy[Parameter]:
    fields = pcf.FORMS[kind].fields
    operators = LONGS if "operator" in fields else st.just(0)
    ccsids = LONGS if "ccsid" in fields else st.just(0)
    return st.builds(Parameter, st.just(kind), LONGS, values, operators, ccsids)


SIMPLE = st.one_of(
    parameters(cf.MQCFT_INTEGER, LONGS),
    parameters(cf.MQCFT_INTEGER64, LONGS64),
    parameters(cf.MQCFT_INTEGER_LIST, st.lists(LONGS, max_size=5).map(tuple)),
    parameters(cf.MQCFT_INTEGER64_LIST, st.lists(LONGS64, max_size=5).map(tuple)),
    parameters(cf.MQCFT_STRING, DATA),
    parameters(cf.MQCFT_STRING_LIST, STRINGS),
    parameters(cf.MQCFT_BYTE_STRING, DATA),
    parameters(cf.MQCFT_INTEGER_FILTER, LONGS),
    parameters(cf.MQCFT_STRING_FILTER, DATA),
    parameters(cf.MQCFT_BYTE_STRING_FILTER, DATA),
)
PARAMETERS = st.recursive(
    SIMPLE,
    lambda inner: parameters(cf.MQCFT_GROUP, st.lists(inner, max_size=3).map(tuple)),
    max_leaves=8,
)
MESSAGES = st.tuples(HEADERS, st.lists(PARAMETERS, max_size=5).map(tuple))


@given(message=MESSAGES, order=ORDERS)
def test_a_written_pcf_message_is_read_again(
    message: tuple[Header, tuple[Parameter, ...]], order: str
) -> None:
    data = pcf.write(*message, order)

    assert len(data) % 4 == 0
    assert pcf.read(data, order) == message


def reason_of(data: bytes, order: str = "<") -> int:
    """Read a message that may be wrong; return the number of its reason code, 0 if it is right."""
    try:
        pcf.read(data, order)
    except PcfError as error:
        return cf.reason_code(error.reason)
    return 0


@given(message=MESSAGES, cut=st.integers(1, 400))
def test_a_truncated_pcf_message_is_refused(
    message: tuple[Header, tuple[Parameter, ...]], cut: int
) -> None:
    data = pcf.write(*message)

    assert reason_of(data[: max(0, len(data) - cut)]) == cf.MQRCCF_MSG_LENGTH_ERROR


@given(message=MESSAGES, place=st.integers(0, 200), value=LONGS)
def test_a_pcf_message_with_a_wrong_number_is_read_or_refused(
    message: tuple[Header, tuple[Parameter, ...]], place: int, value: int
) -> None:
    data = bytearray(pcf.write(*message))
    struct.pack_into("<i", data, 4 * (place % (len(data) // 4)), value)

    assert reason_of(bytes(data)) in REASONS


@given(data=st.binary(max_size=300), order=ORDERS)
def test_any_bytes_are_read_or_refused_as_a_pcf_message(data: bytes, order: str) -> None:
    start = struct.pack(f"{order}9i", 1, 36, 3, 13, 1, 1, 0, 0, 2)

    assert reason_of(start + data, order) in REASONS
