"""Airflow retries a failed task only if the failure may end by itself."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowException, AirflowTaskTimeout
from sqlalchemy.exc import OperationalError

from mqdlq.airflow.retries import RetryTransient, is_transient
from mqdlq.constants import MQRC, reason_text
from mqdlq.errors import (
    AccountError,
    AnotherExecutorError,
    HandlerError,
    LedgerError,
    LedgerUnavailableError,
    MqDlqError,
    QueueManagerError,
    RestoreError,
    UnfinishedRestorationError,
)
from mqdlq.rules import RulesError, parse

UNREACHABLE = OperationalError("SELECT 1", {}, ConnectionError("refused"))


def failed(name: str) -> QueueManagerError:
    reason = MQRC[name]
    return QueueManagerError("MQGET", "queue DLQ", 2, reason, reason_text(reason))


def caused_by(error: MqDlqError, cause: Exception) -> MqDlqError:
    try:
        raise error from cause
    except MqDlqError as raised:
        return raised


def met_while_handling(error: MqDlqError, handled: Exception) -> MqDlqError:
    """Return an error as Python makes it when it is raised while another one is handled."""
    error.__context__ = handled
    return error


def not_valid() -> RulesError:
    with pytest.raises(RulesError) as refused:
        parse("ACTION(IGNOR)\n", "small.rules")
    return refused.value


@pytest.mark.parametrize(
    "error",
    [
        failed("MQRC_CONNECTION_BROKEN"),
        failed("MQRC_Q_MGR_NOT_AVAILABLE"),
        failed("MQRC_Q_MGR_QUIESCING"),
        failed("MQRC_Q_MGR_STOPPING"),
        failed("MQRC_CONNECTION_QUIESCING"),
        failed("MQRC_HOST_NOT_AVAILABLE"),
        failed("MQRC_CALL_INTERRUPTED"),
        AnotherExecutorError("MQDLQ-602", "another executor has MQDLQ.STATE open"),
        UnfinishedRestorationError("MQDLQ-701", "restoration r: 3 of 12 messages are not restored"),
        UNREACHABLE,
        caused_by(LedgerError("MQDLQ-240", "the ledger cannot be reached"), UNREACHABLE),
        LedgerUnavailableError("MQDLQ-211", "the ledger's server is starting", is_transient=True),
        ConnectionResetError("the lake's store hung up"),
        met_while_handling(failed("MQRC_HCONN_ERROR"), failed("MQRC_CONNECTION_BROKEN")),
        AirflowException("Cannot execute: spark-submit evaluate_rules.py. Error code is: 1."),
    ],
    ids=repr,
)
def test_a_transient_fault_is_retried(error: Exception) -> None:
    assert is_transient(error)
    assert RetryTransient().evaluate(error, 1, 3).action is RetryAction.RETRY


@pytest.mark.parametrize(
    "error",
    [
        failed("MQRC_NOT_AUTHORIZED"),
        failed("MQRC_UNKNOWN_OBJECT_NAME"),
        failed("MQRC_GET_INHIBITED"),
        not_valid(),
        HandlerError("MQDLQ-301", "demo.yaml:1:1: unknown key rulez"),
        AccountError("MQDLQ-608", "the account does not add up"),
        RestoreError("MQDLQ-702", "say what to restore"),
        LedgerError("MQDLQ-240", "run demo-1 is not in the ledger"),
        LedgerUnavailableError("MQDLQ-211", "the ledger's URL cannot be read"),
        AirflowException("Cannot execute: spark-submit evaluate_rules.py. Error code is: 2."),
        AirflowTaskTimeout(),
        met_while_handling(not_valid(), failed("MQRC_CONNECTION_BROKEN")),
        met_while_handling(HandlerError("MQDLQ-301", "no such file"), UNREACHABLE),
    ],
    ids=repr,
)
def test_a_lasting_fault_fails_the_task_at_once(error: BaseException) -> None:
    assert not is_transient(error)
    assert RetryTransient().evaluate(error, 1, 3).action is RetryAction.FAIL


def test_the_delays_between_retries_grow_and_the_last_attempt_fails() -> None:
    decided = [
        RetryTransient().evaluate(failed("MQRC_CONNECTION_BROKEN"), number, 4)
        for number in range(1, 6)
    ]

    seconds = [each.retry_delay / timedelta(seconds=1) for each in decided if each.retry_delay]
    assert seconds == [20, 60, 180, 180]
    assert decided[-1].action is RetryAction.FAIL
