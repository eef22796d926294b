"""The project's plugin, where the package is in Airflow's folder of plugins and is not installed.

Airflow's plugin scan executes every file that it finds here under its bare name; .airflowignore
keeps it out of the package `mqdlq`, which is imported the ordinary way.
"""

from mqdlq import plugin

if not plugin.has_entry_point():
    MqdlqPlugin = plugin.MqdlqPlugin
