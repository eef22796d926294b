"""The DAG of each valid handler in MQDLQ_RULES_DIR: see `mqdlq.airflow.dags.handler_runs`."""

from mqdlq.airflow.dags import build_handler_dags

globals().update(build_handler_dags())
