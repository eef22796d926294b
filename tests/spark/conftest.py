"""One SparkSession for all tests of the evaluation."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from mqdlq.evaluation.spark_conf import LARGE_FROM, submit_conf, submit_environment


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """Return a local session with the configuration the DAG submits with."""
    # py4j logs its farewell when the interpreter ends, after the handlers are closed.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # At length, as large snapshots are evaluated: with generated code.
    at_length = bool(os.environ.get("MQDLQ_SPARK_EQUALITY"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in submit_environment().items():
            patch.setenv(name, value)
        from pyspark.sql import SparkSession  # noqa: PLC0415 (its warnings obey the environment)

        builder = SparkSession.builder.master("local[2]").appName("tests")
        for name, value in (submit_conf(LARGE_FROM) if at_length else submit_conf(0)).items():
            builder = builder.config(name, value)
        # The JVM starts here, and hands its environment on to Spark's workers.
        session = builder.getOrCreate()
    yield session
    session.stop()
