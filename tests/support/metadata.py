"""Airflow's metadata in SQLite, made once in a test session: to make them takes seconds."""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

NAME = "airflow.db"
SETTINGS = "airflow.cfg"
"""Airflow writes it beside the metadata: it has the key that encrypts passwords."""


def lay_metadata(airflow_home: Path, shared: Path) -> None:
    """Copy new metadata, and Airflow's settings beside them, to a directory of Airflow.

    The first call makes them in `shared`; the worker processes of a session may call it at once.
    """
    shared.mkdir(exist_ok=True)
    made = shared / "home" / NAME
    with (shared / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not made.exists():
            kept = {name: one for name, one in os.environ.items() if not name.startswith("AIRFLOW")}
            subprocess.run(
                [sys.executable, "-m", "airflow", "db", "migrate"],
                env=kept | {"AIRFLOW_HOME": str(made.parent)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=True,
            )
    airflow_home.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(made, airflow_home / NAME)
    settings = (made.parent / SETTINGS).read_text(encoding="utf-8")
    (airflow_home / SETTINGS).write_text(settings.replace(str(made.parent), str(airflow_home)))
    (airflow_home / SETTINGS).chmod(0o600)
    (airflow_home / f".migrated-{importlib.metadata.version('apache-airflow-core')}").touch()
