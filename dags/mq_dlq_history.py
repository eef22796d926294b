"""The DAG that writes the history: see `mqdlq.airflow.dags.history`."""

from mqdlq.airflow.dags.history import build_history_dag

dag = build_history_dag()
