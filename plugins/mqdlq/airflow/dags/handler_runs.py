"""Handles a dead-letter queue as IBM's `runmqdlq` does, by the same rules tables.

| task | does |
|---|---|
| sense | reads and freezes the rules; if the queue needs no handling, only `report` follows |
| snapshot | browses the queue into the lake; every message stays where it is |
| evaluate | decides in Spark what to do with each message |
| approve | checks the plan, summarizes it, and asks for approval if a guard requires it |
| execute | acts on the plan, each message in the unit of work that puts it elsewhere |
| retry | repeats failed attempts every RETRYINT; settles the account |
| report | reports the outcome of every message; fails if a task before it failed |

Run it with the defaults to handle the queue, or with `dry_run` to see the plan without acting. Any
task may be cleared and run again: the ledger records each completed action, and no task repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import (
    DAG,
    Asset,
    AssetAll,
    AssetWatcher,
    CronDataIntervalTimetable,
    Param,
    TriggerRule,
    chain,
)
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.definitions.timetables.assets import AssetTriggeredTimetable

from mqdlq.airflow.copying import Pattern
from mqdlq.airflow.links import paths_on_host
from mqdlq.airflow.operators.base import asset, result_of
from mqdlq.airflow.operators.stages import POLL_S, Approve, Execute, Report, Retry, Sense, Snapshot
from mqdlq.airflow.params import SCHEMAS, form
from mqdlq.airflow.retries import RETRY_DELAY, RetryTransient
from mqdlq.airflow.triggers.arrival import ArrivalTrigger
from mqdlq.errors import HandlerError
from mqdlq.evaluation.spark_conf import application, submit_conf, submit_environment, templated_conf
from mqdlq.handlers import Handler
from mqdlq.reading.page_paths import dag_of

if TYPE_CHECKING:
    from mqdlq.airflow.operators.submit import Submit


def page(handler: Handler, workflow: str, pool: str) -> str:
    """Return Markdown: a link to the operator's page, what the workflow does, then the settings."""
    rules = f"`{handler.rules}`" if handler.rules else f"the table in `{handler.name}.yaml`"
    schedule = f"`{handler.schedule}` (UTC)" if handler.schedule else "none: run by hand"
    return f"""\
**[Dead letters of {handler.name}]({paths_on_host().handler(handler.name)})**

{workflow.strip()}

## This handler: `{handler.name}`

| | |
|---|---|
| connection | `{handler.connection}` |
| rules | {rules} |
| schedule | {schedule} |
| runs at once | {handler.runs_at_once} |
| state queue | `{handler.state_queue}` |
| attempts counted | {handler.count_attempts.replace("_", " ")} |
| retrying ends after | {handler.max_run_time} |
| a plan may be acted on for | {handler.max_plan_age} |
| pool | `{pool}` |

Its file is `{handler.name}.yaml`; the rules are read when a run starts and hold to its end.
"""


# Choose the schedule of a handler's DAG: none, a timetable, or a watched asset.

LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""A DAG's `start_date` under @continuous.

Without one the interval of the first continuous run begins and ends at one moment. The next
interval begins where the last has ended, so the second run would have the first one's logical date,
and Airflow would skip every later run: "run already exists; skipping dagrun creation".
"""


def schedule_of(handler: Handler, directory: Path | None = None) -> Any:
    """Return what Airflow takes as a DAG's `schedule`.

    The intervals of a cron schedule go each from one start to the next, so that a backfill knows
    its snapshots. `directory` is where the triggerer reads the handler's files, None for
    MQDLQ_RULES_DIR.
    """
    if handler.schedule is None or handler.is_continuous:
        return handler.schedule
    if not handler.is_by_event:
        return CronDataIntervalTimetable(handler.schedule, timezone="UTC")
    name = f"mq_dlq_{handler.name}.arrivals"
    trigger = ArrivalTrigger(handler=handler.name, poll_s=POLL_S, directory=directory)
    watcher = AssetWatcher(name=name, trigger=trigger)
    return [Asset(name=name, uri=f"mqdlq://{handler.name}/arrivals", watchers=[watcher])]


# Tasks that submit a Spark application of mqdlq.


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


def build_handler_dag(
    handler: Handler, pool: str, directory: Path | None, patterns: dict[Any, Pattern] | None = None
) -> DAG:
    """Return the DAG that runs a handler; its evaluations and passes take slots from `pool`.

    `directory` is where tasks and triggers read the handler's files, None for MQDLQ_RULES_DIR. The
    DAG is copied from one among `patterns` that differs only in what each handler has of its own.
    """
    schedule, of_tasks = schedule_of(handler, directory), _of_tasks(handler, pool)
    of_dag: dict[str, Any] = {
        "description": f"Handles the dead-letter queue behind connection {handler.connection}",
        "doc_md": page(handler, __doc__ or "", pool),
    }
    shape = (
        type(schedule),
        handler.is_continuous,
        handler.runs_at_once,
        handler.owner,
        handler.task_retries,
        handler.tags,
        handler.explain,
        handler.evaluate_timeout,
    )
    patterns = {} if patterns is None else patterns
    if (pattern := patterns.get(shape)) is None:
        dag = _build(handler, schedule, of_dag, of_tasks, directory)
        patterns[shape] = Pattern(dag)
        return dag
    timetable = pattern.timetable
    if handler.has_intervals:
        timetable = schedule
    elif handler.is_by_event:
        timetable = AssetTriggeredTimetable(AssetAll(*schedule))
    others = {**of_dag, "schedule": schedule, "timetable": timetable}
    return pattern.copy(dag_of(handler.name), others, of_tasks)


def _of_tasks(handler: Handler, pool: str) -> dict[str, dict[str, Any]]:
    """Return what each task has of its own handler, in the order of the tasks."""
    name, one_at_a_time = handler.name, {"handler": handler.name, "pool": pool}
    return {
        "sense": {"handler": name},
        "snapshot": {"handler": name, "outlets": [asset(name, "snapshot")]},
        "evaluate": {"name": dag_of(name), **one_at_a_time},
        "approve": {"handler": name, "outlets": [asset(name, "plan")]},
        "execute": one_at_a_time,
        "retry": one_at_a_time,
        "report": {"handler": name, "outlets": [asset(name, "report")]},
    }


def _build(
    handler: Handler,
    schedule: Any,
    of_dag: dict[str, Any],
    of_tasks: dict[str, dict[str, Any]],
    directory: Path | None,
) -> DAG:
    own: dict[str, dict[str, Any]] = {
        task: {"task_id": task, "directory": directory, **others}
        for task, others in of_tasks.items()
    }
    del own["evaluate"]["directory"]
    at_once = RetryTransient(waits_for_people=False)
    with DAG(
        dag_of(handler.name),
        schedule=schedule,
        **of_dag,
        start_date=LONG_AGO if handler.is_continuous else None,
        catchup=False,
        max_active_runs=handler.runs_at_once,
        user_defined_macros={"submit_conf": submit_conf, "result_of": result_of},
        default_args={
            "owner": handler.owner,
            "retries": handler.task_retries,  # every task is safe to run again
            "retry_policy": RetryTransient(),
            "retry_delay": RETRY_DELAY,
        },
        tags=["mq", "dead-letter-queue", *handler.tags],
        auto_register=False,
    ) as dag:
        chain(
            Sense(retry_policy=at_once, **own["sense"]),
            Snapshot(**own["snapshot"]),
            spark_task(
                program="evaluate_rules",
                arguments=[
                    "--snapshot",
                    "{{ result_of(ti, 'snapshot')['snapshot'] }}",
                    "--plan",
                    "{{ result_of(ti, 'snapshot')['plan'] }}",
                    *(["--explain"] if handler.explain else []),
                ],
                messages="result_of(ti, 'snapshot')['messages']",
                execution_timeout=handler.evaluate_timeout,
                max_active_tis_per_dag=1,
                **own["evaluate"],
            ),
            Approve(**own["approve"]),
            # One at a time, however many runs overlap, even in a pool with more slots. A retry that
            # is deferred would count there, and keep those of other runs from their passes.
            Execute(max_active_tis_per_dag=1, **own["execute"]),
            Retry(**own["retry"]),
            Report(retry_policy=at_once, trigger_rule=TriggerRule.ALL_DONE, **own["report"]),
        )
    dag.params = params_of(SCHEMAS)
    return dag


def params_of(schemas: Mapping[str, dict[str, Any]]) -> ParamsDict:
    """Return the parameters of a DAG, to be set after its tasks.

    Each task would get a deep copy of parameters that its DAG has before: half of the time of a
    parse. A task instance takes them from the DAG.
    """
    return ParamsDict({key: Param(**schema) for key, schema in form(schemas).items()})
