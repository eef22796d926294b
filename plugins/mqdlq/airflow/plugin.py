"""The plugin of Airflow: its listener creates the missing pools of a DAG run.

The entry point `airflow.plugins` of the installed package names it. Where the package is only in
Airflow's folder of plugins, `mqdlq_plugin.py` beside it does.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from airflow.plugins_manager import AirflowPlugin

from mqdlq.airflow.listeners import pools as pool_listener


class MqdlqPlugin(AirflowPlugin):
    """Make the project known in Airflow's list of plugins, and have its pools made."""

    name = "mqdlq"
    listeners = [pool_listener]  # noqa: RUF012 (as Airflow declares it)


def has_entry_point() -> bool:
    """Return whether Airflow finds this plugin by its entry point.

    Airflow warns of a second plugin with the same name in each process, and lists it as an error.
    """
    return bool(entry_points(group="airflow.plugins", name=MqdlqPlugin.name))
