"""Write the archive of mqdlq for `spark-submit --py-files`.

    python -m mqdlq.evaluation.ship mqdlq.zip

The driver needs Python with PyArrow, NumPy, fsspec, PyYAML and pydantic; the executors need
PyArrow, NumPy and fsspec, with what fsspec needs for the lake's location (s3fs for `s3://`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from mqdlq.evaluation.workers import write_archive


def main() -> None:
    """Write the archive to the file that the first argument names, or to mqdlq.zip."""
    write_archive(Path(sys.argv[1] if len(sys.argv) > 1 else "mqdlq.zip"))


if __name__ == "__main__":
    main()
