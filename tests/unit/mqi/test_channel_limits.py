"""Test the comparison of a handler's connections with what their channel allows."""

from __future__ import annotations

import pytest

from mqdlq.mqi.permissions import check_channel, compare_channel
from tests.support.world import World

CHANNEL = "DLQ.SVRCONN"


@pytest.mark.parametrize(
    ("allowed", "instances", "is_enough"),
    [
        ((999999999, 999999999, 10), 1, True),
        ((999999999, 1, 4), 2, False),
        ((2, 9, 4), 2, True),
        ((4, 9, 0), 5, False),
        ((9, 5, 1), 5, True),
    ],
)
def test_connections_of_a_process_share_instances_of_their_channel(
    allowed: tuple[int, int, int], instances: int, is_enough: bool
) -> None:
    maxinst, maxinstc, sharecnv = allowed
    advice = "" if is_enough else ": raise its limit, or lower connections"

    found, words = compare_channel(CHANNEL, 5, allowed)

    assert found == is_enough
    assert words == (
        f"channel {CHANNEL} has MAXINST({maxinst}) MAXINSTC({maxinstc}) SHARECNV({sharecnv});"
        f" 5 connections need {instances} of it{advice}"
    )


def test_a_channel_that_cannot_be_inquired_is_left_to_the_person(world: World) -> None:
    with world.connect() as queue_manager:
        is_enough, words = check_channel(queue_manager, CHANNEL, 5)

    assert is_enough
    assert words == (
        "what channel DLQ.SVRCONN allows is not known (MQCMD_INQUIRE_CHANNEL of the command server"
        " failed: reason 4032): compare the 5 connections with DISPLAY CHANNEL(DLQ.SVRCONN) MAXINST"
        " MAXINSTC SHARECNV"
    )


def test_the_limits_of_a_channel_are_those_of_its_definition(world: World) -> None:
    world.mqsc(f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(SVRCONN) MAXINST(9) MAXINSTC(1) SHARECNV(4)")
    with world.connect() as queue_manager:
        is_enough, words = check_channel(queue_manager, CHANNEL, 5)

    assert not is_enough
    assert words == (
        "channel DLQ.SVRCONN has MAXINST(9) MAXINSTC(1) SHARECNV(4); 5 connections need 2 of it:"
        " raise its limit, or lower connections"
    )
