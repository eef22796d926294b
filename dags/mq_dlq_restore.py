"""The DAG that restores discarded messages: see `mqdlq.airflow.dags.restoring`."""

from __future__ import annotations

from mqdlq.airflow.dags import build_restore_dags

globals().update(build_restore_dags())
