"""Builders of hostile messages: structures after an MQDLH, of any number of parts.

Each kind grows with its number of parts, so that tests can measure how the cost grows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from mqdlq.headers import DeadLetterHeader, RulesHeader2

NATIVE: Final[dict[str, Any]] = {"encoding": 546, "ccsid": 1208}
DATA: Final = b"data of the application"
_MESSAGE_DATA: Final[dict[str, Any]] = {
    "encoding": 546,
    "coded_char_set_id": 1208,
    "format": "MQSTR",
}


@dataclass(frozen=True)
class Hostile:
    """The bytes after an MQDLH, and the Format that the MQDLH states for them."""

    body: bytes
    format: str = "MQHRF2"

    def behind(self, header: DeadLetterHeader) -> bytes:
        """Return the whole message with this MQDLH."""
        said = replace(header, encoding=546, coded_char_set_id=1208, format=self.format)
        return said.encode(encoding=546, ccsid=819) + self.body


def chain_of_dlhs(count: int) -> Hostile:
    """Build so many MQDLHs, each announcing the next."""
    header = DeadLetterHeader(
        2053, "Q", "QM1", 546, 1208, "MQDEAD", 6, "mover", "20261121", "11000000"
    )
    return Hostile(header.encode(**NATIVE) * count + DATA, "MQDEAD" if count else "MQSTR")


def chain_of_rfh2s(count: int) -> Hostile:
    """Build so many MQRFH2s with a property each, each announcing the next."""
    header = RulesHeader2(**_MESSAGE_DATA | {"format": "MQHRF2"}, folders=("<usr><a>1</a></usr>",))
    last = replace(header, format="MQSTR")
    return Hostile(header.encode(**NATIVE) * (count - 1) + last.encode(**NATIVE) + DATA)


def chain_of_empty_rfh2s(count: int) -> Hostile:
    """Build so many MQRFH2s of 36 bytes, the last of which announces another that is not there."""
    header = RulesHeader2(**_MESSAGE_DATA | {"format": "MQHRF2"})
    return Hostile(header.encode(**NATIVE) * count + DATA)


def chain_of_rfhs(count: int) -> Hostile:
    """Build so many MQRFHs of 32 bytes, each announcing the next."""
    header = struct.pack("<4siiii8si", b"RFH ", 1, 32, 546, 1208, b"MQHRF   ", 0)
    return Hostile(header * count + DATA, "MQHRF")


def folders(count: int) -> Hostile:
    """Build one MQRFH2 with so many folders of properties."""
    return _rfh2("<usr><a>1</a></usr>" for _ in range(count))


def folders_of_data(count: int) -> Hostile:
    """Build one MQRFH2 with so many folders that hold no properties."""
    return _rfh2("<other/>" for _ in range(count))


def nested(depth: int) -> Hostile:
    """Build a folder whose groups are nested so deep."""
    return _rfh2(["<usr>" + "<a>" * depth + "1" + "</a>" * depth + "</usr>"])


def nested_wide(depth: int) -> Hostile:
    """Build a folder nested so deep, with a property on each level."""
    return _rfh2(["<mq_usr>" + "<a><b>1</b>" * depth + "</a>" * depth + "</mq_usr>"])


def properties(count: int) -> Hostile:
    """Build a folder with so many properties."""
    return _rfh2(["<usr>" + "".join(f"<p{n}>{n}</p{n}>" for n in range(count)) + "</usr>"])


def long_property(length: int) -> Hostile:
    """Build a folder with one property of so many bytes."""
    return _rfh2([f"<usr><a>{'x' * length}</a></usr>"])


def long_name(length: int) -> Hostile:
    """Build a folder with one property whose name has so many characters."""
    name = "n" * length
    return _rfh2([f"<usr><{name}>1</{name}></usr>"])


def attributes(count: int) -> Hostile:
    """Build a property with so many attributes."""
    return _rfh2(["<usr><a" + " b='c'" * count + ">1</a></usr>"])


def entities(count: int) -> Hostile:
    """Build entities that are defined by each other, ten times the length with each."""
    defined = "".join(f"<!ENTITY e{n + 1} '{f'&e{n};' * 10}'>" for n in range(count))
    return _rfh2(
        [
            f"<!DOCTYPE usr [<!ENTITY e0 'x'>{defined}]><usr><a>&e{count};</a></usr>",
            f"<usr><a>{'&e9;&lt;&#65;' * count}</a></usr>",
        ]
    )


def unclosed(count: int) -> Hostile:
    """Build a folder of so many elements that are never closed."""
    return _rfh2(["<usr>" + "<a>" * count])


def no_tags(count: int) -> Hostile:
    """Build a folder of so many less-than signs."""
    return _rfh2(["<usr><a>" + "<" * count + "</a></usr>"])


def blanks(count: int) -> Hostile:
    """Build a folder with so many tags of a hundred blanks each that never end."""
    return _rfh2(["<usr>" + ("<a" + " " * 100) * count])


def open_quotes(count: int) -> Hostile:
    """Build a folder with so many tags of which an attribute's value never ends."""
    return _rfh2(["<usr>" + "<a b=\"'" * count])


def stated(length: int) -> Hostile:
    """Build an MQRFH2 that states this StrucLength."""
    fixed = RulesHeader2(**_MESSAGE_DATA).encode(**NATIVE)
    return Hostile(fixed[:8] + struct.pack("<i", length) + fixed[12:] + DATA)


def stated_of_folder(length: int) -> Hostile:
    """Build an MQRFH2 with a folder that states this NameValueLength."""
    whole = RulesHeader2(**_MESSAGE_DATA, folders=("<usr/>  ",)).encode(**NATIVE)
    return Hostile(whole[:36] + struct.pack("<i", length) + whole[40:] + DATA)


def _rfh2(of: Iterable[str]) -> Hostile:
    padded = [text + " " * (-len(text) % 4) for text in of]
    parts = [struct.pack("<i", len(text)) + text.encode() for text in padded]
    data = b"".join(parts)
    fixed = RulesHeader2(**_MESSAGE_DATA).encode(**NATIVE)
    return Hostile(fixed[:8] + struct.pack("<i", len(fixed) + len(data)) + fixed[12:] + data + DATA)


GROWING: Final[dict[str, tuple[Callable[[int], Hostile], int]]] = {
    "chain_of_dlhs": (chain_of_dlhs, 100_000),
    "chain_of_rfh2s": (chain_of_rfh2s, 500),
    "chain_of_empty_rfh2s": (chain_of_empty_rfh2s, 100_000),
    "chain_of_rfhs": (chain_of_rfhs, 100_000),
    "folders": (folders, 100_000),
    "folders_of_data": (folders_of_data, 100_000),
    "nested": (nested, 100_000),
    "nested_wide": (nested_wide, 100_000),
    "properties": (properties, 10_000),
    "long_property": (long_property, 5_000_000),
    "long_name": (long_name, 100_000),
    "attributes": (attributes, 100_000),
    "entities": (entities, 1_000),
    "unclosed": (unclosed, 100_000),
    "no_tags": (no_tags, 1_000_000),
    "blanks": (blanks, 10_000),
    "open_quotes": (open_quotes, 100_000),
}
"""Kinds that grow, each with the number of parts that is hostile."""

ABSURD_LENGTHS: Final = (0, -1, 35, 36, 2**31 - 1)


def hostile_messages() -> dict[str, Hostile]:
    """Return all kinds in full size, by name."""
    grown = {name: build(count) for name, (build, count) in GROWING.items()}
    return {
        "a chain of 1,000 MQDLHs": chain_of_dlhs(1_000),
        **grown,
        **{f"StrucLength {length}": stated(length) for length in ABSURD_LENGTHS},
        **{f"NameValueLength {length}": stated_of_folder(length) for length in ABSURD_LENGTHS},
    }
