"""Copy a DAG, with other names and settings: far faster than building its operators.

An operator costs Airflow half a millisecond, a thousand handlers have seven thousand of them, and
the dag-processor parses a file again and again. The DAGs of handlers differ in little.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, Final, Generic, TypeVar

from airflow.sdk import DAG, BaseOperator, TaskGroup
from airflow.sdk.definitions.param import ParamsDict

Kind = TypeVar("Kind")

GIVEN: Final = "_BaseOperator__init_kwargs"
"""Where an operator has the arguments that it was made with."""


class Original(Generic[Kind]):
    """An object of Airflow to copy, and those of its attributes that each copy needs for itself."""

    def __init__(self, whole: Kind) -> None:
        self.whole = whole
        self._own = [
            name for name, value in vars(whole).items() if isinstance(value, dict | list | set)
        ]

    def copy(self, **others: Any) -> Kind:
        """Return a copy with these attributes, which Airflow does not check."""
        attributes = vars(self.whole).copy()
        for name in self._own:
            attributes[name] = attributes[name].copy()
        attributes.update(others)
        twin = object.__new__(type(self.whole))
        object.__setattr__(twin, "__dict__", attributes)
        return twin


class Pattern:
    """A DAG from which others are copied.

    A copy shares nothing with it that a cluster policy could change: it has lists, sets, mappings
    and parameters of its own. Its attributes are set without Airflow's checks, as they are where
    Airflow copies an operator; those of the pattern have passed them. Its tasks have no parameters
    but the DAG's.
    """

    def __init__(self, dag: DAG) -> None:
        self.timetable = dag.timetable
        self._dag = Original(dag)
        self._tasks = [Original(task) for task in dag.tasks if isinstance(task, BaseOperator)]

    def copy(
        self, dag_id: str, of_dag: Mapping[str, Any], of_tasks: Mapping[str, Mapping[str, Any]]
    ) -> DAG:
        """Return a DAG that differs by its id, these attributes, and those of its tasks."""
        params = copy(self._dag.whole.params)
        dag = self._dag.copy(dag_id=dag_id, dag_display_name=dag_id, params=params, **of_dag)
        group = TaskGroup.create_root(dag)
        for original in self._tasks:
            task_id = original.whole.task_id
            own = {**of_tasks[task_id], "task_group": group, "params": ParamsDict()}
            given = {**vars(original.whole)[GIVEN], **own, "dag": dag}
            group.children[task_id] = original.copy(**own, _dag=dag, **{GIVEN: given})
        vars(dag).update(task_group=group, task_dict=dict(group.children))
        return dag


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep Python from looking for garbage, which a growing number of DAGs makes ever slower."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
