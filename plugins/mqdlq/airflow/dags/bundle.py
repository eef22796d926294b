"""A DAG bundle that has the DAGs of handlers, for an Airflow without a DAG file of ours."""

import os
from pathlib import Path
from typing import Any, Final

from airflow.dag_processing.bundles.base import BaseDagBundle

from mqdlq import directories

_TEXT: Final = '''"""DAGs of mqdlq; HandlerBundle has written this file and replaces it."""

from mqdlq.airflow import handler_dags

globals().update(handler_dags({directory!r}))
'''


class HandlerBundle(BaseDagBundle):
    """Serve the DAGs of the handlers in a directory, without a DAG file.

    In Airflow's configuration::

        [dag_processor]
        dag_bundle_config_list = [
            {
                "name": "mqdlq",
                "kwargs": {"handlers": "/opt/airflow/handlers"},
                "classpath": "mqdlq.airflow.dags.bundle.HandlerBundle",
            }
        ]

    The bundle writes one DAG file, which calls `handler_dags`, to Airflow's storage of bundles on
    each host (`dag_bundle_storage_path`). Several processes may initialize or refresh it at once:
    all write the same file, which is complete at any time. It has no versions, because a run reads
    its rules when it starts, and keeps them in the ledger.

    :param handlers: the directory, an absolute path that the dag-processor, the workers and the
        triggerer can read; without it, MQDLQ_RULES_DIR names the directory for each process
    """

    supports_versioning = False

    def __init__(self, *, handlers: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._text = _TEXT.format(directory=handlers)

    @property
    def path(self) -> Path:
        return self.base_dir

    def initialize(self) -> None:
        self.refresh()
        super().initialize()

    def refresh(self) -> None:
        file = self.path / "mq_dlq.py"
        if file.is_file() and file.read_text(encoding="utf-8") == self._text:
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with directories.new_file(file) as written:
            written.write(self._text.encode())
            os.fchmod(written.fileno(), 0o644)

    def get_current_version(self) -> None:
        """Return None: the bundle has no versions."""
