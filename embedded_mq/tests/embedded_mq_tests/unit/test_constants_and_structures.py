"""The MQI's constants and layouts, compared with both client libraries."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import embedded_mq
from embedded_mq import character_fields, mqi_constants, option_structures, structures
from embedded_mq.engine.objects import attributes
from embedded_mq.pcf import constants as pcf_constants

NEWER = {"MQIACF_Q_MGR_FS_IN_USE", "MQIACF_Q_MGR_FS_SIZE"}
"""PCF constants that pymqi is too old to have."""


@pytest.fixture(params=["pymqi", "ibmmq"])
def client(request: pytest.FixtureRequest) -> Any:
    embedded_mq.install()
    return pytest.importorskip(request.param, reason="needs pymqi, which is not installed")


def test_every_mqi_constant_has_the_clients_value(client: Any) -> None:
    ours = {name: value for name, value in vars(mqi_constants).items() if name.startswith("MQ")}
    theirs = {name: getattr(client.CMQC, name) for name in ours}

    assert len(ours) > 100
    token_type = theirs.pop("MQACTT_UNIX_NUMERIC_ID")  # a byte in pymqi, a number in ibmmq
    assert token_type in {b"\x06", 6}
    assert theirs == {name: ours[name] for name in theirs}


def test_every_pcf_constant_has_the_clients_value(client: Any) -> None:
    ours = {name: value for name, value in vars(pcf_constants).items() if name.startswith("MQ")}
    del ours["MQRC"]  # not a number, but the table of reason codes

    assert len(ours) > 100
    theirs = {name: getattr(client.CMQCFC, name, None) for name in ours}
    newer = {name for name, value in theirs.items() if value is None}
    assert newer <= NEWER
    assert {name: ours[name] for name in ours.keys() - newer} == {
        name: theirs[name] for name in theirs.keys() - newer
    }


def test_every_channel_constant_has_the_clients_value(client: Any) -> None:
    theirs = vars(import_module(f"{client.__name__}.CMQXC"))
    ours = {
        name: value
        for name, value in vars(attributes).items()
        if name.startswith(("MQCHT", "MQXPT"))
    }

    assert len(ours) == 5
    assert ours == {name: theirs[name] for name in ours}


@pytest.mark.parametrize("name", ["MD", "GMO", "PMO", "OD", "PD", "SMPO"])
def test_every_structure_has_the_clients_layout(client: Any, name: str) -> None:
    declared = option_structures if name in {"PD", "SMPO"} else structures
    ours = getattr(declared, f"MQ{name}")
    theirs = getattr(client, name)()
    packed = theirs.pack()

    assert len(packed) == ours.length
    assert ours.unpack(packed).pack() == packed
    assert ours.unpack(packed).version == theirs.Version


def test_every_field_has_the_clients_offset(client: Any) -> None:
    packed = client.MD(PutApplName=b"name", Expiry=7, MsgId=b"i" * 24, OriginalLength=9).pack()
    md = structures.MQMD.unpack(packed)

    assert character_fields.text(md.put_appl_name) == "name"
    assert (md.expiry, md.msg_id, md.original_length) == (7, b"i" * 24, 9)


def test_a_character_field_ends_at_the_first_nul() -> None:
    assert character_fields.text(b"A.QUEUE\0rest ") == "A.QUEUE"
    assert character_fields.normalised(b"A\0BC") == b"A   "
    assert character_fields.normalised(b"AB C") == b"AB C"
    assert character_fields.object_name("A") == b"A" + b" " * 47


def test_no_mqsc_keyword_is_both_honoured_and_ignored() -> None:
    honoured = {word for kind in attributes.QUEUE_ATTRIBUTES.values() for word in kind}

    assert not honoured & attributes.IGNORED_QUEUE_KEYWORDS.keys()
    ignored = attributes.IGNORED_QUEUE_MANAGER_KEYWORDS
    assert not ignored & attributes.QUEUE_MANAGER_ATTRIBUTES.keys()
