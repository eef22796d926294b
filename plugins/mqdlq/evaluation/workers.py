"""Write the archive of mqdlq for `spark-submit --py-files`.

    python -m mqdlq.evaluation.workers mqdlq.zip

The driver needs Python with PyArrow, NumPy, fsspec, PyYAML and pydantic; the executors need
PyArrow, NumPy and fsspec, with what fsspec needs for the lake's location (s3fs for `s3://`).
"""

import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame

import mqdlq

# Send this package to Spark's workers, which need not have it installed.

_shipped: set[str] = set()


def run_on_workers(
    rows: DataFrame,
    work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Return the results of `work` on batches of rows, which stay in their partitions."""
    ship_code(rows.sparkSession.sparkContext)
    with warnings.catch_warnings():
        # PySpark looks at pandas, which is here through Airflow; nothing of this uses it.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 (it warns)

        return rows.mapInArrow(work, from_arrow_schema(schema))


def ship_code(context: SparkContext) -> None:
    """Send the package to the workers, which need not have it, once for each application."""
    if context.applicationId in _shipped:
        return
    _shipped.add(context.applicationId)
    package = Path(mqdlq.__file__).parent
    if not package.is_dir():  # it runs from an archive given by --py-files, which they have, too
        return
    archive = Path(tempfile.mkdtemp(prefix="mqdlq-")) / "mqdlq_core.zip"
    write_archive(archive)
    context.addPyFile(str(archive))


def write_archive(archive: Path) -> None:
    package = Path(mqdlq.__file__).parent
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted([*package.rglob("*.py"), *package.rglob("*.txt")]):
            file.write(module, Path("mqdlq") / module.relative_to(package))


def main() -> None:
    write_archive(Path(sys.argv[1] if len(sys.argv) > 1 else "mqdlq.zip"))


if __name__ == "__main__":
    main()
