"""Test that a cause has one fingerprint, however the generated names of its queues differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdlq.causes import _BY_NAME, BY_CLASS, Cause, Kind, find_cause, generalize, is_generalized
from mqdlq.constants import MQFB, MQRC
from mqdlq.model import MessageClass

DEAD = MessageClass.DEAD_LETTER
STEM = st.text("ABCXYZabc019./_%", max_size=32)
NAME = st.text(st.characters(exclude_categories=["Cs"]), max_size=48)
DIGITS = st.integers(0, 2**64 - 1).map("{:016X}".format).filter(lambda text: not text.isalpha())


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("AMQ.5F2A6C7E21034B02", "AMQ.*"),
        ("CSQ.C6D3A0F5A1B2C345", "CSQ.*"),
        ("MQAI.REPLY.5F2A6C7E21034B02", "MQAI.REPLY.*"),
        ("AMQ.MQEXPLORER.5F2A6C7E21034B02", "AMQ.MQEXPLORER.*"),
        ("JMSREPLY5F2A6C7E21034B02", "JMSREPLY*"),
        ("JMSD5F2A6C7E21034B02", "JMSD*"),
        ("SYSTEM.MANAGED.NDURABLE.5F2A6C7E21034B02", "SYSTEM.MANAGED.NDURABLE.*"),
        ("app.reply.5f2a6c7e21034b02", "app.reply.*"),
        ("REPLY.550E8400E29B41D4A716446655440000", "REPLY.*"),
        ("TEMP.550e8400_e29b_41d4_a716_446655440000", "TEMP.*"),
        ("550E8400E29B41D4A716446655440000", "*"),
        ("5F2A6C7E21034B02", "*"),
        ("AMQ.5F2A6C7E21034B0200A1B2C3", "AMQ.*"),
        ("amq/5f2a6c7e21034b0200a1b2c3", "amq/*"),
        ("5F2A6C7E21034B0200A1B2C3", "*"),
        ("AMQ.5F2A6C7E21034B02   ", "AMQ.*"),
        ("AMQ.5F2A6C7E21034B02\0\0\0", "AMQ.*"),
    ],
)
def test_the_generated_part_of_a_name_is_an_asterisk(name: str, shown: str) -> None:
    assert generalize(name) == shown
    assert is_generalized(shown)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ORDERS",
        "ORDERS.1",
        "ORDERS.2",
        "ORDERS.20261122",
        "ORDERS.202611221530",
        "AMQ.1",
        "AMQ.ORDERS",
        "AMQ.5F2A6C7E21034B0",
        "AMQ.5F2A6C7E21034b02",
        "AMQ.5F2A6C7E21034B02.IN",
        "ABCDEFABCDEFABCD",
        "CAFE.DEADBEEFDEADBEEF",
    ],
)
def test_a_name_without_a_generated_part_stays_as_it_is(name: str) -> None:
    assert generalize(name) == name
    assert not is_generalized(name)


@given(NAME)
def test_to_generalize_a_name_twice_changes_nothing_more(name: str) -> None:
    assert generalize(generalize(name)) == generalize(name)


@given(NAME, NAME)
def test_names_without_a_generated_part_never_become_one_cause(one: str, other: str) -> None:
    ends = {name.partition("\0")[0].rstrip(" ") for name in (one, other)}
    plain = [name for name in ends if generalize(name) == name]

    assert len({find_cause(DEAD, 2053, name, "") for name in plain}) == len(plain)


@given(STEM, DIGITS, DIGITS)
def test_names_that_differ_in_what_the_queue_manager_generated_are_one_cause(
    stem: str, one: str, other: str
) -> None:
    """A stem that ends in hexadecimal digits may keep some of them, but the same for each name."""
    found = {find_cause(DEAD, 2085, f"{stem}.{digits}", "QM1") for digits in (one, other)}

    assert {cause.dest_q_name for cause in found} == {f"{stem}.*"}


@pytest.mark.parametrize(
    ("cause", "cause_id"),
    [
        (find_cause(DEAD, 2053, "ORDERS", "QM2"), "f6b9bf736cac"),
        (find_cause(DEAD, 2053, "ORDERS", ""), "c4390571f025"),
        (find_cause(DEAD, 2085, "AMQ.5F2A6C7E21034B02", "QM1"), "d8ae84c39b68"),
        (find_cause(DEAD, 0, "", ""), "b1bda14780bd"),
        (find_cause(DEAD, 2053, "Überweisung", "QM1"), "3754567fb3f5"),
        (find_cause(MessageClass.NO_DLH, 0, "", ""), "54404b02560f"),
        (find_cause(MessageClass.UNDECODABLE, 0, "", ""), "6aab118e3d2c"),
    ],
)
def test_the_fingerprint_of_a_cause_never_changes(cause: Cause, cause_id: str) -> None:
    """Ledgers, links and metrics hold it."""
    assert cause.cause_id == cause_id


def test_reason_destination_and_queue_manager_make_a_cause() -> None:
    causes = {
        find_cause(DEAD, 2053, "ORDERS", "QM1"),
        find_cause(DEAD, 2051, "ORDERS", "QM1"),
        find_cause(DEAD, 2053, "PAYMENTS", "QM1"),
        find_cause(DEAD, 2053, "ORDERS", "QM2"),
        find_cause(MessageClass.NO_DLH, 0, "", ""),
    }

    assert len({cause.cause_id for cause in causes}) == 5


def test_messages_without_a_valid_mqdlh_have_their_class_as_cause() -> None:
    found = find_cause(MessageClass.UNDECODABLE, 77, "X", "Y")

    assert found == Cause(MessageClass.UNDECODABLE, 0, "")
    assert (found.meaning, found.kind) == ("undecodable MQDLH", Kind.APPLICATION)
    assert set(BY_CLASS) == set(MessageClass) - {DEAD}


def test_a_cause_whose_destination_is_not_known_has_no_fingerprint() -> None:
    assert Cause(DEAD, 2053, None).cause_id == ""


def test_a_retry_helps_against_every_cause_that_passes_by_itself() -> None:
    assert set(_BY_NAME) <= {*MQRC, *MQFB}
    for advice in _BY_NAME.values():
        assert advice.meaning
        assert advice.advice
        assert advice.kind is not Kind.TRANSIENT or advice.retry_until
