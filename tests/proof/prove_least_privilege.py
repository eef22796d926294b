"""Three users have the authorities of deploy/mq/authorities.mqsc and no others.

``make prove`` runs it. Each user can do its stage, and no later one.
"""

from __future__ import annotations

import pytest

from mqdlq.errors import QueueManagerError
from mqdlq.local import demo
from mqdlq.mqi import permissions
from mqdlq.stages.execute import make_pass
from tests.e2e.test_demo import STORY
from tests.proof.queue_managers import GivenWorld, given_settings, settings_of_user
from tests.unit.deploy.test_authorities import (
    AUTHORITIES_BY_USER,
    DLQ,
    DRY,
    EXECUTE,
    NOT_AUTHORIZED,
    PREVIEW,
    RULES,
    SENSE,
    STATE,
    TARGETS,
    authorities,
    outcomes,
    sensed,
)

MESSAGES = sum(STORY.values())


@pytest.fixture(name="world")
def _world(world: GivenWorld) -> GivenWorld:
    """Fill the dead-letter queue with the demo's dead letters, and empty all other queues."""
    world.clear(DLQ, STATE, *TARGETS)
    with world.connect() as queue_manager:
        demo.fill(queue_manager, world.clock)
    return world


def connect_as(world: GivenWorld, user: str) -> None:
    world.settings = settings_of_user(given_settings(), user)


@pytest.mark.parametrize("user", AUTHORITIES_BY_USER)
def test_each_user_can_open_only_the_queues_that_the_stage_needs(
    world: GivenWorld, user: str
) -> None:
    connect_as(world, user)

    assert authorities(world) == AUTHORITIES_BY_USER[user]


@pytest.mark.parametrize("user", AUTHORITIES_BY_USER)
def test_no_user_can_act_as_another_user(world: GivenWorld, user: str) -> None:
    connect_as(world, user)
    with world.connect() as queue_manager:
        module, constants = queue_manager.client.module, queue_manager.client.CMQC
        descriptor = module.OD(ObjectName=DLQ.encode(), AlternateUserId=b"mqdlqexec")
        options = constants.MQOO_INQUIRE | constants.MQOO_ALTERNATE_USER_AUTHORITY

        with pytest.raises(module.MQMIError) as refused:
            module.Queue(queue_manager.handle, descriptor, options)

    assert refused.value.reason == NOT_AUTHORIZED


@pytest.mark.parametrize("user", AUTHORITIES_BY_USER)
def test_the_connection_test_reports_the_stages_that_the_user_may_carry_out(
    world: GivenWorld, user: str
) -> None:
    connect_as(world, user)

    with world.connect() as queue_manager:
        found = permissions.find_missing(queue_manager, user, STATE, targets=TARGETS)

    assert {stage for stage, _ in found} == {
        SENSE: {"dry run", "execution"},
        DRY: {"execution"},
        EXECUTE: set(),
    }[user]


def test_the_user_who_senses_sees_the_depth_and_cannot_browse(world: GivenWorld) -> None:
    connect_as(world, SENSE)

    assert sensed(world) == MESSAGES
    with pytest.raises(QueueManagerError) as refused:
        world.snapshot(world.start(RULES))
    assert refused.value.reason == NOT_AUTHORIZED


def test_the_user_of_a_dry_run_sees_everything_and_cannot_execute(world: GivenWorld) -> None:
    connect_as(world, DRY)

    assert outcomes(world, dry_run=True) == PREVIEW
    with pytest.raises(QueueManagerError) as refused:
        make_pass(world.plan(RULES))
    assert refused.value.reason == NOT_AUTHORIZED


def test_the_user_who_executes_handles_the_whole_queue(world: GivenWorld) -> None:
    connect_as(world, EXECUTE)

    assert outcomes(world, dry_run=False) == STORY
