"""Test that a run begins only with valid rules and an existing queue."""

from __future__ import annotations

import pytest

from mqdlq.errors import ConnectionSettingsError, HandlerError, QueueManagerError
from mqdlq.handlers import Handler
from mqdlq.ledger.tables import Run
from mqdlq.rules import RulesError
from mqdlq.stages import sense
from mqdlq.stages.run_options import RunOptions
from mqdlq.stages.sense import has_open_units, has_unfinished_work
from tests.support.world import World


def test_a_blank_inputq_means_the_queue_managers_own_dead_letter_queue(world: World) -> None:
    assert world.start("INPUTQ(' ')\nACTION(RETRY)").queue == "DLQ"


def test_inputq_names_another_queue(world: World) -> None:
    assert world.start("INPUTQ(ORDERS)\nACTION(RETRY)").queue == "ORDERS"


@pytest.mark.parametrize(("given", "queue"), [("PARKED", "PARKED"), (" ", "DLQ")])
def test_the_param_input_q_overrides_inputq(world: World, given: str, queue: str) -> None:
    """The first argument of runmqdlq does the same, even if it is blank."""
    run = begin(world, "INPUTQ(ORDERS)\nACTION(RETRY)", RunOptions(input_q=given))

    assert run.queue == queue


def test_the_param_input_q_mgr_overrides_inputqm(world: World) -> None:
    """The second argument of runmqdlq does the same."""
    run = begin(world, "INPUTQM(ELSEWHERE)\nACTION(RETRY)", RunOptions(input_q_mgr="QM1"))

    assert run.queue_manager == "QM1"


def test_a_run_keeps_the_rules_that_it_read_at_its_start(world: World) -> None:
    first = world.start("ACTION(RETRY)", run_id="r")

    assert world.start("ACTION(IGNORE)", run_id="r") == first


@pytest.mark.parametrize(("handler", "dag_run"), [("other", "x-1"), ("test", "1")])
def test_an_id_that_another_run_has_is_refused(world: World, handler: str, dag_run: str) -> None:
    """Handlers `test` and `test-x` could have the same id, by run ids that people chose."""
    world.start("ACTION(RETRY)", run_id="test-x-1")
    folder = world.directory / "rules"
    other = Handler(name=handler, directory=folder, connection="mq", rules="test.rules")

    with pytest.raises(HandlerError) as caught:
        world.begin("test-x-1", other, RunOptions(dag_run_id=dag_run))

    assert str(caught.value) == (
        f"run test-x-1 is in the ledger as DAG run  of handler test; start {dag_run} of"
        f" {handler} under another DAG run id [MQDLQ-126]"
    )


def test_control_data_become_seconds(world: World) -> None:
    run = world.start("RETRYINT(5) WAIT(30)\nACTION(RETRY)")

    assert (run.retry_interval_s, run.wait_s, run.carry_attempts) == (5, 30, False)


def test_under_wait_yes_attempts_carry_on(world: World) -> None:
    run = world.start("ACTION(RETRY)")

    assert (run.wait_s, run.carry_attempts) == (None, True)


def test_one_wrong_line_starts_no_run_and_is_named(world: World) -> None:
    with pytest.raises(RulesError) as caught:
        world.start("ACTION(RETRY)\nREASON(MQRC_Q_FUL) ACTION(RETRY)\n", run_id="r")

    path = world.directory / "rules" / "test.rules"
    assert str(caught.value) == (
        f"{path}:2:8: unknown symbolic name MQRC_Q_FUL; did you mean MQRC_Q_FULL (2053)?\n"
        "    REASON(MQRC_Q_FUL) ACTION(RETRY)\n"
        "           ~~~~~~~~~^"
    )
    assert world.ledger.runs.get("r") is None


def test_a_queue_manager_without_a_dead_letter_queue_is_reported(world: World) -> None:
    world.mqsc("ALTER QMGR DEADQ(' ')")

    with pytest.raises(ConnectionSettingsError) as caught:
        world.start("ACTION(RETRY)")

    assert str(caught.value) == (
        "queue manager QM1 has no dead-letter queue (DEADQ is blank), and the rules table"
        " does not name a queue; define one with ALTER QMGR DEADQ(...), or give INPUTQ"
        " [MQDLQ-112]"
    )


def test_a_missing_queue_is_reported(world: World) -> None:
    with pytest.raises(QueueManagerError) as caught:
        world.start("INPUTQ(NOWHERE)\nACTION(RETRY)")

    assert str(caught.value) == (
        "MQOPEN of queue NOWHERE failed: MQRC_UNKNOWN_OBJECT_NAME (2085) [MQDLQ-100]"
    )


def test_a_missing_queue_manager_is_reported(world: World) -> None:
    with pytest.raises(QueueManagerError) as caught:
        world.start("INPUTQM(QM9)\nACTION(RETRY)")

    assert str(caught.value) == (
        "MQCONN of queue manager QM9 failed: MQRC_Q_MGR_NAME_ERROR (2058) [MQDLQ-100]"
    )


def test_the_state_queue_is_never_handled(world: World) -> None:
    with pytest.raises(HandlerError) as caught:
        world.start("INPUTQ(MQDLQ.STATE)\nACTION(RETRY)")

    assert str(caught.value) == (
        "test: state_queue MQDLQ.STATE is also the queue to be handled; name another"
        " queue [MQDLQ-114]"
    )


def test_depth_and_its_limit_are_inquired(world: World) -> None:
    world.dead_letter()
    run = world.start("ACTION(RETRY)")

    assert sense.inquire_depth(run, world.settings) == (1, 5000)


@pytest.mark.parametrize(
    ("action", "keys", "error"),
    [
        (
            "ACTION(RETRY)",
            (),
            (
                "action needs message_keys or where, because it applies to some messages only; name"
                " the messages [MQDLQ-118]"
            ),
        ),
        (
            "DESTQ(A) ACTION(RETRY)",
            ("0" * 64,),
            (
                "action must be one rule without patterns and without control data, such"
                " as ACTION(FWD) FWDQ(PARKED) [MQDLQ-119]"
            ),
        ),
    ],
)
def test_an_action_without_named_messages_is_refused(
    world: World, action: str, keys: tuple[str, ...], error: str
) -> None:
    with pytest.raises(HandlerError) as caught:
        begin(world, "ACTION(RETRY)", RunOptions(message_keys=keys, action=action))

    assert str(caught.value) == error


def test_an_invalid_action_is_reported_like_an_invalid_rule(world: World) -> None:
    with pytest.raises(RulesError, match=r"^the parameter action:1:1: ACTION\(FWD\) needs FWDQ"):
        begin(world, "ACTION(RETRY)", RunOptions(message_keys=("0" * 64,), action="ACTION(FWD)"))


def begin(world: World, rules: str, options: RunOptions) -> Run:
    folder = world.directory / "rules"
    folder.mkdir(exist_ok=True)
    (folder / "test.rules").write_text(rules, encoding="utf-8")
    handler = Handler(name="test", directory=folder, connection="mq", rules="test.rules")
    return world.begin("r", handler, options)


def test_an_alias_queue_cannot_be_handled(world: World) -> None:
    world.mqsc("DEFINE QALIAS(DLQ.ALIAS) TARGET(DLQ)")

    with pytest.raises(ConnectionSettingsError) as caught:
        world.start("INPUTQ(DLQ.ALIAS)\nACTION(RETRY)")

    assert str(caught.value) == (
        "INPUTQ DLQ.ALIAS on queue manager QM1 is not a local queue; name the queue that"
        " holds the messages [MQDLQ-113]"
    )


def test_an_interrupted_unit_is_work_on_an_empty_queue_too(world: World) -> None:
    world.dead_letter()
    execution = world.plan("ACTION(RETRY)")
    world.interrupted_pass(execution, "MQCMIT:1:2009:after")
    later = world.start("ACTION(RETRY)")

    assert sense.inquire_depth(later, world.settings) == (0, 5000)
    assert has_unfinished_work(later, world.ledger)
    assert has_open_units(later, world.ledger)


def test_only_the_owner_can_read_the_ledger(world: World) -> None:
    assert (world.directory / "ledger.db").stat().st_mode & 0o077 == 0
