"""Copy a DAG, with other names and settings: far faster than building its operators.

An operator costs Airflow half a millisecond, a thousand handlers have seven thousand of them, and
the dag-processor parses a file again and again. The DAGs of handlers differ in little.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any, Final

from airflow.sdk import DAG
from airflow.sdk.definitions.param import ParamsDict

GIVEN: Final = "_BaseOperator__init_kwargs"
"""Where an operator has the arguments that it was made with."""


class Original:
    """An object of Airflow to copy, and those of its attributes that each copy needs for itself."""

    def __init__(self, whole: object) -> None:
        self._kind, self._has_slots = type(whole), not vars(whole)
        slots = getattr(self._kind, "__slots__", ()) if self._has_slots else ()
        self._attributes = vars(whole) | {name: getattr(whole, name) for name in slots}
        self.given: Mapping[str, Any] = self._attributes.get(GIVEN, {})
        self._own = [
            name
            for name, value in self._attributes.items()
            if isinstance(value, dict | list | set) and name != GIVEN
        ]

    def copy(self, others: Mapping[str, Any]) -> Any:
        """Return a copy with these attributes, which Airflow does not check."""
        attributes = {**self._attributes, **others}
        for name in self._own:
            attributes[name] = attributes[name].copy()
        twin = object.__new__(self._kind)
        for name, value in (attributes if self._has_slots else {"__dict__": attributes}).items():
            object.__setattr__(twin, name, value)
        return twin


class Pattern:
    """A DAG from which others are copied.

    A copy shares nothing with it that a cluster policy could change: it has lists, sets, mappings
    and parameters of its own. Its attributes are set without Airflow's checks, as they are where
    Airflow copies an operator; those of the pattern have passed them. Its tasks have no parameters
    but the DAG's.
    """

    def __init__(self, dag: DAG) -> None:
        self.timetable, self._params = dag.timetable, dag.params
        self._dag, self._group = Original(dag), Original(dag.task_group)
        self._tasks = {task.task_id: Original(task) for task in dag.tasks}

    def copy(
        self, dag_id: str, of_dag: Mapping[str, Any], of_tasks: Mapping[str, Mapping[str, Any]]
    ) -> DAG:
        """Return a DAG that differs by its id, these attributes, and those of its tasks."""
        names = {"dag_id": dag_id, "dag_display_name": dag_id, "params": copy(self._params)}
        dag: DAG = self._dag.copy({**of_dag, **names})
        group = self._group.copy({"dag": dag})
        for task_id, original in self._tasks.items():
            own = {**of_tasks[task_id], "task_group": group, "params": ParamsDict()}
            given = {**original.given, **own, "dag": dag}
            group.children[task_id] = original.copy({**own, "_dag": dag, GIVEN: given})
        vars(dag).update(task_group=group, task_dict=dict(group.children))
        return dag


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep Python from looking for garbage, which a growing number of DAGs makes ever slower.

    Python never looks at what has been made by then: a process parses once, and ends.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
