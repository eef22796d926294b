"""The DAG that restores discarded messages: see `mqdlq.airflow.dags.restoring`."""

from mqdlq.airflow.dags import build_restore_dags

globals().update(build_restore_dags())
