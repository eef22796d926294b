"""Arrow without pandas, for processes that are ours alone."""

import sys

import pyarrow as pa


def keep_pandas_out() -> None:
    """Keep Arrow from importing pandas in this process, which would take it half a second.

    Arrow imports pandas, where it is installed, with the first array it makes, in case that is
    made from one of pandas' own. Afterwards Arrow takes pandas for missing: for processes that are
    wholly ours, not for those in which Airflow may call a user's notifier.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_NoPandas)


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
