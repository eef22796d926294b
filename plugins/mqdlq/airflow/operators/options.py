"""A DAG run's parameters, and who or what has started it."""

from __future__ import annotations

from airflow.sdk import Context

from mqdlq import directories
from mqdlq.airflow.operators.base import BACKFILL, in_the_foreground
from mqdlq.airflow.params import fault, named_messages, wait_seconds
from mqdlq.errors import HandlerError
from mqdlq.handlers import Handler
from mqdlq.stages.run_options import RunOptions

TRIGGERED = "operator_triggered"
"""The run type of a run that a task has started."""

NOBODY = "somebody"
"""Airflow does not know the user, for example without an auth manager's login."""

SKIPPED = "which Airflow skips unless the backfill reprocesses completed runs"


def options_of(context: Context, handler: Handler) -> RunOptions:
    """Return the options of a DAG run; raises HandlerError for invalid parameters."""
    asked, dag_run = context["params"], context["dag_run"]
    run_type = dag_run.run_type.value
    if wrong := fault(dag_run.conf or {}):
        raise HandlerError("MQDLQ-115", wrong)
    if asked["apply"] and run_type != BACKFILL:
        raise HandlerError(
            "MQDLQ-116", f"apply is for backfills, and this is a {run_type} run; leave it out"
        )
    follows = asked.get("follows") or ""
    if follows and run_type != TRIGGERED and not in_the_foreground():
        raise HandlerError(
            "MQDLQ-191",
            f"follows is for the runs that a run with WAIT starts, and this is a {run_type} run;"
            " leave it out",
        )
    if follows and run_type == TRIGGERED and not dag_run.triggering_user_name:
        run_type = "scheduled"  # as the run that it follows
    # A backfill without `apply` evaluates only.
    only_evaluates = run_type == BACKFILL and not asked["apply"]
    return RunOptions(
        input_q=asked["input_q"],
        input_q_mgr=asked["input_q_mgr"],
        rules=asked["rules"],
        dry_run=asked["dry_run"] or handler.dry_run or only_evaluates,
        message_keys=named_messages(asked["message_keys"]),
        action=asked["action"],
        repair=asked.get("repair"),
        wait_s=wait_seconds(asked["wait"]),
        dag_run_id=dag_run.run_id,
        run_type=run_type,
        started_by=started_by(context),
        started_by_user=starting_user(context),
        why=(asked.get("why") or "").strip(),
        follows=follows,
    )


def starting_user(context: Context) -> str:
    """Return the name of the user who started the run as Airflow has it, "" without one.

    The answer to an approval has the user's name in the same form.
    """
    return "" if in_the_foreground() else context["dag_run"].triggering_user_name or ""


def started_by(context: Context) -> str:
    """Return the run's starter: a user and where, the schedule, a backfill, or an asset.

    A run that a task of another DAG has triggered carries that run's user. The run of a backfill
    over an interval that had a run names that run.
    """
    dag_run = context["dag_run"]
    user, kind = dag_run.triggering_user_name, dag_run.run_type.value
    if in_the_foreground():
        return f"{directories.account()} from the command line"
    if kind == "scheduled":
        return "the schedule"
    if kind == "asset_triggered":
        names = sorted({str(event.asset.name) for event in dag_run.consumed_asset_events})
        return f"the asset {', '.join(names)}" if names else "an asset"
    if kind == BACKFILL:
        over = f" over {dag_run.run_id}, {SKIPPED}" if dag_run.clear_number else ""
        return f"a backfill of {user or NOBODY}{over}"
    if kind == TRIGGERED:
        follows = context["params"].get("follows")
        starter = f"the WAIT of {follows}" if follows else "another DAG"
        return f"{starter}, for {user}" if user else starter
    return f"{user or NOBODY} in Airflow"
