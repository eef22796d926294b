"""Message properties in the folders of an MQRFH2."""

from __future__ import annotations

import pytest

from mqdlq.headers import DeadLetterHeader, RulesHeader2, UnreadablePropertyError, describe
from mqdlq.model import LONGEST_PROPERTY


def find(name: str, *folders: str | bytes) -> str | None:
    return RulesHeader2(folders=folders).find_property(name.split("."))


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (("<usr><a>text</a></usr>",), "text"),
        (("<usr><a> é &amp; ü </a></usr> \0",), " é & ü "),
        ((" <usr content='properties'><b>1</b><a dt='i4'>2</a></usr>",), "2"),
        (("<usr><a dt='boolean'>1</a></usr>",), "TRUE"),
        (("<usr><a dt='boolean'>0</a></usr>",), "FALSE"),
        (("<usr><a dt='boolean'>odd</a></usr>",), "odd"),
        (("<usr><a/></usr>",), ""),
        (("<usr><a>first<b>no</b></a><a>second</a></usr>",), "first"),
        (("<usr><g><a>in a group</a></g></usr>",), None),
        (("<jms><a>1</a></jms>", "<usr><b/></usr>", "<usr><a>3</a></usr>"), "3"),
        (("<jms><broken", "<usr><a>4</a></usr>"), "4"),
        ((), None),
    ],
)
def test_the_value_of_a_property_is_the_text_of_its_first_element(
    folders: tuple[str, ...], expected: str | None
) -> None:
    assert find("usr.a", *folders) == expected


def test_a_property_can_be_in_a_group() -> None:
    assert find("usr.g.a", "<usr><a>1</a><g><a>2</a></g></usr>") == "2"


@pytest.mark.parametrize(
    "folder",
    [
        b"<usr><a>1</a></usr>",
        "",
        "no folder",
        "<usr><a>1</usr>",
        "<usr><a>\udcff</a></usr>",
        "<usr><a xsi:nil='true'/></usr>",
        "<usr><!-- comment --><a>1</a></usr>",
        "<!DOCTYPE usr [<!ENTITY e 'x'>]><usr><a>&e;</a></usr>",
        "<usr><!DOCTYPE usr><a>1</a></usr>",
        "<usr><a>&undefined;</a></usr>",
    ],
)
def test_a_folder_that_is_not_well_formed_has_no_known_properties(folder: str | bytes) -> None:
    with pytest.raises(UnreadablePropertyError):
        find("usr.a", folder)


def test_a_value_of_more_bytes_than_a_handle_returns_is_unknown() -> None:
    longest = "é" * (LONGEST_PROPERTY // 2)

    assert find("usr.a", f"<usr><a>{longest}</a></usr>") == longest
    with pytest.raises(UnreadablePropertyError):
        find("usr.a", f"<usr><a>{longest}x</a></usr>")


@pytest.mark.parametrize(
    ("length", "stated", "number"), [(600, "MQSTR", 1), (300, "MQSTR", None), (600, "MQDEAD", None)]
)
def test_a_message_has_its_mqrfh2_headers_only_if_all_headers_and_folders_are_read(
    length: int, stated: str, number: int | None
) -> None:
    header = RulesHeader2(546, 1208, stated, folders=("<usr/>" + " " * 234,))
    letter = DeadLetterHeader(2053, "PAYMENTS", "QM1", 546, 819, "MQHRF2")
    parts = [each.encode(encoding=546, ccsid=819) for each in (letter, header)]
    body = b"".join(parts) + b"data" * 30

    found = describe(body[:length], len(body), encoding=546, ccsid=819, format="MQDEAD")

    assert (found.rules_headers and len(found.rules_headers)) == number
