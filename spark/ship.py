"""What a cluster needs of this project: a path in, an archive for `--py-files` out.

    python spark/ship.py mqdlq.zip

    spark-submit --master … --py-files mqdlq.zip spark/evaluate_rules.py …

The driver needs Python with PyArrow, NumPy, fsspec and PyYAML; the executors need PyArrow and
NumPy.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import mqdlq


def write_archive(archive: Path) -> None:
    """Write the package and the modules beside this one into an archive."""
    package, here = Path(mqdlq.__file__).parent, Path(__file__).parent
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted([*package.rglob("*.py"), *package.rglob("*.txt")]):
            file.write(module, Path("mqdlq") / module.relative_to(package))
        for module in sorted(here.glob("*.py")):
            file.write(module, module.name)


if __name__ == "__main__":
    write_archive(Path(sys.argv[1] if len(sys.argv) > 1 else "mqdlq.zip"))
