"""The project's plugin of Airflow: the only file that Airflow's plugin scan executes.

The scan executes every file it finds here under its bare name; .airflowignore keeps it out of the
package `mqdlq`, which is imported the ordinary way.
"""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from mqdlq.airflow.listeners import pools as pool_listener


class MqdlqPlugin(AirflowPlugin):
    """Make the project known in Airflow's list of plugins, and have its pools made."""

    name = "mqdlq"
    listeners = [pool_listener]  # noqa: RUF012 (as Airflow declares it)
