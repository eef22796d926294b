"""A task that submits a Spark application, and knows why the application failed."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context

from mqdlq.airflow.operators.base import HandlerTask
from mqdlq.evaluation.spark_conf import check_pyspark
from mqdlq.failures import Failure


class Submit(HandlerTask, SparkSubmitOperator):
    """Submit an application, which leaves why it failed in a file that this task names.

    The driver runs in the task (`deploy-mode` `client`). Run twice, it submits twice: the
    evaluation finds a plan that is finished, and the history is written again.
    """

    _failure: Failure | None = None

    def execute(self, context: Context) -> None:
        check_pyspark()
        with TemporaryDirectory(prefix="mqdlq-") as directory:
            file = Path(directory) / f"{self.task_id}.json"
            self.application_args = [*(self.application_args or []), "--failure", str(file)]
            try:
                super().execute(context)
            finally:
                if file.exists():
                    self._failure = Failure(**json.loads(file.read_text(encoding="utf-8")))

    def describe_failure(self, error: BaseException) -> Failure:
        """Return why the application failed or, if it has left no word, this task."""
        return self._failure or super().describe_failure(error)
