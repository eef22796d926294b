"""Shows in Airflow which handlers are not valid and so have no DAG, by file, line and column.

An Airflow import error takes all DAGs of its file out of use: the handlers that are valid have
theirs in mq_dlq.py, and the faults of the others are this file's.
"""

from __future__ import annotations

from mqdlq.errors import HandlerError
from mqdlq.handlers import load_handlers

if faults := load_handlers()[1]:
    first, *others = faults
    raise HandlerError(first.error_id, "\n\n".join([first.text, *map(str, others)]))
