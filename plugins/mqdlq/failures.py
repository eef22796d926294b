"""Say in words why a task of a run failed, without any text that may hold data of messages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mqdlq import directories
from mqdlq.causes import advice_on
from mqdlq.error_catalogue import entries, without_links
from mqdlq.errors import MqDlqError, QueueManagerError

_ID: Final = re.compile(r"\[(MQDLQ-\d+)\]$")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task of a run failed.

    `why` is the text of the error, of one or more lines, with its `error_id` at the end of the
    first; `next_step` is what to do about it. Either of the last two is "" if there is none.
    """

    task: str
    why: str
    error_id: str = ""
    next_step: str = ""

    @property
    def summary(self) -> str:
        return f"stage {self.task} failed: {self.why.splitlines()[0]}"


def describe(task: str, error: BaseException) -> Failure:
    """Return why a task failed with an exception.

    The texts of this project's errors, of the operating system's and of a missing connection are
    known to be safe. Of any other exception only the class is named.
    """
    for each in _causes(error):
        if why := _safe_text(each):
            break
    else:
        each, kind = error, type(error)
        why = (
            f"an unexpected {kind.__module__}.{kind.__qualname__}, whose words may hold data of"
            f" messages; the log of task {task} in Airflow has them [MQDLQ-335]"
        )
    found = _ID.search(why.splitlines()[0])
    error_id = found[1] if found else ""
    return Failure(task, why, error_id, _next_step(error_id, each))


def left_no_word(task: str) -> Failure:
    """Return what is known of a task that failed, and has not said why."""
    why = (
        "it was stopped, marked as failed by a person, or its process ended before it could say"
        f" why; see the log of task {task} in Airflow [MQDLQ-850]"
    )
    return Failure(task, why, "MQDLQ-850", entries()["MQDLQ-850"].do)


def _next_step(error_id: str, error: BaseException) -> str:
    if isinstance(error, QueueManagerError) and (advice := advice_on(error.reason)).meaning:
        return f"{advice.advice}; then clear the task, or run the handler again"
    known = entries().get(error_id)
    return without_links(known.do) if known is not None else ""


def _safe_text(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, MqDlqError):
        return str(error)
    if isinstance(error, OSError):
        return directories.explain(error)
    if name == "AirflowNotFoundException":
        return f"{error}; define it, or correct the handler's key `connection` [MQDLQ-166]"
    if name == "AirflowTaskTimeout":
        return "it ran longer than its time limit allows [MQDLQ-851]"
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
