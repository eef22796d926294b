"""The code that Spark's workers need, sent to them: wherever they run, they need not have it."""

from __future__ import annotations

import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

import mqdlq
from value_masks import Batches

_MODULES: Final = ("value_masks.py", "bucket_digests.py")
_shipped: set[str] = set()


def asked_of_workers(rows: DataFrame, ask: Batches, schema: str) -> DataFrame:
    """Return what `ask` makes of batches of rows, which stay where they are."""
    _ship_code(rows.sparkSession)
    with warnings.catch_warnings():
        # PySpark looks at pandas, which is here through Airflow; nothing of this uses it.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        return rows.mapInArrow(ask, schema)


def _ship_code(spark: SparkSession) -> None:
    """Send the core and the matcher of values to the workers, once per application.

    They need Python with PyArrow and NumPy of their own, and nothing else of this project.
    """
    application = spark.sparkContext.applicationId
    if application in _shipped:
        return
    package = Path(mqdlq.__file__).parent
    if not package.is_dir():  # it runs from an archive given by --py-files, which they have, too
        _shipped.add(application)
        return
    archive = Path(tempfile.mkdtemp(prefix="mqdlq-")) / "mqdlq_core.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted([*package.rglob("*.py"), *package.glob("*.txt")]):
            file.write(module, Path("mqdlq") / module.relative_to(package))
        for name in _MODULES:
            file.write(Path(__file__).with_name(name), name)
    spark.sparkContext.addPyFile(str(archive))
    _shipped.add(application)
