"""Arrow in a process that is ours alone."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from mqdlq.lake.arrow import keep_pandas_out
keep_pandas_out()
import numpy, pyarrow as pa
assert pa.array(numpy.arange(3), mask=numpy.zeros(3, bool)).to_pylist() == [0, 1, 2]
assert "pandas" not in sys.modules
import pandas
keep_pandas_out()
assert sys.modules["pandas"] is pandas
"""


def test_arrow_imports_no_pandas_where_it_is_kept_out() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
