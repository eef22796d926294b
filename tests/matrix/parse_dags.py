"""Execute DAG files in this environment; fail if one of them, or mqdlq, causes a warning.

Run as ``python parse_dags.py FILE…`` with the Python of a cell's environment.
"""

from __future__ import annotations

import runpy
import sys
import warnings
from pathlib import Path


def main() -> int:
    """Print each warning of ours; return 1 if there is one."""
    import mqdlq  # noqa: PLC0415 (its place is known without reading any DAG)

    ours = [str(Path(mqdlq.__file__ or "").parent), *sys.argv[1:]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for file in sys.argv[1:]:
            runpy.run_path(file)
    found = [each for each in caught if each.filename.startswith(tuple(ours))]
    for each in found:
        text = f"{each.filename}:{each.lineno}: {each.category.__name__}: {each.message}"
        sys.stdout.write(f"{text}\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
