"""Shows in Airflow which handlers are not valid and so have no DAG, by file, line and column.

An Airflow import error takes all DAGs of its file out of use: the handlers that are valid have
theirs in mq_dlq.py, and this file raises the errors of the others.
"""

from mqdlq.airflow.dags.history import raise_faults

raise_faults()
