"""Write the archive of this project for `spark-submit --py-files`.

    python spark/ship.py mqdlq.zip

    spark-submit --master … --py-files mqdlq.zip spark/evaluate_rules.py …

The driver needs Python with PyArrow, NumPy, fsspec, PyYAML and pydantic; the executors need
PyArrow, NumPy and fsspec, with what fsspec needs for the lake's location (s3fs for `s3://`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from mqdlq.evaluation.workers import write_archive

if __name__ == "__main__":
    write_archive(Path(sys.argv[1] if len(sys.argv) > 1 else "mqdlq.zip"))
