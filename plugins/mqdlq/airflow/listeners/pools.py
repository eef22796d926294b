"""A DAG run that begins in, the pools its tasks name made where Airflow has none of the name.

Airflow leaves a task whose pool does not exist scheduled for ever, and says so in the scheduler's
log only. Runs in the scheduler, as a listener of the plugin.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from airflow.listeners import hookimpl
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError, OperationalError

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun

OURS: Final = "mq_dlq_"
SLOTS: Final = 1
"""What keeps evaluation and execution to one at a time; a pool that there is keeps its slots."""

log = logging.getLogger(__name__)


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:
    """Make the pools that a run of ours needs and Airflow has not; another DAG's are its own."""
    del msg
    if not dag_run.dag_id.startswith(OURS) or dag_run.dag is None:
        return
    for name in sorted({task.pool for task in dag_run.dag.tasks}):
        make_pool(name, dag_run.dag_id)


def make_pool(name: str, dag_id: str) -> bool:
    """Make a pool of one slot unless there is one of that name; return whether it was made.

    Never raises: the scheduler calls this. Run twice, or by two schedulers, it makes one pool.
    """
    # Tasks load the plugin, too, and have no use for Airflow's models.
    from airflow.models.pool import Pool  # noqa: PLC0415
    from airflow.utils.session import create_session  # noqa: PLC0415

    try:
        # Not the scheduler's own session: whatever fails here must leave its transaction whole.
        with create_session(scoped=False) as session:
            if session.scalar(select(Pool.id).where(Pool.pool == name)) is not None:
                return False
            about = f"One handler of a dead-letter queue at a time; made for {dag_id}"
            pool = Pool(pool=name, slots=SLOTS, description=about, include_deferred=False)
            session.add(pool)
    except IntegrityError:
        return False  # another scheduler was quicker
    except OperationalError as error:
        log.warning(
            "pool %s of %s does not exist and could not be created (%s); its tasks wait until"
            " `airflow pools set %s 1 %s` creates it [MQDLQ-801]",
            name,
            dag_id,
            error.orig,
            name,
            dag_id,
        )
        return False
    log.info("pool %s was made with one slot, for %s", name, dag_id)
    return True
