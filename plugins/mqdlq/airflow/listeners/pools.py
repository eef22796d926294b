"""Create the missing pools of a DAG run when it starts.

Airflow leaves a task without an existing pool scheduled without a limit, and reports that in the
scheduler's log only. Runs in the scheduler, as a listener of the plugin.
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
"""One slot runs one evaluation or execution at a time; an existing pool keeps its slots."""

log = logging.getLogger(__name__)


@hookimpl
def on_dag_run_running(dag_run: DagRun, msg: str) -> None:
    """Create the missing pools of a run of ours; leave other DAGs alone."""
    del msg
    if not dag_run.dag_id.startswith(OURS) or dag_run.dag is None:
        return
    for name in sorted({task.pool for task in dag_run.dag.tasks}):
        make_pool(name, dag_run.dag_id)


def make_pool(name: str, dag_id: str) -> bool:
    """Create a pool of one slot unless it exists; return whether it was created.

    Never raises: the scheduler calls this. Repeated calls, also by two schedulers, create one pool.
    """
    # Tasks load the plugin, too, and have no use for Airflow's models.
    from airflow.models.pool import Pool  # noqa: PLC0415
    from airflow.utils.session import create_session  # noqa: PLC0415

    try:
        # Not the scheduler's own session: a failure here must leave its transaction intact.
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
