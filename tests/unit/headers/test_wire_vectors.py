"""Decode every vector of tests/corpus/wire, and encode it again byte for byte."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from mqdlq.headers import DeadLetterHeader, MessageDescriptorExtension, RulesHeader2, describe
from mqdlq.headers.fields import as_json, header_fields
from mqdlq.headers.records import (
    CicsHeader,
    ImsHeader,
    RulesHeader,
    TransmissionQueueHeader,
    TriggerMessage,
)
from tests.support.wire import wire_vectors

VECTORS = [
    (path.stem, vector)
    for path in sorted(wire_vectors.CORPUS.glob("*.json"))
    for vector in json.loads(path.read_text(encoding="utf-8"))
]
ENCODERS: dict[str, Any] = {
    "MQDLH": DeadLetterHeader.encode,
    "MQMDE": MessageDescriptorExtension.encode,
    "MQXQH": TransmissionQueueHeader.encode,
    "MQRFH": RulesHeader.encode,
    "MQRFH2": RulesHeader2.encode,
    "MQCIH": CicsHeader.encode,
    "MQIIH": ImsHeader.encode,
    "MQTM": TriggerMessage.encode,
}


@pytest.mark.parametrize("name", wire_vectors.FILES)
def test_the_stored_wire_vectors_equal_those_of_the_generator(name: str) -> None:
    committed = (wire_vectors.CORPUS / f"{name}.json").read_text(encoding="utf-8")

    assert committed == wire_vectors.written(name)


def test_the_wire_vectors_include_every_kind_of_message() -> None:
    vectors = [vector for _, vector in VECTORS]
    classes = Counter(vector["class"] for vector in vectors)
    ebcdic = {37, 273, 500, 1047, 1140, 1141, 1146, 1148} & {v["md"]["ccsid"] for v in vectors}

    assert len(vectors) >= 250
    assert {cls: count >= 3 for cls, count in classes.items()} == dict.fromkeys(
        ["dead_letter", "truncated_dlh", "unsupported_dlh_version", "undecodable", "no_dlh"], True
    )
    assert len(ebcdic) == 8
    assert {vector["md"]["encoding"] % 16 for vector in vectors} >= {1, 2}
    assert max(len(vector["headers"]) for vector in vectors) >= 4
    assert len({vector["name"] for vector in vectors}) == len(vectors)


@pytest.mark.parametrize(
    "vector", [vector for _, vector in VECTORS], ids=[f"{s}: {v['name']}" for s, v in VECTORS]
)
def test_a_wire_vector_is_decoded_by_the_documented_layouts(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["hex"])

    found = describe(body, len(body), **vector["md"])

    headers = [
        {
            "type": header.structure,
            "offset": header.offset,
            "length": header.length,
            "fields": as_json(header_fields(header)),
        }
        for header in found.headers
    ]
    assert (found.cls, found.problem) == (vector["class"], vector["problem"])
    assert headers == vector["headers"]
    assert found.payload_offset == vector["payload_offset"]
    assert len(body) - found.payload_offset == vector["payload_length"]
    for header in found.headers:
        if header.record is not None and header.ccsid > 0:
            again = ENCODERS[header.structure](
                header.record, encoding=header.encoding, ccsid=header.ccsid
            )
            assert again == body[header.offset : header.offset + header.length]
