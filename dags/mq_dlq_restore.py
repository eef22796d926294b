"""The DAG that restores discarded messages: see `mqdlq.airflow.dags.restoring`."""

from __future__ import annotations

from mqdlq.airflow.dags import build_restore_dags
from mqdlq.handlers import load_handlers

globals().update(build_restore_dags(load_handlers()[0]))
