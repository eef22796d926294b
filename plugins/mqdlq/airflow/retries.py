"""Airflow's retry policy of our tasks: repeat what fails for a passing reason, and nothing else."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from airflow.sdk import Context, RetryDecision, RetryPolicy
from airflow.sdk.exceptions import AirflowTaskTimeout

from mqdlq.airflow.operators.base import in_the_foreground, progress
from mqdlq.constants import TRANSIENT
from mqdlq.errors import (
    AnotherExecutorError,
    ConnectionSettingsError,
    HandlerError,
    LedgerUnavailableError,
    MqDlqError,
    QueueManagerError,
    UnfinishedRestorationError,
)
from mqdlq.rules import RulesError

DELAYS: Final = (timedelta(seconds=20), timedelta(minutes=1), timedelta(minutes=3))
"""The pauses before the second, the third and each later attempt of a task."""

RETRY_DELAY: Final = DELAYS[0]
"""The pause where Airflow does not ask the policy: after a worker's death."""

INVALID_INPUT: Final = (HandlerError, RulesError, ConnectionSettingsError)

REFUSED_BY_EVALUATION: Final = "Error code is: 2."
"""How SparkSubmitOperator reports the exit code with which the evaluation rejects its input."""


class RetryTransient(RetryPolicy):
    """Repeat a task whose failure may end by itself; fail it at once for any other reason.

    An error of this project that has no transient cause is lasting: a rules table that is not
    valid, a missing authority, an account that does not add up. An error of a library is not
    known to be lasting, so the task runs again. How often is the handler's `task_retries`.

    :param waits_for_people: with False, a task in the foreground (`mqdlq run`) fails at once: it
        moves no message, and a person is there to start it again
    """

    def __init__(self, *, waits_for_people: bool = True) -> None:
        self.waits_for_people = waits_for_people

    def evaluate(
        self,
        exception: BaseException,
        try_number: int,
        max_tries: int,
        context: Context | None = None,
    ) -> RetryDecision:
        del context
        if reason := self.reason_to_fail(exception, try_number, max_tries):
            return RetryDecision.fail(reason)
        delay = DELAYS[min(try_number, len(DELAYS)) - 1]
        progress.warning(
            "attempt %d of %d failed; the next one begins in %d s [MQDLQ-804]",
            try_number,
            max_tries + 1,
            delay.total_seconds(),
        )
        return RetryDecision.retry(delay, "a transient fault")

    def reason_to_fail(self, exception: BaseException, try_number: int, max_tries: int) -> str:
        """Return why the task does not run again after this exception, or "" if it does."""
        if not is_transient(exception):
            return "a lasting fault: another attempt would fail, too"
        if try_number > max_tries:
            return "this was the last attempt"
        if in_the_foreground() and not self.waits_for_people:
            return "a person who waits for it can start it again"
        return ""


def is_transient(exception: BaseException) -> bool:
    if any(_passes(each) for each in _chain(exception)):
        return True
    if isinstance(exception, MqDlqError | AirflowTaskTimeout):
        return False
    return REFUSED_BY_EVALUATION not in str(exception)


def _passes(exception: BaseException) -> bool:
    from sqlalchemy.exc import InterfaceError, OperationalError  # noqa: PLC0415 (after a failure)

    if isinstance(exception, QueueManagerError):
        return exception.reason in TRANSIENT
    if isinstance(exception, LedgerUnavailableError):
        return exception.is_transient
    passing = (AnotherExecutorError, UnfinishedRestorationError, ConnectionError, TimeoutError)
    return isinstance(exception, (*passing, InterfaceError, OperationalError))


def _chain(exception: BaseException | None) -> Iterator[BaseException]:
    """Yield the exception and what caused it, or what was being handled when it was raised.

    An invalid input stays invalid, also if another exception was being handled.
    """
    while exception is not None:
        yield exception
        is_alone = exception.__suppress_context__ or isinstance(exception, INVALID_INPUT)
        exception = exception.__cause__ or (None if is_alone else exception.__context__)
