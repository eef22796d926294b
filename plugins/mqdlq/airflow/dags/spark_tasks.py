"""Tasks that submit a Spark application of mqdlq."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mqdlq.errors import HandlerError
from mqdlq.evaluation.spark_conf import application, submit_environment, templated_conf

if TYPE_CHECKING:
    from mqdlq.airflow.operators.submit import Submit


def spark_task(
    task_id: str, program: str, arguments: list[str], messages: str, **kwargs: Any
) -> Submit:
    """Return a task that submits `program` with arguments.

    `messages` is a template expression for the number of messages, by which Spark is configured;
    the DAG needs the macro `submit_conf`. Raises HandlerError if Airflow's provider for Spark is
    not installed.
    """
    try:
        from mqdlq.airflow.operators.submit import Submit  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise HandlerError(
            "MQDLQ-312",
            f"{error.name} is not installed, and the evaluation of rules needs it; `pip install"
            " 'mqdlq[spark]'` installs it",
        ) from None
    return Submit(
        task_id=task_id,
        application=str(application(program)),
        application_args=arguments,
        conf=templated_conf(messages),
        env_vars=submit_environment(),
        **kwargs,
    )
