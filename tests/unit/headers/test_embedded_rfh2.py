"""The embedded queue manager handles hostile MQRFH2 headers without extra cost."""

from __future__ import annotations

import pytest

from embedded_mq import mqi_constants as mq
from embedded_mq.engine.messages.delivery import locate_rfh2_headers
from embedded_mq.engine.messages.properties import MessageHandle
from embedded_mq.engine.messages.property_values import Property
from embedded_mq.headers import rfh2
from embedded_mq.headers.rfh2_folders import PropertyBudget, properties
from embedded_mq.option_structures import MQPD
from embedded_mq.structures import MQMD
from mqdlq.headers import RulesHeader2
from tests.support.instruction_counts import CountedBytes, count_instructions
from tests.support.wire.hostile_messages import GROWING, NATIVE, Hostile, nested, nested_wide

SET_FIRST = 0  # MQSMPO_SET_FIRST
DESCRIPTOR = MQPD(0, mq.MQPD_SUPPORT_OPTIONAL, 0, mq.MQCOPY_DEFAULT)
BEHIND = rfh2.Description(546, 1208, b"MQSTR   ")


def descriptor(name: str) -> MQMD:
    """Return an MQMD that states this Format."""
    md = MQMD.unpack(bytes(MQMD.length))
    md.encoding, md.coded_char_set_id, md.format = 546, 1208, name.encode().ljust(8)
    return md


@pytest.mark.slow
@pytest.mark.parametrize("name", GROWING)
def test_the_work_for_rfh2_headers_is_proportional_to_their_length(name: str) -> None:
    """Twice the parts take twice the steps, and no byte is copied more than a few times."""
    build = GROWING[name][0]
    once, twice = (build(count) for count in (1_000, 2_000))
    md, counted = descriptor(once.format), CountedBytes(twice.body)

    few = count_instructions(lambda: locate_rfh2_headers(md, once.body).properties())
    many = count_instructions(lambda: locate_rfh2_headers(md, twice.body).properties())
    locate_rfh2_headers(md, counted)

    assert many < 2.2 * few + 1_000
    assert counted.copied <= len(counted)


def test_a_property_may_have_the_longest_name_that_ibm_mq_allows() -> None:
    name = "n" * mq.MQ_MAX_PROPERTY_NAME_LENGTH

    assert properties(f"<usr><{name}>1</{name}></usr>", PropertyBudget()) == (
        Property(name, 1024, "1"),
    )


@pytest.mark.parametrize(
    "folder",
    [
        "<usr><{0}>1</{0}></usr>".format("n" * 4096),
        "<mq_usr><{0}>1</{0}></mq_usr>".format("n" * 4089),
        "<usr>" + "<a>" * 2_049 + "1" + "</a>" * 2_049 + "</usr>",
    ],
)
def test_a_folder_with_a_longer_name_is_message_data(folder: str) -> None:
    """IBM MQ docs, "Property names": 4095 characters. IBM MQ cuts; here nothing gets lost."""
    with pytest.raises(ValueError, match="a name that is too long"):
        properties(folder, PropertyBudget())


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("&lt;&gt;&amp;&apos;&quot;", "<>&'\""),
        ("&amp;lt; &#65;&#x42;&#x1F600;", "&lt; AB\U0001f600"),
        ("&#128;&#x9f;", "\x80\x9f"),
        ("a&copy=1&eacute;&nbsp;&;&#;&#x;", "a&copy=1&eacute;&nbsp;&;&#;&#x;"),
    ],
)
def test_rfh2_folders_have_the_character_references_of_xml_not_html(
    written: str, value: str
) -> None:
    (held,) = properties(f"<usr><a>{written}</a></usr>", PropertyBudget()) or ()

    assert held.value == value


@pytest.mark.parametrize("written", ["&#xD800;", "&#1114112;"])
def test_a_folder_with_an_invalid_character_reference_is_message_data(written: str) -> None:
    folder = f"<usr><a>{written}</a></usr>".encode()
    header = rfh2.read(RulesHeader2(folders=(folder,)).encode(**NATIVE), 0, "<", PropertyBudget())

    assert header is not None
    assert header.folders == (rfh2.Folder(folder, None),)


def test_a_message_has_no_more_properties_than_maxpropl_can_allow() -> None:
    """IBM MQ docs, "MaxPropertiesLength": names and values count, over all folders."""
    room = PropertyBudget(remaining=10)

    assert properties("<usr><a>12345</a></usr>", room) == (Property("a", 1024, "12345"),)
    assert room.remaining == 4
    with pytest.raises(ValueError, match="more properties than MAXPROPL can allow"):
        properties("<usr><b>1</b><c>12</c></usr>", room)
    assert room.remaining == 4, "what does not fit takes no room from the folders behind it"


@pytest.mark.parametrize("deep", [nested(2_048), nested_wide(1_000)])
def test_properties_in_nested_groups_are_written_as_they_were_read(deep: Hostile) -> None:
    """Nested as deep as a name may be long, which is deeper than Python calls itself."""
    read = rfh2.read(deep.body, 0, "<", PropertyBudget())
    assert read is not None
    held = read.folders[0].properties
    assert held

    again = rfh2.read(rfh2.write(held, BEHIND), 0, "<", PropertyBudget())

    assert again is not None
    assert again.folders[0].properties == held


def handle_with(names: list[str]) -> MessageHandle:
    """Set a property of each name."""
    handle = MessageHandle()
    for name in names:
        handle.set(name, mq.MQTYPE_STRING, "1", DESCRIPTOR, SET_FIRST)
    return handle


def test_setting_many_properties_takes_steps_in_proportion_to_their_number() -> None:
    few, many = ([f"p{n}" for n in range(count)] for count in (500, 1_000))

    assert count_instructions(lambda: handle_with(many * 2)) < 2.2 * count_instructions(
        lambda: handle_with(few * 2)
    )


def test_a_property_is_found_by_name_after_others_have_moved() -> None:
    handle = handle_with(["a", "b", "c"])
    handle.inquire("b", 0, mq.MQTYPE_AS_SET)
    handle.set("x", mq.MQTYPE_STRING, "1", DESCRIPTOR, mq.MQSMPO_SET_PROP_BEFORE_CURSOR)
    handle.set("c", mq.MQTYPE_STRING, "2", DESCRIPTOR, SET_FIRST)
    handle.delete("a", 0)
    handle.set("b", mq.MQTYPE_STRING, "3", DESCRIPTOR, SET_FIRST)
    handle.set("b", mq.MQTYPE_STRING, "4", DESCRIPTOR, mq.MQSMPO_APPEND_PROPERTY)
    handle.delete("b", 0)

    assert [(held.name, held.value) for held in handle.properties] == [
        ("x", "1"),
        ("c", "2"),
        ("b", "4"),
    ]
    handle.replace_all(handle.properties[:1])
    handle.set("b", mq.MQTYPE_STRING, "5", DESCRIPTOR, SET_FIRST)
    assert [held.name for held in handle.properties] == ["x", "b"]
