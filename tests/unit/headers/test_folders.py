"""Find a field in the folders of an MQRFH2."""

from __future__ import annotations

import pytest

from mqdlq.headers import RulesHeader2

FOLDERS = (
    "<mcd><Msd>jms_text</Msd></mcd>",
    "<usr><a><id>1</id></a><id dt='i4'>2</id><empty/><text>A &amp; &quot;B&quot;</text></usr>",
    "<other><id>3</id>",
    "</x></x><last",
)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("mcd.Msd", "jms_text"),
        ("usr.id", "2"),
        ("usr.a.id", "1"),
        ("usr.empty", ""),
        ("usr.text", 'A & "B"'),
        ("other.id", "3"),
        ("usr.missing", None),
        ("id", None),
        ("last", None),
    ],
)
def test_a_field_is_found_by_its_folder_and_name(path: str, text: str | None) -> None:
    header = RulesHeader2(folders=(b"<usr><id>9</id></usr>", *FOLDERS))

    assert header.find_field(path.split(".")) == text
