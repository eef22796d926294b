"""Parse values of MQSERVER, and reject malformed ones with one clear error."""

from __future__ import annotations

import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqdlq.errors import ConnectionSettingsError
from mqdlq.mqi.ccdt import ClientChannel, parse_mqserver

EXPECTED = (
    "; expected ChannelName/TCP/host(port), such as"
    " DEV.APP.SVRCONN/TCP/mq1.example.com(1414) [MQDLQ-140]"
)
NAMES = st.text(string.ascii_letters + string.digits + "._%", min_size=1, max_size=20)
HOSTS = st.text(string.ascii_letters + string.digits + ".-:_", min_size=1, max_size=40)
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
ADDRESSES = st.tuples(HOSTS, st.integers(1, 65535))


@PATIENT
@given(NAMES, st.lists(ADDRESSES, min_size=1, max_size=4).map(tuple), st.sampled_from([",", ", "]))
def test_a_written_channel_is_read_back(
    name: str, addresses: tuple[tuple[str, int], ...], comma: str
) -> None:
    written = comma.join(f"{host}({port})" for host, port in addresses)
    text = f"{name}/TCP/{written}"

    assert parse_mqserver(text) == ClientChannel(name, addresses)


@PATIENT
@given(st.text(string.ascii_letters + "/(), '.*TCP1\n", max_size=30))
def test_any_text_is_a_channel_or_one_clear_error(text: str) -> None:
    try:
        channel = parse_mqserver(text)
    except ConnectionSettingsError as caught:
        error = str(caught)
    else:
        written = f"{channel.name}/TCP/{','.join(map(str, channel.addresses))}"
        assert parse_mqserver(written) == channel
        return
    assert error.startswith(f"MQSERVER {text!r}: ")
    assert error.endswith(EXPECTED)


@pytest.mark.parametrize(
    ("text", "channel"),
    [
        ("C/TCP/mq1.example.com", ClientChannel("C", (("mq1.example.com", 1414),))),
        (" C/TCP/9.20.4.56(2002)\n", ClientChannel("C", (("9.20.4.56", 2002),))),
        ("C/TCP/2001:db8::7(1415)", ClientChannel("C", (("2001:db8::7", 1415),))),
        (
            "C/TCP/a(1500), b, c(1501)",
            ClientChannel("C", (("a", 1500), ("b", 1414), ("c", 1501))),
        ),
    ],
)
def test_the_port_is_1414_unless_named(text: str, channel: ClientChannel) -> None:
    assert parse_mqserver(text) == channel


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it has 1 of the three parts between slashes"),
        ("C/TCP", "it has 2 of the three parts between slashes"),
        ("/TCP/host", "the name of the channel is missing"),
        ("C/TCP/", "the connection name is missing"),
        ("C/LU62/BOX99", "transport type 'LU62' is not supported"),
        ("C/tcp/host", "transport type 'tcp' is not supported"),
        ("C/TCP/'host(1414)'", "quotation marks belong to the shell and not to the value"),
        ("C/TCP/host(1414", "'host(1414' is not an address"),
        ("C/TCP/host()", "'host()' is not an address"),
        ("C/TCP/host(14x)", "'host(14x)' is not an address"),
        ("C/TCP/my host(1414)", "'my host(1414)' is not an address"),
        ("C/TCP/a(1414),,b", "'' is not an address"),
        ("C/TCP/host(0)", "'host(0)' has no port of 1 to 65535"),
        ("C/TCP/host(65536)", "'host(65536)' has no port of 1 to 65535"),
    ],
)
def test_a_malformed_value_is_rejected(text: str, fault: str) -> None:
    with pytest.raises(ConnectionSettingsError) as caught:
        parse_mqserver(text)

    assert str(caught.value) == f"MQSERVER {text!r}: {fault}{EXPECTED}"


def test_the_settings_of_a_channel_name_all_its_addresses() -> None:
    channel = parse_mqserver("C/TCP/a(1500),b,c(1501)")

    assert channel.settings() == {
        "channel": "C",
        "host": "a",
        "port": 1500,
        "hosts": "b(1414), c(1501)",
    }
